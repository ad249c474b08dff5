"""Lesson 1: who hides behind whom, and why p q is no sampling rate; epsilon at delta = 0.00001.

The true epsilon falls when sigma grows (noise added afterwards) and rises along the other sliders:

* others: a further record may have gradient 0, so the data sets of fewer records are among those of more.
* q: with q' = t q each used record is kept with chance t. Fix the coins of t. Either Ada's record is not kept and
  nothing can be told, or two neighbours with fewer records are used with chance q. The hockey-stick divergence
  is jointly convex, so the mean over the coins is at most that of q.
* p: with p' = t p the law is a mixture of the one of p and of the client's absence, the latter the same in both
  worlds. Again by convexity it leaks at most as much.

Only sigma has positions between grid points. The printed theorem is the divergence of one pair of laws, so that it
falls with sigma as well.
"""

from __future__ import annotations

import warnings

import numpy as np

from repro.accounting import (
    InvalidBoundWarning,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
)
from reproduce.teaching.sliders.grid import Axis, Page, spaced
from reproduce.teaching.sliders.lesson0 import closed

_DELTA = 1e-5


def ends(
    sigma: np.ndarray, p: float, q: float, others: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Epsilon of Eve, of Mallory, of independent records, and of the printed theorem."""
    eve = RandomParticipation(sigma, p=p, q=q, samples_per_client=int(others))
    mallory = WeakClientSampling(sigma, p=p, q=q)
    rate = PoissonGaussian(sigma, rate=p * q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InvalidBoundWarning)  # shown for what it is
        printed = closed(eve.epsilon(_DELTA, method="paper"))
    return {
        "rate": (rate.epsilon(_DELTA, method="lower"), rate.epsilon(_DELTA)),
        "printed": printed,
        "eve": (eve.epsilon(_DELTA, method="lower"), eve.epsilon(_DELTA)),
        "mallory": (mallory.epsilon(_DELTA, method="lower"), mallory.epsilon(_DELTA)),
    }


PAGE = Page(
    name="lesson1",
    title="Lesson 1: is p q a sampling rate?",
    lead=(
        "A client takes part with chance p and then uses each of its records with chance q. The noise on the sum has "
        "standard deviation σ. All ε are at δ = 0.00001. Give the client more other records: Eve, who sees the "
        "noisy sum, comes as close to Ada as Mallory, who also sees who takes part."
    ),
    axes=(
        Axis("sigma", "noise σ", spaced(0.5, 4, 25), between=4, log=True, start=1.0),
        Axis("p", "chance p to take part", (0.05, 0.1, 0.2, 0.5, 1.0), start=0.1),
        Axis("q", "chance q of each record", (0.05, 0.1, 0.2, 0.5, 1.0), start=0.1),
        Axis("others", "other records d of the client", (1, 3, 10, 30, 100), log=True, start=100.0),
    ),
    quantities={
        "rate": "ε if each record were drawn on its own with chance p q",
        "printed": "ε that the printed theorem states",
        "eve": "ε towards Eve",
        "mallory": "ε towards Mallory",
    },
    ends=ends,
    along="others",
    vertical="ε",
    span=(0.01, 20.0),
    log=True,
    verdicts=(
        (
            "rate",
            "eve",
            "Eve reaches more than p q as a sampling rate promises.",
            "Eve reaches less than p q as a sampling rate promises.",
            "Here these bounds do not tell whether p q as a sampling rate promises too much.",
        ),
        (
            "printed",
            "eve",
            "The printed theorem is broken here: Eve reaches a larger ε.",
            "The printed theorem is safe here.",
            "Here these bounds do not tell whether the printed theorem holds.",
        ),
    ),
)
