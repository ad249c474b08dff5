"""Blocks of a split network as one vector: stacked or one by one, and nothing left behind."""

from __future__ import annotations

import pytest
import torch

from federations import tensors
from repro.federated.pmsfl import blocks as flat_blocks
from repro.federated.pmsfl.blocks import FlatBlocks
from repro.models.split import resnet18, transformer


@pytest.mark.parametrize("kind", ["images", "sequences"])
def test_a_loop_over_clients_is_the_stacked_run(kind, monkeypatch):
    if kind == "images":
        network, x = resnet18(classes=3, channels=1, width=3, layers=1), tensors(4, 5, 1, 8, 8)
    else:
        network, x = transformer(classes=3, features=4, width=8), tensors(4, 5, 6, 4)
    blocks, depths = FlatBlocks(network), [1, 2, 2, 4]
    found = []
    for bound in (flat_blocks.STACKED_BELOW, 0):
        monkeypatch.setattr(flat_blocks, "STACKED_BELOW", bound)
        assert blocks.stacked(x) == (bound > 0)
        flat = (blocks.weights() * tensors(4, blocks.size(4), seed=2)).requires_grad_()
        outputs = blocks.run(flat, x, depths)
        (gradient,) = torch.autograd.grad(sum(q.sum() + q.square().sum() for q in outputs), flat)
        found.append([*outputs, gradient])
    for one, two in zip(*found, strict=True):
        assert one.shape == two.shape and torch.allclose(one, two, rtol=1e-4, atol=1e-4)


def test_small_layers_are_stacked_and_wide_ones_only_on_a_gpu():
    small, wide = (FlatBlocks(resnet18(classes=3, channels=3, width=w, layers=1)) for w in (8, 64))
    x = torch.zeros(2, 1, 3, 32, 32)
    assert small.first_cost(x) == 9 * (3 * 8 + 2 * 8 * 8) * 32 * 32
    assert small.stacked(x) and not wide.stacked(x)
    assert wide.stacked(x.to("meta"))
    little, large = (FlatBlocks(transformer(classes=3, features=8, width=w)) for w in (32, 768))
    frames = torch.zeros(2, 1, 30, 8)
    assert little.stacked(frames) and not large.stacked(frames)


def test_the_network_keeps_its_own_weights_whatever_ran_through_it():
    network = resnet18(classes=3, channels=1, width=2, layers=1)
    before = list(network.parameters())
    blocks = FlatBlocks(network)
    other = blocks.weights() + 1
    ran = blocks.block(0, other, tensors(2, 1, 8, 8))
    with pytest.raises(RuntimeError):
        blocks.block(1, other, tensors(2, 5, 8, 8))  # of as many channels as no block takes
    after = list(network.parameters())
    assert all(one is two for one, two in zip(before, after, strict=True))
    assert not torch.equal(ran, network.blocks[0](tensors(2, 1, 8, 8)))
