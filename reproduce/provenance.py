"""Where a picture comes from: commit, versions, host, cost; kept apart from its numbers."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from reproduce import paths
from reproduce.machine import peak_memory

PACKAGES = (
    *("torch", "numpy", "scipy", "scikit-learn", "pandas", "mpmath", "sympy", "dp-accounting"),
    *("matplotlib", "pillow", "papermill", "ipykernel"),
)
"""Packages whose version can change a number, a pixel or how a notebook runs."""

SOURCES = ("src", "reproduce", "pyproject.toml", "requirements.lock")
"""What must be as in the commit for its name to describe a run (notebooks have a hash)."""


def describe(code: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Return what varies from run to run: which code on which machine, and at what cost.

    None of it belongs into a committed file.

    Args:
        code: module -> hash, of the modules that the run used.
        seconds: how long the run took.
    """
    return {
        "commit": commit(),
        "versions": versions(),
        "code": dict(code),
        "host": host(),
        "seconds": round(seconds, 1),
        "peak_mib": peak_mib(),
    }


def host() -> dict[str, Any]:
    """The machine: operating system, processor architecture, cores."""
    return {"system": platform.system(), "machine": platform.machine(), "cores": os.cpu_count()}


@cache
def versions() -> dict[str, str]:
    """The version of Python and of each of `PACKAGES` that is installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def commit(root: Path | None = None) -> str:
    """The commit, with `+changes` when `SOURCES` differ from it; "unknown" without git."""
    folder = paths.ROOT if root is None else root
    head = _git(folder, "rev-parse", "--show-toplevel", "HEAD")
    if head is None:
        return "unknown"
    top, _, name = head.partition("\n")
    if Path(top).resolve() != folder.resolve():  # an unpacked archive inside another repository
        return "unknown"
    present = [source for source in SOURCES if (folder / source).exists()]
    changes = _git(folder, "status", "--porcelain", "--", *present) if present else ""
    return name if changes == "" else f"{name}+changes"


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of a git command that writes nothing, or None when it fails."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def peak_mib() -> float:
    """The largest resident memory of this process so far, in MiB."""
    return round(peak_memory(psutil.Process()) / 2**20, 1)
