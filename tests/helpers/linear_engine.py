"""A small federated engine for linear losses that keeps its promise, in parts that a fault can replace.

All repetitions, rounds, clients and records are axes of arrays. A record's gradient is its vector and, with
`bias`, one more coordinate of that size.
"""

from dataclasses import replace

import numpy as np

from repro.conformance import Promise
from repro.conformance.checks_epsilon import bracket


def printed(promise):
    """`promise` with the upper bound on its epsilon as the printed value."""
    return replace(promise, epsilon=bracket(promise)[1] * (1 + 1e-6))


POISSON = printed(
    Promise(
        clients=1, records=6, rounds=3, clip=1.0, noise_multiplier=1.2, divisor=1.8, local_rate=0.3
    )
)
TWO_LEVEL = printed(
    Promise(
        clients=3,
        records=2,
        rounds=3,
        clip=0.5,
        noise_multiplier=1.5,
        divisor=1.0,
        participation=0.5,
        local_rate=0.4,
    )
)
FULL = printed(Promise(clients=4, records=1, rounds=3, clip=1.0, noise_multiplier=2.0, divisor=4.0))
CLIENTS = printed(
    Promise(
        clients=5,
        records=2,
        rounds=3,
        clip=1.0,
        noise_multiplier=1.2,
        divisor=2.0,
        unit="client",
        participation=0.4,
    )
)
BALANCED = printed(
    Promise(
        clients=1,
        records=5,
        rounds=4,
        clip=1.0,
        noise_multiplier=1.0,
        divisor=1.25,
        sampling="balanced",
        participations=1,
    )
)
FIXED = Promise(
    clients=1, records=6, rounds=3, clip=1.0, noise_multiplier=1.5, divisor=2.0, sampling="fixed", local_rate=1 / 3,
    adjacency="replace",
)  # fmt: skip
REPLACED = printed(replace(FULL, adjacency="replace"))
UPLOADS = printed(
    Promise(
        clients=3, records=2, rounds=2, clip=1.0, noise_multiplier=1.5, divisor=1.0, participation=0.5, local_rate=0.5,
        uploads=True,
    )
)  # fmt: skip
LAPLACE = printed(
    Promise(
        clients=3, records=2, rounds=2, clip=2.0, noise_multiplier=2.0, divisor=2.0, law="laplace", uploads=True
    )
)  # fmt: skip


class Linear:
    """Keeps its promise; `promise` decides how it samples, clips and adds noise."""

    can_silence = True
    promise = POISSON
    bias = 0.0

    def __init__(self, promise=None):
        self.promise = promise or type(self).promise

    @property
    def name(self):
        return type(self).__name__

    def run(self, vectors, owner, *, repetitions, rounds, noise, seed):
        draws, noises = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
        raw = self.raw(vectors)
        used = self.draw(draws, (repetitions, self.rounds(rounds)), raw, owner)
        sums = self.sums(used, raw, owner)
        if noise:
            sums = self.noisy(sums, noises, used)
        return self.silence(self.divide(sums, used, raw, owner), used, owner)

    def rounds(self, promised):
        return promised

    def raw(self, vectors):
        return np.hstack([vectors, np.full((len(vectors), 1), self.bias)]) if self.bias else vectors

    # Sampling ---------------------------------------------------------------------------------

    def draw(self, rng, shape, raw, owner):
        """Who is used, shape (repetitions, rounds, records); a number above 1 counts twice."""
        p = self.promise
        if p.sampling == "poisson":
            clients = rng.random((*shape, owner.max() + 1)) < p.participation
            return clients[..., owner] & (rng.random((*shape, len(owner))) < p.local_rate)
        if p.sampling == "fixed":
            count = round(p.local_rate * p.records)
            return fixed(rng, (*shape, len(owner)), count)
        ranks = rng.random((shape[0], shape[1], len(owner))).argsort(axis=1).argsort(axis=1)
        return ranks < p.participations

    # Contributions ----------------------------------------------------------------------------

    def clip(self, vectors):
        norms = np.linalg.norm(vectors, ord=self.promise.order, axis=-1, keepdims=True)
        return vectors / np.maximum(1, norms / self.promise.clip)

    def sums(self, used, raw, owner):
        """Shape (repetitions, rounds, senders, coordinates)."""
        used = used.astype(float)
        if self.promise.unit == "client":
            return self.clip(by_client(used, raw, owner)).sum(axis=2, keepdims=True)
        clipped = self.clip(raw)
        if self.promise.uploads:
            return by_client(used, clipped, owner)
        return (used @ clipped)[:, :, None]

    # Noise and what follows -------------------------------------------------------------------

    @property
    def scale(self):
        return self.promise.noise_multiplier * self.promise.clip

    def noise(self, rng, shape):
        draw = (
            rng.standard_normal if self.promise.law == "gaussian" else lambda s: rng.laplace(size=s)
        )
        return self.scale * draw(shape)

    def noisy(self, sums, rng, used):
        return sums + self.noise(rng, sums.shape)

    def divide(self, sums, used, raw, owner):
        return sums / self.promise.divisor

    def silence(self, released, used, owner):
        return released


def by_client(used, vectors, owner):
    """Sum of the vectors that each client uses, shape (repetitions, rounds, clients, coordinates)."""
    member = owner[:, None] == np.arange(owner.max() + 1)
    return np.einsum("rtn,nk,nc->rtkc", used, member.astype(float), vectors, optimize=True)


def fixed(rng, shape, count):
    """Exactly `count` of the last axis, without replacement."""
    return rng.random(shape).argsort(axis=-1).argsort(axis=-1) < count
