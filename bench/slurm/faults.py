"""Faults injected into sweeps on a real Slurm: what survives them.

Each round is a sweep of six short runs into an empty folder, with four faults from a seeded list. After each fault it
must be true that

* the sweep notices within 60 s that a run is over: the time from the end of the run's last process (or from the return
  of the controller, or the start of the submitter, whichever is later) to the line that the sweep prints;
* the sweep says of each run how it ended, and ends with 0 if every record is there and with 1 if not;
* the next call completes the sweep;
* then there is one whole and right file per run, and nothing else.

Only the first of these, and how long to wait for what never comes, depend on the clock. Where the caller says that
nothing is timed, waits are printed and not judged, and a sweep that goes on is a fault only if there is nothing left
that it could wait for.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from daemons import NODES, Slurm, SlurmError

from reproduce import records
from reproduce.records import Task

RUNS = 6
PER_ROUND = 4
OF_A_RUN = ("kill", "scancel", "memory", "time limit")
OF_ALL = ("drain", "controller", "no sacct", "full queue", "submitter", "two submitters")
PATIENCE = 60.0
"""The longest wait after the fact, in seconds."""
LONGEST = 900.0
"""Seconds after which a sweep counts as waiting for ever. Slurm holds back for two minutes a job whose node failed."""
IDLE = 300.0
"""Seconds more where nothing is timed, in which there was neither a job in the queue nor a run that computed."""
WHERE = "main --mem=400 --account=lab --qos=any"
LIMITS = ("--time=2", "--time=10")
"""Of the first and the second call. Slurm may announce the end of a job up to 60 s before the 90 s that submitit
asks for, so a run may be told at once that its two minutes are over; not so with ten."""

CATALOGUE = """\
title = "Short runs"
[tasks]
tiny = "tiny:tiny"
[figures.fig1]
title = "nothing"
notebook = "notebooks/toy/fig1.ipynb"
runs = "tiny:wanted"
"""
NOTEBOOK = """{"cells": [{"cell_type": "code", "execution_count": null, "id": "p", "metadata": {"tags":
["parameters"]}, "outputs": [], "source": "profile = \\"quick\\""}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
"""


def plan(seed: int, count: int) -> list[list[str]]:
    """The faults of each round: half of single runs, half of everything, every kind as often as the others."""
    rng = random.Random(seed)
    decks: dict[tuple[str, ...], list[str]] = {OF_A_RUN: [], OF_ALL: []}

    def draw(kinds: tuple[str, ...], number: int) -> list[str]:
        drawn: list[str] = []
        while len(drawn) < number:
            decks[kinds] = decks[kinds] or rng.sample(kinds, len(kinds))
            drawn.append(decks[kinds].pop())
        return drawn

    rounds = []
    while count > 0:
        half = min(PER_ROUND, count)
        rounds.append(draw(OF_A_RUN, half - half // 2) + draw(OF_ALL, half // 2))
        count -= half
    return rounds


def run(
    slurm: Slurm,
    seed: int,
    count: int,
    found: list[str],
    only: Sequence[int] = (),
    timed: bool = True,
) -> None:
    """Inject `count` faults, or those of some rounds only, and add to `found` what did not survive them.

    Args:
        slurm: the daemons.
        seed: of the list of faults.
        count: of faults.
        found: what is wrong.
        only: rounds to play; all where it is empty.
        timed: whether a wait that is too long is a fault.

    Raises:
        SlurmError: Slurm does not work, or, where nothing is timed, a round did not come to its end.
    """
    waits: list[float] = []
    before = len(found)
    rounds = [(n, faults) for n, faults in enumerate(plan(seed, count)) if n in only or not only]
    for number, faults in rounds:
        one = _Round(
            slurm, slurm.home / f"round{number}", random.Random(f"{seed} {number}"), faults, timed
        )
        problems = [f"round {number} ({', '.join(faults)}): {text}" for text in one.play()]
        found += problems
        waits += one.waits
        state = "; ".join(problems) or "survived"
        print(f"round {number}: {', '.join(faults)}: {state}; {one.told()}", flush=True)
    worst, injected = max(waits, default=0.0), sum(len(faults) for _, faults in rounds)
    print(
        f"faults: {injected} injected with seed {seed}, {len(found) - before} problems; {len(waits)} waits, "
        f"longest {worst:.0f} s, median {sorted(waits)[len(waits) // 2] if waits else 0:.0f} s",
        flush=True,
    )


class _Submitter:
    """A process `make sweep SLURM=…`, without make, and the time of each line it prints."""

    def __init__(self, environment: dict[str, str], limit: str = LIMITS[0]) -> None:
        self.start = time.time()
        self.lines: list[tuple[float, str]] = []
        command = [sys.executable, "-m", "reproduce", "sweep", "--slurm", f"{WHERE} {limit}"]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append((time.time(), line.rstrip()))

    def ended(self, seconds: float) -> bool:
        """Whether it ends in this time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def code(self) -> int:
        """The exit code, once it has ended and all its lines are read."""
        self._reader.join()
        return self.process.wait()

    def kill(self) -> None:
        """Kill it, and nothing it has started: an `sbatch` goes on."""
        self.process.kill()
        self.code()

    def ends(self) -> dict[int, tuple[float, str]]:
        """When and how it said that a run is over, by seed."""
        found = {}
        for at, line in self.lines:
            if match := re.search(r"toy/tiny seed (\d+) (done|FAILED.*)", line):
                found[int(match[1])] = (at, match[2])
        return found


class _Round:
    def __init__(
        self, slurm: Slurm, folder: Path, rng: random.Random, faults: list[str], timed: bool
    ) -> None:
        self.slurm, self.folder, self.rng, self.faults = slurm, folder, rng, faults
        self._timed = timed
        self.waits: list[float] = []
        self._gone: dict[int, float] = {}
        self._pids: dict[int, int] = {}
        self._back = 0.0
        self._over = threading.Event()
        self._problems: list[str] = []
        self._outcomes: list[str] = []
        self._fillers: list[str] = []
        self._submitters: list[_Submitter] = []
        self._queue = ""
        self._root, self._files = folder / "root", folder / "files"
        here = Path(__file__).resolve()
        search = [here.parents[2] / "src", here.parents[2], here.parent]
        self._environment: dict[str, str] = dict(slurm.environment) | {
            "REPRO_ROOT": str(self._root),
            "REPRO_RUNS": str(folder / "runs"),
            "PYTHONPATH": os.pathsep.join(map(str, search)),
            "TINY_FOLDER": str(self._files),
            "TINY_RUNS": str(RUNS),
            "REPRO_QUIET": "1",
        }

    def told(self) -> str:
        waits = ", ".join(f"{wait:.0f}" for wait in sorted(self.waits))
        return f"waits {waits} s; {' | '.join(sorted(set(self._outcomes)))}"

    def play(self) -> list[str]:
        """Sweep, inject, sweep again; what went wrong.

        Raises:
            SlurmError: Slurm does not work, or a sweep goes on that has something to wait for, and nothing is timed.
        """
        self._lay_out()
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        try:
            self._check_first(self._disturb())
            self._check_second()
        finally:
            self._over.set()
            watcher.join()
            for one in self._submitters:
                one.kill()
        return self._problems

    def _disturb(self) -> list[int | None]:
        """Sweep and inject; how each submitter ended that was not killed on purpose."""
        seeds = self.rng.sample(range(RUNS), RUNS)
        single = [fault for fault in self.faults if fault in OF_A_RUN]
        general = [fault for fault in self.faults if fault in OF_ALL]
        if "full queue" in general:
            self._fill()
        threads = [
            threading.Thread(target=self._guard, args=(fault, seed), daemon=True)
            for fault, seed in zip(single, seeds, strict=False)
        ]
        for fault, seed in zip(single, seeds, strict=False):
            (self._files / f"{'hog' if fault == 'memory' else 'hold'}-{seed}").touch()
        threads += [
            threading.Thread(target=self._guard, args=(fault, -1), daemon=True)
            for fault in general
            if fault in ("drain", "controller", "full queue")
        ]
        self._submit()
        if "two submitters" in general:
            time.sleep(self.rng.uniform(0, 2))
            self._submit()
        for thread in threads:
            thread.start()
        if "submitter" in general:
            time.sleep(self.rng.uniform(0.5, 10))
            self._submitters.pop(0).kill()
            self._submit()
        codes = [self._code(one) for one in self._submitters]
        for thread in threads:
            thread.join()
        return codes

    def _submit(self, limit: str = LIMITS[0]) -> _Submitter:
        """Start a sweep; it is killed when the round ends."""
        self._submitters.append(_Submitter(self._environment, limit))
        return self._submitters[-1]

    def _code(self, one: _Submitter) -> int | None:
        """How a sweep ended; None where it did not, and was killed.

        Raises:
            SlurmError: nothing is timed, and there is something left that it may wait for.
        """
        if one.ended(LONGEST):
            return one.code()
        told = self._listed()
        if not self._timed and (told or any(_alive(pid) for pid in self._pids.values())):
            one.kill()
            raise SlurmError(
                f"{', '.join(self.faults)}: a sweep had not ended after {LONGEST:.0f} s; the queue: {told}"
            )
        if not self._timed and one.ended(IDLE):
            return one.code()
        one.kill()
        self._queue = told
        return None

    def _listed(self) -> str:
        """The jobs that are left, fillers aside; words where Slurm does not answer."""
        try:
            told = self.slurm.ask("squeue", "--noheader", "--format=%i %T %r %M %j")
        except subprocess.SubprocessError:
            return "squeue does not answer"
        return " | ".join(line for line in told.splitlines() if not line.endswith(" filler"))

    def _lay_out(self) -> None:
        paper = self._root / "reproduce/papers/toy"
        paper.mkdir(parents=True)
        (paper / "catalogue.toml").write_text(CATALOGUE)
        (self._root / "notebooks/toy").mkdir(parents=True)
        (self._root / "notebooks/toy/fig1.ipynb").write_text(NOTEBOOK)
        (self.folder / "runs").mkdir()
        self._files.mkdir()
        if "no sacct" in self.faults:
            programs = self.folder / "bin"
            programs.mkdir()
            (programs / "sacct").write_text("#!/bin/sh\nexec sleep 3600\n")
            (programs / "sacct").chmod(0o755)
            self._environment["PATH"] = f"{programs}{os.pathsep}{self._environment['PATH']}"

    def _watch(self) -> None:
        """Note when the process of each run is gone."""
        while not self._over.wait(0.1):
            for seed in range(RUNS):
                with suppress(OSError, ValueError):
                    pid = int((self._files / f"started-{seed}").read_text())
                    if self._pids.get(seed) != pid:
                        self._pids[seed] = pid
                        self._gone.pop(seed, None)
                pid = self._pids.get(seed, 0)
                if pid and seed not in self._gone and not _alive(pid):
                    self._gone[seed] = time.time()

    # Faults -----------------------------------------------------------------------------------------

    def _guard(self, fault: str, seed: int) -> None:
        try:
            getattr(self, "_" + fault.replace(" ", "_"))(seed)
        except Exception as problem:
            told = f"{fault} could not be injected: {type(problem).__name__}: {problem}"
            (self._problems if self._timed else self._outcomes).append(told)

    def _started(self, seed: int) -> int:
        """Wait until a run computes; its process."""
        until = time.monotonic() + LONGEST / 2
        while time.monotonic() < until:
            if (pid := self._pids.get(seed)) and _alive(pid):
                return pid
            time.sleep(0.1)
        raise TimeoutError(f"run {seed} has not started")

    def _release(self, seed: int) -> None:
        (self._files / f"hold-{seed}").unlink(missing_ok=True)

    def _kill(self, seed: int) -> None:
        pid = self._started(seed)
        time.sleep(self.rng.uniform(0, 3))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self._release(seed)

    def _scancel(self, seed: int) -> None:
        pid = self._started(seed)
        time.sleep(self.rng.uniform(0, 3))
        with suppress(OSError):
            number = _slurm_id(pid)
            for _ in range(20):  # the controller may be away
                with suppress(subprocess.SubprocessError):
                    self.slurm.ask("scancel", number)
                    break
                time.sleep(2)
        self._release(seed)

    def _memory(self, seed: int) -> None:
        """The file that makes it swallow memory is there; only wait for its end."""
        pid = self._started(seed)
        _until(lambda: not _alive(pid))

    def _time_limit(self, seed: int) -> None:
        """It is held until Slurm ends it."""
        pid = self._started(seed)
        _until(lambda: not _alive(pid))
        self._release(seed)

    def _drain(self, _: int) -> None:
        node, state = self.rng.choice(NODES), self.rng.choice(["drain", "down"])
        time.sleep(self.rng.uniform(2, 12))
        self._update(node, state)
        time.sleep(self.rng.uniform(3, 15))
        self._update(node, "resume")

    def _update(self, node: str, state: str) -> None:
        for _ in range(40):  # the controller may be away; a state may be there already
            with suppress(subprocess.SubprocessError):
                self.slurm.ask(
                    "scontrol", "update", f"nodename={node}", f"state={state}", "reason=trial"
                )
                return
            if state == "resume":
                with suppress(subprocess.SubprocessError):
                    told = self.slurm.ask("sinfo", "-h", "-N", f"--nodes={node}", "--format=%T")
                    if told.split()[0] in ("idle", "mixed", "allocated", "completing"):
                        return
            time.sleep(1)

    def _controller(self, _: int) -> None:
        time.sleep(self.rng.uniform(1, 12))
        how = self.rng.choice([signal.SIGTERM, signal.SIGKILL])
        self.slurm.stop("slurmctld", how)
        time.sleep(self.rng.uniform(2, 20))
        self.slurm.start("slurmctld")
        self.slurm.wait_answer()
        self._back = time.time()

    def _fill(self) -> None:
        """Held jobs until the controller takes no more."""
        script = self.folder / "filler.sh"
        script.write_text("#!/bin/sh\ntrue\n")
        size = 64
        while size:
            command = ["timeout", "3", "sbatch", "--hold", "--job-name=filler", "--mem=1"]
            command += [
                "--output=/dev/null",
                f"--array=1-{size}" if size > 1 else "--export=NONE",
                str(script),
            ]
            try:
                self._fillers.append(self.slurm.ask(*command).split()[-1])
            except subprocess.SubprocessError:
                size //= 2

    def _full_queue(self, _: int) -> None:
        time.sleep(self.rng.uniform(5, 15))
        for _ in range(20):
            with suppress(subprocess.SubprocessError):
                self.slurm.ask("scancel", "--name=filler")
                return
            time.sleep(2)

    # Checks -----------------------------------------------------------------------------------------

    def _check_first(self, codes: list[int | None]) -> None:
        complete = all((self._path(task)).exists() for task in self._tasks())
        for one, code in zip(self._submitters, codes, strict=True):
            last = one.lines[-1][1] if one.lines else "nothing"
            if code is None:
                self._problems.append(
                    f"a sweep has not ended in {LONGEST:.0f} s, its last line: {last}; the queue: {self._queue}"
                )
            elif code not in (0, 1) or (code == 0 and not complete):
                self._problems.append(
                    f"a sweep ended with {code}; all records there: {complete}; {last}"
                )
            ends = one.ends()
            if code is not None and (missing := sorted(set(range(RUNS)) - ends.keys())):
                left = [seed for seed in missing if "0 to be computed" not in str(one.lines)]
                if left and not self._early(one):
                    self._problems.append(f"a sweep said nothing of the runs {left}; {last}")
            for seed, (at, how) in ends.items():
                fact = max(
                    self._gone.get(seed, at), one.start, self._back if self._back <= at else 0
                )
                self.waits.append(at - fact)
                if self._timed and at - fact > PATIENCE:
                    self._problems.append(f"run {seed} was waited for {at - fact:.0f} s too long")
                if how != "done":
                    self._outcomes.append(re.sub(r";?[^;]*/\S+", "", how))

    def _early(self, one: _Submitter) -> bool:
        """Whether a submitter found some records at its start, so that it had fewer runs to wait for."""
        counts = (
            re.search(r"(\d+) runs, (\d+) to be computed", one.lines[0][1]) if one.lines else None
        )
        return counts is not None and int(counts[2]) == len(one.ends())

    def _check_second(self) -> None:
        for path in self._files.glob("h*-*"):
            path.unlink()
        self.slurm.wait_idle()
        again = self._submit(LIMITS[1])
        if (code := self._code(again)) != 0:
            lines = [line for _, line in again.lines[-3:]]
            self._problems.append(f"the next call ended with {code}: {' | '.join(lines)}")
        for task in self._tasks():
            record = records.read_record(self._path(task), task)
            if record is None:
                self._problems.append(f"no whole record of run {task.seed}")
            elif record["result"]["value"][::1000] != [
                task.seed + k / 7 for k in range(0, 100_000, 1000)
            ]:
                self._problems.append(f"a wrong record of run {task.seed}")
        files = [path for path in (self.folder / "runs/toy").rglob("*.json")]
        if len(files) != RUNS:
            self._problems.append(f"{len(files)} files for {RUNS} runs")

    def _tasks(self) -> list[Task]:
        config: dict[str, Any] = {"folder": str(self._files), "seconds": 1.5, "device": "cpu"}
        return [Task("toy/tiny", config, seed) for seed in range(RUNS)]

    def _path(self, task: Task) -> Path:
        """Where the record of a run lies: its name holds a hash of code, so it is looked for by its content."""
        for path in (self.folder / "runs/toy/tiny").glob("*.json"):
            if records.read_record(path, task) is not None:
                return path
        return self.folder / "runs/toy/tiny/missing"


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _slurm_id(pid: int) -> str:
    """The id of the job that a process belongs to."""
    parts = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    values = dict(part.decode(errors="replace").split("=", 1) for part in parts if b"=" in part)
    return values["SLURM_JOB_ID"]


def _until(condition: Any) -> None:
    until = time.monotonic() + LONGEST / 2
    while not condition() and time.monotonic() < until:
        time.sleep(0.2)
