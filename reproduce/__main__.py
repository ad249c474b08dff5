"""The command line: `python -m reproduce COMMAND`; `make help` says what each is for."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from reproduce import catalogue, paths

NO_TESTS = 5
"""The exit code of pytest when there is no test of the kind asked for."""


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
        if name in ("run", "sweep", "data", "publish", "verify", "plan"):
            command.add_argument("--profile", default="quick", choices=catalogue.PROFILES)
        if name in ("run", "sweep", "data", "publish", "test", "plan"):
            command.add_argument("ids", nargs="*", help="<paper>/<figure> or <paper>; default: all")
        if name in ("run", "sweep", "test", "site"):
            command.add_argument("--jobs", type=_count, default=cores(), help="processes at a time")
        if name == "run":
            text = 'parameters of one figure to change: "name=value name=value …"'
            command.add_argument("--set", default="", metavar="VALUES", help=text)
        if name == "test":
            command.add_argument("--slow", action="store_true", help="only the slow unit tests")
        if name == "sweep":
            command.add_argument("--slurm", metavar="PARTITION", help="compute on a cluster")
            text = (
                "compute nothing: say how far the jobs on a cluster are, and where their logs lie"
            )
            command.add_argument("--status", action="store_true", help=text)
            command.add_argument(
                "--seed", type=int, help="with --status: the logs of this seed only"
            )
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number >= 1, got {text!r}")
    return int(text)


# Commands -----------------------------------------------------------------------------------------


def run(options: Any) -> int:
    """Run the notebooks whose results are missing or out of date."""
    from reproduce import changes, runner
    from reproduce.parameters import ParameterError

    entries = catalogue.select(options.ids)
    changed: dict[str, Any] = {}
    if options.set:
        if len(entries) != 1:
            print(
                "SET changes the parameters of one figure: make fig/<paper>/<id> SET=…, "
                f"got {len(entries)} figures",
                file=sys.stderr,
            )
            return 2
        try:
            changed = changes.parse(options.set, entries[0].parameters(options.profile))
        except ParameterError as problem:
            print(f"{entries[0].id}: {problem}", file=sys.stderr)
            return 2
    return runner.run(entries, options.profile, options.jobs, changed)


def sweep(options: Any) -> int:
    """Compute the training runs of a profile before the notebooks ask for them."""
    from reproduce import cluster, records, status, tasks

    labelled = {task.key: (entry.id, task) for entry, group in _tasks(options) for task in group}
    if options.status:
        try:
            print(status.report(labelled, options.seed))
        except RuntimeError as problem:
            print(problem, file=sys.stderr)
            return 1
        return 0
    wanted = {key: task for key, (_, task) in labelled.items()}
    missing = {key: task for key, task in wanted.items() if records.look_up(task) is None}
    print(f"{len(wanted)} runs, {len(missing)} to be computed", flush=True)
    if options.slurm and missing:
        try:
            labels = {key: label for key, (label, _) in labelled.items()}
            errors = cluster.submit(list(missing.values()), options.slurm, labels)
        except (RuntimeError, ValueError) as problem:
            print(problem, file=sys.stderr)
            return 1
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


def plan(options: Any) -> int:
    """Print what the training runs of a profile would cost; compute nothing."""
    from reproduce import plan as planned

    print(planned.text(catalogue.select(options.ids), options.profile))
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
    """Fetch and check the data sets that a profile reads; list what cannot be had."""
    from repro.datasets.registry import DataError, entry, fetch, find
    from reproduce import subsets

    entries = catalogue.select(options.ids)
    names = dict.fromkeys(name for figure in entries for name in figure.data(options.profile))
    damaged, absent = [], {}
    for name in names:
        try:
            find(name)
        except DataError as problem:
            print(f"{name}: {problem}", file=sys.stderr)
            damaged.append(name)
            continue
        try:
            from_whole = find(name) is None and name in subsets.NAMES and not entry(name).url
            print(f"{name}: {subsets.cut(name) if from_whole else fetch(name)}", flush=True)
        except DataError as problem:
            absent[name] = str(problem)
    if absent:
        print(f"{len(absent)} of {len(names)} cannot be had here; published runs need none of them")
        print("".join(f"  {name}: {problem}\n" for name, problem in absent.items()), end="")
    if not names:
        print(f"profile {options.profile} needs no data files")
    return 1 if damaged else 0


def test(options: Any) -> int:
    """Look for faults in style, replay the committed notebooks, run the unit tests."""
    jobs, entries = str(options.jobs), catalogue.select(options.ids)
    files = _tests_of({entry.paper for entry in entries}) if options.ids else []
    tests = ["pytest", "-n", jobs, "-q", "-m", "slow" if options.slow else "not slow", *files]
    steps: dict[str, list[str]] = {}
    if not options.slow:
        ids = [entry.id for entry in entries] if options.ids else []
        steps["lint"] = ["ruff", "check"]
        steps["committed notebooks and stored numbers"] = ["reproduce.replay", "--jobs", jobs, *ids]
        if ids:
            papers = " or ".join(dict.fromkeys(entry.paper for entry in entries))
            rules = ["pytest", "-n", jobs, "-q", "-k", papers, "tests/reproduce/test_workbook.py"]
            steps["rules that every notebook keeps"] = rules
    if files or not options.ids:
        steps["slow unit tests" if options.slow else "unit tests"] = tests
    return _each(steps)


def _tests_of(papers: set[str]) -> list[str]:
    """The test files of some papers: in a folder of the paper's name, or named after it."""
    folder = paths.ROOT / "tests"
    return [
        path.relative_to(paths.ROOT).as_posix()
        for path in sorted(folder.rglob("test_*.py"))
        for parents in [path.relative_to(folder).parent.parts]
        if any(paper in parents or paper in path.name for paper in papers)
    ]


def verify(options: Any) -> int:
    """Compare the figures with the stored numbers; check ledger and gallery."""
    steps = {
        "numbers": ["reproduce.compare", "--profile", options.profile],
        "measured times": ["reproduce.measured"],
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
        done = subprocess.run(command, cwd=paths.ROOT, env=_environment(), check=False)
        nothing = program == "pytest" and done.returncode == NO_TESTS
        if done.returncode and not nothing:
            failed.append(name)
    if failed:
        print(f"FAILED: {', '.join(failed)}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def _environment() -> dict[str, str]:
    from reproduce.machine import python_path

    return {**os.environ, "PYTHONPATH": python_path()}


def site(options: Any) -> int:
    """Turn reports, notebooks, lessons and the ledger into web pages."""
    from reproduce.website import building

    try:
        print(f"written: {building.build(options.jobs)}")
    except (building.SiteError, OSError, ValueError) as problem:
        print(f"site: {problem}", file=sys.stderr)
        return 1
    return 0


COMMANDS = {
    command.__name__: command
    for command in (run, sweep, plan, publish, data, test, verify, site, bench)
}


if __name__ == "__main__":
    sys.exit(main())
