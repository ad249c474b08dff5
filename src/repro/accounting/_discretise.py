"""From privacy profiles to dp-accounting's privacy loss distributions, rounded to a known side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld_lib

from repro.accounting._pld import from_places

__all__ = ["contracted", "optimistic", "optimistic_profile", "pessimistic"]

#: Per-round mass of the loss beyond the grid; it is charged as certain failure when rounding up.
_BEYOND = 1e-18
_MAX_POINTS = 4_000_000
#: Losses beyond this are counted as this (upwards) or dropped (downwards) when rounding down.
_MAX_LOSS = 50.0

#: Grids of so few losses are evaluated at every one of them.
_FEW_STEPS = 4096
#: Losses that are looked at first, spaced geometrically.
_SCOUTS = 400
#: Largest gap of a chord relative to delta; a composition's epsilon rises by a smaller share.
_CHORD = 1e-6
#: Power of delta by which that gap may grow in the tail.
_EASED = 1 / 4
_VANISHED = -750.0  # logarithm of a delta that is 0 as a double
#: Relative error of the masses that lower bounds are made of.
_MASS_ERROR = 1e-11
#: Largest share of a cell that makes up for the rounding of another one, and by how much it exceeds that.
_TRACE = 1e-3

Profile = Callable[[np.ndarray], np.ndarray]
Finish = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Epsilons from 0 on and log delta there -> which of them to keep, and smaller bounds there, convex in exp(epsilon)."""


def _points(log_delta: Profile, interval: float) -> int:
    """How many steps it takes to the first reach where delta is negligible."""
    reach = min(0.25, _MAX_POINTS * interval / 2)
    while log_delta(np.array([reach]))[0] > np.log(_BEYOND):
        reach *= 1.5
        if reach / interval > _MAX_POINTS:
            raise ValueError(
                f"interval={interval} is too fine: the privacy loss exceeds {reach:.0f}, "
                f"which needs more than {_MAX_POINTS} grid points; use a larger interval"
            )
    return int(np.ceil(reach / interval))


def _curve(log_delta: Profile, interval: float, every: bool) -> tuple[np.ndarray, np.ndarray]:
    """Steps 0 = k_0 < k_1 < ... of the grid and log delta there, never rising.

    Delta is convex in exp(epsilon), so that its chords bound it from above however far apart their ends lie.
    Unless `every` step is asked for, chords are halved until each is within a share `_CHORD` of delta; in the
    tail that share grows slowly.
    """
    last = _points(log_delta, interval)
    if every or last <= _FEW_STEPS:
        steps = np.arange(last + 1)
        return steps, np.minimum.accumulate(log_delta(interval * steps))
    steps = np.unique(np.append(0, np.rint(np.geomspace(1, last, _SCOUTS)).astype(int)))
    log_d = log_delta(interval * steps)
    while (long := _long_chords(interval * np.diff(steps), log_d) & (np.diff(steps) > 1)).any():
        middle = (steps[:-1][long] + steps[1:][long]) // 2
        steps = np.concatenate([steps, middle])
        order = np.argsort(steps)
        steps, log_d = (
            steps[order],
            np.concatenate([log_d, log_delta(interval * middle)])[order],
        )
    return steps, np.minimum.accumulate(log_d)


def _long_chords(length: np.ndarray, log_d: np.ndarray) -> np.ndarray:
    """Which chords between neighbouring points are too far above delta, shape (n - 1,).

    The gap at a point below the chord of its two neighbours tells the curvature there; the gap of a chord of
    length a next to one of length b is a / (4 b) of it.
    """
    a, b = length[:-1], length[1:]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.expm1(-b) / np.expm1(-a - b)
        before, after = (np.exp(log_d[k] - log_d[1:-1]) for k in (slice(None, -2), slice(2, None)))
        gap = share * before + (1 - share) * after - 1
        gap = gap / np.exp((log_d[0] - log_d[1:-1]) * _EASED)
    # Where delta is 0 as a double nothing is left; next to that place ratios are infinite, or no numbers.
    gap = np.where(log_d[:-2] < _VANISHED, 0.0, np.where(np.isnan(gap), np.inf, gap))
    long = np.zeros(length.size, dtype=bool)
    long[:-1] |= gap * a > 4 * b * _CHORD
    long[1:] |= gap * b > 4 * a * _CHORD
    return long


def _upper_half(
    log_delta: Profile, interval: float, every: bool, finish: Finish | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Connect-the-dots masses: steps >= 1 of the grid, masses of these losses, and mass at infinity.

    Doroshenko et al. 2022, Algorithm 1, written with decrements of delta that are taken in the log
    domain, so that masses far out in the tail keep their relative precision; on steps of any length.
    """
    steps, log_d = _curve(log_delta, interval, every)
    if finish is not None:
        kept, log_d = finish(interval * steps, log_d)
        steps = steps[kept]
    length = interval * np.diff(steps)
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isfinite(log_d[:-1]), log_d[1:] - log_d[:-1], 0.0)
    drop = -np.exp(log_d[:-1]) * np.expm1(ratio)
    with np.errstate(over="ignore"):
        up, down = drop / -np.expm1(-length), drop / np.expm1(length)
    return steps[1:], np.maximum(up - np.append(down[1:], 0.0), 0.0), float(np.exp(log_d[-1]))


def _one_sided(half, reverse, interval: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Losses of (P, Q) in units of the interval, their masses, and the mass at infinity.

    `half` and `reverse` are the upper halves of (P, Q) and of (Q, P).
    """
    above, mass_above, infinity = half
    below, mass_below, _ = reverse
    mass_below = mass_below * np.exp(-interval * below)
    zero = 1.0 - mass_above.sum() - mass_below.sum() - infinity
    # A mass is a second difference of delta over the interval: rounding of deltas adds up to this much over
    # the grid, and more mass than one is on the safe side.
    points = max(1 / interval, above.size, below.size)
    if zero < -1e-9 - 4 * np.finfo(float).eps * points / interval:
        raise ValueError(f"the profile is not a hockey-stick curve: mass {zero:.3g} at loss zero")
    places = np.concatenate([-below[::-1], [0], above])
    masses = np.concatenate([mass_below[::-1], [max(zero, 0.0)], mass_above])
    some = (masses > 0) | (places == 0)
    return places[some], masses[some], infinity


def pessimistic(
    log_remove: Profile,
    log_add: Profile,
    interval: float,
    finish: tuple[Finish | None, Finish | None] = (None, None),
) -> pld_lib.PrivacyLossDistribution:
    """A loss distribution whose composition bounds every mechanism below the two profiles.

    Args:
        log_remove, log_add: log delta of the two directions as functions of epsilon >= 0. Each has to
            be an upper bound on the supremum over data sets; together (delta at -epsilon follows from
            the reverse direction) they describe one dominating pair per direction.
        interval: spacing of the grid of losses, > 0.
        finish: for "remove" and "add", what lowers the curve at the epsilons that it is known at; the first of
            these, 0, is kept as it is, because there the two directions are one number.

    Returns:
        dp-accounting's object with both directions, rounded upwards (connect the dots).
    """
    return pld_lib.PrivacyLossDistribution(
        *(
            from_places(interval, *side, up=True)
            for side in _connected(log_remove, log_add, interval, finish)
        )
    )


def _connected(
    log_remove: Profile,
    log_add: Profile,
    interval: float,
    finish: tuple[Finish | None, Finish | None] = (None, None),
    *,
    every: bool = False,
):
    """Losses, masses and mass at infinity of both directions, "remove" first; see `_curve`."""
    profiles = zip((log_remove, log_add), finish, strict=True)
    halves = [_upper_half(profile, interval, every, end) for profile, end in profiles]
    return _one_sided(*halves, interval), _one_sided(*halves[::-1], interval)


def optimistic_profile(
    log_remove: Profile, log_add: Profile, interval: float
) -> pld_lib.PrivacyLossDistribution:
    """A loss distribution that no composition of a pair with these two profiles can fall below.

    Connecting the dots moves mass up by less than one interval. So a grid of losses that is one
    interval lower holds none that is above the pair's own. Losses beyond the grid count as its end.

    Args:
        log_remove: log delta of "remove" as a function of epsilon >= 0, attained by one pair of data
            sets at every epsilon (and by its reverse in the other direction).
        log_add: the same of "add".
        interval: spacing of the grid; a round loses at most this much epsilon.

    Returns:
        dp-accounting's object with both directions, rounded downwards.
    """
    sides = []
    for places, masses, infinity in _connected(log_remove, log_add, interval, every=True):
        masses[-1] += infinity
        sides.append(from_places(interval, places - 1, masses, 0.0, up=False))
    return pld_lib.PrivacyLossDistribution(*sides)


_MOST_CELLS = 1_000_000
"""Cells of a grid of losses to either side of zero, for the memory of compositions."""


def _rounded_down(first: np.ndarray, second: np.ndarray, interval: float) -> pld_pmf.PLDPmf:
    """The loss of two discrete distributions, under `first`, moved to the grid below."""
    some = first > 0
    # Where rounding has left a probability just below zero the loss is nan, and left out below.
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.log(first[some]) - np.log(second[some])
    reach = min(_MAX_LOSS, _MOST_CELLS * interval)
    loss = np.minimum(loss, reach)  # a loss beyond the grid counts as its end, or not at all
    kept = loss > -reach
    index = np.floor(loss[kept] / interval).astype(int)
    low = index.min()
    masses = (np.bincount(index - low, weights=side[some][kept]) for side in (first, second))
    with_record, without = masses
    return contracted(interval, low, with_record * (1 - _MASS_ERROR), without * (1 + _MASS_ERROR))


def contracted(interval: float, low: int, first: np.ndarray, second: np.ndarray) -> pld_pmf.PLDPmf:
    """A loss distribution that no composition of a pair of discrete distributions can fall below.

    Cell k holds outcomes whose losses lie between `low + k` and the next multiple of the interval. Each cell is
    split at random between these two, and all that comes to one multiple is reported as one outcome. This
    is post-processing. The shares are such that the ratio of the two probabilities of that outcome is at least
    what the multiple says; where it is more, the loss is rounded downwards. Of smooth distributions so little is
    rounded that a composition loses only the variance within the cells, which is of second order.

    Args:
        interval: spacing of the losses, > 0.
        low: the least loss, in units of the interval.
        first: at most the probabilities of the cells under the first distribution, shape (n,).
        second: at least those under the second one, shape (n,).
    """
    place = low + np.arange(first.size)
    first, second = _lifted_to_multiples(interval, place, first, second)
    surplus = _surplus(interval * place, first, second)
    missing = -_surplus(interval * place[1:], first[:-1], second[:-1])
    # What is still below its own multiple goes to the next one.
    short = surplus < 0
    surplus, missing = np.maximum(surplus, 0.0), np.maximum(missing, 0.0)
    lifted = np.zeros(first.size)  # share of each cell that goes to the multiple above
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lifted[:-1] = np.nan_to_num(surplus[1:] / (surplus[1:] + missing))
        allowed = np.nan_to_num((1 - lifted[1:]) * surplus[1:] / missing, posinf=1.0)
    lifted[:-1] = np.minimum(lifted[:-1], allowed)
    lifted[short] = 0.0
    mass = np.zeros(first.size + 1)  # from the multiple below the first cell on
    mass[1:] = np.where(short, 0.0, (1 - lifted) * first)
    mass[2:] += lifted[:-1] * first[:-1]
    mass[:-1] += np.where(short, first, 0.0)
    some = np.flatnonzero(mass)
    return from_places(interval, low - 1 + some, mass[some], 0.0, up=False)


def _surplus(loss: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """By how much masses exceed those of the second distribution times exp(loss)."""
    with np.errstate(divide="ignore", over="ignore"):
        return first - np.exp(np.log(second) + loss)


def _lifted_to_multiples(
    interval: float, place: np.ndarray, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The cells of `contracted`, in which few lie below their own multiple.

    Rounding, or what was charged for it, puts outcomes whose loss is a multiple a trace below it, such as 0
    where nothing happens. A small share of the next heavy cell above, reported together with them, makes up for
    it; this is post-processing, too. No cell gives to more than one other.
    """
    surplus = _surplus(interval * place, first, second)
    short = np.flatnonzero(surplus < 0)
    if not short.size:
        return first, second
    heavy = np.flatnonzero(surplus > -surplus.min() / _TRACE)
    above = np.searchsorted(heavy, short)
    short, above = short[above < heavy.size], above[above < heavy.size]
    giver, one = np.unique(heavy[above], return_index=True)
    short = short[one]
    gain = _surplus(interval * place[short], first[giver], second[giver])
    share = -surplus[short] * (1 + _TRACE) / gain
    moved = []
    for side in (first, second):
        side = side.copy()
        side[short] += share * side[giver]
        side[giver] *= 1 - share
        moved.append(side)
    return moved[0], moved[1]


def optimistic(
    remove: tuple[np.ndarray, np.ndarray], add: tuple[np.ndarray, np.ndarray], interval: float
) -> pld_lib.PrivacyLossDistribution:
    """A loss distribution that no composition of the given pairs of outputs can fall below.

    Args:
        remove: probabilities of the same outcomes with and without the record, flat arrays; the
            loss is that of the first against the second.
        add: likewise for the data sets of the other direction, without the record first.
        interval: spacing of the grid; a round loses at most this much epsilon, and much less where the losses
            are many, see `contracted`.

    Returns:
        dp-accounting's object with both directions, rounded downwards.
    """
    return pld_lib.PrivacyLossDistribution(
        _rounded_down(*remove, interval), _rounded_down(*add, interval)
    )
