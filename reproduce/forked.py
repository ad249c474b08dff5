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
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TextIO

PRELOADED = (
    *("numpy", "scipy.stats", "scipy.signal", "scipy.optimize", "scipy.special", "pandas"),
    *("matplotlib.pyplot", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_pdf"),
    *("dp_accounting.pld.privacy_loss_distribution", "ipykernel.kernelapp", "papermill", "psutil"),
    *("nbclient.exceptions", "matplotlib_inline.backend_inline"),
)
"""What worker and kernel of nearly every notebook import."""

INLINE = "module://matplotlib_inline.backend_inline"
"""matplotlib's backend in a kernel: it is read when matplotlib is imported."""

GRAMMAR = "rfc3987_syntax"
"""A module that jsonschema uses where it is there, for texts that must be IRIs: no notebook has any.
Its grammar takes longer to build than a small notebook takes to run."""

_LAUNCHER = ("-m", "ipykernel_launcher")


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
    channel = socket.socket(fileno=int(sys.argv[1]))
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
        _leave(code)


def _leave(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


# The kernel of a worker ---------------------------------------------------------------------------


class WaitingKernel:
    """A fork of a worker that waits to become its kernel; also the process that jupyter_client speaks of.

    It is made before the worker starts a thread.
    """

    stdin = stdout = stderr = None

    def __init__(self) -> None:
        order, self._order = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            os.close(self._order)
            _become_kernel(order)
        os.close(order)

    def launch(self, cmd: Sequence[str], **options: Any) -> Any:
        """`jupyter_client.launcher.launch_kernel` without a new process, where `cmd` is a kernel of this Python."""
        from jupyter_client.launcher import launch_kernel

        if self._order < 0 or tuple(cmd[:3]) != (sys.executable, *_LAUNCHER):
            return launch_kernel(list(cmd), **options)
        order = {
            "argv": list(cmd[3:]),
            "folder": options.get("cwd") or os.getcwd(),
            "environment": dict(options.get("env") or os.environ),
        }
        with os.fdopen(self._order, "w") as pipe:
            json.dump(order, pipe)
        self._order = -1
        return self

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: it takes longer than `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired("kernel", timeout or 0.0)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def _become_kernel(pipe: int) -> NoReturn:
    code = 1
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(2, 1)  # the worker's output is for its outcome alone
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor > 2 and descriptor != pipe:
                with suppress(OSError):
                    os.close(descriptor)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with os.fdopen(pipe) as stream:
            text = stream.read()
        code = _kernel(json.loads(text)) if text else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        _leave(code)


def _kernel(order: Mapping[str, Any]) -> int:
    """Run the kernel until it is shut down."""
    os.environ.clear()
    os.environ.update(order["environment"])
    os.environ["MPLBACKEND"] = INLINE
    os.chdir(order["folder"])
    for name in [n for n in sys.modules if n.partition(".")[0] in ("repro", "reproduce")]:
        del sys.modules[name]  # the kernel's own are those that the notebook imports
    # what JPY_PARENT_PID says to a kernel whose ipykernel is imported later: it ends with its worker
    parent = f"--IPKernelApp.parent_handle={os.getppid()}"
    sys.argv = ["ipykernel_launcher.py", *order["argv"], parent]
    from ipykernel import kernelapp

    try:
        kernelapp.launch_new_instance()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
