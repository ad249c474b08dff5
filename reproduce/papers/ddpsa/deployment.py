"""Rounds of ddpsa's four mechanisms over real servers, to be timed: Figures 5 and 6."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from repro._validate import choice, integer
from repro.accounting.ddpsa.printed import MECHANISMS
from repro.datasets.plane import plane
from repro.federated.ddpsa.algorithm import Array, Training, mechanism, upload
from repro.secagg import Cluster, Round
from repro.secagg.client import Closing
from reproduce.papers.ddpsa.timing import OneByOne


class Deployment(Closing):
    """The four mechanisms over real servers: m + 1 processes that share, and a single server.

    A round of any of them: the model is broadcast, every client (one after the other, in this
    process) computes its upload, the uploads travel, are added up, and the server steps. Without
    sharing the clients send their vectors to the parameter server itself, over the same kind of
    connection and in the same encoding. Shares are sent in full, as in Algorithm 1.

    Args:
        records: of all clients together, a multiple of 3 and of `clients`.
        clients: n.
        servers: m of the mechanisms that share.
        clip: Delta of the mechanisms with noise, > 0.
        epsilon: of a client and round, for the mechanisms with noise, > 0.
        seed: of data and noise.

    Attributes:
        last: mechanism -> its last `Round`.

    Raises:
        ValueError: an argument out of range.
        RoundError: the processes do not come up; `round` raises it where a round fails.
    """

    def __init__(
        self, records: int, *, clients: int, servers: int, clip: float, epsilon: float, seed: int
    ) -> None:
        if integer("records", records, 3) % 3:
            raise ValueError(f"records must be a multiple of 3, got {records!r}")
        integer("servers", servers, 2)
        data = plane([seed], records * 5 // 3)[0]
        self.last: dict[str, Round] = {}
        self._clip, self._scale = clip, clip / epsilon
        self._held = records // integer("clients", clients, 1)
        self._noise = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
        self._training = {
            name: Training(
                data,
                # all sums are the servers', those of plain vectors as well
                [
                    replace(
                        mechanism(name, clients=clients, clip=clip, epsilon=epsilon), shared=True
                    )
                ],
                [seed],
                np.zeros((1, 3)),
                secure_sum=lambda values, name=name: self._sum(name, values),
            )
            for name in MECHANISMS
        }
        self._loops = [
            OneByOne(*held)
            for held in zip(
                np.split(data.inputs[0], clients), np.split(data.targets[0], clients), strict=True
            )
        ]
        self._open = ExitStack()
        with ExitStack() as stack:
            self._clusters = {
                count: stack.enter_context(Cluster(clients=clients, servers=count))
                for count in (0, servers)
            }
            self._open = stack.pop_all()
        self._servers = {name: servers if name in ("MPC", "DDP-SA") else 0 for name in MECHANISMS}

    def close(self) -> None:
        """Stop all processes; harmless when done already."""
        self._open.close()

    def model(self, name: str) -> Array:
        """The model of a mechanism now, shape (3,)."""
        return self._training[choice("name", name, MECHANISMS)].models[0, 0]

    def round(self, name: str) -> float:
        """The next round of a mechanism, each client's records as one array; its seconds."""
        begin = time.perf_counter()
        self._training[choice("name", name, MECHANISMS)].round()
        return time.perf_counter() - begin

    def round_one_by_one(self, name: str) -> float:
        """The same work with one record after the other (`OneByOne`), the model left as it is.

        For the mechanisms that clip: the others need no gradient of a single record.
        """
        choice("name", name, ("LDP", "DDP-SA"))
        begin = time.perf_counter()
        sums = np.stack([client(self.model(name), self._clip) for client in self._loops])
        noise = self._noise.laplace(scale=self._scale, size=sums.shape)
        self._sum(name, upload(sums, noise, self._held))
        return time.perf_counter() - begin

    def _sum(self, name: str, values: Array) -> Array:
        cluster = self._clusters[self._servers[name]]
        self.last[name] = cluster.round(values, model=self.model(name), in_full=True)
        return self.last[name].total


@dataclass
class Timed:
    """Wall-clock times of rounds whose mechanisms took turns, in seconds.

    Attributes:
        rounds: mechanism -> one time a round, with arrays.
        stages: mechanism -> for each round, seconds by stage, as `Round.seconds` has them.
        loops: mechanism that clips -> one time a round, one record after the other.
        sent: mechanism -> bytes on the wire of its last round with arrays.
    """

    rounds: dict[str, list[float]] = field(default_factory=dict)
    stages: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    loops: dict[str, list[float]] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)

    def split(self) -> dict[str, dict[str, float]]:
        """Median milliseconds by stage, what no server's clock covers first, for each mechanism."""
        result = {}
        for name, kept in self.stages.items():
            rest = [
                whole - sum(parts.values())
                for whole, parts in zip(self.rounds[name], kept, strict=True)
            ]
            result[name] = {"clients, step, rest": 1000 * float(np.median(rest))}
            result[name] |= {
                part: 1000 * float(np.median([parts[part] for parts in kept])) for part in kept[0]
            }
        return result


def take_turns(running: Deployment, repeats: int, loops: int) -> Timed:
    """Time the mechanisms in turns, so that load on the machine affects all of them equally.

    Args:
        running: its connections need not be open yet: a first round of each mechanism is not timed.
        repeats: rounds of each mechanism with arrays, >= 1.
        loops: rounds of LDP and DDP-SA with one record after the other, >= 0.
    """
    found = Timed({name: [] for name in MECHANISMS}, {name: [] for name in MECHANISMS})
    for name in MECHANISMS:
        running.round(name)
    for _ in range(integer("repeats", repeats, 1)):
        for name in MECHANISMS:
            found.rounds[name].append(running.round(name))
            found.stages[name].append(running.last[name].seconds)
    found.sent = {
        name: sum(link.wire for link in running.last[name].traffic.values()) for name in MECHANISMS
    }
    found.loops = {name: [] for name in ("LDP", "DDP-SA")}
    for _ in range(integer("loops", loops, 0)):
        for name, taken in found.loops.items():
            taken.append(running.round_one_by_one(name))
    return found
