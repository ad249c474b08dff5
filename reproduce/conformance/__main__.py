"""Renew the reports in docs/conformance: `python -m reproduce.conformance [name …]`, or all of them."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec

from repro._validate import choice
from repro.atomic import write_text
from repro.conformance import examine
from reproduce.paths import ROOT

NAMES = ("random_participation", "partitioning", "mspafl", "ddpsa", "pmsfl", "opacus")
ELSEWHERE = ("flower", "pfl")
"""Adapters of packages that need an environment of their own; run with the Python of that environment."""

FOLDER = ROOT / "docs/conformance"
REPETITIONS = 1000


def written(name: str) -> str:
    """The whole report of one adapter: its notes, and one examination for each promise."""
    adapter = importlib.import_module(f"reproduce.conformance.{name}")
    parts = [
        examine(engine, seed=0, repetitions=getattr(adapter, "REPETITIONS", REPETITIONS)).text()
        for engine in adapter.engines()
    ]
    packages = ["numpy", "scipy"] + (["torch"] if find_spec("torch") else [])
    used = ", ".join(f"{package} {version(package).split('+')[0]}" for package in packages)
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
        write_text(FOLDER / f"{choice('name', name, NAMES + ELSEWHERE)}.md", written(name))
        print(f"{name}: {time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
