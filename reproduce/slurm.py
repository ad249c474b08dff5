"""What is said to Slurm, and what it answers: the queue, why a job ended, sending and cancelling jobs.

`squeue` and `scontrol` are asked, never `sacct`, which many clusters switch off. submitit writes the batch
scripts and starts `sbatch`.
"""

from __future__ import annotations

import getpass
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SECONDS = 30
"""Seconds that `squeue`, `scontrol`, `sinfo` and `scancel` may take."""

_LATER = re.compile(
    "temporarily un|queue full|submit limit|to contact|timed out|zero bytes|connection|transport endpoint"
    "|job array spec|communication",
    re.IGNORECASE,
)
"""Refusals that may end by themselves or with a smaller array; all others are final."""

_NEVER = {
    "AccountNotAllowed",
    "AssocGrpCpuLimit",
    "BadConstraints",
    "DependencyNeverSatisfied",
    "InvalidAccount",
    "InvalidQOS",
    "JobHeldAdmin",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "QOSNotAllowed",
}
"""Reasons for which a job waits in the queue and never starts."""

_LAUNCH = "launch failed requeued held"
"""The reason of a job that a node refused to start: its id is that of another job there, for one."""

_TURN = {"", "None", "BeginTime", "Priority", "Resources"}
"""Reasons of jobs that only wait for their turn."""

_FAILED = {
    "BOOT_FAIL",
    "CANCELLED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
}
"""States of jobs that have ended without doing their work."""


class RefusedError(Exception):
    """Slurm did not take a job; `later` says whether it may take it later, or a smaller array now."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.later = bool(_LATER.search(text))


@dataclass(frozen=True)
class Job:
    """A job that waits or runs.

    Attributes:
        name: as given at submission.
        state: Slurm's word in capitals, such as PENDING.
        reason: why it waits.
    """

    name: str
    state: str
    reason: str

    @property
    def hopeless(self) -> bool:
        """Whether it waits for something that does not come."""
        return self.state == "PENDING" and self.reason in _NEVER

    @property
    def refused_by_node(self) -> bool:
        """Whether its start failed, so that Slurm holds it; sent anew it may start."""
        return self.state == "PENDING" and self.reason == _LAUNCH

    @property
    def obstacle(self) -> str:
        """Why it waits, where that is more than its turn, such as nodes that are drained; else ""."""
        waits = self.state == "PENDING" and self.reason not in _TURN
        return self.reason if waits else ""


def check_programs() -> None:
    """Raise `RuntimeError` unless the programs and submitit are there."""
    for program in ("sbatch", "squeue", "scontrol", "scancel"):
        if shutil.which(program) is None:
            raise RuntimeError(f"a sweep on Slurm needs {program} on PATH, which is not there")
    submitit()


def options(where: str) -> tuple[str, dict[str, str]]:
    """The partition, and the options of `sbatch` after it by name.

    Raises:
        ValueError: `where` is not a partition and then options `--name=value`, or `--time` is no time limit.
    """
    partition, *words = shlex.split(where) or [""]
    found = dict(word[2:].split("=", 1) for word in words if word[:2] == "--" and "=" in word)
    if partition.startswith("-") or not partition or len(found) != len(words):
        raise ValueError(f"SLURM must be a partition, then options --name=value, got {where!r}")
    if "time" in found:
        minutes(found["time"])
    return partition, found


def minutes(limit: str) -> int:
    """A time limit in minutes, rounded up.

    Args:
        limit: as `sbatch` takes it: "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours",
            "days-hours:minutes" or "days-hours:minutes:seconds".

    Raises:
        ValueError: `limit` is not of one of these forms, or zero.
    """
    form = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", limit)
    if form is None:
        raise ValueError(f"--time must be a limit such as 90, 8:00:00 or 2-12, got {limit!r}")
    days, *parts = (None if part is None else int(part) for part in form.groups())
    given = [part for part in parts if part is not None]
    if days is not None or len(given) == 3:
        hours, middle, seconds = [*given, 0, 0][:3]
    else:
        hours, middle, seconds = 0, given[0], given[1] if len(given) == 2 else 0
    found = -(-(((days or 0) * 24 + hours) * 3600 + middle * 60 + seconds) // 60)
    if found < 1:
        raise ValueError(f"--time must be at least one minute, got {limit!r}")
    return found


def has_gpus(partition: str) -> bool | None:
    """Whether some node of a partition has a GPU; None where Slurm does not answer."""
    told = _ask("sinfo", "--noheader", f"--partition={partition}", "--format=%G")
    return None if told is None else "gpu" in told


def queue() -> dict[str, Job] | None:
    """The user's jobs that wait or run, by id ("12" or, in an array, "12_3"); None without an answer."""
    told = _ask(
        "squeue", "--noheader", "--array", f"--user={getpass.getuser()}", "--format=%i|%T|%r|%j"
    )
    if told is None:
        return None
    rows = (line.split("|", 3) for line in told.splitlines() if line.count("|") >= 3)
    return {number: Job(name, state, reason) for number, state, reason, name in rows}


def end_of(number: str, name: str) -> tuple[bool, str]:
    """Whether Slurm says that a job has failed, and its words: state, reason, exit code.

    A job of the same id and another name is another one, and says nothing.
    """
    told = _ask("scontrol", "--oneliner", "show", "job", number) or ""
    fields = dict(part.split("=", 1) for part in told.split() if "=" in part)
    if fields.get("JobName") != name:
        return False, ""
    names = ("JobState", "Reason", "ExitCode")
    said = "; ".join(f"{name}={fields[name]}" for name in names if name in fields)
    return fields.get("JobState", "") in _FAILED, said


def cancel(name: str, numbers: Sequence[str]) -> None:
    """Cancel jobs of one array; those that have ended meanwhile are no error."""
    _ask("scancel", f"--name={name}", *numbers)


def _ask(*command: str) -> str | None:
    """What a program prints; None where it fails, hangs or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


# With submitit ------------------------------------------------------------------------------------


def send(
    function: Callable[[Any], Any],
    arguments: Sequence[tuple[Any, ...]],
    folder: Path,
    parameters: Mapping[str, Any],
) -> list[str]:
    """Send one array of jobs, `function` of each tuple of arguments; return the job ids in order.

    `sbatch` itself waits up to two minutes for room in a full queue.

    Args:
        function: importable by name on the nodes.
        arguments: can be pickled.
        folder: where submitit keeps scripts, logs and answers; shared with the nodes.
        parameters: those of submitit's `SlurmExecutor`.

    Raises:
        RefusedError: Slurm did not take the array.
    """
    package = submitit()
    # A job at its time limit ends, instead of being queued again: a run without saved states would begin anew.
    executor = package.SlurmExecutor(folder=folder, max_num_timeout=0)
    executor.update_parameters(**parameters)
    try:
        return [job.job_id for job in executor.map_array(function, *zip(*arguments, strict=True))]
    except (package.core.utils.FailedJobError, package.core.utils.FailedSubmissionError) as why:
        lines = [line for line in str(why).splitlines() if line.strip()]
        raise RefusedError(lines[-1] if lines else "sbatch failed without a word") from None


def job_of(number: str, folder: Path) -> Any:
    """submitit's object for a job: its paths, its answer."""
    return submitit().SlurmJob(folder=folder, job_id=number, tasks=[0])


def submitit() -> Any:
    """The package submitit.

    Raises:
        RuntimeError: it is not installed.
    """
    try:
        import submitit as package
    except ImportError as problem:
        raise RuntimeError(
            "a sweep on Slurm needs the package submitit (extra `slurm`)"
        ) from problem
    return package
