"""Replay the committed notebooks: `python -m reproduce.replay [ids]`.

Every cell is run again by nbval and its output compared with the committed one; pictures are left
out by nbval, their numbers are not: the runs write their json files to a scratch folder, and these
are compared with the stored numbers. The committed notebooks and `figures/` are not touched.

A notebook that `make all` has executed, and of which nothing has changed since, is not executed once
more: nbval compares the executed copy (`reproduce.executed`), and the numbers are those in `figures/`.

Notebooks that train (`seed_band` in the catalogue) give other digits on other machines: of
their outputs only cells tagged `nbval-check-output` are compared, without the digits
(`trained.sanitize`), and their numbers by band.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from reproduce import catalogue, compare, executed, fingerprint, paths, sources, state
from reproduce.catalogue import Figure
from reproduce.destination import Destination
from reproduce.machine import scratch_environment

SANITIZE = Path(__file__).with_name("trained.sanitize")
"""What is left out of the checked outputs of notebooks that train."""

CELL_SECONDS = 900
"""Seconds that one cell may take before it counts as failed."""


def environment(scratch: Path) -> dict[str, str]:
    """The environment of a quiet, single-threaded run that writes all its files below `scratch`."""
    return scratch_environment(scratch) | {executed.VARIABLE: str(paths.BUILD / "executed")}


def command(
    notebooks: Sequence[Path], jobs: int, lax: bool = False, made: bool = False
) -> list[str]:
    """The call of pytest that replays `notebooks`, without the project's pytest settings.

    `lax` compares the outputs of tagged cells only, without the digits of their runs; every cell
    must run in either case. `made` compares the executed copies that `make all` has left.
    """
    workers = min(jobs, len(notebooks))
    spread = ["-n", str(workers), "--dist", "loadscope"] if workers > 1 else ["-p", "no:xdist"]
    return [
        *(sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(paths.ROOT)),
        *("-p", "no:cacheprovider", "-q", "--no-header", "--tb=short", "--disable-warnings"),
        *(
            *(("--nbval-lax", f"--nbval-sanitize-with={SANITIZE}") if lax else ("--nbval",)),
            "--nbval-current-env",
            f"--nbval-cell-timeout={CELL_SECONDS}",
        ),
        *(("-p", executed.__name__) if made else ()),
        *spread,
        *map(str, notebooks),
    ]


def was_executed(entry: Figure) -> bool:
    """Whether `make all` has executed a notebook, and nothing that it depends on has changed since.

    Its texts count, too: tables link to its headings, while a new heading alone makes no figure stale.
    """
    where = Destination(entry.id)
    if state.reasons(where, fingerprint.of_figure(entry, where.profile)):
        return False
    known = state.read(where).get("executed")
    if not where.executed.is_file() or state.sha256(where.executed) != known:
        return False
    return sources.headings(where.executed) == sources.headings(entry.notebook)


def replay(ids: Sequence[str], jobs: int, keep: bool = False) -> bool:
    """Replay the notebooks of `ids` with `jobs` processes; return whether all of it agrees."""
    entries = [catalogue.figure(figure_id) for figure_id in ids]
    if problems := [text for entry in entries if (text := sources.problem(entry.notebook))]:
        print("\n".join(problems), file=sys.stderr)
        return False
    made = {entry.id for entry in entries if was_executed(entry)}
    groups: dict[tuple[bool, bool], list[Path]] = {}
    for entry in entries:
        key = entry.seed_band is not None, entry.id in made
        groups.setdefault(key, []).append(entry.notebook)
    paths.BUILD.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="replay-", dir=paths.BUILD))
    try:
        calls = [command(groups[key], jobs, *key) for key in sorted(groups)]
        env = environment(scratch)
        codes = [subprocess.run(c, cwd=paths.ROOT, env=env, check=False).returncode for c in calls]
        outputs = not any(codes)
        print(f"committed outputs: {'agree' if outputs else 'differ (above)'}", flush=True)
        print(f"{len(made)} of {len(ids)} notebooks were compared as make all has executed them")
        again = [name for name in ids if name not in made]
        numbers = compare.report(sorted(made), "quick")
        numbers &= compare.report(again, "quick", scratch / "figures")
        print(f"stored numbers: {'agree' if numbers else 'differ (above)'}")
        if not (outputs and numbers):
            print("where a change is meant, `make references` renews notebooks and numbers")
        return outputs and numbers
    finally:
        if keep:
            print(f"kept: {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: exit 0 when everything agrees, 1 when something differs, 2 for a wrong call."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce.replay", description=__doc__.split("\n")[0]
    )
    parser.add_argument("ids", nargs="*", help="<paper>/<figure> or <paper> (default: all)")
    parser.add_argument(
        "-j", "--jobs", type=int, default=os.cpu_count() or 1, help="notebooks at a time"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the scratch folder with the json files"
    )
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    try:
        ids = [entry.id for entry in catalogue.select(options.ids)]
        return 0 if replay(ids, options.jobs, options.keep) else 1
    except catalogue.CatalogueError as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
