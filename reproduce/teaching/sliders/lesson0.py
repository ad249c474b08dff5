"""Lesson 0: one noisy number, an attacker's curve, and the promise as a line.

delta falls when epsilon grows, since it is a maximum of P(S) - exp(epsilon) Q(S). It falls when sigma grows: a
wider normal law is a narrower one with more noise added afterwards, and no attacker gains by noise that is
added afterwards. What holds for delta(0) holds for the share of right answers, which is (1 + delta(0)) / 2.

The attacker's curve is drawn through computed attackers at the larger sigma around the position. A chord between two
of them is an attacker, too, who tosses a coin between both.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from repro.accounting import GaussianMechanism
from reproduce.teaching.sliders.grid import Axis, Page, spaced

_ROUNDING = 1e-9  # of the closed forms, relative; far above the true one

_FALSE_ALARMS = (
    *(0.0, 1e-4, 1e-3, 3e-3, 0.01, 0.02, 0.04, 0.07, 0.11, 0.16, 0.22, 0.3),
    *(0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98, 1.0),
)


def closed(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of a closed form: its rounding to either side."""
    return values * (1 - _ROUNDING), values * (1 + _ROUNDING)


def ends(sigma: np.ndarray, epsilon: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """delta at epsilon, and how often the best attacker is right."""
    release = GaussianMechanism(sigma)
    right = (1 + release.delta(0.0)) / 2
    low, high = closed(release.delta(epsilon))
    return {"delta": (low, high), "right": closed(right)}


def reached(sigma: np.ndarray) -> np.ndarray:
    """Hits of the attacker with a threshold, at each rate of false alarms; shape (n, rates)."""
    hits = norm.sf(norm.isf(np.array(_FALSE_ALARMS)) - 1 / sigma[:, None])
    return hits * (1 - _ROUNDING)


PAGE = Page(
    name="lesson0",
    title="Lesson 0: a promise is a line",
    lead=(
        "One noisy number is published. Ada moves it by 1, and the noise has standard deviation σ. The attacker's "
        "curve shows hits against false alarms. The promise (ε, δ) is a pair of straight lines above it. "
        "Move ε: the lines turn around the curve and never cross it. Move σ: the curve bends."
    ),
    axes=(
        Axis("sigma", "noise σ", spaced(0.1, 10, 101), between=4, log=True, start=1.0),
        Axis("epsilon", "ε", spaced(0, 5, 101, log=False), between=4, start=0.75),
    ),
    quantities={"delta": "δ at this ε", "right": "share of right answers of the best attacker"},
    ends=ends,
    along="epsilon",
    vertical="hits",
    span=(0.0, 1.0),
    curve=(_FALSE_ALARMS, reached),
    promise="delta",
    most=1.0,
)
