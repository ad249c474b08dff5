"""Variants of ddpsa's runs and their comparison."""

import math

import numpy as np
import pytest

from repro.federated.ddpsa.algorithm import mechanism
from reproduce.papers.ddpsa import compare as comparison
from reproduce.papers.ddpsa import stated
from reproduce.papers.ddpsa.runs import (
    ddpsa_run,
    points,
)

PARAMETERS = {"records": 500, "runs": 3, "rounds": 30}
PAIR = [mechanism(name, clients=2, clip=1.0, epsilon=0.1) for name in ("LDP", "DDP-SA")]


def test_missing_rounds_count_as_late():
    assert comparison.median_rounds([4, 1, 3, 2]) == [1, 2, 4]
    assert comparison.median_rounds([1, 2, np.nan, np.nan, np.nan]) == [1, math.inf, math.inf]
    assert comparison.median_rounds(np.arange(1, 21)) == [6, 10, 15]


def test_rounds_are_counted_to_every_loss_that_may_be_meant():
    """LDP and DDP-SA train alike and have two losses in Figure 7; No-Private and MPC have one."""
    counted = {"loss 0.0106": [10, 20, 30], "loss 0.0055": [25, 40, 50], "loss 1e-12": [5, 6, 7]}
    ldp, ddp_sa = (comparison.reached(counted, name) for name in ("LDP", "DDP-SA"))
    assert (ldp.middle, ddp_sa.middle) == (20, 40)
    assert ldp.interval == ddp_sa.interval == (10, 50)
    assert ddp_sa.text == "40 [25, 50] to a loss of 0.0055; 20 [10, 30] to a loss of 0.0106"
    assert comparison.reached(counted, "MPC", 2) == (12, (10, 14), "12 [10, 14]")


def test_losses_are_compared_run_by_run():
    runs = {"LDP, n = 2": np.array([2.0, 8.0]), "DDP-SA, n = 2": np.array([1.0, 4.0])}
    (pair,) = comparison.sides(runs, "LDP", "DDP-SA", ["n = 2"]).values()
    assert comparison.ratio(*pair).mean == pytest.approx(2)
    np.testing.assert_allclose(comparison.pooled(runs, "LDP", ["n = 2"]), [2, 8])
    assert comparison.versus_ldp({"x": runs}, ["n = 2"])["x"]["all together"].startswith("0.500 [")


def test_the_four_mechanisms_differ_in_the_parts_they_use():
    found = comparison.four_and_controls(3, 0.5, 0.2)
    parts = {name: (s.shared, s.scale > 0, s.adam) for name, s in found.items()}
    assert list(parts.items())[:4] == [
        ("No-Private", (False, False, False)),
        ("LDP", (False, True, True)),
        ("MPC", (True, False, False)),
        ("DDP-SA", (True, True, True)),
    ]
    for first, second in comparison.PAIRS:
        one, other = found[first], found[second]
        assert one.shared != other.shared and one.noise == other.noise and one.scale == other.scale
    assert found[comparison.OWN_NOISE].noise != found["LDP"].noise
    assert found["LDP"].scale == pytest.approx(2.5)


def test_results_come_back_by_name():
    parameters = {**PARAMETERS, "clients": 2, "epsilon": 0.1}
    _, config, seed = comparison.four_task(parameters, 1.0)
    assert config["points"] == points(30, stated.MARKS)
    names = list(comparison.four_and_controls(2, 1.0, 0.1))
    result = ddpsa_run(config, seed)
    found = comparison.by_name(names, result)
    assert list(found) == names
    for k, name in enumerate(names):
        np.testing.assert_array_equal(found[name]["test"], result["test"][k])
    assert np.isnan(found["LDP"]["converged: loss 1e-12"]).all()
    assert np.array(result["apart"]).shape == (3, 3)
