"""Lesson 3: a state that is kept undoes subsampling; delta at epsilon = 1.

The true deltas fall when sigma grows (noise added afterwards) and rise with the number of rounds (whoever sees
more may look away). They rise with q: a client that ignores a drawn record with chance 1 - t is one of the
clients that are allowed, and it uses the record with chance t q. For rounds on their own the smaller rate is
also what the larger one gives after outputs were replaced by fresh noise with chance 1 - t.
"""

from __future__ import annotations

import numpy as np

from repro.accounting import GaussianMechanism, PoissonGaussian, compose
from reproduce.teaching.lesson3 import run_ends
from reproduce.teaching.sliders.grid import Axis, Page, spaced
from reproduce.teaching.sliders.lesson0 import closed

_EPSILON = 1.0
_RATES = (0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)


def ends(sigma: np.ndarray, q: float, rounds: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """delta where each round starts anew, where a state is kept, and where the first round draws the record."""
    count = int(rounds)
    runs = [compose(PoissonGaussian(s, rate=q), count) for s in sigma.tolist()]
    anew = [[run.delta(_EPSILON, method=method) for run in runs] for method in ("lower", "upper")]
    kept = np.array([run_ends(_EPSILON, s, q, count) for s in sigma.tolist()])
    low, high = closed(GaussianMechanism(sigma / np.sqrt(count)).delta(_EPSILON))
    return {
        "anew": (np.array(anew[0]), np.array(anew[1])),
        "kept": (kept[:, 0], kept[:, 1]),
        "first": (low, high),
    }


PAGE = Page(
    name="lesson3",
    title="Lesson 3: a state that is kept undoes subsampling",
    lead=(
        "In each round a client uses Ada's record with chance q. A used record moves an upload by at most 1, and "
        "the noise has standard deviation σ. All δ are at ε = 1. Compare a client that starts anew in each round with "
        "one that keeps a state. More rounds bring the second one close to a client that drew the record at once."
    ),
    axes=(
        Axis("sigma", "noise σ", spaced(1.25, 20, 33), between=4, log=True, start=5.0),
        Axis("q", "chance q of the record", _RATES, between=4, log=True, start=0.05),
        Axis("rounds", "rounds", (2, 5, 10, 20, 50, 100, 200), log=True, start=100.0),
    ),
    quantities={
        "anew": "δ, each round on its own",
        "kept": "δ, a state is kept",
        "first": "δ, the record is drawn in round 1 and kept",
    },
    ends=ends,
    along="rounds",
    vertical="δ at ε = 1",
    span=(1e-12, 1.0),
    log=True,
    least=1e-12,  # so far down bounds of compositions are loose
    most=1.0,
    verdicts=(
        (
            "anew",
            "kept",
            "The kept state leaks more than rounds on their own.",
            "The kept state leaks less than rounds on their own.",
            "Here these bounds do not tell whether the kept state leaks more.",
        ),
    ),
)
