"""Lesson 5: one mask for an image of its own, or for a whole batch; epsilon with delta = 0.

Closed forms. With a mask of its own it is ln(1 - p + p exp(epsilon)), which rises with both. In a batch of B images
an attacker reaches ln(1 + p u (exp(epsilon) - 1) / (p u + 1 - p)) with u = exp((B - 1) epsilon). That rises with p
and with B. Its derivative by epsilon is B s(B) - (B - 1) s(B - 1), where s(B) = p exp(B epsilon) over
p exp(B epsilon) + 1 - p rises with B. So it rises with epsilon as well. Nobody exceeds the epsilon of the noise.
"""

from __future__ import annotations

import numpy as np

from repro.accounting.pmsfl.releases import masked_laplace_epsilon
from reproduce.teaching.lesson5 import batch_ends
from reproduce.teaching.sliders.grid import Axis, Page, spaced
from reproduce.teaching.sliders.lesson0 import closed


def ends(
    epsilon: np.ndarray, keep: float, batch: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Epsilon of a mask for one image, of one mask for a batch, and of the noise alone."""
    found = np.array([batch_ends(e, keep, int(batch)) for e in epsilon.tolist()])
    own = np.array([float(masked_laplace_epsilon(e, keep=keep)) for e in epsilon.tolist()])
    return {
        "own": closed(own),
        "batch": (closed(found[:, 0])[0], found[:, 1]),
        "noise": (epsilon, epsilon),
    }


PAGE = Page(
    name="lesson5",
    title="Lesson 5: a mask for one image, or for a batch?",
    lead=(
        "One weight is kept with chance p, and the noise on each output promises ε. All promises have δ = 0. With a "
        "mask of its own, Ada's image is safer than the noise alone makes it. If a batch passes the same mask, an "
        "attacker who knows the other images learns the mask. Make the batch larger and see how little of the help "
        "is left."
    ),
    axes=(
        Axis("epsilon", "ε of the noise", spaced(0.125, 4, 51), between=4, log=True, start=1.0),
        Axis(
            "keep",
            "chance p to keep the weight",
            spaced(0.05, 0.95, 31, log=False),
            between=4,
            start=0.5,
        ),
        Axis("batch", "images behind one mask", (1, 2, 3, 4, 6, 8, 16, 32), log=True, start=4.0),
    ),
    quantities={
        "own": "ε, a mask of its own",
        "batch": "ε, one mask for the batch",
        "noise": "ε of the noise alone",
    },
    ends=ends,
    along="batch",
    vertical="ε",
    span=(0.0, 4.5),
    settled=frozenset({"batch", "noise"}),  # closed forms, and the value of a slider
    verdicts=(
        (
            "own",
            "batch",
            "Sharing the mask leaks more than a mask of its own.",
            "Sharing the mask leaks less than a mask of its own.",
            "Here these bounds do not tell one mask for the batch from a mask of its own.",
        ),
    ),
)
