"""What the runs of a profile would cost, before any of them is made: `make paper DRY=1`."""

from __future__ import annotations

from collections.abc import Sequence

from reproduce import needs
from reproduce.catalogue import Figure
from reproduce.needs import Need
from reproduce.progress import duration
from reproduce.records import Task, look_up, tasks_of


def text(entries: Sequence[Figure], profile: str) -> str:
    """A table of the runs of some figures in a profile: how many, what each needs, where that comes from.

    A run that several figures need counts with the first. Hours of one core or one GPU of the machine that
    measured; nothing is guessed for a run that nobody has measured.
    """
    rows = [("figure", "runs", "to do", "GPU", "time per run", "memory per run", "estimate")]
    seen: set[str] = set()
    known, unknown = 0.0, 0
    for entry in entries:
        tasks = {task.key: task for task in tasks_of(entry, profile) if task.key not in seen}
        seen |= tasks.keys()
        todo = [task for task in tasks.values() if look_up(task) is None]
        if tasks:
            found = [needs.of(task) for task in todo]
            known += sum(need.seconds for need in found if need.source == "measured")
            unknown += sum(need.source != "measured" for need in found)
            rows.append((entry.id, str(len(tasks)), str(len(todo)), *_cells(todo, found)))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in rows]  # fmt: skip
    lines.append(
        f"to do: {duration(known)} of measured computing, and {unknown} runs that nobody has measured"
    )
    return "\n".join(lines)


def _cells(todo: Sequence[Task], found: Sequence[Need]) -> tuple[str, str, str, str]:
    """GPU, time, memory and source of the runs to be made."""
    measured = [need for need in found if need.source == "measured"]
    if not todo:
        return "-", "-", "-", "every record is there"
    gpu = "yes" if any(need.gpu for need in found) else "no"
    if not measured:
        return gpu, "not measured", "not measured", "none: no run of these parameters was made"
    times = sorted(need.seconds for need in measured)
    memory = [need.mib for need in measured if need.mib != needs.UNKNOWN_MIB]
    return (
        gpu,
        f"{duration(times[0])} to {duration(times[-1])}",
        f"{max(memory):.0f} MiB" if memory else "not measured",
        f"{len(measured)} of {len(todo)} measured",
    )
