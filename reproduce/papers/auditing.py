"""Lower bounds on epsilon from attacks: trainings with and without a canary, and the attacker's scores.

The attacker says "with" where the score of a training reaches a threshold. `FPR` is the chance that this
happens without the canary, `TPR` with it. Thresholds are chosen on one half of the trainings and used on
the other, so that every statement holds at its confidence. A record keeps histograms of the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import elementwise
from scipy.stats import beta

from repro._validate import integer, positive, probability_open

Array = NDArray[np.float64]

EDGES = np.round(
    np.concatenate(
        [np.linspace(-24, -4.1, 200), np.linspace(-4, 4, 401), np.linspace(4.1, 24, 200)]
    ),
    9,
)
"""Edges of the bins in which scores are counted; those beyond count in the outer bins."""

CHOOSING = 0.999
"""Confidence at which thresholds are compared with each other: higher than that of the bounds, so that luck
in few counts does not choose."""

_FAR = 30.0
"""Multiple of the true noise at which the search for the largest noise ends."""


class Profile(Protocol):
    """What an audit needs of a mechanism or a composition of `repro.accounting`."""

    def tradeoff(self, alpha: ArrayLike, *, method: str, direction: str) -> Any:
        """See `repro.accounting.mechanism.Mechanism.tradeoff`."""

    def epsilon(self, delta: ArrayLike, *, method: str) -> Any:
        """See `repro.accounting.mechanism.Mechanism.epsilon`."""


def missed(mechanism: Profile, fpr: ArrayLike, method: str = "upper") -> Array:
    """The least FNR at each FPR: that of a test whose null hypothesis is the data set without the record.

    Args:
        mechanism: a mechanism or composition.
        fpr: in [0, 1], shape (n,).
        method: "upper", below which no test comes, or "lower", which a certain test reaches.
    """
    return np.atleast_1d(mechanism.tradeoff(fpr, method=method, direction="remove"))


def counted(without: ArrayLike, present: ArrayLike) -> dict[str, str]:
    """Histograms of scores, for a record: counts in the order of `EDGES`, in one line each.

    Args:
        without: scores of trainings without the canary, any shape; infinite ones are allowed.
        present: those with it.

    Raises:
        ValueError: a score is not a number.
    """
    found = {}
    for name, scores in (("without", without), ("with", present)):
        values = np.asarray(scores, dtype=float).ravel()
        if np.isnan(values).any():
            raise ValueError(f"scores {name} the canary must be numbers, got {values}")
        counts, _ = np.histogram(np.clip(values, EDGES[0], EDGES[-1]), EDGES)
        found[name] = " ".join(map(str, counts))
    return found


def stacked_trainings(
    config: Mapping[str, Any], seed: int, scores: Callable[[NDArray[np.bool_], int], ArrayLike]
) -> dict[str, str]:
    """Train stack after stack, every second training with the canary, and count the attacker's scores.

    Args:
        config: "trainings" (in all) and "stacked" (trainings a call, an even number).
        seed: >= 0.
        scores: from who holds the canary, shape (stacked,), and a seed to the scores, of that shape.

    Returns:
        See `counted`.

    Raises:
        ValueError: a key of `config` or the seed out of range.
    """
    stacked = integer("stacked", config["stacked"], 2)
    stacks = integer("trainings", config["trainings"], stacked) // stacked
    seeds = np.random.SeedSequence(integer("seed", seed, 0)).generate_state(stacks)
    present = np.arange(stacked) % 2 == 0
    found = np.stack([scores(present, int(own)) for own in seeds])
    return counted(found[:, ~present], found[:, present])


@dataclass(frozen=True)
class Roc:
    """Counts of scores at or above each threshold, from the highest threshold to the lowest.

    Attributes:
        false: trainings without the canary that are called "with", shape (thresholds,).
        true: trainings with it that are called "with", of the same shape.
        trainings: how many there are without and with it.
    """

    false: NDArray[np.int64]
    true: NDArray[np.int64]
    trainings: tuple[int, int]

    @classmethod
    def of(cls, results: Iterable[Mapping[str, Any]]) -> Roc:
        """Pool the histograms of several records, as `counted` makes them."""
        rows = [(result["without"].split(), result["with"].split()) for result in results]
        without, present = np.sum(np.array(rows, dtype=np.int64), axis=0)
        sizes = int(without.sum()), int(present.sum())
        return cls(np.cumsum(without[::-1]), np.cumsum(present[::-1]), sizes)

    def at(self, place: int) -> Roc:
        """The curve at one threshold."""
        return Roc(self.false[[place]], self.true[[place]], self.trainings)

    def rates(self) -> tuple[Array, Array]:
        """FPR and TPR at each threshold, from (0, 0) on."""
        return (
            np.append(0.0, self.false / self.trainings[0]),
            np.append(0.0, self.true / self.trainings[1]),
        )

    def errors(self, confidence: float = 0.95) -> tuple[Array, Array]:
        """Upper ends of FPR and FNR at each threshold, both right together with `confidence`.

        Clopper and Pearson (1934), each at half of the error probability.
        """
        tail = (1.0 - float(probability_open("confidence", confidence))) / 2
        none, some = self.trainings
        return highest(self.false, none, tail), highest(some - self.true, some, tail)


def highest(hits: ArrayLike, trials: int, tail: float) -> Array:
    """Upper Clopper-Pearson end of a probability: `hits` or fewer of `trials` have chance `tail`."""
    hits = np.asarray(hits, dtype=float)
    integer("trials", trials, 1)
    with np.errstate(invalid="ignore"):
        return np.where(hits >= trials, 1.0, beta.isf(tail, hits + 1, trials - hits))


def free_epsilon(roc: Roc, delta: float, confidence: float = 0.95) -> Array:
    """Distribution-free lower bound on epsilon at each threshold, shape (thresholds,), >= 0.

    (epsilon, delta)-DP means TPR <= e^epsilon FPR + delta and the same with the two data sets
    exchanged; the rates are taken at the ends of their intervals.
    """
    false, missed = roc.errors(confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        ways = [np.log((1 - missed - delta) / false), np.log((1 - false - delta) / missed)]
    return np.maximum(np.nan_to_num(np.maximum(*ways), nan=0.0, neginf=0.0), 0.0)


def excess(roc: Roc, epsilon: float, delta: float) -> Array:
    """p-value of (epsilon, delta)-DP at each threshold: how unlikely these counts are under it.

    The least total error probability at which the Clopper-Pearson ends contradict
    TPR <= e^epsilon FPR + delta or its mirror image (where the better is taken, times 2).
    """
    low = np.full(len(roc.false), -200.0)  # logarithms of the error probability
    high = np.zeros(len(roc.false))
    for _ in range(40):
        middle = (low + high) / 2
        refuted = _refuted(roc, epsilon, delta, np.exp(middle) / 2)
        high, low = np.where(refuted, middle, high), np.where(refuted, low, middle)
    return np.minimum(2 * np.exp(high), 1.0)


def _refuted(roc: Roc, epsilon: float, delta: float, tail: Array) -> NDArray[np.bool_]:
    none, some = roc.trainings
    false, missed = highest(roc.false, none, tail), highest(some - roc.true, some, tail)
    ratio = np.exp(epsilon)
    return (1 - missed > ratio * false + delta) | (1 - false > ratio * missed + delta)


@dataclass(frozen=True)
class Audit:
    """What the trainings of one setting say, at 95 % confidence.

    Attributes:
        upper: our upper bound on epsilon at `delta`.
        free: (a) distribution-free lower bound on epsilon.
        implied: (b) lower bound on epsilon within the family of the mechanism, noise unknown.
        together: the same at a confidence at which those of all settings of the paper hold at once.
        noise: the largest noise that the trainings do not refute, at least the true one if all is right.
            30 times the true one where they refute none below that; then `implied` is 0.
        tpr: (c) TPR at the threshold chosen for FPR `at`, with its Clopper-Pearson interval.
        fpr: the FPR at that threshold.
        tpr_upper: the largest TPR that our upper bound allows at FPR `at`.
        tpr_limit: the largest TPR that it allows at the upper end of `fpr`'s interval.
        tpr_lower: the TPR at FPR `at` of the best test between the audited pair.
        trainings: in all.
    """

    upper: float
    free: float
    implied: float
    together: float
    noise: float
    tpr: tuple[float, float, float]
    fpr: float
    tpr_upper: float
    tpr_limit: float
    tpr_lower: float
    trainings: int


def audit(
    choosing: Roc,
    testing: Roc,
    family: Callable[[float], Profile],
    pair: Profile,
    sigma: float,
    delta: float,
    *,
    bound: Callable[[float], Profile] | None = None,
    at: float = 0.1,
    confidence: float = 0.95,
    settings: int = 1,
) -> Audit:
    """The three lower bounds of one setting beside its upper bound.

    Args:
        choosing: trainings on which the thresholds are chosen.
        testing: other trainings, of the same setting.
        family: noise -> mechanism (or composition) whose upper bound is audited; more noise leaks less.
        pair: a mechanism (or composition) whose "lower" is attained by the audited pair of data sets.
        sigma: the noise of the trainings, > 0.
        delta: in (0, 1).
        bound: noise -> mechanism whose epsilon is reported, where `family` is that of the canary's pair only.
        at: FPR at which TPRs are compared.
        confidence: of every bound.
        settings: how many are audited beside this one, itself included; at least 1.

    Raises:
        ValueError: an argument out of range.
    """
    positive("sigma", sigma)
    integer("settings", settings, 1)
    probability_open("delta", delta)
    place = int(np.argmax(free_epsilon(choosing, delta, CHOOSING)))
    free = float(free_epsilon(testing.at(place), delta, confidence)[0])
    bound = bound or family
    family = lru_cache(maxsize=None)(family)
    _, sharpest = largest_noise(choosing, family, sigma, CHOOSING, step=1e-2)
    noise, _ = largest_noise(testing.at(sharpest), family, sigma, confidence)
    stricter = 1 - (1 - confidence) / settings
    most_noise, _ = largest_noise(testing.at(sharpest), family, sigma, stricter)

    def implied(least: float) -> float:
        """Our bound at this noise; nothing where the search ended without a refuted noise."""
        return 0.0 if least >= _FAR * sigma else float(bound(least).epsilon(delta, method="upper"))

    level = _at(choosing, at)
    chosen = testing.at(level)
    hits, trials = int(chosen.true[0]), chosen.trainings[1]
    tail = (1 - confidence) / 2
    most = highest(chosen.false, chosen.trainings[0], tail)
    allowed = 1 - missed(family(sigma), np.append(at, most))
    ends = 1 - float(highest(trials - hits, trials, tail)), float(highest(hits, trials, tail))
    return Audit(
        upper=float(bound(sigma).epsilon(delta, method="upper")),
        free=free,
        implied=implied(noise),
        together=implied(most_noise),
        noise=noise,
        tpr=(hits / trials, *ends),
        fpr=float(chosen.false[0] / chosen.trainings[0]),
        tpr_upper=float(allowed[0]),
        tpr_limit=float(allowed[1]),
        tpr_lower=1 - float(missed(pair, at, "lower")[0]),
        trainings=sum(choosing.trainings) + sum(testing.trainings),
    )


def _at(roc: Roc, rate: float) -> int:
    """The lowest threshold whose FPR is at most `rate`; the highest one where there is none."""
    below = np.flatnonzero(roc.false <= rate * roc.trainings[0])
    return int(below[-1]) if below.size else 0


def largest_noise(
    roc: Roc,
    family: Callable[[float], Profile],
    sigma: float,
    confidence: float,
    step: float = 2e-3,
) -> tuple[float, int]:
    """The largest noise that the error rates do not refute, and the threshold that refutes the next.

    With confidence, FNR >= f(FPR) for the true noise; f rises with the noise, so that every noise with
    f(largest FPR) > largest FNR is refuted.

    Args:
        roc: trainings.
        family: noise -> mechanism.
        sigma: a noise near which the search begins, > 0.
        confidence: of the rates.
        step: relative precision, > 0.

    Returns:
        a noise that is refuted (so that it is an upper end), or 30 times `sigma` where none below is; and
        a place among the thresholds.
    """
    false, fnr = roc.errors(confidence)

    places = {}

    @cache
    def margin(noise: float) -> float:
        """How far the bound lies above the error rates, at the threshold that refutes the noise best."""
        gap = missed(family(noise), false) - fnr
        places[noise] = int(np.argmax(gap))
        return float(gap[places[noise]])

    growth, low, high = 1.1, 0.5 * sigma, sigma
    while margin(high) <= 0:
        low, high, growth = high, high * growth, growth**1.5
        if high > _FAR * sigma:
            return _FAR * sigma, 0
    while margin(low) > 0:
        low, high = low / 2, low
        if low < sigma / _FAR:
            return high, places[high]
    found = elementwise.find_root(
        np.vectorize(margin), (low, high), tolerances={"xatol": 0.0, "xrtol": step}
    )
    high = float(found.bracket[1])
    return high, places[high]
