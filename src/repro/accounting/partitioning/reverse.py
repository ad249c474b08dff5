"""Renyi divergence of Q from a mixture on orthogonal blocks, with a certificate.

With Y the likelihood ratio of the mixture (`blocks`) and L = 1 - g + g Y, what is wanted is
E_Q L^(1 - alpha), the mean of a decreasing convex function f of Y. A law rounded downwards in the
convex order bounds it from below. From above: below the law's lowest value y0, f is continued by its
tangent, which keeps it convex and finite at 0, and what that misses, E f(Y) over Y < y0, is bounded
separately. No quadrature is behind either side: the law's rounding has a known direction, and what is left
are sums of positive terms. Their rounding, about 1e-15 of E_Q L^(1 - alpha), is not charged; bounds on
divergences below that size are not certified, and the caller caps them by the forward curve.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from repro.accounting._renyi import log_mean_exp
from repro.accounting.partitioning.blocks import LARGEST_SHIFT, SMALLEST_SHIFT, block_law
from repro.accounting.partitioning.laws import Law, log_ratio, ratio_shortfall

__all__ = ["log_reverse_moments"]

_DEPTH = 36  # standard deviations down to which normal masses are ordinary doubles
_MARGIN = 10  # standard deviations, beyond which a normal has next to no mass
_EXPONENT = 45  # exp(-45) is next to nothing, too
_APART = 20  # grid points between the two values that bound the mass below


def log_reverse_moments(
    alpha: np.ndarray, a: float, d: int, *, b: float, rate: float, method: str
) -> np.ndarray:
    """Bounds on log E_Q L^(1 - alpha) = (alpha - 1) D_alpha(Q || (1 - rate) Q + rate P).

    Args:
      alpha: orders above 1, shape (n,).
      a, d, b: as in :func:`repro.accounting.partitioning.blocks.block_law`.
      rate: chance that the mixture takes the place of Q, in (0, 1].
      method: "upper" or "lower".

    Returns:
      bounds of shape (n,).
    """
    means = _Means(a, d, b, rate)
    crude = means.everywhere(alpha - 1)
    if not SMALLEST_SHIFT <= np.hypot(a, b) <= LARGEST_SHIFT:
        # Jensen from below: the mean of L is 1.
        return crude if method == "upper" else np.zeros(alpha.shape)
    law = block_law(a, d, method, b=b, tail=means.tail(float(np.max(alpha)) - 1))
    loss = log_ratio(law, rate)
    on_law = log_mean_exp(np.log(law.mass), (1 - alpha[:, None]) * loss)
    if method == "lower":
        return np.maximum(on_law, 0.0)
    slope = (alpha - 1) * np.exp(np.log(rate * law.value[0]) - loss[0])
    with np.errstate(divide="ignore"):
        at_zero = np.log(law.zero) + (1 - alpha) * loss[0] + np.log1p(slope)
    missed = means.below(alpha - 1, law)
    bound = np.logaddexp(np.logaddexp(on_law, at_zero), missed)
    return np.maximum(np.minimum(bound, crude), 0.0)


class _Means(NamedTuple):
    """Bounds through the geometric mean M of the blocks, and through the mass below a point.

    1 - g + g Y is at least 1 - g + g M, hence at least M^g (means again), g M and 1 - g; log M is normal
    with mean ``-shift`` and deviation ``width``.
    """

    a: float
    d: int
    b: float
    rate: float

    @property
    def shift(self) -> float:
        return (self.a**2 + self.b**2) / 2

    @property
    def width(self) -> float:
        return float(np.sqrt(self.b**2 + self.a**2 / self.d))

    def everywhere(self, power):
        """log of a bound on E L^-power."""
        bound = self._mean(self.rate * power)
        if self.rate < 1:
            bound = np.minimum(bound, self._mean(power) - power * np.log(self.rate))
            bound = np.minimum(bound, -power * np.log1p(-self.rate))
        return bound

    def _mean(self, power):
        """log E M^-power."""
        return power * self.shift + (power * self.width) ** 2 / 2

    def below(self, power, law: Law):
        """log of a bound on E L^-power over Y < y0, the law's lowest value; the best of several.

        The mass there is at most E (y1 - Y)_+ / (y1 - y0) for any y1 above, which the law bounds; it enters
        directly or by the inequality of Cauchy and Schwarz.
        """
        y0, y1 = law.value[0], law.value[min(_APART, law.value.size - 1)]
        end = (np.log(y0) + self.shift) / self.width
        log_mass = np.log(ratio_shortfall(law, y1) / (y1 - y0))
        tilt = self.rate * power
        bound = self._mean(tilt) + log_ndtr(end + tilt * self.width)
        bound = np.minimum(bound, (log_mass + self.everywhere(2 * power)) / 2)
        if self.rate < 1:
            bound = np.minimum(bound, log_mass - power * np.log1p(-self.rate))
        return bound

    def tail(self, power: float) -> float:
        """Mass that the law may trim below so that :meth:`below` stays negligible."""
        tilt = self.rate * power
        depth = _MARGIN + self.shift / self.width + tilt * self.width
        depth = min(depth, 2 * np.sqrt(_EXPONENT + self._mean(2 * tilt) / 2))
        if self.rate < 1:
            depth = min(depth, np.sqrt(2 * (_EXPONENT - power * np.log1p(-self.rate))))
        depth = min(np.ceil(depth), np.floor(_DEPTH - np.hypot(self.a, self.b)))
        return float(np.exp(-(depth**2) / 2))
