"""The intermediate server: it adds up one share of every client and passes on only the sum."""

from __future__ import annotations

import os
import socket
import time

import numpy as np

from repro.secagg.certificates import PARAMETERS, client_links, server_name
from repro.secagg.frames import (
    MODEL_DIGEST_BYTES,
    SHORT,
    TOGETHER,
    Frame,
    FrameError,
    Kind,
    Order,
    words,
)
from repro.secagg.node import Fault, Gone, Node, Replaced
from repro.secagg.ring import Elements, Ring
from repro.secagg.shares import add_expanded
from repro.secagg.stream import KEY_BYTES


class IntermediateServer(Node):
    """Server `number` of ddpsa's Algorithm 2.

    It takes exactly one share of each client in a round. Then it sends the sum, and the set of
    clients in the sum, to the parameter server. Any error ends the round, and the server forgets
    the sum so far.

    A client counts when its DONE has come, and the sum is sent when all clients count. So a second
    share before the DONE always ends the round. A frame after the DONE ends the round if it is
    still open, and otherwise the connection; neither changes the sum.

    Every DONE carries the digest of the model that the client was sent. Formal guarantee: this
    server sends no sum unless all clients' digests are equal. So a parameter server that sends one
    client another model, to single it out in the sum, gets no sum, as long as one of the m servers
    is honest (which secrecy needs in any case).

    Args:
        number: j, counted from 0.
        folder: with the certificate `server-j`.
        listener: a listening socket, for the clients.
        parameters: address of the parameter server.
        clients: n >= 1; the clients are 0, …, n - 1.
        links: None where every client has a connection of its own; else how many parties act for
            all of them, see `certificates.client_links`.
        ring: of the shares.
        time_limit: seconds from the opening of a round to the last client's DONE, > 0.

    Raises:
        ValueError: an argument out of range, or no certificate in `folder`.

    Source: ddpsa (arXiv 2604.07125v1), Algorithm 2.
    """

    def __init__(
        self,
        number: int,
        folder: str | os.PathLike[str],
        listener: socket.socket,
        *,
        parameters: tuple[str, int],
        clients: int,
        links: int | None = None,
        ring: Ring,
        time_limit: float,
    ) -> None:
        self._ring = ring
        self._links = client_links(clients, links)
        self._last = 0  # the latest round that was opened here; none is opened twice
        self._total: Elements | None = None  # None: no round is open
        self._have = np.zeros(clients, bool)  # whose share is in the sum
        self._done: dict[str, bytes] = {}  # who said, besides, that this was all: their models
        self._deadline: float | None = None
        settings = {"clients": clients, "links": links, "modulus": ring.modulus}
        super().__init__(server_name(number), folder, listener, self._links, time_limit, settings)
        self.keep_connected(parameters)

    def allowance(self, name: str) -> int:
        """A client may send a whole vector while a round is open, and several at once for many."""
        total = self._total
        if name == PARAMETERS or total is None:
            return SHORT
        return max(TOGETHER if len(self._links[name]) > 1 else SHORT, total.nbytes)

    def run(self) -> None:
        """Serve until the process ends."""
        while True:
            try:
                name, frame = self.next(self._deadline)
                if frame is not None:
                    self._take(name, frame)
            except TimeoutError:
                late = {name: self._whole(name) for name in self._links if name not in self._done}
                lack = [f"no {'DONE' if had else 'share'} of {name}" for name, had in late.items()]
                self._fail(f"{', '.join(lack)} came within {self.time_limit:g} s")
            except Fault as fault:
                self._lost(fault)

    def _take(self, name: str, frame: Frame) -> None:
        """Act on one frame.

        Raises:
            Fault: it is not in order.
        """
        if name == PARAMETERS:
            if frame.kind == Kind.OPEN:
                self._open(frame)
            else:
                self._close()
        elif frame.kind in (Kind.KEY, Kind.VECTOR):
            self._add(name, frame)
        elif frame.kind == Kind.DONE:
            self._in_turn(name, frame, "DONE", name in self._done)
            self._count(name, bytes(frame.payload))
        else:
            raise Fault(f"{name} sent {frame.kind.name}, which is no share", name)

    def _open(self, frame: Frame) -> None:
        if frame.round <= self._last:
            reason = f"round {frame.round} does not follow round {self._last}"
            self.send(PARAMETERS, Kind.FAIL, self._last, reason.encode())
            return
        try:
            order = Order.unpack(frame.payload, self._ring.modulus)
        except FrameError as problem:
            self.send(PARAMETERS, Kind.FAIL, self._last, str(problem).encode())
            return
        self._last, self._done = frame.round, {}
        self._have[:] = False
        self._total = np.zeros(order.size, self._ring.dtype)
        self._deadline = time.monotonic() + self.time_limit
        self.send(PARAMETERS, Kind.OPENED, self._last)

    def _in_turn(self, name: str, frame: Frame, what: str, sent: bool) -> None:
        """Refuse a frame of another round, a second one, or one that comes after the round."""
        if frame.round != self._last:
            raise Fault(f"{name} sent a {what} for round {frame.round} in round {self._last}", name)
        if sent:
            raise Fault(f"{name} sent a second {what} for round {frame.round}", name)
        if self._total is None:
            raise Fault(f"{name} sent a {what} for round {frame.round}, which is over", name)

    def _add(self, name: str, frame: Frame) -> None:
        """Add the share in a frame, or those of several clients that follow each other."""
        size = self._ring.dtype.itemsize * len(self._total) if self._total is not None else 1
        length = KEY_BYTES if frame.kind == Kind.KEY else size
        count, rest = divmod(len(frame.payload), length)
        last, stop = frame.client + max(1, count), self._links[name].stop
        self._in_turn(name, frame, "share", self._have[frame.client : min(last, stop)].any())
        if rest or not count or last > stop:
            each = " for each of its clients" if len(self._links[name]) > 1 else ""
            raise Fault(
                f"{name} sent a share of {len(frame.payload)} bytes in place of {length}{each}",
                name,
            )
        if frame.kind == Kind.KEY:
            for begin in range(0, len(frame.payload), KEY_BYTES):
                add_expanded(self._total, frame.payload[begin : begin + KEY_BYTES], self._ring)
        else:
            try:
                vectors = self._ring.elements("share", words(frame.payload, self._ring))
            except ValueError as problem:
                raise Fault(f"{name} sent no elements: {problem}", name) from problem
            for vector in vectors.reshape(count, -1):
                self._ring.add(self._total, vector, out=self._total)
        self._have[frame.client : last] = True

    def _whole(self, name: str) -> bool:
        """Whether the shares of all clients for whom a party acts are in the sum."""
        whose = self._links[name]
        return bool(self._have[whose.start : whose.stop].all())

    def _count(self, name: str, digest: bytes) -> None:
        if not self._whole(name):
            raise Fault(f"{name} sent a DONE for round {self._last} without a share", name)
        if len(digest) != MODEL_DIGEST_BYTES:
            raise Fault(f"{name} sent a DONE of {len(digest)} bytes without a digest", name)
        first = next(iter(self._done), name)  # all that were counted before agree
        if self._done.setdefault(first, digest) != digest:
            # Which of them was singled out, only the parameter server knows.
            raise Fault(f"{name} and {first} were sent different models")
        self._done[name] = digest
        if len(self._done) == len(self._links):
            self._finish()

    def _finish(self) -> None:
        whose = np.packbits(self._have)
        sums = self._total.astype(self._ring.written, copy=False).tobytes() + whose.tobytes()
        self._close()
        self.send(PARAMETERS, Kind.PARTIAL, self._last, sums)
        self.send(PARAMETERS, Kind.DONE, self._last)

    def _lost(self, fault: Fault) -> None:
        """A party has left or must be disconnected.

        The round goes on only if it no longer needs that party. Of a party that opened another
        connection, `_join` has ended the older one. The new one stays: where a round has failed,
        every party connects again, perhaps before the end of its older connection is noticed here.
        """
        if not isinstance(fault, Replaced):
            self.drop(fault.name)
        # A client may leave after its DONE. It may not connect again while the round is open: a
        # second share could come over the second connection.
        left = isinstance(fault, Gone) and not isinstance(fault, Replaced)
        if fault.name == PARAMETERS:
            self._close()
        elif self._total is not None and not (left and fault.name in self._done):
            self._fail(str(fault))
        elif not isinstance(fault, Gone):
            self.log(str(fault))

    def _fail(self, reason: str) -> None:
        self._close()
        self.log(f"round {self._last}: {reason}")
        try:
            self.send(PARAMETERS, Kind.FAIL, self._last, reason.encode()[:SHORT])
        except Fault as fault:
            self.log(str(fault))

    def _close(self) -> None:
        self._total, self._deadline = None, None
