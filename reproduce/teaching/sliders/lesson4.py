"""Lesson 4: whose noise protects whom; epsilon at delta = 0.00001, and the error of a mean.

The true epsilon falls when the scale grows: Laplace noise of a larger scale is, in law, noise of the smaller one plus
independent noise (the ratio of both characteristic functions is a mixture of nothing and Laplace noise). The
error rises with the scale. The other sliders have no positions between their stops.
"""

from __future__ import annotations

import numpy as np

from repro.accounting.laplace import SummedLaplace
from reproduce.teaching.sliders.grid import Axis, Page, spaced
from reproduce.teaching.sliders.lesson0 import closed

_DELTA = 1e-5


def ends(
    scale: np.ndarray, clients: float, friends: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Epsilon of one noise and of all that the reader cannot subtract; error of the mean, local and central."""
    unknown = int(max(clients - friends, 1))  # Ada's own noise is never told
    return {
        "one": closed(SummedLaplace(scale, clients=1).epsilon(_DELTA)),
        "sum": closed(SummedLaplace(scale, clients=unknown).epsilon(_DELTA)),
        "local": closed(scale * np.sqrt(2 / clients)),
        "central": closed(scale * np.sqrt(2) / clients),
    }


PAGE = Page(
    name="lesson4",
    title="Lesson 4: whose noise protects whom?",
    lead=(
        "Each client adds Laplace noise of scale b to one number that Ada can move by 1. The reader sees the sum. "
        "Friends of the reader tell their own noise, so that the reader can subtract it. Ada's client never does. "
        "All ε are at δ = 0.00001. A promise that counts on the noise of others falls when the others are friends "
        "of the reader."
    ),
    axes=(
        Axis("scale", "scale b of each noise", spaced(0.1, 10, 81), between=4, log=True, start=1.0),
        Axis("clients", "clients", (1, 2, 5, 10, 20, 50, 100), log=True, start=20.0),
        Axis(
            "friends",
            "friends of the reader among the others",
            (0, 1, 2, 5, 10, 20, 50, 99),
            start=0.0,
        ),
    ),
    quantities={
        "one": "ε, counting on one noise only",
        "sum": "ε, counting on all noise that the reader does not know",
        "local": "error of the mean, each client adds noise",
        "central": "error of the mean, one trusted party adds noise",
    },
    ends=ends,
    along="clients",
    vertical="ε at δ = 0.00001, or error of the mean",
    span=(0.003, 20.0),
    log=True,
    verdicts=(
        (
            "sum",
            "one",
            "The noise of others protects Ada here.",
            "One noise protects better than the sum.",
            "Ada's own noise is all that these bounds can count on here.",
        ),
    ),
)
