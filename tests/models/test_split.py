"""Networks that can be cut: shapes, counts, cuts that fit together, statistics that track nothing."""

import pytest
import torch

from repro.federated.pmsfl.blocks import FlatBlocks, held
from repro.models.split import (
    StaticBatchNorm,
    resnet18,
    split,
    statistics_from,
    statistics_over,
    transformer,
)


def small(kind, seed=0):
    if kind == "resnet":
        return resnet18(classes=5, channels=2, width=3, layers=1, seed=seed), torch.randn(
            4, 2, 8, 8
        )
    return transformer(classes=5, features=6, width=8, heads=2, seed=seed), torch.randn(4, 7, 6)


def count(module):
    return sum(p.numel() for p in module.parameters())


def test_the_papers_networks_have_their_size():
    network = resnet18(classes=100, channels=3)
    convolutions = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 17 + 3  # of eighteen layers all but the head, and three shortcuts
    assert count(network.blocks) == 11_159_232  # ResNet-18 for small images without normalisation
    four = transformer(classes=17, features=16)
    assert count(four.blocks) == 16 * 768 + 4 * (4 * 768**2 + 2 * 768 * 1536)


@pytest.mark.parametrize("kind", ["resnet", "transformer"])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_bottom_and_top_make_the_whole(kind, depth):
    network, x = small(kind)
    bottom, top = split(network, depth)
    assert torch.equal(top(bottom(x)), network(x))
    assert count(bottom) + count(top) == count(network)
    assert network(x).shape == (4, 5)


@pytest.mark.parametrize("depth", [0, 5, -1, 2.0, True, "2", None])
def test_a_depth_outside_the_network_is_refused(depth):
    with pytest.raises(ValueError, match=r"depth must be an integer in \[1, 4\]"):
        split(small("resnet")[0], depth)


@pytest.mark.parametrize(
    "change", [{"classes": 1}, {"channels": 0}, {"width": 0}, {"layers": 0}, {"seed": -1}]
)
def test_bad_resnets(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        resnet18(**{"classes": 5, "channels": 1, **change})


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="width must be a multiple of heads = 2, got 7"):
        transformer(classes=5, features=3, width=7)


@pytest.mark.parametrize("kind", ["resnet", "transformer"])
def test_the_seed_is_the_start_and_disturbs_nobody(kind):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, two, other = small(kind, 1)[0], small(kind, 1)[0], small(kind, 2)[0]
    torch.manual_seed(5)
    assert torch.equal(before, torch.random.get_rng_state())
    same = [torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True)]
    assert all(same)
    assert not torch.equal(next(one.parameters()), next(other.parameters()))


def test_weights_are_kaiming_normal():
    network = resnet18(classes=10, channels=3, width=64)
    weight = network.blocks[3][0].residual[0].weight.detach()
    fan = weight[0].numel()
    assert weight.std() == pytest.approx((2 / fan) ** 0.5, rel=0.01)
    assert abs(weight.mean()) < 1e-3


def test_normalisation_by_the_batch_leaves_nothing_behind():
    layer, x = StaticBatchNorm(), torch.randn(6, 3, 4, 4) * 7 + 2
    out = layer(x)
    assert torch.allclose(out.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(out.var(dim=(0, 2, 3), correction=0), torch.ones(3), atol=1e-3)
    assert not list(layer.buffers()) and not list(layer.parameters())
    layer.eval()
    assert torch.equal(layer(x), out)


def test_one_record_of_one_pixel_becomes_zero():
    assert torch.equal(StaticBatchNorm()(torch.full((1, 3, 1, 1), 9.0)), torch.zeros(1, 3, 1, 1))


def test_a_batch_of_one_runs_and_has_finite_gradients():
    for kind in ("resnet", "transformer"):
        network, x = small(kind)
        network(x[:1]).sum().backward()
        assert all(torch.isfinite(p.grad).all() for p in network.parameters())


def test_test_records_are_normalised_by_the_reference_alone():
    network, x = small("resnet")
    test = torch.randn(5, 2, 8, 8)
    with statistics_from(network, 4):
        together = network(torch.cat([x, test]))
        alone = torch.cat([network(torch.cat([x, t[None]]))[4:] for t in test])
    assert torch.allclose(together[4:], alone, atol=1e-5)
    assert torch.allclose(together[:4], network(x), atol=1e-5)
    with (
        pytest.raises(ValueError, match="rows must be an integer >= 1"),
        statistics_from(network, 0),
    ):
        pass


@pytest.mark.parametrize("kind", ["resnet", "transformer"])
def test_stacked_clients_are_the_clients_one_by_one(kind):
    network, _ = small(kind)
    blocks = FlatBlocks(network)
    depths = [1, 2, 2, 4]
    generator = torch.Generator().manual_seed(0)
    flat = torch.randn(4, blocks.size(4), generator=generator)
    x = torch.stack([small(kind)[1] for _ in depths])
    outputs = blocks.run(flat, x, depths)
    assert [len(q) for q in outputs] == [4, 3, 1, 1]
    for client, depth in enumerate(depths):
        vector = flat[client]
        start = 0
        for block in network.blocks:
            for p in block.parameters():
                p.data = vector[start : start + p.numel()].view(p.shape)
                start += p.numel()
        expected = split(network, depth)[0](x[client])
        assert torch.allclose(outputs[depth - 1][client - 4], expected, atol=1e-4)


def test_sizes_and_holdings():
    network, _ = small("transformer")
    blocks = FlatBlocks(network)
    assert blocks.size(4) == sum(blocks.sizes) == count(network.blocks)
    holds = held([1, 3], blocks, blocks.size(3), torch.device("cpu"))
    assert holds.sum(dim=1).tolist() == [blocks.size(1), blocks.size(3)]
    assert torch.equal(
        blocks.weights(), torch.cat([p.flatten() for p in network.blocks.parameters()])
    )


def test_statistics_over_processes_are_those_of_the_whole_batch():
    """The parts of other processes are played by sums that are known beforehand; one part is empty."""
    norm, x = StaticBatchNorm(), torch.randn(7, 3, 4, 4, dtype=torch.float64)
    centred = x - x.mean(dim=(0, 2, 3), keepdim=True)
    whole = [x.sum(dim=(0, 2, 3)), x.new_tensor([7 * 16])]
    for part in (x[:5], x[5:], x[:0]):
        sums = iter([torch.cat(whole), centred.square().sum(dim=(0, 2, 3))])
        with statistics_over(norm, lambda _, sums=sums: next(sums)):
            found = norm(part)
        assert found.shape == part.shape
        if len(part):
            assert torch.allclose(found, norm(x)[:5] if len(part) == 5 else norm(x)[5:])
    assert norm.total is None


def test_statistics_over_one_process_have_the_gradients_of_a_batch():
    network, images = small("resnet")
    network, images = network.double(), images.double()
    grads = []
    for total in (None, lambda part: part):
        network.zero_grad()
        if total is None:
            logits = network(images)
        else:
            with statistics_over(network, total):
                logits = network(images)
        logits.square().sum().backward()
        grads.append([p.grad.clone() for p in network.parameters()])
    for batch, summed in zip(*grads, strict=True):
        assert torch.allclose(batch, summed, rtol=1e-9, atol=1e-12)
