"""Connections: TLS 1.3 with a proof of both names, frames in order, time limits, bytes counted.

TLS runs on `ssl.MemoryBIO` and `poll`: asyncio streams take 12 to 14 % more processor time for vectors
and as much for keys (docs/secure-sums.md), and do not report the bytes handed to TCP.
"""

from __future__ import annotations

import math
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property

from repro.secagg.certificates import QUESTION, carried, number_of, peer_name
from repro.secagg.frames import (
    EMPTY,
    HEADER_BYTES,
    MODEL_DIGEST_BYTES,
    NOBODY,
    NUMBERS,
    SHORT,
    ChannelError,
    Ended,
    Frame,
    FrameError,
    Header,
    Kind,
    Slow,
    Traffic,
    checksum,
)

_PIECE = 2**18
"""Bytes handed to TLS at a time."""

_GREETING = 2**12
"""Bytes taken in at a time before the other side has proved its name."""

_LONGEST = 32767
"""The largest number of seconds that TCP accepts for its probes."""

_SIGNS = (Kind.PROBE, Kind.ALIVE)  # of life, which who uses a connection does not see

_LOOK = 1.0
"""Seconds between looks whether a socket is still open: the number of a closed one may be another's by now."""


def remaining(deadline: float | None) -> float | None:
    """Seconds until `deadline` (of the monotonic clock), at least 0; None for no deadline."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


class Channel:
    """One TLS connection on which frames come and go, with counts of all bytes.

    One thread may send while another receives. A connection can die without an end (the other
    machine lost its power, or a router forgot about it). TCP's keepalive and its time limit for
    unanswered bytes find out where the system offers them. Where `probe_after` is set, `receive`
    finds out as well: it sends a PROBE, which the other side's `receive` answers.

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
        probe_after: seconds of silence after which `receive` asks whether the other side is there,
            and takes it for dead if nothing comes within `time_limit`; None for never.
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
        _keep_alive(sock, time_limit)
        self._sock, self._own = sock, own
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=peer is None, server_hostname=peer
        )
        self._lock = threading.Lock()  # OpenSSL's objects serve one thread at a time
        self._sending = threading.Lock()  # `receive` answers while another thread sends
        self._buffer = bytearray(_GREETING)  # strangers may be many
        self._due = 0
        self.time_limit = time_limit
        self.probe_after: float | None = None
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
        self._buffer = bytearray(_PIECE)

    def send(
        self,
        kind: Kind,
        number: int = 0,
        payload: bytes | bytearray | memoryview = b"",
        client: int | None = None,
    ) -> None:
        """Send one frame (see `Frame`); `client` where this side acts for several.

        Raises:
            ChannelError: the connection is gone, or the other side takes too long to read.
        """
        body = memoryview(payload).cast("B")
        with self._sending:
            ends = self.ends if client is None else (client, self.ends[1])
            header = Header.of(kind, number, ends, self.place, body)
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

        A PROBE is answered, and an ALIVE only ends the silence: neither is handed on.

        Raises:
            ChannelError: none came in time, the connection ended, or the frame is not in order
                (cut short, too long, altered, sent twice, in another party's name).
        """
        while (frame := self._frame(deadline)).kind in _SIGNS:
            pass
        return frame

    def waiting(self) -> Frame | None:
        """The frame that has come and was not read, as `receive` gives it; None for none."""
        while not self.quiet():
            if (frame := self._frame(time.monotonic() + self.time_limit)).kind not in _SIGNS:
                return frame
        return None

    def _frame(self, deadline: float | None) -> Frame:
        written = bytearray(HEADER_BYTES)
        self._begin(memoryview(written)[:1], deadline)
        deadline = time.monotonic() + self.time_limit
        self._read(memoryview(written)[1:], deadline)
        try:
            header = Header.unpack(written)
        except FrameError as problem:
            raise ChannelError(f"{self.peer} sent {problem}") from problem
        allowed = 0 if header.kind in EMPTY else self.allowance()
        if header.kind == Kind.DONE:  # a client names its model to a server
            allowed = MODEL_DIGEST_BYTES if carried(self.peer) and self.ends[1] != NOBODY else 0
        if header.length > allowed:
            raise ChannelError(
                f"{self.peer} sent an oversized frame: {header.length} bytes, where {allowed} are "
                "allowed"
            )
        payload = self._body(header.length, deadline)
        if checksum(payload) != header.digest:
            raise ChannelError(f"{self.peer} sent an altered frame: the payload's checksum differs")
        if header.place != self._due:
            raise ChannelError(
                f"{self.peer} replayed or left out a frame: number {header.place} of the "
                f"connection came where number {self._due} was due"
            )
        of_peer = header.client == self.ends[0] or header.client in carried(self.peer)
        if header.server != self.ends[1] or not of_peer:
            raise ChannelError(
                f"{self.peer} sent a frame that names client {header.client} and server "
                f"{header.server}"
            )
        if header.kind not in list(Kind):
            raise ChannelError(f"{self.peer} sent a frame of unknown kind {header.kind}")
        self._due += 1
        if header.kind == Kind.PROBE:
            self.send(Kind.ALIVE)
        if header.kind in NUMBERS:
            self.received.payload += header.length
        return Frame(Kind(header.kind), header.round, payload, header.client, header.digest)

    def _begin(self, first: memoryview, deadline: float | None) -> None:
        """Read the first byte of a frame, and ask in a long silence whether anybody is there."""
        left = remaining(deadline)
        if self.probe_after is None or (left is not None and left <= self.probe_after):
            self._read(first, deadline, begun=False)
            return
        try:
            self._read(first, time.monotonic() + self.probe_after, begun=False)
            return
        except Slow:
            self.send(Kind.PROBE)
        answer = time.monotonic() + self.time_limit
        sooner = deadline is not None and deadline < answer
        try:
            self._read(first, deadline if sooner else answer, begun=False)
        except Slow as problem:
            if sooner:
                raise
            raise ChannelError(
                f"{self.peer} is silent: it did not answer within {self.time_limit:g} s"
            ) from problem

    def _body(self, length: int, deadline: float) -> bytearray:
        """A payload; memory is taken as bytes arrive, not when a header promises them."""
        payload = bytearray()
        while len(payload) < length:
            begin = len(payload)
            payload += bytes(min(length - begin, max(_PIECE, begin)))
            with memoryview(payload) as whole, whole[begin:] as part:
                self._read(part, deadline)
        return payload

    @property
    def asks(self) -> bool:
        """Whether the other side opened the connection for a question only."""
        return self._tls.selected_alpn_protocol() == QUESTION

    def quiet(self) -> bool:
        """Whether the connection is open and nothing has come that was not read."""
        poll = select.poll()
        with suppress(OSError, ValueError):
            poll.register(self._sock, select.POLLIN)
            return not poll.poll(0) and not self._incoming.pending
        return False

    def close(self) -> None:
        """End the connection; a thread that waits in `receive` gets an error."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    @cached_property
    def ends(self) -> tuple[int, int]:
        """The numbers of the client and the server at the two ends, once both names are known."""
        pair = self._own, self.peer
        return number_of("client", pair, NOBODY), number_of("server", pair, NOBODY)

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
                reason = f"{self._called()} ended the connection ({problem})"
                raise ChannelError(reason) from problem
            self.sent.wire += count
            waiting = waiting[count:]

    def _wait(self, event: int, deadline: float | None, what: str) -> None:
        while True:
            left, poll = remaining(deadline), select.poll()
            try:
                poll.register(self._sock, event)
                if poll.poll(1000 * (_LOOK if left is None else min(left, _LOOK))):
                    return
            except (OSError, ValueError) as problem:  # closed by another thread
                raise ChannelError(f"the connection with {self.peer} was closed") from problem
            if left is not None and left <= _LOOK:
                raise Slow(f"{self._called()} was too slow: it did not {what} in time")


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


def _keep_alive(sock: socket.socket, seconds: float) -> None:
    """Let the system end a connection that is silent, or takes nothing, for about 2 `seconds`."""
    idle = min(max(1, math.ceil(seconds)), _LONGEST)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", idle),
        ("TCP_KEEPINTVL", max(1, idle // 3)),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 2000 * idle),  # in milliseconds
    ):
        if option := getattr(socket, name, None):  # not every system has them
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _reason(problem: ssl.SSLError) -> str:
    return problem.reason or problem.strerror or str(problem)
