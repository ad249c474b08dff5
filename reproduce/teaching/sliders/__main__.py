"""Compute the grids of the sliders anew: `python -m reproduce.teaching.sliders [lesson …]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from reproduce.teaching.sliders.pages import PAGES


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce.teaching.sliders", description=__doc__
    )
    parser.add_argument("lessons", nargs="*", help="such as lesson1 (default: all)")
    names = parser.parse_args(arguments).lessons or list(PAGES)
    if unknown := [name for name in names if name not in PAGES]:
        parser.error(f"no such lesson: {', '.join(unknown)}; there are {', '.join(PAGES)}")
    for name in names:
        start = time.perf_counter()
        PAGES[name].computed().keep()
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
