"""Sweeps and faults on a real Slurm, started here in a folder of its own.

    make test-slurm                the sweeps of all systems, and a sample of faults
    make test-slurm FULL=1         100 faults; SEED=n chooses other ones
    make test-slurm CI=1           both at once; nothing that the clock decides is a fault

Ends with 1 where a record of Slurm is not that of the local pool, or a fault was not survived. Where Slurm is not
installed, or does not work here, one line says so, and it ends with 3; with CI=1 (which services for continuous
integration set), with 0.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import daemons
import faults
import sweeps

PARTS = ("sweeps", "faults")
FOUND, NOT_TESTED = 1, 3
"""How it ends where something is wrong, and where Slurm is missing or does not work."""
LIMIT = 1200.0
"""Seconds for a sweep of all systems with CI=1."""


def main() -> int:
    """Run the parts asked for; the exit status."""
    parser = argparse.ArgumentParser(prog="make test-slurm", description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--full", action="store_true", help="100 faults")
    parser.add_argument("--seed", type=int, default=0, help="of the list of faults")
    parser.add_argument("--count", type=int, help="of faults; default 8")
    parser.add_argument("--round", type=int, action="append", help="of faults, to play again alone")
    parser.add_argument("--ci", action="store_true", help="judge nothing by the clock")
    options = parser.parse_args()
    parts = options.part or list(PARTS)
    if lacking := daemons.lacking():
        return _not_tested(lacking, options.ci)
    if options.ci and len(parts) > 1:
        return _at_once(parts)
    return _in_turn(parts, options)


def _in_turn(parts: list[str], options: argparse.Namespace) -> int:
    found: list[str] = []
    status = 0
    try:
        with (
            tempfile.TemporaryDirectory(prefix="slurm-") as folder,
            daemons.Slurm(Path(folder)) as slurm,
        ):
            if "sweeps" in parts:
                sweeps.run(slurm, Path(folder) / "runs", found, LIMIT if options.ci else None)
            if "faults" in parts:
                count = options.count or (100 if options.full else 8)
                faults.run(slurm, options.seed, count, found, options.round or (), not options.ci)
    except daemons.SlurmError as why:
        status = _not_tested(f"{', '.join(parts)}: {why}", options.ci)
    for one in found:
        print(f"FAULT: {one}", file=sys.stderr)
    return FOUND if found else status


def _at_once(parts: list[str]) -> int:
    """Each part in a process and a Slurm of its own: sweeps compute, faults mostly wait."""
    here = [sys.executable, Path(__file__).parent, *sys.argv[1:]]
    started = [subprocess.Popen([*here, "--part", part]) for part in parts]
    return FOUND if any([one.wait() for one in started]) else 0


def _not_tested(why: str, ci: bool) -> int:
    print(f"not tested on Slurm: {why}", file=sys.stderr, flush=True)
    return 0 if ci else NOT_TESTED


if __name__ == "__main__":
    sys.exit(main())
