"""Training with a randomly partitioned model (partitioning, section 4.1) as a Flower app.

    for t in [T]                                              `serve`
        draw the clients, and a submodel for each             `serve`
        each trains its submodel on all its samples, clips    `respond`
    the server adds the movements up, adds noise, steps       `serve`

Clients as a whole are protected from everyone but the server, which is trusted: it knows who was
drawn, with which submodel, and adds the noise. A client that was not drawn gets no message. All
draws follow from one seed, so that a run equals the simulator's; a deployment draws in secret.
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
from repro.federated.participation import PoissonIterations
from repro.federated.partitioning.algorithms import (
    NoisyDescent,
    Splitting,
    clip_and_add,
    train_federated,
)
from repro.federated.partitioning.local_training import Local, local_updates
from repro.federated.partitioning.submodels import create_submodels, middle_blocks
from repro.federated.server import Momentum, gaussian, streams
from repro.models.networks import drawn_from
from repro.models.residual import Architecture, ResidualNet
from workbook_flower.exchange import Nodes, arrays, packed, values

NEEDS_SERVERS = False
SAMPLES = 24  # of each client
SPLITTING = Splitting(submodels=2)
LOCAL = Local(iterations=3, learning_rate=0.1)
DESCENT = NoisyDescent(clip=0.5, unsplit_clip=0.5, sigma=0.05, learning_rate=1.0)


def network() -> ResidualNet:
    """A small residual network for digits, always with the same first weights."""
    with drawn_from(0):
        net = ResidualNet(Architecture(((1, 8, 2), (4, 8, 1)), (8, 2), False, 4, 1), 10).double()
    net.pixels = nn.Identity()  # `records` scales the pixels already, in float64
    return net


def records(first: int, last: int) -> tuple[Tensor, Tensor]:
    """Images and labels of the clients from `first` to before `last`; a node asks for its own."""
    data = characters(load_emnist_byclass("train", "embedded"), "digits")
    part = slice(first * SAMPLES, last * SAMPLES)
    images = torch.from_numpy(data.images[part].astype(np.float64) / data.brightest)
    shape = (last - first, SAMPLES)
    return images.view(*shape, 1, 28, 28), torch.from_numpy(data.labels[part].copy()).view(shape)


def sampling(config: UserConfig) -> PoissonIterations:
    """Who takes part when."""
    return PoissonIterations(int(config["clients"]), int(config["rounds"]), rate=0.7)


def serve(nodes: Nodes, config: UserConfig) -> Iterator[dict[str, NDArray]]:
    """The server's side of Algorithm 1: the weights after every round."""
    net = network()
    weights = Momentum(net, DESCENT.learning_rate, DESCENT.momentum)
    told, d = sampling(config), SPLITTING.submodels
    draws, noises = streams(int(config["seed"]), torch.device("cpu"))
    for clients in told.batches(draws):
        submodels = draws.integers(d, size=len(clients))
        messages = {
            int(i): packed({"weights": weights.state()[0].numpy()}, submodel=int(k))
            for i, k in zip(clients, submodels, strict=True)
        }
        grad_sum = weights.zeros()
        for reply in nodes.ask("client", messages).values():  # sorted by client
            grad_sum += torch.from_numpy(arrays(reply)["contribution"])
        noise = gaussian(grad_sum, DESCENT.sigma, noises)
        noisy = grad_sum if noise is None else grad_sum + noise
        weights.step(noisy * (1.0 / told.mean_batch))
        yield {"weights": weights.state()[0].numpy()}


def respond(content: RecordDict, context: Context) -> RecordDict:
    """A client's side: local training of its submodel, clipped; zero outside of the submodel."""
    own, net = int(context.node_config["number"]), network()
    weights = Momentum(net, DESCENT.learning_rate, DESCENT.momentum)
    weights.restore(torch.from_numpy(arrays(content)["weights"]), weights.zeros())
    blocks = middle_blocks(net, SPLITTING.first, SPLITTING.last)
    partition = create_submodels(blocks, SPLITTING.submodels)
    assigned = torch.tensor([values(content)["submodel"]])
    updates = local_updates(net, partition, assigned, *records(own, own + 1), LOCAL)
    contribution = weights.zeros()
    clip_and_add(weights, contribution, updates, DESCENT)
    return packed({"contribution": contribution.detach().numpy()})


def simulated(config: UserConfig) -> dict[str, NDArray]:
    """The same run in one process."""
    net, data = network(), records(0, int(config["clients"]))
    seed = int(config["seed"])
    train_federated(net, *data, sampling(config), SPLITTING, LOCAL, DESCENT, seed)
    return {"weights": nn.utils.parameters_to_vector(net.parameters()).detach().numpy()}
