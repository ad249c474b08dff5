"""The attack run of pmsfl at a tiny size: what it returns, and what it refuses."""

from __future__ import annotations

import json

import pytest

from reproduce.papers.pmsfl.attack_runs import (
    MEASURES,
    RUN,
    STAGES,
    attack_run,
    attack_tasks,
    by_seed,
    unpacked,
)
from split_attacks import TINY

WEIGHTS, MASKS = (config for _, config, _ in attack_tasks(TINY | {"seeds": 1}))


@pytest.fixture(scope="module")
def result():
    return by_seed([attack_run(WEIGHTS, 0), attack_run(MASKS, 0)], 1)[0]


def test_runs_return_what_they_promise_and_json(result):
    json.dumps(result)
    names = set(result["attacks"])
    assert {"splitfed", "dp 5", "dp 0.1, many rounds", "dp 5, whole record"} <= names
    assert {"splitfed, gradients", "dp 5, gradients", "splitfed, no public images"} <= names
    assert {"dp 5, median of many rounds", "dp 0.1, median of many rounds"} <= names
    for attacker in (
        "mask inferred",
        "several copies, each mask inferred",
        "many rounds, more masks averaged",
    ):
        assert {f"pmsfl, {stage}, {attacker}" for stage in STAGES} <= names
    for one in result["attacks"].values():
        assert all(len(one[m]) == 4 for m in MEASURES)
        assert unpacked(one["shown"]).shape == (2, 1, 8, 8)
    assert result["activations"] * 4 == result["counts"]["equations"]
    assert result["scales"]["dp 5"] == pytest.approx(2 / 5)
    assert result["scales"]["dp 5, whole record"] == pytest.approx(2 / 5 * result["activations"])
    assert len(result["entropy"]) == 2 and result["entropy"][0] == 1.0


def test_the_same_seed_gives_the_same_run(result):
    few = WEIGHTS | {"gradients": False, "epsilons": [5.0]}
    one, two = attack_run(few, 0), attack_run(few, 0)
    assert one == two
    assert one["shown"] == result["shown"]
    assert attack_run(few, 1)["shown"] != one["shown"]


def test_images_of_a_record_are_bytes_of_their_shape(result):
    packed = result["shown"]
    assert unpacked(packed).dtype == "uint8"
    assert unpacked(packed).min() < unpacked(packed).max()
    with pytest.raises(ValueError):
        unpacked(packed | {"shape": [3, 1, 8, 8]})
    with pytest.raises(ValueError):
        unpacked(packed | {"bytes": "*" + packed["bytes"]})


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (WEIGHTS, {"restarts": 0}, "restarts must be"),
        (MASKS, {"copies": 0}, "copies must be"),
        (MASKS, {"versions": 0}, "versions must be"),
        (WEIGHTS, {"images": 1}, "images must be"),
        (WEIGHTS, {"depth": 4}, "depth must be"),
        (WEIGHTS, {"epsilons": []}, "epsilons must hold"),
        (WEIGHTS, {"epsilons": [0.0]}, "epsilons must be"),
        (MASKS, {"images": 100_000}, "images must be"),
        (MASKS, {"data": "generated_radar"}, "data must be images"),
        (WEIGHTS, {"unknown": 1}, "unknown"),
        (WEIGHTS, {"copies": 3}, "has the unknown 'copies'"),
        (MASKS, {"epsilons": [5.0]}, "has the unknown 'epsilons'"),
    ],
)
def test_wrong_configurations_are_refused(config, changes, message):
    with pytest.raises(ValueError, match=message):
        attack_run(config | changes, 0)


@pytest.mark.parametrize("config", [WEIGHTS, MASKS])
def test_a_missing_key_is_named(config):
    with pytest.raises(ValueError, match="misses 'steps'"):
        attack_run({k: v for k, v in config.items() if k != "steps"}, 0)


def test_tasks_carry_what_a_run_needs():
    tasks = attack_tasks(TINY | {"seeds": 2, "profile": "quick"})
    expected = [(RUN, config, seed) for config in (WEIGHTS, MASKS) for seed in (0, 1)]
    assert tasks == expected
    assert WEIGHTS.keys() | MASKS.keys() == TINY.keys()
    assert all(
        config[key] == TINY[key] for _, config, _ in tasks for key in config.keys() - {"masks"}
    )


def test_figures_without_masks_attack_weights_only():
    assert attack_tasks(TINY | {"seeds": 1, "masks": False}) == [(RUN, WEIGHTS, 0)]
