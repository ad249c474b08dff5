"""What a run needs of a cluster: seconds, memory, a GPU or not; measured, scaled from smaller runs, or not known.

Measured is a run with the same configuration and any seed: one made here, a published one, or one in
`reproduce/run_costs.json`, which `python -m reproduce.needs` renews from the records of this machine. Scaled is a run
whose paper says how much computing it takes (`reproduce.work`) and of whose kind smaller ones were measured: its
seconds per operation are those of the largest of these, from the fastest to the slowest. All other runs get generous
defaults, and say so. Seconds are those of one core of the machine that measured; no GPU has been measured. They are
those that the core computed, where a record tells them apart from those in which it waited: on a busy machine runs
that do the same work took from 35 to 2,530 seconds, of which they computed in 30 to 46.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from repro.atomic import write_json
from reproduce import catalogue, fingerprint, paths, state, work
from reproduce.progress import duration
from reproduce.records import Task, look_up, tasks_of
from reproduce.work import Work

UNKNOWN_SECONDS, UNKNOWN_MIB = 8 * 3600.0, 8192.0
"""What is asked for a run of which nothing is known."""
_COMPARABLE = 0.1
"""Smaller runs count if they take this share or more of the operations of the largest that was measured: of short
runs, starting takes most of the time."""
_MISS = 2.0
"""What a scaled range is widened by at both ends; `bench/scaling.py` says how often it then holds."""
_BELOW = ("quick", "desk", "long")
"""Where smaller runs are looked for."""


@dataclass(frozen=True)
class Need:
    """What a run needs.

    Attributes:
        least, seconds: of computing, from and to; the same where it was measured. > 0.
        mib: peak memory in MiB.
        gpu: whether it uses a GPU where there is one.
        source: "measured", "scaled from …", or "not measured" where the numbers are defaults.
        operations: that it takes at most, in the unit of its kind; 0 where it is not scaled.
    """

    least: float
    seconds: float
    mib: float
    gpu: bool
    source: str
    operations: float = 0.0

    @property
    def known(self) -> bool:
        """Whether the numbers are more than defaults."""
        return self.source != "not measured"


def of(task: Task) -> Need:
    """What a run needs: the largest of what runs of the same configuration took, else what smaller ones suggest."""
    takes = work.of(task.name, task.config)
    device = task.config.get("device")
    gpu = bool(takes and takes.gpu) if device is None else device != "cpu"
    smaller = _smaller(task.name)
    if (cost := measured(task)) is not None:
        mib = cost[1] or _memory(takes, smaller)
        return Need(cost[0], cost[0], mib, gpu, "measured")
    if takes is None or not smaller:
        return Need(UNKNOWN_SECONDS, UNKNOWN_SECONDS, UNKNOWN_MIB, gpu, "not measured")
    return scaled(takes, smaller, gpu)


def measured(task: Task) -> tuple[float, float] | None:
    """The most seconds and MiB (0: not measured) of runs of this configuration; None where none was made."""
    found = _measured().get(_kind(task.name, task.config), [])
    if not found:
        return None
    return max(0.1, *(cost[0] for cost in found)), max(cost[1] for cost in found)


@dataclass(frozen=True)
class Smaller:
    """A run that was measured: what it takes, and took. 0 MiB: not measured."""

    takes: Work
    seconds: float
    mib: float


def scaled(takes: Work, smaller: Sequence[Smaller], gpu: bool) -> Need:
    """What a run needs that takes so much, from runs of its kind that were measured.

    Args:
        takes: the run.
        smaller: at least one.
        gpu: whether it uses a GPU where there is one.
    """
    largest = max(one.takes.most for one in smaller)
    fit = [one for one in smaller if one.takes.most >= _COMPARABLE * largest]
    # where it is open how much a run took, this says little of the seconds per operation
    fit = [one for one in fit if one.takes.least == one.takes.most] or fit
    least = takes.least * min(one.seconds / one.takes.most for one in fit)
    most = takes.most * max(one.seconds / one.takes.least for one in fit)
    longest = max(one.seconds for one in fit)
    source = (
        f"scaled from {_count(len(fit))} of up to {duration(longest)}, "
        f"{_times(takes.most / largest)} their operations"
    )
    least, most = max(least / _MISS, 0.1), max(most * _MISS, 0.1)
    return Need(least, most, _memory(takes, smaller), gpu, source, takes.most)


def _memory(takes: Work | None, smaller: Sequence[Smaller]) -> float:
    """MiB of a run, from what its kind holds beside what grows with the configuration."""
    if takes is None or not any(one.mib for one in smaller):
        return UNKNOWN_MIB
    return max(0.0, *(one.mib - one.takes.mib for one in smaller if one.mib)) + takes.mib


def _count(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs} runs"


def _times(ratio: float) -> str:
    """A factor, to two digits."""
    return f"{float(f'{ratio:.2g}'):,g} times"


@lru_cache(maxsize=64)
def _smaller(name: str) -> list[Smaller]:
    """The runs of one kind that were measured, of the profiles below the paper's."""
    found = []
    for task in _below(name.partition("/")[0]):
        cost = measured(task) if task.name == name else None
        if cost is not None and (takes := work.of(name, task.config)) is not None:
            found.append(Smaller(takes, *cost))
    return found


@lru_cache(maxsize=8)
def _below(paper: str) -> list[Task]:
    """The runs of a paper in the profiles below the paper's, one of each configuration."""
    every = [
        task
        for entry in catalogue.figures(paper)
        for profile in _BELOW
        for task in tasks_of(entry, profile)
    ]
    return list({_kind(task.name, task.config): task for task in every}.values())


def _kind(name: str, config: Any) -> str:
    """What runs of one configuration have in common."""
    return fingerprint.digest([name, dict(config)])[:16]


def _file() -> Path:
    return paths.ROOT / "reproduce" / "run_costs.json"


@lru_cache(maxsize=1)
def _measured() -> dict[str, list[tuple[float, float]]]:
    """Seconds and MiB (0: not measured) of every run known, by kind.

    Where seconds of computing are known of one run of a kind, the others' seconds with waiting do not count.
    """
    found: dict[str, list[tuple[float, float]]] = {}
    for kind, cost in state.read_object(_file()).items():
        found.setdefault(kind, []).append((cost["seconds"], cost["mib"]))
    computing: dict[str, list[tuple[float, float]]] = {}
    for record in _records():
        origin = record["provenance"]
        known, seconds = _seconds(origin)
        into = computing if known else found
        cost = (seconds, float(origin.get("peak_mib", 0)))
        into.setdefault(_kind(record["task"], record["config"]), []).append(cost)
    return found | computing


def _seconds(origin: Mapping[str, Any]) -> tuple[bool, float]:
    """Whether the seconds of computing of a run are known: in one thread; and they, else those that passed."""
    known = "cpu_seconds" in origin and origin.get("threads") == 1
    return known, float(origin["cpu_seconds" if known else "seconds"])


def _records() -> Iterator[dict[str, Any]]:
    """Every record on this machine that can be read, but those of runs on a GPU: they tell nothing of a core."""
    for folder in (paths.RUNS, paths.PUBLISHED):
        for path in sorted(folder.rglob("*.json")):
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                origin = record["provenance"]
                if "seconds" in origin and "gpu" not in origin and "task" in record:
                    yield record
            except (OSError, ValueError, KeyError, TypeError):
                continue


def main() -> int:
    """Store what the quick runs of this machine took; 1 when some were not made."""
    costs, lacking = {}, 0
    for entry in catalogue.figures():
        for task in tasks_of(entry, "quick"):
            if (record := look_up(task)) is None:
                lacking += 1
                continue
            origin, kind = record["provenance"], _kind(task.name, task.config)
            old = costs.get(kind, {"seconds": 0.0, "mib": 0.0})
            costs[kind] = {
                "seconds": max(old["seconds"], _seconds(origin)[1]),
                "mib": max(old["mib"], origin.get("peak_mib", 0.0)),
            }
    if lacking:
        print(f"{lacking} runs were not made; make sweep makes them", file=sys.stderr)
        return 1
    write_json(_file(), dict(sorted(costs.items())))
    print(f"{len(costs)} configurations in {_file()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
