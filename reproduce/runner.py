"""The runner: executes the notebooks whose files are missing or out of date, several at a time.

A notebook is left alone when it is up to date (`state`). Otherwise a worker process runs it with
papermill; the executed copy and the note that makes the result count are written after it has
succeeded, so a run can be killed at any moment and the next one picks up. One run at a time: a
second one waits for the first. `Destination` says where the files go.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.atomic import WriteError
from reproduce import catalogue, changes, fingerprint, gallery, ledger, paths, records, state
from reproduce.catalogue import Figure
from reproduce.destination import Destination
from reproduce.display import Display, Outcome
from reproduce.machine import cores
from reproduce.preparation import RunError, alone, check_writable, preflight, remove_scraps
from reproduce.workers import Workers, environment


def run(
    entries: Sequence[Figure],
    profile: str,
    jobs: int,
    changed: Mapping[str, Any] | None = None,
) -> int:
    """Bring the files of `entries` up to date; print progress and the table; return the exit code.

    A run of the quick profile with unchanged parameters also opens the published runs of the other
    profiles, and writes ledger and gallery.

    Args:
        entries: the figures.
        profile: the parameter set.
        jobs: notebooks at a time.
        changed: parameters that replace those of the profile, in every one of `entries`; checked
            by the caller.

    Returns:
        0: all is well; 1: a notebook failed (the others were still run), or something cannot be
        written; 130: interrupted.
    """
    display = Display()
    previous = signal.signal(signal.SIGTERM, _interrupt) if _in_main_thread() else None
    try:
        with alone(f"profile {profile}", display.say) as lock:
            this = _Run(profile, jobs, display, lock, changed or {})
            outcomes = this.all(entries)
            display.table(outcomes)
            summarised = this.summarise()
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
    failed = any(outcome.status == "failed" for outcome in outcomes)
    return 1 if failed or not summarised else 0


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@dataclass(frozen=True)
class _Order:
    """One notebook to be run.

    Attributes:
        entry: the figure.
        parameters: what the notebook is run with.
        files: where its files go.
        told: what was changed against the profile, in words.
        parts: what the files depend on.
    """

    entry: Figure
    profile: str
    parameters: Mapping[str, Any]
    files: Destination
    told: str
    parts: Mapping[str, str]

    @classmethod
    def of(cls, entry: Figure, profile: str, changed: Mapping[str, Any], published: bool) -> _Order:
        """The order for a figure in a profile, some of whose parameters are replaced."""
        own = entry.parameters(profile)
        parameters = {**own, **changed}
        departing = changes.departures(parameters, own)
        return cls(
            entry,
            profile,
            parameters,
            Destination(entry.id, profile, bool(departing), published),
            changes.told(departing, own),
            fingerprint.of_figure(entry, profile) | {"parameters": fingerprint.digest(parameters)},
        )


class _Run:
    """One call of `run`: what it was asked, and the processes it has started."""

    def __init__(
        self, profile: str, jobs: int, display: Display, lock: int, changed: Mapping[str, Any]
    ) -> None:
        self.profile, self.jobs, self.display, self.changed = profile, jobs, display, changed
        self.workers = Workers(lock)
        self.spare = 1

    def all(self, entries: Sequence[Figure]) -> list[Outcome]:
        """Decide which figures are out of date and run those; outcomes in the order given."""
        shutil.rmtree(paths.BUILD / "running", ignore_errors=True)
        for folder in (paths.FIGURES, paths.BUILD / "figures"):
            remove_scraps(folder)
        found: dict[str, Outcome] = {}
        todo: list[_Order] = []
        wanted = [(entry, profile) for entry in entries for profile in self._profiles(entry)]
        for entry, profile in wanted:
            name = Destination(entry.id, profile).name
            if problem := preflight(entry, profile):
                found[name] = Outcome(entry, name, "failed", error=problem)
                continue
            order = _Order.of(entry, profile, self.changed, profile != self.profile)
            if not order.files.committed:
                what = f"profile {self.profile}{f', {order.told}' if order.told else ''}"
                self.display.say(f"{name}: {what}; files go to {order.files}")
            if why := state.reasons(order.files, order.parts):
                todo.append(order)
                self.display.say(f"{name}: to be run ({_some(why)})")
            else:
                note = state.read(order.files)
                cost = note.get("seconds"), note.get("peak_mib")
                found[name] = Outcome(entry, name, "kept", *cost, note["verdicts"])
        if todo:
            for folder in {order.files.stem.parent.parent for order in todo}:
                check_writable(folder)
            jobs = max(1, min(self.jobs, len(todo)))
            self.spare = max(1, cores() // jobs)
            self.display.start(len(todo), jobs)
            todo.sort(key=lambda order: -state.seconds(order.files))
            try:
                for outcome in self._parallel(todo, jobs):
                    found[outcome.name] = outcome
            finally:
                self.workers.close()
        return [found[Destination(entry.id, profile).name] for entry, profile in wanted]

    def _profiles(self, entry: Figure) -> tuple[str, ...]:
        """The profiles to be run: with quick, also those of which runs are published."""
        if self.changed or self.profile != "quick":
            return (self.profile,)
        return ("quick", *catalogue.published(entry))

    def summarise(self) -> bool:
        """Write ledger and gallery after a run that writes committed files; whether it worked."""
        if self.changed or self.profile != "quick":
            return True
        return ledger.main([]) + gallery.main([]) == 0

    def _parallel(self, todo: Sequence[_Order], jobs: int) -> Iterator[Outcome]:
        with ThreadPoolExecutor(jobs) as pool:
            pending: set[Future[Outcome]] = {pool.submit(self._one, order) for order in todo}
            try:
                while pending:
                    done, pending = wait(pending, timeout=0.25, return_when=FIRST_COMPLETED)
                    self.display.refresh()
                    for future in done:
                        outcome = future.result()
                        self.display.finished(outcome)
                        yield outcome
            except BaseException:
                self.workers.stop()
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _one(self, order: _Order) -> Outcome:
        """Run one notebook, in a thread; whatever happens becomes an outcome."""
        entry, name = order.entry, Destination(order.entry.id, order.profile).name
        self.display.started(name, order.files.running.with_suffix(".progress"))
        try:
            return self._execute(order)
        except (RunError, WriteError) as problem:
            return Outcome(entry, name, "failed", error=str(problem))
        except OSError as problem:
            where = f" {problem.filename}" if problem.filename else ""
            reason = problem.strerror or problem
            return Outcome(entry, name, "failed", error=f"cannot write{where}: {reason}")

    def _execute(self, order: _Order) -> Outcome:
        entry, files = order.entry, order.files
        name = Destination(entry.id, order.profile).name
        running, progress = files.running, files.running.with_suffix(".progress")
        log = running.with_suffix(".log")
        running.parent.mkdir(parents=True, exist_ok=True)
        for old in (files.state, files.failed, files.failed.with_suffix(".log")):
            old.unlink(missing_ok=True)
        job = {
            "notebook": str(entry.notebook),
            "output": str(running),
            "parameters": dict(order.parameters),
        }
        variables = environment(order.profile, progress, self.spare)
        if files.published:
            variables[records.ONLY_PUBLISHED] = "1"
        answer = self.workers.work(job, log, variables)
        cost = {"seconds": answer.get("seconds"), "peak_mib": answer.get("peak_mib")}
        error = answer["error"]
        found: dict[str, str] = {}
        verdicts: Counter[str] = Counter()
        if not error:
            try:
                found, verdicts = state.result(files)
            except state.ResultError as problem:
                error = str(problem)
        if error:
            kept = _keep_failed(running, files.failed)
            trace = answer.get("trace") or []
            return Outcome(entry, name, "failed", **cost, error=error, trace=trace, kept=kept)
        files.executed.parent.mkdir(parents=True, exist_ok=True)
        os.replace(running, files.executed)
        state.write(files, order.parts, found, verdicts, cost)
        for scrap in (log, progress):
            scrap.unlink(missing_ok=True)
        return Outcome(entry, name, "done", **cost, verdicts=verdicts)


def _keep_failed(running: Path, failed: Path) -> str:
    """Move what a failed run has left out of the way; return where to."""
    kept = ""
    with suppress(OSError):
        failed.parent.mkdir(parents=True, exist_ok=True)
        for suffix in (".log", running.suffix):
            path, place = running.with_suffix(suffix), failed.with_suffix(suffix)
            if path.exists() and path.stat().st_size:
                os.replace(path, place)
                kept = str(place)
    return kept


def _some(items: Sequence[str]) -> str:
    more = f" and {len(items) - 2} more" if len(items) > 2 else ""
    return "; ".join(items[:2]) + more
