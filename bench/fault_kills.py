"""Runs that are killed and resumed: what `faults.py` runs as its part "kills".

A copy of the project runs its notebooks from nothing. At random moments its whole process group is killed with SIGKILL
and started again. In the end every file must be the one that an undisturbed run writes.

A cold run of all figures takes the better part of an hour, so five of them with ten kills each are collected over
several evenings: what was done so far lies in a folder of the caller's, outside the project, and the next call goes on
from there, in the middle of a run if need be. It counts for one state of the project only.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import fault_places

from repro.atomic import write_json

SMALL = ["partitioning/fig3"]
"""The figures of the small run: seconds each."""

KEPT = "certificates"
"""The folders in `figures/` with what no run makes: numbers chosen once, for `make certify` to check."""

PATIENCE = 6 * 3600
"""Seconds that a run may take from its last kill to its end."""

LOOK = 0.2
"""Seconds between looks at how far a run is."""


def run(seed: int, full: bool, jobs: int, kept: Path | None = None) -> list[str]:
    """What is wrong after runs that were killed and resumed; [] where every file is the same.

    Args:
        seed: of the moments.
        full: five runs of all figures with ten kills each; else one of `SMALL` with three kills. Both are compared with
            an undisturbed run made here: the figures of the project may come from another kind of processor, on which
            trained networks end elsewhere.
        jobs: notebooks at a time.
        kept: the folder with the runs so far; None for a temporary one.
    """
    ids, runs, times = ([], 5, 10) if full else (SMALL, 1, 3)
    with ExitStack() as after:
        above = kept or Path(after.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        known = _known(above)
        for number in range(len(known["runs"]), runs):
            _one(above, known, random.Random(f"{seed} {number}"), ids, times, jobs)
            print(f"kills: {_told(known, runs, times)}", flush=True)
    print(f"kills: {_told(known, runs, times)}", flush=True)
    return [one for past in known["runs"] for one in past["found"]]


def _told(known: dict[str, Any], runs: int, times: int) -> str:
    past = known["runs"]
    good = sum(one["kills"] for one in past if not one["found"])
    return (
        f"{len(past)} of {runs} cold runs, resumed to identical files after {good} of {runs * times} kills; "
        f"{known['commit']}"
    )


def _known(above: Path) -> dict[str, Any]:
    """What was done so far with the project as it is; else the beginning, with a copy of the project."""
    above.mkdir(parents=True, exist_ok=True)
    if above.resolve().is_relative_to(fault_places.ROOT):
        raise ValueError(f"the folder for kills must lie outside the project, got {above}")
    with tempfile.TemporaryDirectory(prefix="faults-") as other:
        fault_places.copy(Path(other) / "source")
        digest = _digest(_files(Path(other) / "source", ""))
        note = above / "state.json"
        if note.is_file() and (known := json.loads(note.read_text()))["project"] == digest:
            return known
        for name in ("source", "run"):
            shutil.rmtree(above / name, ignore_errors=True)
        shutil.copytree(Path(other) / "source", above / "source", symlinks=True)
    for path in (above / "source" / "figures").rglob("*"):
        if path.is_file() and path.parent.name != KEPT:
            path.unlink()
    known = {"project": digest, "commit": _commit(), "expected": {}, "runs": [], "kills": 0}
    write_json(note, known)
    return known


def _one(
    above: Path,
    known: dict[str, Any],
    rng: random.Random,
    ids: list[str],
    times: int,
    jobs: int,
) -> None:
    """One cold run with its kills, or the rest of it."""
    if not known["expected"]:
        place = _cold(above)
        if code := _end(_start(place, ids, jobs)):
            raise RuntimeError(f"an undisturbed run ended with {code}, see {place}")
        known["expected"] = _files(place)
        write_json(above / "state.json", known)
        shutil.rmtree(place)
    place, found = above / "run", known.setdefault("broken", [])
    if not place.exists() or not known["kills"]:
        _cold(above)
    figures = sum(name.endswith(".png") for name in known["expected"]) if not ids else len(ids)
    for left in range(times - known["kills"], 0, -1):
        done = _finished(place)
        goal = done + rng.randrange(1 + 2 * (figures - done) // (left + 1))
        if not _kill(_start(place, ids, jobs), place, goal, rng.random()):
            break  # all was done before
        known["kills"] += 1
        if halves := [name for name in _files(place) if not name.endswith(_WRITTEN)]:
            found.append(f"kills: run {len(known['runs'])} left {halves[0]}")
        write_json(above / "state.json", known)
    if code := _end(_start(place, ids, jobs)):
        found.append(f"kills: run {len(known['runs'])} could not be resumed: status {code}")
    got = _files(place)
    found += _differences(f"kills: run {len(known['runs'])}", known["expected"], got)
    known["runs"].append({"kills": known["kills"], "found": found})
    known |= {"kills": 0, "broken": []}
    write_json(above / "state.json", known)
    if found:
        place.rename(above / f"broken{len(known['runs'])}")
    else:
        shutil.rmtree(place)


_WRITTEN = (".json", ".png", ".pdf", ".md")


def _cold(above: Path) -> Path:
    """The project without what a run makes, and without its figures' last results."""
    place = above / "run"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(above / "source", place, symlinks=True)
    return place


def _start(place: Path, ids: list[str], jobs: int) -> subprocess.Popen[bytes]:
    """Start the runner in a process group of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("REPRO_", "PYTHONPATH"))}
    search = os.pathsep.join([str(place / "src"), str(place)])
    command = [sys.executable, "-m", "reproduce", "run", "--jobs", str(jobs), *ids]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    env = {**kept, "PYTHONPATH": search}
    return subprocess.Popen(command, cwd=place, env=env, start_new_session=True, **silent)


def _kill(process: subprocess.Popen[bytes], place: Path, goal: int, part: float) -> bool:
    """Kill the whole group; whether it was on its way.

    The moment: when `goal` figures are finished, and `part` of the time that one has taken (of ten seconds, before
    the first one is finished).
    """
    start, before, moment = time.monotonic(), _finished(place), None
    try:
        while moment is None or time.monotonic() < moment:
            if moment is None and (done := _finished(place)) >= goal:
                each = (time.monotonic() - start) / (done - before) if done > before else 10.0
                moment = time.monotonic() + part * each
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK)
                return False
        return True
    finally:
        _stop(process)


def _end(process: subprocess.Popen[bytes]) -> int:
    """Let a run end; its exit status."""
    try:
        return process.wait(PATIENCE)
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole group, where it is still there."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _finished(place: Path) -> int:
    """How many figures a run has finished."""
    return sum(1 for _ in (place / "build" / "state").rglob("*.json"))


def _files(place: Path, within: str = "figures") -> dict[str, str]:
    """Path and hash of every file in `figures/`, unfinished ones left out: they may lie there."""
    return {
        path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((place / within).rglob("*"))
        if path.is_file() and not path.name.endswith(".partial")
    }


def _digest(files: dict[str, str]) -> str:
    return hashlib.sha256("\n".join(map(" ".join, files.items())).encode()).hexdigest()


def _commit() -> str:
    """The commit of the project, and whether it was changed since; "no commit known" without git."""
    asked = ["git", "-C", str(fault_places.ROOT), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "no commit known"
    return f"commit {done.stdout.strip()}"


def _differences(what: str, expected: dict[str, str], got: dict[str, str]) -> list[str]:
    """The files that are not those of an undisturbed run."""
    names = sorted(expected.keys() | got.keys())
    return [f"{what}: {name} differs" for name in names if expected.get(name) != got.get(name)]
