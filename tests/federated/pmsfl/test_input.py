"""Split learning with odd clients and bad input: one clear error, or a defined behaviour."""

import numpy as np
import pytest
import torch

from federations import config, data, make, plan
from repro.federated.client_data import ClientData
from repro.federated.pmsfl import masks
from repro.federated.pmsfl.evaluation import client_accuracies
from repro.federated.pmsfl.split_method import DivergedError
from reproduce.papers.pmsfl.federations import load_clients
from reproduce.papers.pmsfl.runs import depths, pmsfl_run


@pytest.mark.parametrize("participation", [0, 0.0, 0.01, 0.1])
def test_one_client_takes_part_where_the_share_rounds_to_none(participation):
    method = make(participation=participation)  # Algorithm 1, line 4: max(C N, 1)
    assert len(method.begin(0)[0].clients) == 1


@pytest.mark.parametrize("participation", [0.5, 0.99, 1.0])
def test_the_share_of_clients_is_rounded_down(participation):
    method = make(participation=participation)
    drawn = method.begin(0)[0].clients
    assert len(set(drawn.tolist())) == len(drawn) == int(6 * participation)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"participation": -0.1}, r"participation must be in \[0, 1\], got -0.1"),
        ({"participation": 1.5}, r"participation must be in \[0, 1\], got 1.5"),
        ({"floor": 0.5}, r"floor must be in \[0, 1/2\), got 0.5"),
        ({"floor": "0.1"}, r"floor must be in \[0, 1/2\), got '0.1'"),
        ({"floor": None}, r"floor must be in \[0, 1/2\), got None"),
        ({"gradient": "exact"}, "gradient must be one of 'paper', 'straight_through', got 'exact'"),
        ({"mask_rate": float("nan")}, "mask_rate must be positive and finite, got nan"),
    ],
)
def test_a_plan_is_checked_before_anything_runs(change, message):
    with pytest.raises(ValueError, match=message):
        plan(**change)


@pytest.mark.parametrize(
    ("method", "change", "message"),
    [
        ("pmsfl", {"agreement": 4}, r"agreement must be an integer in \[0, 3\], got 4"),
        ("pmsfl", {"ratio": -0.5}, r"ratio must be in \[0, 1\], got -0.5"),
        ("splitfed", {"heterogeneous": "no"}, "heterogeneous must be True or False, got 'no'"),
        ("splitfed", {"clients": 300}, "clients must be at most 299 for 1,797 records .*, got 300"),
        (
            "splitfed",
            {"data": "digits_personal", "clients": 1000},
            "client 0 must have at least 2 records, one to train on and one to test, got 1",
        ),
        ("splitfed", {"evaluate_every": 0}, "evaluate_every must be an integer >= 1, got 0"),
        ("splitfed", {"reference": 0}, "reference must be an integer >= 1, got 0"),
        ("splitfed", {"chunk": 0}, "chunk must be an integer >= 1, got 0"),
        ("splitfed", {"checkpoint": -1}, "checkpoint must be an integer >= 0, got -1"),
        ("splitfed_dp", {"update_delta": 0.0}, r"update_delta must be in \(0, 1\), got 0.0"),
        ("splitfed_dp", {"update_delta": 2.0}, r"update_delta must be in \(0, 1\), got 2.0"),
        ("splitfed_dp", {"smashed_epsilon": 0}, "smashed_epsilon must be positive and finite"),
        ("lg_fedavg", {"local_blocks": 5}, r"local_blocks must be an integer in \[0, 4\], got 5"),
    ],
)
def test_a_configuration_out_of_range_is_one_clear_error(method, change, message):
    with pytest.raises(ValueError, match=message):
        pmsfl_run(config(method, **change), 0)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
@pytest.mark.parametrize("agreement", [0, 3])
def test_the_ends_of_ratio_and_agreement_run(ratio, agreement):
    found = pmsfl_run(config("pmsfl", ratio=ratio, agreement=agreement, participation=1.0), 0)
    assert found["personal"] == (ratio if agreement == 0 else 0.0)
    assert ("indicator" in found["up"]) == (ratio > 0 and agreement == 0)


def test_a_run_without_a_floor_ends_and_says_what_froze():
    found = pmsfl_run(config("pmsfl", floor=0.0, participation=0.1), 0)
    assert found["frozen"] == [0.0, 1.0, 1.0]  # one participant: its bits are the average


def federation(train, test, labels=(0, 1, 1, 0)):
    return ClientData(
        np.zeros((4, 1, 8, 8), np.float32), np.array(labels), 2,
        tuple(map(np.array, train)), tuple(map(np.array, test)), "odd", "generated", "0",
    )  # fmt: skip


def test_who_holds_what_is_checked():
    federation([[0], [1]], [[2], [3]])
    for train, test, message in (
        ([[0, 1]], [[1, 2]], "record 1 must be in one place only"),
        ([[0], [0]], [[2], [3]], "record 0 must be in one place only"),
        ([[0], [1]], [[2], [4]], r"places in \[0, 3\]"),
        ([[0], [-1]], [[2], [3]], r"places in \[0, 3\]"),
        ([[0], [1]], [[2]], "one list for each client, got 2 and 1"),
        ([], [], "one list for each client, got 0 and 0"),
    ):
        with pytest.raises(ValueError, match=message):
            federation(train, test)
    with pytest.raises(ValueError, match=r"labels must be in \[0, 1\]"):
        federation([[0]], [[1]], labels=(0, 1, 2, 0))


def test_a_round_of_empty_masks_is_survived(monkeypatch):
    method = make("pmsfl", mixed=True, participation=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(masks, "sample", lambda theta, generator: torch.zeros_like(theta))
        method.round(0)
    first = method.blocks.size(1)  # held by all: nothing but their zeros is averaged
    assert torch.equal(method.shared[:first], torch.zeros(first))
    used = method.kind.public(method.kind.trainable(method.shared))
    assert used.min() == method.plan.floor
    method.round(1)
    assert torch.isfinite(method.shared).all() and method.shared[:first].max() > 0


@pytest.mark.parametrize("name", ["local_only", "depthfl"])
def test_a_loss_that_a_client_computes_alone_is_watched_too(name):
    method = make(name)
    exits = method.heads if name == "local_only" else method.exits[0]
    exits.fill_(float("nan"))
    with pytest.raises(DivergedError, match="the loss is nan in round 0, iteration 0"):
        method.round(0)


def test_a_model_that_broke_in_the_last_step_has_no_accuracy():
    method = make()
    with torch.no_grad():
        method.network.head[-1].bias.fill_(float("nan"))
    with pytest.raises(DivergedError, match="not finite in evaluation 7"):
        client_accuracies(method, 7, reference=4, chunk=4)


def test_rates_that_are_much_too_large_end_the_run():
    sequences = config("splitfed", data="generated_radar", width=8, clients=3, rate=1e30)
    with pytest.raises(DivergedError, match=r"the loss is (nan|inf) in round 0"):
        pmsfl_run(sequences, 0)


def test_depths_need_a_truth_value():
    assert depths(3, False).tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="heterogeneous"):
        depths(3, 1)


def test_federations_have_as_many_clients_as_asked():
    with pytest.raises(ValueError, match="clients must be an integer >= 1, got 0"):
        load_clients("digits_dirichlet", clients=0, seed=0)
    with pytest.raises(ValueError, match="seed must be an integer >= 0, got -1"):
        load_clients("digits_dirichlet", clients=5, seed=-1)
    assert data(clients=1).clients == 1
