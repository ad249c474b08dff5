"""A process that has imported what most notebooks need, and forks a worker for each of them.

These imports take longer than many a notebook. They are packages from elsewhere only: a worker and its kernel import
the project themselves, as it is then. Where the system is not Linux, each worker is a process of its own that imports
everything (`reproduce.workers`).

The runner asks for a worker with one byte and five descriptors: the worker's standard input, output and error, the lock
that it keeps open, and a pipe that gets its number and, when it has ended, its exit code. The process ends with its
runner. It has a single thread: a fork takes no other along, and leaves no lock of one behind.
"""

from __future__ import annotations

import gc
import importlib
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, TextIO

from reproduce.waiting import GRAMMAR, INLINE, leave

PRELOADED = (
    *("numpy", "scipy.stats", "scipy.signal", "scipy.optimize", "scipy.special", "pandas"),
    *("matplotlib.pyplot", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_pdf"),
    *("dp_accounting.pld.privacy_loss_distribution", "ipykernel.kernelapp", "papermill", "psutil"),
    "nbclient.exceptions",
)
"""What worker and kernel of nearly every notebook import."""


def available() -> bool:
    """Whether workers can be forked here: libraries of other systems do not survive a fork."""
    return sys.platform == "linux"


class Stem:
    """The process that forks, as its runner sees it.

    Args:
        environment: what all workers have in common; it decides how the imported libraries behave.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "reproduce.forked", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**environment, "MPLBACKEND": INLINE},
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )

    def fork(self, stdin: int, stdout: int, stderr: int, lock: int) -> Worker:
        """A new worker with these descriptors; the caller closes its own.

        Raises:
            OSError: the process is gone, and there is no worker.
        """
        status, told = os.pipe()
        pipe = os.fdopen(status)
        try:
            try:
                socket.send_fds(self._ours, [b"w"], [stdin, stdout, stderr, lock, told])
            finally:
                os.close(told)  # or its end would not be seen here
            if not (number := pipe.readline()):
                raise ChildProcessError("the process that forks has ended")
        except OSError:
            pipe.close()
            raise
        return Worker(int(number), pipe)

    def close(self) -> None:
        """End the process; workers that still run are not touched."""
        self._ours.close()
        self._process.kill()
        self._process.wait()


class Worker:
    """A forked worker.

    Args:
        pid: its number, that of its process group as well.
        status: gets its exit code when it has ended.
    """

    def __init__(self, pid: int, status: TextIO) -> None:
        self.pid, self._status = pid, status

    def wait(self) -> int:
        """Its exit code once it has ended, -n for signal n; -9 where nobody is left who knows."""
        with self._status:
            return int(self._status.readline() or -signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        os.kill(self.pid, signal.SIGTERM)


# The process that forks ---------------------------------------------------------------------------


def main() -> int:
    """Import, then fork for every request until the runner is gone."""
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        del sys.path[0]  # the folder of the runner, which `-m` has put there
        sys.modules.setdefault(GRAMMAR, None)
        for name in PRELOADED:
            with suppress(ImportError):  # the notebook that needs it says so
                importlib.import_module(name)
        gc.collect()
        gc.freeze()
        _serve(channel)
    return 0


def _serve(channel: socket.socket) -> None:
    pipes: dict[int, int] = {}  # worker -> where its end is told
    ended, wake = os.pipe()
    for descriptor in (ended, wake):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if ended in ready:
                with suppress(BlockingIOError):
                    os.read(ended, 4096)
                _tell(pipes)
            if channel in ready:
                request, given, _, _ = socket.recv_fds(channel, 1, 5)
                if not request:
                    return
                pid = os.fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    others = [ended, wake, selector.fileno(), channel.fileno(), *pipes.values()]
                    _become_worker(given, others)
                for descriptor in given[:-1]:
                    os.close(descriptor)
                pipes[pid] = given[-1]
                _write(given[-1], pid)


def _tell(pipes: dict[int, int]) -> None:
    """Tell the exit codes of the workers that have ended."""
    while pipes:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        told = pipes.pop(pid)
        _write(told, os.waitstatus_to_exitcode(status))
        os.close(told)


def _write(pipe: int, number: int) -> None:
    with suppress(OSError):  # nobody waits for it any more
        os.write(pipe, f"{number}\n".encode())


def _become_worker(given: Sequence[int], others: Sequence[int]) -> NoReturn:
    code = 1
    try:
        os.setsid()
        for place, descriptor in enumerate(given[:3]):
            os.dup2(descriptor, place)
        for descriptor in (*given[:3], given[4], *others):
            os.close(descriptor)
        from reproduce import worker

        code = worker.main()
    except BaseException:  # also an exit: the frames of the process that forked must not see it
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        leave(code)


if __name__ == "__main__":
    sys.exit(main())
