"""What is sent to Slurm: runs bundled into jobs, jobs into arrays, and a note of what is in each.

The note of an array is written before the array is sent, under the name that its jobs bear in the queue. So
whoever reads the queue knows which job computes which run, also when the process that sent them was killed in
between. Notes, scripts, logs and answers lie in `data/runs/.slurm/`.
"""

from __future__ import annotations

import fcntl
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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
        place = (_up(_MEMORY_SAFETY * need.mib / 1024, _MEMORY), int(gpus and need.gpu))
        if task.key in alone or need.seconds >= _BUNDLE:
            close(place, need.seconds, [task])
            continue
        seconds, bundle = open_bundles.get(place, (0.0, []))
        if bundle and seconds + need.seconds > _BUNDLE:
            close(place, seconds, bundle)
            seconds, bundle = 0.0, []
        open_bundles[place] = (seconds + need.seconds, [*bundle, task])
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
    write_json(folder() / f"{name}.json", {"job": "", "bundles": keys})
    return name


def sent(name: str, number: str) -> None:
    """Add the id of an array, "12", to its note, for those who look for logs."""
    path = folder() / f"{name}.json"
    write_json(path, json.loads(path.read_text(encoding="utf-8")) | {"job": number})


def notes() -> dict[str, dict[str, object]]:
    """Every note, the oldest first: name -> `job` and `bundles`, a list of lists of keys."""
    files = sorted(folder().glob(f"{_PREFIX}*.json"), key=lambda path: path.stat().st_mtime_ns)
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def keys_of(number: str, name: str, known: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The keys of the runs that a job in the queue computes; [] for jobs of others."""
    bundles = known.get(name, {}).get("bundles", [])
    place = int(number.partition("_")[2] or 0)
    return bundles[place] if isinstance(bundles, list) and place < len(bundles) else []
