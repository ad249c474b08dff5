"""Training runs as pure functions of (configuration, seed), each computed once.

    records = run_tasks([Task("random_participation/training", config, 0)])

A run whose record is there is not computed again; one whose record is damaged is, with a note.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from reproduce import pool
from reproduce.machine import cores
from reproduce.progress import Watch
from reproduce.records import ONLY_PUBLISHED, Task, TaskError, look_up

__all__ = ["Task", "TaskError", "default_jobs", "run_tasks"]


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
        Records with the keys task, config, seed, result and provenance.

    Raises:
        TaskError: runs are missing where published records alone are opened; or runs failed, and
            the others were computed and kept: then the message begins with the reason of the first
            failure, and gives for each the reason, configuration and seed.
        CatalogueError: there is no such task.
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
    if missing and os.environ.get(ONLY_PUBLISHED):
        first = next(iter(missing.values()))
        raise TaskError(f"{len(missing)} runs are not published, first {first}")
    if missing:
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
            lines = [f"  {text}: {missing[key]}" for key, text in errors.items()]
            many = f"{len(errors)} of {len(missing)} runs failed, the others are kept:"
            raise TaskError("\n".join([f"{next(iter(errors.values()))}; {many}", *lines]))
    return [found[task.key] for task in tasks]


def default_jobs() -> int:
    """`REPRO_JOBS`, else the cores this process may use."""
    try:
        return max(1, int(os.environ["REPRO_JOBS"]))
    except (KeyError, ValueError):
        return cores()
