"""Secure sums with faults: what `faults.py` runs as its part "sums"."""

from __future__ import annotations

import os
import random
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from repro.secagg import Cluster, FixedPoint, RoundError, issue, reconstruct, share
from repro.secagg.certificates import context
from repro.secagg.channel import ChannelError, connect
from repro.secagg.frames import HEADER_BYTES, Header

CLIENTS, SERVERS, SIZE = 4, 3, 50
LIMIT = 5.0
"""Seconds that a step of a round over sockets may take."""

LONGEST = 4 * LIMIT + 2
"""Seconds within which a round has ended, one way or the other: four steps, and a machine under load."""

LIVES = 40
"""Rounds of a cluster, of which the last loses a server."""


def run(seed: int, seconds: float, count: int | None = None) -> list[str]:
    """Half of the seconds in this process, half over sockets, or `count` rounds there and ten times as many here."""
    rng = random.Random(seed)
    return in_process(rng, seconds / 2, count and 10 * count) + over_sockets(
        rng, seconds / 2, count
    )


def in_process(rng: random.Random, seconds: float, count: int | None) -> list[str]:
    """One flipped bit in a quarter of the rounds: the right sum without it, another sum or an error with it."""
    found, number, faulty = [], 0, 0
    encoding, end = FixedPoint(decimals=6), time.monotonic() + seconds
    while number != count and time.monotonic() < end:
        number += 1
        numbers = np.random.default_rng(rng.getrandbits(32)).normal(size=(CLIENTS, SIZE))
        whole = encoding.encode(numbers, clients=CLIENTS)
        sums = share(whole, servers=SERVERS).expanded().sum(axis=1)
        expected = encoding.decode(whole.sum(axis=0))
        fault = rng.random() < 0.25
        if fault:
            faulty += 1
            place = rng.randrange(SERVERS), rng.randrange(SIZE)
            sums[place] ^= np.uint64(1 << rng.randrange(63))
        try:
            got = encoding.decode(reconstruct(sums))
        except ValueError:
            continue
        if fault == bool((got == expected).all()):
            found.append(f"sums: round {number}, fault {fault}: {got[:3]} for {expected[:3]}")
        if not fault and np.abs(got - numbers.sum(axis=0)).max() > CLIENTS * 1e-6:
            found.append(f"sums: round {number} is off by more than the rounding")
    print(f"sums: {number} rounds in this process, {faulty} with a fault", flush=True)
    return found


# Over sockets -------------------------------------------------------------------------------------


@dataclass
class Attack:
    """A cluster under attack: each method is one fault of the round that follows."""

    cluster: Cluster
    rng: random.Random
    held: ExitStack = field(default_factory=ExitStack)

    def _link(self):
        """A client's connection to a server."""
        client = self.rng.choice(self.cluster.session.clients)
        client.connect()
        return client.channels[f"server-{self.rng.randrange(SERVERS)}"]

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
            issue(folder, servers=SERVERS, clients=CLIENTS)
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


def over_sockets(rng: random.Random, seconds: float, count: int | None) -> list[str]:
    """Rounds of clusters, every second one with a fault: a right sum or an error, in time, and the next round works."""
    found, rounds, end = [], 0, time.monotonic() + seconds
    ended: dict[str, int] = {}
    while rounds != count and time.monotonic() < end:
        with (
            Cluster(clients=CLIENTS, servers=SERVERS, time_limit=LIMIT) as cluster,
            ExitStack() as held,
        ):
            attack = Attack(cluster, rng, held)
            for life in range(LIVES):
                if rounds == count or time.monotonic() >= end:
                    break
                rounds += 1
                kind = "" if life % 2 == 0 else "kill" if life == LIVES - 1 else rng.choice(KINDS)
                if fault := _round(attack, kind, ended):
                    found.append(
                        f"sums: round {rounds} over sockets, {kind or 'no fault'}: {fault}"
                    )
    told = ", ".join(f"{kind} {number}" for kind, number in sorted(ended.items()))
    print(
        f"sums: {rounds} rounds over sockets, of which ended without a sum: {told or 'none'}",
        flush=True,
    )
    return found


def _round(attack: Attack, kind: str, ended: dict[str, int]) -> str:
    """One round with a fault, or with none; what is wrong with its end."""
    cluster, rng = attack.cluster, attack.rng
    numbers = np.random.default_rng(rng.getrandbits(32)).normal(size=(CLIENTS, SIZE))
    start, wrong = time.monotonic(), ""
    try:
        if kind == "kill":
            os.kill(rng.choice([one.pid for one in cluster.processes.values()]), signal.SIGKILL)
        elif kind:
            getattr(attack, kind)()
        total = cluster.round(numbers).total
        if np.abs(total - numbers.sum(axis=0)).max() > CLIENTS * 1e-9:
            wrong = "a wrong sum"
    except RoundError as problem:
        ended[kind] = ended.get(kind, 0) + 1
        wrong = "" if kind else f"no sum: {problem}"
    attack.held.close()
    waited = time.monotonic() - start
    return wrong or (f"no end for {waited:.0f} s" if waited > LONGEST else "")
