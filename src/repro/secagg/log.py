"""The log of a server: lines on the standard error output that never stop the server.

A thread of its own writes the lines, so a full pipe blocks nothing else, and a closed pipe loses
lines and nothing else. What waits to be written is bounded, and so are the lines that strangers
can cause; the log says how many lines it has left out.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from repro.secagg.frames import printable

_WAITING = 1000
"""Lines that may wait to be written; more are left out."""

_STRANGERS, _PERIOD = 10, 60.0
"""Lines about strangers in so many seconds; more are left out."""

_LONGEST = 2000
"""Characters of a line."""


class Log:
    """One line at a time, with the name of the server before it; safe in any thread.

    Args:
        name: of the server.
        write: writes one line; may block, or raise `OSError` to lose the line.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._clock = name, clock
        self._write = _to_standard_error if write is None else write
        self._lines: queue.Queue[str] = queue.Queue(_WAITING)
        self._lock = threading.Lock()
        self._lost = 0  # lines left out since the last one that was taken
        self._begin, self._count = clock(), 0  # of the present period: strangers' lines
        threading.Thread(target=self._run, daemon=True).start()

    def line(self, text: str) -> None:
        """Write `text`, its control characters escaped; never waits."""
        with self._lock:
            self._put(text)

    def stranger(self, text: str) -> None:
        """The same for what anybody can cause: left out where there were too many of late."""
        with self._lock:
            now = self._clock()
            if now - self._begin >= _PERIOD:
                self._begin, self._count = now, 0
            self._count += 1
            if self._count > _STRANGERS:
                self._lost += 1
            else:
                self._put(text)

    def _put(self, text: str) -> None:
        lost = f" ({self._lost} lines before this one were left out)" if self._lost else ""
        try:
            self._lines.put_nowait(f"{self._name}: {printable(text)[:_LONGEST]}{lost}\n")
        except queue.Full:
            self._lost += 1
        else:
            self._lost = 0

    def _run(self) -> None:
        while True:
            with suppress(OSError):
                self._write(self._lines.get())


def _to_standard_error(line: str) -> None:
    """Write to the descriptor itself: a blocked write holds no lock of Python's at the exit."""
    if sys.__stderr__ is None:
        return  # closed when we were started: descriptor 2 may be somebody's connection by now
    rest = line.encode("utf-8", "backslashreplace")
    while rest:
        rest = rest[os.write(2, rest) :]
