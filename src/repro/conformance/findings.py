"""The result of one check, and one level for all checks of an examination."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom, chi2, norm

LEVEL = 0.01
"""Chance of any alarm in an examination of an engine that keeps its promise, at most."""


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: its name.
        evidence: what was measured, in words.
        p_value: of the promise, in [0, 1], for a statistical check; None for an exact one.
        broken: whether an exact check failed; None where it could not be made.
        detects: what the check can see, given the level of a single test: a deviation that is found in 4 of 5
            examinations (statistical checks), or the tolerance (exact checks).
    """

    check: str
    evidence: str
    p_value: float | None = None
    broken: bool | None = None
    detects: Callable[[float], str] = lambda level: ""


def exact(check: str, broken: bool, evidence: str, tolerance: float) -> Finding:
    """A finding without chance, apart from rounding up to a relative `tolerance`."""
    sees = f"deviations above {tolerance:.0e}" if tolerance else "any deviation"
    return Finding(check, evidence, broken=bool(broken), detects=lambda _: sees)


def skipped(check: str, reason: str) -> Finding:
    """A check that could not be made."""
    return Finding(check, f"not checked: {reason}")


def smallest(error: float, what: str) -> Callable[[float], str]:
    """The deviation found in 4 of 5 cases, by a two-sided normal test with standard `error`."""
    return lambda level: f"{what} {(norm.isf(level / 2) + norm.ppf(0.8)) * error:.2g}"


def alarms(findings: Sequence[Finding]) -> list[bool]:
    """Which findings are alarms: exact failures, and Holm's procedure over all p-values at `LEVEL`."""
    values = [1.0 if f.p_value is None else f.p_value for f in findings]
    tested = sum(f.p_value is not None for f in findings)
    rejected = [bool(f.broken) for f in findings]
    for rank, place in enumerate(np.argsort(values, kind="stable")[:tested]):
        if values[place] > LEVEL / (tested - rank):
            break
        rejected[place] = True
    return rejected


def worst(p_values: ArrayLike) -> float:
    """The p-value of several tests together, by Bonferroni; 1 where there are none."""
    values = np.asarray(p_values, dtype=float).ravel()
    return float(min(1.0, values.min() * values.size)) if values.size else 1.0


def binomial(counts: ArrayLike, trials: int, rate: ArrayLike) -> np.ndarray:
    """Two-sided exact p-values of binomial counts: twice the smaller tail."""
    counts, rate = np.broadcast_arrays(counts, rate)
    tails = np.minimum(binom.cdf(counts, trials, rate), binom.sf(counts - 1, trials, rate))
    return np.minimum(1.0, 2 * tails)


def goodness(values: np.ndarray, law: np.ndarray) -> float:
    """Chi-square p-value of whole numbers against their promised law; 0 where the law excludes one.

    Neighbouring outcomes are joined until at least 10 of each are expected.
    """
    seen = np.bincount(values, minlength=len(law)).astype(float)
    if len(seen) > len(law) or seen[law <= 0].any():
        return 0.0
    expected = law * len(values)
    group = np.zeros(len(law), dtype=int)
    total = 0.0
    for k in range(1, len(law)):
        total += expected[k - 1]
        enough = total >= 10 and expected[k:].sum() >= 10
        group[k] = group[k - 1] + enough
        total = 0.0 if enough else total
    seen, expected = np.bincount(group, seen), np.bincount(group, expected)
    if len(seen) == 1:
        return 1.0
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1))


def two_sided(z: ArrayLike) -> np.ndarray:
    """p-values of standard normal statistics."""
    return np.minimum(1.0, 2 * norm.sf(np.abs(z)))


def distance(samples: int) -> Callable[[float], str]:
    """The Kolmogorov distance that a test on `samples` values finds in about 4 of 5 cases."""
    return lambda level: (
        "a distance between distribution functions of "
        f"{(math.sqrt(math.log(2 / level) / 2) + 0.42) / math.sqrt(samples):.2g}"
    )
