"""Balanced iteration subsampling: every record takes part in exactly k of T iterations, in secret.

Source: "Leveraging Randomness in Model and Data Partitioning for Privacy Amplification" (2025),
Theorem 3.8 and section 3.3. Letters of the paper: T (iterations), k (participations), c (clip), sigma.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from repro._validate import integer, positive, representable
from repro.accounting._renyi import ORDERS
from repro.accounting.gaussian import GaussianMechanism
from repro.accounting.mechanism import (
    SMALLEST_STEP,
    Mechanism,
    frozen_fields,
)
from repro.accounting.partitioning.blocks import ratio_losses
from repro.accounting.partitioning.model_splitting import ModelSplitting
from repro.accounting.partitioning.printed import theorem_3_1, whole_orders
from repro.accounting.partitioning.ratio import LARGEST_REACH, SMALLEST_SHIFT, balanced_ratio
from repro.accounting.partitioning.ratio_renyi import log_forward, log_reverse

__all__ = ["BalancedIterationSubsampling"]


@dataclass(frozen=True, eq=False)
class BalancedIterationSubsampling(Mechanism):
    """A whole run of T iterations; `compose` it for several epochs (Remark 3.10).

    Each record draws k of the T iterations, uniformly, independently of other records and in secret, and
    contributes a gradient of norm at most `clip` to each of these; N(0, sigma^2 I) is added to
    every iteration's sum. Gradients may depend on all earlier outputs.

    Formal guarantee: let a = clip / sigma. For all data sets that differ in one record, and in each
    direction, every f-divergence is at most that of P and Q = N(0, I_T), P the uniform mixture of the
    N(a mu, I_T) over the 0-1 vectors mu with k ones: given everything else, an adaptive direction is
    undone by a rotation that the history determines, and a smaller norm by adding noise. Constant
    gradients of norm `clip` attain it, so P and Q are the truth. Removing the record is the worse
    direction at every epsilon, so "both" equals "remove".

    `"upper"` and `"lower"` of delta and epsilon bracket the truth by the arguments of
    `repro.accounting.partitioning.ratio` and `conditional`, of Renyi divergences by those of `ratio_renyi`; no step
    is merely measured, but rounding of doubles and of Fourier transforms is charged by an estimate and not by
    interval arithmetic.

    `"paper"` is the paper's account: bound (3) of Theorem 3.1 with d = T at the orders 2 to 256,
    converted by Proposition 2.3. It is valid although Lemma 3.18, on which its second term rests, is false:
    that term bounds nothing, but the divergence that it is meant for never exceeds the other one, which
    the first term bounds.

    Args:
        sigma: standard deviation of the noise, > 0 (scalar or array).
        iterations: T >= 1.
        participations: k in [1, T]; k = T is the plain Gaussian mechanism of sensitivity
            clip sqrt(T), k = 1 one round of model splitting into T submodels.
        clip: largest norm of one contribution, > 0 (scalar or array).

    Raises:
        ValueError: an argument out of range.
    """

    worse_direction: ClassVar[str] = "remove"

    sigma: float
    _: KW_ONLY
    iterations: int
    participations: int
    clip: float = 1.0

    def __post_init__(self) -> None:
        frozen_fields(self, sigma=positive, clip=positive)
        size = integer("iterations", self.iterations, 1)
        object.__setattr__(self, "iterations", size)
        k = integer("participations", self.participations, 1, size)
        object.__setattr__(self, "participations", k)
        representable(self.sigma, "clip sqrt(iterations)", np.multiply(self.clip, np.sqrt(size)))

    @property
    def _same(self) -> Mechanism | None:
        """A simpler mechanism with the same dominating pair, where there is one."""
        if self.participations == self.iterations:
            norm = self.clip * np.sqrt(self.iterations)
            return GaussianMechanism(self.sigma, sensitivity=norm)
        if self.participations == 1:
            return ModelSplitting(self.sigma, submodels=self.iterations, clip=self.clip)
        return None

    def _ratio(self, a: float):
        return balanced_ratio(float(a), self.iterations, self.participations)

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        if self._same is not None:
            return self._same.log_delta(epsilon, direction, method)
        epsilon, a = np.broadcast_arrays(epsilon, np.divide(self.clip, self.sigma))
        result = np.empty(epsilon.shape)
        for shift in np.unique(a):
            some = a == shift
            result[some] = self._ratio(shift).log_delta(epsilon[some], direction, method)
        return result

    def paper_curve(self) -> np.ndarray:
        """See `Mechanism.paper_curve`."""
        sigma, clip = np.asarray(self.sigma)[..., None], np.asarray(self.clip)[..., None]
        return theorem_3_1(ORDERS, self.iterations, self.participations, sigma, clip)

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """Renyi divergences; scalar fields only.

        "upper" and "lower" agree at small whole orders in the direction "remove", where the first term of
        (2) is computed exactly (up to order 31 for T = 10, 5 for T = 1000), and bracket it elsewhere.
        "paper" is (3), one number for both directions, at whole orders >= 2. "remove" is the paper's
        forward divergence D(P || Q), "add" the reverse one, which is never larger.
        """
        self.need_scalars("rdp")
        if method == "paper":
            size, k = self.iterations, self.participations
            curve = theorem_3_1(whole_orders(alpha), size, k, self.sigma, self.clip)
        elif self.participations == self.iterations:
            curve = self._same.renyi(alpha, direction, method)
        elif self.participations == 1:
            curve = self._same.renyi(alpha, direction, method)
        else:
            bound = log_reverse if direction == "add" else log_forward
            ratio = self._ratio(self.clip / self.sigma)
            curve = bound(ratio, alpha.ravel(), method).reshape(alpha.shape) / (alpha - 1)
        return curve

    def loss_step(self, method: str) -> float | None:
        """See `Mechanism.loss_step`."""
        if self._same is not None:
            return self._same.loss_step(method)
        share = 1 / 40 if method == "upper" else 1 / 200
        return max(share * self._ratio(self.clip / self.sigma).deviation, SMALLEST_STEP)

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        if self._same is not None:
            return self._same.losses(method, interval)
        ratio = self._ratio(self.clip / self.sigma)
        if ratio.a < SMALLEST_SHIFT or ratio.reach > LARGEST_REACH:
            # Laws cannot hold such losses: the subset disclosed, and the mean centre alone.
            k = self.participations
            norm = self.clip * np.sqrt(k if method == "upper" else k**2 / self.iterations)
            return GaussianMechanism(self.sigma, sensitivity=norm).losses(method, interval)
        return ratio_losses(ratio.law(method), interval, method)
