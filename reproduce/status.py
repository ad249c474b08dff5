"""How far a sweep on Slurm is: runs by figure and state, and where the log of each lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from reproduce import arrays, needs, slurm
from reproduce.arrays import Sent
from reproduce.progress import duration
from reproduce.records import Task, look_up

STATES = ("unsent", "queued", "running", "done", "failed")
"""What a run can be."""


def states(
    keys: Iterable[str], jobs: Iterable[Sent], queue: Mapping[str, slurm.Job]
) -> dict[str, str]:
    """The state of runs that are not over: task key -> unsent, queued or running.

    Args:
        keys: those of the runs.
        jobs: what was sent.
        queue: what `squeue` lists.
    """
    told = dict.fromkeys(keys, "unsent")
    for one in jobs:
        left = [task.key for task in one.runs if task.key in told]
        told |= dict.fromkeys(left, "queued")
        job = arrays.listed(one, queue)
        if left and job is not None and job.state == "RUNNING":
            told[left[0]] = "running"  # the runs of a job go one after the other
    return told


_OPEN = ("unsent", "queued", "running")


def table(rows: Sequence[tuple[str, Task, str]]) -> str:
    """A table of runs by label and state, with an estimate of the rest.

    Args:
        rows: label, run, and one of `STATES`.
    """
    width = max((len(label) for label, _, _ in rows), default=0)
    lines = [" ".join([" " * width, *(f"{state:>7}" for state in STATES), "  left"])]
    running = max(1, sum(state == "running" for _, _, state in rows))
    for label in dict.fromkeys(label for label, _, _ in rows):
        own = [(task, state) for name, task, state in rows if name == label]
        count = Counter(state for _, state in own)
        lines.append(" ".join([f"{label:{width}}", *(f"{count[state]:7d}" for state in STATES)]))
        rest = [task for task, state in own if state in _OPEN]
        if rest:
            lines[-1] += f"  {duration(sum(needs.of(task).seconds for task in rest))} of computing"
    rest = sum(needs.of(task).seconds for _, task, state in rows if state in _OPEN)
    if rest:
        lines.append(f"about {duration(rest / running)} left with {running} at a time")
    return "\n".join(lines)


def report(labelled: Mapping[str, tuple[str, Task]], seed: int | None) -> str:
    """The table of a sweep that goes on elsewhere or has ended, and a line with the log of each run that was sent.

    Args:
        labelled: task key -> figure and run.
        seed: show the lines of this seed only; None: of every run that has no record yet.

    Raises:
        RuntimeError: `squeue` does not answer, or submitit is not installed.
    """
    if (queue := slurm.queue()) is None:
        raise RuntimeError("squeue does not answer, so the state of the jobs is not known")
    told = {
        key: "unsent" if look_up(task) is None else "done" for key, (_, task) in labelled.items()
    }
    last: dict[str, Sent] = {}
    for one in _sent({key: task for key, (_, task) in labelled.items()}, queue):
        last |= {task.key: one for task in one.runs}
        rest = [task.key for task in one.runs if told[task.key] != "done"]
        # Slurm lists a job for a moment after it has answered
        over = one.given_up.exists() or (one.number and one.answer.paths.result_pickle.exists())
        waits = arrays.listed(one, queue) is not None and not over
        told |= states(rest, [one], queue) if waits else dict.fromkeys(rest, "failed")
    lines = [table([(*labelled[key], state) for key, state in told.items()])]
    for key, one in last.items():
        label, task = labelled[key]
        if told[key] != "done" if seed is None else task.seed == seed:
            log = one.answer.paths.stderr if one.number else one.home
            lines.append(f"{label} seed {task.seed} {told[key]}, job {one.number or '?'}, {log}")
    return "\n".join(lines)


def _sent(tasks: Mapping[str, Task], queue: Mapping[str, slurm.Job]) -> list[Sent]:
    """What was ever sent of some runs, the oldest first; the id is "" where its sender died before it noted it."""
    named = {(job.name, arrays.place(number)): number for number, job in queue.items()}
    found = []
    for name, note in arrays.notes().items():
        alone = len(note["bundles"]) == 1
        for place, keys in enumerate(note["bundles"]):
            runs = tuple(tasks[key] for key in keys if key in tasks)
            known = note["job"] if alone or not note["job"] else f"{note['job']}_{place}"
            if runs:
                found.append(Sent(name, known or named.get((name, place), ""), runs))
    return found
