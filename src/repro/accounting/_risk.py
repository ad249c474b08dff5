"""What an attacker can do: the questions that mechanisms and compositions answer beyond epsilon and delta.

A test says of an output whether a record was there. Its type I error alpha (false-positive rate) is the chance
that it says so wrongly, its type II error beta (false-negative rate) that it misses the record. Every question is
one about the curve f(alpha), the least beta of any test (Dong, Roth and Su 2022, Definition 2.1). Two methods:

"upper" is what no attacker can beat, on any pair of neighbours. With upper bounds delta_r and delta_a on the
profiles of the two directions and any epsilons >= 0

    f(alpha) >= max(0, 1 - delta_r(epsilon) - e^epsilon alpha, e^-epsilon (1 - delta_a(epsilon) - alpha)),

so that a finite set of them is a valid bound (see `_roc`); so is the curve of losses that are rounded upwards.

"lower" is what a certain attacker reaches. A lower bound on delta at one epsilon says only that some test is good
at a false-positive rate of its own, which says nothing about a given rate, and the tests for several epsilons
may be on different pairs. So the curve of one explicit pair is needed. Its losses, rounded downwards, give for
this pair lower bounds d(w) on the divergence at every weight w > 0, of which the loss has P-mass m_i at l_i:
d(w) = sum_i m_i (1 - w e^-l_i)_+. The true curve of the pair is the conjugate of its divergence (Neyman and
Pearson), so that its true-positive rate is min_w [divergence(w) + w alpha] >= min_w [d(w) + w alpha]. The
right-hand side is the polygon through the points of the thresholds on the rounded loss. Of several pairs the
attacker takes the best at each alpha.

One number of delta is enough for two questions, with both methods: the advantage is delta(0), and the Bayes risk
at a prior pi <= 1/2 is pi (1 - delta(ln((1 - pi) / pi))), the least of pi beta + (1 - pi) alpha.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit, ndtr, ndtri

from repro._validate import broadcastable, in_unit, least_error_rate

__all__ = ["Risks", "gaussian_rates", "plain"]

Rates = tuple[np.ndarray, np.ndarray]
_LOGIT_ERROR = 1e-15  # relative rounding of an epsilon that is made of a prior


class Risks(ABC):
    """The curve of the best test and what follows from it; for mechanisms and compositions alike.

    `direction="remove"`: a positive says that the record was there. `"add"`: a positive says that it was not, so
    that the two error rates change places. `"both"` takes, at every point, the better of the two attacks.
    """

    @abstractmethod
    def delta(
        self, epsilon: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Smallest delta for each epsilon >= 0."""

    @abstractmethod
    def rates(self, fpr: np.ndarray, method: str, direction: str) -> Rates:
        """Hook: true-positive and false-negative rate of the best test at each false-positive rate.

        Args:
            fpr: in [0, 1], any shape.
            method: "upper", "lower" or "paper".
            direction: "add", "remove" or "both".

        Returns:
            both rates, of the shape of fpr, broadcast with fields or rounds that are arrays.

        Raises:
            ValueError: unknown method or direction, or one without an answer.
        """

    @abstractmethod
    def shift(self, least_error: float, method: str) -> float | np.ndarray:
        """Hook: see `gdp_mu`, with a checked error rate."""

    @property
    @abstractmethod
    def answer_shape(self) -> tuple[int, ...]:
        """The shape with which every answer broadcasts: of fields or of rounds that are arrays."""

    def tradeoff(
        self, alpha: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Least type II error (false-negative rate) of a test at each type I error (false-positive rate).

        Mind the sides: "upper" follows from the upper bound on the loss of privacy and is the *smaller* beta,
        below which no attacker comes; "lower" is the larger beta, which a certain attacker reaches. In one
        direction "upper" is convex, and the inverse of the other direction up to the rounding of losses. Where
        the lower of several curves is taken the result need not be convex: in "both" of the two directions, in
        "lower" of several explicit pairs.

        Args:
            alpha: type I errors in [0, 1], scalar or array.
            method: "upper", "lower" or "paper".
            direction: "add", "remove" or "both"; see the class.

        Returns:
            type II errors in [0, 1 - alpha], float or array.

        Raises:
            ValueError: alpha outside [0, 1], unknown method or direction, a method that implies no such curve,
                or fields that are arrays where the curve has no closed form.
        """
        return plain(self._rates("alpha", alpha, method, direction)[1])

    def tpr_at_fpr(
        self, fpr: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Largest true-positive rate of a membership test at each false-positive rate.

        Args:
            fpr: false-positive rates in [0, 1], scalar or array.
            method: "upper": no attacker has more; "lower": a certain attacker reaches it.
            direction: "add", "remove" or "both"; in "remove" a positive says that the record was there.

        Returns:
            rates in [fpr, 1]: guessing reaches fpr.

        Raises:
            ValueError: fpr outside [0, 1]; else as for `tradeoff`.
        """
        return plain(self._rates("fpr", fpr, method, direction)[0])

    def _rates(self, name: str, value: ArrayLike, method: str, direction: str) -> Rates:
        fpr = in_unit(name, value)
        broadcastable(**{name: fpr, type(self).__name__: np.empty(self.answer_shape)})
        return self.rates(fpr, method, direction)

    def advantage(self, *, method: str = "upper", direction: str = "both") -> float | np.ndarray:
        """Largest true-positive minus false-positive rate of a membership test: delta at epsilon 0.

        "upper": no attacker has more. "lower": a certain attacker reaches it.
        """
        return self.delta(0.0, method=method, direction=direction)

    def bayes_risk(
        self, prior: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Least probability of a wrong guess, for an attacker to whom a positive has a prior probability.

        Mind the sides, as for `tradeoff`: "upper" is the smaller risk, below which no attacker comes.

        Args:
            prior: probability in [0, 1] that a positive is right: in direction "remove" that the record is
                there, in "add" that it is not; scalar or array.
            method: "upper", "lower" or "paper".
            direction: "add", "remove" or "both", the smaller of the two risks.

        Returns:
            risks in [0, min(prior, 1 - prior)], float or array; guessing reaches the upper end.

        Raises:
            ValueError: prior outside [0, 1], unknown method or direction.
        """
        prior = in_unit("prior", prior)
        shape = broadcastable(prior=prior, **{type(self).__name__: np.empty(self.answer_shape)})
        prior = np.broadcast_to(prior, shape)
        rarer = np.minimum(prior, 1 - prior)
        certain = rarer == 0
        charge = {"upper": -1, "lower": 1}.get(method, 0) * _LOGIT_ERROR
        epsilon = np.abs(logit(np.where(certain, 0.5, prior))) * (1 + charge)
        swapped = {"remove": "add", "add": "remove", "both": "both"}.get(direction, direction)
        delta = self.delta(epsilon, method=method, direction=direction)
        if swapped != direction and np.any(prior > 0.5):
            other = self.delta(epsilon, method=method, direction=swapped)
            delta = np.where(prior > 0.5, other, delta)
        return plain(np.where(certain, 0.0, rarer * (1 - np.asarray(delta))))

    def gdp_mu(self, *, least_error: float = 1e-6, method: str = "upper") -> float | np.ndarray:
        """The Gaussian mechanism that gives away as much: the tightest mu of a dominating Gaussian curve.

        "upper": the smallest mu found such that no test whose two error rates are both at least `least_error`
        does better than the best test between N(0, 1) and N(mu, 1). This holds for *every* such test, not only
        on a grid: the bound on the curve is a polygon, and a concave Gaussian curve above its corners is above
        all of it. "lower": a certain test of this kind does as well as the best one for this mu, so that no
        smaller mu dominates.

        Tests with a smaller error rate are left out, because over all tests the answer is mostly that of the
        mechanism without its sampling: with a minute chance a record is drawn in every round. No mu exceeds
        2 Phi^-1(1 - least_error), which stands for tests that reach both error rates at once.

        Args:
            least_error: in [1e-12, 1/2); where the release is Gaussian the answer does not depend on it.
            method: "upper", "lower" or "paper". There are no directions: a Gaussian curve is its own inverse.

        Returns:
            mu >= 0, float or array.

        Raises:
            ValueError: least_error outside [1e-12, 1/2); else as for `tradeoff`.
        """
        least_error = least_error_rate("least_error", least_error)
        return plain(np.asarray(self.shift(least_error, method)))


def gaussian_rates(fpr: np.ndarray, mu: np.ndarray) -> Rates:
    """True-positive and false-negative rate of the best test between N(0, 1) and N(mu, 1), broadcast."""
    score = ndtri(fpr)
    return ndtr(score + mu), ndtr(-score - mu)


def plain(value: np.ndarray) -> float | np.ndarray:
    """A float in place of an array without axes."""
    return float(value) if np.ndim(value) == 0 else value
