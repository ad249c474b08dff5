"""From privacy profiles to dp-accounting's privacy loss distributions, rounded to a known side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib

__all__ = ["optimistic", "optimistic_profile", "pessimistic"]

#: Per-round mass of the loss beyond the grid; it is charged as certain failure when rounding up.
_BEYOND = 1e-18
_MAX_POINTS = 4_000_000
#: Losses beyond this are counted as this (upwards) or dropped (downwards) when rounding down.
_MAX_LOSS = 50.0

Profile = Callable[[np.ndarray], np.ndarray]


def _grid(log_delta: Profile, interval: float) -> np.ndarray:
    """0, interval, 2 interval, … up to the first power-of-two reach where delta is negligible."""
    reach = 0.25
    while log_delta(np.array([reach]))[0] > np.log(_BEYOND):
        reach *= 1.5
        if reach / interval > _MAX_POINTS:
            raise ValueError(
                f"interval={interval} is too fine: the privacy loss exceeds {reach:.0f}, "
                f"which needs more than {_MAX_POINTS} grid points; use a larger interval"
            )
    return interval * np.arange(int(np.ceil(reach / interval)) + 1)


def _upper_half(log_delta: Profile, interval: float) -> tuple[np.ndarray, float]:
    """Connect-the-dots masses at interval, 2 interval, … and at infinity, for losses above 0.

    Doroshenko et al. 2022, Algorithm 1, written with decrements of delta that are taken in the log
    domain, so that masses far out in the tail keep their relative precision.
    """
    log_d = log_delta(_grid(log_delta, interval))
    log_d = np.minimum.accumulate(log_d)
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isfinite(log_d[:-1]), log_d[1:] - log_d[:-1], 0.0)
    drop = -np.exp(log_d[:-1]) * np.expm1(ratio)
    up = drop / -np.expm1(-interval)
    down = np.append(drop[1:] / np.expm1(interval), 0.0)
    return np.maximum(up - down, 0.0), float(np.exp(log_d[-1]))


def _one_sided(half: tuple[np.ndarray, float], reverse: tuple[np.ndarray, float], interval: float):
    """Masses of the loss of (P, Q) at integer multiples of the interval, and at infinity.

    `half` and `reverse` are the upper halves of (P, Q) and of (Q, P).
    """
    above, infinity = half
    below, _ = reverse
    steps = np.arange(1, below.size + 1)
    below = below * np.exp(-interval * steps)
    zero = 1.0 - above.sum() - below.sum() - infinity
    # A mass is a second difference of delta over the interval: rounding of deltas adds up to this much over
    # the grid, and more mass than one is on the safe side.
    points = max(1 / interval, above.size, below.size)
    if zero < -1e-9 - 4 * np.finfo(float).eps * points / interval:
        raise ValueError(f"the profile is not a hockey-stick curve: mass {zero:.3g} at loss zero")
    masses = {int(k): float(m) for k, m in zip(-steps, below, strict=True) if m > 0}
    masses[0] = max(zero, 0.0)
    masses.update({k + 1: float(m) for k, m in enumerate(above) if m > 0})
    return masses, infinity


def pessimistic(
    log_remove: Profile, log_add: Profile, interval: float
) -> pld_lib.PrivacyLossDistribution:
    """A loss distribution whose composition bounds every mechanism below the two profiles.

    Args:
        log_remove, log_add: log delta of the two directions as functions of epsilon >= 0. Each has to
            be an upper bound on the supremum over data sets; together (delta at -epsilon follows from
            the reverse direction) they describe one dominating pair per direction.
        interval: spacing of the grid of losses, > 0.

    Returns:
        dp-accounting's object with both directions, rounded upwards (connect the dots).
    """
    (remove, remove_infinity), (add, add_infinity) = _connected(log_remove, log_add, interval)
    return pld_lib.PrivacyLossDistribution.create_from_rounded_probability(
        remove, remove_infinity, interval, True, add, add_infinity, symmetric=False
    )


def _connected(log_remove: Profile, log_add: Profile, interval: float):
    """Masses of both directions, "remove" first, each with the mass at infinity."""
    halves = [_upper_half(profile, interval) for profile in (log_remove, log_add)]
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
    lowered = []
    for masses, infinity in _connected(log_remove, log_add, interval):
        masses[max(masses)] += infinity
        lowered.append({k - 1: mass for k, mass in masses.items()})
    return pld_lib.PrivacyLossDistribution.create_from_rounded_probability(
        lowered[0], 0.0, interval, False, lowered[1], 0.0, symmetric=False
    )


_MOST_CELLS = 1_000_000
"""Cells of a grid of losses to either side of zero, for the memory of compositions."""


def _rounded_down(first: np.ndarray, second: np.ndarray, interval: float) -> dict[int, float]:
    """Masses, under `first`, of the loss of two discrete distributions, moved to the grid below."""
    some = first > 0
    # Where rounding has left a probability just below zero the loss is nan, and left out below.
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.log(first[some]) - np.log(second[some])
    reach = min(_MAX_LOSS, _MOST_CELLS * interval)
    loss = np.minimum(loss, reach)  # a loss beyond the grid counts as its end, or not at all
    kept = loss > -reach
    index = np.floor(loss[kept] / interval).astype(int)
    low = index.min()
    mass = np.bincount(index - low, weights=first[some][kept])
    return {int(k) + int(low): float(mass[k]) for k in np.flatnonzero(mass)}


def optimistic(
    remove: tuple[np.ndarray, np.ndarray], add: tuple[np.ndarray, np.ndarray], interval: float
) -> pld_lib.PrivacyLossDistribution:
    """A loss distribution that no composition of the given pairs of outputs can fall below.

    Args:
        remove: probabilities of the same outcomes with and without the record, flat arrays; the
            loss is that of the first against the second.
        add: likewise for the data sets of the other direction, without the record first.
        interval: spacing of the grid; rounding down loses at most this much epsilon per round.

    Returns:
        dp-accounting's object with both directions, rounded downwards.
    """
    return pld_lib.PrivacyLossDistribution.create_from_rounded_probability(
        _rounded_down(*remove, interval),
        0.0,
        interval,
        False,
        _rounded_down(*add, interval),
        0.0,
        symmetric=False,
    )
