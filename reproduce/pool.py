"""Where runs are computed on this machine: in this process or in worker processes.

A worker (`python -m reproduce.pool`) reads one task a line from its standard input and answers
with one line; it ends when the input ends. So it needs nothing of the process that started it (a
notebook, a test, a terminal), and dies with it. Every run on a CPU has one thread: its result
must not depend on how many others run beside it.

Why not loky, which comes with joblib: its executor gives every worker the same environment, so no
worker could have a GPU of its own (`CUDA_VISIBLE_DEVICES`). A killed worker breaks the whole
executor and fails every run that waits; here it fails its own run and the others go on. And its
workers go on computing after their parent was killed, until their run is done.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from repro.report.numbers import plain
from reproduce import paths, provenance
from reproduce.machine import THREADS, peak_memory, python_path, read_line
from reproduce.progress import Watch
from reproduce.records import Task, look_up, record_path, store

_POLL = 0.2
"""Seconds between two looks at a lock that another process holds."""


def compute(tasks: Sequence[Task], jobs: int, watch: Watch) -> dict[str, str]:
    """Compute and store every task; return the errors by task key.

    With one job, or one task, it is done in this process; else by workers, one per GPU where there
    are GPUs and a task wants one (its configuration does not say `device = "cpu"`).
    """
    gpus = visible_gpus() if any(task.config.get("device") != "cpu" for task in tasks) else []
    if len(tasks) == 1 or (jobs <= 1 and len(gpus) <= 1):
        return _here(tasks, watch)
    places = [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus]
    if not places:
        limits = dict.fromkeys(THREADS, "1")
        places = [limits] * min(jobs, len(tasks))
    return _Pool(places[: len(tasks)], watch).run(tasks)


def visible_gpus() -> list[str]:
    """The GPUs this process may use, as CUDA_VISIBLE_DEVICES has them; [] without torch."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [gpu.strip() for gpu in named.split(",") if gpu.strip() not in ("", "-1")]
    try:
        import torch
    except ImportError:
        return []
    return [str(k) for k in range(torch.cuda.device_count())]


# One run ------------------------------------------------------------------------------------------


def _here(tasks: Sequence[Task], watch: Watch) -> dict[str, str]:
    errors = {}
    stop = threading.Event()
    for task in tasks:
        with _claimed(task, stop) as needed:
            error = ""
            if needed:
                answer = _perform(task)
                error = answer["error"] or _keep(task, answer)
        if error:
            errors[task.key] = error
        watch.step(task, error)
    return errors


def _perform(task: Task) -> dict[str, Any]:
    """Call the function of a task: `result` and `provenance`, or `error` with its place."""
    try:
        module, _, name = task.function.partition(":")
        function = getattr(importlib.import_module(module), name)
        with _one_thread(task.config.get("device") != "cpu") as threads:
            start, computing = time.monotonic(), time.process_time()
            result = function(dict(task.config), task.seed)
            seconds, computing = time.monotonic() - start, time.process_time() - computing
        origin = {
            "commit": provenance.commit(),
            "hardware": hardware(),
            "versions": provenance.versions(),
            "threads": threads,
            "seconds": round(seconds, 2),
            "cpu_seconds": round(computing, 2),
            "peak_mib": round(peak_memory(psutil.Process()) / 2**20, 1),
        }
        if (gpu := _gpu()) and task.config.get("device") != "cpu":
            origin["gpu"] = gpu
        return {"error": "", "result": result, "provenance": origin}
    except Exception as problem:
        last = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{os.path.basename(last.filename)}:{last.lineno}"
        return {"error": f"{type(problem).__name__}: {problem} ({place})"}


@contextmanager
def _one_thread(gpu: bool) -> Iterator[int]:
    """Limit torch to one thread unless it may use a GPU and there is one; yields their number."""
    torch = sys.modules.get("torch")
    if torch is None or (gpu and torch.cuda.is_available()):
        yield torch.get_num_threads() if torch else 1
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield 1
    finally:
        torch.set_num_threads(before)


def _keep(task: Task, answer: Mapping[str, Any]) -> str:
    """Store an answer; return what went wrong, or ""."""
    try:
        store(task, answer["result"], answer["provenance"])
    except (ValueError, OSError) as problem:  # DataError is a ValueError, WriteError an OSError
        return f"{type(problem).__name__}: {problem}"
    return ""


@contextmanager
def _claimed(task: Task, stop: threading.Event) -> Iterator[bool]:
    """Hold a task so that no other process computes it too; yields whether it is still due."""
    import fcntl

    path = paths.RUNS / ".locks" / record_path(task).stem
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as stream:
        waited = False
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = True
                if stop.wait(_POLL):
                    raise KeyboardInterrupt from None
        yield not waited or look_up(task) is None


def hardware() -> str:
    """The machine in words: processor, cores and, where there is one, the GPU."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        with open("/proc/cpuinfo") as stream:
            models = [line for line in stream if line.startswith("model name")]
            name = models[0].partition(":")[2].strip() if models else name
    text, gpu = f"{name}, {os.cpu_count()} cores, {platform.system()}", _gpu()
    return f"{text}, {gpu}" if gpu else text


def _gpu() -> str:
    """The name of the GPU that torch uses; "" where there is none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return ""
    return torch.cuda.get_device_name(0)


# Several at a time --------------------------------------------------------------------------------


class _Pool:
    """One worker process per place; its thread hands out the tasks and stores the answers."""

    def __init__(self, places: Sequence[Mapping[str, str]], watch: Watch) -> None:
        self.places, self.watch = places, watch
        self.errors: dict[str, str] = {}
        self._queue: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._workers: set[subprocess.Popen[str]] = set()

    def run(self, tasks: Sequence[Task]) -> dict[str, str]:
        """Compute every task; return the errors by task key."""
        for task in tasks:
            self._queue.put(task)
        threads = [threading.Thread(target=self._serve, args=(place,)) for place in self.places]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(_POLL)
        except BaseException:
            self._stop.set()
            with self._guard:
                for worker in self._workers:
                    worker.kill()
            for thread in threads:
                thread.join()
            raise
        return self.errors

    def _serve(self, place: Mapping[str, str]) -> None:
        worker: subprocess.Popen[str] | None = None
        while not self._stop.is_set():
            try:
                task = self._queue.get_nowait()
            except queue.Empty:
                break
            error = ""
            try:
                with _claimed(task, self._stop) as needed:
                    if needed:
                        worker = worker or self._start(place)
                        answer = self._ask(worker, task)
                        if answer is None:
                            error = f"the worker ended with exit code {worker.wait()}"
                            self._end(worker)
                            worker = None
                        else:
                            error = answer["error"] or _keep(task, answer)
            except KeyboardInterrupt:
                break
            except OSError as problem:
                error = f"{type(problem).__name__}: {problem}"
            if self._stop.is_set():
                break
            with self._guard:
                if error:
                    self.errors[task.key] = error
                self.watch.step(task, error)
        if worker is not None:
            self._end(worker)

    def _start(self, place: Mapping[str, str]) -> subprocess.Popen[str]:
        search = os.pathsep.join(dict.fromkeys([python_path(), *filter(None, sys.path)]))
        moved = {
            "REPRO_ROOT": str(paths.ROOT),
            "REPRO_RUNS": str(paths.RUNS),
            "REPRO_CACHE": str(paths.CACHE),
        }
        worker = subprocess.Popen(
            [sys.executable, "-m", "reproduce.pool"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | place | moved | {"PYTHONPATH": search, "REPRO_PROGRESS": ""},
            text=True,
            start_new_session=True,
        )
        with self._guard:
            self._workers.add(worker)
        return worker

    @staticmethod
    def _ask(worker: subprocess.Popen[str], task: Task) -> dict[str, Any] | None:
        """Have a worker perform a task; None when it died."""
        assert worker.stdin is not None and worker.stdout is not None
        order = {"name": task.name, "config": dict(task.config), "seed": task.seed}
        try:
            worker.stdin.write(json.dumps(order) + "\n")
            worker.stdin.flush()
            answer = worker.stdout.readline()
        except (BrokenPipeError, ValueError):
            return None
        return json.loads(answer) if answer.endswith("\n") else None

    def _end(self, worker: subprocess.Popen[str]) -> None:
        with self._guard:
            self._workers.discard(worker)
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            worker.wait(10)
        worker.kill()


def serve() -> int:
    """Be a worker: answer tasks until the input ends."""
    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the function prints must not look like an answer
    while order := orders.get():
        answer = _perform(Task(**json.loads(order)))
        try:
            line = json.dumps(plain(answer, "answer"), allow_nan=False)
        except ValueError as problem:
            line = json.dumps({"error": f"{type(problem).__name__}: {problem}"})
        print(line, file=answers, flush=True)
    return 0


def _listen(orders: queue.SimpleQueue[bytes]) -> None:
    """Hand on the lines of the input; when it ends, so does the process, also during a run."""
    while line := read_line(0):
        orders.put(line)
    os._exit(0)


# One run in a process of its own -----------------------------------------------------------------


def compute_one(task: Task) -> str:
    """Compute and store one task in this process unless its record is there; what went wrong, or ""."""
    if look_up(task) is not None:
        return ""
    return _here([task], Watch(1, progress=False)).get(task.key, "")


if __name__ == "__main__":
    sys.exit(serve())
