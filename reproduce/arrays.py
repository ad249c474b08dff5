"""What is sent to Slurm: runs bundled into jobs, jobs into arrays, and a note of what is in each.

The note of an array is written before the array is sent, under the name that its jobs bear in the queue. So
whoever reads the queue knows which job computes which run, also when the process that sent them was killed in
between. Note, scripts, logs and answers of an array lie in `data/runs/.slurm/<name>/`, a folder of its own: a
controller that lost its state gives job ids again, and what belongs to a job is told by name and id together.
"""

from __future__ import annotations

import fcntl
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.atomic import write_json
from reproduce import needs, paths, slurm
from reproduce.machine import THREADS
from reproduce.records import Task

_PREFIX = "repro-"
_BUNDLE = 60.0
"""Seconds of work, as estimated, that short runs are bundled up to: starting a job takes some 10 s."""
_ARRAY = 500
"""Jobs in an array; clusters allow 1001 as a rule."""
_SAFETY = 3.0
"""What the estimated time of a job is multiplied by for its limit: nodes differ, estimates are scaled."""
_MEMORY_SAFETY = 1.5
_LIMITS = (10, 30, 60, 120, 240, 480, 960, 1440, 2880, 4320)
"""Time limits in minutes; longer runs go on from their last state at the next call, or get `--time`."""
_MEMORY = (4, 8, 16, 32, 64, 128)
"""Memory in GiB. A job holds what all its runs leave behind; with 1 GiB a bundle of small runs was killed."""
_GPU_CORES = 4
"""Cores of a job with a GPU. Every run on a CPU has one thread."""
_GPU_OPTIONS = {"gres", "gpus", "gpus_per_node", "gpus_per_task", "gpus_per_socket"}


@dataclass(frozen=True)
class Array:
    """Bundles of runs that ask for the same: one job each.

    Attributes:
        bundles: the runs of each job.
        minutes: time limit of a job.
        gib: memory of a job.
        gpus: GPUs of a job.
    """

    bundles: tuple[tuple[Task, ...], ...]
    minutes: int
    gib: int
    gpus: int

    def parameters(
        self, name: str, partition: str, options: Mapping[str, str]
    ) -> dict[str, object]:
        """What submitit is told; options of `sbatch` given by the user come last and win."""
        given = {key.replace("-", "_"): value for key, value in options.items()}
        # submitit must know the limit: it takes the signal before the end for a preemption otherwise.
        limit = given.pop("time", None)
        asked: dict[str, object] = {
            "job_name": name,
            "partition": partition,
            "time": self.minutes if limit is None else slurm.minutes(limit),
            "mem": f"{self.gib}G",
            "cpus_per_task": _GPU_CORES if self.gpus else 1,
            "additional_parameters": given,
        }
        if self.gpus and not _GPU_OPTIONS & given.keys():
            asked["gpus_per_node"] = self.gpus
        if not self.gpus:
            asked["setup"] = [f"export {variable}=1" for variable in THREADS]
        return asked


@dataclass(frozen=True, eq=False)
class Sent:
    """A job that was sent.

    Attributes:
        name: that of its array, which no other array has.
        number: its id in the queue, "12" or "12_3"; another job may get the same one later.
        runs: what it computes, one after the other.
    """

    name: str
    number: str
    runs: tuple[Task, ...]

    @property
    def home(self) -> Path:
        """Where everything about its array lies."""
        return folder() / self.name

    @property
    def answer(self) -> Any:
        """submitit's object for it: logs, result."""
        return slurm.job_of(self.number, self.home)

    @property
    def beats(self) -> Path:
        """The file that it touches as long as it lives."""
        return beats(self.name, place(self.number))

    @property
    def given_up(self) -> Path:
        """A file that is there once nobody waits for the job any more."""
        return self.home / f"given-up-{place(self.number)}"


def beats(name: str, place: int) -> Path:
    """The file that a job touches: array, place in it."""
    return folder() / name / f"beats-{place}"


def listed(job: Sent, queue: Mapping[str, slurm.Job]) -> slurm.Job | None:
    """What the queue says of a job; None where it lists none of this id and name."""
    found = queue.get(job.number)
    return found if found is not None and found.name == job.name else None


def place(number: str) -> int:
    """The place of a job in its array: 3 for "12_3", 0 for "12"."""
    return int(number.partition("_")[2] or 0)


def arrays(tasks: Sequence[Task], gpus: bool, alone: set[str]) -> list[Array]:
    """Bundle runs into jobs and jobs into arrays, the longest first.

    Args:
        tasks: the runs.
        gpus: whether there are GPUs to ask for; without, every run computes on a core.
        alone: keys of runs that get a job of their own.
    """
    groups: dict[tuple[int, int, int], list[tuple[Task, ...]]] = {}
    open_bundles: dict[tuple[int, int], tuple[float, list[Task]]] = {}

    def close(place: tuple[int, int], seconds: float, bundle: list[Task]) -> None:
        minutes = _up(_SAFETY * seconds / 60, _LIMITS)
        groups.setdefault((minutes, *place), []).append(tuple(bundle))

    for task in tasks:
        need = needs.of(task)
        on_gpu = gpus and need.gpu
        # what is scaled are seconds of a core, which say nothing of a GPU
        seconds = needs.UNKNOWN_SECONDS if on_gpu and need.source != "measured" else need.seconds
        place = (_up(_MEMORY_SAFETY * need.mib / 1024, _MEMORY), int(on_gpu))
        if task.key in alone or seconds >= _BUNDLE:
            close(place, seconds, [task])
            continue
        before, bundle = open_bundles.get(place, (0.0, []))
        if bundle and before + seconds > _BUNDLE:
            close(place, before, bundle)
            before, bundle = 0.0, []
        open_bundles[place] = (before + seconds, [*bundle, task])
    for place, (seconds, bundle) in open_bundles.items():
        close(place, seconds, bundle)
    return [
        Array(tuple(bundles[start : start + _ARRAY]), *wanted)
        for wanted, bundles in sorted(groups.items(), reverse=True)
        for start in range(0, len(bundles), _ARRAY)
    ]


def halves(array: Array) -> list[Array]:
    """An array in two, the one alone where it holds one job."""
    middle = len(array.bundles) // 2
    parts = [array.bundles[:middle], array.bundles[middle:]]
    return [Array(part, array.minutes, array.gib, array.gpus) for part in parts if part]


def _up(value: float, steps: Sequence[int]) -> int:
    """The first step that is not below a value, else the last."""
    return next((step for step in steps if step >= value), steps[-1])


# Notes --------------------------------------------------------------------------------------------


def folder() -> Path:
    """Where everything about jobs lies; on a file system that this machine shares with the nodes."""
    return paths.RUNS / ".slurm"


@contextmanager
def lock() -> Iterator[None]:
    """One submitter at a time sends jobs; the lock ends with the process."""
    folder().mkdir(parents=True, exist_ok=True)
    with open(folder() / "submit.lock", "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def note(array: Array) -> str:
    """Write down what an array holds; return the name for its jobs."""
    name = _PREFIX + uuid.uuid4().hex[:12]
    keys = [[task.key for task in bundle] for bundle in array.bundles]
    (folder() / name).mkdir()
    write_json(_note(name), {"job": "", "bundles": keys})
    return name


def sent(name: str, number: str) -> None:
    """Add the id of an array, "12", to its note, for those who look for logs."""
    write_json(_note(name), json.loads(_note(name).read_text(encoding="utf-8")) | {"job": number})


def notes() -> dict[str, dict[str, Any]]:
    """Every note, the oldest first: name -> `job` and `bundles`, a list of lists of keys."""
    found = [(path.stat().st_mtime_ns, path) for path in folder().glob(f"{_PREFIX}*/note.json")]
    return {path.parent.name: json.loads(path.read_text("utf-8")) for _, path in sorted(found)}


def _note(name: str) -> Path:
    return folder() / name / "note.json"


def keys_of(number: str, name: str, known: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The keys of the runs that a job in the queue computes; [] for jobs of others."""
    bundles = known.get(name, {}).get("bundles", [])
    return bundles[place(number)] if place(number) < len(bundles) else []
