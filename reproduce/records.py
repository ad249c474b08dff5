"""One training run and its record: where it is kept, whether it is whole, how it is published.

A record is a JSON file below `data/runs/`, named by a hash of task, configuration, seed and the
code that computes it. Published records (`data/published/`) of the same task, configuration and
seed stand in for runs that were not made here; their provenance names the commit they were made
with. A task has a name of its own, which `[tasks]` in the paper's catalogue maps to a function:
code can move to another module without making a published record worthless.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.atomic import write_json
from repro.report.numbers import plain
from reproduce import catalogue, fingerprint, paths

_LENGTH = 20
"""Hexadecimal digits of a hash that go into a file name."""


ONLY_PUBLISHED = "REPRO_ONLY_PUBLISHED"
"""The environment variable under which published records alone are opened, and nothing is computed."""


class TaskError(Exception):
    """Some runs failed or are missing; the message gives the reason and names the runs."""


@dataclass(frozen=True)
class Task:
    """One run.

    Attributes:
        name: `<paper>/<name>` as in the catalogue, such as "pmsfl/training".
        config: JSON-able parameters.
        seed: its random seed.
    """

    name: str
    config: Mapping[str, Any]
    seed: int

    @property
    def key(self) -> str:
        """A hash of name, configuration and seed: the identity of a published record."""
        return fingerprint.digest([self.name, dict(self.config), self.seed])[:_LENGTH]

    @property
    def function(self) -> str:
        """The "module:function" that computes it: (config, seed) -> a JSON-able dict.

        Raises:
            CatalogueError: the catalogue has no task of this name; the message lists what it has.
        """
        return catalogue.task_function(self.name)

    def __str__(self) -> str:
        return f"{self.name}(config={json.dumps(dict(self.config))}, seed={self.seed})"


def tasks_of(entry: catalogue.Figure, profile: str) -> list[Task]:
    """The runs that a figure needs in a profile, those of its `runs` function; some may be twice.

    Raises:
        CatalogueError: the parameters of the profile are ill-formed.
    """
    if not entry.runs:
        return []
    module, _, name = entry.runs.partition(":")
    rows = getattr(importlib.import_module(module), name)(entry.parameters(profile))
    return [Task(*row) for row in rows]


def record_path(task: Task) -> Path:
    """Where the record of a run with the present code is, or will be."""
    code = fingerprint.function_closure(task.function)
    name = fingerprint.digest([task.key, code])[:_LENGTH]
    return paths.RUNS / task.name / f"{name}.json"


def look_up(task: Task) -> dict[str, Any] | None:
    """The record of a run made here with the present code, else a published one, else None."""
    own = record_path(task)
    if not os.environ.get(ONLY_PUBLISHED) and own.exists():
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
        body = {name: record[name] for name in ("task", "config", "seed", "result")}
        whole = fingerprint.digest(body) == record["sha256"] and "provenance" in record
        same = Task(body["task"], body["config"], body["seed"]).key == task.key
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record if whole and same else None


def store(task: Task, result: Any, provenance: Mapping[str, Any]) -> None:
    """Write the record of a run, whole or not at all.

    Raises:
        DataError: the result holds a NaN, an infinity, or something without a JSON form.
        WriteError: the file cannot be written.
    """
    body = {
        "task": task.name,
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
