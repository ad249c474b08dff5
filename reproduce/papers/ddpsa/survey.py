"""The survey of differentially private federated learning in ddpsa's Table I, as data.

`data/surveys/ddpsa_table1.csv` has one row an article, in the table's order. Columns:

* reference: number in ddpsa's list; authors, year as the table has them; reference_year: the year in
  that list;
* scenario (Horizontal, Vertical, Transfer), model (DP, LDP, …), level (SL, CL, SA: sample level, client
  level, secure aggregation; "-"): printed once per block of rows, here filled in;
* mechanism, composition, architecture: several entries are separated by "; ";
* task;
* clients, epsilon, delta: as printed ("-" where the table gives none), and beside each the ends `…_low`
  and `…_high` of what it covers, as numbers (K, M: thousand, million; W: ten thousand).

Facts only; evident slips of the pen in words are corrected, numbers are not.
"""

from __future__ import annotations

import pandas as pd

from reproduce import paths

__all__ = ["FAMILIES", "family", "load_survey"]

FAMILIES = {
    "Gaussian": ("Gaussian", "Gaussian; Laplace"),
    "discrete, summed securely": (
        "Discrete Gaussian",
        "Poisson Binomial",
        "LWE",
        "Skellam",
        "Binomial",
        "Gaussian; Skellam",
    ),
    "Laplace": ("Laplace", "Discrete Laplace", "Laplace; KRR", "Laplace; RR"),
    "shuffled": (
        "Clipped-Laplace; Shuffle",
        "Harmony; Shuffle",
        "Laplace; Shuffle",
        "Duchi; Shuffle",
    ),
    "randomised response and other local": (
        "SRR",
        "EM",
        "EM; DMP-UE",
        "RAPPOR",
        "Adaptive-Harmony",
        "Adaptive-Duchi",
        "RRP",
        "Three output; PM-SUB",
        "RR; PM",
        "PM",
        "KRR",
        "RR",
        "Random Sampling",
    ),
}
"""Mechanisms of the table, grouped for pictures."""


def load_survey() -> pd.DataFrame:
    """The table, one row an article; missing numbers are nan.

    Raises:
      FileNotFoundError: the file is missing from the project.
    """
    return pd.read_csv(
        paths.DATA / "surveys" / "ddpsa_table1.csv",
        dtype=dict.fromkeys(("clients", "epsilon", "delta"), str),
    )


def family(mechanisms: pd.Series) -> pd.Series:
    """The group in `FAMILIES` of each entry of the column `mechanism`.

    Raises:
      ValueError: a mechanism that is in no group.
    """
    groups = {name: group for group, names in FAMILIES.items() for name in names}
    if unknown := sorted(set(mechanisms) - set(groups)):
        raise ValueError(f"mechanism must be one of those in FAMILIES, got {', '.join(unknown)}")
    return mechanisms.map(groups)
