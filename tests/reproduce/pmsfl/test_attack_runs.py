"""The attack run of pmsfl at a tiny size: what it returns, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reproduce.papers.pmsfl.attack_runs import (
    MEASURES,
    RUN,
    STAGES,
    attack_run,
    attack_tasks,
)
from split_attacks import TINY


@pytest.fixture(scope="module")
def result():
    return attack_run(TINY, 0)


def test_a_run_returns_what_it_promises_and_json(result):
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
        assert np.shape(one["shown"]) == (2, 1, 8, 8)
    assert result["activations"] * 4 == result["counts"]["equations"]
    assert result["scales"]["dp 5"] == pytest.approx(2 / 5)
    assert result["scales"]["dp 5, whole record"] == pytest.approx(2 / 5 * result["activations"])
    assert len(result["entropy"]) == 2 and result["entropy"][0] == 1.0


def test_the_same_seed_gives_the_same_run(result):
    few = TINY | {"masks": False, "gradients": False, "epsilons": [5.0]}
    one, two = attack_run(few, 0), attack_run(few, 0)
    assert one == two
    assert one["shown"] == result["shown"]
    assert attack_run(few, 1)["shown"] != one["shown"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"restarts": 0}, "restarts must be"),
        ({"copies": 0}, "copies must be"),
        ({"versions": 0}, "versions must be"),
        ({"images": 1}, "images must be"),
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
        attack_run(TINY | changes, 0)


def test_a_missing_key_is_named():
    with pytest.raises(ValueError, match="misses 'steps'"):
        attack_run({k: v for k, v in TINY.items() if k != "steps"}, 0)


def test_tasks_carry_what_a_run_needs():
    tasks = attack_tasks(TINY | {"seeds": 2, "profile": "quick"})
    assert [(function, seed) for function, _, seed in tasks] == [(RUN, 0), (RUN, 1)]
    assert all(config == TINY for _, config, _ in tasks)
