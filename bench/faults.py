"""The fault harness: kills, random calls, secure sums with faults. Bounded in time and count, the same for one seed.

    make faults                    small: a few minutes
    make faults FULL=1             five cold runs of `make all`, ten kills each, and "places"; hours
    make faults FULL=1 PART=kills KEPT=/tmp/kills      the same kills over several evenings: it can be ended at any
                                   time and goes on where it was

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
  a stranger's certificate, an operator that comes again, a server that is killed and started again, or stands still):
  the sum is right, or there is none; the end comes in time, and the next round works.
* places: every command in a folder whose name has a space and letters outside ASCII, in another locale and time zone,
  as an ordinary user, where nothing may be written, and on a full disk (`fault_places.py`).
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import fault_calls
import fault_kills
import fault_places
import fault_sums


def main() -> int:
    """Run the parts asked for; 1 where one of them found a fault."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=("kills", "calls", "sums", "places"), action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true", help="all figures, five cold runs")
    parser.add_argument("--seconds", type=int, default=60, help="of random calls, and of sums")
    parser.add_argument("--jobs", type=int, default=1, help="notebooks at a time, of runs to kill")
    parser.add_argument(
        "--kept", type=Path, help="folder outside the project with the kills of earlier evenings"
    )
    parser.add_argument("--calls", type=int, help="the most random calls; else as many as fit")
    parser.add_argument(
        "--costly", type=int, help="so many above 50 ms, and `--calls` below; else as they come"
    )
    parser.add_argument("--each", action="store_true", help="print the calls of every source")
    parser.add_argument(
        "--rounds",
        type=int,
        help="the most sums over sockets, ten times as many in process; else as fit",
    )
    options = parser.parse_args()
    parts = options.part or ["calls", "sums", "kills", *(["places"] if options.full else [])]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended as well
    found: list[str] = []
    if "calls" in parts:
        found += fault_calls.run(
            options.seed, options.seconds, options.calls, options.costly, options.each
        )
    if "sums" in parts:
        found += fault_sums.run(options.seed, options.seconds, options.rounds)
    if "kills" in parts:
        found += fault_kills.run(options.seed, options.full, options.jobs, options.kept)
    if "places" in parts:
        found += fault_places.run()
    for one in found:
        print(f"FAULT: {one}", file=sys.stderr)
    print(f"{len(found)} faults, seed {options.seed}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
