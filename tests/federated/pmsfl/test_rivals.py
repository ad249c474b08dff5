"""The rivals of PM-SFL: each differs from the others in what its name says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from federations import CPU, OWN, data, make, plan, tensors
from repro.federated.pmsfl.algorithm import PMSFL
from repro.federated.pmsfl.rivals import (
    LGFedAvg,
    SplitFed,
    SplitFedDP,
    SplitFedPM,
    Standalone,
    distillation,
)
from repro.federated.pmsfl.split_method import DivergedError
from repro.models.split import resnet18
from reproduce.papers.pmsfl.runs import depths


def test_the_plain_methods_are_what_their_names_say():
    assert not SplitFed.masks and not Standalone.masks and not SplitFedDP.masks
    assert SplitFedPM.masks and LGFedAvg.masks and PMSFL.masks


def test_standalone_never_meets_and_splitfed_always_does():
    alone, together = make("standalone"), make("splitfed")
    for method in (alone, together):
        method.round(0)
    everyone = np.arange(6)
    assert len(torch.unique(together.client_values(everyone), dim=0)) == 1
    assert len(torch.unique(alone.client_values(everyone), dim=0)) == 4  # three trained, the start


def test_layerwise_personalisation_keeps_the_first_block():
    method = make("lg_fedavg", participation=1.0)
    method.round(0)
    first = method.blocks.size(1)
    values = method.client_values(np.arange(6))
    assert len(torch.unique(values[:, :first], dim=0)) == 6
    assert len(torch.unique(values[:, first:], dim=0)) == 1
    with pytest.raises(ValueError, match="local_blocks"):
        make("lg_fedavg", own={"local_blocks": 5})


def test_noise_has_the_stated_laws():
    method = make("splitfed_dp", own={**OWN["splitfed_dp"], "smashed_epsilon": 0.5, "bound": 2.0})
    g = torch.Generator().manual_seed(0)
    sent = method.sent(torch.full((200_000,), 7.0), g) - 2.0  # clipped to the bound
    scale = 2 * 2.0 / 0.5
    assert float(sent.abs().mean()) == pytest.approx(scale, rel=0.02)
    assert float(sent.var()) == pytest.approx(2 * scale**2, rel=0.05)
    gradient = torch.randn(3, 400_000, generator=g)
    out = method.finished_backward(gradient, g)
    sigma = math.sqrt(2 * 2 * math.log(1e5)) / (5.0 * 4)
    assert float(out.std()) == pytest.approx(sigma, rel=0.01)
    quiet = SplitFedDP(
        data(), resnet18(classes=3, channels=1, width=2, layers=1), depths(6, False), plan(), 3, CPU,
        smashed_epsilon=1e9, bound=1e3, update_epsilon=1e15, update_delta=1e-5, clip=1e9,
    )  # fmt: skip
    loud = make("splitfed", own={})
    for method in (quiet, loud):
        method.round(0)
    assert torch.allclose(quiet.shared, loud.shared, atol=1e-3)  # no noise, no clip: SplitFed
    with pytest.raises(ValueError, match="bound must be positive"):
        make("splitfed_dp", own={**OWN["splitfed_dp"], "bound": 0.0})


def test_self_distillation_by_hand():
    a, b = torch.tensor([[[2.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])
    labels = torch.tensor([[0]])
    p, q = torch.softmax(a, -1).flatten(), torch.softmax(b, -1).flatten()
    divergence = float((p * (p / q).log()).sum() + (q * (q / p).log()).sum())
    expected = (-float(p[0].log()) - float(q[0].log()) + divergence) / 2
    assert float(distillation([a, b], labels)) == pytest.approx(expected, rel=1e-5)
    assert float(distillation([a], labels)) == pytest.approx(-float(p[0].log()), rel=1e-5)


def test_an_exit_learns_from_the_others_which_do_not_follow_it():
    a, b = tensors(1, 2, 3).requires_grad_(), tensors(1, 2, 3, seed=1)
    labels = torch.tensor([[0, 2]])
    distillation([a, b], labels).backward()
    p, q, truth = (
        torch.softmax(a.detach(), -1),
        torch.softmax(b, -1),
        nn.functional.one_hot(labels, 3),
    )
    # d/da of (cross-entropy + KL(q || p)) / 2, the mean over two records; KL(p || q) has another
    assert torch.allclose(a.grad, ((p - truth) + (p - q)) / 2 / 2, atol=1e-6)


def test_exits_are_averaged_over_those_who_hold_them():
    method = make("depthfl", data(clients=4), mixed=True, participation=1.0)
    method.round(0)
    trained = method._trained  # depth -> its exits, (clients, classes, features + 1)
    for place in range(4):
        copies = [trained[depth][place][0] for depth in range(place + 1, 5)]
        assert torch.allclose(method.exits[place], torch.stack(copies).mean(dim=0))
    assert not torch.equal(trained[4][0], trained[1][0])


@pytest.mark.parametrize("name", ["local_only", "depthfl"])
def test_a_loss_that_a_client_computes_alone_is_watched_too(name):
    method = make(name)
    exits = method.heads if name == "local_only" else method.exits[0]
    exits.fill_(float("nan"))
    with pytest.raises(DivergedError, match="the loss is nan in round 0, iteration 0"):
        method.round(0)
