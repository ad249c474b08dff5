"""The fault harness: kills, random calls, secure sums with faults. Bounded in time and count, the same for one seed.

    make faults                    small: a few minutes
    make faults FULL=1             five cold runs of `make all`, ten kills each, and "places"; hours

Four parts, each of which says what it did and ends the program with 1 where something broke:

* kills: a copy of the project runs its notebooks from nothing, its process group is killed with SIGKILL at random
  moments and started again; in the end every file is the one that an undisturbed run writes.
* calls: public functions, mechanisms and settings of `repro` with random arguments, usual, extreme and senseless.
  An answer has no nan, no inf, and its lower bound is below the upper one; delta does not rise with epsilon, epsilon
  does not fall with more rounds or participations, nor rise with more noise; an error
  is a `ValueError` or `TypeError` that names something; no warning leaks; no call takes more than 20 s of the
  processor or 2 GiB.
* sums: rounds of `repro.secagg` with servers as threads of this process and with servers of their own, whose messages
  go to a log, to a full disk or to a pipe that nobody reads; every second one with a fault (a frame dropped, doubled,
  cut, altered, out of order or of an earlier round, a silent client, idle callers, a connection that ended unnoticed,
  a stranger's certificate, an operator that comes again, a killed server): the sum is right, or there is none; the end
  comes in time, and the next round works.
* places: every command in a folder whose name has a space and letters outside ASCII, in another locale and time zone,
  as an ordinary user, where nothing may be written, and on a full disk (`fault_places.py`).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fault_calls
import fault_places
import fault_sums

SMALL = ["partitioning/fig3"]
"""The figures of the small run: seconds each."""

PATIENCE = 1800
"""Seconds that one resumed run may take."""


def main() -> int:
    """Run the parts asked for; 1 where one of them found a fault."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=("kills", "calls", "sums", "places"), action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true", help="all figures, five cold runs")
    parser.add_argument("--seconds", type=int, default=60, help="of random calls, and of sums")
    parser.add_argument("--jobs", type=int, default=1, help="notebooks at a time, of runs to kill")
    parser.add_argument("--calls", type=int, help="the most random calls; else as many as fit")
    parser.add_argument(
        "--costly", type=int, help="so many above 50 ms, and `--calls` below; else as they come"
    )
    parser.add_argument("--each", action="store_true", help="print the calls of every source")
    parser.add_argument(
        "--rounds",
        type=int,
        help="the most sums over sockets, and a tenth of those in process; else as fit",
    )
    options = parser.parse_args()
    parts = options.part or ["calls", "sums", "kills", *(["places"] if options.full else [])]
    found: list[str] = []
    if "calls" in parts:
        found += fault_calls.run(
            options.seed, options.seconds, options.calls, options.costly, options.each
        )
    if "sums" in parts:
        found += fault_sums.run(options.seed, options.seconds, options.rounds)
    if "kills" in parts:
        found += kills(options.seed, options.full, options.jobs)
    if "places" in parts:
        found += fault_places.run()
    for one in found:
        print(f"FAULT: {one}", file=sys.stderr)
    print(f"{len(found)} faults, seed {options.seed}")
    return 1 if found else 0


# Kills --------------------------------------------------------------------------------------------


def kills(seed: int, full: bool, jobs: int) -> list[str]:
    """What is wrong after runs that were killed and resumed; [] where every file is the same.

    Moments are spread so that the kills of a cold run fall within its way to the end: what was finished stays, so that
    each resumed run begins later.
    """
    rng = random.Random(seed)
    ids, runs, times = ([], 5, 10) if full else (SMALL, 1, 3)
    found: list[str] = []
    hit = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        plain = _copy(Path(folder) / "plain")
        start = time.monotonic()
        if _run(plain, ids, jobs).wait(PATIENCE * (10 if full else 1)):
            return [f"kills: an undisturbed run failed, see {plain}"]
        usual = time.monotonic() - start
        expected = _files(plain)
        for number in range(runs):
            place = _copy(Path(folder) / f"run{number}")
            for _ in range(times):
                hit += _kill_after(_run(place, ids, jobs), rng.uniform(0.0, 1.6) * usual / times)
                if halves := [path for path in _files(place) if not path.endswith(_WRITTEN)]:
                    found.append(f"kills: run {number} left {halves[0]}")
            if _run(place, ids, jobs).wait(PATIENCE * (10 if full else 1)):
                found.append(f"kills: run {number} could not be resumed")
            found += _differences(f"kills: run {number}", expected, _files(place))
            shutil.rmtree(place)
    print(
        f"kills: {runs} cold runs of {len(ids) or 'all'} figures, {hit} of {runs * times} kills hit a run on its way",
        flush=True,
    )
    return found


_WRITTEN = (".json", ".png", ".pdf", ".md")


def _copy(place: Path) -> Path:
    """The project without what a run makes, and without its figures' last results."""
    fault_places.copy(place)
    shutil.rmtree(place / "figures")
    return place


def _run(place: Path, ids: list[str], jobs: int) -> subprocess.Popen[bytes]:
    """Start the runner in a process group of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("REPRO_", "PYTHONPATH"))}
    search = os.pathsep.join([str(place / "src"), str(place)])
    command = [sys.executable, "-m", "reproduce", "run", "--jobs", str(jobs), *ids]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    env = {**kept, "PYTHONPATH": search}
    return subprocess.Popen(command, cwd=place, env=env, start_new_session=True, **silent)


def _kill_after(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Kill the whole group, unless it has ended by then; whether it was killed."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def _files(place: Path) -> dict[str, str]:
    """Path and hash of every file in `figures/`, unfinished ones left out: they may lie there."""
    return {
        path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((place / "figures").rglob("*"))
        if path.is_file() and not path.name.endswith(".partial")
    }


def _differences(what: str, expected: dict[str, str], got: dict[str, str]) -> list[str]:
    """The files that are not those of an undisturbed run."""
    names = sorted(expected.keys() | got.keys())
    return [f"{what}: {name} differs" for name in names if expected.get(name) != got.get(name)]


if __name__ == "__main__":
    sys.exit(main())
