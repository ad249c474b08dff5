"""Adapters of `repro.federated.mspafl`: one round of whole clients, and rounds between which clients keep a half."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from repro.conformance import Promise
from repro.conformance.checks_epsilon import bracket
from repro.federated.mspafl.algorithm import LocalTraining, Round, Variant, train

Array = NDArray[np.float64]

NOTES = """\
A client of Algorithm 1 clips the public half of its model to C and adds noise to it. Two models of norm C are up to 2 C
apart, and neighbours of the paper differ in one record that is replaced, so that an upload may change by 2 C. The
observer is the server, which sees every upload and who sent it. Noise and draws come from seeded generators, which
suits experiments and protects nobody.

The first two examinations are of one round in which all clients start from zero, with a whole client as the unit. The
printed epsilon is that of a client whose presence is seen. A record that is drawn at random, or an observer who sees
averages only, is better off: see `repro.accounting.mspafl.round`.

The other two are of three rounds in which every client draws two of its four records, and a record is the unit. The
local step is so long that every upload lies on the sphere of radius C. One more coordinate of the model pulls the
odd records one way and the even ones the other way. Where the whole model is shared, this coordinate is overwritten
by the average, and the draws of earlier rounds leave no trace. Where it is the private half, a client keeps it, and it
weighs the records of all later rounds: the same two records give different uploads. So the draws of a round no
longer hide which records were drawn before. The check of the divisor notices the same: a record's part in an upload
depends on earlier draws. The printed epsilon of these two is that of `Variant.guarantee`, which knows about
the private half and counts every round from the first draw of a record on."""

_SMALL = 1e-9  # length of a record of one clip: scores of shared coordinates stay near 0
_RATE = 1e30  # one step of any record goes far beyond the clip
_PULL = _RATE**-0.5  # a record's private coordinate: one step moves its own score by about 1/2
_FAINT = 1e-3  # of a clip: the length of a record that contributes nothing else
_RECORDS, _BATCH, _ROUNDS = 4, 2, 3


@dataclass(frozen=True)
class Uploads:
    """One step of gradient descent from zero, at a rate at which the model is the sum of the client's vectors."""

    promise: Promise
    can_silence: bool = True

    @property
    def name(self) -> str:
        """The algorithm, and how often clients check in."""
        return (
            f"Algorithm 1 of mspafl, uploads, check-in probability {self.promise.participation:g}"
        )

    def run(
        self,
        vectors: Array,
        owner: NDArray[np.int64],
        *,
        repetitions: int,
        rounds: int,
        noise: bool,
        seed: int,
    ) -> Array:
        """See `repro.conformance.Engine.run`; each client of each repetition is a run with one client."""
        promise = self.promise
        sigma = promise.noise_multiplier * promise.clip if noise else 0.0

        def settings(held: int) -> tuple[Variant, LocalTraining]:
            rate = 2.0 * held  # at zero, the gradient is minus half the mean vector
            variant = Variant(promise.participation, vectors.shape[1], rate, promise.clip, sigma)
            return variant, LocalTraining(steps=1, batch=held)

        return _uploads(vectors, owner, settings, repetitions, rounds, seed)


@dataclass(frozen=True)
class Rounds:
    """Rounds in which clients draw records, and share their whole model or keep one coordinate of it."""

    promise: Promise
    private: bool
    can_silence: bool = True

    @property
    def name(self) -> str:
        """The algorithm, and what a client keeps."""
        kept = "a private half is kept" if self.private else "nothing is kept"
        return f"Algorithm 1 of mspafl, {self.promise.rounds} rounds of uploads, {kept}"

    def run(
        self,
        vectors: Array,
        owner: NDArray[np.int64],
        *,
        repetitions: int,
        rounds: int,
        noise: bool,
        seed: int,
    ) -> Array:
        """See `repro.conformance.Engine.run`; a record without a contribution points into a coordinate of its own."""
        pull = np.where(np.arange(len(owner)) % 2, _PULL, -_PULL)
        nothing = ~vectors.any(axis=1)
        records = np.column_stack([pull, _SMALL * vectors, _SMALL * _FAINT * nothing])
        variant = _variant(self.promise, self.private, noise, records.shape[1])
        seen = _uploads(records, owner, lambda _: (variant, _LOCAL), repetitions, rounds, seed)
        return seen[..., 1:] if self.private else np.roll(seen, -1, axis=-1)


_LOCAL = LocalTraining(steps=1, batch=_BATCH)


def _variant(promise: Promise, private: bool, noise: bool, size: int) -> Variant:
    """Of `Rounds`, for models of `size` coordinates."""
    return Variant(
        p=1.0,
        public=size - private,
        learning_rate=_RATE,
        clip=promise.clip,
        sigma=promise.noise_multiplier * promise.clip if noise else 0.0,
    )


def _uploads(
    vectors: Array,
    owner: NDArray[np.int64],
    settings: Callable[[int], tuple[Variant, LocalTraining]],
    repetitions: int,
    rounds: int,
    seed: int,
) -> Array:
    """What the server sees of all clients, each of which is a run with one client; `settings` of its records."""
    held = np.bincount(owner)
    seeds = np.random.SeedSequence(seed).generate_state(repetitions * len(held))
    seeds = seeds.reshape(repetitions, len(held))
    seen = np.empty((repetitions, rounds, len(held), vectors.shape[1]))
    for size in np.unique(held).tolist():
        some = np.flatnonzero(held == size)

        def keep(done: Round, some: NDArray[np.int64] = some) -> None:
            upload = np.where(done.checked_in[:, 0], done.uploads[:, 0, 0], np.nan)
            seen[:, done.number - 1, some] = upload.reshape(repetitions, len(some), -1)

        places = np.flatnonzero(np.isin(owner, some)).reshape(len(some), 1, size)
        variant, local = settings(size)
        holdings = np.tile(places, (repetitions, 1, 1))
        train(vectors, holdings, [variant], local, rounds, seeds[:, some].ravel().tolist(), keep)
    return seen


def engines() -> list[Uploads | Rounds]:
    """One round of whole clients, all of which check in or some; rounds of records, with and without a private half."""
    promise = Promise(
        clients=4,
        records=2,
        rounds=1,
        clip=1.0,
        noise_multiplier=4.0,
        divisor=1.0,
        unit="client",
        adjacency="replace",
        uploads=True,
    )
    promises = promise, replace(promise, participation=0.6)
    several = Promise(
        clients=2,
        records=_RECORDS,
        rounds=_ROUNDS,
        clip=1.0,
        noise_multiplier=4.0,
        divisor=1.0,
        sampling="fixed",
        local_rate=_BATCH / _RECORDS,
        adjacency="replace",
        uploads=True,
    )
    found: list[Uploads | Rounds] = [Uploads(replace(p, epsilon=bracket(p)[1])) for p in promises]
    for private in (False, True):
        epsilon = (
            _variant(several, private, True, 2)
            .guarantee(several.delta, _ROUNDS, _LOCAL, held=_RECORDS, size=2)
            .upper
        )
        found.append(Rounds(replace(several, epsilon=epsilon), private))
    return found
