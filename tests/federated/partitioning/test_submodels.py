"""Partitions, and routing by submodel."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from repro.federated.partitioning.submodels import (
    Routed,
    create_submodels,
    middle_blocks,
    split_parameters,
)
from repro.models.residual import Architecture, ResidualNet

NARROW = Architecture(((2, 4, 1), (4, 4, 1), (2, 8, 2)), (4, 1), False, 2, 1, (16, 0.3, 0.4))


def narrow(seed=0):
    """A double precision network on plain numbers (pixels would be float32)."""
    torch.manual_seed(seed)
    net = ResidualNet(NARROW, 3).double()
    net.pixels = nn.Identity()
    return net


def pictures(count):
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, 1, 8, 8, generator=generator, dtype=torch.float64)


@given(st.integers(1, 40), st.data(), st.booleans())
def test_partitions_are_disjoint_complete_and_balanced(count, data, shuffled):
    d = data.draw(st.integers(1, count))
    blocks = data.draw(st.lists(st.integers(0, 99), min_size=count, max_size=count, unique=True))
    rng = np.random.default_rng(count) if shuffled else None
    parts = create_submodels(blocks, d, rng)
    assert len(parts) == d
    assert sorted(i for part in parts for i in part) == sorted(blocks)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_the_partition_is_fixed_unless_a_generator_is_given():
    assert create_submodels(range(7), 3) == ((0, 3, 6), (1, 4), (2, 5))
    rng = np.random.default_rng(0)
    drawn = {create_submodels(range(7), 3, rng) for _ in range(20)}
    assert len(drawn) > 15


def test_middle_blocks_are_those_that_keep_the_shape_without_the_ends():
    net = narrow()
    assert net.identity == (0, 1, 2, 3, 4, 5, 7)
    assert middle_blocks(net, 2, 1) == (2, 3, 4, 5)
    assert middle_blocks(net, 0, 0) == net.identity
    with pytest.raises(ValueError, match=r"first \+ last must be below 7.*got 4 \+ 3"):
        middle_blocks(net, 4, 3)
    with pytest.raises(ValueError, match="submodels must be an integer in"):
        create_submodels(middle_blocks(net, 2, 1), 5)


@pytest.mark.parametrize("counts", [(2, 3, 1), (6, 0, 0), (0, 0, 6), (0, 5, 1)])
@pytest.mark.parametrize("first", [0, 2])
def test_every_record_sees_its_own_submodel_only(counts, first):
    """The routed batch against one forward pass per record with that record's blocks."""
    net = narrow(1)
    blocks = middle_blocks(net, first, 0)
    parts = create_submodels(blocks, 3)
    batch = pictures(6)
    got = Routed(net, parts, counts)(batch)
    owner = np.repeat(np.arange(3), counts)
    for i, k in enumerate(owner):
        kept = [j for j in range(len(net.blocks)) if j not in blocks or j in parts[k]]
        torch.testing.assert_close(got[i : i + 1], net(batch[i : i + 1], kept))


def test_one_submodel_is_the_whole_network():
    net = narrow(2)
    batch = pictures(5)
    whole = Routed(net, (middle_blocks(net, 1, 1),), (5,))
    torch.testing.assert_close(whole(batch), net(batch))


def test_gradients_vanish_outside_of_the_submodel():
    net = narrow(3)
    parts = create_submodels(middle_blocks(net, 1, 1), 2)
    Routed(net, parts, (4, 0))(pictures(4)).square().sum().backward()
    assert all(p.grad is None for p in split_parameters(net, parts[1]))
    assert all(p.grad.abs().sum() > 0 for p in split_parameters(net, parts[0]))


def test_rows_name_the_records_of_every_layer_of_a_split_block():
    net = narrow(4)
    parts = create_submodels(middle_blocks(net, 1, 1), 2)
    rows = Routed(net, parts, (3, 2)).rows
    for part, reached in zip(parts, (slice(0, 3), slice(3, 5)), strict=True):
        assert all(rows[m] == reached for i in part for m in net.blocks[i].modules())
    assert net.head[-1] not in rows
