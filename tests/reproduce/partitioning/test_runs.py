"""Runs and rows of tables 1 and 2 and section 4.2."""

import json

import pytest

from partitioning_parameters import SAMPLING, TABLE
from reproduce import paths
from reproduce.papers.partitioning.runs import (
    partitioning_run,
    sampling_curves,
    sampling_tasks,
    table_curves,
    table_tasks,
)


@pytest.fixture(autouse=True)
def runs(tmp_path_factory, monkeypatch):
    """Pretrained models are kept, but not among those of the project."""
    monkeypatch.setattr(paths, "RUNS", tmp_path_factory.getbasetemp() / "runs")


def configuration(**change):
    _, config, _ = table_tasks(TABLE)[0]
    return {**config, "submodels": 3, "clip": 0.5, "unsplit_clip": 0.5, **change}


def test_the_rows_of_a_table():
    curves = table_curves(TABLE)
    assert list(curves) == [
        *("not_private", "clipped_1", "clipped_3", "clipped_8", "relaxation"),
        *("amplification_3", "amplification_8", "baseline_3", "baseline_8"),
    ]
    assert curves["not_private"]["clip"] is None and not curves["not_private"]["sigma"]
    assert curves["amplification_8"] == {
        "submodels": 8,
        "clip": 0.5,
        "unsplit_clip": 0.5,
        "sigma": 0.5,
    }
    for row in ("baseline_3", "baseline_8", "relaxation"):
        assert curves[row]["sigma"] == 0.7
    tasks = table_tasks(TABLE)
    assert len(tasks) == 18 and [seed for _, _, seed in tasks] == [0, 1] * 9
    assert all(isinstance(config["submodels"], int) for _, config, _ in tasks)


def test_fine_tuning_with_poisson_sampling_is_the_relaxation_of_table_1():
    """The paper gives both the same accuracy; here they are one run."""
    table = {json.dumps(c, sort_keys=True) for _, c, _ in table_tasks(TABLE)}
    names = [name for name in sampling_curves(SAMPLING) for _ in range(2)]
    shared = {
        name
        for name, (_, c, _) in zip(names, sampling_tasks(SAMPLING), strict=True)
        if json.dumps(c, sort_keys=True) in table
    }
    assert shared == {"tuned_clipped", "tuned_poisson"}


@pytest.mark.parametrize("users", [1, 2])
def test_a_run_is_a_pure_function_and_json_able(users):
    config = configuration(samples_per_user=users, sigma=0.3)
    first, again, other = (partitioning_run(config, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert first["iteration"] == [0, 2, 3]
    for key in ("accuracy", "loss", "batch", "signal", "noise", "clipped", "unsplit_clipped"):
        assert len(first[key]) == 3, key
    assert first["mean_batch"] == pytest.approx(60 / users / 3)
    assert 0 < first["split_parameters"] < first["parameters"]
    assert 0 < first["pretrained"] <= 0.81 and first["epochs"] == 1


def test_private_records_are_not_those_of_the_pretraining_and_number_of_submodels_may_vary():
    """d = 1 and d = 3 start from the same model: equal accuracy before the first iteration."""
    one, three = (partitioning_run(configuration(submodels=d, sigma=0.0), 0) for d in (1, 3))
    assert one["accuracy"][0] == three["accuracy"][0]
    assert one["accuracy"] != three["accuracy"]


def test_from_scratch_nothing_is_pretrained_and_all_data_can_be_used():
    config = configuration(
        start="scratch", records=0, iterations=12, sampling="balanced", sigma=0.0, evaluate_every=12
    )
    run = partitioning_run(config, 0)
    assert run["epochs"] == 0 and run["pretrained"] == 0
    assert run["mean_batch"] == 1440 / 12


def test_training_without_privacy_learns():
    config = configuration(
        start="scratch", records=300, iterations=20, participations=6, evaluate_every=20,
        clip=None, unsplit_clip=None, submodels=1, learning_rate=0.05,
    )  # fmt: skip
    run = partitioning_run(config, 0)
    assert run["loss"][-1] < run["loss"][0] - 0.1
    assert run["clipped"] == [0, 0] and run["noise"] == [0, 0] and 0.05 < run["majority"] < 0.15


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"records": 800}, r"records must be an integer in \[0, 72\d\]"),
        ({"data": "mnist"}, "data must be one of"),
        ({"model": "resnet18"}, "name must be one of"),
        ({"device": "tpu"}, "device must be one of"),
        ({"start": "cold"}, "start must be one of"),
        ({"sampling": "shuffle"}, "sampling must be one of"),
        ({"participations": 4}, r"participations must be an integer in \[1, 3\]"),
        ({"memory": 0}, "memory must be an integer >= 1"),
        ({"samples_per_user": 0}, "samples_per_user must be an integer >= 1"),
        ({"extra": 1}, "unknown 'extra'"),
    ],
)
def test_bad_configurations(change, message):
    with pytest.raises(ValueError, match=message):
        partitioning_run(configuration(**change), 0)
    config = configuration()
    del config["clip"]
    with pytest.raises(ValueError, match="misses 'clip'"):
        partitioning_run(config, 0)
