"""What a notebook shows of its verdicts: the headline, the story below the picture, the table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from reproduce import catalogue, claims, paths, state
from reproduce.catalogue import Figure
from reproduce.destination import Destination


class ClaimTable(pd.DataFrame):
    """The verdicts of one notebook; a data frame that prints every row in full."""

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th style="text-align:left">{escape(str(name))}</th>' for name in self.columns
        )
        rows = (
            "".join(f'<td style="text-align:left">{escape(str(cell))}</td>' for cell in row)
            for row in self.itertuples(index=False)
        )
        body = "\n".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table>\n<tr>{head}</tr>\n{body}\n</table>"

    def __repr__(self) -> str:
        blocks = []
        for row in self.to_dict("records"):
            blocks.append(f"{row.pop('claim')}: {row.pop('verdict')}")
            blocks += [f"  {name}: {cell}" for name, cell in row.items() if cell]
        return "\n".join(blocks)


class Story:
    """The three sentences below a picture: what is claimed, what we found, and why."""

    def __init__(self, told: Mapping[str, str]) -> None:
        self._told = dict(told)

    def _repr_markdown_(self) -> str:
        return "  \n".join(f"*{name.capitalize()}:* {text}" for name, text in self._told.items())

    def __repr__(self) -> str:
        return "\n".join(f"{name.capitalize()}: {text}" for name, text in self._told.items())


class Headline:
    """A picture, by its link, with one line for each verdict."""

    def __init__(self, picture: str, title: str, rows: list[tuple[str, str, str]]) -> None:
        self._picture, self._title, self._rows = picture, title, rows

    def _repr_markdown_(self) -> str:
        lines = [f"![{self._title}]({self._picture})", "", f"**{self._title}**", ""]
        lines += ["| claim | verdict | evidence |", "|---|---|---|"]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in self._rows)])

    def __repr__(self) -> str:
        rows = [f"{claim}: {verdict} ({profile})" for claim, verdict, profile in self._rows]
        return "\n".join([self._title, *rows])


def results(entry: Figure, folder: Path) -> dict[str, dict[str, Any]]:
    """The finished results of a figure: profile -> the content of its json, lowest profile first.

    Those of the quick profile, and of each profile of which runs are published, in `folder`.
    """
    found = {}
    for profile in ("quick", *catalogue.published(entry)):
        record = state.read_object(folder / f"{_name(entry, profile)}.json")
        if record.get("complete") and record.get("profile") == profile:
            found[profile] = record
    return found


def deciding(found: Mapping[str, Mapping[str, Any]], claim_id: str) -> str:
    """The profile whose verdict on a claim counts: the highest that tests it.

    Where none does, the highest that has runs for it, then the highest with a verdict at all; "" where there is none.
    """
    rows = {
        profile: row["verdict"]
        for profile, record in found.items()
        for row in record["claims"]
        if row["id"] == claim_id
    }
    tested = [p for p, verdict in rows.items() if verdict not in (claims.NOT_TESTED, *claims.OPEN)]
    run = [p for p, verdict in rows.items() if verdict != claims.PENDING]
    return (tested or run or [*rows] or [""])[-1]


def headline_profile(entry: Figure, found: Mapping[str, Mapping[str, Any]]) -> str:
    """The profile whose picture is shown first: the highest that decides any claim.

    Where none does, the highest there is.
    """
    used = {deciding(found, claim.id) for claim in entry.claims}
    decided = [
        profile
        for profile, record in found.items()
        if profile in used
        and any(row["verdict"] not in (claims.NOT_TESTED, *claims.OPEN) for row in record["claims"])
    ]
    return (decided or [*found] or [""])[-1]


def headline(entry: Figure) -> Headline:
    """The headline of a figure, from the files that are there."""
    folder = paths.ROOT / "figures"  # also where a replay writes elsewhere
    found = results(entry, folder)
    profile = headline_profile(entry, found)
    if not profile:
        return Headline("", f"{entry.title}: no finished run yet", [])
    picture = folder / f"{_name(entry, profile)}.png"
    link = os.path.relpath(picture, entry.notebook.parent).replace(os.sep, "/")
    rows = []
    for claim in entry.claims:
        used = deciding(found, claim.id)
        row = (
            next((r for r in found[used]["claims"] if r["id"] == claim.id), None) if used else None
        )
        statement = " ".join(claim.statement.split()).replace("|", "\\|")
        rows.append((f"{claim.id}: {statement}", row["verdict"] if row else "-", used))
    return Headline(link, f"{entry.title} (profile {profile})", rows)


def _name(entry: Figure, profile: str) -> str:
    return Destination(entry.id, profile, published=True).name
