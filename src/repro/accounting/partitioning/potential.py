"""From bounds on a privacy profile to a law of the likelihood ratio, rounded to a known side.

Let U(t) = E (L - t)_+ under Q, a convex function of t. A law whose own U lies above (below) that of L
everywhere is larger (smaller) in the convex order, which is what `laws` needs for both directions
and for compositions. Here U is known at the points exp(j step) only, and only by bounds. With
V(t) = E (t - L)_+ = U(t) + t - 1 for t < 1:

* above: a convex function below given values lies below the lower hull of these points;
* below: U falls and V rises, so values taken from the next point further out hold on a whole cell, and
  so does the lower hull of points moved like that. It costs one step.

Working with V below one and U above keeps the relative precision of both tails.
"""

from __future__ import annotations

import numpy as np

from repro.accounting.partitioning.laws import Law

__all__ = ["law_from_potential"]


def law_from_potential(log_call: np.ndarray, log_put: np.ndarray, step: float, method: str) -> Law:
    """The law with the hull of the given values as its potential.

    Args:
      log_call: bounds on log U(exp(j step)), j = 0, ..., n.
      log_put: bounds on log V(exp(-j step)), j = 0, ..., n; only j >= 1 is used when rounding up.
      step: spacing in log ratio, > 0.
      method: "upper" if the values are upper bounds, "lower" if they are lower ones.
    """
    call, put = np.exp(log_call), np.exp(log_put)
    if method == "lower":
        call, put = np.append(call[1:], 0.0), np.append(put[1:], 0.0)
        call[0] = min(call[0], put[0])
        call[-2:] = put[-2:] = 0.0
    put[0] = call[0]
    n = call.size - 1
    # Below one, from the mirrored points: V at exp(-n step), ..., exp(-step), 1, and 0 at 0.
    below = np.append(0.0, np.exp(-step * np.arange(n, -1, -1)))
    above = np.exp(step * np.arange(n + 1))
    value_below, value_above = np.append(0.0, put[::-1]), call
    for _ in range(_ROUNDS):
        first, second = _hull(below, value_below), _hull(above, value_above)
        left = _slopes(below[first], value_below[first])
        right = _slopes(above[second], value_above[second])
        if left[-1] - 1 <= right[0]:
            break
        # The point at one lies above the chord of its neighbours: put it there.
        t0, t1 = below[first][-2], above[second][1]
        u0, u1 = value_below[first][-2] + 1 - t0, value_above[second][1]
        value_below[-1] = value_above[0] = u0 + (1 - t0) / (t1 - t0) * (u1 - u0)
    value = np.concatenate([below[first][1:-1], above[second]])
    mass = np.concatenate([np.diff(left), [right[0] - left[-1] + 1], np.diff(right), [-right[-1]]])
    mass = np.maximum(mass, 0.0)
    some = mass > 0
    infinite = float(value_above[-1]) if method == "upper" else 0.0
    return Law(value[some], mass[some], zero=float(left[0]), infinite=infinite)


#: Rounds after which the point at one must lie on the hull; two are enough unless bounds contradict.
_ROUNDS = 50


def _slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.diff(y) / np.diff(x)


def _hull(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Indices of the vertices of the lower convex hull; both ends stay."""
    index = np.arange(x.size)
    while True:
        slope = _slopes(x[index], y[index])
        bad = np.flatnonzero(slope[1:] < slope[:-1]) + 1
        if bad.size == 0:
            return index
        # Neighbouring points may excuse each other: of a run only every second one goes at a time.
        run = np.concatenate([[True], np.diff(bad) > 1])
        position = np.arange(bad.size) - np.maximum.accumulate(
            np.where(run, np.arange(bad.size), 0)
        )
        index = np.delete(index, bad[position % 2 == 0])
