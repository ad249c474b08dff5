"""The likelihood ratio of balanced iteration subsampling, bounded from both sides.

The record sits in k of T iterations, uniformly; a = clip / sigma. In units of the noise, Q = N(0, I_T) and
P is the mixture of the Gaussians centred at a times the 0-1 vectors with k ones. Four facts:

1. *Factorisation.* All centres have the same component along (1, ..., 1). So L = dP/dQ = G M with
   independent G = exp(c S - c^2 / 2), c = a k / sqrt(T), S standard normal, and M the ratio of the
   centred mixture. M has mean 1, is the same variable for k and T - k in law, and is at least
   exp(-a^2 k (T - k) / (2 T)) by the inequality of the means. Its moments follow from those of L
   (see `moments`).
2. *Removing the record is the worse direction.* Under Q, log L is a convex function of a normal vector,
   so P(log L <= t) is Phi of a concave function of t (Ehrhard's inequality): log L is distributed like
   u(S) with u convex. Of a Gaussian mechanism's loss, a linear function l of S, choose the slope at
   which the total variations agree. u - l is convex and both ratios have mean one, so they cross
   twice, and U(t) = E (L - t)_+ minus the Gaussian one changes its sign once, at t = 1, from - to +.
   Hence delta(remove) >= delta(Gaussian) >= delta(add) at every epsilon >= 0. The same holds for every
   mixture of Gaussians of one covariance against one of them. Matching the moment of order b > 1
   instead gives D_a(P || Q) / a non-decreasing in a, and D_a(Q || P) / a <= D_b(P || Q) / b.
3. *One additive statistic carries nearly all of L.* Its two laws bound both directions from below, and with the
   second moment of L given the statistic they bound "remove" from above (see `conditional`).
4. *Blocks.* A uniform k-subset is obtained by cutting a random permutation into k blocks and drawing
   one iteration in each; by joint convexity the composition of k allocations to 1 of about T / k
   iterations dominates. This is coarser, and used where the other bounds are far apart: for "add" at little
   noise, and where few of many iterations are hit, so that one large X makes L large and S says too little.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from scipy.special import gammaln, ndtri

from repro.accounting._gaussian import log_shift_divergence
from repro.accounting._losses import RUN_ERROR, profile
from repro.accounting._pld import one_sided, self_composition
from repro.accounting._renyi import log_mean_exp
from repro.accounting.partitioning.blocks import LARGEST_SHIFT, block_law, ratio_losses
from repro.accounting.partitioning.conditional import ConditionalRatio
from repro.accounting.partitioning.laws import Law, law_from_potential
from repro.accounting.partitioning.moments import log_moments, work
from repro.accounting.partitioning.power_means import RatioRules, ratio_rules

__all__ = ["LARGEST_REACH", "SMALLEST_SHIFT", "BalancedRatio", "balanced_ratio"]

#: Below this many standard deviations M differs from one by less than rounding can tell.
SMALLEST_SHIFT = 1e-5
#: Losses beyond this have ratios that are no doubles, with room for the last steps of a law.
LARGEST_REACH = 680.0
_NODES = 7  # most nodes of the rule in the place of a lognormal, for quadrature rules of M
_MOST_NODES = 16  # the same for whole orders
_WORK = 4e8  # multiplications that its moments may cost
_MOMENTS = 13  # most moments used for rules
_LARGEST = 250.0  # log of the largest moment used
_PRECISE = 1e-9  # relative error of moments beyond which they are not used
_CONVOLVED = 4e-15  # error of delta through at most two Fourier transforms, besides that per run
_CLOSE = 1e-7  # gap of log delta between the simplest bounds above which others are consulted
_WIDE = 0.1  # the same above which blocks are consulted
_NEGLIGIBLE = -45.0  # log delta below which they are not
_BLOCK_STEP = 1 / 60  # grid of block losses in standard deviations of the whole
_LAW = {"upper": 1 / 40, "lower": 1 / 400}  # steps of laws in standard deviations of log L
_LAW_DEVIATIONS = 32  # standard deviations beyond which a law of longer reach has wider steps
_LAW_TAIL = np.log(1e-20)


@lru_cache(maxsize=32)
def balanced_ratio(a: float, iterations: int, participations: int) -> BalancedRatio:
    """One object per setting, so that moments and laws are computed once."""
    return BalancedRatio(a, iterations, participations)


class BalancedRatio:
    """L for a shift of `a` standard deviations, k of T iterations, 2 <= k < T."""

    def __init__(self, a: float, iterations: int, participations: int) -> None:
        self.a, self.size, self.k = a, iterations, participations
        self.width = a * participations / np.sqrt(iterations)
        self.log_min = -(a**2) * participations * (iterations - participations) / (2 * iterations)

    @cached_property
    def log_second(self) -> float:
        """log E M^2: two independent centres share l ones, and l is hypergeometric."""
        n, k = self.size, min(self.k, self.size - self.k)
        shared = np.arange(max(0, 2 * k - n), k + 1)
        log_weight = 2 * (gammaln(k + 1) + gammaln(n - k + 1)) - gammaln(n + 1)
        log_weight = log_weight - gammaln(shared + 1) - 2 * gammaln(k - shared + 1)
        log_weight = log_weight - gammaln(n - 2 * k + shared + 1)
        excess = np.atleast_2d(self.a**2 * (shared - k**2 / n))
        return float(log_mean_exp(log_weight, excess)[0])

    @property
    def deviation(self) -> float:
        """Standard deviation of a normal log ratio with the same second moment."""
        return float(np.sqrt(self.width**2 + self.log_second))

    @cached_property
    def log_moments(self) -> tuple[np.ndarray, float]:
        """log E M^n for n = 0, 1, 2, ..., as many as quadrature rules can use, and their error."""
        return self._moments(_NODES)

    @cached_property
    def more_log_moments(self) -> tuple[np.ndarray, float]:
        """The same with as many as are affordable."""
        return self._moments(_MOST_NODES)

    def _moments(self, nodes: int) -> tuple[np.ndarray, float]:
        k = min(self.k, self.size - self.k)
        value, error = np.zeros(3), np.zeros(3)
        most = min(nodes, 2 + 2000 // self.size) if self.a >= SMALLEST_SHIFT else 0
        for m in range(most, 1, -1):
            if work(self.a, self.size, k, m) <= _WORK:
                value, error = log_moments(self.a, self.size, k, m)
                break
        # The second moment is known to full precision, so what rounding did to it does not matter.
        precise = np.logical_and.accumulate(error[3:] <= _PRECISE)
        order = np.arange(3, 3 + np.count_nonzero(precise))
        value = value[order] - order * (order - 1) * (self.a * k) ** 2 / (2 * self.size)
        noise = 2e-15 * (self.size + 20) + np.max(error[order], initial=0.0)
        return np.concatenate([[0.0, 0.0, self.log_second], value]), float(noise)

    @property
    def usable_moments(self) -> np.ndarray | None:
        """Those that are not too large to say anything of M; None if the second is."""
        usable = self.log_moments[0][: _MOMENTS + 1]
        usable = usable[usable < _LARGEST]
        return usable if usable.size > 2 else None

    @cached_property
    def rules(self) -> RatioRules | None:
        """Quadrature rules of M, from its moments."""
        if self.usable_moments is None:
            return None
        return ratio_rules(self.usable_moments, self.log_min, self.log_moments[1])

    @cached_property
    def blocks(self) -> pld_lib.PrivacyLossDistribution | None:
        """k allocations to 1 of about T / k iterations, composed; None where the noise is too small."""
        if self.a > LARGEST_SHIFT:
            return None
        short, longer = divmod(self.size, self.k)
        interval = self.deviation * _BLOCK_STEP
        parts = [(short, self.k - longer), (short + 1, longer)]
        composed = [self._block(d, count, interval) for d, count in parts if count]
        return composed[0] if len(composed) == 1 else composed[0].compose(composed[1])

    def _block(self, d: int, count: int, interval: float) -> pld_lib.PrivacyLossDistribution:
        if d == 1:
            return pld_lib.from_gaussian_mechanism(
                1 / (self.a * np.sqrt(count)), value_discretization_interval=interval
            )
        once = ratio_losses(block_law(self.a, d, "upper"), interval, "upper")
        return self_composition(once, count)

    @cached_property
    def conditional(self) -> ConditionalRatio | None:
        """Bounds from an additive statistic; None where hardly any or nearly nothing is hidden by noise."""
        if not SMALLEST_SHIFT <= self.a <= LARGEST_SHIFT:
            return None
        return ConditionalRatio(self.a, self.size, self.k, self.deviation)

    @cached_property
    def log_variation(self) -> float:
        """Upper bound on the log of the total variation distance of P and Q."""
        return float(self.log_delta(np.zeros(1), "remove", "upper")[0])

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """Bound on log delta at epsilon >= 0, shape (n,)."""
        # A disclosed subset leaks more; by Jensen's inequality the mean centre alone leaks less.
        upper = log_shift_divergence(self.a * np.sqrt(self.k), epsilon)
        lower = log_shift_divergence(self.width, epsilon)
        bound = upper if method == "upper" else lower
        wide = (upper > lower + _CLOSE) & (upper > _NEGLIGIBLE)
        if direction == "add" and method == "lower" and np.any(wide):
            wide &= self._add_below_variation(epsilon) > _NEGLIGIBLE
        if np.any(wide) and self.conditional is not None:
            if method == "lower":
                with np.errstate(divide="ignore"):
                    better = np.log(self.conditional.lower(epsilon[wide], direction))
                bound[wide] = np.minimum(np.maximum(lower[wide], better), upper[wide])
            else:
                better = np.log(self.conditional.upper(tuple(epsilon[wide].tolist())))
                bound[wide] = np.maximum(np.minimum(upper[wide], better), lower[wide])
                bound = self._with_blocks(bound, epsilon, "remove", lower)
        if direction == "add" and method == "upper":
            bound = np.minimum(bound, self._add_below_variation(epsilon))
            bound = self._with_blocks(bound, epsilon, "add", lower)
        return bound

    def _add_below_variation(self, epsilon: np.ndarray) -> np.ndarray:
        """Upper bound on log delta of "add": the Gaussian mechanism of the same total variation."""
        return log_shift_divergence(-2 * ndtri(-np.expm1(self.log_variation) / 2), epsilon)

    def _with_blocks(
        self, bound: np.ndarray, epsilon: np.ndarray, direction: str, lower: np.ndarray
    ) -> np.ndarray:
        """The smaller of an upper bound and that of blocks, where the lower bound is far away."""
        wide = (bound > lower + _WIDE) & (bound > _NEGLIGIBLE)
        if np.any(wide) and self.a >= SMALLEST_SHIFT and self.blocks is not None:
            found = profile(one_sided(self.blocks, direction)[0], epsilon[wide])
            found = np.log(found + (_CONVOLVED + RUN_ERROR * self.k))
            bound[wide] = np.minimum(bound[wide], found)
        return bound

    @cached_property
    def reach(self) -> float:
        """A loss beyond which hardly any lies."""
        reach = 8 * self.deviation
        while self.log_delta(np.array([reach]), "remove", "upper")[0] > _LAW_TAIL:
            reach *= 1.25
        return reach

    @lru_cache(maxsize=2)  # noqa: B019
    def law(self, method: str) -> Law:
        """A law above or below that of L in the convex order, where `reach` is at most `LARGEST_REACH`."""
        reach = self.reach
        step = max(self.deviation, reach / _LAW_DEVIATIONS) * _LAW[method]
        epsilon = step * np.arange(int(np.ceil(reach / step)) + 2)
        call, put = (self.log_delta(epsilon, way, method) for way in ("remove", "add"))
        return law_from_potential(call, put - epsilon, step, method)
