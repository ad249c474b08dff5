"""Every directory of the project, each named once.

The root is found from the place of this file (the package is installed editable). The environment
may move it (`REPRO_ROOT`), or move only what a run writes: `REPRO_FIGURES`, `REPRO_BUILD`,
`REPRO_RUNS`, `REPRO_CACHE`. The values are read once, at import; processes that need others set the variables
before they start.
"""

from __future__ import annotations

import os
from pathlib import Path


def _place(variable: str, default: Path) -> Path:
    """The folder named by the environment `variable`, else `default`; always absolute."""
    return Path(os.environ.get(variable) or default).expanduser().resolve()


ROOT = _place("REPRO_ROOT", Path(__file__).resolve().parents[2])

NOTEBOOKS = ROOT / "notebooks"
"""The notebooks, one folder per paper."""

PAPERS = ROOT / "reproduce" / "papers"
"""One folder per paper, with its catalogue."""

REFERENCE = ROOT / "reproduce" / "reference"
"""Stored numbers, `<profile>/<paper>/<id>.json`."""

COSTS = ROOT / "reproduce" / "costs.json"
"""Seconds and memory of the runs that the stored numbers come from: profile -> figure -> cost."""

MEASURED = ROOT / "reproduce" / "measured"
"""Committed measurements of figures whose content is a measured time, `<paper>/<id>.json`."""

FIGURES = _place("REPRO_FIGURES", ROOT / "figures")
"""What the notebooks write: `<paper>/<id>.{png,pdf,json}`, and the ledger."""

DATA = ROOT / "data"
"""The data registry; everything below that is not committed is ignored by git."""

CACHE = _place("REPRO_CACHE", DATA / "cache")
"""Downloaded files, named by the registry."""

RUNS = _place("REPRO_RUNS", DATA / "runs")
"""Records of training runs made on this machine."""

PUBLISHED = DATA / "published"
"""Records of expensive runs, committed with their provenance."""

BUILD = _place("REPRO_BUILD", ROOT / "build")
"""Scratch: executed notebooks, provenance, state of the runner, replays."""
