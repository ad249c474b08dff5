"""The task pool: training runs as pure functions of (configuration, seed), each kept in one record.

    records = run_tasks([Task("reproduce.papers.random_participation.runs:random_participation_run", config, 0)])

A record is a JSON file below `data/runs/`, named by a hash of function, configuration, seed and the
code the function depends on. A record that is there is not computed again; one that is damaged
is, with a note. Published records (`data/published/`) of the same function, configuration and
seed stand in for runs that were not made here; their provenance names the commit they were made
with.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro import paths
from repro.atomic import write_json
from reproduce import fingerprint

_LENGTH = 20
"""Hexadecimal digits of a hash that go into a file name."""


class TaskError(Exception):
    """Some runs failed; the message names the configuration, the seed and the error of each."""


@dataclass(frozen=True)
class Task:
    """One run.

    Attributes:
        function: "module:function"; the function takes (config, seed) and returns a JSON-able dict.
        config: JSON-able parameters.
        seed: its random seed.
    """

    function: str
    config: Mapping[str, Any]
    seed: int

    @property
    def key(self) -> str:
        """A hash of function, configuration and seed: the identity of a published record."""
        return fingerprint.digest([self.function, dict(self.config), self.seed])[:_LENGTH]

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.function.rpartition(":")[2]

    def __str__(self) -> str:
        return f"{self.function}(config={json.dumps(dict(self.config))}, seed={self.seed})"


def record_path(task: Task) -> Path:
    """Where the record of a run with the present code is, or will be."""
    code = fingerprint.function_closure(task.function)
    name = fingerprint.digest([task.key, code])[:_LENGTH]
    return paths.RUNS / task.name / f"{name}.json"


def run_tasks(
    tasks: Sequence[Task],
    *,
    jobs: int | None = None,
    progress: bool = True,
    report: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Return the record of each task, in order; compute those that are missing.

    Args:
        tasks: the runs wanted; one that is wanted twice is computed once.
        jobs: processes at a time; default: `REPRO_JOBS`, else the cores. With GPUs, one process
        per GPU.
        progress: show a bar with the remaining time on a terminal.
        report: called with a line of text after each run that was computed.

    Returns:
        Records with the keys function, config, seed, result and provenance.

    Raises:
        TaskError: runs failed; the others were computed and kept.
        ValueError: a configuration has no JSON form.
    """
    found: dict[str, dict[str, Any]] = {}
    missing: dict[str, Task] = {}
    for task in tasks:
        if task.key not in found and task.key not in missing:
            record = look_up(task)
            if record is None:
                missing[task.key] = task
            else:
                found[task.key] = record
    if missing:
        from reproduce import pool

        watch = Watch(len(missing), progress, report)
        try:
            errors = pool.compute(list(missing.values()), jobs or default_jobs(), watch)
        finally:
            watch.close()
        for key, task in missing.items():
            record = None if key in errors else look_up(task)
            if record is not None:
                found[key] = record
            else:
                errors.setdefault(key, "its record vanished")
        if errors:
            lines = [f"  {missing[key]}: {text}" for key, text in errors.items()]
            many = f"{len(errors)} of {len(missing)} runs failed, the others are kept:"
            raise TaskError("\n".join([many, *lines]))
    return [found[task.key] for task in tasks]


def default_jobs() -> int:
    """`REPRO_JOBS`, else the cores this process may use."""
    from reproduce.machine import cores

    try:
        return max(1, int(os.environ["REPRO_JOBS"]))
    except (KeyError, ValueError):
        return cores()


# Records ------------------------------------------------------------------------------------------


def look_up(task: Task) -> dict[str, Any] | None:
    """The record of a run made here with the present code, else a published one, else None."""
    own = record_path(task)
    if own.exists():
        if (record := read_record(own, task)) is not None:
            return record
        _note(f"{own} is damaged; the run is made again")
    for path in sorted(paths.PUBLISHED.rglob(f"{task.key}.json")):
        if (record := read_record(path, task)) is not None:
            return record
        _note(f"{path} is damaged or belongs to another run; it is not used")
    return None


def read_record(path: Path, task: Task) -> dict[str, Any] | None:
    """The record in `path` when it is whole, unaltered, and that of `task`; else None."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        body = {name: record[name] for name in ("function", "config", "seed", "result")}
        whole = fingerprint.digest(body) == record["sha256"] and "provenance" in record
        same = Task(body["function"], body["config"], body["seed"]).key == task.key
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record if whole and same else None


def store(task: Task, result: Any, provenance: Mapping[str, Any]) -> None:
    """Write the record of a run, whole or not at all.

    Raises:
        DataError: the result holds a NaN, an infinity, or something without a JSON form.
        WriteError: the file cannot be written.
    """
    from repro.report.numbers import plain

    body = {
        "function": task.function,
        "config": dict(task.config),
        "seed": task.seed,
        "result": plain(result, "result"),
    }
    write_json(
        record_path(task),
        {**body, "provenance": dict(provenance), "sha256": fingerprint.digest(body)},
    )


def publish(tasks: Iterable[Task], folder: Path) -> int:
    """Copy the records of `tasks` into `folder`; return how many.

    Raises:
        TaskError: some of the runs were not made yet.
    """
    records = [(task, look_up(task)) for task in tasks]
    if lacking := [task for task, record in records if record is None]:
        raise TaskError(f"{len(lacking)} of {len(records)} runs are missing, first {lacking[0]}")
    wanted = {f"{task.key}.json": record for task, record in records}
    for name, record in wanted.items():
        write_json(folder / name, record)
    for old in folder.glob("*.json"):
        if old.name not in wanted:
            old.unlink()
    return len(wanted)


def _note(text: str) -> None:
    if not os.environ.get("REPRO_QUIET"):
        print(f"note: {text}", file=sys.stderr, flush=True)


# Progress -----------------------------------------------------------------------------------------


class Watch:
    """How far a set of runs is: a bar on a terminal, a line in the file `REPRO_PROGRESS`, reports.

    `REPRO_PROGRESS_BAR` shows the bar where there is no terminal (JupyterLab), `REPRO_QUIET`
    nowhere.
    """

    def __init__(
        self, total: int, progress: bool = True, report: Callable[[str], None] | None = None
    ) -> None:
        self.total, self.done, self.failed = total, 0, 0
        self._report = report
        self._start = time.monotonic()
        self._file = os.environ.get("REPRO_PROGRESS", "")
        self._bar: Any = None
        shown = sys.stderr.isatty() or os.environ.get("REPRO_PROGRESS_BAR")
        if progress and shown and not os.environ.get("REPRO_QUIET"):
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc="runs", unit="run", file=sys.stderr)
        self._write()

    def step(self, task: Task, error: str = "") -> None:
        """One run has ended."""
        self.done += 1
        self.failed += bool(error)
        if self._bar is not None:
            self._bar.update()
        self._write()
        if self._report is not None:
            end = f"FAILED: {error}" if error else "done"
            self._report(f"{self.text()}; {task.name} seed {task.seed} {end}")

    def text(self) -> str:
        """`3 of 12 runs, about 40 s left`."""
        text = f"{self.done} of {self.total} runs"
        if 0 < self.done < self.total:
            left = (time.monotonic() - self._start) / self.done * (self.total - self.done)
            text += f", about {duration(left)} left"
        return text

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def _write(self) -> None:
        if self._file:
            try:
                Path(self._file).write_text(self.text(), encoding="utf-8")
            except OSError:
                self._file = ""  # nobody is looking


def duration(seconds: float) -> str:
    """A time span to read: 40 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
