"""Does each verdict notice a fault? `make mutants` tries: `python -m reproduce.mutants [paper or figure …]`.

Faults are made by rule (returned values times 1.02 and 0.98; constants moved by 5 %, signs, comparisons, indices,
"add" and "remove": `mutation.edits`), one at a time, in the functions that a verdict depends on and in the cells of
its notebook. A verdict that stands must change or its cell must fail; where it does not, the mutant survives.
"Loose" and orders of curves say nothing about 2 %: there values are doubled and halved (`mutation.faults.coarse`).
`mutation.trial` says what is caught, and which mutants are harmless by rule. A verdict "false" or "misprint", and an
order of a figure that "differs", must change when the corrected statement takes the place of the printed one
(`mutation.corrected`).

A survivor must have its reason in `reproduce/papers/<paper>/survivors.toml`:

    [[survivor]]
    claim = "<paper>/<figure>/<claim>"
    mutant = "the id that `make mutants` prints; * stands for any text"
    reason = "why no verdict can notice it"

An entry whose mutants were run and are all noticed is told as stale: take it out.

Without an option every mutant is run, which takes hours. `--share 0.2` draws a fifth of the moves, whatever they cost
and the same in all notebooks, and tells an interval for the share that is caught among all; `--sample 300` runs what
fits into so many seconds, mostly cheap ones. All rows of a run are kept in `build/mutants/<paper>.json`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from repro.atomic import write_text
from repro.report.numbers import to_json
from reproduce import catalogue, paths
from reproduce.catalogue import Figure
from reproduce.entries import CatalogueError
from reproduce.machine import cores, python_path, scratch_environment
from reproduce.mutation.faults import CORRECTED, possible
from reproduce.mutation.observed import Slices
from reproduce.mutation.trial import CAUGHT, judged

FILE = "survivors.toml"
SHARE = 0.95
"""The share of mutants that must be caught."""


@dataclass(frozen=True)
class Survivor:
    """Why no verdict notices a mutant."""

    claim: str
    mutant: str
    reason: str

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Whether it speaks of a row."""
        return self.claim == row["claim"] and matches(self.mutant, row["mutant"])


def matches(pattern: str, mutant: str) -> bool:
    """Whether a pattern, in which * stands for any text, is the id of a mutant."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), mutant) is not None


def path_of(paper: str) -> Path:
    """The file of a paper, which need not be there."""
    return paths.PAPERS / paper / FILE


def reasons(paper: str) -> list[Survivor]:
    """The survivors of a paper that have a reason; [] without a file.

    Raises:
        CatalogueError: the file is ill-formed.
    """
    path = path_of(paper)
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["survivor"]
        found = [Survivor(**entry) for entry in entries]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise CatalogueError(f"{path}: {problem}") from None
    for one in found:
        texts = (one.claim, one.mutant, one.reason)
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise CatalogueError(f"{path}: every value must be a text that is not empty: {one}")
    return found


def orphans(paper: str) -> list[str]:
    """The reasons of a paper for mutants that cannot be made (any longer), one line each.

    The functions of the paper are imported for it; nothing is run.
    """
    known = {claim.full_id: entry for entry in catalogue.figures(paper) for claim in entry.claims}
    lines = []
    for one in reasons(paper):
        name = one.claim.rpartition("/")[2]
        found = Slices(known[one.claim], [name]) if one.claim in known else None
        text = one.mutant
        if ": value *" in text:
            text = re.sub(r"\[\w+\]|\(method=\w*\)", "", text)
        where = text.partition(": ")[0]
        made: Iterator[str] = iter(())
        if found is not None and name in found.places:
            made = possible(found, name, lambda full, where=where: matches(where, full))
        if not any(matches(text, mutant) for mutant in made):
            lines.append(f"{one.claim} | {one.mutant}")
    return lines


def subjects(ids: Sequence[str]) -> list[Figure]:
    """The notebooks with claims that are decided by formulas and do not depend on training runs."""
    return [
        entry
        for entry in catalogue.select(list(ids))
        if any(one.by == "formula" for one in entry.claims)
        and not (entry.runs and not Slices(entry).places)
    ]


def tried(
    entries: Sequence[Figure],
    jobs: int,
    budget: float | None,
    seed: int,
    part: float | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows of all notebooks, each in a process of its own, `jobs` at a time.

    Args:
        entries: the figures.
        jobs: processes.
        budget: seconds for a sample in all; a notebook gets its share by its number of claims.
        seed: of the sample.
        part: the share of the moves, for a sample that does not look at costs.
    """
    weights = {entry.id: sum(one.by == "formula" for one in entry.claims) for entry in entries}
    total = sum(weights.values())
    with ThreadPoolExecutor(jobs) as pool:
        waiting = []
        for entry in sorted(entries, key=lambda one: -weights[one.id]):
            command = [sys.executable, "-m", "reproduce.mutation.trial", entry.id]
            if part is not None:
                command += ["--seed", str(seed), "--share", str(part)]
            elif budget is not None:
                share = budget * min(jobs, len(entries)) * weights[entry.id] / total
                command += ["--seed", str(seed), "--budget", f"{share:.0f}"]
            waiting.append(pool.submit(_rows, entry, command))
        for one in waiting:
            yield from one.result()


def _rows(entry: Figure, command: Sequence[str]) -> list[dict[str, Any]]:
    paths.BUILD.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="mutants-", dir=paths.BUILD))
    environment = scratch_environment(scratch) | {"PYTHONPATH": python_path()}
    environment["REPRO_FIGURES"] = str(paths.FIGURES)  # read only: which cell decides a claim
    try:
        done = subprocess.run(
            command, cwd=entry.notebook.parent, env=environment, capture_output=True, text=True
        )
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        rows.append({"claim": entry.id, "mutant": "", "result": "error", "reason": why})
    return rows


def summary(
    rows: Sequence[Mapping[str, Any]], known: Sequence[Survivor], *, whole: bool = False
) -> dict[str, Any]:
    """The numbers of one paper, and its survivors without a reason.

    A reason for several mutants (with a *) can be stale in a `whole` run only: a sample may hold others of them.
    """
    counts = Counter(row["result"] for row in rows)
    caught = sum(counts[name] for name in CAUGHT)
    survivors = [row for row in rows if row["result"] == "survived"]
    bare = [row for row in survivors if not any(one.matches(row) for one in known)]
    total = caught + len(survivors)
    stale = [
        one
        for one in known
        if (whole or "*" not in one.mutant)
        and (own := [row["result"] for row in rows if one.matches(row)])
        and "survived" not in own
    ]
    return {
        "mutants": total,
        "caught": caught,
        **{name: counts[name] for name in (*CAUGHT, "safer", "same", "spared")},
        "with reason": len(survivors) - len(bare),
        "without": len(bare),
        "share": caught / total if total else 1.0,
        "interval": _interval(rows),
        "correct": sum(row.get("kind") == CORRECTED and row["result"] in CAUGHT for row in rows),
        "no correction": counts["none"],
        "open": [row["claim"] for row in rows if row["result"] == "open"],
        "errors": [row for row in rows if row["result"] == "error"],
        "survivors": bare,
        "stale": [f"{one.claim} | {one.mutant}" for one in stale],
    }


def _interval(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The 95 % interval (Clopper-Pearson) for the share of moves that are caught, if `rows` are a sample of them.

    A move has its two directions, and may concern several claims: it is caught where none of them survives.
    """
    results: dict[str, set[str]] = {}
    for row in rows:
        if row.get("kind", CORRECTED) != CORRECTED and row["result"] in (*CAUGHT, "survived"):
            figure = row["claim"].rpartition("/")[0]
            results.setdefault(f"{figure} {row['move']}", set()).add(row["result"])
    if not results:
        return 0.0, 1.0
    good = sum("survived" not in found for found in results.values())
    ends = binomtest(good, len(results)).proportion_ci(method="exact")
    return float(ends.low), float(ends.high)


def passes(told: Mapping[str, Any]) -> bool:
    """Whether enough mutants are caught, each survivor has a reason and each reason one, refuted claims a form."""
    bad = ("survivors", "stale", "errors", "open")
    return told["share"] >= SHARE and not any(told[name] for name in bad)


def report(paper: str, told: Mapping[str, Any]) -> str:
    """What is printed of one paper."""
    share = f"{told['share']:.1%}" if told["mutants"] else "nothing was tried"
    low, high = told["interval"]
    lines = [
        f"{paper}: {told['mutants']} mutants, {told['caught']} caught ({told['changed']} by another verdict, "
        f"{told['raised']} by a failing cell, {told['timeout']} do not end), survivors: {told['with reason']} with a "
        f"reason, {told['without']} without; {share}. Moves (both directions) without a survivor: {low:.1%} to "
        f"{high:.1%} of all, at 95 %, where this is a sample. Left out: {told['safer']} safer, {told['same']} without "
        f"effect on a comparison, {told['spared']} not run because the other direction is caught. Refuted claims: "
        f"{told['correct']} change with their corrected form, {told['no correction']} have none and say why, "
        f"{len(told['open'])} lack one."
    ]
    for claim in told["open"]:
        lines.append(f"  without a corrected form: {claim}")
    for row in told["survivors"]:
        lines.append(f"  survived: {row['claim']} | {row['mutant']}")
    lines += [f"  stale, its mutants are noticed: {text}" for text in told["stale"]]
    for row in told["errors"]:
        lines.append(f"  not run: {row['claim']}: {row['reason']}")
    return "\n".join(lines)


def _share(text: str) -> float:
    """A share from the command line."""
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1, got {text}")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: 0 when every paper passes, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce.mutants", description=__doc__.split("\n")[0]
    )
    parser.add_argument("ids", nargs="*", help="<paper> or <paper>/<figure>; all by default")
    parser.add_argument("--jobs", type=int, default=cores())
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--sample", type=float, help="seconds for a sample, mostly of cheap mutants")
    how.add_argument("--share", type=_share, help="share of the moves, above 0 and at most 1")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        entries = subjects(options.ids)
        rows = list(tried(entries, options.jobs, options.sample, options.seed, options.share))
        whole = options.sample is None and options.share in (None, 1.0)
        good = True
        for paper in dict.fromkeys(entry.paper for entry in entries):
            own = [row for row in rows if row["claim"].split("/")[0] == paper]
            found = judged(own, whole=whole)
            write_text(paths.BUILD / "mutants" / f"{paper}.json", to_json({"rows": found}))
            told = summary(found, reasons(paper), whole=whole)
            good = good and passes(told)
            print(report(paper, told), flush=True)
    except CatalogueError as problem:
        print(f"mutants: {problem}", file=sys.stderr)
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
