"""The intermediate server: it adds up one share of every client and passes on only the sum."""

from __future__ import annotations

import os
import socket
import time

import numpy as np

from repro._validate import integer
from repro.secagg.certificates import PARAMETERS, client_name, server_name
from repro.secagg.frames import SHORT, WORD, Frame, FrameError, Kind, Order, words
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

    Args:
        number: j, counted from 0.
        folder: with the certificate `server-j`.
        listener: a listening socket, for the clients.
        parameters: address of the parameter server.
        clients: n >= 1; the clients are 0, …, n - 1.
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
        ring: Ring,
        time_limit: float,
    ) -> None:
        self._ring = ring
        self._names = [client_name(i) for i in range(integer("clients", clients, 1))]
        self._last = 0  # the latest round that was opened here; none is opened twice
        self._total: Elements | None = None  # None: no round is open
        self._have: set[str] = set()  # whose share is in the sum
        self._done: set[str] = set()  # who said, besides, that this was all
        self._deadline: float | None = None
        super().__init__(server_name(number), folder, listener, self._names, time_limit)
        self.keep_connected(parameters)

    def allowance(self, name: str) -> int:
        """A client may send a whole vector while a round is open."""
        total = self._total
        return SHORT if name == PARAMETERS or total is None else max(SHORT, total.nbytes)

    def run(self) -> None:
        """Serve until the process ends."""
        while True:
            try:
                name, frame = self.next(self._deadline)
                if frame is not None:
                    self._take(name, frame)
            except TimeoutError:
                late = [name for name in self._names if name not in self._done]
                lack = [f"no {'DONE' if n in self._have else 'share'} of {n}" for n in late]
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
            self._in_turn(name, frame, "share", self._have)
            self._add(name, frame)
        elif frame.kind == Kind.DONE:
            self._in_turn(name, frame, "DONE", self._done)
            self._count(name)
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
        self._last, self._have, self._done = frame.round, set(), set()
        self._total = np.zeros(order.size, np.uint64)
        self._deadline = time.monotonic() + self.time_limit
        self.send(PARAMETERS, Kind.OPENED, self._last)

    def _in_turn(self, name: str, frame: Frame, what: str, sent: set[str]) -> None:
        """Refuse a frame of another round, a second one, or one that comes after the round."""
        if frame.round != self._last:
            raise Fault(f"{name} sent a {what} for round {frame.round} in round {self._last}", name)
        if name in sent:
            raise Fault(f"{name} sent a second {what} for round {frame.round}", name)
        if self._total is None:
            raise Fault(f"{name} sent a {what} for round {frame.round}, which is over", name)

    def _add(self, name: str, frame: Frame) -> None:
        length = KEY_BYTES if frame.kind == Kind.KEY else self._total.nbytes
        if len(frame.payload) != length:
            raise Fault(
                f"{name} sent a share of {len(frame.payload)} bytes in place of {length}", name
            )
        if frame.kind == Kind.KEY:
            add_expanded(self._total, frame.payload, self._ring)
        else:
            try:
                vector = self._ring.elements("share", words(frame.payload))
            except ValueError as problem:
                raise Fault(f"{name} sent no elements: {problem}", name) from problem
            self._ring.add(self._total, vector, out=self._total)
        self._have.add(name)

    def _count(self, name: str) -> None:
        if name not in self._have:
            raise Fault(f"{name} sent a DONE for round {self._last} without a share", name)
        self._done.add(name)
        if len(self._done) == len(self._names):
            self._finish()

    def _finish(self) -> None:
        whose = np.packbits([name in self._done for name in self._names])
        sums = self._total.astype(WORD, copy=False).tobytes() + whose.tobytes()
        self._close()
        self.send(PARAMETERS, Kind.PARTIAL, self._last, sums)
        self.send(PARAMETERS, Kind.DONE, self._last)

    def _lost(self, fault: Fault) -> None:
        """A party has left or must be disconnected.

        The round goes on only if it no longer needs that party.
        """
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
