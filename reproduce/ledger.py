"""The claims ledger: `python -m reproduce.ledger` writes claims.json and CLAIMS.md to `figures/`.

Every claim of the catalogue is a row (`results`). The result depends on nothing but the catalogue, the
committed notebooks and their json files, so that the same inputs give the same ledger. The reports on the
papers (`reports`), which quote the ledger, are written with it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from repro.atomic import WriteError, write_together
from repro.report.numbers import to_json
from reproduce import catalogue, claims, paths, reports, statements
from reproduce.findings import FindingsError
from reproduce.notation import symbols
from reproduce.results import ORDER, Result, results


def as_json(found: Sequence[Result]) -> str:
    """The ledger for machines."""
    total: Counter[str] = sum((item.counts() for item in found), Counter())
    value = {
        "counts": {verdict: total[verdict] for verdict in ORDER if total[verdict]},
        "headlines": {item.entry.id: item.headline for item in found if item.headline},
        "claims": [row for item in found for row in item.rows],
        "stale": {item.entry.id: item.stale for item in found if item.stale},
    }
    return to_json(value)


def as_markdown(found: Sequence[Result]) -> str:
    """The ledger for readers; links are relative to the folder of the figures."""
    lines = ["# Claims", ""]
    lines += [
        "Written by `make ledger`. Each verdict links to the notebook section whose cell decides it, and counts "
        "in the highest profile whose runs can test the claim; the column `profiles` shows all of them. "
        "Statements of our own are counted apart from the paper's.",
        "",
    ]
    lines += _count_table(found, own=False) + _count_table(found, own=True) + _means_table(found)
    lines += _statements_table(found)
    stale = [item for item in found if item.stale]
    if stale:
        lines += [
            "## Stale",
            "",
            "These files are older than what they are made from; run `make all`.",
            "",
        ]
        lines += [f"* {item.entry.id}: {'; '.join(item.stale)}" for item in stale] + [""]
    for item in found:
        lines += _section(item)
    return "\n".join(lines).rstrip() + "\n"


def _count_table(found: Sequence[Result], *, own: bool) -> list[str]:
    """Papers by verdicts, of the paper's claims or of our own statements."""
    papers: dict[str, Counter[str]] = {}
    for item in found:
        counts = Counter(row["verdict"] for row in item.rows if bool(row["own"]) == own)
        papers.setdefault(item.entry.paper, Counter()).update(counts)
    papers = {paper: counts for paper, counts in papers.items() if counts}
    if not papers:
        return []
    used = [verdict for verdict in ORDER if any(counts[verdict] for counts in papers.values())]
    head = "statements of ours" if own else "the paper's claims"
    lines = [f"| {head} | all | {' | '.join(used)} |", f"|---|{'---:|' * (len(used) + 1)}"]
    for paper, counts in papers.items():
        numbers = " | ".join(str(counts[verdict] or "") for verdict in used)
        lines.append(f"| {paper} | {counts.total()} | {numbers} |")
    return [*lines, ""]


def _means_table(found: Sequence[Result]) -> list[str]:
    """Papers by what decides their claims: a formula, runs, or measured times."""
    papers: dict[str, Counter[str]] = {}
    for item in found:
        counts = Counter(row["by"] for row in item.rows)
        shared = sum(bool(row["evidence"]) for row in item.rows)
        papers.setdefault(item.entry.paper, Counter()).update(counts + Counter(shared=shared))
    lines = [
        "| decided by | evaluating a formula | training runs | measured times | share the evidence of "
        "another claim |",
        "|---|---:|---:|---:|---:|",
    ]
    for paper, counts in papers.items():
        numbers = " | ".join(str(counts[key] or "") for key in (*claims.MEANS, "shared"))
        lines.append(f"| {paper} | {numbers} |")
    return [*lines, ""]


def _statements_table(found: Sequence[Result]) -> list[str]:
    """The papers whose statements are listed: how many there are, and how many a claim decides."""
    papers = dict.fromkeys(item.entry.paper for item in found)
    listed = {paper: told for paper in papers if (told := statements.read(paper))}
    if not listed:
        return []
    lines = [
        "| statements that can be checked | all | decided by a claim | with the reason why by none |",
        "|---|---:|---:|---:|",
    ]
    for paper, told in listed.items():
        every, judged = statements.counts(told)
        lines.append(f"| {paper} | {every} | {judged} | {every - judged} |")
    return [*lines, ""]


def _section(item: Result) -> list[str]:
    """One figure: where it comes from, its conditions, and its claims."""
    notebook = os.path.relpath(item.entry.notebook, paths.FIGURES).replace(os.sep, "/")
    path = item.entry.notebook.relative_to(paths.ROOT).as_posix()
    lines = [f"## {item.entry.id}: {item.entry.title}", ""]
    for profile, record in item.records.items():
        remark = f"Profile {profile}; data: {record['data_source']}"
        if record.get("footer"):
            remark += f"; {record['footer']}"
        lines += [_cell(symbols(remark)) + ".", ""]
        for condition in record.get("conditions", []):
            met = "met" if condition["holds"] else "not met"
            text = f"{condition['statement']}: {met} ({condition['evidence']})"
            lines.append(f"* {_cell(symbols(text))}")
        if record.get("conditions"):
            lines.append("")
    if not item.rows:
        return [*lines, "No claims.", ""]
    lines += [
        "| claim | where | paper | ours | tolerance | verdict | profiles | reason |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in item.rows:
        link = notebook + row["link"].removeprefix(path)
        statement = f"{row['id'].rsplit('/', 1)[1]}: {symbols(row['statement'])}"
        if row["own"]:
            statement += " (ours)"
        if row["evidence"]:
            statement += f" (same evidence as {row['evidence']})"
        paper = "" if row["paper"] == row["statement"] else symbols(row["paper"])
        paper = " ".join(filter(None, [paper, f"“{row['quote']}”" if row["quote"] else ""]))
        ours, tolerance, reason = (symbols(row[key]) for key in ("ours", "tolerance", "reason"))
        cells = (statement, row["where"], paper, ours, tolerance)
        verdict = f"[{row['verdict']}]({link})"
        profiles = ", ".join(f"{profile}: {told}" for profile, told in row["verdicts"].items())
        lines.append(
            f"| {' | '.join(map(_cell, cells))} | {verdict} | {profiles} | {_cell(reason)} |"
        )
    return [*lines, ""]


def _cell(text: str) -> str:
    """A text that stays inside its table cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def contents(found: Sequence[Result]) -> dict[Path, str]:
    """The two files of the ledger and what they must hold."""
    return {
        paths.FIGURES / "CLAIMS.md": as_markdown(found),
        paths.FIGURES / "claims.json": as_json(found),
    }


def summary(found: Sequence[Result]) -> str:
    """One line: how many claims have which verdict."""
    total: Counter[str] = sum((item.counts() for item in found), Counter())
    parts = [f"{total[verdict]} {verdict}" for verdict in ORDER if total[verdict]]
    return f"{total.total()} claims: {', '.join(parts) or 'none'}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: write the ledger (exit 1 when impossible), or `--check` that all is fresh."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce.ledger", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail when the ledger is stale"
    )
    options = parser.parse_args(arguments)
    try:
        found = results()
        reported, unfit = reports.contents(found)
        files = contents(found) | reported
        stale = [f"{item.entry.id}: {'; '.join(item.stale)}" for item in found if item.stale]
        for line in stale + unfit:
            print(f"stale: {line}", file=sys.stderr)
        old = [path for path, text in files.items() if _content(path) != text]
        if options.check:
            for path in old:
                print(f"stale: {path} (make ledger writes it)", file=sys.stderr)
            return 1 if old or stale or unfit else 0
        write_together({path: files[path].encode() for path in old})
    except (catalogue.CatalogueError, claims.ClaimError, FindingsError, WriteError) as problem:
        print(f"ledger: {problem}", file=sys.stderr)
        return 1
    print(summary(found))
    print(f"ledger: {', '.join(map(str, old)) + ' written' if old else 'up to date'}")
    return 0


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main())
