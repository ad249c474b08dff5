"""Error rates of the best test, from a privacy profile: the bound from above behind `_risk`.

Let delta_r and delta_a be upper bounds on the profiles of "remove" and "add" at some epsilons >= 0. A test that
calls the record present has with w = e^epsilon, for every one of these,

    true-positive rate  <= delta_r + w * false-positive rate      (the event "called present"),
    true-negative rate  <= delta_a + w * false-negative rate      (the event "called absent").

So any finite set of epsilons gives a valid bound: the smallest of these lines. Between two lines that are next to
each other the bound has a corner. Every corner on or below the curve of a Gaussian mechanism means that the whole
bound is: that curve is concave, and so lies above the chord between two of its points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

__all__ = ["QUANTILE_ERROR", "Lines", "bounding_lines", "shift_of_points"]

QUANTILE_ERROR = 1e-14
"""Rounding of a difference of two quantiles of the normal distribution."""

_STEP = 0.01  # of epsilon, relative where it is below 1
_MOST_STEPS = 4000  # above epsilon = 1
_NOTHING = np.log(1e-18)  # log delta beyond which no epsilon is tried
_FARTHEST = 300.0  # the largest epsilon: false-positive rates below e^-300 are none
_PLATEAU = 32.0  # epsilon from which on a delta that no longer falls ends the search
_HALVINGS = 25
_CELLS = 4_000_000
_ROUNDING = 8 * 2.0**-53

Profile = Callable[[np.ndarray, str], np.ndarray]


class _Half(NamedTuple):
    """Lines y <= delta + w x that bound one error rate by the other, and their corners.

    Attributes:
        weight: w = e^epsilon >= 1, ascending, shape (n,).
        delta: shape (n,).
        x: where a line meets the next one, descending, shape (n - 1,).
        y: height there, shape (n - 1,).
    """

    weight: np.ndarray
    delta: np.ndarray
    x: np.ndarray
    y: np.ndarray


class Lines(NamedTuple):
    """The bounds of the module for a set of epsilons: those on "remove" and those on "add"."""

    remove: _Half
    add: _Half

    def rates(self, fpr: np.ndarray, way: str) -> tuple[np.ndarray, np.ndarray]:
        """Bounds on the true-positive rate (from above) and on the false-negative rate (from below).

        Each is computed without a difference from 1 where it is small.

        Args:
            fpr: false-positive rates in [0, 1], shape (n,).
            way: "remove", where a positive says that the record is there, or "add".
        """
        positive, negative = self if way == "remove" else self[::-1]
        line = np.searchsorted(-positive.x, -fpr)
        tpr = positive.delta[line] + positive.weight[line] * fpr
        line = np.searchsorted(-negative.y, fpr - 1)
        fnr = (1 - fpr - negative.delta[line] - _ROUNDING) / negative.weight[line]
        tpr, fnr = (
            np.minimum(tpr * (1 + _ROUNDING), 1 - fnr + _ROUNDING),
            np.maximum(fnr * (1 - _ROUNDING), 1 - tpr - _ROUNDING),
        )
        return np.clip(tpr, fpr, 1.0), np.clip(fnr, 0.0, 1 - fpr)

    def shift(self, least: float) -> float:
        """The smallest mu whose Gaussian curve is above all corners where both error rates are at least `least`.

        The same in both directions.
        """
        edge = np.array([least])
        x = np.concatenate([self.remove.x, self.add.x, edge, edge])
        ends = [self.rates(edge, way)[0] for way in ("remove", "add")]
        y = np.concatenate([self.remove.y, self.add.y, *ends])
        return shift_of_points(x, y * (1 + _ROUNDING), least) + QUANTILE_ERROR


def shift_of_points(fpr: np.ndarray, tpr: np.ndarray, least: float) -> float:
    """The largest Phi^-1(tpr) - Phi^-1(fpr), at least 0; error rates below `least` count as `least`."""
    shift = ndtri(np.clip(tpr, least, 1 - least)) - ndtri(np.clip(fpr, least, 1 - least))
    return float(max(np.max(shift), 0.0))


def bounding_lines(log_delta: Profile) -> Lines:
    """The lines of the module at a grid of epsilons that is fine where losses are.

    Args:
        log_delta: (epsilons of shape (n,), "remove" or "add") -> log of a valid delta, shape (n,).
    """
    epsilon = _grid(lambda e: np.maximum(log_delta(e, "remove"), log_delta(e, "add")))
    delta = [np.exp(np.minimum(log_delta(epsilon, way), 0.0)) for way in ("remove", "add")]
    # At epsilon = 0 both are the total variation distance.
    start = min(delta[0][0], delta[1][0])
    return Lines(*(_half(epsilon, np.append(start, each[1:])) for each in delta))


def _grid(log_delta: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """0 and epsilons up to where delta is next to nothing."""
    (start,) = log_delta(np.zeros(1))
    if start < _NOTHING:
        return np.zeros(1)
    low, reach, before = 0.0, 0.25, start
    while reach < _FARTHEST:
        (now,) = log_delta(np.array([reach]))
        if now < _NOTHING or (reach >= _PLATEAU and now > before - 1e-6):
            break
        low, reach, before = reach, 2 * reach, now
    reach = min(reach, _FARTHEST)
    # Where losses have an end, the line there is the one for small rates.
    for _ in range(_HALVINGS):
        middle = (low + reach) / 2
        low, reach = (
            (low, middle) if log_delta(np.array([middle]))[0] < _NOTHING else (middle, reach)
        )
    scale, turn = np.exp(min(start, 0.0)), min(reach, 1.0)  # the first: size of a typical loss
    near = scale * np.sinh(np.arange(0, np.arcsinh(turn / scale), _STEP))
    far = np.linspace(turn, reach, min(_MOST_STEPS, int((reach - turn) / _STEP) + 2))
    epsilon = np.unique(np.concatenate([near, far]))
    # Two whose exponentials are one double are one line.
    return epsilon[np.unique(np.exp(epsilon), return_index=True)[1]]


def _half(epsilon: np.ndarray, delta: np.ndarray) -> _Half:
    """The lines that bound somewhere, and their corners."""
    weight = np.exp(epsilon)
    used = np.arange(delta.size)
    corner = _corners(weight, delta)
    if np.any(np.diff(corner) >= 0):
        # Some lines bound nowhere, or by rounding only: keep those that are lowest at some corner.
        step = max(1, _CELLS // delta.size)
        at = np.append(corner, 0.0)
        lowest = [
            np.argmin(delta + at[k : k + step, None] * weight, axis=1)
            for k in range(0, at.size, step)
        ]
        used = np.unique(np.concatenate([[0], *lowest]))
        corner = np.minimum.accumulate(_corners(weight[used], delta[used]))
    weight, delta = weight[used], delta[used]
    return _Half(weight, delta, corner, delta[:-1] + weight[:-1] * corner)


def _corners(weight: np.ndarray, delta: np.ndarray) -> np.ndarray:
    return np.maximum(-np.diff(delta) / np.diff(weight), 0.0)
