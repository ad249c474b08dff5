"""Victims of an attack: what the server knows of them, and the noise that SplitFed-DP adds."""

from __future__ import annotations

import pytest
import torch

from reproduce.papers.pmsfl.federations import load_clients
from reproduce.papers.pmsfl.victims import Batch, Noise, Victim, accelerator, batch_of
from split_attacks import TINY


def test_noise_of_many_copies_averages_out():
    data = load_clients("digits_dirichlet", clients=3, seed=0)
    noise = Noise.of(TINY, data, 1.0, 0)
    clean = torch.linspace(-2, 2, 4000).reshape(10, 400)
    generator = torch.Generator().manual_seed(0)
    once = noise.smashed(clean, 1, generator) - clean.clamp(-1, 1)
    often = noise.smashed(clean, 64, generator) - clean.clamp(-1, 1)
    assert float(once.var()) == pytest.approx(2 * noise.scale**2, rel=0.15)
    assert float(often.var()) == pytest.approx(2 * noise.scale**2 / 64, rel=0.15)


def test_server_gradient_is_that_of_the_whole_network():
    data = load_clients("digits_dirichlet", clients=3, seed=0)
    victim, batch = Victim(TINY, data, "splitfed", 0), batch_of(data, 6)
    smashed = victim.smashed(batch.images, victim.weights[None])[0]
    answer = victim.answer(smashed, batch.labels)
    gradient = victim.gradient(batch.images, victim.weights, answer)
    step = 1e-2 * torch.randn(victim.size, generator=torch.Generator().manual_seed(0))

    def loss(weights):
        network, flat = victim._network, victim._flat()  # noqa: SLF001
        hidden = victim.smashed(batch.images, weights[None])[0]
        for number in range(victim.depth, 4):
            hidden = victim.blocks.block(number, flat, hidden)
        return torch.nn.functional.cross_entropy(network.head(hidden), batch.labels)

    with torch.no_grad():
        change = loss(victim.weights + step / 64) - loss(victim.weights - step / 64)
    assert float(change) == pytest.approx(float(gradient @ step) / 32, rel=0.05, abs=1e-5)


def test_victims_need_images_and_company():
    data = load_clients("digits_dirichlet", clients=1, seed=0)
    with pytest.raises(ValueError, match="at least two clients"):
        batch_of(data, 4)
    found = batch_of(load_clients("digits_dirichlet", clients=2, seed=0), 4)
    assert isinstance(found, Batch) and len(found.images) == 4


def test_median_of_laplace_noise_tells_twice_as_much_as_the_mean():
    data = load_clients("digits_dirichlet", clients=3, seed=0)
    noise = Noise.of(TINY, data, 1.0, 0)
    clean = torch.linspace(-2, 2, 1200).reshape(10, 120)
    generator = torch.Generator().manual_seed(0)
    error = noise.median(clean, 300, generator) - clean.clamp(-1, 1)
    assert float(error.square().mean()) == pytest.approx(noise.scale**2 / 300, rel=0.2)
    assert abs(float(error.mean())) < 0.02 * noise.scale


def test_the_device_is_a_gpu_where_there_is_one(monkeypatch):
    for present, kind in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda present=present: present)
        assert accelerator().type == kind
