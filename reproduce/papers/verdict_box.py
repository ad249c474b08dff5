"""The verdict box at the end of a section of a derivations notebook: id, verdict, evidence, correction."""

from __future__ import annotations

from reproduce.notebook import Workbook

__all__ = ["Box", "box"]


class Box:
    """The verdicts on some claims, one block each, as a notebook shows them."""

    def __init__(self, rows: list[tuple[str, dict[str, str]]]) -> None:
        self._rows = rows

    def _repr_markdown_(self) -> str:
        blocks = []
        for claim, found in self._rows:
            text = f"> **{claim}: {found['verdict']}.** {found['ours']}"
            if found["reason"]:
                text += f"  \n> *Instead:* {found['reason']}"
            blocks.append(text)
        return "\n\n".join(blocks)

    def __repr__(self) -> str:
        lines = []
        for claim, found in self._rows:
            lines += [f"{claim}: {found['verdict']}", f"  {found['ours']}"]
            lines += [f"  instead: {found['reason']}"] if found["reason"] else []
        return "\n".join(lines)


def box(book: Workbook, *claims: str) -> Box:
    """The box of these claims, which the cell has just decided.

    Args:
        book: the notebook's workbook.
        claims: their ids. A claim that a changed parameter leaves open is shown without a verdict.
    """
    nothing = {"verdict": "not decided", "ours": "", "reason": ""}
    return Box([(claim, book.decision(claim) or nothing) for claim in claims])
