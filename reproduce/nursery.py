"""Kernels that begin with the libraries imported, forked from a process of a worker (`kernel_forks.py`).

To import torch, scipy, pandas and matplotlib takes longer than many a notebook. On Linux a worker with several
notebooks keeps one process that has done it, and each kernel is a fork of that process. What a notebook sees is a
fresh kernel: of the libraries nothing but their import has happened, and none of the project's modules is there.
Elsewhere, or for a kernel of another Python, a kernel is a new process as ever.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

POSSIBLE = sys.platform == "linux"
"""Elsewhere the libraries of the system do not allow a process to be forked and to go on."""

_PROCESS = Path(__file__).with_name("kernel_forks.py")


class Nursery:
    """The process that forks kernels, from the outside.

    Attributes:
        log: the file that gets what kernels started from now on write to their output.
        pid: of the process.
    """

    def __init__(self) -> None:
        self.log = os.devnull
        self._process = subprocess.Popen(
            [sys.executable, str(_PROCESS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.pid = self._process.pid
        self._guard = threading.Lock()

    def adopt(self) -> None:
        """From now on, the kernels that this process starts come from the nursery."""
        factory = KernelProvisionerFactory.instance()
        factory.provisioners[_NAME] = _Entry(self)
        factory.default_provisioner_name = _NAME

    def fork(self, arguments: list[str], environment: dict[str, str], folder: str) -> int:
        """A new kernel with the `arguments` of ipykernel_launcher; its process number.

        Raises:
            RuntimeError: the nursery has ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        order = {"arguments": arguments, "environment": environment, "folder": folder}
        with self._guard:
            with suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps({**order, "log": self.log}).encode() + b"\n")
                self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"no kernel could be forked; the log is {self.log}")
        return int(answer)


_NAME = "forked"


class _Entry:
    """What the factory of provisioners keeps: something that loads one."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery

    def load(self) -> Any:
        """Makes a provisioner from the factory's arguments."""

        def provisioner(**arguments: Any) -> _Provisioner:
            made = _Provisioner(**arguments)
            made.nursery = self._nursery
            return made

        return provisioner


class _Provisioner(LocalProvisioner):
    """Starts the kernels of this Python in the nursery, others as ever."""

    nursery: Nursery

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
        """See the base class."""
        module = "ipykernel_launcher"
        if module not in cmd or Path(cmd[0]) != Path(sys.executable):
            return await super().launch_kernel(cmd, **kwargs)
        arguments = cmd[cmd.index(module) + 1 :]
        folder = str(kwargs.get("cwd") or Path.cwd())
        self.pid = self.pgid = self.nursery.fork(arguments, dict(kwargs["env"]), folder)
        self.process = _Forked(self.pid)
        return self.connection_info


class _Forked:
    """A kernel of the nursery, with the part of `subprocess.Popen` that a provisioner uses."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None
        self._descriptor = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """None while it runs, then 1: what it ended with is not known."""
        if self._code is None and select.select([self._descriptor], [], [], 0)[0]:
            self._end()
        return self._code

    def wait(self) -> int:
        """Wait for its end."""
        if self._code is None:
            select.select([self._descriptor], [], [])
            self._end()
        return 1

    def send_signal(self, signum: int) -> None:
        """Send it a signal; nothing happens where it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signum)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        self._code = 1
        os.close(self._descriptor)
