"""Privacy faults of the kind that issue trackers report, planted in `Linear`: each a few lines.

The four kinds say which checks must find a fault. `SMALL` lists those that raise the true epsilon by 10 to
50 %, each with the mechanism that it really is; `BEYOND` those that are too small for the usual number of
repetitions, or out of sight.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import erfinv

from linear_engine import (
    BALANCED,
    CLIENTS,
    FULL,
    POISSON,
    TWO_LEVEL,
    UPLOADS,
    Linear,
    by_client,
    fixed,
    printed,
)
from repro.accounting import GaussianMechanism, PoissonGaussian, RandomParticipation, compose

THIRD = printed(replace(POISSON, local_rate=1 / 3, divisor=2.0))


class Sampling(Linear):
    found_by = ("sampling",)


class Sensitivity(Linear):
    found_by = ("sensitivity", "divisor is public", "kept state")


class Noise(Linear):
    found_by = ("noise",)


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


# Noise --------------------------------------------------------------------------------------------


class WorkersShareWrongly(Noise):
    """Each of two workers adds half of the noise: half the variance in all."""

    @property
    def scale(self):
        return super().scale / np.sqrt(2)


class ShareOfNoiseLost(Noise):
    """Four parties share the noise, and one of them has left."""

    def noise(self, rng, shape):
        return sum(self.scale / 2 * rng.standard_normal(shape) for _ in range(3))


class ShareOfNoiseLostSometimes(Noise):
    """In every tenth round one of two parties that share the noise leaves."""

    def noise(self, rng, shape):
        share = self.scale / np.sqrt(2)
        stays = rng.random((*shape[:2], 1, 1)) < 0.9
        return share * (rng.standard_normal(shape) + stays * rng.standard_normal(shape))


class TailsCutAtThree(Noise):
    """Noise beyond three standard deviations is cut off."""

    def noise(self, rng, shape):
        return self.scale * np.clip(rng.standard_normal(shape), -3, 3)


class TailsCutAtFive(Noise):
    """Noise beyond five standard deviations is cut off: one value of 1.7 million."""

    def noise(self, rng, shape):
        return self.scale * np.clip(rng.standard_normal(shape), -5, 5)


class FewDirections(Noise):
    """The noise is drawn in a third of the dimensions and spread by a random rotation."""

    def noise(self, rng, shape):
        size = shape[-1]
        spread = np.random.default_rng(1).standard_normal((size // 3, size))
        spread /= np.linalg.norm(spread, axis=0)
        return super().noise(rng, (*shape[:-1], size // 3)) @ spread


class ShortPeriod(Noise):
    """The noise comes from a file of 700 repetitions, over and over."""

    def noise(self, rng, shape):
        block = super().noise(rng, (min(700, shape[0]), *shape[1:]))
        return block[np.arange(shape[0]) % len(block)]


class DrawsDecideNoise(Noise):
    """Sampling and noise start from one seed and share their bits."""

    def run(self, vectors, owner, *, repetitions, rounds, noise, seed):
        self._seed = seed
        return super().run(
            vectors, owner, repetitions=repetitions, rounds=rounds, noise=noise, seed=seed
        )

    def draw(self, rng, shape, raw, owner):
        return (
            np.random.default_rng(self._seed).random((*shape, len(owner))) < self.promise.local_rate
        )

    def noisy(self, sums, rng, used):
        rng = np.random.default_rng(self._seed)
        hidden = rng.random(used.shape)
        first = np.sqrt(2) * erfinv(2 * np.clip(hidden, 1e-12, 1 - 1e-12) - 1)
        noise = super().noise(rng, sums.shape)
        noise[..., -used.shape[-1] :] = self.scale * first[:, :, None]
        return sums + noise


class NoiseWithoutClip(Noise):
    """The multiplier is used as the standard deviation; the clip is 1.25."""

    promise = printed(replace(POISSON, clip=1.25))

    @property
    def scale(self):
        return self.promise.noise_multiplier


class MultiplierRounded(Noise):
    """The multiplier 1.2 was rounded to a whole number."""

    @property
    def scale(self):
        return round(self.promise.noise_multiplier) * self.promise.clip


class OneDrawForTwoLayers(Noise):
    def noise(self, rng, shape):
        half = -(-shape[-1] // 2)
        part = super().noise(rng, (*shape[:-1], half))
        return np.concatenate([part, part], axis=-1)[..., : shape[-1]]


class BiasWithoutNoise(Noise):
    bias = 1.0

    def noise(self, rng, shape):
        noise = super().noise(rng, shape)
        noise[..., -1] = 0
        return noise


class ConstantSeed(Noise):
    """The noise's generator is made anew in every run, from the same seed."""

    def noisy(self, sums, rng, used):
        return super().noisy(sums, np.random.default_rng(0), used)


class SameNoiseEveryRound(Noise):
    def noise(self, rng, shape):
        return np.broadcast_to(super().noise(rng, (shape[0], 1, *shape[2:])), shape)


class NoiseOfNeighbouringRounds(Noise):
    """What one round adds, the next takes back in part."""

    promise, back = FULL, 0.18

    def noise(self, rng, shape):
        fresh = super().noise(rng, (shape[0], shape[1] + 1, *shape[2:]))
        return (fresh[:, 1:] - self.back * fresh[:, :-1]) / np.sqrt(1 + self.back**2)


class NoiseInHalfPrecision(Noise):
    """Contributions move the release off the grid of the noise: its last digits give them away."""

    def noise(self, rng, shape):
        return super().noise(rng, shape).astype(np.float16).astype(float)


class TwoHalvesOfNoise(Noise):
    """Two parties add half of the noise each, as if their scales and not their variances added up."""

    def noise(self, rng, shape):
        return (super().noise(rng, shape) + super().noise(rng, shape)) / 2


class UniformNoise(Noise):
    def noise(self, rng, shape):
        return self.scale * np.sqrt(3) * rng.uniform(-1, 1, shape)


class SameNoiseForAllClients(Noise):
    promise = UPLOADS

    def noise(self, rng, shape):
        return np.broadcast_to(super().noise(rng, (*shape[:2], 1, shape[3])), shape)


class NoNoiseWhenEmpty(Noise):
    """A round without records is skipped, noise included."""

    def noisy(self, sums, rng, used):
        return super().noisy(sums, rng, used) * used.any(axis=-1)[..., None, None]


class NoiseFollowsTheBatch(Noise):
    """The noise is scaled to the longest contribution of the data."""

    def noisy(self, sums, rng, used):
        longest = np.abs(sums).max(axis=(2, 3), keepdims=True)
        return sums + self.noise(rng, sums.shape) * np.clip(longest / self.promise.clip, 0.5, 1)


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
