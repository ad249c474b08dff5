"""Rounds of ddpsa over real servers do the work that is timed."""

import numpy as np
import pytest

from repro.accounting.ddpsa.printed import MECHANISMS
from repro.datasets.plane import plane
from repro.federated.ddpsa.algorithm import mechanism, train
from reproduce.papers.ddpsa.deployment import Deployment, take_turns

COMMON = {"clients": 2, "servers": 3, "clip": 2.0, "epsilon": 0.1, "seed": 0}


@pytest.fixture(scope="module")
def deployment():
    with Deployment(60, **COMMON) as running:
        yield running


def test_rounds_of_real_servers_give_the_models_of_the_simulation(deployment):
    training = plane([0], 100)[0]
    for name in MECHANISMS:
        for _ in range(5):
            assert deployment.round(name) > 0
        setting = mechanism(name, clients=2, clip=2.0, epsilon=0.1)
        expected = train(training, [setting], 5, [0], np.zeros((1, 3)))[-1, 0, 0]
        if setting.shared:
            assert (deployment.model(name) == expected).all()
        else:  # sent in fixed point here, as they are there
            np.testing.assert_allclose(deployment.model(name), expected, atol=1e-8)


def test_only_those_that_share_send_shares(deployment):
    for name in MECHANISMS:
        deployment.round(name)
    uploads = {name: deployment.last[name].traffic["uploads"].payload for name in MECHANISMS}
    assert uploads == {"No-Private": 48, "LDP": 48, "MPC": 144, "DDP-SA": 144}
    assert {done.traffic["broadcast"].payload for done in deployment.last.values()} == {48}


@pytest.mark.parametrize("name", ["LDP", "DDP-SA"])
def test_a_round_one_by_one_leaves_the_model(deployment, name):
    before = deployment.model(name).copy()
    assert deployment.round_one_by_one(name) > 0
    assert (deployment.model(name) == before).all()
    scale = 2.0 / 0.1 / 30
    assert np.abs(deployment.last[name].total).max() < 2 * (2.0 + 40 * scale)


def test_names_and_numbers_are_checked(deployment):
    with pytest.raises(ValueError, match="name must be one of"):
        deployment.round("Private")
    with pytest.raises(ValueError, match="name must be one of 'LDP', 'DDP-SA'"):
        deployment.round_one_by_one("MPC")
    for changes, message in [
        ({"records": 61}, "records must be a multiple of 3, got 61"),
        ({"servers": 0}, "servers must be an integer >= 2"),
        ({"clients": 7}, "clients must divide the 60 records"),
    ]:
        with pytest.raises(ValueError, match=message):
            Deployment(**{"records": 60, **COMMON, **changes})


def test_mechanisms_take_turns(deployment):
    timed = take_turns(deployment, 4, 1)
    assert {name: len(times) for name, times in timed.rounds.items()} == dict.fromkeys(
        MECHANISMS, 4
    )
    assert {name: len(times) for name, times in timed.loops.items()} == {"LDP": 1, "DDP-SA": 1}
    assert timed.sent["DDP-SA"] > timed.sent["LDP"] > 0
    for name, stages in timed.split().items():
        assert min(stages.values()) > 0
        assert sum(stages.values()) < 2000 * max(timed.rounds[name])
