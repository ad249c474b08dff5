"""Rounds of secure aggregation over running servers, driven from one process.

    with Session(folder, servers=addresses, parameters=address, clients=6) as session:
        done = session.round(gradients, model=theta)      # (6, d) -> done.total, shape (d,)
        theta = theta - rate * done.total / 6

The session acts for all clients and for the operator, each with its own certificate and its own
connections. A client on its own machine uses `Client`; see also `Cluster`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import integer
from repro.secagg.certificates import server_names
from repro.secagg.client import Address, Client, Closing, Operator, RoundError
from repro.secagg.encoding import FixedPoint, real_array
from repro.secagg.frames import Traffic
from repro.secagg.ring import Elements
from repro.secagg.shares import share


@dataclass(frozen=True)
class Round:
    """A round that succeeded.

    Attributes:
        number: numbers increase; a round that failed leaves its number out.
        total: the decoded sum over all clients, float64, shape (parameters,).
        elements: the same as elements of the ring.
        seconds: of `encoding`, `sharing`, `opening` (servers get ready, the model is broadcast),
            `transmission` (every client sends its shares) and `aggregation` (from then until the
            sum is back); for all clients together, who act one after the other.
        traffic: bytes of the round, summed over the parties: `uploads` (from clients), `sums`
            (servers to parameter server), `broadcast` (parameter server to clients).
    """

    number: int
    total: NDArray[np.float64]
    elements: Elements
    seconds: dict[str, float]
    traffic: dict[str, Traffic]


class Session(Closing):
    """All clients and the operator of one group of servers.

    Args:
        folder: with the certificates of the clients and the operator, see `certificates.issue`.
        servers: addresses (host, port) of the m >= 2 intermediate servers, in order; with none,
            nothing is shared, and the parameter server sees every client's vector.
        parameters: address of the parameter server.
        clients: n >= 1, the same as the servers'.
        encoding: fixed-point encoding; its ring is the servers' ring.
        time_limit: seconds for each step of a round, > 0; the same as the servers'.

    Raises:
        ValueError: an argument out of range, or a certificate is missing.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        servers: Sequence[Address],
        parameters: Address,
        clients: int,
        encoding: FixedPoint | None = None,
        time_limit: float = 30.0,
    ) -> None:
        integer("clients", clients, 1)
        self.encoding = encoding or FixedPoint()
        self.servers = server_names(len(servers))
        self.operator = Operator(folder, parameters=parameters, time_limit=time_limit)
        self.clients = [
            Client(i, folder, servers=servers, parameters=parameters, time_limit=time_limit)
            for i in range(clients)
        ]

    def round(
        self,
        values: ArrayLike,
        *,
        model: ArrayLike = (),
        noise: NDArray[np.int64] | None = None,
        in_full: bool = False,
    ) -> Round:
        """Broadcast `model`, add up the clients' vectors.

        Args:
            values: real numbers, shape (clients, parameters), at least one parameter.
            model: real numbers of any shape that the parameter server broadcasts to the clients;
                nothing here depends on it (but time and bytes).
            noise: whole numbers added to the encoded values, see `FixedPoint.encode`.
            in_full: send every share as a vector, as in ddpsa's Algorithm 1, in place of keys
                (without servers there are no shares, and nothing changes).

        Raises:
            ValueError: `values` cannot be encoded, or `model` holds no real numbers; no round is
                started.
            RoundError: the round failed; nothing was summed. The next may work.
        """
        matrix, broadcast = real_array("values", values), real_array("model", model)
        if matrix.ndim != 2 or len(matrix) != len(self.clients) or not matrix.shape[1]:
            raise ValueError(
                f"values must have shape ({len(self.clients)}, parameters >= 1), got {matrix.shape}"
            )
        clock = _Clock()
        encoded = self.encoding.encode(matrix, clients=len(matrix), noise=noise)
        clock.lap("encoding")
        parts = self._shared(encoded, in_full) if self.servers else encoded[:, None]
        clock.lap("sharing")
        try:
            number, total, traffic = self._exchange(parts, broadcast, clock)
        except BaseException:
            self.close()  # frames that are still under way are lost with the connections
            raise
        return Round(number, self.encoding.decode(total), total, clock.seconds, traffic)

    def close(self) -> None:
        """End all connections; the next round opens them again."""
        for party in (*self.clients, self.operator):
            party.close()

    def _shared(self, encoded: Elements, in_full: bool) -> Sequence[Sequence[NDArray]]:
        """For each client what it sends to each server; overwrites `encoded`."""
        ring, count = self.encoding.ring, len(self.servers)
        shares = share(encoded, servers=count, ring=ring, overwrite=True)
        return shares.expanded().swapaxes(0, 1) if in_full else shares.each()

    def _exchange(
        self, parts: Sequence[Sequence[NDArray]], model: NDArray[np.float64], clock: _Clock
    ) -> tuple[int, Elements, dict[str, Traffic]]:
        """The part of the round in which bytes move."""
        for party in (self.operator, *self.clients):
            party.connect()
        before = self._uploaded()
        clock.start()
        self.operator.start(parts[0][-1].size, self.encoding.ring, model)
        wait = 3 * self.operator.time_limit
        numbers = [client.model(wait)[0] for client in self.clients]
        clock.lap("opening")
        try:
            for client, number, shares in zip(self.clients, numbers, parts, strict=True):
                client.submit(number, shares)
        except RoundError:
            pass  # the parameter server has been told, and says how the round ended
        clock.lap("transmission")
        number, total = self.operator.result()
        clock.lap("aggregation")
        uploads = self._uploaded() - before
        return number, total, {"uploads": uploads, **self.operator.traffic()}

    def _uploaded(self) -> Traffic:
        """Bytes that the clients have sent to the servers over the present connections."""
        links = (link for client in self.clients for link in client.uplinks())
        return sum((link.sent for link in links), Traffic())


class _Clock:
    """Seconds between laps, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.start()

    def start(self) -> None:
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now
