"""Decide one claim anew: `python -m reproduce.claim <paper>/<figure>/<claim>`.

The statements that decide the claim run in a fresh kernel, with those that they depend on (`slices`) and
nothing else: no picture is drawn and no file of the project is written. The profile is the one whose
verdict counts in the ledger. Where that is one with published runs, their records are opened
and nothing is computed.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproduce import catalogue, paths, records, results, slices, sources
from reproduce.catalogue import Figure
from reproduce.claims import Claim
from reproduce.machine import python_path, scratch_environment

MARK = "decided claim: "
"""What the line with the outcome begins with in the output of the kernel."""


class DecisionError(Exception):
    """The claim could not be decided; the message is one line."""


@dataclass(frozen=True)
class Outcome:
    """What one run decided.

    Attributes:
        row: verdict, ours and reason.
        statements: how many statements of the notebook were executed, and how many it has.
        cells: the same of code cells.
        seconds: from the start of the kernel to its end.
    """

    row: dict[str, Any]
    statements: tuple[int, int]
    cells: tuple[int, int]
    seconds: float


def find(claim_id: str) -> tuple[Figure, Claim]:
    """The figure and the claim of a full id.

    Raises:
        DecisionError: there is no such claim; the message gives those with similar names.
    """
    known = {
        claim.full_id: (entry, claim) for entry in catalogue.figures() for claim in entry.claims
    }
    if claim_id in known:
        return known[claim_id]
    last = claim_id.rsplit("/", 1)[-1]
    near = difflib.get_close_matches(claim_id, known, n=5, cutoff=0.6)
    near += [name for name in known if last and last in name and name not in near]
    told = f"did you mean {', '.join(near[:5])}?" if near else "figures/CLAIMS.md lists them all"
    raise DecisionError(f"no claim {claim_id!r}: an id is <paper>/<figure>/<claim>; {told}")


def decide(entry: Figure, claim: Claim, profile: str, cell: str = "") -> Outcome:
    """Run what decides a claim in a fresh kernel; the whole notebook where the slice is not enough.

    Args:
        entry: the figure.
        claim: the claim.
        profile: the parameter set.
        cell: the id of its deciding cell, where it is known.

    Raises:
        DecisionError: the notebook cannot be read, or a cell fails.
    """
    cells = sources.cells(entry.notebook)
    if not cells:
        raise DecisionError(sources.problem(entry.notebook) or f"{entry.notebook} has no code")
    first = parameters_cell(entry.notebook)
    try:
        found = slices.statements(cells)
    except SyntaxError as problem:
        raise DecisionError(f"{entry.notebook}: {problem}") from None
    wanted = slices.deciding(found, claim.id, cell, claim.needs)
    places = slices.backwards(found, wanted) if wanted else []
    start = time.monotonic()
    row: dict[str, Any] = {}
    if places:
        code = {first: cells[first]} | slices.sources(found, places)
        with_parameters = _with_parameters(entry, profile, code, first)
        row = _run(entry, claim, profile, with_parameters, strict=False)
    if not row:  # the slice lacks something: everything, then, in order
        code, places = cells, list(range(len(found)))
        row = _run(
            entry, claim, profile, _with_parameters(entry, profile, code, first), strict=True
        )
    seconds = time.monotonic() - start
    return Outcome(row, (len(places), len(found)), (len(code), len(cells)), seconds)


def parameters_cell(notebook: Path) -> str:
    """The id of the cell tagged parameters.

    Raises:
        DecisionError: the notebook has none.
    """
    for one in sources.read(notebook).get("cells", []):
        if "parameters" in one.get("metadata", {}).get("tags", []):
            return str(one["id"])
    raise DecisionError(f"{notebook} has no cell tagged parameters")


def _with_parameters(entry: Figure, profile: str, code: Mapping[str, str], first: str) -> list[str]:
    """The cells in order, with the profile's parameters below the parameters cell."""
    values = "\n".join(f"{name} = {value!r}" for name, value in entry.parameters(profile).items())
    found = []
    for cell, source in code.items():
        found.append(source)
        if cell == first:
            found.append(f"{values}\nprofile = {profile!r}")
    return found


def _run(
    entry: Figure, claim: Claim, profile: str, code: list[str], *, strict: bool
) -> dict[str, Any]:
    """Execute the cells; the row of the claim, or {} where it stays open or a name is missing."""
    from reproduce.kernel import DeadKernel, execute

    paths.BUILD.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="claim-", dir=paths.BUILD))
    environment = scratch_environment(scratch) | {"PYTHONPATH": python_path()}
    if profile != "quick":
        environment[records.ONLY_PUBLISHED] = "1"
    try:
        told, problem = execute([*code, _tell(claim)], entry.notebook.parent, environment)
    except DeadKernel:
        raise DecisionError("the kernel died (killed, or out of memory?)") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if MARK in told:
        return json.loads(told.split(MARK, 1)[1].splitlines()[0])
    if strict:
        why = problem or f"no cell of {entry.notebook.name} decides {claim.full_id}"
        raise DecisionError(why.splitlines()[0])
    return {}


def _tell(claim: Claim) -> str:
    """The code that prints the decision on a claim, once it and its conditions are there."""
    return (
        f"import json\n_found = {slices.BOOK}.decision({claim.id!r})\n"
        f"print({MARK!r} + json.dumps(_found)) if _found else None"
    )


def report(entry: Figure, claim: Claim, row: Mapping[str, Any], outcome: Outcome) -> str:
    """What a reader is told, one line each; `row` is the ledger's."""
    got = outcome.row
    same = got["verdict"] == row["verdict"]
    lines = {
        "claim": claim.full_id,
        "statement": claim.statement,
        "where": claim.where,
        "quote": f"“{claim.quote}”"
        if claim.quote
        else "(a statement of ours)"
        if claim.own
        else "-",
        "paper": claim.paper_text() if claim.paper is not None else "",
        "tolerance": claim.tolerance_text(),
        "ours": got["ours"],
        "verdict": got["verdict"],
        "reason": got["reason"],
        "ledger": row["verdict"] + ("" if same else " (the ledger is not the same: run make all)"),
        "profile": row["profile"] or "quick",
        "cell": f"{row['cell']}, in {row['link']}",
        "executed": "{} of {} statements".format(*outcome.statements)
        + " in {} of {} code cells".format(*outcome.cells),
        "seconds": f"{outcome.seconds:.1f}",
    }
    width = max(map(len, lines))
    return "\n".join(
        f"{name:<{width}}  {' '.join(text.split())}" for name, text in lines.items() if text.strip()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: 0 when the verdict is the ledger's, 1 when not or on failure, 2 for a wrong id."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce.claim", description=__doc__.split("\n")[0]
    )
    parser.add_argument("id", help="<paper>/<figure>/<claim>")
    options = parser.parse_args(arguments)
    try:
        entry, claim = find(options.id)
    except (DecisionError, catalogue.CatalogueError) as problem:
        print(problem, file=sys.stderr)
        return 2
    row = next(r for r in results.result(entry).rows if r["id"] == claim.full_id)
    try:
        outcome = decide(entry, claim, row["profile"] or "quick", row["cell"])
    except (DecisionError, catalogue.CatalogueError, OSError) as problem:
        print(f"{claim.full_id}: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    print(report(entry, claim, row, outcome))
    return 0 if outcome.row["verdict"] == row["verdict"] else 1


if __name__ == "__main__":
    os.environ.setdefault("REPRO_QUIET", "1")
    sys.exit(main())
