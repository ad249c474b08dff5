"""Every checkable statement of a paper, and the claim that decides it: `reproduce/papers/<paper>/statements.toml`.

    [[statement]]
    place = "Section 3, after equation (5)"
    quote = "the paper's own words"
    row = "<paper>/<figure>/<claim>"        # or a list of such ids
    # or, where no claim decides it:
    # reason = "why not"

The file is how a reader sees that nothing of a paper was left out: each of the paper's claims in the catalogue
stands beside at least one statement, and a statement without a claim says why it has none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproduce import catalogue, paths
from reproduce.entries import CatalogueError

FILE = "statements.toml"
"""Its name in the folder of a paper."""

_KEYS = {"place", "quote", "row", "reason"}


class StatementsError(CatalogueError):
    """A file of statements is ill-formed; the message names the file and the entry."""


@dataclass(frozen=True)
class Statement:
    """One statement of a paper that can be checked.

    Attributes:
        place: where it stands.
        quote: the paper's words.
        rows: full ids of the claims that decide it; empty where none does.
        reason: why no claim decides it; "" where one does.
    """

    place: str
    quote: str
    rows: tuple[str, ...] = ()
    reason: str = ""


def path_of(paper: str) -> Path:
    """The file of a paper, which need not be there."""
    return paths.PAPERS / paper / FILE


def read(paper: str) -> list[Statement]:
    """The statements of a paper in the order of its file; [] as long as there is no file.

    Raises:
        StatementsError: the file is no TOML, or an entry is not of the form above.
    """
    path = path_of(paper)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as problem:
        raise StatementsError(f"{path}: {problem}") from None
    entries = table.get("statement")
    if set(table) != {"statement"} or not isinstance(entries, list):
        raise StatementsError(f"{path}: it must hold tables [[statement]] and nothing else")
    return [_statement(f"{path}, statement {n}", entry) for n, entry in enumerate(entries, 1)]


def _statement(where: str, entry: Any) -> Statement:
    """Check one table and make a statement of it."""
    if not isinstance(entry, dict) or not set(entry) <= _KEYS:
        raise StatementsError(f"{where}: the keys must be among {', '.join(sorted(_KEYS))}")
    if ("row" in entry) == ("reason" in entry):
        raise StatementsError(f"{where}: it needs either `row` or `reason`, and not both")
    rows = entry.get("row", [])
    rows = [rows] if isinstance(rows, str) else rows
    texts = [entry.get("place"), entry.get("quote"), entry.get("reason", "-")]
    if not isinstance(rows, list) or ("row" in entry and not rows):
        raise StatementsError(f"{where}: `row` must be the id of a claim, or a list of ids")
    if not all(isinstance(text, str) and text.strip() for text in [*texts, *rows]):
        raise StatementsError(f"{where}: every value must be a text that is not empty")
    return Statement(entry["place"], entry["quote"], tuple(rows), entry.get("reason", ""))


def problems(paper: str) -> list[str]:
    """What in a paper's statements does not fit the catalogue, one line each; [] without a file.

    A claim that the catalogue does not have; a claim of the paper, other than a statement of our own, that
    no statement names; a statement that is there twice.

    Raises:
        StatementsError: the file is ill-formed.
    """
    found = read(paper)
    if not path_of(paper).exists():
        return []
    claims = [claim for entry in catalogue.figures() for claim in entry.claims]
    known = {claim.full_id for claim in claims}
    named = [row for one in found for row in one.rows]
    lines = [f"no claim {row!r}" for row in dict.fromkeys(named) if row not in known]
    lines += [
        f"no statement names the claim {claim.full_id}"
        for claim in claims
        if claim.figure.split("/")[0] == paper and not claim.own and claim.full_id not in named
    ]
    seen = set()
    for one in found:
        key = tuple(" ".join(text.split()).casefold() for text in (one.place, one.quote))
        if key in seen:
            lines.append(f"there twice: {one.place}: {one.quote}")
        seen.add(key)
    return lines


def counts(found: Sequence[Statement]) -> tuple[int, int]:
    """How many statements there are, and how many of them a claim decides."""
    return len(found), sum(bool(one.rows) for one in found)
