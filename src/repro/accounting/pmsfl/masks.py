"""PM-SFL: a sampled binary mask as a mechanism, exact; the theory is that of `releases`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy.special import logit
from scipy.stats import binom

from repro._validate import integer, probability_open
from repro.accounting._discretise import optimistic
from repro.accounting.mechanism import Mechanism, frozen_fields
from repro.accounting.pmsfl.releases import mask_delta

__all__ = ["SampledMask"]


@dataclass(frozen=True, eq=False)
class SampledMask(Mechanism):
    """Independent coordinates of a binary upload, of which `count` follow the record.

    Formal guarantee: delta is the exact divergence of `count` Bernoulli(first) coordinates (with the record) from
    as many Bernoulli(second) ones (without); what an observer learns is that of the binomial count of ones. With
    first = 1 - c, second = c and count = d no mask of d coordinates with probabilities in [c, 1 - c] leaks more.
    "upper" and "lower" differ by the rounding of losses only. A replaced record can go either way, so use
    the direction "both". The method "paper" raises ValueError: the printed bounds are functions in
    `pmsfl.printed`.

    Args:
        first: probability of a one with the record, in (0, 1).
        second: probability of a one without, in (0, 1).
        count: coordinates that the record moves, n >= 1.

    Raises:
        ValueError: an argument out of range, or an array.
    """

    printed_in: ClassVar[str] = "repro.accounting.pmsfl.printed"

    first: float
    _: KW_ONLY
    second: float
    count: int

    def __post_init__(self) -> None:
        frozen_fields(self, first=probability_open, second=probability_open)
        integer("count", self.count, 1)
        self.need_scalars("SampledMask")

    def _pair(self, direction: str) -> tuple[float, float]:
        pair = self.first, self.second
        return pair[::-1] if direction == "add" else pair

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        first, second = self._pair(direction)
        with np.errstate(divide="ignore"):
            return np.log(mask_delta(epsilon, first=first, second=second, count=self.count))

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """That of the binomial counts: n times that of one coordinate."""
        ways = ("remove", "add") if direction == "both" else (direction,)
        curves = []
        for a, b in map(self._pair, ways):
            ones = alpha * np.log(a) + (1 - alpha) * np.log(b)
            zeros = alpha * np.log1p(-a) + (1 - alpha) * np.log1p(-b)
            curves.append(self.count * np.logaddexp(ones, zeros) / (alpha - 1))
        return np.maximum(np.maximum.reduce(curves), 0.0)

    def loss_step(self, method: str) -> float | None:
        """See `Mechanism.loss_step`: a share of the deviation of the loss."""
        deviation = np.sqrt(self.count * self.first * (1 - self.first))
        step = float(abs(logit(self.first) - logit(self.second)) * deviation)
        return step / (1000 if method == "lower" else 200) or None

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        if method != "lower":
            return super().losses(method, interval)
        ones = np.arange(self.count + 1)  # a mass that underflows stands for a loss beyond the grid
        first, second = (binom.pmf(ones, self.count, x) for x in (self.first, self.second))
        return optimistic((first, second), (second, first), interval)
