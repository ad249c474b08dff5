"""The attack runs of Figures 2 and 5 of pmsfl, at tiny sizes, and how they are compared."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from repro.attacks.victims import Batch, Noise, Victim, batch_of
from reproduce.papers.pmsfl import attack_compare as compare
from reproduce.papers.pmsfl.attack_runs import (
    MEASURES,
    RUN,
    STAGES,
    reconstruction_run,
    reconstruction_tasks,
)
from reproduce.papers.pmsfl.federations import load_clients
from reproduce.papers.pmsfl.pictures import image_grid
from split_attacks import TINY


@pytest.fixture(scope="module")
def result():
    return reconstruction_run(TINY, 0)


def test_a_run_returns_what_it_promises_and_json(result):
    json.dumps(result)
    names = set(result["attacks"])
    assert {"splitfed", "dp 5", "dp 0.1, many rounds", "dp 5, whole record"} <= names
    assert {"splitfed, gradients", "dp 5, gradients", "splitfed, no public images"} <= names
    assert {f"pmsfl, {stage}, mask inferred" for stage in STAGES} <= names
    for one in result["attacks"].values():
        assert all(len(one[m]) == 4 for m in MEASURES)
        assert np.shape(one["shown"]) == (2, 1, 8, 8)
    assert result["activations"] * 4 == result["counts"]["equations"]
    assert result["scales"]["dp 5"] == pytest.approx(2 / 5)
    assert result["scales"]["dp 5, whole record"] == pytest.approx(2 / 5 * result["activations"])
    assert len(result["entropy"]) == 2 and result["entropy"][0] == 1.0


def test_the_same_seed_gives_the_same_run(result):
    few = TINY | {"masks": False, "gradients": False, "epsilons": [5.0]}
    one, two = reconstruction_run(few, 0), reconstruction_run(few, 0)
    assert one == two
    assert one["shown"] == result["shown"]
    assert reconstruction_run(few, 1)["shown"] != one["shown"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"restarts": 0}, "restarts must be"),
        ({"depth": 4}, "depth must be"),
        ({"epsilons": []}, "epsilons must hold"),
        ({"epsilons": [0.0]}, "epsilons must be"),
        ({"images": 100_000}, "images must be"),
        ({"data": "generated_radar"}, "data must be images"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_wrong_configurations_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        reconstruction_run(TINY | changes, 0)


def test_a_missing_key_is_named():
    with pytest.raises(ValueError, match="misses 'steps'"):
        reconstruction_run({k: v for k, v in TINY.items() if k != "steps"}, 0)


def test_tasks_carry_what_a_run_needs():
    tasks = reconstruction_tasks(TINY | {"seeds": 2, "profile": "quick"})
    assert [(function, seed) for function, _, seed in tasks] == [(RUN, 0), (RUN, 1)]
    assert all(config == TINY for _, config, _ in tasks)


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


# Comparison -------------------------------------------------------------------------------------


def made(psnr, linked):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4, 40))
    measures = {
        "psnr": psnr + noise[0], "ssim": 0.3 + 0.1 * noise[1], "distance": 0.9 + 0.1 * noise[2],
        "margin": 0.05 * noise[3], "linked": np.arange(40) < 40 * linked,
    }  # fmt: skip
    return {name: np.asarray(value, float).tolist() for name, value in measures.items()}


def test_what_reveals_and_what_does_not():
    results = [{"attacks": {"a": made(11.0, 0.05), "b": made(12.0, 0.05), "c": made(11.0, 0.5)}}]
    found = compare.pooled(results * 2)
    assert len(found["a"]["psnr"]) == 80
    assert not compare.reveals(compare.over_nothing(found["a"], found["a"], 20))
    assert compare.reveals(compare.over_nothing(found["b"], found["a"], 20))
    assert compare.reveals(compare.over_nothing(found["c"], found["a"], 20))
    assert not compare.reveals(compare.excess(found["a"], found["b"]))
    assert compare.row(found["c"], found["a"], 20)["reveals, by"] == "linked"
    assert compare.row(found["a"], found["a"], 20)["reveals, by"] == "nothing"
    assert compare.told(found["c"]).endswith("linked 50 %")
    assert np.shape(compare.by_run(results * 2)["a"]["psnr"]["runs"]) == (2,)


def test_runs_of_different_attacks_are_not_pooled():
    with pytest.raises(ValueError, match="same attacks"):
        compare.pooled([{"attacks": {"a": made(1, 1)}}, {"attacks": {"b": made(1, 1)}}])
    with pytest.raises(ValueError, match="same attacks"):
        compare.pooled([])


def test_image_grid_draws_grey_and_colour():
    grey, colour = np.zeros((3, 1, 8, 8), np.uint8), np.zeros((3, 3, 8, 8), np.uint8)
    fig = image_grid({"one": {"a": (grey, "x"), "b": (colour, "")}, "two": {"a": (grey, "")}})
    assert len(fig.axes) == 4
    assert fig.axes[0].images[0].get_array().shape == (8, 26)
    with pytest.raises(ValueError, match="at least one row"):
        image_grid({})
    with pytest.raises(ValueError, match="1 or 3 channels"):
        image_grid({"one": {"a": (np.zeros((3, 2, 8, 8)), "")}})
