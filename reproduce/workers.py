"""The processes that execute notebooks: started, waited for, ended together."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from reproduce import forked, paths
from reproduce.machine import python_path, same_output

_GRACE = 5.0
"""Seconds that a worker has to end by itself before it is killed."""


def environment(profile: str, progress: Path, jobs: int) -> dict[str, str]:
    """The environment of a worker and of the notebook it runs.

    Args:
        profile: the parameter set.
        progress: the file in which the notebook may say how far it is.
        jobs: processes that the training runs of the notebook may use at a time.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    inherited.setdefault("REPRO_JOBS", str(jobs))
    return inherited | {
        **same_output(),
        "REPRO_PROFILE": profile,
        "REPRO_PROGRESS": str(progress),
        "REPRO_ROOT": str(paths.ROOT),
        "REPRO_FIGURES": str(paths.FIGURES),
        "REPRO_BUILD": str(paths.BUILD),
        "REPRO_RUNS": str(paths.RUNS),
        "REPRO_CACHE": str(paths.CACHE),
        "PYTHONPATH": python_path(),
    }


class Workers:
    """The worker processes of one run.

    Args:
        lock: the descriptor that holds the lock on `build/`; workers keep it open, so that the
            lock lasts as long as any of them.
    """

    def __init__(self, lock: int) -> None:
        self.lock = lock
        self._alive: set[subprocess.Popen[str] | forked.Worker] = set()
        self._guard = threading.Lock()
        self._stopping = False
        self._stem: forked.Stem | None = None

    def work(
        self, order: Mapping[str, Any], log: Path, environment: Mapping[str, str]
    ) -> dict[str, Any]:
        """Start a worker, wait for it, and return its outcome, at least `error` ("" for none).

        Args:
            order: what `reproduce.worker` takes.
            log: the file that gets the worker's standard error.
            environment: the worker's variables.
        """
        with open(log, "wb") as stream:
            told, orders = os.pipe()
            answers, outcome = os.pipe()
            ends = (told, outcome, stream.fileno())
            with open(orders, "w") as given, open(answers) as got:
                try:
                    with self._guard:
                        if self._stopping:
                            return {"error": "interrupted"}
                        worker, order = self._start(ends, order, environment)
                        self._alive.add(worker)
                finally:
                    os.close(told)
                    os.close(outcome)
                try:
                    with suppress(BrokenPipeError):
                        given.write(json.dumps(order) + "\n")
                        given.flush()
                    answer = got.read()
                    code = worker.wait()
                finally:
                    with self._guard:
                        self._alive.discard(worker)
        try:
            return json.loads(answer)
        except ValueError:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            return {"error": f"the worker ended with {how}", "trace": _tail(log)}

    def _start(
        self, ends: tuple[int, int, int], order: Mapping[str, Any], environment: Mapping[str, str]
    ) -> tuple[subprocess.Popen[str] | forked.Worker, Mapping[str, Any]]:
        """A worker with these standard descriptors, forked where that can be done; and its order."""
        if not forked.available():
            stdin, stdout, stderr = ends
            process = subprocess.Popen(
                [sys.executable, "-m", "reproduce.worker"],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=dict(environment),
                text=True,
                start_new_session=True,
                pass_fds=(self.lock,),
            )
            return process, order
        order = {**order, "environment": dict(environment)}
        if self._stem is None:
            self._stem = forked.Stem(environment)
        try:
            return self._stem.fork(*ends, self.lock), order
        except OSError:  # it was killed, for want of memory say
            self._stem.close()
            self._stem = forked.Stem(environment)
            return self._stem.fork(*ends, self.lock), order

    def close(self) -> None:
        """End what is kept between workers; call it when no more is to be started."""
        if self._stem is not None:
            self._stem.close()

    def stop(self) -> None:
        """End every worker and what it has started."""
        with self._guard:
            self._stopping = True
            alive = list(self._alive)
        for worker in alive:
            with suppress(OSError):
                worker.terminate()
        until = time.monotonic() + _GRACE
        for worker in alive:
            while self._is_alive(worker) and time.monotonic() < until:
                time.sleep(0.05)
            if self._is_alive(worker):
                with suppress(OSError):
                    os.killpg(worker.pid, signal.SIGKILL)

    def _is_alive(self, worker: subprocess.Popen[str] | forked.Worker) -> bool:
        with self._guard:
            return worker in self._alive


def _tail(log: Path, lines: int = 8) -> Sequence[str]:
    """The last lines of a log, without colours."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() if line][-lines:]
