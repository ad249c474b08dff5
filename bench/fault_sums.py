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
from repro.secagg.certificates import PARAMETERS, context
from repro.secagg.channel import Channel, ChannelError, connect
from repro.secagg.frames import HEADER_BYTES, Header, Kind
from repro.secagg.parameter_server import ParameterServer
from repro.secagg.server import IntermediateServer

CLIENTS, SERVERS, SIZE = 4, 3, 50
LIMIT = 5.0
"""Seconds that a step of a round over sockets may take."""

LONGEST = 4 * LIMIT + 2
"""Seconds within which a round has ended, one way or the other: four steps, and a machine under load."""

LIVES = 40
"""Rounds of a cluster, before another one takes its place."""

PATIENT = 30.0
"""Seconds that a step may take in this process, where no fault waits for the limit."""


def run(seed: int, seconds: float, count: int | None = None) -> list[str]:
    """Half of the seconds in this process, half over sockets; or `count` faults there and ten times as many here."""
    rng = random.Random(seed)
    return in_process(rng, seconds / 2, count and 10 * count) + over_sockets(
        rng, seconds / 2, count
    )


class Tally:
    """What became of the rounds, kind by kind."""

    def __init__(self) -> None:
        self._rounds: dict[str, list[tuple[bool, float]]] = {}

    def add(self, kind: str, summed: bool, seconds: float) -> None:
        """Count a round: its fault ("" for none), whether there was a sum, and how long it took."""
        self._rounds.setdefault(kind, []).append((summed, seconds))

    @property
    def faults(self) -> int:
        """Rounds with a fault."""
        return sum(len(rounds) for kind, rounds in self._rounds.items() if kind)

    def table(self, where: str) -> str:
        """Lines: kind, rounds, those that ended without a sum, and the longest one."""
        lines = [f"sums {where}: kind, rounds, without a sum, longest (s)"]
        for kind, rounds in sorted(self._rounds.items()):
            without = sum(not summed for summed, _ in rounds)
            longest = max(seconds for _, seconds in rounds)
            lines.append(f"  {kind or 'none':<20} {len(rounds):6} {without:6} {longest:7.1f}")
        return "\n".join(lines)


# In this process ----------------------------------------------------------------------------------


class Threads:
    """Two clients, and the servers as threads of this process: what an attack needs of a `Cluster`."""

    def __init__(self, folder: Path) -> None:
        issue(folder, servers=2, clients=2)
        self.folder, self.encoding, self.processes = folder, FixedPoint(), {}
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        parameters, *servers = (one.getsockname()[:2] for one in listeners)
        common = {"clients": 2, "ring": self.encoding.ring, "time_limit": PATIENT}
        self.summing = [
            IntermediateServer(number, folder, listener, parameters=parameters, **common)
            for number, listener in enumerate(listeners[1:])
        ]
        adding = ParameterServer(folder, listeners[0], servers=2, **common)
        for node in (adding, *self.summing):
            node.log = lambda text: None
            threading.Thread(target=node.run, daemon=True).start()
        self.session = Session(
            folder, servers=servers, parameters=parameters, clients=2, time_limit=PATIENT
        )
        self.round = self.session.round


def in_process(rng: random.Random, seconds: float, count: int | None) -> list[str]:
    """Rounds with a fault, each followed by one without, whose servers are threads of this process."""
    found: list[str] = []
    tally = Tally()
    kinds = [kind for kind in KINDS if kind not in _PROCESSES]
    number, end = 0, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        cluster = Threads(Path(folder) / "keys")
        held.callback(cluster.session.close)
        attack = Attack(cluster, rng, held=ExitStack())
        while number != count and time.monotonic() < end:
            number += 1
            for kind in (rng.choice(kinds), ""):
                if fault := _round(attack, kind, tally):
                    found.append(f"sums: fault {number} in this process, {kind or 'none'}: {fault}")
    print(tally.table("in this process"), flush=True)
    return found


# Over sockets -------------------------------------------------------------------------------------


@dataclass
class Attack:
    """A cluster under attack: each method is one fault of the round that follows."""

    cluster: Cluster | Threads
    rng: random.Random
    held: ExitStack = field(default_factory=ExitStack)

    def _link(self, *, operators: bool = True) -> Channel:
        """A connection that bytes of the next round take: a client's to a server, or the operator's.

        In this process it is a client's: what the operator does not say is waited for.
        """
        session = self.cluster.session
        others = [session.operator] if operators and self.cluster.processes else []
        party = self.rng.choice([*session.clients, *others])
        party.connect()
        names = [name for name in session.servers if name in party.channels]
        return party.channels[self.rng.choice(names or [PARAMETERS])]

    def _next(self, change: Callable[[bytes], bytes]) -> None:
        """The next frame of a connection goes out as `change` makes it."""
        if self.cluster.processes or self.rng.random() < 0.5:
            self._changed(self._link(), change)
            return
        node = self.rng.choice(self.cluster.summing)  # a server's sum, on its way to the other one
        send = node.send

        def of_server(name: str, kind: Kind, *frame: Any) -> None:
            if kind == Kind.PARTIAL:
                node.send = send
                self._changed(node.peers[name], change)
            send(name, kind, *frame)

        node.send = of_server
        self.held.callback(setattr, node, "send", send)

    @staticmethod
    def _changed(link: Channel, change: Callable[[bytes], bytes]) -> None:
        write = link.write

        def altered(header: bytes, body: memoryview) -> None:
            link.write = write
            write(change(bytes(header) + bytes(body)), memoryview(b""))

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

    def cut_off(self) -> None:
        """A frame is cut short, and the connection ends in it."""
        link = self._link()
        write, part = link.write, self.rng.random()

        def cut(header: bytes, body: memoryview) -> None:
            frame = bytes(header) + bytes(body)
            write(frame[: 1 + int(part * (len(frame) - 1))], memoryview(b""))
            link._sock.shutdown(socket.SHUT_RDWR)

        link.write = cut

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
        link = self._link(operators=False)
        write = link.write

        def older(header, body):
            head = Header.unpack(bytes(header)[:HEADER_BYTES])
            link.write = write
            write(head._replace(round=head.round - 1).pack(), body)

        link.write = older

    def slow(self) -> None:
        """A client, or the operator, says nothing more, and stays connected."""
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

    def kill(self) -> None:
        """A server is killed while the first or the second frame of a connection is on its way, and started again."""
        victim = self.rng.choice(list(self.cluster.processes.values()))
        link, spared = self._link(), self.rng.randrange(2)
        write, frames = link.write, itertools.count()

        def last(header: bytes, body: memoryview) -> None:
            if next(frames) == spared:
                victim.kill()
                victim.wait()
            write(header, body)

        link.write = last
        self.held.callback(self.cluster.start_again)

    def frozen(self) -> None:
        """A server stands still, with all its connections open, until the round has ended."""
        victim = self.rng.choice(list(self.cluster.processes.values()))
        victim.send_signal(signal.SIGSTOP)
        self.held.callback(victim.send_signal, signal.SIGCONT)

    def _address(self):
        return self.cluster.session.clients[0]._addresses["server-0"]

    def _idle(self) -> None:
        self.held.enter_context(socket.create_connection(self._address(), LIMIT))


KINDS = [name for name, one in vars(Attack).items() if callable(one) and name[0] != "_"]
"""The faults of a round that a cluster must survive."""

_PROCESSES = ("slow", "truncate", "flood", "kill", "frozen")
"""Those that are tried over sockets only: they cost the time limit, or threads of this process, or want others."""


class Servers(Cluster):
    """A cluster whose servers can be killed and started again, and whose messages nobody may read.

    Args:
        log: where the standard error output goes, one of `LOGS`.
        given: as for a `Cluster`.
    """

    def __init__(self, log: str, **given: Any) -> None:
        self._log = log
        self._roles: dict[str, tuple[list[object], socket.socket]] = {}
        super().__init__(**given)

    def start_again(self) -> None:
        """Start the processes that have ended, and wait until they listen."""
        for name, process in list(self.processes.items()):
            if process.poll() is not None:
                process.stdin.close()
                process.stdout.close()
                role, listener = self._roles[name]
                self._heard(name, list(role), listener)
                self.processes[name].stdout.readline()

    def close(self) -> None:
        """As a cluster does."""
        super().close()
        for _, listener in self._roles.values():
            listener.close()

    def _launch(self, name: str, role: list[object], listener: socket.socket) -> None:
        self._roles[name] = list(role), listener.dup()
        place = self.folder / f"{name}.log"
        if self._log == "full disk":
            place.symlink_to("/dev/full")
        if self._log == "closed stderr":
            os.mkfifo(place)
        self._heard(name, role, listener)

    def _heard(self, name: str, role: list[object], listener: socket.socket) -> None:
        """Start a process; a pipe has a reader until the process holds it, and none from then on."""
        if self._log != "closed stderr":
            super()._launch(name, role, listener)
            return
        reader = os.open(self.folder / f"{name}.log", os.O_RDONLY | os.O_NONBLOCK)
        super()._launch(name, role, listener)
        os.close(reader)

    def _status(self, name: str) -> str:
        return f"exit status {self.processes[name].returncode}"


LOGS = ("a log", "full disk", "closed stderr")
"""What becomes of the servers' messages: one cluster after the other."""


def over_sockets(rng: random.Random, seconds: float, count: int | None) -> list[str]:
    """Rounds of clusters, every second one with a fault: a right sum or an error, in time, and the next round works."""
    found: list[str] = []
    tallies = {log: Tally() for log in LOGS}
    every, end = Tally(), time.monotonic() + seconds
    for log in itertools.cycle(LOGS):
        if every.faults == count or time.monotonic() >= end:
            break
        with (
            Servers(log, clients=CLIENTS, servers=SERVERS, time_limit=LIMIT) as cluster,
            ExitStack() as held,
        ):
            attack = Attack(cluster, rng, held)
            for life in range(LIVES):
                if life % 2 == 0 and (every.faults == count or time.monotonic() >= end):
                    break
                kind = rng.choice(KINDS) if life % 2 == 0 else ""
                if fault := _round(attack, kind, every, tallies[log]):
                    found.append(
                        f"sums: fault {every.faults} over sockets, {kind or 'none'}, {log}: {fault}"
                    )
    for log, tally in tallies.items():
        print(tally.table(f"over sockets, {log}"), flush=True)
    print(every.table("over sockets"), flush=True)
    return found


def _round(attack: Attack, kind: str, *tallies: Tally) -> str:
    """One round with a fault, or with none; what is wrong with its end."""
    cluster, rng = attack.cluster, attack.rng
    rows = len(cluster.session.clients)
    numbers = np.random.default_rng(rng.getrandbits(32)).normal(size=(rows, SIZE))
    start, wrong, summed = time.monotonic(), "", True
    try:
        if kind:
            getattr(attack, kind)()
        total = cluster.round(numbers).total
        if np.abs(total - numbers.sum(axis=0)).max() > rows * 1e-9:
            wrong = "a wrong sum"
    except RoundError as problem:
        summed = False
        wrong = "" if kind else f"no sum: {problem}"
    waited = time.monotonic() - start
    attack.held.close()
    for tally in tallies:
        tally.add(kind, summed, waited)
    return wrong or (f"no end for {waited:.0f} s" if waited > LONGEST else "")
