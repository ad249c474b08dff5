"""Lesson 2: exactly k of ten iterations, or a coin in each; delta at epsilon.

Both true deltas fall when epsilon grows, and when sigma grows (noise added afterwards). The slider of k has no
positions between its stops.
"""

from __future__ import annotations

import numpy as np

from repro.accounting import BalancedIterationSubsampling, PoissonGaussian, compose
from reproduce.teaching.sliders.grid import Axis, Page, spaced

ITERATIONS = 10


def ends(epsilon: np.ndarray, sigma: float, k: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """delta of exactly k of ten iterations, and of ten coins of chance k / 10."""
    exactly = BalancedIterationSubsampling(sigma, iterations=ITERATIONS, participations=int(k))
    coins = compose(PoissonGaussian(sigma, rate=k / ITERATIONS), ITERATIONS)
    return {
        "exactly": (exactly.delta(epsilon, method="lower"), exactly.delta(epsilon)),
        "coins": (coins.delta(epsilon, method="lower"), coins.delta(epsilon)),
    }


PAGE = Page(
    name="lesson2",
    title="Lesson 2: exactly k of ten, or ten coins?",
    lead=(
        "A run has ten iterations with noise σ in each. Either Ada's record takes part in exactly k of them, or a coin "
        "of chance k/10 decides in each iteration. Look for places where coins leak less, and for places where "
        "“exactly” leaks less. With much noise the two are hard to tell apart at small ε."
    ),
    axes=(
        Axis("epsilon", "ε", spaced(0, 8, 65, log=False), between=4, start=1.0),
        Axis("sigma", "noise σ", spaced(0.25, 2, 37), between=4, log=True, start=0.5),
        Axis("k", "participations k of 10", (1, 2, 3, 5), start=2.0),
    ),
    quantities={"exactly": "δ, exactly k of 10", "coins": "δ, a coin in each iteration"},
    ends=ends,
    along="epsilon",
    vertical="δ",
    span=(1e-8, 1.0),
    log=True,
    least=1e-12,  # so far down bounds of compositions are loose
    most=1.0,
    verdicts=(
        (
            "exactly",
            "coins",
            "Exactly k of ten leaks less here.",
            "Coins leak less here.",
            "Here these bounds do not tell which one leaks less.",
        ),
    ),
)
