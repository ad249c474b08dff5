"""Data sets for which the release itself shows who took part, and with how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.conformance.adapter import Array, Engine, Promise

SPARE = 6
"""Coordinates in which no record has anything: what is seen there is noise."""

LONG = 4.0
"""Length of a long contribution, in clips."""

HUGE = 1e6
"""Length of a contribution beyond half precision, in clips."""

_TAG = 0.05  # share of a record's length that lies in its unit's own coordinate
_PRESENT = 1e-5  # least amplitude of a tag, in clips, that counts as taking part


def orthogonal(promise: Promise) -> Array:
    """Every unit long, and in a coordinate of its own, shape (records, inputs)."""
    vectors = _empty(promise)
    vectors[np.arange(len(vectors)), _unit(promise)] = LONG * promise.clip
    return vectors


def single(promise: Promise, sign: float = 1.0) -> Array:
    """Only the first unit contributes."""
    vectors = _empty(promise)
    vectors[_unit(promise) == 0, 0] = sign * LONG * promise.clip
    return vectors


def silent(promise: Promise) -> Array:
    """Nobody contributes."""
    return _empty(promise)


def opposed(promise: Promise, last: float = -50.0, others: float = 0.6) -> Array:
    """The last unit against all others, in one direction; lengths in clips.

    A sum that is clipped as a whole, or an average, changes by more than a clip when the last one leaves.
    """
    lengths = np.full(promise.units, others)
    lengths[-1] = last
    return _tagged(promise, lengths * promise.clip)


def mixed(promise: Promise, seed: int) -> Array:
    """Lengths between a tenth and 30 clips, with random signs, in one direction."""
    rng = np.random.default_rng(seed)
    lengths = 10 ** rng.uniform(-1, 1.5, promise.units) * rng.choice([-1, 1], promise.units)
    return _tagged(promise, lengths * promise.clip)


@dataclass(frozen=True)
class Sight:
    """What was seen of one data set.

    Attributes:
        releases: shape (repetitions, rounds, senders, coordinates), nan where a client was silent. Rounds beyond
            those that were promised are left out.
        rounds: how many there were.
    """

    releases: Array
    rounds: int

    @property
    def whole(self) -> Array:
        """Silence as zeros."""
        return np.nan_to_num(self.releases, nan=0.0)

    @property
    def total(self) -> Array:
        """Summed over senders, shape (repetitions, rounds, coordinates)."""
        return self.whole.sum(axis=2)

    def present(self, promise: Promise) -> NDArray[np.bool_]:
        """Who took part, where the noise is off, shape (repetitions, rounds, units)."""
        return np.abs(self.total[..., : promise.units]) > _PRESENT * promise.step


def look(
    engine: Engine,
    vectors: Array,
    owner: NDArray[np.int64],
    *,
    repetitions: int,
    noise: bool,
    seed: int,
) -> Sight:
    """Run the engine for all promised rounds.

    Raises:
        ValueError: what it returns has the wrong shape.
    """
    promise = engine.promise
    seen = np.asarray(
        engine.run(
            vectors,
            owner,
            repetitions=repetitions,
            rounds=promise.rounds,
            noise=noise,
            seed=seed,
        ),
        dtype=float,
    )
    senders = len(np.unique(owner)) if promise.uploads else 1
    if (
        seen.ndim != 4
        or len(seen) != repetitions
        or seen.shape[1] < promise.rounds
        or seen.shape[2] not in (senders, promise.clients if promise.uploads else 1)
        or seen.shape[3] < vectors.shape[1]
    ):
        raise ValueError(
            f"run must return shape ({repetitions}, >= {promise.rounds}, {senders}, >= {vectors.shape[1]}), got "
            f"{seen.shape}"
        )
    return Sight(seen[:, : promise.rounds], seen.shape[1])


def without_last(promise: Promise, vectors: Array) -> tuple[Array, NDArray[np.int64]]:
    """The data set without its last unit, and the owners of what is left."""
    kept = _unit(promise) < promise.units - 1
    return vectors[kept], promise.owner[kept]


def _empty(promise: Promise) -> Array:
    return np.zeros((promise.clients * promise.records, promise.units + 1 + SPARE))


def _unit(promise: Promise) -> NDArray[np.int64]:
    """The unit of each record."""
    whole = promise.owner
    return whole if promise.unit == "client" else np.arange(len(whole))


def _tagged(promise: Promise, lengths: Array) -> Array:
    """One direction for all units, and a small part in each unit's own coordinate."""
    vectors = _empty(promise)
    unit = _unit(promise)
    each = lengths[unit] * promise.per_client / promise.records  # a client's records add up
    vectors[:, promise.units] = each
    vectors[np.arange(len(vectors)), unit] = _TAG * np.abs(each)
    return vectors
