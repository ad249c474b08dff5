"""MS-PAFL (Algorithm 1 of mspafl) as a Flower app.

    for t in [T]                                              `serve`
        check in with probability p                           `respond`
        local steps, split the model, clip the public half    `respond`
        add noise to it, send it                              `respond`
    average what came, broadcast                              `serve`; every message carries the average

The private half of a client's model stays on its node: in the node's state during the run, and in
the file `models` of its node configuration after it. The server sees noisy uploads only. All draws
follow from one seed, so that a run equals the simulator's: every node replays the coins and noise
of all clients and uses its own. In a deployment each client draws in secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from flwr.app import Context, RecordDict
from flwr.app.user_config import UserConfig
from numpy.typing import NDArray

from repro.datasets.adult import load_adult
from repro.federated.client_data import deal
from repro.federated.mspafl.algorithm import (
    LocalTraining,
    Variant,
    aggregate,
    generators,
    local_steps,
    train,
)
from repro.federated.mspafl.client import RecordDraws, clip_rows
from repro.models.logistic import signed
from workbook_flower.exchange import ARRAYS, Nodes, arrays, packed, values

NEEDS_SERVERS = False
HELD = 100  # records of each client
LOCAL = LocalTraining(steps=5, batch=4, regularisation=0.001)
VARIANT = Variant(p=0.7, public=7, learning_rate=0.5, clip=1.0, sigma=0.1)


def vectors() -> NDArray[np.float64]:
    """The records of Adult, v = y x."""
    data = load_adult("train")
    return signed(data.features, data.labels)


def holdings(config: UserConfig) -> NDArray[np.int64]:
    """Which records each client holds, shape (clients, HELD)."""
    rng = np.random.default_rng(0)
    return deal(load_adult("train").labels, int(config["clients"]), HELD, "shuffled", rng)


def serve(nodes: Nodes, config: UserConfig) -> Iterator[dict[str, NDArray]]:
    """The server's side: the public half after every round."""
    clients, size = int(config["clients"]), load_adult("train").features.shape[1]
    server = np.zeros((1, 1, size))
    for t in range(1, int(config["rounds"]) + 1):
        message = packed({"server": server}, round=t)
        replies = nodes.ask("client", dict.fromkeys(range(clients), message))
        uploads = np.stack([arrays(reply)["upload"] for reply in replies.values()], axis=1)
        present = [bool(values(reply)["checked-in"]) for reply in replies.values()]
        checked_in = np.array(present)[None, :, None]
        server = aggregate(uploads, checked_in, np.array([VARIANT.p]), server)
        if t == int(config["rounds"]):  # (18) of the last round, for the clients to keep
            nodes.ask("client", dict.fromkeys(range(clients), packed({"server": server}, round=0)))
        yield {"server": server}


def respond(content: RecordDict, context: Context) -> RecordDict:
    """A client's side: its noisy upload, zero where it has not checked in; or keep the model."""
    config, own = context.run_config, int(context.node_config["number"])
    server, t = arrays(content)["server"], int(values(content)["round"])
    size = server.shape[-1]
    shared = np.arange(size) >= size - VARIANT.public
    before = np.zeros((1, 1, 1, size))
    if ARRAYS in context.state:
        before = np.where(shared, server[:, None], context.state[ARRAYS]["model"].numpy())  # (18)
    if t == 0:
        place = Path(str(context.node_config["models"]))
        np.save(place, before.reshape(size))
        return packed({})
    clients, count = int(config["clients"]), LOCAL.steps * LOCAL.batch
    check_in, numbers, source = generators(int(config["seed"]))
    draws = RecordDraws(1, HELD, count, replacement=LOCAL.replacement)
    for _ in range(t):  # as the simulator draws for all clients; the node uses its own row
        coin = check_in.random(clients)[own]
        drawn = draws.draw(numbers.random((clients, count))[own : own + 1])
        noise = source.standard_normal((clients, 1, size))[own]
    upload = np.zeros((1, 1, size))
    if coin < VARIANT.p:
        mine = holdings(config)[own]
        rate = np.array([[VARIANT.learning_rate]])
        before = local_steps(before[0], vectors()[mine[drawn]], rate, LOCAL)[None]
        upload = clip_rows(before[:, 0] * shared, VARIANT.clip) + noise * (VARIANT.sigma * shared)
    context.state[ARRAYS] = packed({"model": before})[ARRAYS]
    return packed({"upload": upload}, **{"checked-in": int(coin < VARIANT.p)})


def simulated(config: UserConfig) -> dict[str, NDArray]:
    """The same run in one process, with the clients' models."""
    last = []
    seeds, rounds = [int(config["seed"])], int(config["rounds"])
    models = train(
        vectors(), holdings(config)[None], [VARIANT], LOCAL, rounds, seeds, last.append, rounds
    )
    size = models.shape[-1]
    shared = np.arange(size) >= size - VARIANT.public
    return {"server": np.where(shared, models[:, 0], 0.0), "models": models.reshape(-1, size)}
