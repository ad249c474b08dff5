"""One page a paper: its report, and in it the figures, derivations, certificates and the audit."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from reproduce import catalogue, findings, paths, reports
from reproduce.destination import Destination
from reproduce.results import Result
from reproduce.website import books

BEFORE = "## Artifact appendix"
"""The section of a report before which the parts of this page go."""

THUMBNAILS = "thumbnails"
"""The folder of small pictures among the pages."""


def page(paper: str, report: str, items: Sequence[Result]) -> str:
    """The report of a paper with the parts that only the site has.

    Args:
        paper: its key.
        report: the report as committed.
        items: what the files of the paper's figures say.
    """
    parts = [*_figures(items), *_derivations(paper, items), *_certificates(paper, items)]
    parts += _audit(paper, items)
    head, mark, tail = report.partition(BEFORE)
    return "\n".join([head.rstrip(), "", *parts, f"{mark}{tail}".rstrip(), "", *_contents(paper)])


def picture(item: Result) -> Path | None:
    """The headline picture of a figure; None where there is none."""
    name = Destination(item.entry.id, item.headline or "quick", published=True).name
    path = paths.FIGURES / f"{name}.png"
    return path if path.is_file() else None


def _figures(items: Sequence[Result]) -> list[str]:
    """A card for each figure and table: its picture, its title, its verdicts."""
    lines = ["## Figures", "", "::::{grid} 1 2 2 3", ":gutter: 3", ""]
    for item in items:
        entry, source = item.entry, picture(item)
        if source is None or entry.name == "audit" or entry.name.startswith("derivations"):
            continue
        lines += [f":::{{grid-item-card}} {entry.name}: {findings.plain(entry.title)}"]
        lines += [f":link: /notebooks/{entry.id}", ":link-type: doc"]
        lines += [f":img-bottom: ../../{THUMBNAILS}/{entry.paper}/{source.name}"]
        lines += [f":img-alt: {entry.title}", "", reports.counted(item.rows), "", ":::", ""]
    return [*lines, "::::", ""]


def _derivations(paper: str, items: Sequence[Result]) -> list[str]:
    """The notebooks of derivations, each with the verdicts that it decides."""
    rows = [row for item in items for row in item.rows]
    lines = ["## Derivations", "", "| notebook | verdicts |", "|---|---|"]
    for path in books.of_paper(paper):
        if path.stem.startswith("derivations"):
            source = path.relative_to(paths.ROOT).as_posix()
            own = [row for row in rows if row["link"].partition("#")[0] == source]
            name = findings.plain(books.title(path))
            lines.append(f"| [{name}](../../{source}) | {reports.counted(own)} |")
    return [*lines, ""]


def _certificates(paper: str, items: Sequence[Result]) -> list[str]:
    """The files that refute a claim, each with its claim and what it says."""
    rows = {row["id"]: row for item in items for row in item.rows}
    lines = ["## Certificates", ""]
    lines += [
        "A certificate holds rational numbers that contradict a claim. `make certify` checks all of them with one "
        "program, [certify.py](../../reproduce/certify.py), which uses nothing else of this workbook.",
        "",
        "| certificate | claim | how it contradicts the claim |",
        "|---|---|---|",
    ]
    for path in sorted((paths.FIGURES / paper / "certificates").glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        row = rows.get(told["claim"])
        claim = findings.in_symbols(row["statement"]) if row else f"`{told['claim']}`"
        link = f"{claim} ([{row['verdict']}](../../{row['link']}))" if row else claim
        file = f"[{path.stem}](certificates/{path.name})"
        lines.append(f"| {file} | {link} | {findings.plain(told['says'])} |")
    return [*lines, ""]


def _audit(paper: str, items: Sequence[Result]) -> list[str]:
    """What the attack on the running code found."""
    found = [item for item in items if item.entry.name == "audit"]
    if not found:
        return []
    lines = ["## Audit", ""]
    for item in found:
        source = picture(item)
        lines += [
            f"The attack on the code that trains: [the notebook](../../notebooks/{item.entry.id}.ipynb)."
        ]
        if source is not None:
            small = f"../../{THUMBNAILS}/{paper}/{source.name}"
            lines += [
                "",
                f"[![{item.entry.title}]({small})](../../notebooks/{item.entry.id}.ipynb)",
            ]
        lines += ["", "| statement | found | verdict |", "|---|---|---|"]
        for row in item.rows:
            cells = [findings.in_symbols(row["statement"]), findings.in_symbols(row["ours"])]
            lines.append(f"| {' | '.join(cells)} | [{row['verdict']}](../../{row['link']}) |")
    return [*lines, ""]


def _contents(paper: str) -> list[str]:
    """The hidden list that puts the notebooks below the paper in the side bar."""
    entries = []
    for path in books.of_paper(paper):
        target = os.path.relpath(path.with_suffix(""), paths.FIGURES / paper).replace(os.sep, "/")
        entries.append(f"{path.stem} <{target}>")
    return ["```{toctree}", ":hidden:", "", *entries, "```", ""]


def known() -> list[str]:
    """The papers that have a report."""
    return [name for name in catalogue.papers() if (paths.FIGURES / name / reports.FILE).is_file()]
