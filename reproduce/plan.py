"""What the runs of a profile would cost, before any of them is made: `make paper DRY=1`."""

from __future__ import annotations

from collections.abc import Sequence

from reproduce import needs
from reproduce.catalogue import Figure
from reproduce.needs import Need
from reproduce.progress import duration
from reproduce.records import look_up, tasks_of


def text(entries: Sequence[Figure], profile: str) -> str:
    """A table of the runs of some figures in a profile: how many, what each needs, where that comes from.

    A run that several figures need counts with the first. Hours are those of one core of the machine that measured.
    Where runs of the same parameters were not made, they are scaled from smaller ones, and lie between two ends.
    """
    rows = [("figure", "runs", "to do", "GPU", "time per run", "memory per run", "basis")]
    seen: set[str] = set()
    every: list[Need] = []
    for entry in entries:
        tasks = {task.key: task for task in tasks_of(entry, profile) if task.key not in seen}
        seen |= tasks.keys()
        todo = [task for task in tasks.values() if look_up(task) is None]
        if tasks:
            found = [needs.of(task) for task in todo]
            every += found
            rows.append((entry.id, str(len(tasks)), str(len(todo)), *_cells(found)))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in rows]  # fmt: skip
    known = [need for need in every if need.known]
    least, most = (sum(getattr(need, end) for need in known) for end in ("least", "seconds"))
    lines.append(
        f"to do: {_span(least, most)} on one core, and {len(every) - len(known)} runs of which nothing is known"
    )
    on_gpus = [need for need in known if need.gpu]
    if any(need.operations for need in on_gpus):
        operations = sum(need.operations for need in on_gpus)
        lines.append(
            f"of it for a GPU: {_span(sum(n.least for n in on_gpus), sum(n.seconds for n in on_gpus))} of a core, "
            f"up to {operations:.1e} floating-point operations; at 10 TFLOP/s, which was not measured, "
            f"{_time(operations / 1e13)}"
        )
    return "\n".join(lines)


def _cells(found: Sequence[Need]) -> tuple[str, str, str, str]:
    """GPU, time, memory and basis of the runs to be made."""
    known = [need for need in found if need.known]
    if not found:
        return "-", "-", "-", "every record is there"
    gpu = "yes" if any(need.gpu for need in found) else "no"
    if not known:
        return gpu, "not known", "not known", "none: no run of this kind was made"
    memory = [need.mib for need in known if need.mib != needs.UNKNOWN_MIB]
    return (
        gpu,
        _span(min(need.least for need in known), max(need.seconds for need in known)),
        _memory(max(memory)) if memory else "not known",
        _basis(known, len(found)),
    )


def _basis(known: Sequence[Need], runs: int) -> str:
    """How many runs were measured, and what the others are scaled from: the words of the largest."""
    measured = [need for need in known if not need.operations]
    scaled = [need for need in known if need.operations]
    parts = [f"{len(measured)} of {runs} measured"] if measured else []
    if scaled:
        parts.append(max(scaled, key=lambda need: need.operations).source)
    return "; ".join(parts)


def _span(least: float, most: float) -> str:
    """Two ends of a time, or one where they are the same."""
    return " to ".join(dict.fromkeys(_time(seconds) for seconds in (least, most)))


def _time(seconds: float) -> str:
    """A time to read; hundreds of hours and more to two digits, since they are scaled."""
    if seconds < 360_000:
        return duration(seconds)
    return f"{float(f'{seconds / 3600:.2g}'):,.0f} h"


def _memory(mib: float) -> str:
    """A size to two digits."""
    return f"{mib:.0f} MiB" if mib < 1000 else f"{mib / 1024:.1f} GiB"
