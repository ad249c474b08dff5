"""Upper bound for one iteration of two-level sampling: reveal the count, share out the rest.

The statement that is implemented (the repaired Theorem 4.1; proof in
``notebooks/random_participation/derivations.ipynb``). Let the client hold d other records and let
b_i be the Binomial(d, q) weights. For every choice of gradients of norm at most C and every
alpha >= 1

    D_alpha(P || Q) <= p q Int [ sum_i b_i [N(z; (i+1) C) - w1 N(z; i C)]_+  -  w0 N(z; 0) ]_+ dz

with the weights of :mod:`repro.accounting._weights`, and likewise for the other direction with
i - 1 in place of i. Two steps lead there: the weight w0 of "the client stays away" is split among
the counts i in any way (which can only raise the integral), and for each count Kahane's inequality
shows collinear gradients of full norm to be the worst. The best split has one common threshold z*.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import elementwise
from scipy.special import log_ndtr

from repro.accounting._gaussian import (
    compress,
    log_diff,
    log_mills,
    log_shift_divergence,
    log_sum,
)

__all__ = ["log_split_bound"]


def _log_kept(z, first, log_b, log_w1, s):
    """log of b_i [N(z; a) - w1 N(z; a - 1)]_+ times s sqrt(2 pi), a = ``first``; shape (n, width).

    Divided by the density at 0 this is the share of w0 that a threshold z assigns to each count.
    """
    with np.errstate(divide="ignore"):
        gain = np.log(-np.expm1(np.minimum(log_w1 - (z - first + 0.5) / s**2, 0.0)))
    return log_b + gain - ((z - first) / s) ** 2 / 2


def _threshold(first, log_b, log_w1, log_w0, s):
    """Common threshold z*, at which the shares add up to w0, and by how much they exceed it; (n, 1)."""
    low = np.min(first, axis=1, keepdims=True) - 0.5 + s**2 * log_w1
    # From above: the heaviest count that grows with z takes all of w0 on its own.
    heavy = np.argmax(np.where(first >= 1, log_b, -np.inf), axis=1)[:, None]
    top, top_b = np.take_along_axis(first, heavy, 1), np.take_along_axis(log_b, heavy, 1)
    alone = top / 2 + s**2 * (np.log(2.0) + log_w0 - top_b) / top
    high = np.maximum(top - 0.5 + s**2 * (log_w1 + np.log(2.0)), alone)
    needed = np.isfinite(log_w0[:, 0]) & (high > low)[:, 0]

    def excess(z, row):
        """log of (shares / w0): monotone in z, from -inf at ``low``."""
        rows = row.astype(int)
        kept = log_sum(
            _log_kept(z[:, None], first[rows], log_b[rows], log_w1[rows], s[rows]), axis=1
        )
        return kept - (log_w0[rows, 0] - (z / s[rows, 0]) ** 2 / 2)

    z, over = low.copy(), np.zeros_like(low)
    if np.any(needed):
        rows = np.flatnonzero(needed)
        row = rows.astype(float)
        found = elementwise.find_root(
            lambda z, row: compress(excess(z, row)), (low[rows, 0], high[rows, 0]), args=(row,)
        )
        # A hair below the root less than w0 is shared out, which keeps the bound on the safe side; what
        # it costs is of second order, because the threshold is a maximiser.
        near = np.fmax(low[rows, 0], found.x - 1e-9 * s[rows, 0] ** 2)
        left = excess(near, row)
        # Where counts are huge, rounding may leave a trace too much; more than that is a failed search,
        # and sharing out nothing is always allowed.
        failed = ~(left <= 1e-3)
        z[rows, 0] = np.where(failed, low[rows, 0], near)
        over[rows, 0] = np.where(failed, 0.0, np.maximum(left, 0.0))
    return z, over


def log_split_bound(
    counts: np.ndarray,
    log_b: np.ndarray,
    tail: np.ndarray,
    log_w1: np.ndarray,
    log_w0: np.ndarray,
    s: np.ndarray,
) -> np.ndarray:
    """log of the integral in the module docstring, without the factor in front.

    Args:
      counts: positions of the added Gaussians in units of the clip (i + 1 or i), shape (n, width);
        the subtracted ones lie one lower.
      log_b: logarithms of their weights, same shape.
      tail: weight outside the window, shape (n,); it is charged as if participation were revealed.
      log_w1, log_w0: weights, shape (n,).
      s: noise multiplier sigma / clip, shape (n,).

    Returns:
      shape (n,), in [-inf, 0].
    """
    revealed = log_shift_divergence(1 / s, log_w1)
    result = revealed.copy()
    # Silence costs the adversary at most w0 (1 - Phi(lowest threshold)); where that is nothing against
    # the rest, participation is as good as disclosed and the counts need not be looked at.
    lowest = counts[:, 0] - 0.5 + s**2 * log_w1
    rows = np.flatnonzero(log_w0 + log_ndtr(-lowest / s) > revealed - 40)
    if rows.size:
        result[rows] = _bound(
            counts[rows], log_b[rows], tail[rows], log_w1[rows], log_w0[rows], s[rows]
        )
    return np.minimum(result, revealed)


def _bound(counts, log_b, tail, log_w1, log_w0, s):
    """The sum over counts of :func:`log_split_bound`."""
    log_w1, log_w0, s = log_w1[:, None], log_w0[:, None], s[:, None]
    z, over = _threshold(counts, log_b, log_w1, log_w0, s)
    # Distances from the own Gaussian, so that counts of 1e5 cost no digits.
    own = np.maximum(z - counts, -0.5 + s**2 * log_w1)
    value = log_diff(log_ndtr(-own / s), log_w1 + log_ndtr(-(own + 1) / s))
    given_away = _log_kept(z, counts, log_b, log_w1, s) + log_mills(z / s) - 0.5 * np.log(2 * np.pi)
    value = log_diff(log_b + value, given_away)
    with np.errstate(divide="ignore"):
        excess = np.where(over > 0, np.log(np.expm1(over)) + log_w0 + log_ndtr(-z / s), -np.inf)
        outside = np.log(tail)[:, None] + log_shift_divergence(1 / s, log_w1)
    return log_sum(np.concatenate([value, outside, excess], axis=1), axis=1)
