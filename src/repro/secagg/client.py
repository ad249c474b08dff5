"""The parties that only open connections: clients with their shares, the operator with the model."""

from __future__ import annotations

import json
import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer, positive
from repro.secagg.certificates import OPERATOR, PARAMETERS, client_name, context, server_names
from repro.secagg.channel import Channel, ChannelError, connect
from repro.secagg.frames import (
    DIGEST_BYTES,
    LARGEST,
    MODEL_DIGEST_BYTES,
    NONCE_BYTES,
    REAL,
    SHORT,
    Frame,
    Kind,
    Order,
    Traffic,
    checksum,
    model_digest,
    words,
)
from repro.secagg.ring import Elements, Ring

Address = tuple[str, int]

_STEPS = 4
"""A round ends, one way or the other, within this many time limits (see `ParameterServer`)."""


class RoundError(RuntimeError):
    """The round failed: nothing was summed, and the model is as it was. A later round may work."""


class Closing(ABC):
    """An object whose `close` is called at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Release everything; harmless if called twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Party(Closing):
    """A party's connections to servers, opened when needed and kept.

    Args:
        name: of this party.
        folder: with its certificate, see `certificates.issue`.
        addresses: of the servers, by name.
        time_limit: seconds for each step, > 0; the same as the servers'.

    Raises:
        ValueError: no certificate in `folder`, or `time_limit` out of range.
    """

    def __init__(
        self,
        name: str,
        folder: str | os.PathLike[str],
        addresses: Mapping[str, Address],
        time_limit: float,
    ) -> None:
        self.name = name
        self.time_limit = float(positive("time_limit", time_limit))
        self.channels: dict[str, Channel] = {}
        self._addresses = dict(addresses)
        self._context = context(folder, name, accepting=False)
        self._last = 0
        self._early: Frame | None = None  # came before it was waited for

    def connect(self) -> None:
        """Open all connections, and keep them if all are open and in order.

        They are in order where nothing has come over them but the model of a round that has begun.
        If one is not, the round before has failed, and the others may still carry its frames to
        servers that have not read them. So no connection outlives another.

        Raises:
            RoundError: a server does not answer, or refuses this party.
        """
        with self._or_failed():
            if not self._in_order():
                self.close()
            for peer, address in self._addresses.items():
                if peer in self.channels:
                    continue
                channel = connect(address, self._context, self.name, peer, self.time_limit)
                channel.probe_after = self.time_limit
                if peer == PARAMETERS:
                    channel.allowance = lambda: DIGEST_BYTES + 8 * LARGEST
                self.channels[peer] = channel

    def close(self) -> None:
        """End all connections; `connect` opens them again."""
        self._early = None
        for peer in list(self.channels):
            self._drop(peer)

    def _in_order(self) -> bool:
        """Whether all that came over the connections is a MODEL, which is kept for `_answer`."""
        if PARAMETERS in self.channels and self._early is None:
            try:
                self._early = self.channels[PARAMETERS].waiting()
            except ChannelError:
                return False
        good = self._early is None or self._early.kind == Kind.MODEL
        return good and all(channel.quiet() for channel in self.channels.values())

    def _drop(self, peer: str) -> None:
        if channel := self.channels.pop(peer, None):
            channel.close()

    @contextmanager
    def _or_failed(self) -> Iterator[None]:
        """Turn every connection error into a failed round, and end all connections."""
        try:
            yield
        except ChannelError as problem:
            self.close()
            raise RoundError(f"the round failed: {problem}") from problem
        except BaseException:
            self.close()
            raise

    def _to(self, peer: str) -> Channel:
        if peer not in self.channels:
            raise ChannelError(f"{self.name} is not connected with {peer}")
        return self.channels[peer]

    def _done(self, peer: str, number: int, digest: bytes = b"") -> None:
        """Say that nothing follows for this round, and to a server which model this was for.

        A server that does not receive it does not count this party, and the round fails. The
        parameter server reports the reason, so an error is not raised here.
        """
        with suppress(ChannelError):
            self._to(peer).send(Kind.DONE, number, digest)

    def _answer(self, kind: Kind, deadline: float | None) -> Frame:
        """The parameter server's next frame.

        Raises:
            RoundError: it is a FAIL.
            ChannelError: it is not a `kind` of a new round.
        """
        frame, self._early = self._early or self._to(PARAMETERS).receive(deadline), None
        if frame.kind == Kind.FAIL:
            raise RoundError(f"round {frame.round} failed: {frame.text}")
        if frame.kind != kind:
            raise ChannelError(f"{PARAMETERS} sent {frame.kind.name} in place of {kind.name}")
        if kind != Kind.TRAFFIC:
            if frame.round <= self._last:
                reason = (
                    f"{PARAMETERS} sent round {frame.round}, which does not follow {self._last}"
                )
                with suppress(ChannelError):  # it was started again, and goes on beyond our number
                    self._to(PARAMETERS).send(Kind.FAIL, self._last, reason.encode())
                raise ChannelError(reason)
            self._last = frame.round
        return frame


class Sender(Party):
    """What a client, and a party that acts for many clients, have in common.

    Args:
        name: of this party.
        folder, servers, parameters, time_limit: see `Client`.

    Attributes:
        digest: of the model of the latest round (`frames.model_digest`). The servers compare it
            with those of the others; clients may as well, by other ways.

    Raises:
        ValueError: an argument out of range, or no certificate in `folder`.
    """

    def __init__(
        self,
        name: str,
        folder: str | os.PathLike[str],
        *,
        servers: Sequence[Address],
        parameters: Address,
        time_limit: float,
    ) -> None:
        addresses = dict(zip(server_names(len(servers)), servers, strict=True))
        self._servers = list(addresses)
        self._receivers = self._servers or [PARAMETERS]
        self.digest = bytes(MODEL_DIGEST_BYTES)
        addresses[PARAMETERS] = parameters
        super().__init__(name, folder, addresses, time_limit)

    def model(self, wait: float | None = None) -> tuple[int, NDArray[np.float64]]:
        """Wait for the next round.

        Args:
            wait: seconds, >= 0; None for as long as the parameter server is there.

        Returns:
            The number of the round and the broadcast model, shape (parameters,).

        Raises:
            RoundError: the round before has failed, or no model came in time.
        """
        with self._or_failed():
            frame = self._answer(Kind.MODEL, None if wait is None else time.monotonic() + wait)
            if len(frame.payload) % REAL.itemsize:
                raise ChannelError(f"{PARAMETERS} sent a model of {len(frame.payload)} bytes")
        self.digest = model_digest(frame.round, frame.payload)
        return frame.round, np.frombuffer(frame.payload, REAL).astype(np.float64)

    def uplinks(self) -> list[Channel]:
        """The connections over which the shares, or the vectors, are sent."""
        return [link for name, link in self.channels.items() if name in self._receivers]

    def _give(self, number: int, shares: Sequence[NDArray], first: int | None = None) -> None:
        """Send each receiver its share, or the shares of clients `first` and on.

        Raises:
            ChannelError: a server has left or is too slow. The parameter server has been told.
        """
        for name, one in zip(self._receivers, shares, strict=True):
            kind = Kind.KEY if one.dtype == np.uint8 else Kind.VECTOR
            plain = np.ascontiguousarray(one, one.dtype.newbyteorder("<"))
            try:
                self._to(name).send(kind, number, plain.data, first)
            except ChannelError as problem:
                reason = f"{name}: {problem}".encode()[:SHORT]
                self._to(PARAMETERS).send(Kind.FAIL, number, reason)
                raise

    def _finish(self, number: int) -> None:
        """Say to each receiver that this was all."""
        for name in self._receivers:
            self._done(name, number, self.digest if self._servers else b"")


class Client(Sender):
    """Client `number`, which holds a vector.

    A round of a client: `connect`, `model`, (compute), `submit`. The next call of `model` raises
    `RoundError` if this round failed. After a `RoundError`, begin with `connect`.

    Args:
        number: i, counted from 0.
        folder: with the certificate `client-i`.
        servers: addresses of the m >= 2 intermediate servers, in order; with none, the vector
            itself is sent to the parameter server, which sees it.
        parameters: address of the parameter server.
        time_limit: seconds for each step, > 0; the same as the servers'.

    Raises:
        ValueError: an argument out of range, or no certificate in `folder`.
    """

    def __init__(
        self,
        number: int,
        folder: str | os.PathLike[str],
        *,
        servers: Sequence[Address],
        parameters: Address,
        time_limit: float = 30.0,
    ) -> None:
        name = client_name(integer("number", number, 0))
        super().__init__(
            name, folder, servers=servers, parameters=parameters, time_limit=time_limit
        )

    def submit(self, number: int, shares: Sequence[NDArray]) -> None:
        """Send one share to every server, or the one vector to the parameter server.

        When the last share has been sent, every receiver gets a DONE. Servers count a client only
        then, and only if all clients were sent the same model.

        Args:
            number: the round.
            shares: for each server either a key (uint8, shape (16,)) or elements of the ring.

        Raises:
            ValueError: not as many shares as receivers; nothing is sent.
            RoundError: a server has left or is too slow. The parameter server is told.
        """
        if len(shares) != len(self._receivers):
            raise ValueError(
                f"shares must hold one for each of {', '.join(self._receivers)}, got {len(shares)}"
            )
        with self._or_failed():
            self._give(number, shares)
            self._finish(number)


class Operator(Party):
    """The owner of the model: it starts rounds and receives their sums.

    Every order carries a nonce, so no two orders have the same digest. The parameter server sends
    the digest of the order with the sum, and `result` accepts no sum of another order.

    Args:
        folder: with the certificate `operator`.
        parameters: address of the parameter server.
        time_limit: seconds for each step, > 0; the same as the servers'.

    Raises:
        ValueError: no certificate in `folder`, or `time_limit` out of range.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, parameters: Address, time_limit: float = 30.0
    ) -> None:
        super().__init__(OPERATOR, folder, {PARAMETERS: parameters}, time_limit)
        self._order: tuple[bytes, int, Ring] | None = None  # digest, size and ring

    def start(self, size: int, ring: Ring, model: NDArray[np.float64]) -> None:
        """Start a round for vectors of `size` elements, and broadcast `model` to the clients.

        Args:
            size: elements of each client's vector, >= 1.
            ring: of the elements; the same as the servers'.
            model: real numbers, shape (parameters,).

        Raises:
            RoundError: the connection with the parameter server has ended.
        """
        order = Order(size, ring.modulus).pack() + secrets.token_bytes(NONCE_BYTES)
        payload = order + model.astype(REAL).tobytes()
        with self._or_failed():
            self._order = checksum(payload), size, ring
            self._to(PARAMETERS).send(Kind.START, self._last, payload)
            self._done(PARAMETERS, 0)

    def result(self) -> tuple[int, Elements]:
        """Wait for the end of the round.

        Returns:
            The number of the round, and the sum over all clients, shape (size,).

        Raises:
            RoundError: the round failed, no order is open, or what came is not the sum of this
                order: it names another order, has another size, or is outside the ring.
        """
        with self._or_failed():
            frame = self._answer(Kind.SUM, time.monotonic() + _STEPS * self.time_limit)
            if self._order is None:
                raise ChannelError(f"{PARAMETERS} sent a sum while no order was open")
            (digest, size, ring), self._order = self._order, None
            length = DIGEST_BYTES + ring.dtype.itemsize * size
            if len(frame.payload) != length:
                raise ChannelError(
                    f"{PARAMETERS} sent a sum of {len(frame.payload)} bytes, where {length} were "
                    f"due for {size} elements"
                )
            if frame.payload[:DIGEST_BYTES] != digest:
                raise ChannelError(f"{PARAMETERS} sent the sum of another order")
            try:
                total = ring.elements("sum", words(memoryview(frame.payload)[DIGEST_BYTES:], ring))
            except ValueError as problem:
                raise ChannelError(f"{PARAMETERS} sent no elements: {problem}") from problem
        return frame.round, total

    def traffic(self) -> dict[str, Traffic]:
        """Bytes of the last round: `sums` (from the servers), `broadcast` (to the clients).

        Raises:
            RoundError: the connection with the parameter server has ended.
        """
        with self._or_failed():
            self._to(PARAMETERS).send(Kind.TRAFFIC)
            frame = self._answer(Kind.TRAFFIC, time.monotonic() + self.time_limit)
        return {link: Traffic(*counts) for link, counts in json.loads(frame.payload).items()}
