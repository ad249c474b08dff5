"""Renew, on purpose, what later runs are compared with: `python -m reproduce.references [ids]`.

Each notebook is run with the values of its parameters cell (the quick profile). Its outputs go
into the committed notebook, its numbers to `reproduce/reference/quick/`, and what changed is
printed. Nothing is written for a notebook that fails. For the other profiles (`--profile desk`)
the numbers are taken from the json files that a run of that profile has left in `figures/`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from repro import paths
from repro.atomic import WriteError, write_together
from repro.report.numbers import to_json
from reproduce import catalogue, compare, replay

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""What a committed notebook says about its kernel; versions would only make noise in a diff."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class RenewalError(ValueError):
    """A notebook failed or left no result, so there is nothing that could become a reference."""


def reference(record: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a figure's json that later runs are compared with."""
    origin = record["provenance"]
    kept = {
        key: origin[key]
        for key in ("parameters", "profile", "seeds", "data_source", "versions", "commit")
    }
    verdicts = {row["id"]: row["verdict"] for row in record["claims"]}
    return kept | {
        "id": record["id"],
        "data": record["data"],
        "verdicts": verdicts,
        "cost": record["cost"],
    }


def execute(notebook: Path, figures: Path) -> nbformat.NotebookNode:
    """Run `notebook` in its own folder and return it with new outputs, normalised.

    Raises:
        RenewalError: a cell failed; the message names notebook, cell and error.
    """
    book = nbformat.read(notebook, as_version=4)
    client = NotebookClient(
        book,
        timeout=replay.CELL_SECONDS,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(notebook.parent)}},
    )
    try:
        client.execute(env=replay.environment(figures))
    except CellExecutionError as problem:
        cell = next((c["id"] for c in book.cells if _failed(c)), "?")
        raise RenewalError(f"{notebook}, cell {cell}: {problem.ename}: {problem.evalue}") from None
    except (CellTimeoutError, DeadKernelError) as problem:
        raise RenewalError(f"{notebook}: {problem}") from None
    return normalise(book)


def _failed(cell: Mapping[str, Any]) -> bool:
    return any(output["output_type"] == "error" for output in cell.get("outputs", []))


def normalise(book: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Strip what differs between runs and machines: times, versions, widget state."""
    book["metadata"] = nbformat.from_dict(METADATA)
    for cell in book.cells:
        tags = cell["metadata"].get("tags")
        cell["metadata"] = nbformat.from_dict({"tags": tags} if tags else {})
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output["metadata"] = nbformat.from_dict({})
    return book


def renew(figure_id: str, scratch: Path) -> list[str]:
    """Run one notebook, write its outputs and numbers, and return what changed, line by line.

    Raises:
        RenewalError: the notebook failed, or left no complete result.
        WriteError: a file cannot be written; both old files stay.
    """
    entry = catalogue.figure(figure_id)
    if not entry.notebook.exists():
        raise RenewalError(f"no such notebook: {entry.notebook}")
    before = nbformat.read(entry.notebook, as_version=4)
    book = execute(entry.notebook, scratch)
    record = load(scratch / f"{figure_id}.json")
    if record.get("changed"):
        names = ", ".join(sorted(record["changed"]))
        raise RenewalError(f"{figure_id}: the parameters cell departs from the catalogue: {names}")
    old = compare.reference_path(figure_id, "quick")
    lines = changes(old, record)
    if (count := changed_outputs(before, book)) > 0:
        lines.append(f"outputs of {count} cells changed")
    text = nbformat.writes(book).rstrip("\n") + "\n"
    contents = {old: to_json(reference(record)).encode()} if _worth(old, record, lines) else {}
    if entry.notebook.read_text(encoding="utf-8") != text:
        contents[entry.notebook] = text.encode()
    write_together(contents)
    return lines


def store(figure_id: str, profile: str) -> list[str]:
    """Store the numbers that a run of `profile` has left in `figures/`; return what changed.

    Raises:
        RenewalError: there is no complete json of that profile.
        WriteError: the file cannot be written.
    """
    made = paths.FIGURES / f"{figure_id}.json"
    record = load(made)
    if record["provenance"]["profile"] != profile or record.get("changed"):
        raise RenewalError(
            f"{made} is no unchanged run of profile {profile}: "
            f"make fig/{figure_id} PROFILE={profile}"
        )
    old = compare.reference_path(figure_id, profile)
    lines = changes(old, record)
    if _worth(old, record, lines):
        write_together({old: to_json(reference(record)).encode()})
    return lines


def load(path: Path) -> dict[str, Any]:
    """Read the json of a finished run, or raise `RenewalError`."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise RenewalError(f"the notebook left no result: {problem}") from None
    if not record.get("complete"):
        raise RenewalError(f"{path} is not complete: the notebook must end with book.table()")
    return record


def changes(old: Path, record: Mapping[str, Any]) -> list[str]:
    """How a run differs from the stored numbers: places, and the largest relative change."""
    try:
        stored = json.loads(old.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ["new numbers"]
    except (OSError, ValueError) as problem:
        return [f"the stored numbers cannot be read ({problem})"]
    found = compare.record_differences(stored, record, compare.Tolerance(rtol=0.0))
    lines, worst = [], (0.0, None)
    numbers = 0
    for difference in found:
        size = _relative(difference)
        if size is None:
            lines.append(f"{difference.path}: {difference.stored} -> {difference.got}")
            continue
        numbers += 1
        worst = max(worst, (size, difference), key=lambda pair: pair[0])
    if worst[1] is not None:
        place = worst[1]
        lines.append(
            f"{numbers} numbers changed, most at {place.path}: {place.stored} -> {place.got} "
            f"(relative {worst[0]:.1e})"
        )
    return lines


def _relative(difference: compare.Difference) -> float | None:
    """The relative size of a change between two numbers; None for changes of another kind."""
    try:
        was, now = float(difference.stored), float(difference.got)
    except ValueError:
        return None
    return abs(now - was) / max(abs(was), abs(now))


def _worth(old: Path, record: Mapping[str, Any], lines: Sequence[str]) -> bool:
    """Whether the stored file must be written: not when only cost or commit would differ."""
    if lines or not old.exists():
        return True
    stored, new = json.loads(old.read_text(encoding="utf-8")), reference(record)
    return any(stored.get(key) != new[key] for key in ("seeds", "data_source", "versions"))


def changed_outputs(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """How many cells have other outputs than before (pictures included)."""
    old = {cell.get("id"): cell.get("outputs", []) for cell in before["cells"]}
    return sum(old.get(cell.get("id"), []) != cell.get("outputs", []) for cell in after["cells"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: exit 0 when all was renewed, 1 when a notebook failed, 2 for a wrong call."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce.references", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "ids", nargs="*", help="figures such as random_participation/fig1 (default: all)"
    )
    parser.add_argument(
        "-j", "--jobs", type=int, default=os.cpu_count() or 1, help="notebooks at a time"
    )
    parser.add_argument("--profile", default="quick", choices=catalogue.PROFILES)
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    try:
        ids = options.ids or [entry.id for entry in catalogue.figures()]
        for figure_id in ids:
            catalogue.figure(figure_id)
    except catalogue.CatalogueError as problem:
        print(problem, file=sys.stderr)
        return 2
    paths.BUILD.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="references-", dir=paths.BUILD))

    def one(figure_id: str) -> bool:
        try:
            quick = options.profile == "quick"
            lines = renew(figure_id, scratch) if quick else store(figure_id, options.profile)
        except (RenewalError, WriteError) as problem:
            print(
                f"{figure_id}: FAILED, nothing written: {_COLOUR.sub('', str(problem))}", flush=True
            )
            return False
        body = "".join(f"\n  {line}" for line in lines)
        print(f"{figure_id}: {'unchanged' if not lines else 'renewed' + body}", flush=True)
        return True

    pool = ThreadPoolExecutor(options.jobs)
    try:
        good = list(pool.map(one, ids))
    except KeyboardInterrupt:
        print(
            "interrupted; each notebook is renewed whole or not at all", file=sys.stderr, flush=True
        )
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(130)  # the threads would wait for their kernels; these end with this process
    finally:
        pool.shutdown(cancel_futures=True)
        shutil.rmtree(scratch, ignore_errors=True)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
