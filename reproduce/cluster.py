"""Training runs as Slurm jobs: sent in arrays, watched through their records and the queue.

A run is over when its record lies on disk, when submitit has the job's answer, when `scontrol` says that the job
failed, or when `squeue` has not listed it for three looks. Nothing here depends on `sacct`. Where the controller
does not answer, the jobs are waited for; where the queue is full, what is left is sent when there is room. A
submitter that was killed, or a second one beside the first, takes on the jobs that are in the queue and sends
only what is not (`reproduce.arrays` says how).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from reproduce import arrays, needs, pool, slurm
from reproduce.arrays import Array
from reproduce.progress import Watch, duration
from reproduce.records import Task, look_up, record_path

__all__ = ["STATES", "compute", "last_line", "submit", "table"]

STATES = ("queued", "running", "done", "failed")
"""What a run can be."""

_LOOK = 5.0
"""Seconds between two looks at the queue."""
_GONE = 3
"""Looks in a row at which a job without an answer must be missing from the queue to count as ended."""
_AGAIN = 30.0
"""Seconds after which jobs that were refused are sent again."""
_PATIENCE = 60.0
"""Seconds for which Slurm may refuse or keep silent as long as no job of this sweep is in the queue."""
_TABLE = 60.0
"""Seconds between two tables."""


def submit(
    tasks: Sequence[Task], where: str, labels: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Compute the missing ones of `tasks` as Slurm jobs; return the errors by task key.

    The jobs write their records to `data/runs/`, which must lie on a file system they share with this
    machine. Time, memory and GPUs of each job follow from `reproduce.needs`.

    Args:
        tasks: runs.
        where: a partition and options of `sbatch`, such as "gpu --account=lab --qos=long"; an option wins over
            what the workbook would ask for, as in "gpu --time=2-0 --mem=64G".
        labels: task key -> the figure it is counted under in tables; default: the name of the task.

    Raises:
        ValueError: `where` is not of this form.
        RuntimeError: this machine has no `sbatch`, `squeue`, `scontrol` or `scancel`, or submitit is not
            installed.
    """
    partition, options = slurm.options(where)
    slurm.check_programs()
    sender = _Sender(tasks, partition, options)
    with ThreadPoolExecutor(1) as thread:
        return _Sweep(tasks, labels or {}, sender, thread).run()


def compute(bundle: Sequence[Task]) -> dict[str, str]:
    """Compute and store some runs one after the other, in a job; return the errors by task key."""
    errors = {task.key: pool.compute_one(task) for task in bundle}
    return {key: error for key, error in errors.items() if error}


class _Sender:
    """Sends what is not in the queue. It works in a thread: `sbatch` may take minutes."""

    def __init__(self, tasks: Sequence[Task], partition: str, options: Mapping[str, str]) -> None:
        self.rest = {task.key: task for task in tasks}
        self.refused = ""
        self._partition, self._options = partition, options
        self.final = False
        self._largest = 0

    def attempt(self) -> dict[str, list[Task]]:
        """Take on the jobs that are in the queue, send the others; job id -> its runs, for those that go.

        What Slurm does not take stays in `rest`; `refused` holds its words, `final` whether it never will.
        """
        with arrays.lock():
            queue, gpus = slurm.queue(), slurm.has_gpus(self._partition)
            if queue is None or gpus is None:
                self.refused = "squeue does not answer"
                return {}
            # After the look at the queue: a run that ends in between is seen in one of the two.
            for key in [key for key, task in self.rest.items() if look_up(task) is not None]:
                del self.rest[key]
            known = arrays.notes()
            jobs = self._adopt(queue, known)
            alone = {key for one in known.values() for keys in one["bundles"] for key in keys}  # type: ignore[attr-defined]
            todo = arrays.arrays(list(self.rest.values()), gpus, alone)
            self.refused = ""
            while todo:
                array = todo.pop(0)
                if self._largest and len(array.bundles) > self._largest:
                    todo = arrays.halves(array) + todo
                    continue
                try:
                    jobs |= self._send(array)
                except slurm.RefusedError as why:
                    self.refused, self.final = str(why), not why.later
                    self._largest = max(1, len(array.bundles) // 2)
                    break
        return jobs

    def _adopt(
        self, queue: Mapping[str, slurm.Job], known: Mapping[str, Mapping[str, object]]
    ) -> dict[str, list[Task]]:
        """The jobs in the queue that compute runs of this sweep.

        A job whose orders were never written, since its sender was killed at that moment, is cancelled.
        """
        jobs, lame = {}, []
        for number, job in queue.items():
            keys = arrays.keys_of(number, job.name, known)
            if keys and not slurm.job_of(number, arrays.folder()).paths.submitted_pickle.exists():
                lame.append(number)
            elif runs := [self.rest.pop(key) for key in keys if key in self.rest]:
                jobs[number] = runs
        slurm.cancel(lame)
        return jobs

    def _send(self, array: Array) -> dict[str, list[Task]]:
        name = arrays.note(array)
        parameters = array.parameters(name, self._partition, self._options)
        numbers = slurm.send(compute, array.bundles, arrays.folder(), parameters)
        arrays.sent(name, numbers[0].partition("_")[0])
        for bundle in array.bundles:
            for task in bundle:
                del self.rest[task.key]
        return {n: list(bundle) for n, bundle in zip(numbers, array.bundles, strict=True)}


class _Sweep:
    """Waits until every run is over, and tells how far they are."""

    def __init__(
        self,
        tasks: Sequence[Task],
        labels: Mapping[str, str],
        sender: _Sender,
        thread: ThreadPoolExecutor,
    ) -> None:
        self._sender, self._thread = sender, thread
        self._all = {task.key: task for task in tasks}
        self._labels = {task.key: labels.get(task.key, task.name) for task in tasks}
        self._open = dict(self._all)
        self._records = {task.key: record_path(task) for task in tasks}
        self._jobs: dict[str, list[Task]] = {}
        self._errors: dict[str, str] = {}
        self._absent: Counter[str] = Counter()
        self._watch = Watch(len(self._all), report=_say)
        self._sending: Future[dict[str, list[Task]]] | None = None
        self._next, self._table_at, self._alive = 0.0, 0.0, time.monotonic()
        self._last = ""

    def run(self) -> dict[str, str]:
        """The errors by task key."""
        while True:
            self._send()
            queue = slurm.queue() if self._jobs else {}
            self._look(queue)
            if not self._open:
                break
            self._tell(queue)
            time.sleep(_LOOK)
        self._watch.close()
        _say(self._table({}))
        return self._errors

    def _send(self) -> None:
        """Collect what was sent, and send again what was refused, from time to time."""
        now = time.monotonic()
        if self._sending is not None:
            if not self._sending.done():
                return
            self._jobs |= self._sending.result()
            self._sending, self._next = None, now + _AGAIN
            self._table_at = 0.0
        if self._jobs:
            self._alive = now
        if self._sender.rest and (self._sender.final or now - self._alive > _PATIENCE):
            self._fail(self._sender.rest.values(), f"Slurm refused the job: {self._sender.refused}")
            self._sender.rest.clear()
        if self._sender.rest and now >= self._next:
            self._sending = self._thread.submit(self._sender.attempt)

    def _look(self, queue: Mapping[str, slurm.Job] | None) -> None:
        """Find out which runs are over."""
        for task in [task for key, task in self._open.items() if self._records[key].exists()]:
            if look_up(task) is not None:
                self._end(task, "")
        for number, runs in list(self._jobs.items()):
            if queue is not None:
                self._absent[number] = 0 if number in queue else self._absent[number] + 1
            if self._left(runs):
                for task, error in self._answer(number, runs):
                    self._end(task, error)
            if self._left(runs):
                self._fail(self._left(runs), self._lost(number, queue))
            if not self._left(runs):
                del self._jobs[number]
                self._next = 0.0  # there is room in the queue

    def _left(self, runs: Sequence[Task]) -> list[Task]:
        return [task for task in runs if task.key in self._open]

    def _answer(self, number: str, runs: Sequence[Task]) -> list[tuple[Task, str]]:
        """The runs of a job that it says have failed, each with the error.

        A run of an answer without an error and without a record is not among them: the file system shows the
        record late.
        """
        job = slurm.job_of(number, arrays.folder())
        if not job.paths.result_pickle.exists():
            return []
        try:
            errors = job.result()
        except Exception as why:  # a job can fail in many ways; all of them are reported
            words = str(why).strip().splitlines() or [""]
            text = f"{type(why).__name__}: {words[-1]}; log {job.paths.stderr}"
            errors = {task.key: text for task in runs}
        return [(task, errors[task.key]) for task in self._left(runs) if task.key in errors]

    def _lost(self, number: str, queue: Mapping[str, slurm.Job] | None) -> str:
        """Why a job will never answer; "" while it may."""
        if queue is None:
            return ""
        if number in queue:
            if not queue[number].hopeless:
                return ""
            slurm.cancel([number])
            return f"job {number} was cancelled, since it cannot start: {queue[number].reason}"
        failed, said = slurm.end_of(number)
        if self._absent[number] < (1 if failed else _GONE):
            return ""
        log = slurm.job_of(number, arrays.folder()).paths.stderr
        lines = [
            f"job {number} left the queue without a record",
            said,
            last_line(log),
            f"log {log}",
        ]
        return "; ".join(line for line in lines if line)

    def _fail(self, tasks: Iterable[Task], error: str) -> None:
        """These runs are over if there is an error; their records may have come meanwhile."""
        for task in self._left(list(tasks)) if error else []:
            self._end(task, "" if look_up(task) is not None else error)

    def _end(self, task: Task, error: str) -> None:
        del self._open[task.key]
        if error:
            self._errors[task.key] = error
        self._watch.step(task, error)

    # What is told -----------------------------------------------------------------------------------

    def _tell(self, queue: Mapping[str, slurm.Job] | None) -> None:
        """A line when Slurm does not answer or refuses, and a table from time to time."""
        text = "squeue does not answer; waiting" if queue is None else ""
        if not text and self._sender.rest and self._sender.refused:
            text = f"{len(self._sender.rest)} runs wait to be sent: {self._sender.refused}"
        if text and text != self._last:
            _say(f"{self._watch.text()}; {text}")
        self._last = text
        if time.monotonic() >= self._table_at and self._sending is None:
            _say(self._table(queue or {}))
            self._table_at = time.monotonic() + _TABLE

    def _table(self, queue: Mapping[str, slurm.Job]) -> str:
        """Queued, running, done and failed runs of each figure, and how long the rest will take."""
        states = dict.fromkeys(self._open, "queued")
        for number, runs in self._jobs.items():
            left = self._left(runs)
            if left and number in queue and queue[number].state == "RUNNING":
                states[left[0].key] = "running"  # the runs of a job go one after the other
        for key in self._records.keys() - self._open.keys():
            states[key] = "failed" if key in self._errors else "done"
        return table([(self._labels[key], task, states[key]) for key, task in self._all.items()])


def table(rows: Sequence[tuple[str, Task, str]]) -> str:
    """A table of runs by label and state, with an estimate of the rest.

    Args:
        rows: label, run, and queued, running, done or failed.
    """
    width = max((len(label) for label, _, _ in rows), default=0)
    lines = [" ".join([" " * width, *(f"{state:>7}" for state in STATES), "  left"])]
    running = max(1, sum(state == "running" for _, _, state in rows))
    for label in dict.fromkeys(label for label, _, _ in rows):
        own = [(task, state) for name, task, state in rows if name == label]
        count = Counter(state for _, state in own)
        lines.append(" ".join([f"{label:{width}}", *(f"{count[state]:7d}" for state in STATES)]))
        rest = [task for task, state in own if state in ("queued", "running")]
        if rest:
            lines[-1] += f"  {duration(sum(needs.of(task).seconds for task in rest))} of computing"
    rest = sum(needs.of(task).seconds for _, task, state in rows if state in ("queued", "running"))
    if rest:
        lines.append(f"about {duration(rest / running)} left with {running} at a time")
    return "\n".join(lines)


def last_line(log: Path) -> str:
    """The last line of a log; "" where there is none."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def _say(text: str) -> None:
    print(text, flush=True)
