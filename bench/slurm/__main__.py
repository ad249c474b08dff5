"""Sweeps and faults on a real Slurm, started here in a folder of its own.

    make test-slurm                the sweeps of all systems, and a sample of faults
    make test-slurm FULL=1         100 faults; SEED=n chooses other ones

Ends with 1 where a record of Slurm is not that of the local pool, or a fault was not survived. Where Slurm is not
installed, one line says what to install, and it ends with 0; with --required it ends with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import daemons
import faults
import sweeps


def main() -> int:
    """Run the parts asked for; 1 where one of them found a fault."""
    parser = argparse.ArgumentParser(prog="make test-slurm", description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=("sweeps", "faults"), action="append")
    parser.add_argument("--full", action="store_true", help="100 faults")
    parser.add_argument("--seed", type=int, default=0, help="of the list of faults")
    parser.add_argument("--count", type=int, help="of faults; default 8")
    parser.add_argument("--round", type=int, action="append", help="of faults, to play again alone")
    parser.add_argument("--required", action="store_true", help="without Slurm, fail")
    options = parser.parse_args()
    if lacking := daemons.lacking():
        print(f"not tested on Slurm: {lacking}", file=sys.stderr)
        return 1 if options.required else 0
    parts = options.part or ["sweeps", "faults"]
    found: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,
        daemons.Slurm(Path(folder)) as slurm,
    ):
        if "sweeps" in parts:
            found += sweeps.run(slurm, Path(folder) / "runs")
        if "faults" in parts:
            count = options.count or (100 if options.full else 8)
            found += faults.run(slurm, options.seed, count, options.round or ())
    for one in found:
        print(f"FAULT: {one}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
