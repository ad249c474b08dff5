"""Composition: of one mechanism over rounds, of several, and with other people's loss distributions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import ArrayLike

from repro._validate import broadcastable, integers
from repro.accounting._composed import Composed, with_interval
from repro.accounting._pld import (
    composed_size,
    convolved,
    filled,
    losses,
    on_grid,
    one_sided,
    rounded_up,
    self_composition,
    self_compositions,
)
from repro.accounting.mechanism import SMALLEST_STEP, Mechanism

__all__ = [
    "Composition",
    "GivenLosses",
    "JointComposition",
    "RoundsCurve",
    "compose",
    "with_interval",
]

_ROUGH = 16
"""How much coarser the losses of a rough composition lie, and about how much faster its answers come."""

_MOST_POINTS = 2**21
"""Losses on the common grid of several mechanisms, for memory and time."""

_LARGEST = 2**24
"""Losses of a composition, for memory and time: about a GiB and ten seconds."""

_LARGEST_STEP = 700.0
"""Spacing of losses whose exponential a double still holds."""

_COARSE = 2**22
"""Losses of a composition that would have more than `_LARGEST`, on a coarser grid."""

_COARSEST = 2.0**10
"""How much wider the losses of very many rounds may lie than those of few."""

_MOST_ROUNDS = 10**15
"""Rounds beyond which a double cannot count them."""

Part = Mechanism | Composed | PrivacyLossDistribution


def compose(
    parts: Part | Sequence[Part], rounds: ArrayLike = 1
) -> Composition | JointComposition | GivenLosses | RoundsCurve:
    """The parts released one after the other, `rounds` times, each in the light of all earlier outputs.

    All parts must mean the same neighbours: one record more or less, say, of the same data set.

        compose(mechanism, 1000).epsilon(1e-5)
        compose([mechanism, compose(other, 10)], 100).delta(1.0)
        compose(mechanism, [10, 100, 1000]).epsilon(1e-5)      a curve over the rounds
        compose([mechanism, somebodys_pld]).epsilon(1e-5)

    Args:
        parts: mechanisms with scalar fields (of this package or an own subclass of `Mechanism`), compositions
            and dp-accounting's loss distributions on any interval: one, or a sequence of them.
        rounds: number of runs T >= 1, or an array of such.

    Returns:
        an object that answers what a mechanism does; for an array of rounds one whose answers broadcast against
        it.

    Raises:
        ValueError: a number of rounds is not a positive integer, a mechanism's fields are arrays, there is no
            part, or one of another type.
    """
    counts = integers("rounds", rounds, 1, _MOST_ROUNDS)
    if counts.ndim:
        return RoundsCurve(compose(parts), counts)
    number: dict[Mechanism | PrivacyLossDistribution, int] = {}
    for unit, count in _units(parts, int(counts)):
        number[unit] = number.get(unit, 0) + count
    made = [
        Composition(unit, count) if isinstance(unit, Mechanism) else GivenLosses(unit, count)
        for unit, count in number.items()
    ]
    if not made:
        raise ValueError("parts must hold at least one mechanism, got none")
    return made[0] if len(made) == 1 else JointComposition(tuple(made))


def _units(parts: object, rounds: int) -> Iterator[tuple[Mechanism | PrivacyLossDistribution, int]]:
    """What a composition is made of in the end, with the number of runs."""
    if isinstance(parts, (Mechanism, PrivacyLossDistribution)):
        yield parts, rounds
    elif isinstance(parts, Composition):
        yield parts.mechanism, parts.rounds * rounds
    elif isinstance(parts, GivenLosses):
        yield parts.distribution, parts.rounds * rounds
    elif isinstance(parts, (JointComposition, list, tuple)):
        for part in parts.parts if isinstance(parts, JointComposition) else parts:
            yield from _units(part, rounds)
    else:
        raise ValueError(
            "parts must be a mechanism, a composition with one number of rounds, a loss distribution of "
            f"dp-accounting or a list of these, got {parts!r}"
        )


def _repeated(
    singles: Sequence[pld_pmf.PLDPmf], rounds: Sequence[int]
) -> Iterator[list[pld_pmf.PLDPmf]]:
    """The losses of all pairs after each number of rounds.

    Raises:
        ValueError: the rounds are so many that the losses would take too much memory.
    """
    if (size := _size(singles, rounds[-1])) > _LARGEST:
        raise ValueError(_too_many(rounds[-1], size))
    if len(rounds) == 1:
        yield [filled(self_composition(side, rounds[0])) for side in singles]
    else:
        each = (map(filled, self_compositions(side, rounds)) for side in singles)
        yield from map(list, zip(*each, strict=True))


def _size(singles: Sequence[pld_pmf.PLDPmf], rounds: int) -> int:
    """The most losses that one of the pairs has after `rounds` runs."""
    if rounds > _MOST_ROUNDS:
        raise ValueError(f"rounds must be at most {_MOST_ROUNDS:.0e}, got {rounds!r}")
    return max((composed_size(side, rounds) for side in singles), default=0)


def _too_many(rounds: int, size: int) -> str:
    return (
        f"rounds must be fewer for these losses, got {rounds!r}: they would take {size:.3g} losses, "
        f"and at most {_LARGEST} are allowed"
    )


@dataclass(frozen=True)
class Composition(Composed):
    """T adaptive runs of one mechanism on the same data set; made by `compose`.

    Formal guarantee: that of `Composed`.

    Attributes:
        mechanism: with scalar fields.
        rounds: T >= 1.
        coarser: the losses lie this many times as far apart as they would; see `rough`.
    """

    mechanism: Mechanism
    rounds: int
    coarser: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise ValueError(f"mechanism must be an instance of Mechanism, got {self.mechanism!r}")
        if self.mechanism.field_shape:
            raise ValueError(f"mechanism must have scalar fields, got {self.mechanism!r}")

    def _interval(self, method: str, rounds: int) -> float:
        """Spacing of the losses, fine enough that rounding matters little.

        Unless the mechanism knows better, it costs at most one interval per round below, and second
        order in the interval above. Where a single loss is large the grid is coarser, so that it
        keeps to a few hundred thousand points.
        """
        fine = self.mechanism.loss_step(method)
        reach, rare = (1.0, 1e-15) if fine is None else (100 * fine, 1e-18)
        reach = self.mechanism.loss_reach(reach, rare)
        if fine is None:
            fine = 2e-2 / rounds if method == "lower" else 1e-3 / np.sqrt(rounds)
            fine = np.clip(fine, 1e-5, 1e-4)
            if method != "lower":
                # Chords add a variance of a sixth of the squared spacing: a relative 3e-6 at the most, and a
                # composition's epsilon rises by half of that. A loss of small spread is about 2.5 delta(0).
                share = min(4e-5 * np.sqrt(rounds), 4e-3)
                fine = max(fine, share * 2.5 * float(self.mechanism.delta(0.0)))
        if reach > 1e4:
            # Of astronomical losses the order of magnitude is enough, and costs a tenth.
            fine = max(fine, min(reach / 2e4, 40.0))
        return float(self.coarser * max(fine, reach / 2e5, SMALLEST_STEP))

    def rough(self) -> Composition:
        """See `Composed.rough`."""
        return replace(self, coarser=_ROUGH * self.coarser)

    def ways(self, direction: str) -> tuple[str, ...]:
        """See `Composed.ways`: of one mechanism, only the direction that is known to be worse."""
        ways = super().ways(direction)
        worse = self.mechanism.worse_direction
        return ways if direction != "both" or worse == "both" else (worse,)

    def runs(self, method: str, way: str, counts: Sequence[int]) -> Iterator[list[pld_pmf.PLDPmf]]:
        """See `Composed.runs`; all counts share the grid of the largest."""
        self.mechanism.check(method, "both")
        rounds = [self.rounds * count for count in counts]
        if rounds[-1] > _MOST_ROUNDS:
            raise ValueError(f"rounds must be at most {_MOST_ROUNDS:.0e}, got {rounds[-1]!r}")
        interval = finest = self._interval(method, rounds[-1])
        if interval > _LARGEST_STEP:
            raise ValueError(
                f"mechanism must have more noise to be composed, got {self.mechanism!r}"
            )
        while True:
            pairs = self.mechanism.pairs(method, interval)
            singles = [side for pair in pairs for side in one_sided(pair, way)]
            size = _size(singles, rounds[-1])
            if size <= _LARGEST:
                return _repeated(singles, rounds)
            interval *= 2.0 ** np.ceil(np.log2(size / _COARSE))
            if interval > min(_COARSEST * finest, _LARGEST_STEP):
                raise ValueError(_too_many(rounds[-1], size))

    def transforms(self, count: int) -> tuple[int, int]:
        """See `Composed.transforms`."""
        number = self.rounds * count
        return (1, number) if number > 1 else (0, 0)

    def paper_curve(self, method: str, direction: str) -> np.ndarray | None:
        """See `Composed.paper_curve`."""
        if method != "paper" or (curve := self.mechanism.paper_curve()) is None:
            return None
        self.mechanism.check(method, direction)
        return self.rounds * curve

    def rdp(
        self, alpha: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """See `Composed.rdp`."""
        return self.rounds * self.mechanism.rdp(alpha, method=method, direction=direction)


@dataclass(frozen=True)
class GivenLosses(Composed):
    """T runs of something that is known by its loss distribution alone; made by `compose`.

    Losses that are rounded upwards ("pessimistic") answer "upper", others "lower".

    Attributes:
        distribution: dp-accounting's object, on any interval.
        rounds: T >= 1.
    """

    distribution: PrivacyLossDistribution
    rounds: int

    def runs(self, method: str, way: str, counts: Sequence[int]) -> Iterator[list[pld_pmf.PLDPmf]]:
        """See `Composed.runs`.

        Raises:
            ValueError: the losses are rounded to the other side, or "paper" is asked for.
        """
        side = one_sided(self.distribution, way)
        allowed = "upper" if rounded_up(side[0]) else "lower"
        if method != allowed:
            raise ValueError(
                f"method must be {allowed!r} for a given loss distribution that is rounded to this side, "
                f"got {method!r}"
            )
        return _repeated(side, [self.rounds * count for count in counts])

    transforms = Composition.transforms

    def paper_curve(self, method: str, direction: str) -> None:
        """See `Composed.paper_curve`."""

    def rdp(
        self, alpha: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Refused: rounded losses with a mass at infinity have no finite Renyi divergence."""
        raise ValueError("parts must not be given as loss distributions for Renyi divergences")


@dataclass(frozen=True)
class JointComposition(Composed):
    """Several mechanisms on the same data set, each with its number of runs; made by `compose`.

    Formal guarantee: that of `Composed`. Each part is composed with itself on the grid that suits it, moved to
    a common grid in the safe direction, and convolved with the others. The explicit pairs of "lower" are
    combined in their order: the first of every part, then the second, and so on. A part whose losses are so
    small that rounding downwards drops more than half of them is left out: releasing less is a lower bound.

    Attributes:
        parts: two or more.
    """

    parts: tuple[Composition | GivenLosses, ...]

    def runs(self, method: str, way: str, counts: Sequence[int]) -> Iterator[list[pld_pmf.PLDPmf]]:
        """See `Composed.runs`."""
        for runs in zip(*(part.runs(method, way, counts) for part in self.parts), strict=True):
            number = max(len(pairs) for pairs in runs)
            chosen = [[pairs[min(j, len(pairs) - 1)] for pairs in runs] for j in range(number)]
            yield [
                reduce(_joined, _kept(sides) if method == "lower" else sides) for sides in chosen
            ]

    def rough(self) -> JointComposition:
        """See `Composed.rough`."""
        return JointComposition(tuple(part.rough() for part in self.parts))

    def transforms(self, count: int) -> tuple[int, int]:
        """See `Composed.transforms`."""
        each, runs = zip(*(part.transforms(count) for part in self.parts), strict=True)
        return sum(each) + len(self.parts) - 1, sum(runs)

    def paper_curve(self, method: str, direction: str) -> np.ndarray | None:
        """See `Composed.paper_curve`.

        Raises:
            ValueError: some papers account by Renyi divergences and others by losses.
        """
        if method != "paper":
            return None
        curves = [part.paper_curve(method, direction) for part in self.parts]
        if all(curve is None for curve in curves):
            return None
        if any(curve is None for curve in curves):
            raise ValueError(
                "method must be 'upper' or 'lower' for parts whose papers account differently, by Renyi "
                f"divergences and by losses, got {method!r}"
            )
        return np.sum(curves, axis=0)

    def rdp(
        self, alpha: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """See `Composed.rdp`."""
        return sum(part.rdp(alpha, method=method, direction=direction) for part in self.parts)


def _kept(sides: list[pld_pmf.PLDPmf]) -> list[pld_pmf.PLDPmf]:
    """Those of which rounding downwards has kept at least half, or the one of which it kept the most."""
    total = [losses(side).mass.sum() for side in sides]
    heavy = [side for side, mass in zip(sides, total, strict=True) if mass >= 0.5]
    return heavy or [sides[int(np.argmax(total))]]


def _joined(first: pld_pmf.PLDPmf, second: pld_pmf.PLDPmf) -> pld_pmf.PLDPmf:
    """Two losses together, on the finer of their grids where that fits into memory."""
    sides = [losses(side) for side in (first, second)]
    width = sum(side.mass.size * side.interval for side in sides)
    interval = max(min(side.interval for side in sides), width / _MOST_POINTS)
    return convolved(on_grid(first, interval), on_grid(second, interval))


@dataclass(frozen=True, eq=False)
class RoundsCurve(Composed):
    """A composition as a function of the number of rounds; made by `compose`.

    Answers broadcast against the rounds: shape (n,) for n rounds and one epsilon; for a table give one of the
    two an axis of its own. What does not depend on the number of rounds is computed once. The grid of losses
    is that of the largest number, so that the values for smaller ones may differ from those of a composition
    of their own within the rounding that either charges.

    Attributes:
        unit: what is run.
        counts: the numbers of rounds, >= 1, of any shape.
    """

    unit: Composed
    counts: np.ndarray

    def runs(self, method: str, way: str, counts: Sequence[int]) -> Iterator[list[pld_pmf.PLDPmf]]:
        """See `Composed.runs`."""
        return self.unit.runs(method, way, counts)

    def ways(self, direction: str) -> tuple[str, ...]:
        """See `Composed.ways`."""
        return self.unit.ways(direction)

    def transforms(self, count: int) -> tuple[int, int]:
        """See `Composed.transforms`."""
        return self.unit.transforms(count)

    def paper_curve(self, method: str, direction: str) -> np.ndarray | None:
        """See `Composed.paper_curve`."""
        return self.unit.paper_curve(method, direction)

    def rdp(
        self, alpha: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """See `Composed.rdp`; orders broadcast against the rounds."""
        broadcastable(alpha=alpha, rounds=self.counts)
        return self.counts * self.unit.rdp(alpha, method=method, direction=direction)
