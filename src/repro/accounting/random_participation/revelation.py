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

Certified maximum. Let x and h have the inner product c, for "add" that of -x and h. A group with k >= 1 is
largest at c = 0 and falls from there to both sides; the first one is largest at

    c0 = min(1, log(a0 / (a1 w1)))     (1 where a1 <= 0),     c0 >= 0,

and falls from there to both sides. So the maximum of the sum lies between 0 and c0, and in an interval [b, c]
there the sum is at most the first group at c and the others at b: a few intervals bound all angles. The
reason is the theorem on moving centres: if Gaussians l_k with signs move, the integral of the positive part of
their sum changes at a rate that is a positive multiple of the mean of - sum over k < l of D'_kl l_k l_l over
the edge of the positive set, D'_kl being the rate of the squared distance. While h turns, only
|x - h|^2 = const - 2c and |x + h|^2 = const + 2c change, and N(0) N(x + h) = exp(-c) N(x) N(h) everywhere. So the
rate has the sign of a0 exp(-c) - a1 w1, which does not depend on the place. Gradients shorter than the clip
are a post-processing of longer ones.

No quadrature error. Along x the positive set is a half-line beyond t, whose integral G(r) is a sum of four
normal tails. Across x only the ratio r = R rho of the two sizes' densities changes, rho being log-normal.
G is convex, so its chords between knots lie above it, and their means are sums of normal masses. The
knots are given by t, from which r follows without a search. Rounding is added.
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
_INTERVALS, _PARTS = 20, 3  # intervals of cosines, and parts into which the worst are cut
_KNOTS = {"shares": 14, "outline": 20, "bound": 28}
_TRIED = np.linspace(0.0, 1.0, 5)
"""Places between 0 and c0 that decide between shares."""
_TURNED = 1e-8  # least squared part of h across x: a longer h covers angles next to 0
_SPAN = 9.0  # of the logarithms of r beyond which the chords are the asymptotes
_TEMPERATURE = 2e-3  # relative differences of bounds that decide between shares
_ROUNDING = 1e-11  # relative; a few hundred units for tails and chords at these parameters
_LEAST = 1e-250  # smaller sums may have lost terms to underflow
_TOGETHER = 40  # rows, whose arrays then fit into the cache of the processor


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


def _pair(cosine: np.ndarray, s: np.ndarray) -> _Pair:
    """Unit vectors at an angle, in units of the noise; arguments of shape (m, 1)."""
    across = np.sqrt(np.maximum(1 - cosine**2, _TURNED))
    return _Pair(1 / s, cosine / s, across / s)


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


def _first_weights(rows: _Rows) -> tuple[np.ndarray, np.ndarray]:
    """a1 and a0 of the first group, in units of the weight of size 0; shape (m,)."""
    silent = rows.w0 / rows.b[:, 0]
    one = np.ones_like(rows.w1)
    return (one - silent, rows.w1) if rows.add else (one, rows.w1 + silent)


def _worst_of_first(rows: _Rows) -> np.ndarray:
    """The cosine c0 at which the first group is largest, in [0, 1], rounded upwards; shape (m,)."""
    a1, a0 = _first_weights(rows)
    some = a1 > 0
    log_ratio = np.log(a0 / (np.where(some, a1, 1.0) * rows.w1))
    return np.where(some, np.minimum(rows.s**2 * log_ratio * (1 + _ROUNDING) + _ROUNDING, 1.0), 1.0)


class _Groups:
    """The integrals of all groups of some rows, each at one cosine in [0, 1]."""

    def __init__(self, rows: _Rows, cosine: np.ndarray, knots: int) -> None:
        column = lambda x: x[:, None]  # noqa: E731
        pair = _pair(column(cosine), column(rows.s))
        w1 = column(rows.w1)
        a1, a0 = (column(x) for x in _first_weights(rows))
        self._rows, self._across = rows, pair.across
        self._first = _knots(pair, a1, a0, w1, knots)
        self._other = _knots(pair, np.ones_like(w1), w1, w1, knots)

    def first(self, taken: np.ndarray) -> np.ndarray:
        """Sizes 0 and 1, of which the share `taken` is here; shape (..., m)."""
        b = self._rows.b
        return _mean(self._first, self._across, b[:, 0], taken * b[:, 1])

    def other(self, k: np.ndarray, left: np.ndarray, taken: np.ndarray) -> np.ndarray:
        """Share `left` of size k >= 1 and share `taken` of size k + 1; shape (len(k), m)."""
        b = self._rows.b.T
        return _mean(self._other, self._across, left * b[k], taken * b[k + 1])

    def alone(self, left: np.ndarray) -> np.ndarray:
        """Share `left` of the largest size, and all larger ones; shape (..., m)."""
        return (left * self._rows.b[:, -1] + self._rows.rest) * self._other.level[:, 0]

    def rest(self, shares: np.ndarray) -> np.ndarray:
        """All groups but the first; `shares` has shape (m, K): of size k + 1 in group k."""
        taken = shares.T
        later = self.other(np.arange(1, len(taken)), 1 - taken[:-1], taken[1:])
        return np.sum(later, axis=0) + self.alone(1 - taken[-1])


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
    every = np.repeat(np.arange(rows.s.size), _TRIED.size)
    cosine = np.outer(_worst_of_first(rows), _TRIED).ravel()
    groups = _Groups(rows.take(every), cosine, _KNOTS["shares"])
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
    worst = np.max(total.reshape(len(tried), rows.s.size, _TRIED.size), axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        behind = np.nan_to_num(worst / np.min(worst, axis=0) - 1)
    chosen = np.exp(-behind / _TEMPERATURE)
    return np.einsum("cr,ck->rk", chosen / chosen.sum(axis=0), tried)


def _cut(rows: _Rows, shares, row, ends: np.ndarray, knots: int):
    """Bounds on the intervals between neighbouring cosines, and what is reached at these.

    Args:
        rows, shares: settings, and shares of shape (rows, K).
        row: which of them each line of `ends` belongs to, shape (n,).
        ends: rising cosines between 0 and c0, shape (n, parts + 1).

    Returns:
        bounds of shape (n, parts), and values at the ends of shape (n, parts + 1).
    """
    at = np.repeat(row, ends.shape[1])
    groups = _Groups(rows.take(at), ends.ravel(), knots)
    first = groups.first(shares[at, 0]).reshape(ends.shape)
    rest = groups.rest(shares[at]).reshape(ends.shape)
    return first[:, 1:] + rest[:, :-1], first + rest


def _bound(rows: _Rows, whole: bool) -> np.ndarray:
    """The bound without the factor in front, shape (rows,)."""
    shares = _shares(rows, _candidates(rows.b.shape[1] - 1, whole))
    row = np.arange(rows.s.size)
    ends = np.outer(_worst_of_first(rows), np.linspace(0.0, 1.0, _INTERVALS + 1))
    outline, value = _cut(rows, shares, row, ends, _KNOTS["outline"])
    # An interval is done where its bound is below what some angle reaches.
    above = outline >= np.max(value, axis=1, keepdims=True)
    best = np.max(np.where(above, 0.0, outline), axis=1)
    row, place = np.nonzero(above)
    parts = np.linspace(ends[row, place], ends[row, place + 1], _PARTS + 1, axis=1)
    bound, _ = _cut(rows, shares, row, parts, _KNOTS["bound"])
    np.maximum.at(best, row, np.max(bound, axis=1))
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
    blocks = [(k, usable[most == k]) for k in np.unique(most)]
    for last, at in (
        (k, x[j : j + _TOGETHER]) for k, x in blocks for j in range(0, x.size, _TOGETHER)
    ):
        b = binom.pmf(np.arange(int(last) + 1), d, q[at][:, None]) * (1 + _ROUNDING)
        rest = binom.sf(last, d, q[at])
        w1, w0 = np.exp(log_w1[at]), np.exp(log_w0[at])
        rows = _Rows(s[at], w1, w0, b, rest, direction == "add")
        found = _bound(rows, last == d)
        with np.errstate(divide="ignore", invalid="ignore"):
            result[at] = np.where(found > _LEAST, factor[at] + np.log(found), np.inf)
    return result
