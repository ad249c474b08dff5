"""The root of the project and the folders of its data, each named once.

The root is found from the place of this file (the package is installed editable). The environment
may move it (`REPRO_ROOT`), or move only the downloads (`REPRO_CACHE`). The values are read once,
at import; processes that need others set the variables before they start.
"""

from __future__ import annotations

import os
from pathlib import Path


def place(variable: str, default: Path) -> Path:
    """The folder named by the environment `variable`, else `default`; always absolute."""
    return Path(os.environ.get(variable) or default).expanduser().resolve()


ROOT = place("REPRO_ROOT", Path(__file__).resolve().parents[2])

DATA = ROOT / "data"
"""The data registry; everything below that is not committed is ignored by git."""

EMBEDDED = DATA / "embedded"
"""Real data that is committed, each file with the terms of its source."""

CACHE = place("REPRO_CACHE", DATA / "cache")
"""Downloaded files, named by the registry."""
