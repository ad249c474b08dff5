"""Examine an engine: `python -m repro.conformance package.module:adapter [--seed n] [--repetitions n]`.

The name after the colon is an `Engine`, or a class or function that makes one without arguments. The report goes to
standard output; the exit status is 0 without an alarm, 1 with one, 2 where the examination was not possible.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback

from repro.conformance.adapter import Engine, Promise
from repro.conformance.report import examine


def load(place: str) -> Engine:
    """The engine at "module:name".

    Raises:
        ValueError: there is no such module, or no engine of that name in it.
    """
    module, colon, name = place.partition(":")
    if not (module and colon and name):
        raise ValueError(f"adapter must be module:name, got {place!r}")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as problem:
        raise ValueError(f"adapter must name an engine, got {place!r}: {problem}") from None
    engine = found() if isinstance(found, type) or not hasattr(found, "promise") else found
    for needed in ("name", "promise", "can_silence", "run"):
        if not hasattr(engine, needed):
            raise ValueError(f"adapter must have the attribute {needed}, got {place!r} without")
    if not isinstance(engine.promise, Promise):
        raise ValueError(f"promise must be a repro.conformance.Promise, got {engine.promise!r}")
    return engine


def main(arguments: list[str] | None = None) -> int:
    """Print the report; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m repro.conformance", description="Is the privacy claim of an engine true?"
    )
    parser.add_argument("adapter", help="module:name of an engine, or of a function that makes one")
    parser.add_argument("--seed", type=int, default=0, help="(0)")
    parser.add_argument("--repetitions", type=int, default=2000, help="of the longest runs (2000)")
    given = parser.parse_args(arguments)
    try:
        report = examine(load(given.adapter), seed=given.seed, repetitions=given.repetitions)
    except ValueError as problem:
        print(f"repro.conformance: {problem}", file=sys.stderr)
        return 2
    except Exception as problem:  # of the engine or its adapter: no verdict about the promise
        traceback.print_exc()
        print(f"repro.conformance: the adapter failed: {problem!r}", file=sys.stderr)
        return 2
    print(report.text())
    return 1 if report.alarms else 0


if __name__ == "__main__":
    sys.exit(main())
