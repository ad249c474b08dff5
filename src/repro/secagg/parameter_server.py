"""The parameter server: it opens rounds and adds up the servers' sums if they fit together."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence

import numpy as np

from repro.secagg.certificates import OPERATOR, client_links, client_name, server_names
from repro.secagg.channel import Channel
from repro.secagg.frames import (
    LARGEST,
    NONCE_BYTES,
    ORDER_BYTES,
    SHORT,
    Frame,
    FrameError,
    Kind,
    Order,
    Traffic,
    words,
)
from repro.secagg.node import Fault, Gone, Node, Replaced
from repro.secagg.ring import Elements, Ring
from repro.secagg.shares import reconstruct

_MODEL = ORDER_BYTES + NONCE_BYTES
"""Where the model begins in a START."""

_NAMED = 20
"""Clients that a message names."""

_JUMP = 2**32
"""By how much the last round that a party reports can raise the number of the next round.

A party that reports absurd numbers cannot use up the 2^64 numbers, and after a restart of this
server a failed round makes up for each of its reports.
"""


class ParameterServer(Node):
    """The parameter server of ddpsa's Algorithm 2, without the step of the model.

    The operator owns the model. It starts a round with the model to broadcast, and receives the sum
    of all clients' encoded vectors or the reason why there is none, never a part of the sum.

    Formal guarantee: a sum is sent only if each of the m servers reported, in this round, a sum
    over exactly the clients 0, …, n - 1; and only over the connection on which the operator ordered
    the round, with the digest of that order. If that connection ends, the round ends. A round that
    fails changes nothing here but the round number, which is not used again.

    Without intermediate servers (federated learning without secret sharing) the clients send their
    vectors here, and the sum is sent only if all n vectors came; this server sees each vector.

    A malicious parameter server can send a client another model, to single it out. The intermediate
    servers compare the digests of the models that the clients were sent, and an honest one gives no
    sum where they differ. A bad model that all clients are sent alike, nobody here notices.

    A sum, a vector or a START is taken with the DONE that follows it. So a second copy before that
    DONE always ends the round.

    Args:
        folder: with the certificate `parameters`.
        listener: a listening socket, for servers, clients and the operator.
        servers: m >= 2, or 0 for no sharing.
        clients: n >= 1.
        links: as for `IntermediateServer`; only where there are servers.
        ring: of the shares.
        time_limit: seconds, > 0, for each step: until all parties are connected, until all servers
            are open, and (twice that) until all sums have come.

    Raises:
        ValueError: an argument out of range, or no certificate in `folder`.

    Source: ddpsa (arXiv 2604.07125v1), Algorithm 2.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        listener: socket.socket,
        *,
        servers: int,
        clients: int,
        links: int | None = None,
        ring: Ring,
        time_limit: float,
    ) -> None:
        self._servers = server_names(servers)
        if links is not None and not self._servers:
            raise ValueError(f"links must be None where servers is 0, got {links!r}")
        self._clients = list(client_links(clients, links))
        self._count = clients
        self._sources = self._servers or self._clients  # of what is added up here
        self._ring = ring
        self._last = 0  # the highest number that any party has told of
        self._number = 0  # of the open round
        self._size = 0  # elements of a vector in the open round
        self._traffic: dict[str, Traffic] = {}
        everybody = {OPERATOR, *self._servers, *self._clients}
        settings = {"clients": clients, "links": links, "modulus": ring.modulus}
        super().__init__("parameters", folder, listener, everybody, time_limit, settings)

    def allowance(self, name: str) -> int:
        """The operator may send a model; a server its sum, or a client its vector, in a round."""
        if name == OPERATOR:
            return _MODEL + 8 * LARGEST
        whole = SHORT + self._ring.dtype.itemsize * self._size + self._count // 8
        return whole if name in self._sources else SHORT

    def run(self) -> None:
        """Serve until the process ends."""
        while True:
            try:
                name, frame = self.next()
            except Gone:
                continue  # between rounds, anybody may come and go
            except Fault as fault:
                self.log(str(fault))
                continue
            if frame is None:
                continue
            if name == OPERATOR and frame.kind == Kind.START:
                self._round(frame)
            elif name == OPERATOR and frame.kind == Kind.TRAFFIC:
                self._report()
            else:
                self.log(f"{name} sent {frame.kind.name} while no round is open")
                self.drop(name)

    def _round(self, start: Frame) -> None:
        """One round for the operator on this connection; no other connection gets its sum."""
        self._heed(start.round)
        self._number = self._last = self._last + 1
        operator = self.peers[OPERATOR]
        try:
            total = self._run_round(start.payload).astype(self._ring.written, copy=False)
            answer = b"".join((start.digest, total.data.cast("B")))
            self.send(OPERATOR, Kind.SUM, self._number, answer)
        except Fault as fault:
            self._fail(self._number, str(fault), operator)
        finally:
            self._size = 0

    def _run_round(self, start: bytearray) -> Elements:
        """One round of Algorithm 2, from the broadcast to the sum.

        Raises:
            Fault: there is no complete sum, or the operator that ordered it has left.
        """
        self._gather([Kind.DONE], 0, [OPERATOR], self.time_limit)
        try:
            if len(start) < _MODEL:
                raise FrameError(f"an order of {len(start)} bytes")
            order = Order.unpack(start, self._ring.modulus)
        except FrameError as problem:
            raise Fault(f"{OPERATOR} sent {problem}") from problem
        self._assemble()
        links = dict(self.peers)  # kept: a client may leave after its DONE
        before = self._counts(links)
        self._size = order.size
        self._open(order)
        for name in self._clients:
            self.send(name, Kind.MODEL, self._number, memoryview(start)[_MODEL:])
        kind = Kind.PARTIAL if self._servers else Kind.VECTOR
        sums = self._gather([kind, Kind.DONE], self._number, self._sources, 2 * self.time_limit)
        after = self._counts(links)
        self._traffic = {link: after[link] - before[link] for link in after}
        return reconstruct(np.stack([self._checked(name, sums[name]) for name in sums]), self._ring)

    def _open(self, order: Order) -> None:
        """Open the round at every server.

        A server refuses a number that is not beyond all that it has seen: it may have served this
        party before a restart, or another one. All servers are then asked again, once, with a
        number beyond those that were told.
        """
        begin = time.monotonic()
        for _ in range(2):
            for name in self._servers:
                self.send(name, Kind.OPEN, self._number, order.pack())
            who = self._gather([Kind.OPENED], self._number, self._servers, self.time_limit, begin)
            if len(who) == len(self._servers):
                return
            self._number = self._last = self._last + 1
        raise Fault("a server refused two numbers for this round, each above the last it had told")

    def _heed(self, told: int) -> None:
        """Go on beyond the latest round that a party has seen."""
        self._last = max(self._last, min(told, self._last + _JUMP))

    def _assemble(self) -> None:
        """Wait until everybody is connected."""
        deadline = time.monotonic() + self.time_limit
        while missing := [n for n in (*self._servers, *self._clients) if n not in self.peers]:
            try:
                name, frame = self.next(deadline)
            except TimeoutError:
                absent = ", ".join(missing)
                raise Fault(f"{absent} did not connect within {self.time_limit:g} s") from None
            except Gone as gone:
                if gone.name == OPERATOR:
                    raise  # nobody may get the sum that it ordered
                continue
            if frame is not None:
                raise Fault(f"{name} sent {frame.kind.name} before the round was open", name)

    def _gather(
        self,
        kinds: Sequence[Kind],
        number: int,
        names: Sequence[str],
        seconds: float,
        begin: float | None = None,
    ) -> dict[str, bytearray]:
        """One frame of each of `kinds`, in this order, from each of `names`: the first's payload.

        Anything else ends the round, but a server's refusal of the number: `_open` looks at it.
        """
        deadline, got = (time.monotonic() if begin is None else begin) + seconds, {}
        due = {name: list(kinds) for name in names}
        while any(due.values()):
            try:
                name, frame = self.next(deadline)
            except TimeoutError:
                late = [f"{name} sent no {left[0].name}" for name, left in due.items() if left]
                raise Fault(f"{', '.join(late)} within {seconds:g} s") from None
            except Gone as gone:
                owes = due.get(gone.name) or (gone.name in due and isinstance(gone, Replaced))
                if gone.name in self._clients and not owes and kinds[0] != Kind.OPENED:
                    continue  # the servers know whether they still need this client
                raise
            if frame is None:
                continue
            if frame.kind == Kind.FAIL:
                self._heed(frame.round)
                if due.get(name) == [Kind.OPENED] and frame.round >= number:
                    due[name].clear()
                    continue
                raise Fault(f"{name}: {frame.text}")
            left = due.get(name, [])
            if frame.round != number or [frame.kind] != left[:1]:
                awaited = f"{left[0].name} of round {number}" if left else "nothing"
                raise Fault(
                    f"{name} sent {frame.kind.name} for round {frame.round}, where {awaited} was "
                    "due",
                    name,
                )
            left.pop(0)
            got.setdefault(name, frame.payload)
        return got

    def _checked(self, name: str, payload: bytearray) -> Elements:
        """A server's sum or a client's vector.

        Raises:
            Fault: wrong length, a sum without some clients, or numbers outside the ring.
        """
        length = self._ring.dtype.itemsize * self._size
        body, whose = memoryview(payload)[:length], payload[length:]
        count = self._count if self._servers else 0
        if len(payload) != length + -(-count // 8):
            raise Fault(f"{name} sent a sum of {len(payload)} bytes for {self._size} elements")
        present = np.unpackbits(np.frombuffer(whose, np.uint8), count=count)
        if not present.all():
            absent = np.flatnonzero(present == 0)
            lacking = ", ".join(map(client_name, absent[:_NAMED]))
            lacking += f" and {absent.size - _NAMED} more" if absent.size > _NAMED else ""
            raise Fault(f"{name} summed without {lacking}: the servers' sums do not fit together")
        try:
            return self._ring.elements("sum", words(body, self._ring))
        except ValueError as problem:
            raise Fault(f"{name} sent no elements: {problem}") from problem

    def _fail(self, number: int, reason: str, operator: Channel) -> None:
        """Tell everybody, and begin anew: see the module `node`.

        An operator that connected after this round had begun has no part in it and stays.
        """
        self.log(f"round {number}: {reason}")
        for name, channel in list(self.peers.items()):
            if name == OPERATOR and channel is not operator:
                continue
            try:
                self.send(name, Kind.FAIL, number, reason.encode()[:SHORT])
            except Fault as fault:
                self.log(str(fault))
            self.drop(name)

    def _counts(self, links: Mapping[str, Channel]) -> dict[str, Traffic]:
        """Bytes so far from the servers, and to the clients."""
        return {
            "sums": sum((links[name].received for name in self._servers), Traffic()),
            "broadcast": sum((links[name].sent for name in self._clients), Traffic()),
        }

    def _report(self) -> None:
        """The bytes of the last round."""
        counts = {link: [count.payload, count.wire] for link, count in self._traffic.items()}
        try:
            self.send(OPERATOR, Kind.TRAFFIC, self._last, json.dumps(counts).encode())
        except Fault as fault:
            self.log(str(fault))
