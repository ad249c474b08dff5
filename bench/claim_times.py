"""How long `make claim` takes: a seeded sample of claims, each decided anew in a process of its own.

    python bench/claim_times.py [--count 30] [--seed 0] [--patience 120]

The sample has claims of every paper and of every kind, as evenly as their numbers allow. For each one the table
shows wall and processor seconds of the whole command, the cells executed, and whether the verdict is the ledger's.
The last line gives the medians. The exit status is 1 where a claim was not decided as in the ledger, in time.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import resource
import statistics
import subprocess
import sys
import time

from reproduce import catalogue, paths
from reproduce.claims import UNATTAINABLE
from reproduce.machine import python_path
from reproduce.results import results


def sample(count: int, seed: int) -> list[str]:
    """Full ids of decided claims, drawn in turn from every paper and kind."""
    groups: dict[tuple[str, str], list[str]] = {}
    for item in results():
        for row in item.rows:
            if row["profile"] and row["verdict"] != UNATTAINABLE:
                groups.setdefault((item.entry.paper, row["kind"]), []).append(row["id"])
    draw = random.Random(seed)
    for key in sorted(groups):
        draw.shuffle(groups[key])
    chosen: list[str] = []
    while len(chosen) < count and any(groups.values()):
        chosen += [groups[key].pop() for key in sorted(groups) if groups[key]]
    return sorted(chosen[:count]) if count < len(chosen) else sorted(chosen)


def decide(claim: str, patience: float) -> tuple[float, float, str, str]:
    """Wall and processor seconds of `make claim`, the cells executed, and "" or what went wrong."""
    command = [sys.executable, "-m", "reproduce.claim", claim]
    environment = os.environ | {
        "PYTHONPATH": python_path(),
        "REPRO_QUIET": "1",
        "OMP_NUM_THREADS": "1",
    }
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=paths.ROOT, env=environment, capture_output=True, text=True,
            timeout=patience, check=False,
        )  # fmt: skip
        problem = "" if done.returncode == 0 else (done.stderr.strip() or "another verdict")
        text = done.stdout
    except subprocess.TimeoutExpired:
        problem, text = f"not decided in {patience:g} s", ""
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cells = re.search(r"in (\d+ of \d+) code cells", text)
    return time.monotonic() - start, spent, cells[1] if cells else "-", problem


def main() -> int:
    """Print one line a claim and the medians; 1 where a claim was not decided as in the ledger."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=120, help="seconds for one claim")
    options = parser.parse_args()
    if options.count < 1 or options.patience <= 0:
        parser.error("--count must be at least 1 and --patience above 0")
    chosen = sample(options.count, options.seed)
    known = sum(len(entry.claims) for entry in catalogue.figures())
    print(f"{len(chosen)} of {known} claims, seed {options.seed}, {platform.processor() or 'cpu'}")
    print(f"{'claim':60} {'wall s':>7} {'cpu s':>7} {'cells':>9}")
    walls, spents, faults = [], [], 0
    for claim in chosen:
        wall, spent, cells, problem = decide(claim, options.patience)
        walls.append(wall)
        spents.append(spent)
        faults += bool(problem)
        print(f"{claim:60} {wall:7.1f} {spent:7.1f} {cells:>9} {problem}".rstrip(), flush=True)
    print(
        f"median {statistics.median(walls):.1f} s wall, {statistics.median(spents):.1f} s processor; "
        f"longest {max(walls):.1f} s; {faults} not decided as in the ledger"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
