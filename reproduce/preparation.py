"""What is looked at before notebooks run: parameters, folders, and that nobody else is running."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from repro.atomic import SUFFIX
from reproduce import catalogue, paths, sources
from reproduce.catalogue import Figure

SCRAP_SECONDS = 600
"""Age from which an unfinished file counts as left behind."""


class RunError(Exception):
    """Nothing can be run at all; the message is one line for the user."""


def preflight(entry: Figure, profile: str) -> str:
    """What is wrong with a notebook before it runs (no file, misspelled parameter …), or ""."""
    if problem := sources.problem(entry.notebook):
        return problem
    try:
        entry.parameters(profile)
        catalogue.check_free(entry)
    except catalogue.CatalogueError as why:
        return str(why)
    return ""


def check_writable(folder: Path) -> None:
    """Raise `RunError` unless files can be made in `folder`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(b"room for one block?" * 256)
            stream.flush()
    except OSError as problem:
        reason = problem.strerror or problem
        raise RunError(f"cannot write to {folder}: {reason}; nothing was run") from None


def remove_scraps(folder: Path) -> None:
    """Remove what killed processes have left of unfinished files in `folder`."""
    for path in folder.rglob(f".*{SUFFIX}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > SCRAP_SECONDS:
                path.unlink()


@contextmanager
def alone(what: str, say: Callable[[str], None]) -> Iterator[int]:
    """Hold the lock on `build/` and `figures/`; yields the descriptor that holds it.

    The lock ends with the processes that have the descriptor, however they end.
    """
    import fcntl

    path = paths.BUILD / "run.lock"
    check_writable(paths.BUILD)
    with open(path, "a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            say(f"another run holds {path} ({holder}); waiting")
            fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        stream.truncate()
        with suppress(OSError):
            stream.write(f"process {os.getpid()}, {what}, since {time.strftime('%H:%M:%S')}\n")
            stream.flush()
        yield stream.fileno()
