"""Upper bound for one iteration of two-level sampling: reveal all drawn records but one.

The statement (partial revelation with groups of two sizes; proof and numerical checks in
`notebooks/random_participation/derivations-repaired.ipynb`). Let the client hold d >= 1 other records, b_k be the
Binomial(d, q) weights, and in units of the noise let x be the differing record's gradient and h one other.
With the weights of `repro.accounting._weights` and M(z) = N(z + x) - w1 N(z) ("remove"; "add" has
M(z) = N(z) - w1 N(z + x)), for any shares A_k + B_{k-1} = b_k >= 0 of the sizes k = 0 ... d

    D_alpha(P || Q) <= factor * max over unit x, h of
        Int [A_0 M(0) + B_0 M(h) - w0 N(0)]_+  +  sum over k >= 1 of Int [A_k M(0) + B_k M(h)]_+ .

Two steps lead there. The sum over sizes is cut into groups of two neighbouring sizes, which can only raise
the integral of the positive part. In group k the adversary learns which k records come first in a random
order, and which record is next, but not whether the latter was drawn. The next record is uniform in every
group, so that one record h serves all groups, and only the angle between x and h remains.

Seen from the other end of x, "add" is "remove" with the opposite angle, except that N(0) lies at x instead
of at 0. So each group is an integral of a1 N(x) - a0 N(0) + r [N(x + h) - w1 N(h)].

Certified maximum. Let x and h have the inner product c. If squared lengths 1 + e1 and 1 + e2 and the inner
product c' fulfil e1 e2 >= (c - c')^2, the Gram matrix of the longer pair exceeds that of (x, h), so a
contraction maps the one pair to the other: the shorter pair is a post-processing of the longer one, and
leaks no more. Finitely many longer pairs therefore cover all angles, and all gradients shorter than the clip.

No quadrature error. Along x the positive set is a half-line beyond t, whose integral G(r) is a sum of four
normal tails. Across x only the ratio r = R rho of the two sizes' densities changes, rho being log-normal.
G is convex, so its chords between knots lie above it, and their means are sums of normal masses. The
knots are given by t, from which r follows without a search. Rounding is added.

`method="upper"` of `RandomParticipation` does not use this bound: it costs several milliseconds per epsilon, a
hundred times more than the bound of `upper`, and is not defined everywhere. The least of the two is valid.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from repro.accounting._weights import weights

__all__ = ["log_pair_bound"]

_SMALLEST_S, _LARGEST_S = 0.2, 4.0  # noise multipliers; beyond them the bound of `upper` is as good
_MOST_EXPECTED = 5.0  # drawn records d q; where there are more, the bound of `upper` is as good
_LARGEST_Q = 0.98  # so that no weight b_0 vanishes
_LARGEST_LOG = 40.0  # of the weights, so that no exponential overflows
_TAIL = 1e-4  # weight of the sizes that are too large to be worth a group
_CELLS, _PARTS = 24, 3  # cells of cosines in [-1, 1], and parts into which the worst are cut, twice
_KNOTS = {"coarse": 28, "fine": 48}
_COSINES = np.array([-0.1, 0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95, 1.0])
"""Cosines that decide between shares, and half the width of their cells."""
_NARROW = 1e-3
_STRETCH = 6.0  # e2 / e1: the length of x matters much more than that of h
_SPAN = 9.0  # of the logarithms of r beyond which the chords are the asymptotes
_TEMPERATURE = 2e-3  # relative differences of bounds that decide between shares
_ROUNDING = 1e-11  # relative; a few hundred units for tails and chords at these parameters
_LEAST = 1e-250  # smaller sums may have lost terms to underflow
_PAIRS = 4096  # cells of all rows that are looked at together


class _Knots(NamedTuple):
    """G on a line of knots: chords `level + slope r` between them; all of shape (m, n + 1) or (m, n)."""

    log_r: np.ndarray
    level: np.ndarray
    slope: np.ndarray


class _Pair(NamedTuple):
    """Two gradients in units of the noise: length of x, parts of h along and across; shape (m, 1)."""

    length: np.ndarray
    along: np.ndarray
    across: np.ndarray


def _pair(cosine: np.ndarray, half_width: float, s: np.ndarray) -> _Pair:
    """The longer pair that covers all cosines within `half_width` of each given one, shape (m, 1)."""
    length = np.sqrt(1 + half_width / _STRETCH)
    along = cosine / length
    across = np.sqrt(1 + half_width * _STRETCH - along**2)
    return _Pair(length / s, along / s, across / s)


def _knots(pair: _Pair, a1, a0, w1, n: int) -> _Knots:
    """Chords of G(r) = Int [a1 N(x) - a0 N(0) + r (N(x + h) - w1 N(h))]_+ du along x.

    Args:
        pair: the two gradients, m of them.
        a1, a0, w1: weights of shape (m, 1), a0, w1 > 0; where a1 <= 0 the part of h along x must be >= 0.
        n: number of knots.
    """
    length, along, _ = pair
    # Thresholds at r = 0 and at r = inf; without a positive part the first is infinite.
    some = a1 > 0
    last = along + np.log(w1) / length + length / 2
    first = np.log(a0 / np.where(some, a1, 1.0)) / length + length / 2
    gap = np.where(np.abs(last - first) > 1e-12, last - first, 1e-12)
    # log r is the logit of the place between the two plus a term that steepens it in the middle.
    half = np.maximum(np.abs(length * gap / 2), 1e-6)
    steep = np.maximum((2 * half / np.tanh(half / 2) - along * gap) / 4 - 1, 1e-3)
    bend = 2.2 * steep**0.4
    place = _SPAN * np.sinh(bend * np.linspace(-1, 1, n)) / np.sinh(bend)
    # Distance to `last` where `first` is infinite.
    behind = 8.0 * np.expm1(np.linspace(5.0, 5.0 / n, n)) / np.expm1(5.0)
    t = np.where(some, first + gap / (1 + np.exp(-place)), last + behind)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        finite = np.log(a0 * np.abs(np.expm1(length * gap / (1 + np.exp(-place)))))
        infinite = np.log(a0 + np.maximum(-a1, 0.0) * np.exp(length * t - length**2 / 2))
        to_last = np.where(some, -gap / (1 + np.exp(place)), behind)
        below = np.log(w1 * np.abs(np.expm1(length * to_last))) + along * t - along**2 / 2
    log_r = np.where(some, finite, infinite) - below
    r = np.exp(log_r)

    def tails(t, r):
        """G at the best threshold t, rounded up."""
        positive = np.maximum(a1, 0.0) * ndtr(length - t) + r * ndtr(along + length - t)
        negative = a0 * ndtr(-t) - np.minimum(a1, 0.0) * ndtr(length - t) + r * w1 * ndtr(along - t)
        return np.maximum(positive - negative, 0.0) + 1e-13 * positive

    at_zero = np.where(some, tails(np.where(some, first, 0.0), 0.0), 0.0)
    added = ndtr(along + length - last)
    limit = np.maximum(added - w1 * ndtr(along - last), 0.0) + 1e-13 * added
    level = np.concatenate([at_zero, tails(t, r)], axis=1)
    r = np.concatenate([np.zeros_like(at_zero), r], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.concatenate([np.diff(level) / np.diff(r), limit], axis=1)
    return _Knots(log_r, level - slope * r, slope)


def _masses(edge: np.ndarray) -> np.ndarray:
    """Standard normal masses of the cells between ascending edges and beyond them, shape (..., n + 1)."""
    # The distribution function, less one where it exceeds a half: differences of tails keep their digits.
    shape = (*edge.shape[:-1], edge.shape[-1] + 2)
    below, above = np.zeros(shape), np.zeros(shape)
    below[..., 1:-1] = np.copysign(ndtr(-np.abs(edge)), -edge)
    above[..., 1:-1] = np.signbit(-edge)
    above[..., -1] = 1.0
    return np.diff(below) + np.diff(above)


def _mean(knots: _Knots, across: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """At least a E[G(rho b / a)], for weights a, b >= 0 of shape (..., m)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_ratio = np.log(b) - np.log(a)
    alone = ~np.isfinite(log_ratio)
    y = (knots.log_r - np.where(alone, 0.0, log_ratio)[..., None]) / across + across / 2
    near, far = _masses(y), _masses(y - across)
    level, slope = knots.level, knots.slope

    def value(level, slope):
        return a * np.einsum("...j,...j", near, level) + b * np.einsum("...j,...j", far, slope)

    total = np.where(alone, a * level[:, 0] + b * slope[:, -1], value(level, slope))
    return total + _ROUNDING * value(np.abs(level), np.abs(slope))


class _Rows(NamedTuple):
    """Settings, one a row: noise multiplier, weights w1 and w0, and b_0 ... b_K and the rest."""

    s: np.ndarray
    w1: np.ndarray
    w0: np.ndarray
    b: np.ndarray
    rest: np.ndarray
    add: bool

    def take(self, rows: np.ndarray) -> _Rows:
        """The given rows."""
        return _Rows(*(x[rows] for x in self[:-1]), self.add)


class _Groups:
    """The integrals of all groups of some rows at one cell of cosines each."""

    def __init__(self, rows: _Rows, cosine: np.ndarray, half_width: float, knots: int) -> None:
        column = lambda x: x[:, None]  # noqa: E731
        pair = _pair(column(cosine), half_width, column(rows.s))
        w1, silent = column(rows.w1), column(rows.w0 / rows.b[:, 0])
        one = np.ones_like(w1)
        a1, a0 = (one - silent, w1) if rows.add else (one, w1 + silent)
        self._rows, self._across = rows, pair.across
        # Where the weight of N(x) is negative, the integral grows with the part of h along x (its derivative
        # is an integral of two factors of one sign over the edge of the positive set).
        first = pair._replace(along=np.where(a1 > 0, pair.along, np.maximum(pair.along, 0.0)))
        whole = np.hypot(pair.along, pair.across)
        first = first._replace(across=np.sqrt(whole**2 - first.along**2))
        self._first_across = first.across
        self._first = _knots(first, a1, a0, w1, knots)
        self._other = _knots(pair, one, w1, w1, knots)

    def first(self, taken: np.ndarray) -> np.ndarray:
        """Sizes 0 and 1, of which the share `taken` is here; shape (..., m)."""
        b = self._rows.b
        return _mean(self._first, self._first_across, b[:, 0], taken * b[:, 1])

    def other(self, k: np.ndarray, left: np.ndarray, taken: np.ndarray) -> np.ndarray:
        """Share `left` of size k >= 1 and share `taken` of size k + 1; shape (len(k), m)."""
        b = self._rows.b.T
        return _mean(self._other, self._across, left * b[k], taken * b[k + 1])

    def alone(self, left: np.ndarray) -> np.ndarray:
        """Share `left` of the largest size, and all larger ones; shape (..., m)."""
        return (left * self._rows.b[:, -1] + self._rows.rest) * self._other.level[:, 0]

    def total(self, shares: np.ndarray) -> np.ndarray:
        """The bound at the cell; `shares` has shape (m, K): of size k + 1 in group k."""
        taken = shares.T
        later = self.other(np.arange(1, len(taken)), 1 - taken[:-1], taken[1:])
        value = self.first(taken[0]) + np.sum(later, axis=0) + self.alone(1 - taken[-1])
        return np.where(np.isnan(value), np.inf, value)


def _candidates(sizes: int, whole: bool) -> np.ndarray:
    """Shares that are tried, shape (candidates, sizes); `whole`: there is no size beyond the last."""
    first = (1.0, 0.97, 0.93, 0.88, 0.82, 0.74, 0.6)
    second = (0.0, 0.04, 0.2)
    later = ((1.0, 0.0), (0.4, 0.35))
    table = np.array(
        [
            [x, y, *itertools.islice(itertools.cycle(z), sizes)][:sizes]
            for x, y, z in itertools.product(first, second, later)
        ]
    )
    if whole:
        table[:, -1] = 1.0
    return np.unique(table, axis=0)


def _shares(rows: _Rows, tried: np.ndarray) -> np.ndarray:
    """Good shares for each row, shape (rows, K): a mean of the candidates that are next to the best.

    The bound is convex in the shares, so that the mean is as good as they are; and it changes
    gradually with the setting, where the best candidate would jump.
    """
    every = np.repeat(np.arange(rows.s.size), _COSINES.size)
    cosine = np.tile(_COSINES, rows.s.size)
    groups = _Groups(rows.take(every), cosine, _NARROW, _KNOTS["coarse"])
    column = lambda x: x[:, None]  # noqa: E731
    values, place = np.unique(tried[:, 0], return_inverse=True)
    total = groups.first(column(values))[place] + groups.alone(column(1 - tried[:, -1]))
    links = [np.unique(tried[:, k - 1 : k + 1], axis=0) for k in range(1, tried.shape[1])]
    if links:
        size = np.repeat(np.arange(1, tried.shape[1]), [len(x) for x in links])
        left, taken = np.concatenate(links).T
        found = groups.other(size, column(1 - left), column(taken))
        for k in range(1, tried.shape[1]):
            at = (size == k) & (left == tried[:, k - 1, None]) & (taken == tried[:, k, None])
            total += found[np.argmax(at, axis=1)]
    worst = np.max(total.reshape(len(tried), rows.s.size, _COSINES.size), axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        behind = np.nan_to_num(worst / np.min(worst, axis=0) - 1)
    chosen = np.exp(-behind / _TEMPERATURE)
    return np.einsum("cr,ck->rk", chosen / chosen.sum(axis=0), tried)


def _parts(rows: _Rows, shares, row, middle, half: float, parts: int):
    """Cosines and bounds of the equal parts of cells of some rows, shape (cells, parts)."""
    offset = half / parts * (2 * np.arange(parts) + 1) - half
    middles = middle[:, None] + offset
    at = np.repeat(row, parts)
    groups = _Groups(rows.take(at), middles.ravel(), half / parts, _KNOTS["fine"])
    return middles, groups.total(shares[at]).reshape(-1, parts)


def _bound(rows: _Rows, whole: bool) -> np.ndarray:
    """The bound without the factor in front, shape (rows,)."""
    n = rows.s.size
    half = 1.0 / _CELLS
    cosine = half * (2 * np.arange(_CELLS) + 1) - 1
    every = np.repeat(np.arange(n), _CELLS)
    shares = _shares(rows, _candidates(rows.b.shape[1] - 1, whole))
    coarse = _Groups(rows.take(every), np.tile(cosine, n), half, _KNOTS["coarse"])
    outline = coarse.total(shares[every]).reshape(n, _CELLS)
    top = np.argmax(outline, axis=1)
    # The best cell first: where another one's bound, which covers all of its parts, is not above, it is done.
    best = np.max(_parts(rows, shares, np.arange(n), cosine[top], half, _PARTS**2)[1], axis=1)
    outline[np.arange(n), top] = 0.0
    row, cell = np.nonzero(outline > best[:, None])
    middle, width = cosine[cell], half
    for _ in range(2):
        middles, found = _parts(rows, shares, row, middle, width, _PARTS)
        width /= _PARTS
        above = found > best[row][:, None]
        row, middle, found = np.repeat(row, _PARTS)[above.ravel()], middles[above], found[above]
    np.maximum.at(best, row, found)
    return best


def log_pair_bound(
    epsilon: np.ndarray, s: np.ndarray, p: np.ndarray, q: np.ndarray, d: int, direction: str
) -> np.ndarray:
    """log of the bound in the module docstring.

    Args:
        epsilon, s, p, q: epsilon >= 0, noise multiplier > 0 and rates in (0, 1], shape (n,).
        d: number of other records, >= 1.
        direction: "add" or "remove".

    Returns:
        shape (n,), +inf where the bound is not evaluated, because `log_split_bound` is as good there.
    """
    factor, log_w1, log_w0 = weights(epsilon, p, q, direction)
    result = np.full(epsilon.shape, np.inf)
    usable = np.flatnonzero(
        np.isfinite(factor)
        & (np.maximum(log_w1, log_w0) < _LARGEST_LOG)
        & np.isfinite(log_w0)
        & (s >= _SMALLEST_S)
        & (s <= _LARGEST_S)
        & (d * q <= _MOST_EXPECTED)
        & (q < _LARGEST_Q)
    )
    most = np.minimum(d, np.maximum(binom.isf(_TAIL, d, q[usable]), 2))
    step = max(1, _PAIRS // _CELLS)
    blocks = [(k, usable[most == k]) for k in np.unique(most)]
    for last, at in ((k, x[j : j + step]) for k, x in blocks for j in range(0, x.size, step)):
        b = binom.pmf(np.arange(int(last) + 1), d, q[at][:, None]) * (1 + _ROUNDING)
        rest = binom.sf(last, d, q[at])
        w1, w0 = np.exp(log_w1[at]), np.exp(log_w0[at])
        rows = _Rows(s[at], w1, w0, b, rest, direction == "add")
        found = _bound(rows, last == d)
        with np.errstate(divide="ignore", invalid="ignore"):
            result[at] = np.where(found > _LEAST, factor[at] + np.log(found), np.inf)
    return result
