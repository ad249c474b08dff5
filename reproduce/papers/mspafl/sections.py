"""What the derivations notebook of MS-PAFL shows of its verdicts: all at the top, a box below each section."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from reproduce import claims as claims_of
from reproduce import paths, sources
from reproduce.catalogue import Figure
from reproduce.notebook import Workbook
from reproduce.shown import results

TIGHT = 0.01
"""How far a bound may lie above the exact value and still count as tight."""

_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


class Shown:
    """Text for a cell's output.

    Args:
        markdown: for a notebook that renders it.
        plain: for a terminal.
    """

    def __init__(self, markdown: str, plain: str) -> None:
        self._markdown, self._plain = markdown, plain

    def _repr_markdown_(self) -> str:
        return self._markdown

    def __repr__(self) -> str:
        return self._plain


def bounded(stated_over_exact: ArrayLike) -> str:
    """The verdict on a stated upper bound: false below the exact value, loose above `TIGHT`, else holds.

    Args:
        stated_over_exact: the bound over what it bounds, > 0, any shape.
    """
    ratio = np.asarray(stated_over_exact, dtype=float)
    if not ratio.min() >= 1 - 1e-9:
        return "false"
    return "loose" if ratio.max() > 1 + TIGHT else "holds"


def box(book: Workbook, *claims: str) -> Shown:
    """The verdict box of a section: what its cell has decided, one paragraph for each claim.

    Args:
        book: of the notebook.
        claims: ids of claims; those that changed parameters leave out show as not decided.
    """
    found = {claim: book.decision(claim) for claim in claims}
    boxes, lines = [], []
    for claim, row in found.items():
        if not row:
            row = {"verdict": "not decided", "ours": "-", "reason": ""}
        label = "True instead" if row["verdict"] in claims_of.NEED_CORRECTION else "Note"
        note = f" *{label}:* {_plain(row['reason'])}." if row["reason"] else ""
        boxes.append(f"> **{claim}: {row['verdict']}.** {_plain(row['ours'])}.{note}")
        lines.append(f"{claim}: {row['verdict']}. {row['ours']}.")
        lines += [f"  {label}: {row['reason']}."] if row["reason"] else []
    return Shown("\n>\n".join(boxes), "\n".join(lines))


def opening(book: Workbook) -> Shown:
    """All verdicts of the last run, each with a link to the section that argues for it."""
    entry = book.entry
    stored = results(entry, paths.ROOT / "figures").get("quick", {"claims": []})
    rows = {row["id"]: row for row in stored["claims"]}
    sections = dict(_sections(entry))
    head = ["| claim | place in the paper | what is claimed | verdict |", "|---|---|---|---|"]
    table, lines = [], []
    for claim in entry.claims:
        row = rows.get(claim.id, {"verdict": "-", "cell": ""})
        heading = sections.get(row["cell"], "")
        name = f"[{claim.id}](#{heading.replace(' ', '-')})" if heading else claim.id
        statement = _plain(" ".join(claim.statement.split()))
        table.append(f"| {name} | {_plain(claim.where)} | {statement} | **{row['verdict']}** |")
        lines.append(f"{claim.id}: {row['verdict']}")
    return Shown("\n".join([*head, *table]), "\n".join(lines))


def _sections(entry: Figure) -> Iterator[tuple[str, str]]:
    """Id of a cell and the last heading above it."""
    heading = ""
    for cell in sources.read(entry.notebook).get("cells", []):
        if cell["cell_type"] == "markdown":
            found = _HEADING.findall(sources.text(cell))
            heading = found[-1] if found else heading
        yield cell["id"], heading


def _plain(text: str) -> str:
    """Text whose signs Markdown leaves alone."""
    return re.sub(r"([*_|<$])", r"\\\1", text).rstrip(".")
