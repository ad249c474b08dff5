"""Renew the reports in docs/conformance: `python -m reproduce.conformance [name …]`, or all of them."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import time
from importlib.metadata import version

from repro._validate import choice
from repro.atomic import write_text
from repro.conformance import examine
from reproduce.paths import ROOT

NAMES = ("random_participation", "partitioning", "mspafl", "ddpsa", "opacus")
FOLDER = ROOT / "docs/conformance"
REPETITIONS = 1000


def written(name: str) -> str:
    """The whole report of one adapter: its notes, and one examination for each promise."""
    adapter = importlib.import_module(f"reproduce.conformance.{name}")
    parts = [
        examine(engine, seed=0, repetitions=REPETITIONS).text() for engine in adapter.engines()
    ]
    packages = {package: version(package).split("+")[0] for package in ("numpy", "scipy", "torch")}
    used = ", ".join(" ".join(pair) for pair in packages.items())
    notes = f"{adapter.NOTES}\n\nMade by `python -m reproduce.conformance {name}` with {used}.\n"
    return "\n".join(
        [f"# Conformance of {name}\n", notes, *(re.sub("^#", "##", p, flags=re.M) for p in parts)]
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the reports; 0."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.conformance", description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="name")
    for name in parser.parse_args(arguments).names:
        started = time.perf_counter()
        write_text(FOLDER / f"{choice('name', name, NAMES)}.md", written(name))
        print(f"{name}: {time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
