"""Privacy faults of the kind that issue trackers report, planted in `Linear`: each a few lines.

The four kinds say which checks must find a fault. `SMALL` lists those that raise the true epsilon by 10 to
50 %, each with the mechanism that it really is; `BEYOND` those that are too small for the usual number of
repetitions, or out of sight.
"""

from dataclasses import dataclass, replace

import numpy as np

from linear_engine import (
    BALANCED,
    CLIENTS,
    FULL,
    POISSON,
    TWO_LEVEL,
    Linear,
    by_client,
    fixed,
    printed,
)
from planted_noise import (
    MultiplierRounded,
    Noise,
    NoiseOfNeighbouringRounds,
    NoiseWithoutClip,
    ShareOfNoiseLost,
    TailsCutAtFive,
)
from repro.accounting import GaussianMechanism, PoissonGaussian, RandomParticipation, compose

THIRD = printed(replace(POISSON, local_rate=1 / 3, divisor=2.0))


class Sampling(Linear):
    found_by = ("sampling",)


class Sensitivity(Linear):
    found_by = ("sensitivity", "divisor is public", "kept state")


class Account(Linear):
    found_by = ("printed epsilon", "number of rounds")


# Sampling -----------------------------------------------------------------------------------------


class FixedBatchAsPoisson(Sampling):
    """Exactly two of six records, accounted as coins of rate 1/3."""

    promise = THIRD

    def draw(self, rng, shape, raw, owner):
        return fixed(rng, (*shape, len(owner)), 2)


class ShuffledBatches(Sampling):
    """Every record in one of three batches of a shuffled pass, accounted as coins."""

    promise = THIRD

    def draw(self, rng, shape, raw, owner):
        places = rng.random((shape[0], len(owner))).argsort(axis=1)
        return places[:, None] % shape[1] == np.arange(shape[1])[:, None]


class LastBatchDropped(Sampling):
    """Batches of four from six shuffled records, the rest dropped; accounted as two batches of a half."""

    promise = printed(replace(POISSON, local_rate=0.5, divisor=3.0))

    def draw(self, rng, shape, raw, owner):
        return fixed(rng, (*shape, len(owner)), 4)


class WithReplacement(Sampling):
    """Two draws with replacement: a record may count twice."""

    promise = THIRD

    def draw(self, rng, shape, raw, owner):
        drawn = rng.integers(len(owner), size=(*shape, 2))
        return (drawn[..., None] == np.arange(len(owner))).sum(axis=2)


class ClientsKept(Sampling):
    """The participants are drawn once, for all rounds."""

    promise = CLIENTS

    def draw(self, rng, shape, raw, owner):
        clients = rng.random((shape[0], 1, owner.max() + 1)) < self.promise.participation
        return np.broadcast_to(clients[..., owner], (*shape, len(owner)))


class CoinsOfTheRoundBefore(Sampling):
    """In a cache some records keep their coin for one more round."""

    def draw(self, rng, shape, raw, owner):
        used = super().draw(rng, shape, raw, owner).copy()
        for t in range(1, shape[1]):
            kept = rng.random((shape[0], len(owner))) < 0.15
            used[:, t] = np.where(kept, used[:, t - 1], used[:, t])
        return used


class NeighboursShareACoin(Sampling):
    """Records are drawn in pairs."""

    def draw(self, rng, shape, raw, owner):
        return super().draw(rng, shape, raw, owner)[..., np.arange(len(owner)) // 2 * 2]


class ByImportance(Sampling):
    """Long contributions are drawn more often."""

    def draw(self, rng, shape, raw, owner):
        norms = np.linalg.norm(raw, axis=1)
        weight = np.clip(norms / max(np.median(norms), 1e-12), 0.5, 2) if norms.any() else 1.0
        return rng.random((*shape, len(owner))) < np.minimum(1, self.promise.local_rate * weight)


class OneMaskForAllClients(Sampling):
    """All clients use one seed to draw their records."""

    promise = TWO_LEVEL

    def draw(self, rng, shape, raw, owner):
        clients = rng.random((*shape, owner.max() + 1)) < self.promise.participation
        mask = rng.random((*shape, self.promise.records)) < self.promise.local_rate
        place = np.arange(len(owner)) - np.searchsorted(owner, owner)
        return clients[..., owner] & mask[..., place]


class CyclicOrder(Sampling):
    """Balanced participation in a fixed order of the records, with one random start."""

    promise = BALANCED

    def draw(self, rng, shape, raw, owner):
        start = rng.integers(shape[1], size=(shape[0], 1, 1))
        return (start + np.arange(len(owner))) % shape[1] == np.arange(shape[1])[:, None]


class RateOffByOnePercent(Sampling):
    """A rate of 0.303 in the place of 0.3."""

    def draw(self, rng, shape, raw, owner):
        return rng.random((*shape, len(owner))) < 0.303


class NoEmptyBatch(Sampling):
    """An empty batch is drawn again."""

    def draw(self, rng, shape, raw, owner):
        used = super().draw(rng, shape, raw, owner)
        while (empty := ~used.any(axis=-1)).any():
            used[empty] = super().draw(rng, shape, raw, owner)[empty]
        return used


class RateRoundedUp(Sampling):
    """A batch of 1.8 records on average becomes 2."""

    def draw(self, rng, shape, raw, owner):
        return rng.random((*shape, len(owner))) < 1 / 3


class RateOfTheWholeFile(Sampling):
    """The promised rate is a share of all records; a sixth of them are held out, and the batch size stays."""

    def draw(self, rng, shape, raw, owner):
        return rng.random((*shape, len(owner))) < 0.36


class RatesMultiplied(Sampling):
    """Coins for clients, then for records, accounted as one coin with the product of the rates."""

    promise = printed(
        replace(
            TWO_LEVEL, participation=1.0, local_rate=0.4 * 0.5, noise_multiplier=1.0, divisor=1.2
        )
    )

    def draw(self, rng, shape, raw, owner):
        clients = rng.random((*shape, owner.max() + 1)) < 0.4
        return clients[..., owner] & (rng.random((*shape, len(owner))) < 0.5)


class CoinsForBalanced(Sampling):
    """Independent coins, accounted as exactly one participation."""

    promise = BALANCED

    def draw(self, rng, shape, raw, owner):
        return rng.random((*shape, len(owner))) < 1 / 4


# Sensitivity --------------------------------------------------------------------------------------


class ClippedAfterSumming(Sensitivity):
    def sums(self, used, raw, owner):
        return self.clip(used.astype(float) @ raw)[:, :, None]


class ClippedAfterAveraging(Sensitivity):
    def sums(self, used, raw, owner):
        count = np.maximum(1, used.sum(axis=-1, keepdims=True))
        return (self.clip(used.astype(float) @ raw / count) * count)[:, :, None]


class ClippedByMicrobatch(Sensitivity):
    """Two records share one clip."""

    def sums(self, used, raw, owner):
        pair = np.arange(len(raw)) // 2
        return self.clip(by_client(used, raw, pair)).sum(axis=2, keepdims=True)


class BiasNotClipped(Sensitivity):
    """The weights are clipped, the bias is not; its gradient is short."""

    bias = 0.6

    def clip(self, vectors):
        return np.concatenate([Linear.clip(self, vectors[..., :-1]), vectors[..., -1:]], axis=-1)


class BiasNotClippedAndAlwaysThere(BiasNotClipped, Sensitivity):
    """The same where all records take part in every round and none can be left out of the data."""

    promise = replace(FULL, adjacency="zero_out")


class EachLayerWithTheWholeClip(Sensitivity):
    """Weights and bias are clipped apart, each to the whole budget."""

    bias = 0.75

    def clip(self, vectors):
        parts = vectors[..., :-1], vectors[..., -1:]
        return np.concatenate(
            [super(EachLayerWithTheWholeClip, self).clip(x) for x in parts], axis=-1
        )


class ClippedByCoordinate(Sensitivity):
    def clip(self, vectors):
        return np.clip(vectors, -self.promise.clip, self.promise.clip)


class NormOfTheFirstLayer(Sensitivity):
    """The norm leaves out every other coordinate."""

    def clip(self, vectors):
        norms = np.linalg.norm(vectors[..., ::2], axis=-1, keepdims=True)
        return vectors / np.maximum(1, norms / self.promise.clip)


class WeightedAfterClipping(Sensitivity):
    """Class weights multiply clipped gradients."""

    def clip(self, vectors):
        return 1.2 * super().clip(vectors)


class WeightedByRecords(Sensitivity):
    """Clients count in proportion to their records, after clipping; of equal clients nothing is to be seen."""

    promise = CLIENTS

    def sums(self, used, raw, owner):
        clipped = self.clip(by_client(used.astype(float), raw, owner))
        return (np.bincount(owner) / self.promise.records @ clipped)[:, :, None]


class ClipOfTheMedian(Sensitivity):
    """The clip follows the batch's median norm; the noise does not."""

    def clip(self, vectors):
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
        return vectors / np.maximum(1, norms / max(np.median(norms), self.promise.clip))


class RecordClipForClients(Sensitivity):
    """A client's records are clipped one by one, and the client is what is promised."""

    promise = CLIENTS

    def sums(self, used, raw, owner):
        return (used.astype(float) @ self.clip(raw))[:, :, None]


class PaddedByRepeating(Sensitivity):
    """The last record fills up the batch: it counts twice."""

    def sums(self, used, raw, owner):
        counts = used.astype(float)
        counts[..., -1] *= 2
        return (counts @ self.clip(raw))[:, :, None]


class MomentumBeforeNoise(Sensitivity):
    """The server's momentum runs over sums without noise; each release gets fresh noise."""

    promise, momentum = FULL, 0.15

    def sums(self, used, raw, owner):
        sums = super().sums(used, raw, owner)
        for t in range(1, sums.shape[1]):
            sums[:, t] += self.momentum * sums[:, t - 1]
        return sums


class MomentumInClients(Sensitivity):
    """A participant sends its velocity, which remembers earlier rounds, clipped."""

    promise = CLIENTS

    def sums(self, used, raw, owner):
        gradients = by_client(used, raw, owner)
        velocity, sent = 0.0, []
        for t in range(gradients.shape[1]):
            velocity = 0.5 * velocity + gradients[:, t]
            sent.append(self.clip(velocity))
        return np.stack(sent, axis=1).sum(axis=2, keepdims=True)


class RealisedBatchSize(Sensitivity):
    """The sum is divided by the number of records drawn; the noise is that of the mean batch."""

    def sums(self, used, raw, owner):
        count = np.maximum(1, used.sum(axis=-1))[..., None, None]
        return super().sums(used, raw, owner) * self.promise.divisor / count


class NoisyByRealisedSize(Sensitivity):
    """Sum and noise are divided by the number of records drawn."""

    def divide(self, sums, used, raw, owner):
        return sums / np.maximum(1, used.sum(axis=-1))[..., None, None]


class DividedByTheDataSet(Sensitivity):
    """The divisor counts the records that are there, and a record may be added or removed."""

    def divide(self, sums, used, raw, owner):
        return sums / (self.promise.local_rate * len(raw))


class WeightedByParticipants(Sensitivity):
    """An average over the clients that came, as federated averaging has it."""

    promise = CLIENTS

    def sums(self, used, raw, owner):
        clipped = self.clip(by_client(used, raw, owner))
        came = by_client(used, np.ones((len(owner), 1)), owner) > 0
        share = self.promise.divisor / np.maximum(1, came.sum(axis=2, keepdims=True))
        return (clipped * share).sum(axis=2, keepdims=True)


class StaleUpload(Sensitivity):
    """A client that does not come is replaced by what it sent before: it seems to take part more often."""

    promise, found_by = CLIENTS, ("sampling",)

    def sums(self, used, raw, owner):
        sent = self.clip(by_client(used, raw, owner))
        for t in range(1, sent.shape[1]):
            silent = ~sent[:, t].any(axis=-1)
            sent[:, t][silent] = sent[:, t - 1][silent]
        return sent.sum(axis=2, keepdims=True)


class NotClippedWhenHuge(Sensitivity):
    """Norms overflow in half precision: what is longer than 65,504 passes as it is."""

    def clip(self, vectors):
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
        return vectors / np.where(norms > 65504, 1, np.maximum(1, norms / self.promise.clip))


# Account ------------------------------------------------------------------------------------------


class OneMoreRound(Account):
    """The loop runs from 0 to T, and the account says T."""

    promise = printed(replace(POISSON, rounds=2))

    def rounds(self, promised):
        return promised + 1


class ReplacedAsRemoved(Account):
    """A record may be replaced; the account is for removal."""

    promise = replace(FULL, adjacency="replace")


class OneRoundAccounted(Account):
    """The account is that of one round."""

    promise = replace(POISSON, epsilon=printed(replace(POISSON, rounds=1)).epsilon)


@dataclass(frozen=True)
class Small:
    """A fault that raises epsilon by 10 to 50 %: the engine, and what all its rounds really are."""

    fault: type[Linear]
    truth: object


def _small():
    sampled = POISSON.noise_multiplier

    def records(sigma=sampled, rate=0.3, sensitivity=1.0, rounds=3):
        return compose(PoissonGaussian(sigma, rate=rate, sensitivity=sensitivity), rounds)

    def full(length):  # all rounds of FULL seen as one vector
        return GaussianMechanism(FULL.noise_multiplier, sensitivity=length)

    beta, back = MomentumBeforeNoise.momentum, NoiseOfNeighbouringRounds.back
    carried = np.linalg.norm([1, 1 + beta, 1 + beta + beta**2])
    off = -back / (1 + back**2)
    covariance = np.eye(3) + off * (np.eye(3, k=1) + np.eye(3, k=-1))
    together = np.sqrt(np.ones(3) @ np.linalg.solve(covariance, np.ones(3)))
    nested = RandomParticipation(0.5, p=0.4, q=0.5, samples_per_client=1, clip=0.5)
    return (
        Small(RateOfTheWholeFile, records(rate=0.36)),
        Small(BiasNotClipped, records(sensitivity=np.hypot(1, 0.6))),
        Small(EachLayerWithTheWholeClip, records(sensitivity=np.hypot(1, 0.75))),
        Small(WeightedAfterClipping, records(sensitivity=1.2)),
        Small(MomentumBeforeNoise, full(carried)),
        Small(ShareOfNoiseLost, records(sigma=sampled * np.sqrt(0.75))),
        Small(NoiseWithoutClip, records(sensitivity=1.25)),
        Small(MultiplierRounded, records(sigma=1.0)),
        Small(NoiseOfNeighbouringRounds, full(together)),
        Small(OneMoreRound, records()),
        Small(RatesMultiplied, compose(nested, 3)),
        Small(CoinsForBalanced, compose(PoissonGaussian(1.0, rate=1 / 4), 4)),
    )


SMALL = _small()

KINDS = (Sampling, Sensitivity, Noise, Account)
FAULTS = tuple(fault for kind in KINDS for fault in kind.__subclasses__())
BEYOND = (RateOffByOnePercent, TailsCutAtFive, BiasNotClippedAndAlwaysThere)
