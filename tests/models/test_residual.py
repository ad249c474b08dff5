"""The residual networks: sizes, addressable blocks, one record's output depends on it alone."""

import pytest
import torch

from repro.models import count_parameters
from repro.models.residual import ARCHITECTURES, Architecture, ResidualNet, build_residual

SMALL = tuple(name for name in ARCHITECTURES if name.startswith("small"))


def images(name, count, seed=0):
    architecture = ARCHITECTURES[name]
    side = 8 if architecture.colours == 1 else 32
    generator = torch.Generator().manual_seed(seed)
    brightest = int(architecture.pixels[0])
    shape = (count, architecture.colours, side, side)
    return torch.randint(0, brightest + 1, shape, generator=generator, dtype=torch.uint8)


def test_the_networks_of_the_paper_have_their_sizes():
    """44 million parameters are what the paper says of ResNet-101; 8.9 million belong to WRN-40-4."""
    with torch.device("meta"):
        resnet = ResidualNet(ARCHITECTURES["resnet101"], 10)
        wide = ResidualNet(ARCHITECTURES["wrn_40_4"], 10)
    assert 42e6 < count_parameters(resnet) < 44.5e6
    assert 8.85e6 < count_parameters(wide) < 9.0e6
    assert len(resnet.blocks) == 33 and len(wide.blocks) == 18
    # 101 layers: three in each block, the stem, the linear layer; 40: two in each, likewise,
    # and the three shortcuts that change the shape
    layers = [m for m in resnet.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(layers) - 4 == 33 * 3 + 1
    layers = [m for m in wide.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(layers) == 18 * 2 + 1 + 3


def test_resnet101_has_the_5_22_2_blocks_of_the_paper():
    """29 of the 33 blocks keep the shape; those of the third stage are the middle 22."""
    with torch.device("meta"):
        net = ResidualNet(ARCHITECTURES["resnet101"], 10)
    assert len(net.identity) == 29
    assert net.identity[:5] == (1, 2, 4, 5, 6)
    assert net.identity[5:27] == tuple(range(8, 30))
    assert net.identity[27:] == (31, 32)
    middle = {net.blocks[i].residual[0].in_channels for i in net.identity[5:27]}
    assert middle == {1024}


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_can_be_split_in_eight(name):
    net = build_residual(name, classes=10, seed=0)
    assert len(net.identity[1:-1]) >= 8
    assert count_parameters(net) < 200_000


@pytest.mark.parametrize("name", SMALL)
def test_blocks_can_be_left_out_and_the_output_depends_on_those_that_stay(name):
    net = build_residual(name, classes=10, seed=1)
    batch = images(name, 3)
    everything = range(len(net.blocks))
    assert torch.equal(net(batch), net(batch, everything))
    for gone in (net.identity[0], net.identity[-1]):
        some = net(batch, [i for i in everything if i != gone])
        assert some.shape == (3, 10) and not torch.allclose(some, net(batch))


@pytest.mark.parametrize("name", SMALL)
def test_records_do_not_mix(name):
    net = build_residual(name, classes=10, seed=2).double()
    net.pixels = torch.nn.Identity()  # they would be float32
    batch = images(name, 4).double() / 100
    changed = batch.clone()
    changed[1:] = images(name, 3, seed=9).double() / 100
    torch.testing.assert_close(net(batch)[0], net(changed)[0], rtol=0, atol=1e-12)


def test_a_network_is_a_function_of_its_seed_and_leaves_the_generator_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (build_residual("small_digits", classes=10, seed=s) for s in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    pairs = zip(first.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(first.head[-1].weight, other.head[-1].weight)


@pytest.mark.parametrize("bottleneck", [True, False])
def test_strides_and_both_kinds_of_blocks(bottleneck):
    net = ResidualNet(Architecture(((2, 8, 1), (2, 16, 2)), (8, 2), bottleneck, 4), 7)
    assert net.identity == (0, 1, 3)
    hidden = net.stem(net.pixels(torch.zeros(2, 3, 16, 16, dtype=torch.uint8)))
    assert hidden.shape == (2, 8, 8, 8)
    for block in net.blocks:
        hidden = block(hidden)
    assert hidden.shape == (2, 16, 4, 4) and net.head(hidden).shape == (2, 7)


def test_bad_input():
    with pytest.raises(ValueError, match="name must be one of 'resnet101'"):
        build_residual("resnet18", classes=10, seed=0)
    with pytest.raises(ValueError, match="classes must be an integer >= 2, got 1"):
        build_residual("small_digits", classes=1, seed=0)
    with pytest.raises(ValueError, match="seed must be an integer >= 0"):
        build_residual("small_digits", classes=10, seed=-1)
