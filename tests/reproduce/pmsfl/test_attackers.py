"""The attackers of pmsfl on a small federation: one batch seen once or often."""

from __future__ import annotations

import pytest
import torch

from reproduce.papers.pmsfl import image_quality
from reproduce.papers.pmsfl.attackers import Attackers
from reproduce.papers.pmsfl.federations import load_clients
from reproduce.papers.pmsfl.persistent import PersistentAttackers
from reproduce.papers.pmsfl.victims import Noise, Victim, batch_of
from split_attacks import TINY


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
    config = TINY
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
