"""The generated parts of the README, each between two lines that mark it."""

from __future__ import annotations


class MarkError(ValueError):
    """The text lacks the two lines between which a generated part goes."""


def between(text: str, begin: str, end: str, new: str) -> str:
    """`text` with all that stands between the lines `begin` and `end` replaced by `new`.

    Raises:
        MarkError: one of the lines is not there.
    """
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise MarkError(f"the README must hold the two lines\n{begin}\n{end}")
    return f"{before}{begin}\n\n{new}\n\n{end}{after}"
