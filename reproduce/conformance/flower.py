"""Adapter of Flower: its strategies for central differential privacy, with clipping on either side, and its local mod.

Runs with the Python of Flower's environment, which `make flower` makes.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, replace
from importlib import metadata
from math import log, sqrt

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)
from flwr.supercore.privacy_accounting import (
    GaussianPrivacyEvent,
    NeighboringRelation,
    PrivacyConfig,
    SamplingMethod,
)
from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from repro.conformance import Promise

Array = NDArray[np.float64]

NOTES = """\
Flower 1.41.0: the strategies and the client modifiers are called as a server and its clients call them, with messages
and without a network. A client is the unit of privacy. The strategies for fixed clipping draw a fixed number of clients
and add noise to the weighted mean of their clipped updates. The noise has standard deviation noise_multiplier *
clipping_norm / num_sampled_clients, and the mean is divided by the sum of the weights that the clients report. So the
promise of a sum with noise holds where all weights are equal, as many clients answer as `num_sampled_clients` says, and
their number is public. The documentation of the accountant asks for the first two, and a strategy with an accountant
refuses other replies. The examinations "a client more or less" and "unequal weights" show what happens without an
accountant, where these conditions are not enforced (a wrong number of clients is logged as a warning). The accountant
accepts no amplification only; its value is an upper bound for a fixed number of clients too.

`LocalDpMod` adds noise of deviation sensitivity * sqrt(2 ln(1.25 / delta)) / epsilon to a clipped update. This
classical formula is proved for epsilon below 1, which the class does not check: at epsilon 10 the printed value is too
small. The sensitivity is the user's: it is `clipping_norm` where a client's update may be absent, and twice that where
it may be replaced by another one; both are examined with sensitivity = clipping_norm.

An update of exactly zero ends in a ZeroDivisionError when it is clipped, so every client moves one more coordinate by
1e-9. The noise comes from numpy's global generator in the precision of the model. Not examined: adaptive clipping,
secure aggregation, the random number generator, floating-point attacks."""

REPETITIONS = 400
"""Fewer than for the other adapters: a round of five clients takes milliseconds."""

_CLIENTS, _ROUNDS, _CLIP, _MULTIPLIER, _DELTA = 5, 2, 1.0, 1.2, 1e-5
_MOVED = 1e-9  # in a coordinate of its own, so that no update is zero
_LOCAL_EPSILON = 1.0


class _Nodes:
    """As much of a grid as the strategies ask for."""

    def __init__(self, count: int) -> None:
        self._ids = list(range(count))

    def get_node_ids(self) -> list[int]:
        """The connected nodes."""
        return self._ids


def _start(seed: int) -> None:
    """Quiet, as inside a run, and with the generators that Flower draws from."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
    random.seed(seed)
    np.random.seed(seed % 2**32)


def _updates(vectors: Array, owner: NDArray[np.int64]) -> Array:
    """The update of each client, with one more coordinate."""
    totals = np.zeros((owner.max() + 1, vectors.shape[1]))
    np.add.at(totals, owner, vectors)
    return np.hstack([totals, np.full((len(totals), 1), _MOVED)])


def _model(values: Array) -> ArrayRecord:
    return ArrayRecord({"weights": FlowerArray(values)})


@dataclass(frozen=True)
class Central:
    """A strategy around FedAvg. Every round starts from zero weights; a client answers with its update.

    Attributes:
        promise: see `Promise`.
        label: what is examined, for the title.
        client_side: whether the clients clip, by `fixedclipping_mod`.
        weights: num-examples that each client reports.
    """

    promise: Promise
    label: str
    client_side: bool = False
    weights: tuple[int, ...] = (1,) * _CLIENTS
    can_silence: bool = True

    @property
    def name(self) -> str:
        """The version, the strategy and what is examined."""
        side = "Client" if self.client_side else "Server"
        return f"Flower {metadata.version('flwr')}, DifferentialPrivacy{side}SideFixedClipping, {self.label}"

    def run(
        self,
        vectors: Array,
        owner: NDArray[np.int64],
        *,
        repetitions: int,
        rounds: int,
        noise: bool,
        seed: int,
    ) -> Array:
        """See `repro.conformance.Engine.run`."""
        _start(seed)
        promise, updates = self.promise, _updates(vectors, owner)
        kind = (
            DifferentialPrivacyClientSideFixedClipping
            if self.client_side
            else DifferentialPrivacyServerSideFixedClipping
        )
        averaging = FedAvg(fraction_train=promise.participation, fraction_evaluate=0.0)
        multiplier = promise.noise_multiplier if noise else 0.0
        strategy = kind(averaging, multiplier, promise.clip, int(promise.divisor))
        app = ClientApp(mods=[fixedclipping_mod] if self.client_side else [])

        @app.train()
        def answer(message: Message, context: Context) -> Message:
            weight = MetricRecord({"num-examples": self.weights[context.node_id]})
            content = {"arrays": _model(updates[context.node_id].copy()), "metrics": weight}
            return Message(RecordDict(content), reply_to=message)

        nodes, start = _Nodes(len(updates)), np.zeros(updates.shape[1])
        released = np.empty((repetitions, rounds, 1, updates.shape[1]))
        for repetition in range(repetitions):
            for t in range(rounds):
                sent = strategy.configure_train(t + 1, _model(start), ConfigRecord(), nodes)
                replies = [app(message, _context(message)) for message in sent]
                arrays, _ = strategy.aggregate_train(t + 1, replies)
                released[repetition, t, 0] = arrays["weights"].numpy()
        return released


@dataclass(frozen=True)
class Local:
    """Clients with `LocalDpMod`; the server sees each update.

    Attributes:
        promise: see `Promise`.
        label: what is examined, for the title.
    """

    promise: Promise
    label: str
    can_silence: bool = True

    @property
    def name(self) -> str:
        """The version and what is examined."""
        return f"Flower {metadata.version('flwr')}, LocalDpMod, {self.label}"

    def run(
        self,
        vectors: Array,
        owner: NDArray[np.int64],
        *,
        repetitions: int,
        rounds: int,
        noise: bool,
        seed: int,
    ) -> Array:
        """See `repro.conformance.Engine.run`."""
        _start(seed)
        promise, updates = self.promise, _updates(vectors, owner)
        sensitivity = promise.clip if noise else 0.0
        mod = LocalDpMod(promise.clip, sensitivity, promise.epsilon, promise.delta)
        app = ClientApp()

        @app.train(mods=[mod])
        def answer(message: Message, context: Context) -> Message:
            content = {"arrays": _model(updates[context.node_id].copy())}
            return Message(RecordDict(content), reply_to=message)

        start = np.zeros(updates.shape[1])
        released = np.empty((repetitions, rounds, *updates.shape))
        for repetition in range(repetitions):
            for t in range(rounds):
                for client in range(len(updates)):
                    content = RecordDict({"arrays": _model(start)})
                    message = Message(content, client, "train")
                    reply = app(message, _context(message))
                    released[repetition, t, client] = reply.content["arrays"]["weights"].numpy()
        return released


def _context(message: Message) -> Context:
    return Context(1, message.metadata.dst_node_id, {}, RecordDict(), {})


def _printed(clients: int) -> float:
    """What the accountant prints for all rounds."""
    relation, sampling = NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION
    accountant = RdpAccountant(PrivacyConfig(_DELTA, _CLIENTS, relation, sampling))
    accountant.compose(GaussianPrivacyEvent(_MULTIPLIER, clients, _CLIENTS), _ROUNDS)
    return accountant.get_privacy_spent().epsilon


def engines() -> list[Central | Local]:
    """Both sides of clipping under the conditions of the accountant and without them; the local modifier."""
    everybody = Promise(
        clients=_CLIENTS,
        records=1,
        rounds=_ROUNDS,
        clip=_CLIP,
        noise_multiplier=_MULTIPLIER,
        divisor=_CLIENTS,
        unit="client",
        adjacency="zero_out",
        epsilon=_printed(_CLIENTS),
        delta=_DELTA,
    )
    some = replace(everybody, sampling="fixed", participation=0.6, divisor=3, epsilon=_printed(3))
    local = replace(
        everybody, rounds=1, divisor=1, uploads=True, noise_multiplier=_local(_LOCAL_EPSILON)
    )
    local = replace(local, epsilon=_LOCAL_EPSILON)
    much = replace(local, noise_multiplier=_local(10.0), epsilon=10.0)
    unequal = replace(everybody, epsilon=None)
    return [
        Central(everybody, "all clients"),
        Central(everybody, "all clients", client_side=True),
        Central(some, "3 of 5 clients"),
        Central(replace(everybody, adjacency="add_remove"), "a client more or less"),
        Central(unequal, "unequal weights", weights=(2, 1, 1, 1, 1)),
        Local(local, "epsilon 1, update absent or not"),
        Local(replace(local, adjacency="replace"), "epsilon 1, update replaced"),
        Local(much, "epsilon 10, update absent or not"),
    ]


def _local(epsilon: float) -> float:
    """Deviation of the modifier's noise for a sensitivity of 1."""
    return sqrt(2 * log(1.25 / _DELTA)) / epsilon
