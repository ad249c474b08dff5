"""Moments of the balanced ratio at any order, from independent columns: bounds on both sides.

With phi(r) = E (1 + r X)^n and R the law under which the columns X_i stay independent, each tilted by
(1 + r X)^n,

    E e_k(X)^n = phi(r)^T r^(-k n) E_R p^n,   p = Pr(exactly k hits | X),

hits being independent given X with chances q_i = r X_i / (1 + r X_i). It holds for every r > 0; the
best r makes k a typical number of hits. Given X, the rows of an n x T matrix of hits are independent, so
E_R p^2 is the chance that two rows have k hits each, a sum over the hits that they share. Then

* below: E_R p^n >= (E_R p^2)^(n / 2) for n >= 2;
* above: a Fourier integral with |1 - q + q exp(i t)|^2 = 1 - 2 q (1 - q)(1 - cos t) gives
  p <= exp(-v) I_0(v), v = sum q_i (1 - q_i), which is kappa / sqrt(v) at most, with kappa near
  1 / sqrt(2 pi) where v is large. Powers of v have exact means by
  v^(-n / 2) Gamma(n / 2) = Int s^(n / 2 - 1) exp(-s v) ds.

Errors of the rules. Column means of (r X)^j (1 + r X)^(n - j), j = 0, 1, 2, and n >= 2, are trapezoidal sums
of step h over z. The integrand f is analytic for |Im z| < pi / a, where |1 + r exp(a z)| is at most its value
at the real part, so Int |f(x + i y)| dx <= exp(y^2 / 2) Int f dx and the relative error is at most
2 exp(y^2 / 2) / (exp(2 pi y / h) - 1) (Trefethen and Weideman 2014, Theorem 5.1). With h <= 0.1, h <= 0.5 / a
and y = min(pi / a, 2 pi / h) that is below 4e-17. Since (1 + r X)^n rises with z and (1 / X + r)^n falls, each
end cuts off a share below Phi(-10). Both are within `_ROUNDING`, which is charged. So phi and the lower bound
are certified. In the upper bound two rules have no such proof: the columns' mean of exp(-s v), and the sum
over log s.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, gammaln, i0e

from repro.accounting._gaussian import log_sum

__all__ = ["log_moment_bounds"]

_STEP = 0.1  # of the integral over a column, in standard deviations
_REACH = 10.0  # of the same, beyond the tilted mean
_POINTS = 8000  # most points of it
_NEARBY = (-0.6, -0.25, -0.08, 0.0, 0.08, 0.25)  # log r tried, relative to the one of k mean hits
_LAPLACE = 256  # points of the integral over s
_SUP = 0.46883  # largest sqrt(v) exp(-v) I_0(v), attained at v = 0.79
_ROUNDING = 4e-15  # relative to the largest terms of a sum
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
        if (2 * _REACH + a * n) / min(_STEP, 0.5 / a) <= _POINTS:
            tilted = _TiltedColumns(a, size, k, float(n))
            bounds = [tilted.bounds(x) for x in tilted.central + np.array(_NEARBY)]
            low[j], high[j] = np.max(bounds, axis=0)[0], np.min(bounds, axis=0)[1]
    return low, high


class _TiltedColumns:
    """The law R for one order n and every r."""

    def __init__(self, a: float, size: int, k: int, n: float) -> None:
        self.size, self.k, self.n = size, k, n
        step = min(_STEP, 0.5 / a)
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
    """log of a bound on E p^n through v, the sum of ``spread`` over the columns."""
    mean = size * (weight @ spread)
    if mean < 1e-6:
        return 0.0
    middle = np.log(n / (2 * mean))
    # The integrand starts like s^(n / 2); its end depends on how likely small v are.
    log_s = np.linspace(middle - 80 / n - 5, middle + 12, _LAPLACE)
    s = np.exp(log_s)
    scale = np.log(log_s[1] - log_s[0]) - gammaln(n / 2)

    def log_power_mean(extra: float) -> float:
        laplace = np.exp(-(s[:, None] + extra) * spread) @ weight
        log_laplace = size * np.log(np.maximum(laplace, 1e-300))
        return float(log_sum(n / 2 * log_s + log_laplace, axis=0) + scale)

    plain = log_power_mean(0.0)
    best = n * np.log(_SUP) + plain
    for share in _CORE:
        core = share * mean
        kappa = np.sqrt(core) * i0e(core)
        if core < 1 or kappa >= _SUP:
            continue
        # Below the core p sqrt(v) is at most _SUP; exp(w (core - v)) is at least one there.
        for w in (0.3, 1.0, 3.0):
            rare = n * np.log(_SUP) + w * core + log_power_mean(w)
            best = min(best, float(np.logaddexp(n * np.log(kappa) + plain, rare)))
    return min(best, 0.0)
