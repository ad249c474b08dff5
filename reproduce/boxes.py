"""What a derivations notebook shows of its claims: verdicts beside their tests, and all of them on top.

overview(book)                   the verdicts of the last run, with links to the sections
verdicts(book, "eq-3", "eq-4")   what the cells before have decided
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from reproduce import catalogue, paths, shown, sources
from reproduce.claims import NEED_CORRECTION
from reproduce.notebook import Workbook

__all__ = ["Boxes", "Overview", "overview", "verdicts"]

ONE_LINE = 110
"""Characters of the evidence in the table on top."""


class Boxes:
    """Verdicts with their evidence, one quoted block a claim.

    Args:
        figure: `<paper>/<figure>`, the first part of the full ids.
        found: claim id -> verdict, ours and reason, as `Workbook.decision` gives them.
    """

    def __init__(self, figure: str, found: Mapping[str, Mapping[str, str]]) -> None:
        self._figure, self._found = figure, found

    def _repr_markdown_(self) -> str:
        blocks = []
        for claim, row in self._found.items():
            lines = [f"> **{self._figure}/{claim}: {row['verdict']}.** {_plain(row['ours'])}"]
            if row["reason"]:
                lines.append(f">\n> *{_label(row)}:* {_plain(row['reason'])}")
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)

    def __repr__(self) -> str:
        lines = []
        for claim, row in self._found.items():
            lines.append(f"{self._figure}/{claim}: {row['verdict']}. {row['ours']}")
            lines += [f"  {_label(row)}: {row['reason']}"] if row["reason"] else []
        return "\n".join(lines)


class Overview:
    """A table of claims with their verdicts, one line of evidence and a link to the section.

    Args:
        rows: (claim, statement, verdict, evidence, link) each; the link is "#…", "<notebook>#…" or "".
    """

    def __init__(self, rows: Sequence[tuple[str, str, str, str, str]]) -> None:
        self._rows = rows

    def _repr_markdown_(self) -> str:
        lines = ["| claim | verdict | evidence |", "|---|---|---|"]
        for claim, statement, verdict, evidence, link in self._rows:
            name = f"[{claim}]({link})" if link else claim
            cells = (f"{name}: {_plain(statement)}", verdict, _plain(_short(evidence)))
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return "\n".join(f"{claim}: {verdict}" for claim, _, verdict, *_ in self._rows)


def verdicts(book: Workbook, *claims: str) -> Boxes:
    """The boxes of claims that cells so far have decided; those still open are left out."""
    found = {claim: book.decision(claim) for claim in claims}
    return Boxes(book.entry.whole, {claim: row for claim, row in found.items() if row})


def overview(book: Workbook) -> Overview:
    """All claims of a notebook with the verdicts of the last finished run, and their sections.

    In the first notebook of several that belong together the claims of all of them.
    """
    rows = []
    for entry in catalogue.parts(book.entry) or [book.entry]:
        record = shown.results(entry, paths.ROOT / "figures").get("quick", {"claims": []})
        decided = {row["id"]: row for row in record["claims"]}
        file = "" if entry == book.entry else entry.notebook.name
        for claim in entry.claims:
            row = decided.get(claim.id, {"verdict": "-", "ours": "", "cell": ""})
            link = file + sources.link(entry.notebook, row["cell"])
            rows.append((claim.id, claim.statement, row["verdict"], row["ours"], link))
    return Overview(rows)


def _label(row: Mapping[str, str]) -> str:
    """What the reason of a verdict is called: the true form of a refuted statement, or a remark."""
    return "Instead" if row["verdict"] in (*NEED_CORRECTION, "differs") else "Note"


def _plain(text: str) -> str:
    """Text in which no character is taken for a formula or an emphasis."""
    return re.sub(r"([*_$<|\\`])", r"\\\1", " ".join(text.split()))


def _short(text: str) -> str:
    """The beginning of a text, cut at a word."""
    line = " ".join(text.split())
    return line if len(line) <= ONE_LINE else line[:ONE_LINE].rsplit(" ", 1)[0] + " …"
