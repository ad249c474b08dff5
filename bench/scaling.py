"""How well times and memory are scaled: runs of desk and long, predicted from the quick ones alone.

    make bench, or: sh reproduce/python.sh bench/scaling.py

What `make paper DRY=1` says of runs that nobody has made rests on the same function. Reads committed costs and
published records only, so that it prints the same everywhere.
"""

from __future__ import annotations

from reproduce import catalogue, needs, work
from reproduce.records import Task, tasks_of

KINDS = ("random_participation/training", "partitioning/training", "pmsfl/training")


def runs(name: str) -> dict[str, list[tuple[Task, float, float]]]:
    """Every configuration of one kind that was measured: profile -> run, seconds, MiB (0: not measured)."""
    found: dict[str, list[tuple[Task, float, float]]] = {"quick": [], "desk": [], "long": []}
    seen = set()
    for entry in catalogue.figures(name.partition("/")[0]):
        for profile, into in found.items():
            for task in tasks_of(entry, profile):
                cost = needs.measured(task)
                kind = str((task.name, sorted(task.config.items(), key=str)))
                if task.name == name and cost and kind not in seen:
                    seen.add(kind)
                    into.append((task, *cost))
    return found


def main() -> None:
    """Print a line for each kind of run."""
    for name in KINDS:
        found = runs(name)
        quick = [
            needs.Smaller(work.of(name, task.config), seconds, mib)
            for task, seconds, mib in found["quick"]
        ]
        rows = []
        for task, seconds, _ in [*found["desk"], *found["long"]]:
            need = needs.scaled(work.of(name, task.config), quick, gpu=False)
            larger = need.operations / max(one.takes.most for one in quick)
            rows.append((need.least <= seconds <= need.seconds, need.seconds / need.least, larger))
        inside = sum(row[0] for row in rows)
        widths = sorted(row[1] for row in rows)
        print(
            f"{name}: {inside} of {len(rows)} within the range, from {len(quick)} quick runs; up to "
            f"{max(row[2] for row in rows):.0f} times their operations; the range spans a factor of "
            f"{widths[len(widths) // 2]:.0f} (median)"
        )


if __name__ == "__main__":
    main()
