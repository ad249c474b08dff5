"""Privacy faults in the noise, planted in `Linear`: see `planted`."""

from dataclasses import replace

import numpy as np
from scipy.special import erfinv

from linear_engine import FULL, POISSON, UPLOADS, Linear, printed


class Noise(Linear):
    found_by = ("noise",)


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
