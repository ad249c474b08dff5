"""DP-DSGD with random participation (Algorithm 1 of random_participation) as a Flower app.

    for t in [T]                                              `serve`
        sample B ~ Bern(p); if B = 1, tell the server         `respond`: the reply says so
        receive w_t                                           every message carries it, to save an exchange
        sample records, clip and add their gradients, send    `respond`
    the server adds them up, adds noise, updates w            `serve`

The server, not the nodes, adds the noise: it is trusted, as in the paper. All draws follow from one
seed, so that a run equals the simulator's: every node replays the coins of all clients and uses its
own. This is right for a test and protects nobody; in a deployment each client draws in secret.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from flwr.app import Context, RecordDict
from flwr.app.user_config import UserConfig
from numpy.typing import NDArray
from torch import Tensor, nn

from repro.datasets.emnist import characters, load_emnist_byclass
from repro.federated.clipping import clipped_gradient_sum
from repro.federated.participation import TwoLevelPoisson
from repro.federated.random_participation import Settings, train
from repro.federated.server import Momentum, gaussian, streams
from repro.models.networks import drawn_from
from workbook_flower.exchange import Nodes, arrays, packed, values

NEEDS_SERVERS = False
RECORDS = 200  # of each client


def settings(config: UserConfig) -> Settings:
    """The paper's algorithm on handwritten digits."""
    return Settings(
        iterations=int(config["rounds"]), p=0.7, q=0.3, learning_rate=0.5, clip=1.0, sigma=2.0
    )


def network() -> nn.Module:
    """A small classifier of digits, always with the same first weights."""
    with drawn_from(0):
        return nn.Sequential(
            nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10)
        ).double()


def records(first: int, last: int) -> tuple[Tensor, Tensor]:
    """Images and labels of the clients from `first` to before `last`; a node asks for its own."""
    data = characters(load_emnist_byclass("train", "embedded"), "digits")
    part = slice(first * RECORDS, last * RECORDS)
    images = torch.from_numpy(data.images[part].astype(np.float64) / data.brightest)
    return images, torch.from_numpy(data.labels[part].copy())


def participation(config: UserConfig) -> TwoLevelPoisson:
    """The coins of clients and records."""
    told = settings(config)
    return TwoLevelPoisson([RECORDS] * int(config["clients"]), told.p, told.q)


def serve(nodes: Nodes, config: UserConfig) -> Iterator[dict[str, NDArray]]:
    """The server's protocol: the weights after every round."""
    told = settings(config)
    weights = Momentum(network(), told.learning_rate, told.momentum)
    _, noises = streams(int(config["seed"]), torch.device("cpu"))
    divisor = participation(config).mean_batch
    for t in range(1, told.iterations + 1):
        message = packed({"weights": weights.state()[0].numpy()}, round=t)
        replies = nodes.ask("client", dict.fromkeys(range(int(config["clients"])), message))
        total = weights.zeros()
        for reply in replies.values():  # sorted by client
            if values(reply)["participates"]:
                total += torch.from_numpy(arrays(reply)["gradient"])
        noise = gaussian(total, told.sigma, noises)
        weights.step((total if noise is None else total + noise) * (1.0 / divisor))
        yield {"weights": weights.state()[0].numpy()}


def respond(content: RecordDict, context: Context) -> RecordDict:
    """A client's protocol: its sum of clipped gradients, or word that it takes no part."""
    config, own = context.run_config, int(context.node_config["number"])
    draws, _ = streams(int(config["seed"]), torch.device("cpu"))
    coins = participation(config)
    for _ in range(int(values(content)["round"])):
        drawn = coins.draw(draws)
    if own not in drawn.clients:
        return packed({}, participates=0)
    model = network()
    weights = Momentum(model, 1.0, 0.0)
    weights.restore(torch.from_numpy(arrays(content)["weights"]), weights.zeros())
    images, labels = records(own, own + 1)
    mine = drawn.records[drawn.records // RECORDS == own] - own * RECORDS
    chosen = torch.from_numpy(mine)
    clip = settings(config).clip
    result = clipped_gradient_sum(model, images[chosen], labels[chosen], clip)
    gradient = weights.flatten(result.gradient).detach().numpy()
    return packed({"gradient": gradient}, participates=1)


def simulated(config: UserConfig) -> dict[str, NDArray]:
    """The same run in one process."""
    clients, model = int(config["clients"]), network()
    sizes = np.full(clients, RECORDS)
    train(model, *records(0, clients), sizes, settings(config), int(config["seed"]))
    return {"weights": nn.utils.parameters_to_vector(model.parameters()).detach().numpy()}
