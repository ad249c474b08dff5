"""What a run needs of a cluster, as far as it was measured: seconds, memory, a GPU or not.

Measured is a run with the same configuration and any seed: one made here, a published one, or one in
`reproduce/run_costs.json`, which `python -m reproduce.needs` renews from the records of this machine. A run whose
configuration nobody has measured gets generous defaults, and says so. Seconds are those of the machine that
measured; another one may need more or fewer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from repro.atomic import write_json
from reproduce import catalogue, fingerprint, paths, state
from reproduce.records import Task, look_up, tasks_of

UNKNOWN_SECONDS, UNKNOWN_MIB = 8 * 3600.0, 8192.0
"""What is asked for a run that nobody has measured."""


@dataclass(frozen=True)
class Need:
    """What a run needs.

    Attributes:
        seconds: of computing, > 0.
        mib: peak memory in MiB.
        gpu: whether it uses a GPU where there is one.
        source: "measured", or "not measured" where the numbers are defaults.
    """

    seconds: float
    mib: float
    gpu: bool
    source: str


def of(task: Task) -> Need:
    """What a run needs: the largest of what runs of the same configuration took."""
    gpu = task.config.get("device", "cpu") != "cpu"
    found = _measured().get(_kind(task.name, task.config), [])
    if not found:
        return Need(UNKNOWN_SECONDS, UNKNOWN_MIB, gpu, "not measured")
    seconds, mib = (max(cost[place] for cost in found) for place in (0, 1))
    return Need(max(seconds, 0.1), mib or UNKNOWN_MIB, gpu, "measured")


def _kind(name: str, config: Any) -> str:
    """What runs of one configuration have in common."""
    return fingerprint.digest([name, dict(config)])[:16]


def _file() -> Path:
    return paths.ROOT / "reproduce" / "run_costs.json"


@lru_cache(maxsize=1)
def _measured() -> dict[str, list[tuple[float, float]]]:
    """Seconds and MiB (0: not measured) of every run known, by kind."""
    found: dict[str, list[tuple[float, float]]] = {}
    for kind, cost in state.read_object(_file()).items():
        found.setdefault(kind, []).append((cost["seconds"], cost["mib"]))
    for record in _records():
        origin = record["provenance"]
        cost = (float(origin["seconds"]), float(origin.get("peak_mib", 0)))
        found.setdefault(_kind(record["task"], record["config"]), []).append(cost)
    return found


def _records() -> Iterator[dict[str, Any]]:
    """Every record on this machine that can be read."""
    for folder in (paths.RUNS, paths.PUBLISHED):
        for path in sorted(folder.rglob("*.json")):
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                if "seconds" in record["provenance"] and "task" in record:
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
                "seconds": max(old["seconds"], origin["seconds"]),
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
