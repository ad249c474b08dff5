"""Model splitting: every participating record trains one of d submodels, drawn in secret.

Source: "Leveraging Randomness in Model and Data Partitioning for Privacy Amplification" (2025),
Theorems 3.4 and 3.5 and section 3.2.2. Letters of the paper: d (submodels), c (clip), sigma.

The second half of the file bounds the Renyi divergence of Q from the mixture. With Y the likelihood
ratio of the mixture (see `blocks`) and L = 1 - g + g Y, it needs E_Q L^(1 - alpha), the mean of a
decreasing convex function f of Y. A law rounded downwards in the convex order bounds it from below.
From above: below the law's lowest value y0, f is continued by its tangent, which keeps it convex and
finite at 0. The rest, E f(Y) over Y < y0, is bounded separately. No quadrature is behind either side: the
law's rounding has a known direction, and what is left are sums of positive terms. Their rounding, about 1e-15
of E_Q L^(1 - alpha), is not charged. Bounds on divergences below that size are not certified; the forward
curve caps them.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy.special import log_ndtr

from repro._validate import (
    in_unit,
    integer,
    nonnegative,
    positive,
    representable,
)
from repro.accounting._gaussian import log_sum
from repro.accounting._renyi import ORDERS, log_mean_exp
from repro.accounting._weights import weights
from repro.accounting.gaussian import PoissonGaussian
from repro.accounting.mechanism import (
    SMALLEST_STEP,
    Mechanism,
    frozen_fields,
)
from repro.accounting.partitioning.blocks import (
    LARGEST_SHIFT,
    SMALLEST_SHIFT,
    block_law,
    log_moments,
    ratio_losses,
)
from repro.accounting.partitioning.laws import Law, log_ratio, ratio_excess, ratio_shortfall
from repro.accounting.partitioning.printed import poisson_amplified, theorem_3_1, whole_orders

__all__ = ["ModelSplitting", "log_reverse_moments"]

_LARGE = 650.0  # logarithm of weights beyond every ratio that a law can hold

_ROUNDED = 1e-15  # rounding of a log delta that is next to 0
_LARGEST_ORDER = 4096  # of a Renyi divergence: tables of the square of it are made


@dataclass(frozen=True, eq=False)
class ModelSplitting(Mechanism):
    """One iteration of training on submodels, seen by whoever sees only the noisy sum.

    The model is cut into d disjoint submodels (any known cut, or one drawn at random). Every record takes
    part with probability `rate`; if it does, it draws one submodel uniformly and in secret, and
    contributes a gradient on it of norm at most `clip` and a gradient on the parameters outside
    the cut of norm at most `unsplit_clip`, which may depend on the submodel. N(0, sigma^2 I) is
    added to the sum.

    Formal guarantee: let a = clip / sigma, b = unsplit_clip / sigma. For all data sets that differ in
    one record, and in each direction, every f-divergence is at most that of (1 - rate) Q + rate P
    and Q, where the likelihood ratio of P to Q = N(0, I) is exp(b W - b^2 / 2) times the mean over the
    blocks of exp(a Z_i - a^2 / 2). Reason: given everything but the record's own coin and block, the
    ratio is a weighted sum of lognormals whose exponents have covariances <m_k, m_l>, at most
    b^2 + a^2 [k = l], and the mean of a convex function of it grows with each covariance (Kahane). A
    data set attains it: norms at the clips, the same gradient outside the cut for every submodel.
    `method="upper"` and `"lower"` round this one pair to either side; so they bracket the truth,
    also of compositions. Where the shifts exceed 20 standard deviations (hardly any noise), "upper"
    discloses the submodel and "lower" has more noise than asked for.

    Removing a record is the worse direction, at every epsilon and every Renyi order: under Q the log ratio
    is a convex function of a normal vector, hence (Ehrhard) distributed like a convex function of one
    normal, and crosses a Gaussian mechanism's loss at most twice; `repro.accounting.partitioning.ratio` has the
    details. Compositions are pairs of the same kind, so it holds for them as well.

    The same mechanism is also dropout of rate 1/2 (Corollary 3.7: `submodels=2`, `clip` for the
    parameters whose gradient vanishes where a node is dropped, `unsplit_clip` for all others);
    submodels that overlap because each record draws its own cut into d of them (Theorem 3.5); and, with
    a client's whole update in the place of a record's gradient, user-level accounting. `compose`
    it for T iterations.

    `method="paper"` is the paper's account: bound (3) of Theorem 3.1 with k = 1 plus
    alpha b^2 / 2 for the unsplit part, then the sum of Theorem 3.11 for Poisson sampling, converted
    by Proposition 2.3 at the orders 2 to 256. Adding the unsplit part *before* sampling is the
    reading of section 3.2.2 under which the noise of table 1 comes out, and it is sound: one coin
    decides on both parts. Adding two subsampled costs would not be, for rates between 0 and 1.

    Args:
        sigma: standard deviation of the noise, > 0 (scalar or array).
        submodels: d >= 1.
        rate: Poisson sampling rate, in [0, 1] (scalar or array).
        clip: largest norm on the drawn submodel, > 0 (scalar or array).
        unsplit_clip: largest norm outside the cut, >= 0 (scalar or array).

    Raises:
        ValueError: an argument out of range.
    """

    worse_direction: ClassVar[str] = "remove"

    sigma: float
    _: KW_ONLY
    submodels: int
    rate: float = 1.0
    clip: float = 1.0
    unsplit_clip: float = 0.0

    def __post_init__(self) -> None:
        frozen_fields(self, sigma=positive, rate=in_unit, clip=positive, unsplit_clip=nonnegative)
        representable(self.sigma, "the norm of both clips", np.hypot(self.clip, self.unsplit_clip))
        object.__setattr__(self, "submodels", integer("submodels", self.submodels, 1))

    @property
    def _disclosed(self) -> PoissonGaussian:
        """What is left when the submodel is known: it dominates, and is the same for d = 1."""
        norm = np.hypot(self.clip, self.unsplit_clip)
        return PoissonGaussian(self.sigma, rate=self.rate, sensitivity=norm)

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        disclosed = self._disclosed.log_delta(epsilon, direction, method)
        if self.submodels == 1:
            return disclosed
        a, b = np.divide(self.clip, self.sigma), np.divide(self.unsplit_clip, self.sigma)
        epsilon, rate, a, b = np.broadcast_arrays(epsilon, self.rate, a, b)
        shape = epsilon.shape
        epsilon, rate, a, b = (np.array(x, dtype=float).ravel() for x in (epsilon, rate, a, b))
        result = np.full(epsilon.shape, -np.inf)
        factor, log_weight = np.full(epsilon.shape, -np.inf), np.zeros(epsilon.shape)
        some = rate > 0
        factor[some], log_weight[some], _ = weights(
            epsilon[some], np.ones(some.sum()), rate[some], direction
        )
        pairs, member = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
        for k, (shift, common) in enumerate(pairs):
            rows = np.flatnonzero((member.ravel() == k) & np.isfinite(factor))
            law = _law(shift, common, self.submodels, method)
            if law is None:
                result[rows] = 0.0
            elif rows.size:
                result[rows] = factor[rows] + _log_divergence(law, log_weight[rows], direction)
        if method == "lower":
            result -= _ROUNDED  # next to 1 the bounds differ by less
        result = np.minimum(np.minimum(result, 0.0).reshape(shape), disclosed)
        if direction == "add" and method == "upper":
            # What is trimmed off the tails is charged here, and hardly to the worse direction.
            result = np.minimum(result, self.log_delta(epsilon.reshape(shape), "remove", method))
        return result

    def paper_curve(self) -> np.ndarray:
        """See `Mechanism.paper_curve`."""
        return self._renyi_paper(ORDERS)

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """Renyi divergences; scalar fields only.

        "upper" and "lower" agree at whole orders in the direction "remove", where the moments are computed
        exactly. At other orders "upper" interpolates log-convexly and "lower" is a discretised pair. In the
        direction "add" both are certified. "paper" is the curve of the class docstring, one number for
        both directions, at whole orders >= 2. "remove" is the paper's forward divergence, "add" the reverse
        one. The forward one is never the smaller, so "both" means "remove".
        """
        self.need_scalars("rdp")
        if np.any(alpha > _LARGEST_ORDER):
            raise ValueError(
                f"alpha must be in (1, {_LARGEST_ORDER}], got {float(np.max(alpha))!r}"
            )
        if method == "paper":
            curve = self._renyi_paper(whole_orders(alpha))
        elif self.rate == 0:
            curve = np.zeros(alpha.shape)
        elif self.submodels == 1 and direction != "add":
            curve = self._disclosed.renyi(alpha, direction, method)
        else:
            way = self._reverse_curve if direction == "add" else self._forward_curve
            curve = way(alpha.ravel(), method).reshape(alpha.shape)
        return curve

    def _renyi_paper(self, alpha: np.ndarray) -> np.ndarray:
        """The printed curve: shape (*shape of the fields, *alpha.shape)."""
        every = np.arange(2, int(np.max(alpha)) + 1)
        sigma, clip, unsplit = (
            np.asarray(x)[..., None] for x in (self.sigma, self.clip, self.unsplit_clip)
        )
        split = theorem_3_1(every, self.submodels, 1, sigma, clip)
        return poisson_amplified(alpha, split + every * (unsplit / sigma) ** 2 / 2, self.rate)

    def _reverse_curve(self, alpha: np.ndarray, method: str) -> np.ndarray:
        """Scalar fields, orders of shape (n,)."""
        a, b, d = self.clip / self.sigma, self.unsplit_clip / self.sigma, self.submodels
        log_moment = log_reverse_moments(alpha, a, d, b=b, rate=self.rate, method=method)
        # Also of a lower bound: where divergences are below 1e-16, sums of the law are rounding.
        return np.minimum(log_moment / (alpha - 1), self._forward_curve(alpha, "upper"))

    def _forward_curve(self, alpha: np.ndarray, method: str) -> np.ndarray:
        """Scalar fields, orders of shape (n,)."""
        a, b, d = self.clip / self.sigma, self.unsplit_clip / self.sigma, self.submodels
        low, high = np.floor(alpha).astype(int), np.ceil(alpha).astype(int)
        top = max(int(np.max(high)), 2)
        power = np.arange(2, top + 1)
        curve = log_moments(a, d, top)[2:] / (power - 1) + power * b**2 / 2
        # log E L^l for l = 0, ..., top; it is convex in the order, and 0 at orders 0 and 1.
        exact = np.append([0.0, 0.0], poisson_amplified(power, curve, self.rate) * (power - 1))
        log_moment = exact[low] + (alpha - low) * (exact[high] - exact[low])
        if method == "lower" and np.any(low < high):
            law = _law(a, b, d, "lower")
            terms = np.log(law.mass) + alpha[:, None] * log_ratio(law, self.rate)
            on_law = np.clip(log_sum(terms, axis=1), 0.0, log_moment)
            log_moment = np.where(low < high, on_law, log_moment)
        return log_moment / (alpha - 1)

    def loss_step(self, method: str) -> float | None:
        """See `Mechanism.loss_step`."""
        if self.rate == 0:
            return None
        a, b = np.array([self.clip, self.unsplit_clip]) / self.sigma
        # Both roundings are of second order in this share of the loss's standard deviation.
        share, largest = (1 / 40, 5e-3) if method == "upper" else (1 / 200, 1e-3)
        log_second = log_moments(max(a, SMALLEST_SHIFT), self.submodels, 2)[2] + b**2
        variance = self.rate**2 * np.expm1(min(log_second, _LARGE))
        return float(np.clip(share * np.sqrt(np.log1p(variance)), SMALLEST_STEP, largest))

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        law = None
        if self.rate > 0:
            a, b = self.clip / self.sigma, self.unsplit_clip / self.sigma
            law = _law(a, b, self.submodels, method)
        if law is None:
            return self._disclosed.losses(method, interval)
        return ratio_losses(law, interval, method, self.rate)


def _law(a: float, b: float, d: int, method: str) -> Law | None:
    """The law of the dominating ratio; beyond the largest shift none above and a smaller shift's below."""
    norm = np.hypot(a, b)
    if norm <= LARGEST_SHIFT:
        return block_law(float(a), d, method, b=float(b))
    if method == "upper":
        return None
    scale = (1 - 1e-12) * LARGEST_SHIFT / norm
    return block_law(float(scale * a), d, method, b=float(scale * b))


def _log_divergence(law: Law, log_weight: np.ndarray, direction: str) -> np.ndarray:
    """log E (L - w)_+ for "remove", log E (1 - w L)_+ for "add"."""
    weight = np.exp(np.clip(log_weight, -_LARGE, _LARGE))
    with np.errstate(divide="ignore"):
        if direction == "remove":
            return np.log(ratio_excess(law, weight))
        return np.log(ratio_shortfall(law, 1 / weight)) + np.log(weight)


# The direction "add": Renyi divergences of Q from the mixture --------------------------------------

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
        a, d, b: as in `repro.accounting.partitioning.blocks.block_law`.
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
    with mean `-shift` and deviation `width`.
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
        """Mass that the law may trim below so that `below` stays negligible."""
        tilt = self.rate * power
        depth = _MARGIN + self.shift / self.width + tilt * self.width
        depth = min(depth, 2 * np.sqrt(_EXPONENT + self._mean(2 * tilt) / 2))
        if self.rate < 1:
            depth = min(depth, np.sqrt(2 * (_EXPONENT - power * np.log1p(-self.rate))))
        depth = min(np.ceil(depth), np.floor(_DEPTH - np.hypot(self.a, self.b)))
        return float(np.exp(-(depth**2) / 2))
