"""The training runs of pmsfl: the same bits again, in pieces too, and clear errors."""

from __future__ import annotations

import numpy as np
import pytest

from federations import CPU, config, make
from repro.federated.pmsfl.split_method import DivergedError
from reproduce import paths
from reproduce.papers.pmsfl import checkpoint
from reproduce.papers.pmsfl.checkpoint import sources
from reproduce.papers.pmsfl.runs import METHODS, depths, device_of, keys_of, pmsfl_run


@pytest.mark.parametrize("method", ["splitfed_dp", "depthfl", "pmsfl", "local_only"])
def test_same_configuration_same_bits_and_interruptions_change_nothing(
    method, tmp_path, monkeypatch
):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    mixed = {"heterogeneous": True}
    whole = pmsfl_run(config(method, **mixed), 1)
    assert pmsfl_run(config(method, **mixed), 1) == whole
    assert whole["round"] == [0, 2, 3] and len(whole["accuracy"]) == 3

    kind, original = METHODS[method], METHODS[method].round

    def interrupted(self, number):
        if number == 2:
            raise KeyboardInterrupt
        original(self, number)

    pieces = config(method, **mixed, checkpoint=1)
    monkeypatch.setattr(kind, "round", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pmsfl_run(pieces, 1)
    assert len(list((tmp_path / "unfinished").glob("*.pt"))) == 1
    monkeypatch.setattr(kind, "round", original)
    assert pmsfl_run(pieces, 1) == whole
    assert not list((tmp_path / "unfinished").glob("*.pt"))


def test_methods_of_one_seed_share_data_participants_and_batches():
    one, two = make("splitfed"), make("splitfed_pm")
    first, second = one.begin(1)[0], two.begin(1)[0]
    assert np.array_equal(first.clients, second.clients)
    assert np.array_equal(one._places(first, 1), two._places(second, 1))


def test_configurations_are_checked():
    good = config("pmsfl")
    for change, told in (
        ({"ratio": 1.5}, "ratio"),
        ({"data": "mnist"}, "name must be one of"),
        ({"device": "tpu"}, "device"),
        ({"gradient": "exact"}, "gradient"),
        ({"floor": 0.5}, "floor"),
    ):
        with pytest.raises(ValueError, match=told):
            pmsfl_run({**good, **change}, 0)
    with pytest.raises(ValueError, match="misses 'ratio'"):
        pmsfl_run({k: v for k, v in good.items() if k != "ratio"}, 0)
    with pytest.raises(ValueError, match="has the unknown 'ratio'"):
        pmsfl_run({**config("splitfed"), "ratio": 0.5}, 0)
    with pytest.raises(ValueError, match="method must be one of"):
        keys_of("fedavg")
    assert device_of("cpu") == CPU


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


def test_a_run_without_a_floor_ends_and_says_what_froze():
    found = pmsfl_run(config("pmsfl", floor=0.0, participation=0.1), 0)
    assert found["frozen"] == [0.0, 1.0, 1.0]  # one participant: its bits are the average


def test_rates_that_are_much_too_large_end_the_run():
    sequences = config("splitfed", data="generated_radar", width=8, clients=3, rate=1e30)
    with pytest.raises(DivergedError, match=r"the loss is (nan|inf) in round 0"):
        pmsfl_run(sequences, 0)


def test_depths_need_a_truth_value():
    assert depths(3, False).tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="heterogeneous"):
        depths(3, 1)


def test_a_state_is_named_by_all_code_that_trains():
    """Before, the code was looked for in the wrong folder, and not below it."""
    names = {"/".join(path.parts[-3:]) for path in sources()}
    assert {"federated/pmsfl/algorithm.py", "federated/pmsfl/split_method.py"} <= names
    assert {"repro/models/split.py", "repro/federated/client_data.py"} <= names
    assert {"papers/pmsfl/runs.py", "papers/pmsfl/federations.py"} <= names


def test_other_code_never_continues_a_state(tmp_path, monkeypatch):
    code = tmp_path / "code.py"
    monkeypatch.setattr(checkpoint, "sources", lambda: [code])
    code.write_text("rate = 1")
    names = [checkpoint.Checkpoint(config("splitfed"), 0, 1).path.name]
    names.append(checkpoint.Checkpoint(config("splitfed"), 1, 1).path.name)
    code.write_text("rate = 2")
    names.append(checkpoint.Checkpoint(config("splitfed"), 0, 1).path.name)
    assert len(set(names)) == 3
    code.write_text("rate = 1")
    assert checkpoint.Checkpoint(config("splitfed"), 0, 1).path.name == names[0]
