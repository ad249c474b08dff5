"""Renew, on purpose, what later runs are compared with: `python -m reproduce.references [ids]`.

Each notebook is run with the values of its parameters cell (the quick profile). Its outputs go
into the committed notebook, its numbers to `reproduce/reference/quick/`, its seconds and memory to
`reproduce/costs.json`. What changed is told before any of it is written. Nothing is written for a
notebook that fails.
Committed measurements of times are renewed for the figures named, not when all are renewed.
For the other profiles (`--profile desk`) numbers and cost are taken from the files that a run of
that profile has left in `build/`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from repro.atomic import WriteError, write_together
from repro.report.numbers import to_json
from reproduce import catalogue, compare, measured, paths, replay, state
from reproduce.destination import Destination
from reproduce.preparation import preflight

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""What a committed notebook says about its kernel; versions would only make noise in a diff."""

_WIDGET = "application/vnd.jupyter.widget-view+json"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class RenewalError(ValueError):
    """A notebook failed or left no result, so there is nothing that could become a reference."""


def reference(record: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a figure's json that later runs are compared with."""
    kept = ("id", "parameters", "profile", "seeds", "data_source", "data")
    verdicts = {row["id"]: row["verdict"] for row in record["claims"]}
    return {key: record[key] for key in kept} | {"verdicts": verdicts}


def execute(
    notebook: Path, scratch: Path, variables: Mapping[str, str] | None = None
) -> nbformat.NotebookNode:
    """Run `notebook` in its own folder and return it with new outputs, normalised.

    Its other files go below `scratch`; `variables` are added to its environment.

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
        client.execute(env=replay.environment(scratch) | dict(variables or {}))
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
            output.get("data", {}).pop(_WIDGET, None)  # names a model of a kernel that has ended
    return book


def renew(
    figure_id: str, scratch: Path, tell: Callable[[list[str]], None], times: bool = False
) -> None:
    """Run one notebook, tell what changed, line by line, and then write its outputs and numbers.

    Args:
        figure_id: the figure.
        scratch: a folder for the other files of the run.
        tell: is called with the lines before anything is written; [] when nothing changed.
        times: whether the committed measurements of times are renewed too.

    Raises:
        RenewalError: the notebook cannot be run, failed, or left no complete result.
        WriteError: a file cannot be written; both old files stay.
    """
    entry = catalogue.figure(figure_id)
    if problem := preflight(entry, "quick"):
        raise RenewalError(problem)
    before = nbformat.read(entry.notebook, as_version=4)
    book = execute(entry.notebook, scratch, {measured.FRESH: "1"} if times else {})
    record = load(scratch / "figures" / f"{figure_id}.json")
    old = compare.reference_path(figure_id, "quick")
    lines = changes(old, record)
    if (count := changed_outputs(before, book)) > 0:
        lines.append(f"outputs of {count} cells changed")
    text = nbformat.writes(book).rstrip("\n") + "\n"
    contents = {old: to_json(reference(record)).encode(), entry.notebook: text.encode()}
    fresh = within(scratch, Destination(figure_id).measured)
    stored = measured.committed_path(figure_id)
    if fresh.exists() and (times or not stored.exists()):
        entries = json.loads(fresh.read_bytes())
        for entry in entries.values():
            entry.pop("load", None)  # of this machine, just now
        contents[stored] = to_json(entries).encode()
        lines.append("measured times renewed")
    tell(lines)
    _write(contents)


def within(scratch: Path, place: Path) -> Path:
    """Where a run that writes below `scratch` puts what else goes to `place` in `build/`."""
    return scratch / "build" / place.relative_to(paths.BUILD)


def store(figure_id: str, profile: str, tell: Callable[[list[str]], None]) -> None:
    """Tell what changed in the numbers that a run of `profile` has left, and then store them.

    Raises:
        RenewalError: there is no complete json of that profile.
        WriteError: the file cannot be written.
    """
    made = Destination(figure_id, profile).file("json")
    if not made.exists():
        raise RenewalError(f"no {made}: make fig/{figure_id} PROFILE={profile}")
    record = load(made)
    old = compare.reference_path(figure_id, profile)
    tell(changes(old, record))
    _write({old: to_json(reference(record)).encode()})


def _write(contents: Mapping[Path, bytes]) -> None:
    """Write those of the files together whose content changes."""
    write_together(
        {
            path: content
            for path, content in contents.items()
            if not path.is_file() or path.read_bytes() != content
        }
    )


def renew_costs(profile: str, found: Mapping[str, Path]) -> None:
    """Put seconds and memory of some runs into `reproduce/costs.json`; the others stay.

    Args:
        profile: the parameter set of the runs.
        found: figure -> the provenance file that its run has left.

    Raises:
        WriteError: the file cannot be written.
    """
    table = state.read_object(paths.COSTS)
    costs = dict(table.get(profile, {}))
    for figure_id, path in found.items():
        origin = state.read_object(path)
        if {"seconds", "peak_mib"} <= origin.keys():
            costs[figure_id] = {key: origin[key] for key in ("seconds", "peak_mib")}
    known = {entry.id for entry in catalogue.figures()}
    kept = {name: cost for name, cost in costs.items() if name in known}
    _write({paths.COSTS: to_json(table | {profile: kept}).encode()})


def load(path: Path) -> dict[str, Any]:
    """Read the json of a finished run, or raise `RenewalError`."""
    record = state.read_object(path)
    if not record:
        raise RenewalError(f"the notebook left no result: {path} is missing or no JSON object")
    if not record.get("complete"):
        raise RenewalError(f"{path} is not complete: the notebook must end with book.table()")
    return record


def changes(old: Path, record: Mapping[str, Any]) -> list[str]:
    """How a run differs from the stored numbers: places, and the largest relative change."""
    if not old.exists():
        return ["new numbers"]
    stored = state.read_object(old)
    if not stored:
        return [f"the stored numbers were no JSON object ({old})"]
    found = compare.record_differences(stored, record, compare.Tolerance(rtol=0.0))
    lines, worst = [], (0.0, None)
    numbers = 0
    for difference in found:
        size = difference.relative()
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


def changed_outputs(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """How many cells have other outputs than before (pictures included)."""
    old = {cell.get("id"): cell.get("outputs", []) for cell in before["cells"]}
    return sum(old.get(cell.get("id"), []) != cell.get("outputs", []) for cell in after["cells"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: exit 0 when all was renewed, 1 when a notebook failed, 2 for a wrong call."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce.references", description=__doc__.split("\n")[0]
    )
    parser.add_argument("ids", nargs="*", help="<paper>/<figure> or <paper> (default: all)")
    parser.add_argument(
        "-j", "--jobs", type=int, default=os.cpu_count() or 1, help="notebooks at a time"
    )
    parser.add_argument("--profile", default="quick", choices=catalogue.PROFILES)
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    try:
        ids = [entry.id for entry in catalogue.select(options.ids)]
    except catalogue.CatalogueError as problem:
        print(problem, file=sys.stderr)
        return 2
    try:
        paths.BUILD.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="references-", dir=paths.BUILD))
    except OSError as problem:
        print(f"{paths.BUILD} cannot be written: {problem.strerror}", file=sys.stderr)
        return 1

    quick = options.profile == "quick"
    origins: dict[str, Path] = {}

    def one(figure_id: str) -> bool:
        def tell(lines: list[str]) -> None:
            told = "".join(f"\n  {line}" for line in lines)
            print(f"{figure_id}: {'to be written:' + told if lines else 'unchanged'}", flush=True)

        try:
            if quick:
                renew(figure_id, scratch, tell, bool(options.ids))
            else:
                store(figure_id, options.profile, tell)
        except (RenewalError, WriteError) as problem:
            print(
                f"{figure_id}: FAILED, nothing written: {_COLOUR.sub('', str(problem))}", flush=True
            )
            return False
        place = Destination(figure_id, options.profile).provenance
        origins[figure_id] = within(scratch, place) if quick else place
        return True

    pool = ThreadPoolExecutor(options.jobs)
    try:
        good = list(pool.map(one, ids))
        renew_costs(options.profile, origins)
    except WriteError as problem:
        print(problem, file=sys.stderr)
        return 1
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
