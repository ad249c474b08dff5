"""The runner: executes the notebooks whose files are missing or out of date, several at a time.

A notebook is left alone when everything it depends on is as it was (`fingerprint`) and its files
are those that were written then. Otherwise a worker process runs it with papermill; the executed
copy and the note that makes the result count are written after it has succeeded, so a run can be
killed at any moment and the next one picks up. One run at a time: a second one waits for the
first.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from repro import paths
from repro.atomic import SUFFIX, WriteError, write_json
from reproduce import fingerprint
from reproduce.catalogue import CatalogueError, Figure
from reproduce.display import Display
from reproduce.machine import THREADS, cores, python_path
from reproduce.outcome import Outcome

SCRAP_SECONDS = 600
"""Age from which an unfinished file counts as left behind."""


class RunError(Exception):
    """Nothing can be run at all; the message is one line for the user."""


# State --------------------------------------------------------------------------------------------


def state_path(entry: Figure, profile: str) -> Path:
    """Where the note on the last good run is."""
    return paths.BUILD / "state" / profile / f"{entry.id}.json"


def read_state(entry: Figure, profile: str) -> dict[str, Any]:
    """The note on the last good run; empty when there is none that can be read."""
    try:
        state = json.loads(state_path(entry, profile).read_text(encoding="utf-8"))
        return state if {"parts", "outputs", "verdicts"} <= set(state) else {}
    except (OSError, ValueError, TypeError):
        return {}


def reasons(entry: Figure, profile: str, parts: Mapping[str, str]) -> list[str]:
    """Why a figure must be run: what changed of its `parts` or its files; [] if it need not."""
    state = read_state(entry, profile)
    if not state:
        return ["no finished run"]
    found = [f"{name} changed" for name in fingerprint.changed(state["parts"], parts)]
    for name, digest in state["outputs"].items():
        path = paths.FIGURES / name
        if not path.is_file():
            found.append(f"{name} is missing")
        elif _sha256(path) != digest:
            found.append(f"{name} is not the file that was written")
    return found


def outputs(entry: Figure, profile: str) -> tuple[dict[str, str], Counter[str]]:
    """The files of a finished run (name below `figures/` -> sha256) and the count of its verdicts.

    Raises:
        RunError: the run left no complete result of that profile.
    """
    path = paths.FIGURES / f"{entry.id}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RunError("the notebook left no json: does it call book.save?") from None
    if not record.get("complete"):
        raise RunError("the notebook ended before its table: does it call book.table?")
    made = record.get("provenance", {}).get("profile")
    if made != profile:
        raise RunError(f"the json is of profile {made!r}: does the notebook pass its `profile` on?")
    names = ["json", *record.get("files", {})]
    found = {}
    for ending in names:
        file = paths.FIGURES / f"{entry.id}.{ending}"
        if not file.is_file():
            raise RunError(f"{file} is missing after the run")
        found[f"{entry.id}.{ending}"] = _sha256(file)
    return found, Counter(row["verdict"] for row in record.get("claims", []))


def _sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# Before a run -------------------------------------------------------------------------------------


def preflight(entry: Figure, profile: str) -> str:
    """What is wrong with a notebook before it runs (no file, misspelled parameter …), or ""."""
    try:
        entry.parameters(profile)
    except CatalogueError as problem:
        return str(problem)
    return ""


def check_writable(folder: Path) -> None:
    """Raise `RunError` unless files can be made in `folder`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(b"room for one block?" * 256)
            stream.flush()
    except OSError as problem:
        reason = problem.strerror or problem
        raise RunError(f"cannot write to {folder}: {reason}; nothing was run") from None


def remove_scraps(folder: Path) -> None:
    """Remove what killed processes have left of unfinished files in `folder`."""
    for path in folder.rglob(f".*{SUFFIX}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > SCRAP_SECONDS:
                path.unlink()


@contextmanager
def alone(what: str, say: Callable[[str], None]) -> Iterator[int]:
    """Hold the lock on `build/` and `figures/`; yields the descriptor that holds it.

    The lock ends with the processes that have the descriptor, however they end.
    """
    import fcntl

    path = paths.BUILD / "run.lock"
    check_writable(paths.BUILD)
    with open(path, "a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            say(f"another run holds {path} ({holder}); waiting")
            fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        stream.truncate()
        with suppress(OSError):
            stream.write(f"process {os.getpid()}, {what}, since {time.strftime('%H:%M:%S')}\n")
            stream.flush()
        yield stream.fileno()


# The run ------------------------------------------------------------------------------------------


def run(entries: Sequence[Figure], profile: str, jobs: int) -> int:
    """Bring the files of `entries` up to date; print progress and the table; return the exit code.

    0: all is well; 1: a notebook failed (the others were still run), or nothing can be written;
    130: interrupted.
    """
    display = Display()
    previous = signal.signal(signal.SIGTERM, _interrupt) if _in_main_thread() else None
    try:
        with alone(f"profile {profile}", display.say) as lock:
            outcomes = _Run(profile, jobs, display, lock).all(entries)
    except RunError as problem:
        display.error(str(problem))
        return 1
    except KeyboardInterrupt:
        display.error("interrupted; what was finished is kept, the next run goes on from here")
        return 130
    finally:
        display.close()
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)
    display.table(outcomes)
    return 1 if any(outcome.status == "failed" for outcome in outcomes) else 0


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class _Run:
    """One call of `run`: what it was asked, and the processes it has started."""

    def __init__(self, profile: str, jobs: int, display: Display, lock: int) -> None:
        self.profile, self.jobs, self.display, self.lock = profile, jobs, display, lock
        self.threads = 1
        self._workers: set[subprocess.Popen[str]] = set()
        self._guard = threading.Lock()
        self._stopping = False

    def all(self, entries: Sequence[Figure]) -> list[Outcome]:
        """Decide which figures are out of date and run those; outcomes in the order given."""
        shutil.rmtree(paths.BUILD / "running", ignore_errors=True)
        remove_scraps(paths.FIGURES)
        found: dict[str, Outcome] = {}
        todo: list[tuple[Figure, dict[str, str]]] = []
        for entry in entries:
            if problem := preflight(entry, self.profile):
                found[entry.id] = Outcome(entry, "failed", error=problem)
                continue
            parts = fingerprint.of_figure(entry, self.profile)
            if why := reasons(entry, self.profile, parts):
                todo.append((entry, parts))
                self.display.say(f"{entry.id}: to be run ({_some(why)})")
            else:
                found[entry.id] = self._kept(entry)
        if todo:
            check_writable(paths.FIGURES)
            jobs = max(1, min(self.jobs, len(todo)))
            self.threads = max(1, cores() // jobs)
            self.display.start(len(todo), jobs)
            todo.sort(key=lambda pair: -self._expected(pair[0]))
            for outcome in self._parallel(todo, jobs):
                found[outcome.entry.id] = outcome
        return [found[entry.id] for entry in entries]

    def _kept(self, entry: Figure) -> Outcome:
        state = read_state(entry, self.profile)
        return Outcome(
            entry, "kept", state.get("seconds"), state.get("peak_mib"), state["verdicts"]
        )

    def _expected(self, entry: Figure) -> float:
        """Seconds a figure took last time, here or for the stored numbers; unknown ones first."""
        state = read_state(entry, self.profile)
        if "seconds" in state:
            return state["seconds"]
        stored = paths.REFERENCE / self.profile / f"{entry.id}.json"
        try:
            return float(json.loads(stored.read_text(encoding="utf-8"))["cost"]["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return float("inf")

    def _parallel(
        self, todo: Sequence[tuple[Figure, dict[str, str]]], jobs: int
    ) -> Iterator[Outcome]:
        with ThreadPoolExecutor(jobs) as pool:
            pending: set[Future[Outcome]] = {
                pool.submit(self._one, entry, parts) for entry, parts in todo
            }
            try:
                while pending:
                    done, pending = wait(pending, timeout=0.25, return_when=FIRST_COMPLETED)
                    self.display.refresh()
                    for future in done:
                        outcome = future.result()
                        self.display.finished(outcome)
                        yield outcome
            except BaseException:
                self._stop()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _one(self, entry: Figure, parts: dict[str, str]) -> Outcome:
        """Run one notebook, in a thread; whatever happens becomes an outcome."""
        progress = paths.BUILD / "running" / self.profile / f"{entry.id}.progress"
        self.display.started(entry.id, progress)
        try:
            return self._execute(entry, parts, progress)
        except (RunError, WriteError) as problem:
            return Outcome(entry, "failed", error=str(problem))
        except OSError as problem:
            where = f" {problem.filename}" if problem.filename else ""
            reason = problem.strerror or problem
            return Outcome(entry, "failed", error=f"cannot write{where}: {reason}")

    def _execute(self, entry: Figure, parts: dict[str, str], progress: Path) -> Outcome:
        running = progress.with_name(f"{entry.name}.ipynb")
        running.parent.mkdir(parents=True, exist_ok=True)
        state_path(entry, self.profile).unlink(missing_ok=True)
        order = {
            "notebook": str(entry.notebook),
            "output": str(running),
            "parameters": entry.parameters(self.profile),
        }
        log = running.with_suffix(".log")
        for old in self._failed(entry).glob(f"{entry.name}.*"):
            old.unlink()
        result = self._work(order, log, self._environment(progress))
        cost = {"seconds": result.get("seconds"), "peak_mib": result.get("peak_mib")}
        error = result["error"]
        found: dict[str, str] = {}
        verdicts: Counter[str] = Counter()
        if not error:
            try:
                found, verdicts = outputs(entry, self.profile)
            except RunError as problem:
                error = str(problem)
        if error:
            kept = self._keep_failed(entry, running)
            trace = result.get("trace") or []
            return Outcome(entry, "failed", **cost, error=error, trace=trace, kept=kept)
        executed = paths.BUILD / self.profile / f"{entry.id}.ipynb"
        executed.parent.mkdir(parents=True, exist_ok=True)
        os.replace(running, executed)
        state = {"parts": parts, "outputs": found, "verdicts": dict(verdicts), **cost}
        write_json(state_path(entry, self.profile), state)
        for scrap in (log, progress):
            scrap.unlink(missing_ok=True)
        return Outcome(entry, "done", **cost, verdicts=verdicts)

    def _keep_failed(self, entry: Figure, running: Path) -> str:
        """Move what a failed run has left out of the way; return where to."""
        folder = self._failed(entry)
        kept = ""
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            for path in (running.with_suffix(".log"), running):
                if path.exists() and path.stat().st_size:
                    os.replace(path, folder / path.name)
                    kept = str(folder / path.name)
        return kept

    def _failed(self, entry: Figure) -> Path:
        return paths.BUILD / "failed" / self.profile / entry.paper

    def _environment(self, progress: Path) -> dict[str, str]:
        environment = dict(os.environ)
        for name in THREADS:
            environment.setdefault(name, str(self.threads))
        environment.pop("MPLBACKEND", None)
        environment |= {
            "REPRO_PROFILE": self.profile,
            "REPRO_QUIET": "1",
            "REPRO_PROGRESS": str(progress),
            "REPRO_ROOT": str(paths.ROOT),
            "REPRO_FIGURES": str(paths.FIGURES),
            "REPRO_RUNS": str(paths.RUNS),
            "REPRO_CACHE": str(paths.CACHE),
        }
        environment.setdefault("REPRO_JOBS", str(self.threads))
        return environment | {"PYTHONPATH": python_path()}

    def _work(
        self, order: Mapping[str, Any], log: Path, environment: Mapping[str, str]
    ) -> dict[str, Any]:
        """Start a worker, wait for it, and return its outcome."""
        with open(log, "wb") as stream:
            with self._guard:
                if self._stopping:
                    return {"error": "interrupted"}
                worker = subprocess.Popen(
                    [sys.executable, "-m", "reproduce.worker"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stream,
                    env=dict(environment),
                    text=True,
                    start_new_session=True,
                    pass_fds=(self.lock,),
                )
                self._workers.add(worker)
            assert worker.stdin is not None and worker.stdout is not None
            try:
                with suppress(BrokenPipeError):
                    worker.stdin.write(json.dumps(order) + "\n")
                    worker.stdin.flush()
                answer = worker.stdout.read()
                code = worker.wait()
            finally:
                with self._guard:
                    self._workers.discard(worker)
                for pipe in (worker.stdin, worker.stdout):
                    with suppress(OSError):
                        pipe.close()
        try:
            return json.loads(answer)
        except ValueError:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            return {"error": f"the worker ended with {how}", "trace": _tail(log)}

    def _stop(self) -> None:
        """End every worker and what it has started."""
        with self._guard:
            self._stopping = True
            workers = list(self._workers)
        for worker in workers:
            with suppress(OSError):
                worker.terminate()
        until = time.monotonic() + 5
        for worker in workers:
            try:
                worker.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                with suppress(OSError):
                    os.killpg(worker.pid, signal.SIGKILL)


def _tail(log: Path, lines: int = 8) -> list[str]:
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines() if line][-lines:]


def _some(items: Sequence[str]) -> str:
    more = f" and {len(items) - 2} more" if len(items) > 2 else ""
    return "; ".join(items[:2]) + more
