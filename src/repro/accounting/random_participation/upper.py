"""Upper bound for one iteration of two-level sampling: reveal the count, share out the rest.

The statement that is implemented (the repaired Theorem 4.1; proof in
`notebooks/random_participation/derivations-repaired.ipynb`). Let the client hold d other records and let
b_i be the Binomial(d, q) weights. For every choice of gradients of norm at most C and every
alpha >= 1

    D_alpha(P || Q) <= p q Int [ sum_i b_i [N(z; (i+1) C) - w1 N(z; i C)]_+  -  w0 N(z; 0) ]_+ dz

with the weights of `repro.accounting._weights`, and likewise for the other direction with
i - 1 in place of i. Two steps lead there: the weight w0 of "the client stays away" is split among
the counts i in any way (which can only raise the integral), and for each count Kahane's inequality
shows collinear gradients of full norm to be the worst. The best split has one common threshold z*.

No quadrature is behind the value, only rounding, which is added to it. Each bracket is a difference of two
tails, of which the first is the larger. A log of a tail at t is off by `_UNITS` (1 + t^2) at most, so the
difference is off by that share of the first tail; terms whose t^2 / 2 exceeds minus the log of the sum by
more than 40 are less than exp(-40) of it, so that 2 (40 + |log of the sum|) bounds the t^2 that count.
What is given away is less than the bracket, and the same share covers it. An inexact z* is harmless.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from repro.accounting._binomial import window
from repro.accounting._gaussian import (
    log_diff,
    log_mills,
    log_shift_divergence,
    log_sum,
)
from repro.accounting._weights import weights

__all__ = ["log_count_bound", "log_disclosed", "log_error", "log_split_bound"]

_CELLS = 4_000_000
_UNITS = 8 * np.finfo(float).eps  # rounding of the log of a normal tail at t, relative to 1 + t^2
_WEIGHT = 4e-13  # relative error of binomial weights, twice what was measured against 40 digits
_STEPS = 100  # of a search for thresholds; about five are taken
_NEAR = 1e-3  # values of the function that count as small there
_APART = 16  # rows between those whose thresholds are searched for first


def _log_kept(z, first, log_b, log_w1, s):
    """log of b_i [N(z; a) - w1 N(z; a - 1)]_+ times s sqrt(2 pi), a = `first`; shape (n, width).

    Divided by the density at 0 this is the share of w0 that a threshold z assigns to each count.
    """
    with np.errstate(divide="ignore"):
        gain = np.log(-np.expm1(np.minimum(log_w1 - (z - first + 0.5) / s**2, 0.0)))
    return log_b + gain - ((z - first) / s) ** 2 / 2


def _shares(z, first, log_b, log_w1, s):
    """log of the sum of `_log_kept` over the counts, and its slope in z; both of shape (n,)."""
    gain = -np.expm1(np.minimum(log_w1 - (z - first + 0.5) / s**2, 0.0))
    weight = np.where(gain > 0, log_b - ((z - first) / s) ** 2 / 2, -np.inf)
    top = np.max(weight, axis=1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    weight = np.exp(weight - top)
    kept = weight * gain
    total = np.sum(kept, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.sum(kept * (first - 1 - z) + weight, axis=1) / (s[:, 0] ** 2 * total)
        return np.log(total) + top[:, 0], slope


def _root(function, low, high, guess, width):
    """Where each of n increasing functions vanishes: Newton's method, kept between two bounds.

    Args:
        function: (z, rows) -> values and slopes, arrays of the shape of z; -inf counts as negative.
        low, high: bounds, guess: where to start, width: last step that is small enough; shape (n,).
    """
    z, low, high = guess.copy(), low.copy(), high.copy()
    open_rows = np.arange(z.size)
    for step in range(_STEPS):
        at = z[open_rows]
        value, slope = function(at, open_rows)
        low[open_rows] = np.where(value > 0, low[open_rows], at)
        high[open_rows] = np.where(value > 0, at, high[open_rows])
        left, right = low[open_rows], high[open_rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = at - value / slope
        small = np.abs(moved - at) <= width[open_rows]
        near = np.abs(value) <= _NEAR
        # A short step far from zero is one next to a pole. Late steps halve the bracket in turn, in
        # case Newton's method goes round in circles.
        newton = (moved >= left) & (moved <= right) & (near | ~small)
        newton &= step < _STEPS // 2 or step % 2 == 0
        z[open_rows] = np.where(newton, moved, (left + right) / 2)
        open_rows = open_rows[~((small & near) | (right - left <= width[open_rows]))]
        if open_rows.size == 0:
            break
    return z


def _threshold(first, log_b, log_w1, log_w0, s):
    """Common threshold z*, at which the shares add up to w0, and by how much they exceed it; (n, 1)."""
    low = np.min(first, axis=1, keepdims=True) - 0.5 + s**2 * log_w1
    # From above: the heaviest count that grows with z takes all of w0 on its own.
    heavy = np.argmax(np.where(first >= 1, log_b, -np.inf), axis=1)[:, None]
    top, top_b = np.take_along_axis(first, heavy, 1), np.take_along_axis(log_b, heavy, 1)
    alone = top / 2 + s**2 * (np.log(2.0) + log_w0 - top_b) / top
    high = np.maximum(top - 0.5 + s**2 * (log_w1 + np.log(2.0)), alone)
    # Where it gives away less than half of itself for that, much lower: with much noise no search would come there.
    log_part = np.minimum(log_w0 + (top / s) ** 2 / 2 - top_b, -np.log(2.0))
    soon = top - 0.5 + s**2 * (log_w1 - np.log1p(-np.exp(log_part)))
    high = np.where((log_part < -np.log(2.0)) & (soon >= 0), soon, high)
    rows = np.flatnonzero(np.isfinite(log_w0[:, 0]) & (high > low)[:, 0])
    z, over = low.copy(), np.zeros_like(low)
    if not rows.size:
        return z, over
    first, log_b, log_w1, log_w0, s = (x[rows] for x in (first, log_b, log_w1, log_w0, s))
    low, high, unit = low[rows, 0], high[rows, 0], s[:, 0] ** 2

    def excess(z, row):
        """log of (shares / w0) and its slope: monotone in z, from -inf at `low`."""
        kept, slope = _shares(z[:, None], first[row], log_b[row], log_w1[row], s[row])
        return kept - (log_w0[row, 0] - z**2 / unit[row] / 2), slope + z / unit[row]

    def search(row, guess):
        width = np.maximum(1e-10 * unit[row], 4 * np.spacing(high[row]))
        return _root(lambda z, k: excess(z, row[k]), low[row], high[row], guess, width)

    # Neighbouring rows are mostly alike (a grid of epsilons), so a few of them tell where to start.
    every = np.arange(rows.size)
    coarse = every[::_APART]
    found = search(coarse, high[coarse])
    found = search(every, np.clip(np.interp(every, coarse, found), low, high))
    # A hair below the root less than w0 is shared out, which keeps the bound on the safe side; what
    # it costs is of second order, because the threshold is a maximiser.
    near = np.fmax(low, found - 1e-9 * unit)
    left, _ = excess(near, every)
    # Where counts are huge, rounding may leave a trace too much; more than that is a failed search,
    # and sharing out nothing is always allowed.
    failed = ~(left <= 1e-3)
    z[rows, 0] = np.where(failed, low, near)
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
    revealed = log_disclosed(s, log_w1)
    result = revealed.copy()
    # Silence costs the adversary at most w0 (1 - Phi(lowest threshold)); where that is nothing against
    # the rest, participation is as good as disclosed and the counts need not be looked at.
    lowest = counts[:, 0] - 0.5 + s**2 * log_w1
    rows = np.flatnonzero(log_w0 + log_ndtr(-lowest / s) > revealed - 40)
    if rows.size:
        result[rows] = _bound(
            counts[rows], log_b[rows], tail[rows], log_w1[rows], log_w0[rows], s[rows]
        )
    return np.minimum(np.minimum(result, revealed), 0.0)


def log_disclosed(s: np.ndarray, log_w1: np.ndarray) -> np.ndarray:
    """The same where participation is disclosed, which can only be more; no more than its rounding above 0."""
    value = log_shift_divergence(1 / s, log_w1)
    return np.logaddexp(value, log_error(log_ndtr(0.5 / s - s * log_w1)))


def _bound(counts, log_b, tail, log_w1, log_w0, s):
    """The sum over counts of `log_split_bound`."""
    log_w1, log_w0, s = log_w1[:, None], log_w0[:, None], s[:, None]
    z, over = _threshold(counts, log_b, log_w1, log_w0, s)
    # Distances from the own Gaussian, so that counts of 1e5 cost no digits.
    own = np.maximum(z - counts, -0.5 + s**2 * log_w1)
    value = log_diff(log_ndtr(-own / s), log_w1 + log_ndtr(-(own + 1) / s))
    rounding = log_error(log_sum(log_b + log_ndtr(-own / s), axis=1))[:, None]
    given_away = _log_kept(z, counts, log_b, log_w1, s) + log_mills(z / s) - 0.5 * np.log(2 * np.pi)
    value = log_diff(log_b + value, given_away)
    with np.errstate(divide="ignore"):
        excess = np.where(over > 0, np.log(np.expm1(over)) + log_w0 + log_ndtr(-z / s), -np.inf)
        outside = np.log(tail)[:, None] + log_shift_divergence(1 / s, log_w1)
    return log_sum(np.concatenate([value, outside, excess, rounding], axis=1), axis=1)


def log_error(log_first: np.ndarray) -> np.ndarray:
    """log of the rounding error of differences whose first terms have this log; see the module docstring."""
    with np.errstate(invalid="ignore"):
        share = _WEIGHT + _UNITS * (1 + 2 * (40 + np.abs(log_first)))
        return np.where(np.isfinite(log_first), log_first + np.log(share), -np.inf)


def log_count_bound(
    epsilon: np.ndarray, s: np.ndarray, p: np.ndarray, q: np.ndarray, d: int, direction: str
) -> np.ndarray:
    """log of the repaired Theorem 4.1 (see the module docstring), which reveals how many other records were drawn.

    Args:
        epsilon, s, p, q: epsilon >= 0, noise multiplier > 0 and rates in (0, 1], shape (n,).
        d: number of other records, >= 1.
        direction: "add" or "remove".

    Returns:
        shape (n,), -inf where nothing leaks beyond epsilon.
    """
    factor, log_w1, log_w0 = weights(epsilon, p, q, direction)
    result = np.full(epsilon.shape, -np.inf)
    usable = np.flatnonzero(np.isfinite(factor))
    if usable.size == 0:
        return result
    rates, inverse = np.unique(q, return_inverse=True)
    counts, log_b, tail = window(d, rates)
    added = counts + 1 if direction == "remove" else counts
    step = max(1, _CELLS // counts.shape[1])
    for rows in (usable[k : k + step] for k in range(0, usable.size, step)):
        at = inverse[rows]
        bound = log_split_bound(added[at], log_b[at], tail[at], log_w1[rows], log_w0[rows], s[rows])
        result[rows] = factor[rows] + bound
    return result
