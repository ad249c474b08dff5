"""The command line: `python -m reproduce COMMAND`; `make help` says what each is for."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from repro import paths
from reproduce import catalogue


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code (2: wrong call or ill-formed catalogue)."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except catalogue.CatalogueError as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    from reproduce.machine import cores

    parser = argparse.ArgumentParser(prog="python -m reproduce", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, function in COMMANDS.items():
        text = (function.__doc__ or "").strip().splitlines()[0]
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=function)
        if name in ("run", "sweep", "data", "publish", "verify", "site"):
            command.add_argument("--profile", default="quick", choices=catalogue.PROFILES)
        if name in ("run", "sweep", "data", "publish"):
            command.add_argument("ids", nargs="*", help="<paper>/<figure> or <paper>; default: all")
        if name in ("run", "sweep", "test"):
            command.add_argument("--jobs", type=_count, default=cores(), help="processes at a time")
        if name == "sweep":
            command.add_argument("--slurm", metavar="PARTITION", help="compute on a cluster")
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number >= 1, got {text!r}")
    return int(text)


# Commands -----------------------------------------------------------------------------------------


def run(options: Any) -> int:
    """Run the notebooks whose results are missing or out of date."""
    from reproduce import runner

    return runner.run(catalogue.select(options.ids), options.profile, options.jobs)


def sweep(options: Any) -> int:
    """Compute the training runs of a profile before the notebooks ask for them."""
    from reproduce import pool, records, tasks

    wanted = {task.key: task for _, group in _tasks(options) for task in group}
    missing = {key: task for key, task in wanted.items() if records.look_up(task) is None}
    print(f"{len(wanted)} runs, {len(missing)} to be computed", flush=True)
    if options.slurm and missing:
        errors = pool.submit(list(missing.values()), options.slurm)
        for key, error in errors.items():
            print(f"FAILED: {error}: {missing[key]}", file=sys.stderr)
        return 1 if errors else 0
    report = None if sys.stderr.isatty() else lambda text: print(text, flush=True)
    try:
        tasks.run_tasks(list(missing.values()), jobs=options.jobs, report=report)
    except records.TaskError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def publish(options: Any) -> int:
    """Copy the run records of a profile to data/published/, to be committed."""
    from reproduce import records

    failed = False
    for entry, group in _tasks(options):
        folder = paths.PUBLISHED / entry.id / options.profile
        try:
            count = records.publish(group, folder)
            print(f"{entry.id}: {count} records in {folder}")
        except (records.TaskError, OSError) as problem:
            failed = True
            print(f"{entry.id}: nothing published: {problem}", file=sys.stderr)
    return 1 if failed else 0


def _tasks(options: Any) -> list[tuple[catalogue.Figure, list[Any]]]:
    """The training runs that the figures chosen need, figure by figure."""
    from reproduce.records import tasks_of

    chosen = [entry for entry in catalogue.select(options.ids) if entry.runs]
    return [(entry, tasks_of(entry, options.profile)) for entry in chosen]


def data(options: Any) -> int:
    """Fetch and check the data sets that a profile reads."""
    from repro.datasets.registry import DataError, fetch

    entries = catalogue.select(options.ids)
    names = dict.fromkeys(name for entry in entries for name in entry.data(options.profile))
    failed = False
    for name in names:
        try:
            print(f"{name}: {fetch(name)}", flush=True)
        except DataError as problem:
            failed = True
            print(f"{name}: {problem}", file=sys.stderr)
    if not names:
        print(f"profile {options.profile} needs no data files")
    return 1 if failed else 0


def test(options: Any) -> int:
    """Look for faults in style, replay the committed notebooks, run the unit tests."""
    jobs = str(options.jobs)
    steps = {
        "lint": ["ruff", "check"],
        "committed notebooks and stored numbers": ["reproduce.replay", "--jobs", jobs],
        "unit tests": ["pytest", "-n", jobs, "-q"],
    }
    return _each(steps)


def verify(options: Any) -> int:
    """Compare figures/ with the stored numbers; check ledger and gallery."""
    steps = {
        "numbers": ["reproduce.compare", "--profile", options.profile],
        "ledger": ["reproduce.ledger", "--check"],
        "gallery": ["reproduce.gallery", "--check"],
    }
    return _each(steps)


def bench(_: Any) -> int:
    """Run every benchmark."""
    files = sorted((paths.ROOT / "bench").glob("*.py"))
    return _each({file.name: [str(file)] for file in files})


def _each(steps: dict[str, list[str]]) -> int:
    """Run Python programs one after the other, all of them; 1 when one failed."""
    failed = []
    for name, (program, *arguments) in steps.items():
        print(f"--- {name}", flush=True)
        call = [program] if program.endswith(".py") else ["-m", program]
        command = [sys.executable, *call, *arguments]
        if subprocess.run(command, cwd=paths.ROOT, env=_environment(), check=False).returncode:
            failed.append(name)
    if failed:
        print(f"FAILED: {', '.join(failed)}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def _environment() -> dict[str, str]:
    from reproduce.machine import python_path

    return {**os.environ, "PYTHONPATH": python_path()}


def site(options: Any) -> int:
    """Turn the executed notebooks into web pages."""
    from reproduce import website

    print(f"written: {website.build(options.profile)}")
    return 0


COMMANDS = {
    command.__name__: command for command in (run, sweep, publish, data, test, verify, site, bench)
}


if __name__ == "__main__":
    sys.exit(main())
