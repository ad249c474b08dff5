"""Secure sums with faults: what `faults.py` runs as its part "sums"."""

from __future__ import annotations

import itertools
import os
import random
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from repro.secagg import Cluster, FixedPoint, RoundError, Session, issue
from repro.secagg.certificates import context
from repro.secagg.channel import ChannelError, connect
from repro.secagg.frames import HEADER_BYTES, Header
from repro.secagg.parameter_server import ParameterServer
from repro.secagg.server import IntermediateServer

CLIENTS, SERVERS, SIZE = 4, 3, 50
LIMIT = 5.0
"""Seconds that a step of a round over sockets may take."""

LONGEST = 4 * LIMIT + 2
"""Seconds within which a round has ended, one way or the other: four steps, and a machine under load."""

LIVES = 40
"""Rounds of a cluster, of which the last loses a server."""

PATIENT = 30.0
"""Seconds that a step may take in this process, where no fault waits for the limit."""


def run(seed: int, seconds: float, count: int | None = None) -> list[str]:
    """Half of the seconds in this process, half over sockets; or `count` faults there and ten times as many here."""
    rng = random.Random(seed)
    return in_process(rng, seconds / 2, count and 10 * count) + over_sockets(
        rng, seconds / 2, count
    )


# In this process ----------------------------------------------------------------------------------


class Threads:
    """Two clients, and the servers as threads of this process: what an attack needs of a `Cluster`."""

    def __init__(self, folder: Path) -> None:
        issue(folder, servers=2, clients=2)
        self.folder, self.encoding, self.processes = folder, FixedPoint(), {}
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        parameters, *servers = (one.getsockname()[:2] for one in listeners)
        common = {"clients": 2, "ring": self.encoding.ring, "time_limit": PATIENT}
        nodes = [ParameterServer(folder, listeners[0], servers=2, **common)]
        for number, listener in enumerate(listeners[1:]):
            nodes.append(
                IntermediateServer(number, folder, listener, parameters=parameters, **common)
            )
        for node in nodes:
            node.log = lambda text: None
            threading.Thread(target=node.run, daemon=True).start()
        self.session = Session(
            folder, servers=servers, parameters=parameters, clients=2, time_limit=PATIENT
        )
        self.round = self.session.round


def in_process(rng: random.Random, seconds: float, count: int | None) -> list[str]:
    """Rounds with a fault, each followed by one without, whose servers are threads of this process."""
    found: list[str] = []
    ended: dict[str, int] = {}
    kinds = [kind for kind in KINDS if kind not in _WAITING]
    number, end = 0, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        cluster = Threads(Path(folder) / "keys")
        held.callback(cluster.session.close)
        attack = Attack(cluster, rng, held=ExitStack())
        while number != count and time.monotonic() < end:
            number += 1
            for kind in (rng.choice(kinds), ""):
                if fault := _round(attack, kind, ended):
                    found.append(f"sums: fault {number} in this process, {kind or 'none'}: {fault}")
    print(
        f"sums: {number} faulted rounds in this process and as many without, of which ended without a sum: "
        f"{_told(ended)}",
        flush=True,
    )
    return found


def _told(ended: dict[str, int]) -> str:
    return ", ".join(f"{kind} {number}" for kind, number in sorted(ended.items())) or "none"


# Over sockets -------------------------------------------------------------------------------------


@dataclass
class Attack:
    """A cluster under attack: each method is one fault of the round that follows."""

    cluster: Cluster | Threads
    rng: random.Random
    held: ExitStack = field(default_factory=ExitStack)

    def _link(self):
        """A client's connection to a server."""
        client = self.rng.choice(self.cluster.session.clients)
        client.connect()
        return client.channels[self.rng.choice(self.cluster.session.servers)]

    def _next(self, change: Callable[[bytes], bytes]) -> None:
        """The next frame of a connection goes out as `change` makes it."""
        link = self._link()
        write, left = link.write, [change]

        def altered(header, body):
            if left:
                write(left.pop()(bytes(header) + bytes(body)), memoryview(b""))
            else:
                write(header, body)

        link.write = altered

    def drop(self) -> None:
        """A frame is left out."""
        self._next(lambda frame: b"")

    def duplicate(self) -> None:
        """A frame comes twice."""
        self._next(lambda frame: frame + frame)

    def truncate(self) -> None:
        """A frame is cut short."""
        self._next(lambda frame: frame[: self.rng.randrange(1, len(frame))])

    def alter(self) -> None:
        """One bit of a frame is another."""
        place, bit = self.rng.randrange(10**9), 1 << self.rng.randrange(8)

        def flipped(frame):
            at = place % len(frame)
            return frame[:at] + bytes([frame[at] ^ bit]) + frame[at + 1 :]

        self._next(flipped)

    def reorder(self) -> None:
        """The DONE before the share."""
        link = self._link()
        write, kept = link.write, []

        def swapped(header, body):
            kept.append(bytes(header) + bytes(body))
            if len(kept) == 2:
                write(kept[1] + kept[0], memoryview(b""))
                link.write = write

        link.write = swapped

    def replay(self) -> None:
        """A frame of an earlier round in the place of this one's, numbered as if it were new."""
        link = self._link()
        write = link.write

        def older(header, body):
            head = Header.unpack(bytes(header)[:HEADER_BYTES])
            link.write = write
            write(head._replace(round=head.round - 1).pack(), body)

        link.write = older

    def slow(self) -> None:
        """A client says nothing more, and stays connected."""
        link = self._link()
        link.write = lambda header, body: None

    def flood(self) -> None:
        """Fifty callers that say nothing."""
        for _ in range(50):
            self._idle()

    def half_open(self) -> None:
        """A client's connection ends without its knowledge."""
        self._link()._sock.shutdown(socket.SHUT_RDWR)

    def wrong_certificate(self) -> None:
        """A client of another authority calls."""
        with tempfile.TemporaryDirectory() as folder:
            issue(folder, servers=2, clients=1)
            stranger = context(folder, "client-0", accepting=False)
        stranger.load_verify_locations(self.cluster.folder / "authority.pem")
        try:
            connect(self._address(), stranger, "client-0", "server-0", LIMIT).receive(
                time.monotonic() + LIMIT
            )
        except ChannelError:
            return
        raise AssertionError("a server answered a stranger")

    def restarted_operator(self) -> None:
        """The operator orders a round, and comes again before the clients know of it."""
        session = self.cluster.session
        for party in (*session.clients, session.operator):
            party.connect()
        session.operator.start(SIZE, self.cluster.encoding.ring, np.zeros(1))
        session.operator.close()

    def _address(self):
        return self.cluster.session.clients[0]._addresses["server-0"]

    def _idle(self) -> None:
        self.held.enter_context(socket.create_connection(self._address(), LIMIT))


KINDS = [name for name, one in vars(Attack).items() if callable(one) and name[0] != "_"]
"""The faults of a round that a cluster must survive."""

_WAITING = ("slow", "truncate", "flood")
"""Those that are tried over sockets only: they cost the time limit, or threads of this process."""


class Unheard(Cluster):
    """A cluster whose servers' standard error output is on a full disk, or is a pipe that nobody reads."""

    def __init__(self, log: str, **given: Any) -> None:
        self._log = log
        super().__init__(**given)

    def _launch(self, name: str, role: list[object], listener: socket.socket) -> None:
        place = self.folder / f"{name}.log"
        if self._log == "full disk":
            place.symlink_to("/dev/full")
            super()._launch(name, role, listener)
            return
        os.mkfifo(place)
        reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
        super()._launch(name, role, listener)
        os.close(reader)

    def _status(self, name: str) -> str:
        return f"exit status {self.processes[name].returncode}"


LOGS = ("", "full disk", "closed stderr")
"""What becomes of the servers' messages: one cluster after the other."""


def over_sockets(rng: random.Random, seconds: float, count: int | None) -> list[str]:
    """Rounds of clusters, every second one with a fault: a right sum or an error, in time, and the next round works."""
    found, faults, end = [], 0, time.monotonic() + seconds
    ended: dict[str, int] = {}
    heard = dict.fromkeys(LOGS, 0)
    for log in itertools.cycle(LOGS):
        if faults == count or time.monotonic() >= end:
            break
        given = {"clients": CLIENTS, "servers": SERVERS, "time_limit": LIMIT}
        made = Unheard(log, **given) if log else Cluster(**given)
        with made as cluster, ExitStack() as held:
            attack = Attack(cluster, rng, held)
            for life in range(LIVES):
                if faults == count or time.monotonic() >= end:
                    break
                kind = "" if life % 2 == 0 else "kill" if life == LIVES - 1 else rng.choice(KINDS)
                faults += kind != ""
                heard[log] += kind != ""
                if fault := _round(attack, kind, ended):
                    found.append(
                        f"sums: fault {faults} over sockets, {kind or 'none'}, {log or 'log'}: {fault}"
                    )
    where = ", ".join(f"{number} with {log or 'a log'}" for log, number in heard.items())
    print(
        f"sums: {faults} faulted rounds over sockets ({where}), of which ended without a sum: {_told(ended)}",
        flush=True,
    )
    return found


def _round(attack: Attack, kind: str, ended: dict[str, int]) -> str:
    """One round with a fault, or with none; what is wrong with its end."""
    cluster, rng = attack.cluster, attack.rng
    rows = len(cluster.session.clients)
    numbers = np.random.default_rng(rng.getrandbits(32)).normal(size=(rows, SIZE))
    start, wrong = time.monotonic(), ""
    try:
        if kind == "kill":
            os.kill(rng.choice([one.pid for one in cluster.processes.values()]), signal.SIGKILL)
        elif kind:
            getattr(attack, kind)()
        total = cluster.round(numbers).total
        if np.abs(total - numbers.sum(axis=0)).max() > rows * 1e-9:
            wrong = "a wrong sum"
    except RoundError as problem:
        ended[kind] = ended.get(kind, 0) + 1
        wrong = "" if kind else f"no sum: {problem}"
    attack.held.close()
    waited = time.monotonic() - start
    return wrong or (f"no end for {waited:.0f} s" if waited > LONGEST else "")
