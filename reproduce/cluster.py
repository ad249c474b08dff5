"""Training runs as Slurm jobs: sent in arrays, watched through their records and the queue.

A run is over when its record lies on disk, when submitit has the job's answer, when `scontrol` says that the job
failed, when `squeue` has not listed it for three looks, or when Slurm calls the job running and the job has given
no sign of life for 40 s (`reproduce.heartbeat`). Nothing here depends on `sacct`. Where the controller does not
answer, the jobs are waited for; so are they where the nodes are drained; where the queue is full, what is left is
sent when there is room. A job that its node refused to start is sent anew. A submitter that was killed, or a second
one beside the first, takes on the jobs that are in the queue and sends only what is not (`reproduce.arrays` says
how).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from reproduce import arrays, pool, slurm
from reproduce.arrays import Array, Sent
from reproduce.heartbeat import SILENCE, Pulse, beating
from reproduce.progress import Watch
from reproduce.records import Task, look_up, record_path
from reproduce.status import states, table

__all__ = ["compute", "last_line", "submit"]

_LOOK = 5.0
"""Seconds between two looks at the queue."""
_GONE = 3
"""Looks in a row at which a job without an answer must be missing from the queue to count as ended."""
_LAUNCHES = 3
"""Times that a run is sent whose job a node refuses to start."""
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


def compute(beats: Path, bundle: Sequence[Task]) -> dict[str, str]:
    """Compute and store some runs one after the other, in a job; return the errors by task key.

    Args:
        beats: the file to touch meanwhile.
        bundle: the runs.
    """
    with beating(beats):
        errors = {task.key: pool.compute_one(task) for task in bundle}
    return {key: error for key, error in errors.items() if error}


class _Sender:
    """Sends what is not in the queue. It works in a thread: `sbatch` may take minutes."""

    def __init__(self, tasks: Sequence[Task], partition: str, options: Mapping[str, str]) -> None:
        self.rest = {task.key: task for task in tasks}
        self.refused = ""
        self.never: dict[str, str] = {}
        self._partition, self._options = partition, options
        self._largest = 0

    def attempt(self) -> list[Sent]:
        """Take on the jobs that are in the queue, send the others; the jobs that go.

        What Slurm does not take now stays in `rest`, and `refused` holds its words. What it will never take moves to
        `never`, with its words by task key; the next arrays may ask for less.
        """
        with arrays.lock():
            queue, gpus = slurm.queue(), slurm.has_gpus(self._partition)
            if queue is None or gpus is None:
                self.refused = "squeue does not answer"
                return []
            # After the look at the queue: a run that ends in between is seen in one of the two.
            for key in [key for key, task in self.rest.items() if look_up(task) is not None]:
                del self.rest[key]
            known = arrays.notes()
            jobs = self._adopt(queue, known)
            alone = {key for one in known.values() for keys in one["bundles"] for key in keys}
            todo = arrays.arrays(list(self.rest.values()), gpus, alone)
            self.refused = ""
            while todo:
                array = todo.pop(0)
                if self._largest and len(array.bundles) > self._largest:
                    todo = arrays.halves(array) + todo
                    continue
                try:
                    jobs += self._send(array)
                except slurm.RefusedError as why:
                    if why.later:
                        self.refused = str(why)
                        self._largest = max(1, len(array.bundles) // 2)
                        break
                    runs = [task for bundle in array.bundles for task in bundle]
                    self.never |= {task.key: str(why) for task in runs}
                    self._remove(runs)
        return jobs

    def _adopt(
        self, queue: Mapping[str, slurm.Job], known: Mapping[str, Mapping[str, Any]]
    ) -> list[Sent]:
        """The jobs in the queue that compute runs of this sweep.

        A job whose orders were never written, since its sender was killed at that moment, is cancelled. One that
        was given up is not waited for again.
        """
        jobs = []
        for number, job in queue.items():
            keys = arrays.keys_of(number, job.name, known)
            one = Sent(job.name, number, tuple(self.rest[key] for key in keys if key in self.rest))
            if keys and not one.answer.paths.submitted_pickle.exists():
                slurm.cancel(job.name, [number])
            elif one.runs and not one.given_up.exists():
                jobs.append(one)
                self._remove(one.runs)
        return jobs

    def _send(self, array: Array) -> list[Sent]:
        name = arrays.note(array)
        parameters = array.parameters(name, self._partition, self._options)
        orders = [(arrays.beats(name, place), bundle) for place, bundle in enumerate(array.bundles)]
        numbers = slurm.send(compute, orders, arrays.folder() / name, parameters)
        arrays.sent(name, numbers[0].partition("_")[0])
        jobs = [Sent(name, n, bundle) for n, bundle in zip(numbers, array.bundles, strict=True)]
        for one in jobs:
            self._remove(one.runs)
        return jobs

    def _remove(self, runs: Iterable[Task]) -> None:
        for task in runs:
            del self.rest[task.key]


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
        self._jobs: list[Sent] = []
        self._pulses: dict[Sent, Pulse] = {}
        self._errors: dict[str, str] = {}
        self._absent: Counter[Sent] = Counter()
        self._launches: Counter[str] = Counter()
        self._watch = Watch(len(self._all), report=_say)
        self._sending: Future[list[Sent]] | None = None
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
            self._jobs += (new := self._sending.result())
            self._pulses |= {one: Pulse(one.beats) for one in new}
            self._sending, self._next = None, now + _AGAIN
            self._table_at = 0.0
        if self._jobs:
            self._alive = now
        for key, why in self._sender.never.items():
            self._fail([self._all[key]], f"Slurm refused the job: {why}")
        self._sender.never.clear()
        if self._sender.rest and now - self._alive > _PATIENCE:
            self._fail(self._sender.rest.values(), f"Slurm refused the job: {self._sender.refused}")
            self._sender.rest.clear()
        if self._sender.rest and now >= self._next:
            self._sending = self._thread.submit(self._sender.attempt)

    def _look(self, queue: Mapping[str, slurm.Job] | None) -> None:
        """Find out which runs are over."""
        for task in [task for key, task in self._open.items() if self._records[key].exists()]:
            if look_up(task) is not None:
                self._end(task, "")
        for one in list(self._jobs):
            beat = self._pulses[one].look()
            if queue is not None:
                here = arrays.listed(one, queue) is not None
                self._absent[one] = 0 if here or beat else self._absent[one] + 1
            if self._left(one.runs):
                for task, error in self._answer(one):
                    self._end(task, error)
            if self._left(one.runs) and queue is not None:
                self._fail(self._left(one.runs), self._lost(one, arrays.listed(one, queue)))
            if not any(task.key not in self._sender.rest for task in self._left(one.runs)):
                self._jobs.remove(one)
                del self._pulses[one]
                self._next = 0.0  # there is room in the queue

    def _left(self, runs: Sequence[Task]) -> list[Task]:
        return [task for task in runs if task.key in self._open]

    def _answer(self, one: Sent) -> list[tuple[Task, str]]:
        """The runs of a job that it says have failed, each with the error.

        A run of an answer without an error and without a record is not among them: the file system shows the
        record late.
        """
        job = one.answer
        if not job.paths.result_pickle.exists():
            return []
        try:
            errors = job.result()
        except Exception as why:  # a job can fail in many ways; all of them are reported
            words = str(why).strip().splitlines() or [""]
            text = f"{type(why).__name__}: {words[-1]}; log {job.paths.stderr}"
            errors = {task.key: text for task in one.runs}
        return [(task, errors[task.key]) for task in self._left(one.runs) if task.key in errors]

    def _lost(self, one: Sent, job: slurm.Job | None) -> str:
        """Why a job will never answer; "" while it may. `job` is what the queue says of it."""
        if job is not None:
            reason = self._stuck(one, job)
            if reason:
                one.given_up.touch()
                slurm.cancel(one.name, [one.number])
            return reason
        failed, said = slurm.end_of(one.number, one.name)
        if self._absent[one] < (1 if failed else _GONE):
            return ""
        return self._story(one, "left the queue without a record", said)

    def _stuck(self, one: Sent, job: slurm.Job) -> str:
        """Why a job in the queue is not worth waiting for; "" where it is."""
        if job.hopeless:
            return f"job {one.number} was cancelled, since it cannot start: {job.reason}"
        if job.refused_by_node:
            return self._again(one, job)
        if job.state == "PENDING":
            self._pulses[one].forget()
        elif job.state == "RUNNING" and self._pulses[one].silent:
            return self._story(
                one, f"gave no sign of life for {SILENCE:.0f} s", "Slurm calls it running"
            )
        return ""

    def _again(self, one: Sent, job: slurm.Job) -> str:
        """Have a job sent anew that its node refused to start; why not, where that was done too often."""
        if self._sending is not None:
            return ""  # the sender is at work, so at the next look
        left = self._left(one.runs)
        self._launches.update(task.key for task in left)
        if max(self._launches[task.key] for task in left) >= _LAUNCHES:
            return f"job {one.number} was refused by its node {_LAUNCHES} times: {job.reason}"
        one.given_up.touch()
        slurm.cancel(one.name, [one.number])
        self._sender.rest |= {task.key: task for task in left}
        return ""

    def _story(self, one: Sent, what: str, said: str) -> str:
        log = one.answer.paths.stderr
        lines = [f"job {one.number} {what}", said, last_line(log), f"log {log}"]
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
        """A line when Slurm does not answer, refuses or cannot start jobs, and a table from time to time."""
        text = "squeue does not answer; waiting" if queue is None else self._obstacles(queue)
        if not text and self._sender.rest and self._sender.refused:
            text = f"{len(self._sender.rest)} runs wait to be sent: {self._sender.refused}"
        if text and text != self._last:
            _say(f"{self._watch.text()}; {text}")
        self._last = text
        if time.monotonic() >= self._table_at and self._sending is None:
            _say(self._table(queue or {}))
            self._table_at = time.monotonic() + _TABLE

    def _obstacles(self, queue: Mapping[str, slurm.Job]) -> str:
        """Why jobs wait that do not only wait for their turn; "" where there are none."""
        jobs = [job for one in self._jobs if (job := arrays.listed(one, queue)) is not None]
        count = Counter(job.obstacle for job in jobs if job.obstacle)
        return "; ".join(f"{number} jobs wait: {why}" for why, number in count.most_common())

    def _table(self, queue: Mapping[str, slurm.Job]) -> str:
        """Runs of each figure by state, and how long the rest will take."""
        over = {
            key: "failed" if key in self._errors else "done"
            for key in self._all.keys() - self._open.keys()
        }
        told = states(self._open, self._jobs, queue) | over
        return table([(self._labels[key], task, told[key]) for key, task in self._all.items()])


def last_line(log: Path) -> str:
    """The last line of a log; "" where there is none."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")


def _say(text: str) -> None:
    print(text, flush=True)
