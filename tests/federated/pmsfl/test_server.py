"""The server's side of split learning: one step on the union of all smashed data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from federations import data, make, tensors
from repro.federated.pmsfl.blocks import FlatBlocks
from repro.federated.pmsfl.masks import MaskTraining, WeightTraining
from repro.federated.pmsfl.server import SplitServer
from repro.models.split import split, transformer


def test_the_server_steps_once_on_the_union_of_all_depths():
    method = make(mixed=True, participation=1.0)
    before = method.server.values.detach().clone()
    method.round(0)
    moved = method.server.values.detach() != before
    ends = [method.blocks.size(d) for d in range(5)]
    assert not moved[: ends[1]].any()  # no client leaves the first block to the server
    assert all(moved[a:b].any() for a, b in zip(ends[1:-1], ends[2:], strict=True))
    assert len(method.losses) == method.plan.iterations


def test_each_client_is_sent_the_gradient_of_its_own_mean_loss():
    # layer normalisation couples no records, so that every client's loss can be computed alone
    network = transformer(classes=3, features=4, width=8)
    blocks = FlatBlocks(network)
    server = SplitServer(network, blocks, WeightTraining(blocks.weights(), 0.01), 0.01)
    start = [p.detach().clone() for p in network.head.parameters()]
    smashed = {1: tensors(2, 5, 6, 8), 3: tensors(1, 5, 6, 8, seed=1)}
    labels = {
        1: torch.tensor([[0, 1, 2, 0, 1], [2, 2, 1, 0, 0]]),
        3: torch.tensor([[1, 1, 0, 2, 0]]),
    }
    gradients, loss = server.answer(smashed, labels, torch.Generator())

    with torch.no_grad():  # the step changed the head: back to where the gradients were taken
        for p, old in zip(network.head.parameters(), start, strict=True):
            p.copy_(old)
    losses = []
    for depth, batches in smashed.items():
        for client, batch in enumerate(batches):
            arrived = batch.clone().requires_grad_()
            own = nn.functional.cross_entropy(
                split(network, depth)[1](arrived), labels[depth][client]
            )
            (expected,) = torch.autograd.grad(own, arrived)
            assert torch.allclose(gradients[depth][client], expected, atol=1e-7)
            losses.append(own.item())
    assert loss == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("name", ["splitfed", "pmsfl"])
def test_the_server_steps_as_often_as_there_are_iterations(name):
    method = make(name, data(clients=8), mixed=True, participation=1.0, iterations=3)
    method.round(0)
    counts = {int(s["step"]) for s in method.server._optimiser.state.values()}
    assert counts == {3}  # not once for each of the eight clients or the three depths with a top


def test_a_masked_server_trains_no_weights_but_the_heads():
    method = make("pmsfl", data(clients=4), mixed=True, participation=1.0)
    assert isinstance(method.server.kind, MaskTraining)
    frozen, head = (
        method.server.kind.weights.clone(),
        method.network.head[-1].weight.detach().clone(),
    )
    scores = method.server.values.detach().clone()
    method.round(0)
    assert torch.equal(method.server.kind.weights, frozen)
    assert torch.equal(method.kind.weights, frozen)
    assert not torch.equal(method.network.head[-1].weight, head)
    assert not torch.equal(method.server.values, scores)
    assert isinstance(
        make("pmsfl").server.kind, WeightTraining
    )  # one depth: w_p is trained, as in (3)
