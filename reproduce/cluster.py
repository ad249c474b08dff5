"""Training runs as Slurm jobs, sent with submitit and watched without `sacct`.

A run is over when its record lies on disk, when submitit has the job's answer, or when `squeue` no longer
lists the job. submitit alone asks `sacct`, which many clusters switch off; there a job that a signal killed
stays unknown to it and is waited for without end. `sacct` is never asked here.

Which job computes which run is noted beside submitit's files. So a submitter that was killed, or a second one
that runs beside the first, waits for the jobs that are in the queue and sends only what is not.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import shlex
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from repro.atomic import write_json
from reproduce import paths, pool
from reproduce.progress import Watch
from reproduce.records import Task, look_up

__all__ = ["submit"]

_LOOK = 5.0
"""Seconds between two looks at the queue."""
_ARRAY = 500
"""Jobs in an array; clusters allow 1001 as a rule."""
_GONE = 3
"""Looks in a row at which a job without an answer must be missing from the queue to count as ended."""


def submit(
    tasks: Sequence[Task], where: str, *, hours: float = 24.0, processors: int = 4
) -> dict[str, str]:
    """Compute the missing ones of `tasks` as Slurm jobs; return the errors by task key.

    The jobs write their records to `data/runs/`, which must lie on a file system they share with this
    machine. Tasks whose configuration does not say `device = "cpu"` ask for one GPU each.

    Args:
        tasks: runs.
        where: a partition and options of `sbatch`, such as "gpu --account=lab --qos=long".
        hours: time limit of a job.
        processors: cores of a job.

    Raises:
        ValueError: `where` is not of this form.
        RuntimeError: this machine has no `sbatch` or `squeue`, or submitit is not installed.
    """
    partition, options = _options(where)
    for program in ("sbatch", "squeue"):
        if shutil.which(program) is None:
            raise RuntimeError(f"a sweep on Slurm needs {program} on PATH, which is not there")
    folder = paths.RUNS / ".slurm"
    missing = {task.key: task for task in tasks if look_up(task) is None}
    with _alone(folder):
        known = _read(folder)
        queued = _queue() or {}
        jobs = {key: job for key, job in known.items() if key in missing and job in queued}
        for gpus in (0, 1):
            group = [
                task
                for key, task in missing.items()
                if key not in jobs and (task.config.get("device") != "cpu") == bool(gpus)
            ]
            for start in range(0, len(group), _ARRAY):
                jobs |= _send(
                    group[start : start + _ARRAY],
                    folder,
                    timeout_min=round(60 * hours),
                    cpus_per_task=processors,
                    gpus_per_node=gpus,
                    slurm_partition=partition,
                    slurm_additional_parameters=options,
                )
        write_json(folder / "jobs.json", known | jobs)
    return _wait({key: (missing[key], job) for key, job in jobs.items()}, folder)


def _options(where: str) -> tuple[str, dict[str, str]]:
    """The partition, and the options of `sbatch` after it by name."""
    partition, *words = shlex.split(where) or [""]
    options = dict(word[2:].split("=", 1) for word in words if word[:2] == "--" and "=" in word)
    if partition.startswith("-") or not partition or len(options) != len(words):
        raise ValueError(f"SLURM must be a partition, then options --name=value, got {where!r}")
    return partition, options


def _send(group: Sequence[Task], folder: Path, **parameters: object) -> dict[str, str]:
    """Send tasks as one array of jobs: task key -> job id."""
    executor = _submitit().AutoExecutor(folder=folder, cluster="slurm")
    executor.update_parameters(**parameters)
    sent = executor.map_array(pool.compute_one, group)
    return {task.key: job.job_id for task, job in zip(group, sent, strict=True)}


def _wait(jobs: Mapping[str, tuple[Task, str]], folder: Path) -> dict[str, str]:
    """Wait until every run is over; return the errors by task key."""
    watch = Watch(len(jobs), report=lambda text: print(text, flush=True))
    waiting, errors, absent = dict(jobs), {}, Counter()
    last = ""
    while waiting:
        queue = _queue()
        for key, (task, number) in list(waiting.items()):
            absent[key] = absent[key] + 1 if queue is not None and number not in queue else 0
            error = _answer(task, number, folder)
            if error is None and absent[key] >= _GONE:
                error = _end(number, folder)
            if error is not None:
                del waiting[key]
                watch.step(task, error)
                if error:
                    errors[key] = error
        states = Counter((queue or {}).get(number, "ending") for _, number in waiting.values())
        text = ", ".join(f"{count} {state.lower()}" for state, count in sorted(states.items()))
        if queue is None:
            text = "squeue does not answer; waiting"
        if waiting and text != last:
            print(f"{watch.text()}; {text}; logs in {folder}", flush=True)
            last = text
        if waiting:
            time.sleep(_LOOK)
    watch.close()
    return errors


def _answer(task: Task, number: str, folder: Path) -> str | None:
    """What went wrong, "" for a run whose record is there, None while there is no answer."""
    if look_up(task) is not None:
        return ""
    job = _submitit().SlurmJob(folder=folder, job_id=number, tasks=[0])
    if not job.paths.result_pickle.exists():
        return None
    try:
        # An answer without an error and without a record: the file system shows the record late.
        return job.result() or None
    except Exception as problem:  # a job can fail in many ways; all of them are reported
        return f"{type(problem).__name__}: {str(problem).strip().splitlines()[-1]}"


def _end(number: str, folder: Path) -> str:
    """Why a job has left the queue without an answer, as far as Slurm or the job's log tell."""
    told = _run("scontrol", "--oneliner", "show", "job", number) or ""
    fields = dict(part.split("=", 1) for part in told.split() if "=" in part)
    names = ("JobState", "Reason", "ExitCode")
    said = [f"{name}={fields[name]}" for name in names if name in fields]
    logs = _submitit().SlurmJob(folder=folder, job_id=number, tasks=[0]).paths
    lines = [
        line
        for log in (logs.stderr, logs.stdout)
        if log.exists()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-1:]
    ]
    return "; ".join([f"job {number} left the queue without a record", *said, *lines])


def _queue() -> dict[str, str] | None:
    """The user's jobs that wait or run: id -> state; None where `squeue` does not answer."""
    told = _run("squeue", "--noheader", "--array", f"--user={getpass.getuser()}", "--format=%i|%T")
    return None if told is None else dict(line.split("|", 1) for line in told.split())


def _run(*command: str) -> str | None:
    """What a program prints; None where it fails, hangs or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _read(folder: Path) -> dict[str, str]:
    try:
        return json.loads((folder / "jobs.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One submitter at a time sends jobs; the lock ends with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "submit.lock", "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _submitit() -> Any:
    try:
        import submitit
    except ImportError as problem:
        raise RuntimeError(
            "a sweep on Slurm needs the package submitit (extra `slurm`)"
        ) from problem
    return submitit
