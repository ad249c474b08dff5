"""A fork that waits to become the kernel of a forked worker (`reproduce.forked`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

INLINE = "module://matplotlib_inline.backend_inline"
"""matplotlib's backend in a kernel: it is read when matplotlib is imported."""

GRAMMAR = "rfc3987_syntax"
"""A module that jsonschema uses where it is there, for texts that must be IRIs: no notebook has any.
Its grammar takes longer to build than a small notebook takes to run."""

_LAUNCHER = ("-m", "ipykernel_launcher")


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
        leave(code)


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

    if (pandas := sys.modules.get("pandas")) is not None:
        # what pandas takes where it is imported in a kernel
        pandas.set_option("display.max_columns", 20)
    try:
        kernelapp.launch_new_instance()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def leave(code: int) -> NoReturn:
    """End this process: nothing above its frame may run, it belongs to the process that forked."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
