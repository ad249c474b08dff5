"""What the derivations notebook prints: its contents with the verdicts, and a verdict box a claim."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reproduce import paths, shown, sources
from reproduce.catalogue import Figure
from reproduce.verdicts import Verdicts

__all__ = ["Page", "boxes", "contents"]

_DECIDES = re.compile(r'book\.(?:check|derivation|number|statement)\(\s*"([^"]+)"')


class Page:
    """A text in markdown that a cell shows."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_markdown_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return re.sub(r"^> ", "", self._text, flags=re.M).replace("**", "")


def boxes(book: Verdicts, *claims: str) -> Page:
    """The verdict boxes of these claims: id, verdict, evidence, and the correct form where there is one.

    Args:
        book: the notebook's workbook.
        claims: ids of claims that are decided.
    """
    texts = []
    for claim in claims:
        found = book.decision(claim)
        text = f"> **{book.id}/{claim}: {found['verdict']}.** {_sentence(found['ours'])}"
        if found["reason"]:
            text += f"  \n> *Instead:* {_sentence(found['reason'])}"
        texts.append(text)
    return Page("\n\n".join(texts))


def contents(entry: Figure) -> Page:
    """One row a claim: its section (a link), the verdict of the last run, the statement in one line.

    Args:
        entry: the figure whose notebook has headings and decides the claims.
    """
    found = shown.results(entry, paths.ROOT / "figures")
    verdicts = {row["id"]: row["verdict"] for record in found.values() for row in record["claims"]}
    statements = {claim.id: claim.statement for claim in entry.claims}
    lines = ["| section | claim | verdict | statement |", "|---|---|---|---|"]
    for heading, claims in _headings(entry):
        link = f"[{heading}](#{heading.replace(' ', '-')})"
        for claim in claims:
            said = " ".join(statements[claim].split()).replace("|", "\\|")
            lines.append(f"| {link} | {claim} | {verdicts.get(claim, '-')} | {said} |")
            link = ""
    return Page("\n".join(lines))


def _headings(entry: Figure) -> Iterable[tuple[str, list[str]]]:
    """The headings of a notebook, each with the claims that the cells below it decide."""
    heading, claims = "", []
    for cell in sources.read(entry.notebook).get("cells", []):
        text = sources.text(cell)
        if cell["cell_type"] == "code":
            claims += _DECIDES.findall(text)
        elif titles := re.findall(r"^#+ (.+)$", text, flags=re.M):
            if claims:
                yield heading, claims
            heading, claims = titles[-1], []
    if claims:
        yield heading, claims


def _sentence(text: str) -> str:
    """The text with a full stop at its end."""
    text = text.strip()
    return text if text.endswith(".") else f"{text}."
