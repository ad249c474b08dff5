"""Servers as processes on this machine, for notebooks and tests."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

import repro
from repro.secagg.certificates import PARAMETERS, issue, server_names
from repro.secagg.client import Closing, RoundError
from repro.secagg.encoding import FixedPoint
from repro.secagg.session import Round, Session

_PROGRAM = "repro.secagg.__main__:main"
"""What the processes run, as module and function: a name that tools can follow like an import."""

_START = 60.0
"""Seconds for the processes to come up."""


class Cluster(Closing):
    """m intermediate servers and the parameter server as processes here, and a session with them.

        with Cluster(clients=6, servers=3) as cluster:
            done = cluster.round(gradients, model=theta)      # (6, d) -> done.total, shape (d,)
            theta = theta - rate * done.total / 6

    The certificates come from an authority made for this cluster, in a temporary folder. The
    processes listen on the loopback address, on ports that the system chooses; they end with the
    `with` block, however it is left, and also if this process is killed.

    Args:
        clients: n >= 1.
        servers: m >= 2; or 0 for the same rounds without secret sharing, where the parameter server
            sees every client's vector (for comparison).
        encoding: fixed-point encoding and ring; 10 decimals modulo 2^64 when left out.
        time_limit: seconds allowed for each step of a round, > 0.

    Raises:
        ValueError: an argument out of range.
        RoundError: the processes do not come up.
    """

    def __init__(
        self,
        *,
        clients: int,
        servers: int = 3,
        encoding: FixedPoint | None = None,
        time_limit: float = 30.0,
    ) -> None:
        self.encoding = encoding or FixedPoint()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._open = ExitStack()
        with ExitStack() as stack:  # undone if anything fails before the end
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="secagg-")))
            stack.callback(self._stop)
            self.session = stack.enter_context(self._start(clients, servers, time_limit))
            self._open = stack.pop_all()

    def round(
        self,
        values: ArrayLike,
        *,
        model: ArrayLike = (),
        noise: NDArray[np.int64] | None = None,
        in_full: bool = False,
    ) -> Round:
        """One round; see `Session.round`.

        Raises:
            ValueError: `values` cannot be encoded; no round is started.
            RoundError: the round failed, nothing was summed. The next may work, unless a process
                has ended: then the message says that a new cluster is needed.
        """
        self._check()
        try:
            return self.session.round(values, model=model, noise=noise, in_full=in_full)
        except RoundError as problem:
            self._check(str(problem))
            raise

    def close(self) -> None:
        """Stop all processes and remove the certificates; harmless when done already."""
        self._open.close()

    def _start(self, clients: int, servers: int, time_limit: float) -> Session:
        issue(self.folder, servers=servers, clients=clients)
        names = [PARAMETERS, *server_names(servers)]
        with ExitStack() as handed_on:
            # Listening before the processes exist: all addresses are known from the start.
            listeners = {
                name: handed_on.enter_context(socket.create_server(("127.0.0.1", 0), backlog=128))
                for name in names
            }
            addresses = {name: listener.getsockname()[:2] for name, listener in listeners.items()}
            session = Session(
                self.folder,
                servers=[addresses[name] for name in names[1:]],
                parameters=addresses[PARAMETERS],
                clients=clients,
                encoding=self.encoding,
                time_limit=time_limit,
            )
            host, port = addresses[PARAMETERS]
            for name, listener in listeners.items():
                role = ["server", name.partition("-")[2], "--parameters", f"{host}:{port}"]
                if name == PARAMETERS:
                    role = ["parameters", "--servers", servers]
                role += ["--clients", clients, "--modulus", self.encoding.ring.modulus]
                role += ["--time-limit", time_limit, "--folder", self.folder]
                self._launch(name, role, listener)
        self._await()
        return session

    def _launch(self, name: str, role: list[object], listener: socket.socket) -> None:
        source = str(Path(repro.__file__).parents[1])
        path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
        role += ["--listen", f"fd:{listener.fileno()}", "--until-stdin-ends"]
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", _PROGRAM.partition(":")[0], *map(str, role)],
                stdin=subprocess.PIPE,  # it ends when this process does, and the server with it
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[listener.fileno()],
                start_new_session=True,  # Ctrl-C is for us; we stop them
                env={**os.environ, "PYTHONPATH": path},
            )

    def _await(self) -> None:
        """Wait until every process says that it listens."""
        deadline = time.monotonic() + _START
        for name, process in self.processes.items():
            poll = select.poll()
            poll.register(process.stdout, select.POLLIN)
            ready = poll.poll(1000 * max(0.0, deadline - time.monotonic()))
            if not ready or not process.stdout.readline():
                process.kill()
                process.wait()
                raise RoundError(f"{name} did not start within {_START:g} s: {self._status(name)}")

    def _stop(self) -> None:
        """Kill all processes; none of them holds anything that must be saved."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def _check(self, reason: str = "") -> None:
        """Refuse to go on if a process has ended."""
        ended = [name for name, process in self.processes.items() if process.poll() is not None]
        if ended:
            how = "; ".join(f"{name} has ended ({self._status(name)})" for name in ended)
            before = f"{reason}; " if reason else ""
            raise RoundError(f"{before}{how}: this cluster cannot go on, start a new one")

    def _status(self, name: str) -> str:
        code = self.processes[name].returncode
        if code < 0:
            return f"signal {signal.Signals(-code).name}"
        lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return f"exit status {code}" + (f": {lines[-1]}" if lines else "")
