"""Model splitting: every participating record trains one of d submodels, drawn in secret.

Source: "Leveraging Randomness in Model and Data Partitioning for Privacy Amplification" (2025),
Theorems 3.4 and 3.5 and section 3.2.2. Letters of the paper: d (submodels), c (clip), sigma.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from repro._validate import (
    broadcastable,
    choice,
    in_unit,
    integer,
    nonnegative,
    positive,
    representable,
)
from repro.accounting._gaussian import log_sum
from repro.accounting._renyi import ORDERS
from repro.accounting._weights import weights
from repro.accounting.gaussian import PoissonGaussian, orders
from repro.accounting.mechanism import (
    DIRECTIONS,
    METHODS,
    SMALLEST_STEP,
    Mechanism,
    frozen_field,
)
from repro.accounting.partitioning.blocks import (
    LARGEST_SHIFT,
    SMALLEST_SHIFT,
    block_law,
    log_moments,
)
from repro.accounting.partitioning.laws import Law, log_ratio, ratio_excess, ratio_shortfall
from repro.accounting.partitioning.printed import poisson_amplified, theorem_3_1, whole_orders
from repro.accounting.partitioning.ratio_losses import ratio_losses
from repro.accounting.partitioning.reverse import log_reverse_moments

__all__ = ["ModelSplitting"]

_LARGE = 650.0  # logarithm of weights beyond every ratio that a law can hold


@dataclass(frozen=True)
class ModelSplitting(Mechanism):
    """One iteration of training on submodels, seen by whoever sees only the noisy sum.

    The model is cut into d disjoint submodels (any known cut, or one drawn at random). Every record takes
    part with probability ``rate``; if it does, it draws one submodel uniformly and in secret, and
    contributes a gradient on it of norm at most ``clip`` and a gradient on the parameters outside
    the cut of norm at most ``unsplit_clip``, which may depend on the submodel. N(0, sigma^2 I) is
    added to the sum.

    Formal guarantee: let a = clip / sigma, b = unsplit_clip / sigma. For all data sets that differ in
    one record, and in each direction, every f-divergence is at most that of (1 - rate) Q + rate P
    and Q, where the likelihood ratio of P to Q = N(0, I) is exp(b W - b^2 / 2) times the mean over the
    blocks of exp(a Z_i - a^2 / 2). Reason: given everything but the record's own coin and block, the
    ratio is a weighted sum of lognormals whose exponents have covariances <m_k, m_l>, at most
    b^2 + a^2 [k = l], and the mean of a convex function of it grows with each covariance (Kahane). A
    data set attains it: norms at the clips, the same gradient outside the cut for every submodel.
    ``method="upper"`` and ``"lower"`` round this one pair to either side; so they bracket the truth,
    also of compositions. Where the shifts exceed 20 standard deviations (hardly any noise), "upper"
    discloses the submodel and "lower" has more noise than asked for.

    Removing a record is the worse direction, at every epsilon and every Renyi order: under Q the log ratio
    is a convex function of a normal vector, hence (Ehrhard) distributed like a convex function of one
    normal, and crosses a Gaussian mechanism's loss at most twice; `ratio` has the details.

    The same mechanism is also dropout of rate 1/2 (Corollary 3.7: ``submodels=2``, ``clip`` for the
    parameters whose gradient vanishes where a node is dropped, ``unsplit_clip`` for all others);
    submodels that overlap because each record draws its own cut into d of them (Theorem 3.5); and, with
    a client's whole update in the place of a record's gradient, user-level accounting. ``compose``
    it for T iterations.

    ``method="paper"`` is the paper's account: bound (3) of Theorem 3.1 with k = 1 plus
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

    sigma: float
    _: KW_ONLY
    submodels: int
    rate: float = 1.0
    clip: float = 1.0
    unsplit_clip: float = 0.0

    def __post_init__(self) -> None:
        checks = {"sigma": positive, "rate": in_unit, "clip": positive, "unsplit_clip": nonnegative}
        for name, check in checks.items():
            frozen_field(self, name, check(name, getattr(self, name)))
        broadcastable(**{name: getattr(self, name) for name in checks})
        representable(self.sigma, "the norm of both clips", np.hypot(self.clip, self.unsplit_clip))
        object.__setattr__(self, "submodels", integer("submodels", self.submodels, 1))

    @property
    def _disclosed(self) -> PoissonGaussian:
        """What is left when the submodel is known: it dominates, and is the same for d = 1."""
        norm = np.hypot(self.clip, self.unsplit_clip)
        return PoissonGaussian(self.sigma, rate=self.rate, sensitivity=norm)

    def _log_delta(self, epsilon, direction, method):
        disclosed = self._disclosed._log_delta(epsilon, direction, method)
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
        result = np.minimum(result, 0.0).reshape(shape)
        return result if method == "lower" else np.minimum(result, disclosed)

    def _paper_rdp(self):
        return self._renyi_paper(ORDERS)

    def rdp(self, alpha, *, method: str = "upper", direction: str = "both"):
        """Renyi divergence of each order.

        Args:
          alpha: orders > 1, scalar or array; whole numbers >= 2 for "paper".
          method: "upper" and "lower" agree at whole orders in the direction "remove", where the
            moments are computed exactly; at other orders "upper" interpolates log-convexly and
            "lower" is a discretised pair. In the direction "add" both are certified. "paper" is
            the curve of the class docstring, one number for both directions.
          direction: "remove" is the paper's forward divergence, "add" the reverse one. As the forward
            one is never the smaller, "both" means "remove".

        Returns:
          float or array of alpha's shape, >= 0.

        Raises:
          ValueError: an order out of range, unknown words, or fields that are arrays.
        """
        alpha = orders(alpha)
        choice("method", method, METHODS)
        choice("direction", direction, DIRECTIONS)
        if self._shape():
            raise ValueError(f"rdp needs scalar fields, got shape {self._shape()} in {self!r}")
        if method == "paper":
            curve = self._renyi_paper(whole_orders(alpha))
        elif self.rate == 0:
            curve = np.zeros(alpha.shape)
        elif self.submodels == 1 and direction != "add":
            curve = self._disclosed.rdp(alpha)
        else:
            way = self._reverse_curve if direction == "add" else self._forward_curve
            curve = way(alpha.ravel(), method).reshape(alpha.shape)
        return float(curve) if curve.ndim == 0 else curve

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

    def _loss_step(self, method):
        if self.rate == 0:
            return None
        a, b = np.array([self.clip, self.unsplit_clip]) / self.sigma
        # Both roundings are of second order in this share of the loss's standard deviation.
        share, largest = (1 / 40, 5e-3) if method == "upper" else (1 / 200, 1e-3)
        log_second = log_moments(max(a, SMALLEST_SHIFT), self.submodels, 2)[2] + b**2
        variance = self.rate**2 * np.expm1(min(log_second, _LARGE))
        return float(np.clip(share * np.sqrt(np.log1p(variance)), SMALLEST_STEP, largest))

    def _pld(self, method, interval):
        law = None
        if self.rate > 0:
            a, b = self.clip / self.sigma, self.unsplit_clip / self.sigma
            law = _law(a, b, self.submodels, method)
        if law is None:
            return self._disclosed._pld(method, interval)
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
