"""What became of one figure in a run: made by the runner, shown by the display."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reproduce.catalogue import Figure


@dataclass
class Outcome:
    """What became of one figure.

    Attributes:
        entry: the figure.
        status: "kept" (up to date), "done" or "failed".
        seconds, peak_mib: cost of the run that made the files; None where there is none.
        verdicts: verdict -> number of claims.
        error: one line, for "failed".
        trace: the end of the traceback.
        kept: what remains of a failed run, for the reader.
    """

    entry: Figure
    status: str
    seconds: float | None = None
    peak_mib: float | None = None
    verdicts: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    trace: Sequence[str] = ()
    kept: str = ""
