"""Attackers who have seen a batch several times, devices, and records joined."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from repro.attacks import (
    Averaged,
    InferredEach,
    Observation,
    image_quality,
    public_prior,
    reconstruct,
)
from repro.attacks.attackers import Attackers
from repro.attacks.persistent import PersistentAttackers
from repro.attacks.victims import Noise, Victim, accelerator, batch_of
from reproduce.papers.pmsfl import attack_compare as compare
from reproduce.papers.pmsfl.attack_runs import MEASURES, STAGES, reconstruction_run
from reproduce.papers.pmsfl.federations import load_clients
from reproduce.papers.pmsfl.persistent_runs import RUN, all_tasks, persistent_run
from split_attacks import TINY, dense, rng, small

PERSISTENT = {
    key: TINY[key]
    for key in (
        "data clients width layers depth rounds participation iterations batch rate mask_rate floor "
        "gradient bound update_epsilon update_delta clip images public window steps restarts seen "
        "seen_first epsilons masks shown"
    ).split()
} | {"copies": 3, "versions": 2}


# Several copies ---------------------------------------------------------------------------------


def copies_of_a_dense_bottom(copies):
    """Images, weights, masks of theta = 1/2, and what is seen of every copy, (batch, copies, 4)."""
    weights = torch.randn(4, 6, generator=rng(5))
    images = torch.randn(24, 1, 2, 3, generator=rng(6))
    kept = (torch.rand(copies, 4, 6, generator=rng(8)) < 0.5).float()
    return images, weights, kept, torch.einsum("coi,bi->bco", weights * kept, images.flatten(1))


def fitted(copies):
    images, weights, kept, seen = copies_of_a_dense_bottom(copies)
    prior = public_prior(torch.randn(500, 1, 2, 3, generator=rng(9)), low=-9.0, high=9.0)
    variance = torch.full((1, 1, 1, 1), 1e-3)
    each = torch.full((2, copies, 24), 0.5)
    found = reconstruct(
        dense(6, 4), 1, Observation(seen[None], variance), InferredEach(weights.flatten(), each),
        prior, steps=150, restarts=2, seed=1,
    )  # fmt: skip
    agree = ((found.estimate[0].reshape(kept.shape) > 0).float() == kept).float().mean()
    return float((found.images[0] - images).square().mean()), float(agree)


def test_more_copies_reveal_more_where_every_mask_is_inferred():
    """Masks of 1/2 and fewer outputs than pixels: one copy leaves a lot open, eight do not."""
    once, often = fitted(1), fitted(8)
    assert often[0] < once[0] / 2
    assert often[1] > 0.75


def test_inferring_each_mask_of_one_copy_is_inferring_the_mask():
    images, weights, _, seen = copies_of_a_dense_bottom(1)
    theta = torch.full((1, 24), 0.3)
    each, one = InferredEach(weights.flatten(), theta[:, None]), torch.logit(theta) + 0.1
    assert torch.equal(each.start, torch.logit(theta))
    by_hand = torch.sigmoid(one)
    by_hand = by_hand * (by_hand / 0.3).log() + (1 - by_hand) * ((1 - by_hand) / 0.7).log()
    assert float(each.loss(one)) == pytest.approx(float(by_hand.sum()), rel=1e-4)
    assert torch.allclose(each.weights(one)[0, 0], weights.flatten() * torch.sigmoid(one)[0])


def test_median_of_laplace_noise_tells_twice_as_much_as_the_mean():
    data = load_clients("digits_dirichlet", clients=3, seed=0)
    noise = Noise.of(TINY, data, 1.0, 0)
    clean = torch.linspace(-2, 2, 1200).reshape(10, 120)
    generator = torch.Generator().manual_seed(0)
    error = noise.median(clean, 300, generator) - clean.clamp(-1, 1)
    assert float(error.square().mean()) == pytest.approx(noise.scale**2 / 300, rel=0.2)
    assert abs(float(error.mean())) < 0.02 * noise.scale


def test_gradients_and_several_copies_do_not_go_together():
    images, weights, _, seen = copies_of_a_dense_bottom(2)
    watched = Observation(
        seen[None], torch.ones(1, 1, 1, 1), seen[None], torch.ones(1, 24), torch.ones(1)
    )
    belief = InferredEach(weights.flatten(), torch.full((1, 2, 24), 0.5))
    prior = public_prior(images, low=-9.0, high=9.0)
    with pytest.raises(ValueError, match="gradient must be None"):
        reconstruct(dense(6, 4), 1, watched, belief, prior, steps=1, restarts=1, seed=0)
    with pytest.raises(ValueError, match="smashed must have the shape"):
        few = Observation(seen[None, :, :1], torch.ones(1, 1, 1, 1))
        reconstruct(dense(6, 4), 1, few, belief, prior, steps=1, restarts=1, seed=0)
    with pytest.raises(ValueError, match="theta must be finite, with 3 dimensions"):
        InferredEach(weights.flatten(), torch.full((2, 24), 0.5))


# The attackers on a federation ------------------------------------------------------------------


@pytest.fixture(scope="module")
def federation():
    data = load_clients("digits_dirichlet", clients=3, seed=0)
    return data, batch_of(data, 4)


def test_four_copies_reveal_more_than_one(federation):
    """Each mask inferred, likely masks: four copies determine what one leaves open."""
    data, batch = federation
    config = TINY | {"width": 4, "steps": 30, "versions": 1}
    hidden = Victim(config, data, "pmsfl", 0)
    theta = torch.full_like(hidden.theta, 0.9)
    one, four = (
        PersistentAttackers(hidden, batch, config | {"copies": copies}, 0).on_copies(theta, 2)
        for copies in (1, 4)
    )
    name = "several copies, each mask inferred"
    before, after = ((found[name] - batch.images).square().mean() for found in (one, four))
    assert after < 0.85 * before


def test_medians_reveal_more_of_many_copies_than_means(federation):
    data, _ = federation
    batch = batch_of(data, 12)
    config = TINY | {"width": 8, "rounds": 3, "steps": 50, "restarts": 2}
    victim = Victim(config, data, "splitfed", 0)
    noises = {f"{e}": Noise.of(config, data, e, 0) for e in (0.5,)}
    median = PersistentAttackers(victim, batch, config, 0).on_noise(noises, 300)
    mean = Attackers(victim, batch, config, 0).on_weights(
        {name: (noise, 300) for name, noise in noises.items()}
    )
    for name in noises:
        one, two = ((found[name] - batch.images).square().mean() for found in (median, mean))
        assert one < two


def test_no_tensor_of_an_attack_forgets_its_device(federation):
    """Where the default device holds no values, whatever is made without naming one fails."""
    data, batch = federation
    config = PERSISTENT | TINY
    victims = [Victim(config, data, method, 0) for method in ("splitfed", "pmsfl")]
    noises = {"a": Noise.of(config, data, 1.0, 0)}
    with torch.device("meta"):
        attackers = Attackers(victims[0], batch, config, 0)
        found = attackers.on_weights({"a": (noises["a"], 2)})
        found |= attackers.with_gradients(noises) | attackers.without_public_images()
        found |= PersistentAttackers(victims[0], batch, config, 0).on_noise(noises, 3)
        found |= Attackers(victims[1], batch, config, 0).on_masks(victims[1].theta, 2)
        found |= PersistentAttackers(victims[1], batch, config, 0).on_copies(victims[1].theta, 2)
    assert all(images.device.type == "cpu" for images in found.values())


def test_the_device_is_a_gpu_where_there_is_one(monkeypatch):
    for present, kind in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda present=present: present)
        assert accelerator().type == kind


# The run ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result():
    return persistent_run(PERSISTENT, 0)


def test_a_run_returns_what_it_promises(result):
    json.dumps(result)
    names = {"dp 5, median of many rounds", "dp 0.1, median of many rounds"}
    for stage in STAGES:
        names |= {f"pmsfl, {stage}, several copies, each mask inferred"}
        names |= {f"pmsfl, {stage}, many rounds, more masks averaged"}
    assert set(result["attacks"]) == names
    for one in result["attacks"].values():
        assert all(len(one[m]) == 4 for m in MEASURES)
        assert np.shape(one["shown"]) == (2, 1, 8, 8)
    few = PERSISTENT | {"masks": False, "epsilons": [5.0]}
    assert persistent_run(few, 0) == persistent_run(few, 0)
    assert persistent_run(few, 0) != persistent_run(few, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"copies": 0}, "copies must be"),
        ({"versions": 0}, "versions must be"),
        ({"depth": 4}, "depth must be"),
        ({"epsilons": []}, "epsilons must hold"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_wrong_configurations_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        persistent_run(PERSISTENT | changes, 0)


def test_tasks_are_those_of_both_runs():
    tasks = all_tasks(TINY | PERSISTENT | {"seeds": 2, "profile": "quick"})
    assert [seed for _, _, seed in tasks] == [0, 1, 0, 1]
    assert all(config == TINY for _, config, _ in tasks[:2])
    assert all(function == RUN and config == PERSISTENT for function, config, _ in tasks[2:])


def test_records_are_joined_by_seed(result):
    base = {"attacks": {"splitfed": 1}, "entropy": [1.0]}
    records = [{"seed": seed, "result": one} for one in (base, result) for seed in (0, 1)]
    joined = compare.joined(records)
    assert len(joined) == 2 and joined[0]["entropy"] == [1.0]
    assert set(joined[0]["attacks"]) == {"splitfed"} | set(result["attacks"])
    assert base["attacks"] == {"splitfed": 1}
    with pytest.raises(ValueError, match="an attack once per seed"):
        compare.joined(records + records[:1])


# Odd batches and images -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["constant", "identical", "zero"])
def test_odd_images_are_attacked_and_measured(federation, kind):
    """Constant or identical images: finite reconstructions; only the features' scale may fail."""
    data, batch = federation
    images = {
        "constant": torch.arange(4.0).reshape(4, 1, 1, 1).expand(4, 1, 8, 8) / 4,
        "identical": batch.images[:1].expand(4, -1, -1, -1),
        "zero": torch.zeros(4, 1, 8, 8),
    }[kind].contiguous()
    odd = type(batch)(images, batch.labels, batch.public, batch.low, batch.high)
    victim = Victim(TINY, data, "splitfed", 0)
    found = Attackers(victim, odd, TINY, 0).on_weights({"a": (Noise.of(TINY, data, 1.0, 0), 1)})
    assert all(torch.isfinite(one).all() for one in found.values())
    psnr, ssim = (
        getattr(image_quality, name)(torch.stack(list(found.values())), images, span=2.0)
        for name in ("psnr", "ssim")
    )
    assert torch.isfinite(psnr).all() and torch.isfinite(ssim).all()


def test_one_image_is_refused_where_linkage_needs_others():
    with pytest.raises(ValueError, match="images must be"):
        reconstruction_run(TINY | {"images": 1}, 0)


@pytest.mark.parametrize("epsilon", [1e-9, 1e9])
def test_no_noise_and_endless_noise_are_attacked(federation, epsilon):
    """Hardly any noise reveals as much as none; noise without end no more than public images."""
    data, batch = federation
    config = TINY | {"width": 6, "steps": 60, "rounds": 2}
    victim = Victim(config, data, "splitfed", 0)
    noise = Noise.of(config | {"bound": 50.0}, data, epsilon, 0)
    found = Attackers(victim, batch, config, 0).on_weights({"a": (noise, 1)})
    mean = batch.public[: config["public"]].mean(dim=0)
    error, without, blind = (
        float((images - batch.images).square().mean())
        for images in (found["a"], found["splitfed"], mean)
    )
    if epsilon > 1:
        assert error < 3 * without + 0.02 and error < blind / 2
    else:
        assert error == pytest.approx(blind, rel=0.01)


def test_a_mask_of_zeros_reveals_nothing_and_stays_finite():
    """All smashed data are the same: what remains is the prior."""
    weights = torch.randn(24, generator=rng(1))
    public = torch.randn(60, 1, 2, 3, generator=rng(2))
    prior = public_prior(public, low=-9.0, high=9.0)
    seen = Observation(torch.zeros(1, 3, 4), small(1e-3))
    belief = Averaged(weights, torch.zeros(1, 24), 2, rng())
    found = reconstruct(dense(6, 4), 1, seen, belief, prior, steps=40, restarts=1, seed=0)
    assert torch.allclose(found.images[0], public.mean(dim=0).expand(3, -1, -1, -1), atol=1e-3)


def test_a_loss_without_end_is_an_error():
    """Weights so large that every loss overflows."""
    prior = public_prior(torch.randn(60, 1, 2, 3, generator=rng(2)), low=-9.0, high=9.0)
    huge = Averaged(torch.full((24,), 1e38), torch.ones(1, 24), 1, rng())
    seen = Observation(torch.zeros(1, 3, 4), small(1e-3))
    with pytest.raises(ArithmeticError, match="not finite"):
        reconstruct(dense(6, 4), 1, seen, huge, prior, steps=3, restarts=1, seed=0)
