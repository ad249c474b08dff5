"""The process that forks kernels: started by `reproduce.nursery` as a program of its own.

It reads one line of JSON for each kernel, which writes its process number to this program's output. It ends when its
input does; its kernels see that and end, too. It imports nothing of the project, so that every kernel imports what
the files hold when it runs.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator

_LIBRARIES = (
    "ipykernel.ipkernel",
    "ipykernel.zmqshell",
    "matplotlib.pyplot",
    "pandas",
    "scipy.integrate",
    "scipy.optimize",
    "scipy.stats",
    "torch",
)
_PLOTS = "module://matplotlib_inline.backend_inline"
"""Where kernels draw; ipykernel sets it in a new process before matplotlib is imported."""


def main() -> int:
    """Import, then fork a kernel for every line of the input; in the fork, run it."""
    del sys.path[0]  # this file's folder; an option of Python against it would reach the kernels
    os.environ.setdefault("MPLBACKEND", _PLOTS)
    for library in _LIBRARIES:
        importlib.import_module(library)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended kernels leave nothing behind
    gc.collect()
    gc.freeze()
    for line in _lines():
        if os.fork() == 0:
            return _kernel(**json.loads(line))
    return 0


def _kernel(arguments: list[str], environment: dict[str, str], folder: str, log: str) -> int:
    """Become a kernel, as `ipykernel_launcher` starts one."""
    os.setsid()
    os.write(1, f"{os.getpid()}\n".encode())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for path, flags, descriptors in (
        (os.devnull, os.O_RDONLY, (0,)),
        (log, os.O_WRONLY | os.O_APPEND, (1, 2)),
    ):
        opened = os.open(path, flags)
        for descriptor in descriptors:
            os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))
    os.chdir(folder)
    sys.argv = ["ipykernel_launcher", *arguments]
    import numpy
    from ipykernel import kernelapp

    numpy.random.seed()  # else what is not seeded is the same in every kernel
    kernelapp.launch_new_instance()
    return 0


def _lines() -> Iterator[bytes]:
    """The lines of the input, read without a buffer that a fork would share."""
    line = b""
    while byte := os.read(0, 1):
        line += byte
        if byte == b"\n":
            yield line
            line = b""


if __name__ == "__main__":
    sys.exit(main())
