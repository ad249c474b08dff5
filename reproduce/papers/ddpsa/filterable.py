"""A table with a filter above every column, in plain HTML."""

from __future__ import annotations

from html import escape

import pandas as pd

__all__ = ["Filterable"]

_SCRIPT = """
const box = field.closest('table');
const asked = [...box.querySelectorAll('input')].map(x => x.value.toLowerCase());
for (const row of box.tBodies[0].rows)
  row.hidden = asked.some((text, k) => !row.cells[k].textContent.toLowerCase().includes(text));
"""


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
