"""Lower bounds on epsilon from one training with many canaries.

Each of m canaries is put into the training by a fair coin of its own. The attacker scores them all and guesses
the coins of those with the highest scores ("in") and the lowest ("out"), and says nothing of the others.

**Guesses.** If the training is epsilon-DP in every canary, then given its output every guess is right with
probability at most q = e^epsilon / (1 + e^epsilon), whatever is known of the other coins. So the number of right ones
among r guesses is stochastically at most Binomial(r, q); with a delta the chance of v or more is at most

    beta + 2 m delta max_{i >= 1} P[v - i <= Binomial(r, q) < v] / i,     beta = P[Binomial(r, q) >= v].

Nothing is assumed of how canaries influence each other. Source: Steinke, Nasr and Jagielski, "Privacy auditing
with one (1) training run", arXiv 2305.08846, theorem 5.2 (with the number of guesses fixed beforehand).

**Gaussian scores.** If the scores are independent, those of the canaries that were in N(a, s^2), and the others
N(b, t^2), confidence intervals for the four numbers bound the chances of every event "the score is beyond x"
at once, and with them epsilon at any delta. The idea is that of Agrawal et al., "Let's ask Gauss", arXiv 2606.12733;
intervals and thresholds are ours. The tails are those of the assumption: this is an estimate for scores that are
sums of many terms, and no bound where they are not Gaussian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_ndtr
from scipy.stats import binom, chi2
from scipy.stats import t as student

from repro._validate import in_unit, integer, nonnegative, one, probability_open

__all__ = [
    "Scores",
    "gaussian_epsilon",
    "guess_counts",
    "guess_epsilon",
    "guess_p_value",
    "right_guesses",
]

_LARGEST = 60.0
"""Epsilon beyond which no bound is sought: no number of canaries refutes it."""

_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the canaries that are guessed; each has its part of the error probability."""


def guess_counts(canaries: int) -> tuple[int, ...]:
    """Numbers of guesses, even and ascending, fixed by the number of canaries alone.

    Args:
        canaries: m >= 2.

    Raises:
        ValueError: fewer than 2 canaries.
    """
    m = integer("canaries", canaries, 2)
    return tuple(sorted({2 * max(1, int(m * share / 2)) for share in _SHARES}))


def right_guesses(scores: ArrayLike, present: ArrayLike, guesses: int) -> int:
    """How many of the guesses are right: half on the highest scores ("in"), half on the lowest ("out").

    Args:
        scores: of the canaries, finite, shape (m,); equal ones are taken in their order.
        present: whether each canary was in the training, bool, shape (m,).
        guesses: r, an even number from 2 to m.

    Raises:
        ValueError: an argument out of range, or shapes that do not fit.
    """
    scores, present = np.asarray(scores, dtype=float), np.asarray(present)
    if scores.ndim != 1 or scores.shape != present.shape or present.dtype != bool:
        raise ValueError(
            f"scores and present must be numbers and bools of one shape (m,), got shapes {scores.shape} and "
            f"{present.shape}"
        )
    if not np.isfinite(scores).all():
        raise ValueError(f"scores must be finite, got {scores[~np.isfinite(scores)][0]!r}")
    if integer("guesses", guesses, 2, len(scores)) % 2:
        raise ValueError(f"guesses must be even, got {guesses}")
    order = np.argsort(scores, kind="stable")
    half = guesses // 2
    return int(present[order[-half:]].sum() + (~present[order[:half]]).sum())


def guess_p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The largest chance of as many right guesses in an (epsilon, delta)-DP training.

    Args:
        right: v, right guesses, 0 to `guesses`.
        guesses: r, 1 to `canaries`, fixed before the training.
        canaries: m >= 1.
        epsilon: >= 0.
        delta: in [0, 1].

    Returns:
        in [0, 1], rising with epsilon and delta.

    Raises:
        ValueError: an argument out of range.
    """
    m = integer("canaries", canaries, 1)
    r = integer("guesses", guesses, 1, m)
    v = integer("right", right, 0, r)
    q = expit(float(nonnegative("epsilon", epsilon)))
    delta = one(in_unit, "delta", delta)
    beta = float(binom.sf(v - 1, r, q))
    if v == 0 or delta == 0:
        return min(beta, 1.0)
    below = np.cumsum(binom.pmf(np.arange(v - 1, -1, -1), r, q))
    steepest = float(np.max(below / np.arange(1, v + 1)))
    return min(beta + 2 * m * float(delta) * steepest, 1.0)


def guess_epsilon(
    right: Sequence[int],
    guesses: Sequence[int],
    canaries: int,
    delta: float,
    confidence: float = 0.95,
) -> float:
    """Lower bound on epsilon from right guesses, the best of several numbers of guesses.

    Each number of guesses has an equal part of the error probability, so the bound holds for the best.

    Args:
        right: right guesses for each number of guesses.
        guesses: numbers of guesses, fixed before the training, as `guess_counts` gives them.
        canaries: m >= 1.
        delta: in [0, 1].
        confidence: in (0, 1).

    Returns:
        epsilon >= 0: every (smaller epsilon, delta) is refuted with this confidence; 0 where none is.

    Raises:
        ValueError: an argument out of range, or sequences that are empty or of different lengths.
    """
    if not len(right) or len(right) != len(guesses):
        raise ValueError(f"right must be one number for each of guesses, got {right} for {guesses}")
    error = (1 - float(probability_open("confidence", confidence))) / len(guesses)
    found = 0.0
    for v, r in zip(right, guesses, strict=True):
        low, high = 0.0, _LARGEST
        if guess_p_value(v, r, canaries, low, delta) > error:
            continue
        while high - low > 1e-4:
            middle = (low + high) / 2
            refuted = guess_p_value(v, r, canaries, middle, delta) <= error
            low, high = (middle, high) if refuted else (low, middle)
        found = max(found, low)
    return found


@dataclass(frozen=True)
class Scores:
    """Number, mean and variance (with n - 1) of some canaries' scores.

    Attributes:
        number: n >= 2.
        mean: finite.
        variance: > 0 and finite.

    Raises:
        ValueError: a value out of range.
    """

    number: int
    mean: float
    variance: float

    def __post_init__(self) -> None:
        integer("number", self.number, 2)
        if not np.isfinite(self.mean):
            raise ValueError(f"mean must be finite, got {self.mean!r}")
        if not (np.isfinite(self.variance) and self.variance > 0):
            raise ValueError(f"variance must be > 0 and finite, got {self.variance!r}")

    @classmethod
    def of(cls, values: ArrayLike) -> Scores:
        """Those of some scores, shape (n,)."""
        values = np.asarray(values, dtype=float)
        return cls(len(values), float(values.mean()), float(values.var(ddof=1)))

    def intervals(self, error: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Intervals of mean and deviation, (low, high) each, both right but with probability `error`."""
        free = self.number - 1
        reach = student.isf(error / 4, free) * np.sqrt(self.variance / self.number)
        spread = np.sqrt(free * self.variance / chi2.isf([error / 4, 1 - error / 4], free))
        return self.mean + np.array([-reach, reach]), spread


def gaussian_epsilon(
    present: Scores, absent: Scores, delta: float, confidence: float = 0.95
) -> float:
    """Lower bound on epsilon *if* the scores are independent and Gaussian.

    Args:
        present: scores of the canaries that were in the training.
        absent: scores of the others.
        delta: in (0, 1).
        confidence: in (0, 1), of the four intervals together.

    Returns:
        epsilon >= 0: the largest that an event "the score is above x" or "below x" shows, with mean and
        deviation of each group at the ends of their intervals that are worst for this x.

    Raises:
        ValueError: an argument out of range.
    """
    log_delta = np.log(float(probability_open("delta", delta)))
    error = (1 - float(probability_open("confidence", confidence))) / 2
    (a, s), (b, t) = present.intervals(error), absent.intervals(error)
    found = 0.0
    for sign in (1, -1):  # "above x" says present, "below x" says absent
        (hit, hit_spread), (false, false_spread) = ((a, s), (b, t))[::sign]
        centre, other = (sign * hit).min(), (sign * false).max()
        far = 12 * max(hit_spread.max(), false_spread.max())
        x = np.linspace(min(centre, other) - far, max(centre, other) + far, 4001)
        log_hit = log_ndtr((centre - x) / np.where(x > centre, *hit_spread[[0, 1]]))
        log_false = log_ndtr((other - x) / np.where(x > other, *false_spread[[1, 0]]))
        some = log_hit > log_delta
        gain = log_hit[some] + np.log(-np.expm1(log_delta - log_hit[some])) - log_false[some]
        found = max(found, float(gain.max(initial=0.0)))
    return found
