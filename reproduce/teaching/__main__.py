"""`make teach`: make the learners' edition, and run both editions without a screen.

`python -m reproduce.teaching --renew` runs the teachers' edition and keeps its outputs in the notebooks.
"""

from __future__ import annotations

import argparse
import math
import re
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
import papermill
from papermill.exceptions import PapermillExecutionError

from repro.atomic import write_text
from reproduce import references
from reproduce.teaching import editions

MOST_SECONDS = 60
"""Processor time that a lesson may take, start of the kernel included."""

QUIET = "--IPKernelApp.log_level=ERROR"
"""Without it, each kernel warns of a connection without encryption, which never leaves this machine."""

_STATED = re.compile(r"computing: \d+ s")


def processor_seconds() -> float:
    """Processor time of all kernels that have ended; unlike a clock it does not count the load of a machine."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def run(notebook: Path, executed: Path) -> float:
    """Execute a lesson with papermill, write the executed copy, and return the processor seconds it took.

    Raises:
        PapermillExecutionError: a cell failed.
    """
    executed.parent.mkdir(parents=True, exist_ok=True)
    start = processor_seconds()
    papermill.execute_notebook(
        str(notebook),
        str(executed),
        kernel_name="python3",
        cwd=str(editions.FOLDER),
        progress_bar=False,
        log_output=False,
        extra_arguments=[QUIET],
    )
    return processor_seconds() - start


def teach() -> int:
    """Make the learners' edition and run both; 1 when a lesson failed or took too long."""
    failed = False
    editions.write()
    print(f"learners' edition, take-home pages and slides: {editions.LEARNERS}")
    print(
        "they can be used now; every lesson runs once in both editions, to show that nothing fails",
        flush=True,
    )
    for path in editions.lessons():
        for edition, notebook in (("teachers", path), ("learners", editions.LEARNERS / path.name)):
            executed = editions.LEARNERS / "executed" / edition / path.name
            try:
                seconds = run(notebook, executed)
            except PapermillExecutionError as problem:
                failed = True
                print(
                    f"FAILED: {path.stem}, {edition}: {problem.ename}: {problem.evalue}",
                    file=sys.stderr,
                )
                continue
            slow = seconds > MOST_SECONDS
            failed |= slow
            late = f", more than {MOST_SECONDS}" if slow else ""
            print(f"{path.stem}, {edition}: {seconds:.0f} s{late}", flush=True)
    return 1 if failed else 0


def renew() -> int:
    """Run the teachers' edition and keep outputs and measured seconds in the committed notebooks."""
    for path in editions.lessons():
        with tempfile.TemporaryDirectory() as scratch:
            start = processor_seconds()
            try:
                book = references.execute(path, Path(scratch))
            except references.RenewalError as problem:
                print(problem, file=sys.stderr)
                return 1
            seconds = 5 * math.ceil((processor_seconds() - start) / 5)
        front = book.cells[0]
        front["source"] = _STATED.sub(f"computing: {seconds} s", front["source"])
        write_text(path, nbformat.writes(book).rstrip("\n") + "\n")
        print(f"{path.name}: renewed, {seconds} s", flush=True)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.teaching", description=__doc__)
    parser.add_argument("--renew", action="store_true", help="renew the committed outputs")
    return renew() if parser.parse_args(arguments).renew else teach()


if __name__ == "__main__":
    sys.exit(main())
