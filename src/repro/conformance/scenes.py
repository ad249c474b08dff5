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
_NOISE_LEFT = 0.1  # of the noise's scale, where there should be none
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


def uneven(promise: Promise) -> tuple[Array, NDArray[np.int64]]:
    """`orthogonal` for clients, but the first one has a record of the last one, and the owners of the records."""
    held = np.full(promise.clients, promise.records)
    held[0], held[-1] = held[0] + 1, held[-1] - 1
    owner = np.repeat(np.arange(promise.clients), held)
    vectors = _empty(promise)
    vectors[np.arange(len(owner)), owner] = LONG * promise.clip
    return vectors, owner


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
    """Run the engine for all promised rounds, on copies that it may change.

    Raises:
        ValueError: what it returns has the wrong shape, is no number where it must be, or holds noise without being
            asked for it.
    """
    promise = engine.promise
    returned = engine.run(
        vectors.copy(),
        owner.copy(),
        repetitions=repetitions,
        rounds=promise.rounds,
        noise=noise,
        seed=seed,
    )
    try:
        seen = np.asarray(returned, dtype=float)
    except (TypeError, ValueError):
        got = f"a {type(returned).__name__} that is none"
        raise ValueError(f"run must return an array of numbers, got {got}") from None
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
    _check_numbers(promise, seen)
    sight = Sight(seen[:, : promise.rounds], seen.shape[1])
    nothing = slice(promise.units + 1, promise.units + 1 + SPARE)
    left = np.abs(sight.whole[..., nothing]).max()
    if not noise and left > _NOISE_LEFT * promise.scale:
        raise ValueError(
            f"run must add no noise where noise is False, got releases of up to {left:.3g} in coordinates in which "
            "no record has anything; an engine that cannot switch its noise off says can_silence = False"
        )
    return sight


def _check_numbers(promise: Promise, seen: Array) -> None:
    """Refuse nan and inf, apart from clients that send nothing."""
    allowed = np.isnan(seen).all(axis=-1, keepdims=True) & promise.uploads
    if not (np.isfinite(seen) | allowed).all():
        where = (
            "only in all coordinates of" if promise.uploads else "only where uploads are seen, for"
        )
        raise ValueError(
            "run must return finite numbers, got nan or inf; nan may stand "
            + where
            + " a client that sends nothing"
        )


def without_last(promise: Promise, vectors: Array) -> tuple[Array, NDArray[np.int64]]:
    """The data set without its last unit, and the owners of what is left."""
    kept = _unit(promise) < promise.units - 1
    return vectors[kept], promise.owner[kept]


def silenced(promise: Promise, vectors: Array) -> Array:
    """The same data set, whose last unit contributes nothing."""
    kept = _unit(promise) < promise.units - 1
    return np.where(kept[:, None], vectors, 0.0)


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
