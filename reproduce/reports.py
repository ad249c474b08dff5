"""One report a paper, `figures/<paper>/REPORT.md`, the README's opening, the page of audits: `make ledger` writes them.

A report has the form of a reproduction report in ReScience. Its text is written by hand (`findings`), its
numbers and verdicts are the ledger's, each with a link to its section of the notebook, and an artifact appendix
follows (`appendix`). The title says "[Re]" where every central claim of the paper stands, and "[¬Re]" where one
falls. All of it is a function of catalogue, ledger, findings and `costs.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reproduce import (
    appendix,
    audited,
    catalogue,
    claims,
    codecheck,
    findings,
    paths,
    results,
    statements,
)
from reproduce.destination import Destination
from reproduce.findings import Filling, Findings
from reproduce.marked import MarkError, between
from reproduce.results import Result

FILE = "REPORT.md"
"""The name of a report in the folder of the paper's figures."""

BEGIN = "<!-- findings: begin (written by `make ledger`; edits are lost) -->"
END = "<!-- findings: end -->"

STANDS = (claims.REPRODUCED, "holds", "loose", "misprint")
"""Verdicts with which a central claim stands, if only in its correct form."""

FALLS = (claims.DIFFERS, "false")
"""Verdicts with which it falls."""

_MARKS = {"stands": "Re", "falls": "¬Re", "open": "Re, open"}


def contents(found: Sequence[Result]) -> tuple[dict[Path, str], list[str]]:
    """What the files must hold, and what in the findings does not fit the ledger.

    Raises:
        findings.FindingsError: a file of findings is ill-formed.
    """
    filling = Filling({row["id"]: row for item in found for row in item.rows})
    papers: dict[str, list[Result]] = {}
    for item in found:
        papers.setdefault(item.entry.paper, []).append(item)
    written = {paper: findings.read(paper) for paper in papers}
    files = {
        paths.FIGURES / paper / FILE: _report(paper, items, written[paper], filling)
        for paper, items in papers.items()
    }
    titles = {paper: _title(paper, written[paper], filling.rows) for paper in papers}
    files[audited.place()] = audited.page(found)
    files[paths.ROOT / codecheck.FILE] = codecheck.text(papers, titles)
    readme = paths.ROOT / "README.md"
    try:
        text = readme.read_text(encoding="utf-8")
        files[readme] = between(text, BEGIN, END, _opening(papers, written, filling))
    except (OSError, MarkError):
        pass  # a README without the two lines has no opening
    return files, filling.problems


# Report -------------------------------------------------------------------------------------------


def _title(paper: str, found: Findings | None, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The paper's title with the mark that the verdicts on its central claims give."""
    return f"[{_MARKS[_standing(found, rows)]}] {catalogue.paper_title(paper)}"


def _standing(found: Findings | None, rows: Mapping[str, Mapping[str, Any]]) -> str:
    told = [rows[name]["verdict"] for name in findings.central(found, rows)] if found else []
    if any(verdict in FALLS for verdict in told):
        return "falls"
    return "stands" if told and all(verdict in STANDS for verdict in told) else "open"


def _report(paper: str, items: Sequence[Result], found: Findings | None, filling: Filling) -> str:
    lines = [f"# {_title(paper, found, filling.rows)}", ""]
    lines += [
        "Written by `make ledger` from the catalogue, the ledger and "
        f"`reproduce/papers/{paper}/{findings.FILE}`. Every number and every verdict links to the notebook "
        "section whose cell decides it; `make claim ID=…` decides one anew. A verdict in brackets is the one on the "
        "paper's statement.",
        "",
    ]
    if found is not None:
        lines += [
            f"*Original:* {', '.join(found.authors)} ({found.year}), <{found.reference}>.",
            "",
        ]
        lines += _central(found, filling)
        for title, text in found.sections.items():
            origin = f"{findings.path_of(paper).relative_to(paths.ROOT).as_posix()}, {title}"
            lines += [f"## {title}", "", filling.fill(text, "../../", origin), ""]
    else:
        lines += ["No findings are written yet.", ""]
    lines += _methods(paper, items) + _verdicts(items)
    lines += appendix.lines(paper, items)
    return "\n".join(lines).rstrip() + "\n"


def _central(found: Findings, filling: Filling) -> list[str]:
    """The claims that give the title its mark."""
    names = findings.central(found, filling.rows)
    lacking = len(found.central) - len(names)
    if lacking:
        filling.problems.append(
            f"{found.paper}: {lacking} of the central claims are not in the ledger"
        )
    lines = ["| central claim | where | verdict |", "|---|---|---|"]
    for name in names:
        row = filling.rows[name]
        cells = [findings.in_symbols(row["statement"]), findings.plain(row["where"])]
        lines.append(f"| {' | '.join(cells)} | {filling.verdict(name, '../../')} |")
    return [
        *lines,
        "",
        "The title says [Re] if all of them stand (if only in a corrected form), [¬Re] if one falls.",
        "",
    ]


def _methods(paper: str, items: Sequence[Result]) -> list[str]:
    """How the claims were decided, in numbers."""
    rows = [row for item in items for row in item.rows]
    means = {name: sum(row["by"] == name for row in rows) for name in claims.MEANS}
    profiles = sorted({p for item in items for p in item.records}, key=catalogue.PROFILES.index)
    every, judged = statements.counts(statements.read(paper))
    listed = (
        f" {every} statements of the paper can be checked; claims decide {judged} of them, and "
        f"reproduce/papers/{paper}/{statements.FILE} gives the reason for each of the others."
    )
    return [
        "## Method",
        "",
        f"{len(rows)} claims in {len(items)} notebooks: {means['formula']} are decided by evaluating formulas, "
        f"{means['run']} by training runs, {means['measurement']} by measured times. Tolerances, margins "
        "and conditions stand in the catalogue before the runs. Statistics follow one rule: paired differences over "
        "seeds, t intervals at 95 %, Holm over the orders of a figure, at least 5 seeds. Intervals in rows of the "
        "ledger are widened for the number of orders; those drawn in pictures are not. "
        f"Profiles with results: {', '.join(profiles) or 'none'}. "
        f"Communication with the authors: none is recorded in this repository.{listed if every else ''}",
        "",
    ]


def _verdicts(items: Sequence[Result]) -> list[str]:
    """Figures by verdicts; the paper's claims, and apart from them our own statements."""
    lines = [
        "## Verdicts",
        "",
        "| figure | the paper's claims | statements of ours |",
        "|---|---|---|",
    ]
    for item in items:
        link = f"../../{item.entry.notebook.relative_to(paths.ROOT).as_posix()}"
        told = [counted([r for r in item.rows if bool(r["own"]) == own]) for own in (False, True)]
        title = findings.plain(item.entry.title)
        lines.append(f"| [{item.entry.name}]({link}): {title} | {told[0]} | {told[1]} |")
    return [*lines, "", "All claims with their reasons: [the ledger](../CLAIMS.md).", ""]


def counted(rows: Sequence[Mapping[str, Any]]) -> str:
    """Such as "3 reproduced, 1 differs"; "-" for no rows."""
    told = [row["verdict"] for row in rows]
    return ", ".join(f"{told.count(word)} {word}" for word in results.ORDER if word in told) or "-"


# README -------------------------------------------------------------------------------------------


def _opening(
    papers: Mapping[str, Sequence[Result]],
    written: Mapping[str, Findings | None],
    filling: Filling,
) -> str:
    """One short paragraph a paper, each with the picture that carries the finding."""
    blocks = []
    for paper, items in papers.items():
        found = written[paper]
        if found is None:
            continue
        origin = f"{findings.path_of(paper).relative_to(paths.ROOT).as_posix()}, In short"
        title = _title(paper, found, filling.rows).replace("[", "\\[").replace("]", "\\]")
        rows = [row for item in items for row in item.rows if not row["own"]]
        tail = (
            f"The paper's claims: {counted(rows)}. [Report](figures/{paper}/{FILE}), "
            f"[figures](#gallery-{paper})."
        )
        text = filling.fill(found.sections["In short"], "", origin)
        blocks.append(f"### {paper}: {title}\n\n{text}\n\n{tail}\n\n{_picture(found, items)}")
    return "\n\n".join(blocks)


def _picture(found: Findings, items: Sequence[Result]) -> str:
    """The headline picture of the figure that carries the finding, with a link to its notebook."""
    item = next((one for one in items if one.entry.name == found.picture), None)
    if item is None:
        raise findings.FindingsError(
            f"{findings.path_of(found.paper)}: no figure {found.picture!r} (`picture`)"
        )
    name = Destination(item.entry.id, item.headline or "quick", published=True).name
    notebook = item.entry.notebook.relative_to(paths.ROOT).as_posix()
    image = f'<img src="figures/{name}.png" width="560" alt="{item.entry.title}">'
    return f'<a href="{notebook}">{image}</a>'
