"""The claims ledger: `python -m reproduce.ledger` writes claims.json and CLAIMS.md to `figures/`.

Every claim of the catalogue is a row. What a notebook decided is read from its json; a claim whose
notebook has no finished result is "not yet". The result depends on nothing but the catalogue, the
committed notebooks and those files, so that the same inputs give the same ledger. Nothing that git
ignores enters it, and no value is rounded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.atomic import WriteError, write_together
from repro.report.numbers import to_json
from reproduce import catalogue, claims, paths, sources

_LAST = (claims.PENDING, claims.NOT_APPLICABLE)
ORDER = (
    *(v for v in claims.RESULT_VERDICTS + claims.DERIVATION_VERDICTS if v not in _LAST),
    *_LAST,
)
"""The verdicts in the order in which they are counted."""

_KEYS = {"profile", "parameters", "data_source", "claims", "notebook"}
"""What the json of a finished run must hold for the ledger."""


@dataclass(frozen=True)
class Result:
    """What the files of one figure say.

    Attributes:
        entry: the figure in the catalogue.
        record: the content of its json, empty when there is none that can be used.
        rows: one per claim of the catalogue, decided or not.
        stale: why the files do not belong to the notebook and catalogue at hand; empty when they
            do.
    """

    entry: Any
    record: dict[str, Any]
    rows: list[dict[str, Any]]
    stale: list[str]

    def counts(self) -> Counter[str]:
        """How many claims have which verdict."""
        return Counter(row["verdict"] for row in self.rows)


def result(entry: Any) -> Result:
    """Read the files of one figure."""
    path = paths.FIGURES / f"{entry.id}.json"
    missing = ""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not record["complete"]:
            missing = "the notebook stopped before its table"
        elif not _KEYS <= record.keys() or not isinstance(record["claims"], list):
            raise KeyError("not the record of this version")
    except FileNotFoundError:
        record, missing = {}, f"not run: make fig/{entry.id}"
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        record, missing = {}, f"{path.name} cannot be read: make fig/{entry.id} writes it anew"
    if missing:
        record = {}
    decided = {row["id"]: row for row in record.get("claims", [])}
    rows = [_row(entry, claim, decided.get(claim.id), missing) for claim in entry.claims]
    return Result(entry, record, rows, _stale(entry, record) if record else [])


def results() -> list[Result]:
    """Read the files of every figure of the catalogue, in its order."""
    return [result(entry) for entry in catalogue.figures()]


def _row(
    entry: Any, claim: claims.Claim, found: dict[str, Any] | None, missing: str
) -> dict[str, Any]:
    """One row of the ledger; without a decision the verdict is "not yet", with the reason."""
    if found is None:
        reason = missing or "the notebook that made these files did not know this claim"
        found = claims.Decision(claim.id, claims.PENDING, "-", reason).as_json(claim)
    notebook = entry.notebook.relative_to(paths.ROOT).as_posix()
    cell = found["cell"] or _mentions(entry.notebook, claim.id)
    return found | {
        "id": claim.full_id,
        "figure": entry.id,
        "link": f"{notebook}#{cell}" if cell else notebook,
        "cell": cell,
    }


def _mentions(notebook: Path, claim_id: str) -> str:
    """The last code cell that names a claim: it will decide it, while nothing was run."""
    found = ""
    for cell, source in sources.cells(notebook).items():
        if f'"{claim_id}"' in source or f"'{claim_id}'" in source:
            found = cell
    return found


def _stale(entry: Any, record: dict[str, Any]) -> list[str]:
    """Why the files of a figure no longer belong to its notebook and catalogue entry."""
    why = []
    if record.get("notebook") != sources.code_hash(entry.notebook):
        why.append("the notebook's code has changed")
    if record.get("profile") != "quick":
        why.append(f"made with profile {record.get('profile')!r}")
    elif record.get("parameters") != {
        key: value for key, value in entry.parameters("quick").items() if key != "profile"
    }:
        why.append("made with other parameters than the notebook has")
    told = {
        row["id"]: (row["statement"], row["paper"], row["tolerance"]) for row in record["claims"]
    }
    now = {
        claim.id: (claim.statement, claim.paper_text(), claim.tolerance_text())
        for claim in entry.claims
    }
    if told != now:
        why.append("the catalogue's claims have changed")
    digest = record.get("files", {}).get("png")
    if digest is not None:
        picture = paths.FIGURES / f"{entry.id}.png"
        if not picture.is_file():
            why.append("the png is missing")
        elif hashlib.sha256(picture.read_bytes()).hexdigest() != digest:
            why.append("the png is not the one written with the numbers")
    return why


def as_json(found: Sequence[Result]) -> str:
    """The ledger for machines."""
    total: Counter[str] = sum((item.counts() for item in found), Counter())
    value = {
        "counts": {verdict: total[verdict] for verdict in ORDER if total[verdict]},
        "claims": [row for item in found for row in item.rows],
        "stale": {item.entry.id: item.stale for item in found if item.stale},
    }
    return to_json(value)


def as_markdown(found: Sequence[Result]) -> str:
    """The ledger for readers; links are relative to the folder of the figures."""
    lines = ["# Claims", ""]
    lines += [
        "Written by `make ledger`; each verdict links to the notebook cell that decides it.",
        "",
    ]
    lines += _count_table(found)
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


def _count_table(found: Sequence[Result]) -> list[str]:
    """Papers by verdicts."""
    papers: dict[str, Counter[str]] = {}
    for item in found:
        papers.setdefault(item.entry.paper, Counter()).update(item.counts())
    used = [verdict for verdict in ORDER if any(counts[verdict] for counts in papers.values())]
    lines = [f"| paper | claims | {' | '.join(used)} |", f"|---|{'---:|' * (len(used) + 1)}"]
    for paper, counts in papers.items():
        numbers = " | ".join(str(counts[verdict] or "") for verdict in used)
        lines.append(f"| {paper} | {counts.total()} | {numbers} |")
    return [*lines, ""]


def _section(item: Result) -> list[str]:
    """One figure: where it comes from, and its claims."""
    notebook = os.path.relpath(item.entry.notebook, paths.FIGURES).replace(os.sep, "/")
    lines = [f"## {item.entry.id}: {item.entry.title}", ""]
    if item.record:
        remark = f"Profile {item.record['profile']}; data: {item.record['data_source']}"
        if item.record.get("footer"):
            remark += f"; {item.record['footer']}"
        lines += [_cell(remark) + ".", ""]
    if not item.rows:
        return [*lines, "No claims.", ""]
    lines += [
        "| claim | where | paper | ours | tolerance | verdict | reason |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in item.rows:
        link = f"{notebook}#{row['cell']}" if row["cell"] else notebook
        statement = f"{row['id'].rsplit('/', 1)[1]}: {row['statement']}"
        paper = "" if row["paper"] == row["statement"] else row["paper"]
        cells = (statement, row["where"], paper, row["ours"], row["tolerance"])
        verdict = f"[{row['verdict']}]({link})"
        lines.append(f"| {' | '.join(map(_cell, cells))} | {verdict} | {_cell(row['reason'])} |")
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
        files = contents(found)
        stale = [f"{item.entry.id}: {'; '.join(item.stale)}" for item in found if item.stale]
        for line in stale:
            print(f"stale: {line}", file=sys.stderr)
        old = [path for path, text in files.items() if _content(path) != text]
        if options.check:
            for path in old:
                print(f"stale: {path} (make ledger writes it)", file=sys.stderr)
            return 1 if old or stale else 0
        write_together({path: files[path].encode() for path in old})
    except (catalogue.CatalogueError, claims.ClaimError, WriteError) as problem:
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
