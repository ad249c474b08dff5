"""The least of the two upper bounds on random participation, at single epsilons and as a whole curve.

`log_count_bound` reveals how many other records were drawn, `log_pair_bound` all drawn records but one. The least
of two upper bounds is one. Single epsilons ask for both. Curves of hundreds of epsilons ask for the second one, which
costs about ten times as much, only at knots: the largest divergence over all data sets is convex in
exp(epsilon), so that chords between upper bounds at any two epsilons bound it in between.
"""

from __future__ import annotations

import math

import numpy as np

from repro.accounting.random_participation.revelation import log_pair_bound
from repro.accounting.random_participation.upper import log_count_bound

__all__ = ["hull", "log_least_bound", "lowered"]

_FAINT = -41.0  # log delta beyond which the second bound is not asked for
_GAP = 1.5e-3  # of a chord between knots, relative to delta; it raises the spread of losses by about as much
_EASED = 1 / 4  # power of delta by which that gap may grow in the tail
_MOST = 200  # knots


def log_least_bound(
    epsilon: np.ndarray, s: np.ndarray, p: np.ndarray, q: np.ndarray, d: int, direction: str
) -> np.ndarray:
    """log of the least of the two bounds; arguments and answer as for `log_count_bound`."""
    bound = log_count_bound(epsilon, s, p, q, d, direction)
    some = np.flatnonzero(bound > _FAINT)
    if some.size:
        setting = epsilon[some], s[some], p[some], q[some], d, direction
        bound[some] = np.minimum(bound[some], log_pair_bound(*setting))
    return bound


def lowered(
    epsilon: np.ndarray, log_d: np.ndarray, s: float, p: float, q: float, d: int, direction: str
) -> np.ndarray:
    """A curve of `log_count_bound` with the least of the two bounds at those epsilons that matter.

    Args:
        epsilon: rising from 0, shape (n,). log_d: the curve there.
        s, p, q, d, direction: as for `log_count_bound`.

    Returns:
        log of upper bounds, shape (n,), no longer convex in exp(epsilon).
    """
    at, result = _knots(epsilon, log_d), log_d.copy()
    if at.size:
        setting = epsilon[at], *(np.full(at.size, x) for x in (s, p, q)), d, direction
        result[at] = np.minimum(log_d[at], log_pair_bound(*setting))
    return result


def _knots(epsilon: np.ndarray, log_d: np.ndarray) -> np.ndarray:
    """Places of epsilons above 0 between which chords over exp(epsilon) are close to the curve.

    A chord of length h is off by h^2 / 8 of the second derivative, which in epsilon and relative to delta is
    L'' + L'^2 - L' for L = log delta.
    """
    last = np.flatnonzero(log_d > _FAINT)
    if last.size < 3:
        return np.zeros(0, dtype=int)
    x, y = epsilon[: last[-1] + 1], log_d[: last[-1] + 1]
    length = np.diff(x)
    slope = np.diff(y) / length
    turn = np.zeros(x.size)
    turn[1:-1] = 2 * np.diff(slope) / (length[1:] + length[:-1])
    turn[0], turn[-1] = turn[1], turn[-2]
    slope = np.append(slope, slope[-1])
    gap = _GAP * np.exp(np.minimum((y[0] - y) * _EASED, 700.0))
    density = np.sqrt(np.maximum(turn + slope**2 - slope, 0.0) / (8 * gap))
    number = np.append(0.0, np.cumsum((density[1:] + density[:-1]) / 2 * length))
    if number[-1] > _MOST:
        number *= _MOST / number[-1]
    places = np.searchsorted(number, np.arange(1, int(number[-1]) + 1))
    return np.unique(np.append(np.minimum(places, x.size - 1), x.size - 1))


def hull(epsilon: np.ndarray, log_d: np.ndarray) -> np.ndarray:
    """Places of the points from which the lower convex hull of delta over exp(epsilon) hangs, shape (m,).

    Args:
        epsilon: rising, shape (n,). log_d: log delta there, finite or -inf.
    """
    x, y = epsilon.tolist(), log_d.tolist()

    def log_fall(i: int, j: int) -> float:
        """log of how fast delta falls between two points."""
        if y[j] >= y[i]:
            return -math.inf
        drop = y[j] - y[i]
        length = x[j] - x[i]
        growth = length if length > 40 else math.log(math.expm1(length))
        return y[i] + math.log(-math.expm1(drop)) - x[i] - growth

    kept = [0]
    for j in range(1, len(x)):
        while len(kept) > 1 and log_fall(kept[-1], j) >= log_fall(kept[-2], kept[-1]):
            kept.pop()
        kept.append(j)
    return np.array(kept)
