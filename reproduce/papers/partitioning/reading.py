"""What the reader of the derivations sees besides numbers: the table of verdicts, and verdict boxes."""

from __future__ import annotations

from collections.abc import Sequence

from reproduce import paths
from reproduce.notebook import Workbook
from reproduce.shown import results

__all__ = ["Lines", "boxes", "contents"]


class Lines:
    """Markdown for a notebook, with the same lines as plain text elsewhere."""

    def __init__(self, markdown: Sequence[str], plain: Sequence[str]) -> None:
        self._markdown, self._plain = list(markdown), list(plain)

    def _repr_markdown_(self) -> str:
        return "\n".join(self._markdown)

    def __repr__(self) -> str:
        return "\n".join(self._plain)


def boxes(book: Workbook, *claims: str) -> Lines:
    """One box for each claim that a cell has decided: id, verdict, evidence, and what is true instead.

    Args:
        book: the notebook's workbook.
        claims: ids of decided claims.

    Raises:
        KeyError: a claim has no decision yet.
    """
    markdown, plain = [], []
    for claim in claims:
        found = book.decision(claim)
        name = f"{book.id}/{claim}"
        evidence, instead = (_escaped(found[key]) for key in ("ours", "reason"))
        markdown += [f"> **{name}: {found['verdict']}.** {evidence}"]
        markdown += [">", f"> *Instead:* {instead}"] if instead else []
        markdown += [""]
        plain.append(f"{name}: {found['verdict']}")
    return Lines(markdown, plain)


def contents(book: Workbook) -> Lines:
    """The verdicts of the last run, one line a claim, each with a link to its section.

    A section begins with the anchor `<a id="CLAIM"></a>` of every claim that it decides.
    """
    record = results(book.entry, paths.ROOT / "figures").get("quick", {"claims": []})
    verdicts = {row["id"]: row["verdict"] for row in record["claims"]}
    markdown = ["| claim | place | statement | verdict |", "|---|---|---|---|"]
    plain = []
    for claim in book.entry.claims:
        verdict = verdicts.get(claim.id, "-")
        who = " (ours)" if claim.own else ""
        cells = (_escaped(claim.where), _escaped(claim.statement) + who, f"**{verdict}**")
        markdown.append(f"| [{claim.id}](#{claim.id}) | {' | '.join(cells)} |")
        plain.append(f"{claim.id}: {verdict}")
    return Lines(markdown, plain)


def _escaped(text: str) -> str:
    """A text that markdown shows as it stands."""
    for sign in ("\\", "|", "*", "_", "<", "$"):
        text = text.replace(sign, f"\\{sign}")
    return text
