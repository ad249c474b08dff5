"""What the user sees of a run: live progress on a terminal, else plain lines; the table."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reproduce.catalogue import Figure
from reproduce.claims import DERIVATION_VERDICTS, RESULT_VERDICTS

PLAIN_WIDTH = 140
"""Columns of the table where the output is no terminal."""


@dataclass
class Outcome:
    """What became of one figure.

    Attributes:
        entry: the figure.
        name: its id, with the profile where it is not quick.
        status: "kept" (up to date), "done" or "failed".
        seconds, peak_mib: cost of the run that made the files; None where there is none.
        verdicts: verdict -> number of claims.
        error: one line, for "failed".
        trace: the end of the traceback.
        kept: what remains of a failed run, for the reader.
    """

    entry: Figure
    name: str
    status: str
    seconds: float | None = None
    peak_mib: float | None = None
    verdicts: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    trace: Sequence[str] = ()
    kept: str = ""


class Display:
    """Progress of one run on standard output."""

    def __init__(self) -> None:
        from rich.console import Console

        self.terminal = sys.stdout.isatty()
        plain: Mapping[str, Any] = {"width": PLAIN_WIDTH, "color_system": None}
        self.console = Console(highlight=False, **({} if self.terminal else plain))
        self._bar: Any = None
        self._total: Any = None
        self._rows: dict[str, tuple[Any, Path, float]] = {}
        self._guard = threading.Lock()
        self._done, self._count = 0, 0

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, markup=False, soft_wrap=True)
        sys.stdout.flush()

    def error(self, text: str) -> None:
        """One line on standard error."""
        self.close()
        print(text, file=sys.stderr, flush=True)

    def start(self, count: int, jobs: int) -> None:
        """A number of notebooks is going to run."""
        self._count = count
        self.say(f"running {count} notebook{'s' * (count > 1)}, {jobs} at a time")
        if self.terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                TimeElapsedColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self._bar = Progress(*columns, console=self.console, transient=True)
            self._bar.start()
            self._total = self._bar.add_task("notebooks", total=count, note=f"0 of {count}")

    def started(self, name: str, progress: Path) -> None:
        """A notebook begins; it may write a line on how far it is to `progress`."""
        with self._guard:
            row = self._bar.add_task(name, total=None, note="") if self._bar else None
            self._rows[name] = (row, progress, time.monotonic())

    def refresh(self) -> None:
        """Show what the running notebooks say about themselves."""
        if self._bar is None:
            return
        with self._guard:
            for row, progress, _ in self._rows.values():
                try:
                    note = progress.read_text(encoding="utf-8").strip()
                except OSError:
                    continue
                self._bar.update(row, note=note)

    def finished(self, outcome: Outcome) -> None:
        """A notebook has ended."""
        name = outcome.name
        with self._guard:
            row, _, start = self._rows.pop(name, (None, None, time.monotonic()))
            self._done += 1
            if self._bar is not None:
                self._bar.remove_task(row)
                note = f"{self._done} of {self._count}"
                self._bar.update(self._total, completed=self._done, note=note)
        seconds = outcome.seconds
        cost = f"{time.monotonic() - start if seconds is None else seconds:.1f} s"
        if outcome.peak_mib is not None:
            cost += f", {outcome.peak_mib:.0f} MiB"
        end = f"FAILED: {outcome.error}" if outcome.status == "failed" else verdicts(outcome)
        self.say(f"[{self._done}/{self._count}] {name}: {cost}; {end}")

    def close(self) -> None:
        """Take the live part off the terminal."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def table(self, outcomes: Sequence[Outcome]) -> None:
        """The final table, and what is known of each failure."""
        from rich import box
        from rich.table import Table

        self.close()
        table = Table(box=box.SIMPLE_HEAD if self.terminal else box.ASCII)
        for name in ("figure", "state", "verdicts"):
            table.add_column(name)
        for name in ("seconds", "peak MiB"):
            table.add_column(name, justify="right")
        for item in outcomes:
            state = {"kept": "up to date", "done": "run", "failed": "FAILED"}[item.status]
            cost = (_number(item.seconds, 1), _number(item.peak_mib, 0))
            table.add_row(item.name, state, verdicts(item), *cost)
        self.console.print(table)
        for item in outcomes:
            if item.status == "failed":
                self.say(f"FAILED {item.name}: {item.error}")
                for line in item.trace:
                    self.say(f"    {line}")
                if item.kept:
                    self.say(f"    what the run has left: {item.kept}")
        count = {
            status: sum(o.status == status for o in outcomes)
            for status in ("done", "kept", "failed")
        }
        self.say(f"{count['done']} run, {count['kept']} up to date, {count['failed']} failed")


def verdicts(outcome: Outcome) -> str:
    """The count of verdicts in words."""
    order = dict.fromkeys((*RESULT_VERDICTS, *DERIVATION_VERDICTS, *outcome.verdicts))
    found = {verdict: outcome.verdicts.get(verdict, 0) for verdict in order}
    counts = [f"{count} {verdict}" for verdict, count in found.items() if count]
    return ", ".join(counts) or ("-" if outcome.status == "failed" else "no claims")


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
