"""DDP-SA (Algorithm 2 of ddpsa) as a Flower app, with intermediate servers as nodes of their own.

    broadcast theta                                           `serve`
    clients: clipped gradients, Laplace noise, encode         `respond`, role client
        split into shares, share j to server j                `respond`: sealed with the key of server j
    servers: add up their shares                              `respond`, role server
    parameter server: add up the servers' sums, step          `serve`

Flower has no messages between nodes: shares pass through the SuperLink, sealed (`sealed.py`), and
bound to the run, the round, the client and the server. The noise follows from one seed, so that a
run equals the simulator's; the shares come from the operating system's randomness in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from flwr.app import Context, RecordDict
from flwr.app.user_config import UserConfig
from numpy.typing import NDArray

from repro.datasets.plane import Plane, plane
from repro.federated.ddpsa.algorithm import Variant, mechanism, train, upload
from repro.federated.ddpsa.clients import Federation, clipped_sums
from repro.federated.ddpsa.noise import NoiseStreams
from repro.federated.ddpsa.servers import Memory, shared_sum, step
from repro.secagg import FixedPoint, reconstruct, share
from repro.secagg.shares import add_expanded
from workbook_flower.exchange import Nodes, arrays, packed, values
from workbook_flower.sealed import seal, unseal

NEEDS_SERVERS = True
SIZE = 3  # coordinates of the model
ENCODING = FixedPoint()


def variant(config: UserConfig) -> Variant:
    """DDP-SA with the noise that the paper gives a client, and a rate for few rounds."""
    clients = int(config["clients"])
    return mechanism("DDP-SA", clients=clients, clip=3.0, epsilon=0.5, learning_rate=0.1)


def records(config: UserConfig) -> Plane:
    """The training records of all clients, 300 each."""
    return plane([int(config["seed"])], records=int(config["clients"]) * 500)[0]


def purpose(run: int, number: int, client: int, server: int) -> str:
    """What a sealed share is for."""
    return f"ddpsa run {run} round {number} client {client} server {server}"


def serve(nodes: Nodes, config: UserConfig) -> Iterator[dict[str, NDArray]]:
    """The parameter server's side: the model after every round."""
    told, clients, servers = variant(config), int(config["clients"]), int(config["servers"])
    models = np.zeros((1, 1, SIZE))
    memory = Memory(np.zeros_like(models), np.zeros_like(models))
    for t in range(int(config["rounds"])):
        message = packed({"models": models}, round=t)
        uploads = nodes.ask("client", dict.fromkeys(range(clients), message))
        sent = {
            j: packed({}, round=t, sealed=[values(u)["sealed"][j] for u in uploads.values()])
            for j in range(servers)
        }
        sums = nodes.ask("server", sent)
        together = np.stack([arrays(reply)["sum"] for reply in sums.values()])
        total = ENCODING.decode(reconstruct(together, ENCODING.ring)).reshape(models.shape)
        rate, adam = np.array([told.learning_rate]), np.array([told.adam])
        models, memory = step(models, total / clients, memory, rate, adam)
        yield {"models": models}


def respond(content: RecordDict, context: Context) -> RecordDict:
    """A node's side: that of a client, or of a server of shares."""
    if context.node_config["role"] == "server":
        return add_up(content, context)
    own, config = int(context.node_config["number"]), context.run_config
    t, told = int(values(content)["round"]), variant(config)
    clients, servers = int(config["clients"]), int(config["servers"])
    everyone = records(config)
    held = slice(own * everyone.targets.shape[1] // clients, None)
    held = slice(held.start, held.start + everyone.targets.shape[1] // clients)
    mine = Plane(everyone.inputs[:, held], everyone.targets[:, held])
    alone = Federation.deal(mine, [1])
    noise = NoiseStreams([int(config["seed"])], [told.noise], clients, SIZE)
    for _ in range(t + 1):
        drawn = noise.draw()[:, :, own : own + 1]
    models = arrays(content)["models"]
    sums = clipped_sums(alone, models, [told.clip], alone.membership(np.array([1])))
    count = len(mine.targets[0])
    vector = upload(sums, drawn * told.scale, np.array([[count]])).reshape(1, SIZE)
    shares = share(ENCODING.encode(vector, clients=clients), servers=servers, ring=ENCODING.ring)
    keys = Path(str(context.node_config["keys"]))
    sealed = [
        seal(part.tobytes(), keys / f"server-{j}.pub", purpose(context.run_id, t, own, j))
        for j, part in enumerate(shares.each()[0])
    ]
    return packed({}, sealed=sealed)


def add_up(content: RecordDict, context: Context) -> RecordDict:
    """A server's side: the sum of its shares, those of all clients; the last server gets vectors."""
    own, t = int(context.node_config["number"]), int(values(content)["round"])
    private = Path(str(context.node_config["keys"])) / f"server-{own}.key"
    total = np.zeros(SIZE, np.uint64)
    sealed = values(content)["sealed"]
    if len(sealed) != int(context.run_config["clients"]):
        raise ValueError(f"sealed must hold one share of each client, got {len(sealed)}")
    for client, box in enumerate(sealed):
        part = unseal(box, private, purpose(context.run_id, t, client, own))
        if own < int(context.run_config["servers"]) - 1:
            add_expanded(total, part, ENCODING.ring)
        else:
            ENCODING.ring.add(total, np.frombuffer(part, np.uint64), out=total)
    return packed({"sum": total})


def simulated(config: UserConfig) -> dict[str, NDArray]:
    """The same run in one process."""
    servers, rounds, seeds = int(config["servers"]), int(config["rounds"]), [int(config["seed"])]
    path = train(
        records(config),
        [variant(config)],
        rounds,
        seeds,
        np.zeros((1, SIZE)),
        secure_sum=lambda values: shared_sum(values, servers=servers),
    )
    return {"models": path[-1]}
