"""The survey of differentially private federated learning in ddpsa's Table I: its rows, and filters.

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

from html import escape

import pandas as pd

from reproduce import paths

__all__ = ["FAMILIES", "Filterable", "family", "load_survey"]

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

_SCRIPT = """
const box = field.closest('table');
const asked = [...box.querySelectorAll('input')].map(x => x.value.toLowerCase());
for (const row of box.tBodies[0].rows)
  row.hidden = asked.some((text, k) => !row.cells[k].textContent.toLowerCase().includes(text));
"""


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


class Filterable:
    """Shows a data frame; where scripts run (JupyterLab, a website), typing above a column filters.

    Elsewhere (a preview on a hosting site) the whole table is shown. A row is kept if every column
    contains the text typed above it, in upper or lower case.

    Args:
        table: what to show; cells are printed with `str`, without the index.
        rows: height of the scrolled window, in rows, >= 1.
    """

    def __init__(self, table: pd.DataFrame, *, rows: int = 20) -> None:
        self.table = table
        self.rows = rows

    def __repr__(self) -> str:
        return self.table.to_string(index=False)

    def _repr_html_(self) -> str:
        handler = escape("(field => {" + " ".join(_SCRIPT.split()) + "})(this)")
        names = "".join(f"<th>{escape(str(name))}</th>" for name in self.table.columns)
        fields = "".join(
            f'<th><input size="8" placeholder="filter" aria-label="filter {escape(str(name))}" '
            f'oninput="{handler}"></th>'
            for name in self.table.columns
        )
        body = "\n".join(
            "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
            for row in self.table.itertuples(index=False)
        )
        return (
            f'<div style="max-height:{1.7 * self.rows:.0f}em;overflow:auto"><table>\n'
            f"<thead><tr>{names}</tr>\n<tr>{fields}</tr></thead>\n"
            f"<tbody>\n{body}\n</tbody></table></div>"
        )
