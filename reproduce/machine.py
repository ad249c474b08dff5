"""What processes of this project need to know about the machine, and about each other."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

import repro
import reproduce
from reproduce import paths

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables that limit the threads of numerical libraries; torch obeys the first."""


def one_thread() -> dict[str, str]:
    """The environment of a notebook: numerical libraries use one thread.

    The number of threads decides in which order sums are taken, and so their last digits. It must
    depend neither on the machine nor on how many notebooks run at a time.
    """
    return dict.fromkeys(THREADS, "1")


def same_output() -> dict[str, str]:
    """The environment in which a notebook prints the same wherever it runs."""
    return one_thread() | {"PYTHONWARNINGS": "default", "COLUMNS": "120", "REPRO_QUIET": "1"}


def scratch_environment(scratch: Path) -> dict[str, str]:
    """The environment of a quiet, single-threaded run that writes all its files below `scratch`."""
    quiet = {"REPRO_FIGURES": str(scratch / "figures"), "REPRO_BUILD": str(scratch / "build")}
    quiet |= {"REPRO_RUNS": str(paths.RUNS), "REPRO_CACHE": str(paths.CACHE)}
    quiet |= {"REPRO_ROOT": str(paths.ROOT)}
    dropped = ("MPLBACKEND", "PYTEST_ADDOPTS")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | quiet | same_output()


def cores() -> int:
    """The processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory(process: psutil.Process) -> int:
    """The largest resident memory a process has had (Linux), else what it has now, in bytes.

    Raises:
        psutil.Error: the process has ended.
    """
    try:
        with open(f"/proc/{process.pid}/status") as stream:
            for line in stream:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return process.memory_info().rss


def python_path() -> str:
    """The PYTHONPATH with which another process finds the packages that this one uses."""
    here = [str(Path(package.__file__).parents[1]) for package in (repro, reproduce)]
    old = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys(filter(None, [*here, *old])))


def read_line(descriptor: int) -> bytes:
    """One line, byte by byte: nothing after it is taken from the descriptor; b"" at its end."""
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := os.read(descriptor, 1)):
            break
        line += byte
    return line
