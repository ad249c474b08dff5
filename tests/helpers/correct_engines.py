"""Ten engines that keep their promise, each in a way of its own."""

import numpy as np

from linear_engine import (
    BALANCED,
    CLIENTS,
    FIXED,
    FULL,
    LAPLACE,
    POISSON,
    REPLACED,
    TWO_LEVEL,
    UPLOADS,
    Linear,
)


class PoissonSums(Linear):
    promise = POISSON


class TwoLevel(Linear):
    """Coins for clients, then for records; biases are clipped together with the rest."""

    promise, bias = TWO_LEVEL, 0.7


class ClientLevel(Linear):
    promise = CLIENTS


class Balanced(Linear):
    promise = BALANCED


class FixedSize(Linear):
    promise = FIXED


class Replaced(Linear):
    promise = REPLACED


class LocalNoise(Linear):
    """Every client adds its own noise; nothing comes from who does not take part."""

    promise = UPLOADS

    def draw(self, rng, shape, raw, owner):
        self.clients = rng.random((*shape, owner.max() + 1)) < self.promise.participation
        return self.clients[..., owner] & (
            rng.random((*shape, len(owner))) < self.promise.local_rate
        )

    def silence(self, released, used, owner):
        return np.where(self.clients[..., None], released, np.nan)


class LaplaceUploads(Linear):
    promise = LAPLACE


class ShareOfNoise(Linear):
    """Four workers draw the noise together; vectors are scaled to the clip's length, in single precision."""

    promise = FULL

    def clip(self, vectors):
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
        return (vectors / (norms + 1e-6)).astype(np.float32)

    def noise(self, rng, shape):
        return sum(self.scale / 2 * rng.standard_normal(shape) for _ in range(4)).astype(np.float32)


class PerLayer(Linear):
    """Two layers, each clipped to its share of the budget; more noise than promised."""

    promise, bias = POISSON, 0.4

    def clip(self, vectors):
        half = vectors.shape[-1] // 2
        limit = self.promise.clip / np.sqrt(2)
        layers = np.split(vectors, [half], axis=-1)
        norms = [np.linalg.norm(x, axis=-1, keepdims=True) for x in layers]
        return np.concatenate(
            [x / np.maximum(1, n / limit) for x, n in zip(layers, norms, strict=True)], axis=-1
        )

    @property
    def scale(self):
        return 1.05 * super().scale


CORRECT = (
    PoissonSums, TwoLevel, ClientLevel, Balanced, FixedSize, Replaced, LocalNoise, LaplaceUploads, ShareOfNoise,
    PerLayer,
)  # fmt: skip
