"""Random participation with little noise: closed forms that leave next to nothing for grids to find.

Letters as in `_weights`. Upper: whoever is told who takes part has to tell M1 from M0, one clip apart (Theorem 5.2).

Lower: the other records share a gradient orthogonal to the differing one. The adversary looks on which side of j / 2
clips, any j, the sum lies along their axis, and then for a half-line along the other one. Beyond j / 2 at least the
share B = P(count >= j) Phi(j / 2s) of M0 and M1 lies, and n = Phi(-j / 2s) of N, so that the events gain

    remove: B D(1/s, w1 + w0 n / B),      add: (B - w0 n) D(1/s, w1 B / (B - w0 n)),

and less for a smaller B. On the near side B = P(count < j / 2) Phi(1 / 2s), and n is at most 1.
Thresholds are rounded relative to 1/s: one clip is taken longer above and shorter below by more than that.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

from repro.accounting._binomial import window
from repro.accounting._gaussian import log_diff, log_shift_divergence
from repro.accounting._weights import weights
from repro.accounting.random_participation.lower import normal_masses
from repro.accounting.random_participation.upper import log_disclosed, log_error

__all__ = ["LITTLE", "log_disclosed_bound", "log_sides", "side_masses"]

LITTLE = 0.25  # noise multiplier up to which `log_sides` is worth asking
_LONGER = 8 * np.finfo(float).eps
_CELL, _REACH = 1 / 14, 9.0  # of cells, in standard deviations: width, and margin
_MASS = 1e-12  # relative rounding of binomial masses


def log_disclosed_bound(
    epsilon: np.ndarray, s: np.ndarray, p: np.ndarray, q: np.ndarray, direction: str
) -> np.ndarray:
    """Upper bound on the log of the divergence, however little the noise; arrays of shape (n,)."""
    factor, log_w1, _ = weights(epsilon, p, q, direction)
    return factor + np.minimum(log_disclosed(s * (1 - _LONGER), log_w1), 0.0)


def log_sides(
    epsilon: np.ndarray, s: np.ndarray, p: np.ndarray, q: np.ndarray, d: int, direction: str
) -> np.ndarray:
    """Lower bound on the log of the divergence, the best of a few j; arrays of shape (n,), d >= 1 other records."""
    factor, log_w1, log_w0 = weights(epsilon, p, q, direction)
    s = s * (1 + _LONGER)
    spread = np.sqrt(d * q * (1 - q))
    places = [np.full(q.shape, x) for x in (0.0, 1.0, 2.0, 4.0)]
    places += [np.floor(np.clip(d * q - k * spread, 0, d)) for k in (3.0, 5.0, 7.0, 10.0)]
    rest, best = (s, log_w1, log_w0, direction), np.full(epsilon.shape, -np.inf)
    with np.errstate(divide="ignore", over="ignore"):
        for j in places:
            line = np.where(j > 0, j / 2, -np.inf) / s  # below every sum, where j = 0
            beyond = np.log(binom.sf(j - 1, d, q)) + log_ndtr(np.abs(line))
            near = np.log(binom.cdf(np.ceil(j / 2) - 1, d, q)) + log_ndtr(0.5 / s)
            silent = np.where(j > 0, log_ndtr(-line) + _LONGER * (1 + (j / 2 / s) ** 2), 0.0)
            far_gain = _gain(beyond, silent, *rest)
            best = np.maximum(best, np.logaddexp(far_gain, _gain(near, np.zeros(s.shape), *rest)))
    return factor + best - _MASS


def _gain(log_b, log_n, s, log_w1, log_w0, direction):
    """log of what the event of one side gains, shape (n,); rounding counts against it."""
    with np.errstate(invalid="ignore"):
        stay = np.where(np.isneginf(log_w0) | np.isneginf(log_n), -np.inf, log_w0 + log_n)
        if direction == "remove":
            first, second = log_b, np.logaddexp(log_w1 + log_b, stay)
        else:
            first, second = log_diff(log_b, stay + _MASS), log_w1 + log_b
        weight = np.where(np.isneginf(first), np.inf, second - first)
        rounding = log_error(log_ndtr(0.5 / s - s * weight))
        value = log_diff(log_shift_divergence(1 / s, weight), rounding)
    return np.where(np.isneginf(first), -np.inf, first + value)


def side_masses(s: float, p: float, q: float, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The module's pair, with and without the record: probabilities of the side and of cells along the other axis.

    Reporting these is post-processing. Scalars s > 0, p and q in (0, 1], d >= 1; each flat.
    """
    counts, log_b, _ = window(d, np.array([q]))
    line = max(1.0, np.floor(d * q - 10 * np.sqrt(d * q * (1 - q)))) / 2  # hardly a count is below
    stay = ndtr(np.array([line, -line]) / s)
    there = np.array([np.exp(log_b[0]) @ ndtr(side * (line - counts[0]) / s) for side in (1, -1)])
    edge = np.concatenate([[-np.inf], np.arange(-_REACH, 1 / s + _REACH, _CELL), [np.inf]])
    zero, moved = (normal_masses(at[:-1], at[1:]) for at in (edge, edge - 1 / s))
    unused = np.outer((1 - p) * stay + p * (1 - q) * there, zero)
    used = unused + p * q * np.outer(there, moved)
    return used.ravel(), (unused + p * q * np.outer(there, zero)).ravel()
