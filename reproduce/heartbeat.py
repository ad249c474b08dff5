"""Signs of life of a job: a file that the job touches, and the process that sent the job watches.

Slurm may list a job as running long after its process has died: the message of its end was lost, or the node
does not answer. A child process of the job touches the file, so that a long call into compiled code delays no
beat; it ends with the job. The watcher looks for *changes* of the file's time, which the file system sets, so no two
clocks are compared. The file is opened before each look, since network file systems ask their server then.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

EVERY = 3.0
"""Seconds between two beats."""
SILENCE = 40.0
"""Seconds without a beat after which a job that had beaten counts as dead."""
_LOOKS = 4
"""Looks that a silence must have lasted: where the file system itself stood still, there was one."""


@contextmanager
def beating(file: Path) -> Iterator[None]:
    """Touch `file` every few seconds for as long as this block runs and this process lives.

    Raises:
        OSError: the file cannot be written.
    """
    file.touch()
    command = [sys.executable, "-I", "-S", __file__, str(file), str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as child:
        try:
            yield
        finally:
            assert child.stdin is not None
            child.stdin.close()


class Pulse:
    """What is known of the beats in one file.

    Args:
        file: the one that the job touches; it need not be there yet.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._last: int | None = None
        self._restart()

    def _restart(self) -> None:
        self._since, self._looks = time.monotonic(), 0

    def look(self) -> bool:
        """Whether there was a beat since the last look; False at the first."""
        before = self._last
        try:
            with open(self._file, "rb") as stream:
                self._last = os.fstat(stream.fileno()).st_mtime_ns
        except OSError:
            return False
        self._looks += 1
        if before == self._last:
            return False
        self._restart()
        return before is not None

    @property
    def silent(self) -> bool:
        """Whether the job had beaten and has not for `SILENCE` seconds."""
        lasting = time.monotonic() - self._since >= SILENCE
        return self._last is not None and lasting and self._looks >= _LOOKS

    def forget(self) -> None:
        """The job does not run: older beats say nothing about its next start."""
        self._file.unlink(missing_ok=True)
        self._last = None
        self._restart()


def _beat(file: str, parent: int) -> None:
    """Be the child: beat until the parent closes the input, or is gone."""
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # Slurm sends them to every process of a job
    while not select.select([sys.stdin], [], [], EVERY)[0] and os.getppid() == parent:
        with suppress(OSError):
            os.utime(file)


if __name__ == "__main__":
    _beat(sys.argv[1], int(sys.argv[2]))
