"""Algorithm 1: the cases in which it must be something simpler, its noise, its determinism."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from repro.federated.clipping import cross_entropy
from repro.federated.random_participation import Settings, train
from repro.models import build

SIZES = np.array([5, 0, 12, 7])


def data(n=24, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand((n, 1, 8, 8), generator=generator), torch.randint(
        0, 10, (n,), generator=generator
    )


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def settings(**changes):
    base = {
        "iterations": 6,
        "p": 0.5,
        "q": 0.5,
        "learning_rate": 0.1,
        "clip": 1.0,
        "sigma": 0.0,
        "momentum": 0.9,
    }
    return Settings(**{**base, **changes})


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
@pytest.mark.parametrize("clip", [None, math.inf])
def test_everyone_and_everything_without_noise_is_full_batch_sgd(name, clip):
    images, labels = data()
    ours, theirs = (build(name, classes=10, seed=1) for _ in range(2))
    train(ours, images, labels, SIZES, settings(p=1.0, q=1.0, clip=clip), seed=3)
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9)
    for _ in range(6):
        optimiser.zero_grad()
        nn.functional.cross_entropy(theirs(images), labels).backward()
        optimiser.step()
    torch.testing.assert_close(weights(ours), weights(theirs), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sigma", [0.0, 0.7])
def test_same_seed_same_numbers_bit_for_bit(sigma):
    images, labels = data()
    results = []
    for seed in (3, 3, 4):
        model = build("digits_cnn", classes=10, seed=1)
        train(model, images, labels, SIZES, settings(sigma=sigma), seed=seed)
        results.append(weights(model))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


def test_the_global_generators_are_neither_used_nor_changed():
    images, labels = data()
    states = []
    for k in range(2):
        torch.manual_seed(k)
        np.random.seed(k)
        before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
        model = build("digits_mlp", classes=10, seed=1)
        train(model, images, labels, SIZES, settings(sigma=1.0), seed=3)
        states.append(weights(model))
        assert torch.equal(before[0], torch.random.get_rng_state())
        assert np.array_equal(before[1], np.random.get_state()[1])
    assert torch.equal(*states)


def test_the_scaled_sum_is_unbiased():
    """Over many first steps the mean update is lr times the full-data mean of clipped gradients."""
    images, labels = data()
    start = build("digits_mlp", classes=10, seed=1)
    clip, runs = 0.5, 600
    chosen = settings(iterations=1, learning_rate=1.0, clip=clip, p=0.8, q=0.7)
    expected = torch.zeros_like(weights(start))
    for k in range(24):
        loss = cross_entropy(start(images[k : k + 1]), labels[k : k + 1]).sum()
        gradient = torch.cat(
            [g.flatten() for g in torch.autograd.grad(loss, list(start.parameters()))]
        )
        expected += gradient / max(1.0, float(gradient.norm()) / clip) / 24
    steps = torch.empty(runs, len(expected))
    for seed in range(runs):
        model = copy.deepcopy(start)
        before = weights(model)
        train(model, images, labels, SIZES, chosen, seed=seed)
        steps[seed] = before - weights(model)
    error = float((steps.mean(0) - expected).norm())
    standard = float(steps.var(0).sum().sqrt()) / math.sqrt(runs)
    assert error < 3 * standard
    # A scale without p or without q is off by a quarter or more, twice what could pass.
    assert 6 * standard < 0.25 * float(expected.norm())


def test_an_empty_batch_moves_the_model_by_noise_alone():
    """p -> 0: N(0, sigma^2 I) / (p N q d) in every coordinate, checked by its mean square."""
    images, labels = data()
    model = build("digits_mlp", classes=10, seed=1)
    before, steps = weights(model), []
    chosen = settings(iterations=1, p=1e-12, q=0.5, learning_rate=1e-12, sigma=2.0)
    train(model, images, labels, SIZES, chosen, seed=0, watch=steps.append)
    assert steps[0].batch == 0 and steps[0].signal == 0 and steps[0].clipped == 0
    moved = (weights(model) - before) * (1e-12 * 0.5 * 24) / 1e-12
    assert float(moved.square().mean().sqrt()) == pytest.approx(2.0, rel=0.06)
    assert abs(float(moved.mean())) < 5 * 2.0 / math.sqrt(len(moved))


def test_noise_and_draws_are_independent_of_each_other():
    """Whoever is drawn depends on the seed only; noise differs from step to step."""
    images, labels = data()
    batches = {}
    for sigma in (0.0, 0.5, 3.0):
        steps = []
        train(
            build("digits_mlp", classes=10, seed=1),
            images,
            labels,
            SIZES,
            settings(sigma=sigma),
            7,
            watch=steps.append,
        )
        batches[sigma] = [(s.clients, s.batch) for s in steps]
        if sigma:
            assert len({s.noise for s in steps}) == 6
            assert np.mean([s.noise for s in steps]) == pytest.approx(
                sigma * math.sqrt(2410), rel=0.05
            )
    assert batches[0.0] == batches[0.5] == batches[3.0]


def test_the_signal_is_at_most_the_clip_times_the_batch():
    images, labels = data()
    steps = []
    train(
        build("digits_cnn", classes=10, seed=1),
        images,
        labels,
        SIZES,
        settings(clip=0.01),
        1,
        watch=steps.append,
    )
    assert all(s.signal <= 0.01 * s.batch * (1 + 1e-5) for s in steps) and any(
        s.clipped == 1 for s in steps
    )


def test_watching_every_third_and_the_last():
    images, labels = data()
    seen = []
    model = build("digits_mlp", classes=10, seed=1)
    train(model, images, labels, SIZES, settings(iterations=7), 1, watch=seen.append, watch_every=3)
    assert [s.iteration for s in seen] == [3, 6, 7]


def test_divergence_is_reported():
    images, labels = data()
    with pytest.raises(FloatingPointError, match="diverged by iteration"):
        train(
            build("digits_mlp", classes=10, seed=1), images * 1e20, labels, SIZES,
            settings(clip=None, learning_rate=1e30), 1, watch=lambda step: None,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"iterations": 0}, "iterations must"),
        ({"p": 0.0}, "p must"),
        ({"p": 1.5}, "p must"),
        ({"q": -0.1}, "q must"),
        ({"learning_rate": 0.0}, "learning_rate must"),
        ({"clip": 0.0}, "clip must"),
        ({"sigma": -1.0}, "sigma must"),
        ({"sigma": float("nan")}, "sigma must"),
        ({"sigma": 1.0, "clip": None}, "sigma must be 0 when clip is None"),
        ({"sigma": 1.0, "clip": math.inf}, "sigma must be 0 when clip is inf"),
        ({"momentum": 1.0}, "momentum must"),
        ({"momentum": "0.9"}, "momentum must"),
        ({"sigma": "1"}, "sigma must"),
        ({"p": [0.1, 0.2]}, "p must be one number"),
        ({"clip": [1.0, 2.0]}, "clip must be one number"),
    ],
)
def test_settings_out_of_range(change, message):
    with pytest.raises(ValueError, match=message):
        settings(**change)


def test_data_that_do_not_fit_the_sizes():
    images, labels = data()
    with pytest.raises(ValueError, match="sizes must sum to the number of images"):
        train(build("digits_mlp", classes=10, seed=1), images, labels, [5, 5], settings(), 0)
    with pytest.raises(ValueError, match="seed must"):
        train(build("digits_mlp", classes=10, seed=1), images, labels, SIZES, settings(), -1)
