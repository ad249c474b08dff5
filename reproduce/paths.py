"""Every directory of the workbook, each named once; root and data are those of `repro.paths`.

The environment may move what a run writes: `REPRO_FIGURES`, `REPRO_BUILD`, `REPRO_RUNS`. The
values are read once, at import; processes that need others set the variables before they start.
"""

from __future__ import annotations

from repro.paths import CACHE as CACHE
from repro.paths import DATA, ROOT, place

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

FIGURES = place("REPRO_FIGURES", ROOT / "figures")
"""What the notebooks write: `<paper>/<id>.{png,pdf,json}`, and the ledger."""

RUNS = place("REPRO_RUNS", DATA / "runs")
"""Records of training runs made on this machine."""

PUBLISHED = DATA / "published"
"""Records of expensive runs, committed with their provenance."""

BUILD = place("REPRO_BUILD", ROOT / "build")
"""Scratch: executed notebooks, provenance, state of the runner, replays."""
