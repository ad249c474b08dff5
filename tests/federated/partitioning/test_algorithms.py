"""Algorithm 1 and its federated version against loops written as in the paper's boxes."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from repro.federated.clipping import bytes_per_record, clipped_part_sums
from repro.federated.participation import BalancedIterations, PoissonIterations
from repro.federated.partitioning.algorithms import (
    NoisyDescent,
    Splitting,
    train_federated,
    train_on_submodels,
)
from repro.federated.partitioning.local_training import Local
from repro.federated.partitioning.submodels import (
    Routed,
    create_submodels,
    middle_blocks,
    split_parameters,
)
from repro.federated.server import streams
from repro.models.residual import Architecture, ResidualNet


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """The tensors are tiny: several threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


NARROW = Architecture(((2, 4, 1), (5, 4, 1), (1, 8, 2)), (4, 1), False, 2, 1)
POST = Architecture(((1, 8, 1), (5, 8, 1)), (8, 1), True, 2, 1)
SETTINGS = NoisyDescent(clip=0.3, unsplit_clip=0.2, sigma=0.05, learning_rate=0.5, momentum=0.5)


def network(architecture=NARROW, seed=0):
    """Double precision, on plain numbers (pixels would be float32)."""
    torch.manual_seed(seed)
    net = ResidualNet(architecture, 3).double()
    net.pixels = nn.Identity()
    return net


def records(count, seed=0, shape=(1, 6, 6)):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(count, *shape, generator=generator, dtype=torch.float64)
    return images, torch.randint(3, (count,), generator=generator)


def clip(gradient, limit):
    """The paper's clip(grad, c)."""
    norm = math.sqrt(sum(float(g.square().sum()) for g in gradient))
    return [g * min(1.0, limit / norm) if norm else g for g in gradient]


def box(net, sampling, settings, seed, contribution, split):
    """The loop of the boxes with plain tensors; `contribution` gives one gradient per sample."""
    parameters = list(net.parameters())
    inside = {id(p) for p in split}
    draws, noises = streams(seed, torch.device("cpu"))
    velocity = [torch.zeros_like(p) for p in parameters]
    for drawn in sampling.batches(draws):
        grad_sum = [torch.zeros_like(p) for p in parameters]
        for gradient in contribution(drawn, draws):
            for part, limit in ((True, settings.clip), (False, settings.unsplit_clip)):
                mine = [k for k, p in enumerate(parameters) if (id(p) in inside) == part]
                for k, g in zip(mine, clip([gradient[k] for k in mine], limit), strict=True):
                    grad_sum[k] += g
        flat = torch.cat([g.flatten() for g in grad_sum])
        if settings.sigma:
            noise = torch.randn(flat.shape, generator=noises, dtype=flat.dtype)
            flat = flat + settings.sigma * noise
        start = 0
        for k, p in enumerate(parameters):
            step = flat[start : start + p.numel()].view_as(p) / sampling.mean_batch
            start += p.numel()
            velocity[k] = settings.momentum * velocity[k] + step
            p.data = p.data - settings.learning_rate * velocity[k]


def gradient_of(net, loss):
    found = torch.autograd.grad(loss, list(net.parameters()), allow_unused=True)
    return [
        torch.zeros_like(p) if g is None else g
        for p, g in zip(net.parameters(), found, strict=True)
    ]


def submodel(net, blocks, partition, k):
    return [i for i in range(len(net.blocks)) if i not in blocks or i in partition[k]]


def assert_same_weights(one, other):
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-8, atol=1e-10)


SAMPLINGS = [PoissonIterations(12, 4, 0.4), BalancedIterations(12, 4, 2)]


@pytest.mark.parametrize("architecture", [NARROW, POST])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("splitting", [Splitting(3, 1, 1), Splitting(1), Splitting(2, 1, 0, True)])
def test_algorithm_1_is_the_box(architecture, sampling, splitting):
    net, reference = network(architecture), network(architecture)
    images, labels = records(12)
    train_on_submodels(net, images, labels, sampling, splitting, SETTINGS, seed=5)

    blocks = middle_blocks(reference, splitting.first, splitting.last)
    fixed = create_submodels(blocks, splitting.submodels)

    def contribution(drawn, rng):
        partition = fixed
        if splitting.shuffled:
            partition = create_submodels(blocks, splitting.submodels, rng)
        for x, k in zip(drawn, rng.integers(splitting.submodels, size=len(drawn)), strict=True):
            kept = submodel(reference, blocks, partition, k)
            output = reference(images[x : x + 1], kept)
            yield gradient_of(reference, nn.functional.cross_entropy(output, labels[x : x + 1]))

    box(reference, sampling, SETTINGS, 5, contribution, split_parameters(reference, blocks))
    assert_same_weights(net, reference)
    assert any(
        not torch.equal(p, q)
        for p, q in zip(net.parameters(), network(architecture).parameters(), strict=True)
    )


@pytest.mark.parametrize("splitting", [Splitting(3, 1, 1), Splitting(1, 1, 1), Splitting(5, 0, 1)])
def test_the_federated_version_is_a_loop_over_clients(splitting):
    net, reference = network(), network()
    images, labels = records(16, 2)
    images, labels = images.unflatten(0, (8, 2)), labels.unflatten(0, (8, 2))
    sampling, local = PoissonIterations(8, 3, 0.6), Local(3, 0.2)
    train_federated(net, images, labels, sampling, splitting, local, SETTINGS, 7)

    blocks = middle_blocks(reference, splitting.first, splitting.last)
    partition = create_submodels(blocks, splitting.submodels)

    def contribution(drawn, rng):
        for x, k in zip(drawn, rng.integers(splitting.submodels, size=len(drawn)), strict=True):
            client = network()
            client.load_state_dict(reference.state_dict())
            kept = submodel(client, blocks, partition, k)
            for _ in range(local.iterations):
                loss = nn.functional.cross_entropy(client(images[x], kept), labels[x])
                for p, g in zip(client.parameters(), gradient_of(client, loss), strict=True):
                    p.data = p.data - local.learning_rate * g
            yield [
                (p - q).detach()
                for p, q in zip(reference.parameters(), client.parameters(), strict=True)
            ]

    box(reference, sampling, SETTINGS, 7, contribution, split_parameters(reference, blocks))
    assert_same_weights(net, reference)


@pytest.mark.parametrize("limits", [(0.05, 0.1), (2.0, 1.0)])
def test_one_record_changes_its_submodel_by_at_most_the_clip_and_the_others_not_at_all(limits):
    net = network(seed=3)
    blocks = middle_blocks(net, 1, 1)
    partition = create_submodels(blocks, 2)
    split = split_parameters(net, blocks)
    inside = {id(p) for p in split}
    parts = [(split, limits[0]), ([p for p in net.parameters() if id(p) not in inside], limits[1])]
    images, labels = records(5, 4)
    images = images * torch.logspace(-2, 2, 5, dtype=torch.float64).view(-1, 1, 1, 1)

    def total(count):
        """Records 0 .. count-1, all in the second submodel but the first."""
        model = Routed(net, partition, (1, count - 1))
        return clipped_part_sums(model, images[:count], labels[:count], parts, rows=model.rows)

    reached = np.zeros(2)
    for count in range(2, 6):
        with_it, without = total(count), total(count - 1)
        change = {
            id(p): a - b
            for p, a, b in zip(net.parameters(), with_it.gradient, without.gradient, strict=True)
        }
        lengths = [
            math.sqrt(sum(float(change[id(p)].square().sum()) for p in members))
            for members, _ in parts
        ]
        assert all(x <= limit * (1 + 1e-9) for x, limit in zip(lengths, limits, strict=True))
        expected = np.minimum(with_it.norms[:, -1].numpy(), limits)
        np.testing.assert_allclose(lengths, expected, rtol=1e-6)
        others = split_parameters(net, partition[0])
        assert all(change[id(p)].abs().max() < 1e-12 for p in others)  # batches round differently
        model = Routed(net, partition, (0, 1))
        record = slice(count - 1, count)
        alone = clipped_part_sums(model, images[record], labels[record], parts, rows=model.rows)
        by_id = {id(p): g for p, g in zip(net.parameters(), alone.gradient, strict=True)}
        assert all(torch.count_nonzero(by_id[id(p)]) == 0 for p in others)
        reached = np.maximum(reached, np.array(lengths) / limits)
    if limits[0] < 1:
        np.testing.assert_allclose(reached, 1.0, rtol=1e-9)


@pytest.mark.parametrize("central", [True, False])
def test_chunks_change_nothing_but_rounding_and_the_same_seed_nothing_at_all(central):
    images, labels = records(24, 5)
    if not central:
        images, labels = images.unflatten(0, (12, 2)), labels.unflatten(0, (12, 2))
    sampling = BalancedIterations(len(images), 3, 2)
    splitting = Splitting(3, 1, 1)

    def trained(memory):
        net = network(seed=6)
        if central:
            train_on_submodels(net, images, labels, sampling, splitting, SETTINGS, 1, memory=memory)
        else:
            local = Local(2, 0.1)
            train_federated(
                net, images, labels, sampling, splitting, local, SETTINGS, 1, memory=memory
            )
        return net

    whole, again, tiny = trained(1e9), trained(1e9), trained(1)
    for p, q in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(p, q)
    assert_same_weights(whole, tiny)


def test_chunks_stay_below_the_memory_they_are_given():
    """One record's share, counted, is no less than what a record adds to the tensors kept."""
    net = network(seed=7)
    images, labels = records(64, 6)
    share = bytes_per_record(net, images)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: kept.append(t.numel() * t.element_size()) or t, lambda t: t
    ):
        nn.functional.cross_entropy(net(images), labels).backward()
    weights = sum(p.numel() * p.element_size() for p in net.parameters())
    assert sum(kept) - 3 * weights < 64 * share < 8 * sum(kept)


def test_noise_levels_are_compared_on_the_same_batches_and_submodels():
    images, labels = records(30, 7)
    seen = {}
    for sigma in (0.0, 0.3):
        steps = []
        settings = NoisyDescent(0.5, 0.5, sigma, 1e-12)
        sampling = PoissonIterations(30, 5, 0.3)
        net = network(seed=8)
        splitting = Splitting(2, 1, 1)
        train_on_submodels(
            net, images, labels, sampling, splitting, settings, 4, watch=steps.append
        )
        seen[sigma] = [(s.batch, round(s.signal, 6), s.clipped, s.unsplit_clipped) for s in steps]
        assert all((s.noise > 0) == (sigma > 0) for s in steps)
        dimension = sum(p.numel() for p in net.parameters())
        assert all(abs(s.noise / (sigma * math.sqrt(dimension)) - 1) < 0.2 for s in steps if sigma)
    assert seen[0.0] == seen[0.3]


def test_an_empty_batch_moves_the_model_by_noise_alone():
    images, labels = records(4, 8)
    net, start = network(seed=9), network(seed=9)
    settings = NoisyDescent(1.0, 1.0, 1.0, 1.0)
    steps = []
    rare = PoissonIterations(4, 1, 1e-9)
    train_on_submodels(
        net, images, labels, rare, Splitting(2, 1, 1), settings, 0, watch=steps.append
    )
    assert steps[0].batch == 0 and steps[0].signal == 0 and steps[0].clipped == 0
    moved = [p - q for p, q in zip(net.parameters(), start.parameters(), strict=True)]
    assert all(m.abs().min() > 0 for m in moved)


def test_bad_input():
    images, labels = records(6)
    good = {"clip": 1.0, "unsplit_clip": 1.0, "sigma": 0.0, "learning_rate": 1.0}
    for change, message in (
        ({"clip": 0.0}, "clip must be positive"),
        ({"unsplit_clip": -1.0}, "unsplit_clip must be positive"),
        ({"sigma": -1.0}, "sigma must be non-negative"),
        ({"sigma": 1.0, "clip": math.inf}, "sigma must be 0 where a part is not clipped"),
        ({"learning_rate": math.nan}, "learning_rate must be positive"),
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            NoisyDescent(**{**good, **change})
    with pytest.raises(ValueError, match="iterations must be an integer >= 1"):
        Local(0, 0.1)
    with pytest.raises(ValueError, match="learning_rate must be positive"):
        Local(1, 0.0)
    settings = NoisyDescent(**good)
    with pytest.raises(ValueError, match="same length, got 5, 6, 6"):
        train_on_submodels(
            network(), images, labels, PoissonIterations(5, 1, 1), Splitting(1), settings, 0
        )
    sampling = PoissonIterations(6, 1, 1.0)
    with pytest.raises(ValueError, match="submodels must be an integer in"):
        train_on_submodels(network(), images, labels, sampling, Splitting(9), settings, 0)
    with pytest.raises(ValueError, match="memory must be positive"):
        train_on_submodels(network(), images, labels, sampling, Splitting(1), settings, 0, memory=0)


def test_divergence_is_said():
    images, labels = records(6)
    settings = NoisyDescent(math.inf, math.inf, 0.0, 1e300)
    sampling = PoissonIterations(6, 3, 1.0)
    with pytest.raises(FloatingPointError, match="training diverged by iteration"):
        train_on_submodels(
            network(), images, labels, sampling, Splitting(1), settings, 0, watch=lambda step: None
        )
