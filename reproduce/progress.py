"""How far a set of runs is, for those who wait for it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reproduce.records import Task


class Watch:
    """How far a set of runs is: a bar on a terminal, a line in the file `REPRO_PROGRESS`, reports.

    `REPRO_PROGRESS_BAR` shows the bar where there is no terminal (JupyterLab), `REPRO_QUIET`
    nowhere.
    """

    def __init__(
        self, total: int, progress: bool = True, report: Callable[[str], None] | None = None
    ) -> None:
        self.total, self.done, self.failed = total, 0, 0
        self._report = report
        self._start = time.monotonic()
        self._file = os.environ.get("REPRO_PROGRESS", "")
        self._bar: Any = None
        shown = sys.stderr.isatty() or os.environ.get("REPRO_PROGRESS_BAR")
        if progress and shown and not os.environ.get("REPRO_QUIET"):
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc="runs", unit="run", file=sys.stderr)
        self._write()

    def step(self, task: Task, error: str = "") -> None:
        """One run has ended."""
        self.done += 1
        self.failed += bool(error)
        if self._bar is not None:
            self._bar.update()
        self._write()
        if self._report is not None:
            end = f"FAILED: {error}" if error else "done"
            self._report(f"{self.text()}; {task.name} seed {task.seed} {end}")

    def text(self) -> str:
        """`3 of 12 runs, about 40 s left`."""
        text = f"{self.done} of {self.total} runs"
        if 0 < self.done < self.total:
            left = (time.monotonic() - self._start) / self.done * (self.total - self.done)
            text += f", about {duration(left)} left"
        return text

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def _write(self) -> None:
        if self._file:
            try:
                Path(self._file).write_text(self.text(), encoding="utf-8")
            except OSError:
                self._file = ""  # nobody is looking


def duration(seconds: float) -> str:
    """A time span to read: 40 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
