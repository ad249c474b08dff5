"""Renyi divergences of balanced iteration subsampling, bounded from both sides.

Everything is about log E_Q L^p with L = G M as in `ratio`: p = alpha for the forward divergence
D_alpha(P || Q), p = 1 - alpha for the reverse one. log E G^p = p (p - 1) c^2 / 2.

Whole orders up to the number of known moments are exact. Gauss and Gauss-Radau rules of M leave an error of
the sign of a derivative of x^p, so they bound every other mean from a known side. Beyond the known
moments the forward divergence is bounded by independent columns (second half of the file), and

* above by Corollary 3.14; by Poisson sampling at rate k / T (given the other rows, the expectation is that
  of a product of increasing functions of the indicators of one row, which are negatively associated);
  by the disclosed subset;
* below by D_alpha / alpha being non-decreasing (Ehrhard, see `ratio`), and by those tuples of
  subsets most of which agree.

Independent columns bound the moments of any order n on both sides. With phi(r) = E (1 + r X)^n and
R the law under which the columns X_i stay independent, each tilted by (1 + r X)^n,

    E e_k(X)^n = phi(r)^T r^(-k n) E_R p^n,   p = Pr(exactly k hits | X),

hits being independent given X with chances q_i = r X_i / (1 + r X_i). It holds for every r > 0; the
best r makes k a typical number of hits. Given X, the rows of an n x T matrix of hits are independent, so
E_R p^2 is the chance that two rows have k hits each, a sum over the hits that they share. Then

* below: E_R p^n >= (E_R p^2)^(n / 2) for n >= 2;
* above: a Fourier integral with |1 - q + q exp(i t)|^2 = 1 - 2 q (1 - q)(1 - cos t) gives
  p <= exp(-v) I_0(v), v = sum q_i (1 - q_i), which is kappa / sqrt(v) at most, with kappa near
  1 / sqrt(2 pi) where v is large. sqrt(v) exp(-v) I_0(v) rises and then falls: its logarithmic derivative
  g = 1 / (2 v) - 1 + I_1 / I_0 has g' = -1 / (4 v^2) wherever it vanishes, so that it vanishes once.
  Means of powers of v follow from its Laplace transform, see `_log_chance_above`.

Errors of the rules. Column means of (r X)^j (1 + r X)^(n - j), j = 0, 1, 2, and n >= 2, are trapezoidal sums
of step h over z. The integrand f is analytic for |Im z| < pi / a, where |1 + r exp(a z)| is at most its value
at the real part, so Int |f(x + i y)| dx <= exp(y^2 / 2) Int f dx and the relative error is at most
2 exp(y^2 / 2) / (exp(2 pi y / h) - 1) (Trefethen and Weideman 2014, Theorem 5.1). The Laplace transform of a
column has the further factor exp(-s q (1 - q)), q (1 - q) = 1 / (2 + 2 cosh w) with w = log r + a z - a^2 / 2.
For |Im w| < pi / 2 the real part of cosh w is positive, so that this factor is at most 1 there and the same
bound holds with y < pi / (2 a), relative to phi. With h <= 0.1, h <= 0.25 / a and y = min(pi / (2 a), 2 pi / h)
that is below 3e-17. Since (1 + r X)^n rises with z and (1 / X + r)^n falls, each end cuts off a share below
Phi(-10). Both are within `_ROUNDING`, which is charged.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, gammainccinv, gammaln, i0e

from repro.accounting._gaussian import log_sum
from repro.accounting.partitioning.power_means import log_power_means
from repro.accounting.partitioning.printed import forward_bound, poisson_rdp
from repro.accounting.partitioning.ratio import BalancedRatio

__all__ = ["log_forward", "log_moment_bounds", "log_reverse"]

_ROUNDING = 4e-15  # relative to the largest terms of a sum
_TABLES = 512  # largest order for the Poisson bound, which takes a table of its square


def log_forward(ratio: BalancedRatio, alpha: np.ndarray, method: str) -> np.ndarray:
    """Bound on (alpha - 1) D_alpha(P || Q), alpha > 1 of shape (n,)."""
    exact, noise = _exact(ratio, float(np.max(alpha)))
    exact = exact + (-noise if method == "lower" else noise)
    low, high = (x + _gaussian_part(ratio, alpha) for x in _log_means(ratio, alpha))
    beyond = alpha > exact.size + 1
    some = np.flatnonzero(beyond & (alpha >= 2))
    tilted = log_moment_bounds(ratio.a, ratio.size, ratio.k, alpha[some])
    whole = (alpha == np.floor(alpha)) & ~beyond
    if method == "lower":
        low[some] = np.maximum(low[some], tilted[0])
        low = np.maximum(low, _agreeing(ratio, alpha))
        known = np.arange(2, exact.size + 2)
        per_order = np.append(ratio.width**2 / 2, exact / (known * (known - 1)))
        below = np.searchsorted(known, alpha, side="right")
        low = np.maximum(low, alpha * (alpha - 1) * per_order[below])
        low[whole] = exact[alpha[whole].astype(int) - 2]
        return np.maximum(low, 0.0)
    high[some] = np.minimum(high[some], tilted[1])
    # The logarithm of the moment is convex in the order, and 0 at order 1.
    floor, ceil = np.floor(alpha), np.ceil(alpha)
    ends = [_upper(ratio, exact, np.maximum(x, 2)) * (x > 1) for x in (floor, ceil)]
    return np.minimum(high, ends[0] + (alpha - floor) * (ends[1] - ends[0]))


def log_reverse(ratio: BalancedRatio, alpha: np.ndarray, method: str) -> np.ndarray:
    """Bound on (alpha - 1) D_alpha(Q || P), alpha > 1 of shape (n,)."""
    low, high = (x + _gaussian_part(ratio, alpha) for x in _log_means(ratio, 1 - alpha))
    if method == "lower":
        return low
    # D_alpha(Q || P) / alpha is at most D_b(P || Q) / b for every b > 1; and D(P || Q) dominates.
    second = ratio.log_second + ratio.width**2
    high = np.minimum(high, alpha * (alpha - 1) * second / 2)
    return np.minimum(high, log_forward(ratio, alpha, "upper"))


def _gaussian_part(ratio: BalancedRatio, power: np.ndarray) -> np.ndarray:
    return power * (power - 1) * ratio.width**2 / 2


def _exact(ratio: BalancedRatio, top: float) -> tuple[np.ndarray, np.ndarray]:
    """log E L^n for n = 2, 3, ..., as far as it is known or wanted, and its error."""
    moments, error = ratio.log_moments
    if moments.size - 1 < top:
        moments, error = ratio.more_log_moments
    exact = moments[2:] + _gaussian_part(ratio, np.arange(2, moments.size))
    noise = np.full(exact.size, error)
    noise[0] = 0.0  # known to full relative precision
    return exact, noise


def _log_means(ratio: BalancedRatio, power: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds on log E M^p by quadrature rules, shape (n,)."""
    if ratio.rules is None:
        return np.zeros(power.shape), np.full(power.shape, np.inf)
    return log_power_means(ratio.usable_moments, ratio.rules, power)


def _upper(ratio: BalancedRatio, exact: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Upper bound on log E L^n for whole n >= 2."""
    position = order.astype(int) - 2
    some = position < exact.size
    result = np.empty(order.shape)
    result[some] = exact[position[some]]
    beyond = order[~some].astype(int)
    if beyond.size:
        bound = forward_bound(beyond, ratio.size, ratio.k, 1 / ratio.a)
        bound = np.minimum(bound, beyond * ratio.k * ratio.a**2 / 2)
        near = beyond <= _TABLES
        if np.any(near):
            poisson = ratio.size * poisson_rdp(beyond[near], 1 / ratio.a, ratio.k / ratio.size)
            bound[near] = np.minimum(bound[near], poisson)
        result[~some] = bound * (beyond - 1)
    return result


def _agreeing(ratio: BalancedRatio, alpha: np.ndarray) -> np.ndarray:
    """Lower bound from the tuples of n subsets, n = floor(alpha), of which most are one subset B.

    The j < n / 2 others differ from B in one element: k (T - k) choices each. All pairs share k elements,
    less one for each pair of B and another, less at most two for each pair of others.
    """
    order = np.floor(alpha)
    n, k, square = ratio.size, ratio.k, ratio.a**2
    log_count = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    j = np.arange(int(np.max(order)) // 2 + 1)
    log_other = np.log(k * (n - k)) - square * (order - 1)
    left = np.maximum(order[:, None] - j, 0)
    log_choose = gammaln(order + 1)[:, None] - gammaln(j + 1) - gammaln(left + 1)
    terms = np.where(2 * j < order[:, None], log_choose + j * log_other[:, None], -np.inf)
    value = square * k * order * (order - 1) / 2 - (order - 1) * log_count + log_sum(terms, axis=1)
    value = value - _ROUNDING * order * (square * k * order + log_count)
    # D is non-decreasing in the order.
    return np.where(order >= 2, value / np.maximum(order - 1, 1) * (alpha - 1), 0.0)


# Moments of any order from independent columns -----------------------------------------------------

_STEP = 0.1  # of the integral over a column, in standard deviations
_REACH = 10.0  # of the same, beyond the tilted mean
_POINTS = 16000  # most points of it
_NEARBY = (-0.6, -0.25, -0.08, 0.0, 0.08, 0.25)  # log r tried, relative to the one of k mean hits
_LAPLACE = 320  # points of the integral over s
_CUT_OFF = 1e-9  # share of that integral that is left out where v is not rare
_SUP = 0.46883  # largest sqrt(v) exp(-v) I_0(v), attained at v = 0.79
_WEIGHTS = (0.3, 1.0, 3.0)  # of v in the exponential bound on a small v
_CORE = (0.5, 0.7, 0.85)  # v above this share of its mean takes the kappa of that point


def log_moment_bounds(
    a: float, size: int, k: int, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds on log E L^n, L = e_k / C(T, k).

    Args:
        a: shift in standard deviations, > 0.
        size: T; k: 0 < k < T.
        order: n >= 2, shape (m,), not necessarily whole.

    Returns:
        two arrays of shape (m,); -inf and inf where the integrals would take too many points.
    """
    low, high = np.full(order.shape, -np.inf), np.full(order.shape, np.inf)
    for j, n in enumerate(order):
        if (2 * _REACH + a * n) / min(_STEP, 0.25 / a) <= _POINTS:
            tilted = _TiltedColumns(a, size, k, float(n))
            bounds = [tilted.bounds(x) for x in tilted.central + np.array(_NEARBY)]
            low[j], high[j] = np.max(bounds, axis=0)[0], np.min(bounds, axis=0)[1]
    return low, high


class _TiltedColumns:
    """The law R for one order n and every r."""

    def __init__(self, a: float, size: int, k: int, n: float) -> None:
        self.size, self.k, self.n = size, k, n
        step = min(_STEP, 0.25 / a)
        z = np.arange(-_REACH, _REACH + a * n, step)
        self.log_x = a * z - a**2 / 2
        self.log_normal = np.log(step) - z**2 / 2 - np.log(2 * np.pi) / 2
        self.log_count = gammaln(size + 1) - gammaln(k + 1) - gammaln(size - k + 1)

    @property
    def central(self) -> float:
        """log r at which the mean number of hits is k; it is increasing in r."""
        low, high = -np.max(self.log_x) - 60, -np.min(self.log_x) + 60
        while high - low > 1e-3:
            middle = (low + high) / 2
            weight, hit, _ = self._law(middle)
            low, high = (middle, high) if self.size * (weight @ hit) < self.k else (low, middle)
        return high

    def _law(self, log_r: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Weights of the points, their chances of a hit, and log phi."""
        log_tilted = self.n * np.logaddexp(0.0, log_r + self.log_x) + self.log_normal
        log_phi = float(log_sum(log_tilted, axis=0))
        return np.exp(log_tilted - log_phi), expit(log_r + self.log_x), log_phi

    def bounds(self, log_r: float) -> tuple[float, float]:
        """Lower and upper bound from one r."""
        weight, hit, log_phi = self._law(log_r)
        front = self.size * log_phi - self.n * (self.k * log_r + self.log_count)
        slack = self.size * abs(log_phi) + self.n * (self.k * abs(log_r) + self.size)
        slack = _ROUNDING * (slack + self.n * np.log(self.size) * self.size)
        low = front + self.n / 2 * _log_two_rows(weight, hit, self.size, self.k)
        high = front + _log_chance_above(weight, hit * (1 - hit), self.size, self.n)
        return low - slack, high + slack


def _log_two_rows(weight: np.ndarray, hit: np.ndarray, size: int, k: int) -> float:
    """log of the chance that two rows of hits both have exactly k."""
    shared = np.arange(max(0, 2 * k - size), k + 1)
    counts = np.stack([shared, k - shared, k - shared, size - 2 * k + shared])
    both, one, none = weight @ hit**2, weight @ (hit * (1 - hit)), weight @ (1 - hit) ** 2
    log_chance = np.log(np.maximum([both, one, one, none], 1e-300))
    terms = gammaln(size + 1) - gammaln(counts + 1).sum(axis=0) + log_chance @ counts
    return float(log_sum(terms, axis=0))


def _log_chance_above(weight: np.ndarray, spread: np.ndarray, size: int, n: float) -> float:
    """log of a bound on E p^n through v, the sum of `spread` over the columns.

    With M(s) = E exp(-s v), a product over the columns, and any w >= 0 and S > 0,

        (1 / Gamma(n / 2)) Int_0^S s^(n / 2 - 1) M(s + w) ds = E v^(-n / 2) exp(-w v) Pr(g <= S v),

    g of the gamma law of shape n / 2. So the left side is at least (1 - c) E v^(-n / 2) exp(-w v) over v >= v0,
    where S v0 is the quantile of g that is exceeded with chance c. Smaller v are rare, Pr(v < v0) is at most
    exp(s v0) M(s) for every s, and p <= 1 there. All points of the sum over s are tried as S.

    No quadrature error: between two points log M is convex, hence below its chord, and s = exp(x) is above its
    tangent in the middle, so that the integrand over x lies below an exponential, which is integrated.
    """
    mean = size * (weight @ spread)
    if mean < 1e-6:
        return 0.0
    half = n / 2
    middle = np.log(half / mean)
    # The integrand starts like s^(n / 2); its end depends on how likely small v are.
    x = np.linspace(middle - 40 / half - 5, middle + 12, _LAPLACE)
    s = np.exp(x)

    def log_transform(at: np.ndarray) -> np.ndarray:
        """log M, shape of `at`, with the error of the columns' means."""
        laplace = np.exp(-at[:, None] * spread) @ weight
        return size * np.log(np.minimum(laplace + _ROUNDING, 1.0))

    def log_power_means(w: float) -> np.ndarray:
        """log of at least the left side above for S = s[1], s[2], ..."""
        log_m = log_transform(s + w)
        slope = -np.diff(log_m) / np.diff(s)
        tangent = np.sqrt(s[1:] * s[:-1])  # the middle of x
        rate, length = half - slope * tangent, np.diff(x)
        centre = (x[1:] + x[:-1]) / 2
        level = log_m[:-1] - slope * (tangent - s[:-1]) + half * centre
        parts = level + _log_sinh_mean(rate * length / 2) + np.log(length)
        first = float(log_transform(np.array([w]))[0]) + half * x[0] - np.log(half)
        return np.logaddexp(np.logaddexp.accumulate(parts), first) - gammaln(half)

    rare_below = 1.000001 * gammainccinv(half, _CUT_OFF) / s[1:]
    rare = np.min(rare_below[:, None] * s + log_transform(s), axis=1)
    kept = -np.log1p(-2 * _CUT_OFF)
    plain = log_power_means(0.0) + kept
    beyond = {w: log_power_means(w) + kept for w in _WEIGHTS}
    best = np.min(np.logaddexp(n * np.log(_SUP) + plain, rare))
    for share in _CORE:
        core = share * mean
        kappa = np.sqrt(core) * i0e(core)
        if core < 1 or kappa >= _SUP:
            continue
        # From v0 to the core p sqrt(v) is at most _SUP; exp(w (core - v)) is at least one there.
        for w, log_mean in beyond.items():
            inner = np.logaddexp(rare, n * np.log(_SUP) + w * core + log_mean)
            found = np.logaddexp(n * np.log(kappa) + plain, inner)
            best = min(best, np.min(np.where(rare_below <= core, found, np.inf)))
    return min(float(best), 0.0)


def _log_sinh_mean(x: np.ndarray) -> np.ndarray:
    """log(sinh(x) / x), the mean of exp over [-x, x]."""
    size = np.maximum(np.abs(x), 1e-4)  # a larger argument gives a larger mean
    return size + np.log(-np.expm1(-2 * size) / (2 * size))
