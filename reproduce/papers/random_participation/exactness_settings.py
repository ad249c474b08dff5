"""Settings at which the exactness statements are tried: the closed forms beside the quadrature of every angle."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd

from repro.accounting.random_participation.mechanisms import CountRevealed
from reproduce.papers.random_participation.exactness import one_other, right_up_to, wrong_from
from reproduce.papers.random_participation.quadrature import oblique_delta

__all__ = ["one_other_rows", "printed_right_rows"]

_RATES_AND_NOISE = (
    (0.1, 0.1, 1.0),
    (0.5, 0.5, 1.0),
    (0.5, 0.5, 0.5),
    (0.9, 0.3, 1.0),
    (0.3, 0.5, 0.3),
)
"""p, q and sigma, so that the worst angle is inside at some epsilon and at an end at others."""


def one_other_rows() -> pd.DataFrame:
    """A client with one other record: the data set named by `one_other` against every angle and the bound.

    Returns:
        one row a setting and direction: the cosine of that data set, the closed form (nan where it
        does not apply), what the data set leaks by quadrature, the largest leak over 46 angles, and
        the repaired theorem.
    """
    cosines = np.round(np.cos(np.linspace(0, np.pi, 46)), 12)
    rows = []
    for (p, q, sigma), epsilon, direction in product(
        _RATES_AND_NOISE, (0.01, 0.1, 0.3, 1.0), ("remove", "add")
    ):
        at = {"d": 1, "p": p, "q": q, "sigma": sigma}
        formula, cosine = one_other(epsilon, direction, p=p, q=q, sigma=sigma)
        cosine = np.clip(cosine, -1, 1)
        mechanism = CountRevealed(sigma, p=p, q=q, samples_per_client=1)
        rows.append(
            {
                "p": p,
                "q": q,
                "sigma": sigma,
                "epsilon": epsilon,
                "direction": direction,
                "cosine": cosine,
                "formula": formula,
                "data set": oblique_delta(epsilon, direction, **at, cosine=cosine),
                "best angle": max(
                    oblique_delta(epsilon, direction, **at, cosine=one) for one in cosines
                ),
                "upper": mechanism.delta(epsilon, direction=direction),
            }
        )
    return pd.DataFrame(rows)


def printed_right_rows(sigma: float) -> pd.DataFrame:
    """Both limits of p around which the printed theorem stops to be right, tried from both sides, q = 0.1.

    Returns:
        one row a number d of other records and an epsilon: the two limits; the bound over the printed
        formula 5 % below the first; and, 10 % above the second, the leak of the worst of 40 angles over
        the printed formula, and that formula.
    """
    cosines = np.round(np.cos(np.linspace(0.01, 0.8, 40)), 12)
    rows = []
    for d, epsilon in product((1, 2, 3, 5), (0.05, 0.3, 1.0)):
        at = {"d": d, "q": 0.1, "sigma": sigma}
        right, wrong = right_up_to(epsilon, **at), wrong_from(epsilon, **at)
        high = min(1.0, 1.1 * wrong)
        inside, outside = (
            CountRevealed(sigma, p=p, q=0.1, samples_per_client=d) for p in (0.95 * right, high)
        )
        printed = outside.delta(epsilon, method="paper")
        leak = max(oblique_delta(epsilon, "remove", **at, p=high, cosine=one) for one in cosines)
        rows.append(
            {
                "d": d,
                "epsilon": epsilon,
                "right up to p": right,
                "wrong from p": wrong,
                "bound / printed": inside.delta(epsilon) / inside.delta(epsilon, method="paper"),
                "leak / printed": leak / printed,
                "printed": printed,
            }
        )
    return pd.DataFrame(rows)
