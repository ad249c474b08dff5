"""Connections: TLS 1.3 with a proof of both names, frames in order, time limits, bytes counted."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property

from repro.secagg.certificates import peer_name
from repro.secagg.frames import (
    EMPTY,
    HEADER_BYTES,
    NOBODY,
    NUMBERS,
    SHORT,
    Frame,
    FrameError,
    Header,
    Kind,
    Traffic,
    checksum,
)

_PIECE = 2**18


class ChannelError(ConnectionError):
    """A connection or what came over it cannot be used; the message says why."""


class Ended(ChannelError):
    """The other side ended the connection between two frames."""


def remaining(deadline: float | None) -> float | None:
    """Seconds until `deadline` (of the monotonic clock), at least 0; None for no deadline."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


class Channel:
    """One TLS connection on which frames come and go, with counts of all bytes.

    One thread may send while another receives.

    Args:
        sock: a connected socket; the channel owns it from now on.
        context: see `certificates.context`.
        own: this party's name.
        peer: the other party's name where this side opened the connection; None where it accepted.
        time_limit: seconds that a frame may take from its first byte to its last, either way.
        allowance: gives the largest payload that the other side may send at the moment.

    Attributes:
        peer: the other party's name; known after `handshake`.
        time_limit, allowance: as given; may be changed.
        place: how many frames were sent.
        sent, received: `Traffic` so far.
    """

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        own: str,
        peer: str | None,
        time_limit: float,
        allowance: Callable[[], int] = lambda: SHORT,
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock, self._own = sock, own
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=peer is None, server_hostname=peer
        )
        self._lock = threading.Lock()  # OpenSSL's objects serve one thread at a time
        self._buffer = bytearray(_PIECE)
        self._due = 0
        self.time_limit = time_limit
        self.peer = peer or ""
        self.allowance = allowance
        self.place = 0
        self.sent, self.received = Traffic(), Traffic()

    def handshake(self) -> None:
        """Prove both names to each other.

        Raises:
            ChannelError: the other side has no certificate of our authority, is somebody else than
                was called, or takes too long.
        """
        deadline = time.monotonic() + self.time_limit
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush(deadline)
                try:
                    self._pull(deadline)
                except EOFError as problem:
                    raise ChannelError(f"{self._called()} ended the handshake") from problem
            except ssl.SSLError as problem:
                with suppress(ChannelError):
                    self._flush(deadline)  # tells the other side
                raise ChannelError(
                    f"{self._called()} did not prove its name: {_reason(problem)}"
                ) from problem
            else:
                break
        self._flush(deadline)
        self.peer = self.peer or peer_name(self._tls)

    def send(
        self, kind: Kind, number: int = 0, payload: bytes | bytearray | memoryview = b""
    ) -> None:
        """Send one frame.

        Raises:
            ChannelError: the connection is gone, or the other side takes too long to read.
        """
        body = memoryview(payload).cast("B")
        header = Header.of(kind, number, self.ends, self.place, body)
        self.place += 1
        self.write(header.pack(), body)
        if kind in NUMBERS:
            self.sent.payload += body.nbytes

    def write(self, header: bytes, body: memoryview) -> None:
        """Send bytes as they are (`send` makes frames of them)."""
        deadline = time.monotonic() + self.time_limit
        if body.nbytes < _PIECE:
            header, body = header + body, body[:0]
        for piece in (header, *(body[i : i + _PIECE] for i in range(0, body.nbytes, _PIECE))):
            try:
                with self._lock:
                    self._tls.write(piece)
            except ssl.SSLError as problem:
                raise ChannelError(f"the connection was ended: {_reason(problem)}") from problem
            self._flush(deadline)

    def receive(self, deadline: float | None = None) -> Frame:
        """The next frame; waits for its first byte until `deadline`, None for as long as it takes.

        Raises:
            ChannelError: none came in time, the connection ended, or the frame is not in order
                (cut short, too long, altered, sent twice, in another party's name).
        """
        written = bytearray(HEADER_BYTES)
        self._read(memoryview(written)[:1], deadline, begun=False)
        deadline = time.monotonic() + self.time_limit
        self._read(memoryview(written)[1:], deadline)
        try:
            header = Header.unpack(written)
        except FrameError as problem:
            raise ChannelError(f"{self.peer} sent {problem}") from problem
        allowed = 0 if header.kind in EMPTY else self.allowance()
        if header.length > allowed:
            raise ChannelError(
                f"{self.peer} sent an oversized frame: {header.length} bytes, where {allowed} are "
                "allowed"
            )
        payload = bytearray(header.length)
        self._read(memoryview(payload), deadline)
        if checksum(payload) != header.digest:
            raise ChannelError(f"{self.peer} sent an altered frame: the payload's checksum differs")
        if header.place != self._due:
            raise ChannelError(
                f"{self.peer} replayed or left out a frame: number {header.place} of the "
                f"connection came where number {self._due} was due"
            )
        if (header.client, header.server) != self.ends:
            raise ChannelError(
                f"{self.peer} sent a frame that names client {header.client} and server "
                f"{header.server}"
            )
        if header.kind not in list(Kind):
            raise ChannelError(f"{self.peer} sent a frame of unknown kind {header.kind}")
        self._due += 1
        if header.kind in NUMBERS:
            self.received.payload += header.length
        return Frame(Kind(header.kind), header.round, payload, header.digest)

    def quiet(self) -> bool:
        """Whether the connection is open and nothing has come that was not read."""
        poll = select.poll()
        try:
            poll.register(self._sock, select.POLLIN)
            return not poll.poll(0) and not self._incoming.pending
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        """End the connection; a thread that waits in `receive` gets an error."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    @cached_property
    def ends(self) -> tuple[int, int]:
        """The numbers of the client and the server at the two ends, once both names are known."""
        numbers = {"client": NOBODY, "server": NOBODY}
        for name in (self._own, self.peer):
            role, _, number = name.partition("-")
            if number:
                numbers[role] = int(number)
        return numbers["client"], numbers["server"]

    def _called(self) -> str:
        return self.peer or "the caller"

    def _read(self, into: memoryview, deadline: float | None, *, begun: bool = True) -> None:
        """Fill `into`; `begun` says whether bytes of the same frame came before."""
        filled = 0
        while filled < into.nbytes:
            try:
                with self._lock:
                    filled += self._tls.read(into.nbytes - filled, into[filled:])
            except ssl.SSLWantReadError:
                try:
                    self._pull(deadline)
                except EOFError as problem:
                    raise self._ended(begun, str(problem)) from problem
            except ssl.SSLError as problem:
                raise self._ended(begun, _reason(problem)) from problem

    def _ended(self, begun: bool, reason: str) -> ChannelError:
        if begun:
            return ChannelError(f"{self.peer} sent a truncated frame: the connection ended in it")
        return Ended(f"{self.peer} ended the connection ({reason})")

    def _pull(self, deadline: float | None) -> None:
        """Take in what has come, at least one byte."""
        self._wait(select.POLLIN, deadline, "send")
        try:
            count = self._sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError as problem:
            raise EOFError(str(problem)) from problem
        if not count:
            raise EOFError("closed")
        self.received.wire += count
        with self._lock:
            self._incoming.write(memoryview(self._buffer)[:count])

    def _flush(self, deadline: float) -> None:
        with self._lock:
            waiting = memoryview(self._outgoing.read())
        while waiting:
            try:
                count = self._sock.send(waiting)
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline, "take")
                continue
            except OSError as problem:
                raise ChannelError(
                    f"{self._called()} ended the connection ({problem})"
                ) from problem
            self.sent.wire += count
            waiting = waiting[count:]

    def _wait(self, event: int, deadline: float | None, what: str) -> None:
        poll = select.poll()
        try:
            poll.register(self._sock, event)
            left = remaining(deadline)
            ready = poll.poll(None if left is None else 1000 * left)
        except (OSError, ValueError) as problem:  # closed by another thread
            raise ChannelError(f"the connection with {self.peer} was closed") from problem
        if not ready:
            raise ChannelError(f"{self._called()} was too slow: it did not {what} in time")


def connect(
    address: tuple[str, int], context: ssl.SSLContext, own: str, peer: str, time_limit: float
) -> Channel:
    """Open a connection to `peer` and wait until it is accepted.

    Raises:
        ChannelError: nobody answers there, somebody else does, or we are refused.
    """
    place = f"{peer} at {address[0]}:{address[1]}"
    try:
        sock = socket.create_connection(address, timeout=time_limit)
    except OSError as problem:
        raise ChannelError(f"{place} does not answer: {problem}") from problem
    channel = Channel(sock, context, own, peer, time_limit)
    try:
        channel.handshake()
        frame = channel.receive(time.monotonic() + time_limit)
        if frame.kind != Kind.WELCOME:
            raise ChannelError(frame.text)
    except ChannelError as problem:
        channel.close()
        raise ChannelError(f"{place} did not accept {own}: {problem}") from problem
    except BaseException:
        channel.close()
        raise
    return channel


def _reason(problem: ssl.SSLError) -> str:
    return problem.reason or problem.strerror or str(problem)
