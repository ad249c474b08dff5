"""The law of a sum of n independent Laplace variables of scale 1, exactly and in the log domain.

The sum is the difference of two Gamma(n, 1) variables. Its density is exp(-|x|) times a polynomial in
|x| with positive coefficients (Kotz, Kozubowski and Podgorski 2001, section 2.3),

    f(x) = sum_{k < n} w_k |x|^(n-1-k) exp(-|x|) / (n-1-k)!,   w_k = C(n-1+k, k) 2^-(n+k),

a mixture of Gamma laws of whole shape, so that its tail has the same form. Only positive terms are
added up: every value is precise to rounding, however far out. A divergence is the difference of two such tails, or
for a small shift of the mass between them and a small part of one. Its rounding is not charged, so that "upper" and
"lower" are the same number for one round. A tail, and the mass between two, is precise to about 1e-16 times the
number of variables.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.optimize import elementwise
from scipy.special import gammaln

from repro.accounting._gaussian import log_diff, log_expm1, log_sum

_FAR = 1e6
"""Outputs beyond this have a probability that no double can hold."""

FEW = 2000
"""Coefficients up to which all terms are added up; of more, only those that a double can notice."""

_LIGHT = 60.0
"""Logarithm by which the terms left out are smaller than the largest, at least."""

_DEAR = 10**6
"""Terms in one evaluation of a loss from which on evaluations are saved."""

_ROWS = 256
"""Values of x whose terms are in memory at a time."""

_SMALL, _NODES = 1.0, 8
"""Shift up to which the two tails nearly cancel; nodes of a Gauss rule between them, which is exact to rounding."""

__all__ = ["FEW", "largest_loss", "log_density", "log_gain", "log_tail", "loss", "loss_point"]


@cache
def _coefficients(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Logs of the coefficients of x^j exp(-x), j < count, in the density and in the tail."""
    k = np.arange(count)
    log_w = gammaln(count + k) - gammaln(k + 1) - gammaln(count) - (count + k) * np.log(2.0)
    log_factorial = gammaln(k + 1)  # of j, for k read as j
    # x^j in the density comes from k = count - 1 - j, in the tail from all k with count - k > j.
    density = log_w[::-1] - log_factorial
    tail = np.logaddexp.accumulate(log_w)[::-1] - log_factorial
    return density, tail


def _polynomial(x: np.ndarray, log_coefficients: np.ndarray) -> np.ndarray:
    """log of sum_j c_j x^j exp(-x) for x >= 0."""
    if log_coefficients.size <= FEW:
        return log_sum(_terms(x, log_coefficients, slice(None)), axis=-1) - x
    flat = x.ravel()
    value = np.empty(flat.size)
    order = np.argsort(flat)
    for rows in (order[k : k + _ROWS] for k in range(0, flat.size, _ROWS)):
        some = flat[rows]
        value[rows] = log_sum(
            _terms(some, log_coefficients, _heavy(some, log_coefficients)), axis=-1
        )
    return value.reshape(x.shape) - x


def _terms(x: np.ndarray, log_coefficients: np.ndarray, powers: slice) -> np.ndarray:
    """Logs of c_j x^j for the chosen powers, shape (*shape of x, powers)."""
    power = np.arange(log_coefficients.size)[powers]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(power == 0, 0.0, power * np.log(x)[..., None]) + log_coefficients[powers]


def _heavy(x: np.ndarray, log_coefficients: np.ndarray) -> slice:
    """The powers that matter at any of the ascending x >= 0.

    The logs of the terms are concave in the power, and rise faster with it where x is larger. So what lies more than
    `_LIGHT` below the largest term is below the first power kept at the least x, or above the last one at the
    largest.
    """
    ends = _terms(x[[0, -1]], log_coefficients, slice(None))
    kept = ends > ends.max(axis=1, keepdims=True) - _LIGHT
    return slice(int(np.argmax(kept[0])), kept.shape[1] - int(np.argmax(kept[1, ::-1])))


def log_density(x: np.ndarray, count: int) -> np.ndarray:
    """log f(x) of the sum of `count` Laplace variables, any shape."""
    return _polynomial(np.abs(np.asarray(x, float)), _coefficients(count)[0])


def log_tail(x: np.ndarray, count: int) -> np.ndarray:
    """log P(sum > x), any shape; precise on both sides of zero."""
    x = np.asarray(x, float)
    outer = _polynomial(np.abs(x), _coefficients(count)[1])
    return np.where(x >= 0, outer, np.log1p(-np.exp(outer)))


def log_gain(epsilon: np.ndarray, x: np.ndarray, shift: np.ndarray, count: int) -> np.ndarray:
    """log of P(sum > x - shift) - exp(epsilon) P(sum > x), shape (n,), for x >= 0; -inf where it is below 0."""
    value = log_diff(log_tail(x - shift, count), epsilon + log_tail(x, count))
    rows = max(1, _DEAR // (2 * _NODES * min(count, FEW)))
    near = np.flatnonzero(shift <= _SMALL)
    for some in (near[k : k + rows] for k in range(0, near.size, rows)):
        # The tails would cancel, so it is P(x - shift < sum <= x) - (exp(epsilon) - 1) P(sum > x).
        log_rest = log_expm1(epsilon[some]) + log_tail(x[some], count)
        value[some] = log_diff(_log_between(x[some], shift[some], count), log_rest)
    return value


def _log_between(x: np.ndarray, shift: np.ndarray, count: int) -> np.ndarray:
    """log P(x - shift < sum <= x), shape (n,): what lies below 0 is mirrored, so that no kink is inside."""
    node, weight = leggauss(_NODES)
    ends = np.stack([np.maximum(x - shift, 0.0), np.zeros(x.size), x, np.maximum(shift - x, 0.0)])
    half, middle = (ends[2:] - ends[:2])[..., None] / 2, (ends[2:] + ends[:2])[..., None] / 2
    with np.errstate(divide="ignore"):
        terms = log_density(middle + half * node, count) + np.log(half) + np.log(weight)
    return log_sum(np.concatenate(terms, axis=1), axis=1)


def loss(x: np.ndarray, shift: np.ndarray, count: int) -> np.ndarray:
    """log f(x - shift) - log f(x), the privacy loss at output x; it increases with x."""
    return log_density(x - shift, count) - log_density(x, count)


def largest_loss(shift: float, count: int, rare: float) -> float:
    """A loss above 0 beyond which outputs are rarer than `rare`; the largest there is for few variables."""
    if count <= FEW:
        return shift
    x = shift + np.geomspace(1.0, _FAR, 200)
    far = x[np.argmax(log_tail(x - shift, count) < np.log(rare))]
    return float(loss(np.array([far]), np.array([shift]), count)[0])


def loss_point(epsilon: np.ndarray, shift: np.ndarray, count: int) -> np.ndarray:
    """Where the loss reaches epsilon, for 0 <= epsilon < shift, to full precision.

    The loss is 0 at shift / 2, by symmetry. Beyond, f(x - shift) / f(x) >= e^shift (1 - shift/x)^(n-1),
    which gives the other end of the bracket.
    """
    low, high = shift / 2, np.array(shift, float)
    if count > 1:
        room = np.maximum(shift - epsilon, np.finfo(float).tiny) / (count - 1)
        with np.errstate(over="ignore"):  # next to no room: the other end counts
            high = np.minimum(shift / -np.expm1(-room), np.maximum(_FAR, 2 * shift))
    if count > FEW or count * high.size > _DEAR:  # a search with fewer evaluations
        found = elementwise.find_root(
            lambda log_x, at, moved: loss(np.exp(log_x), moved, count) - at,
            (np.log(low), np.log(high)),
            args=(epsilon, shift),
        )
        # Without a change of sign it is the closer end: the loss at `low` is 0 up to the rounding of many terms.
        miss = [np.abs(loss(end, shift, count) - epsilon) for end in (low, high)]
        end = np.where(miss[0] <= miss[1], low, high)
        return np.where(found.success, np.exp(found.x), end)
    for _ in range(200):
        middle = (low + high) / 2
        if np.all((middle <= low) | (middle >= high)):
            break
        below = loss(middle, shift, count) < epsilon
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high
