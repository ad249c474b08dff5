"""The training runs of figures 6 and 7: their configurations, their noise, and one run as a function."""

import json

import pytest

from repro.accounting import OnlyLocalSampling, WeakClientSampling
from repro.accounting.random_participation.mechanisms import CountRevealed
from reproduce.papers.random_participation.runs import (
    CURVES,
    justified_noise,
    training_run,
    training_tasks,
)

PARAMETERS = {
    "data": "digits", "model": "digits_mlp", "device": "cpu", "clients": 48, "records": 30,
    "p": 0.486, "q": 0.1, "clip": 1.0, "momentum": 0.9, "learning_rate": 0.1,
    "learning_rate_baselines": 0.005, "iterations": 40, "evaluate_every": 20, "seeds": 2,
    "epsilon": 0.015, "delta": 1e-6, "guarantee_p": 0.001, "guarantee_q": 0.1,
    "guarantee_records": 30, "sigma_paper": 1.065,
}  # fmt: skip


def test_the_tasks_of_a_figure():
    tasks = training_tasks(PARAMETERS)
    assert len(tasks) == 2 * len(CURVES) and [seed for _, _, seed in tasks] == [0, 1] * len(CURVES)
    assert {f for f, _, _ in tasks} == {"random_participation/training"}
    sigma = [config["sigma"] for _, config, _ in tasks[::2]]
    assert sigma == sorted(sigma) and sigma[3] == 1.065
    assert tasks[0][1]["clip"] is None and all(config["clip"] == 1.0 for _, config, _ in tasks[2:])
    assert [c["learning_rate"] for _, c, _ in tasks[::2]] == [
        0.1,
        0.1,
        0.005,
        0.1,
        0.1,
        0.005,
        0.005,
    ]


def test_one_learning_rate_needs_one_control_without_noise():
    tasks = training_tasks(PARAMETERS | {"learning_rate_baselines": 0.1})
    assert len(tasks) == 2 * (len(CURVES) - 1)


def test_noise_levels_are_rounded_up_and_justified():
    sigma = justified_noise(0.015, 1e-6, p=0.1, q=0.001, samples_per_client=1000, clip=1.0)
    mechanisms = {
        "scheme": CountRevealed(sigma["scheme"], p=0.1, q=0.001, samples_per_client=1000),
        "wcs": WeakClientSampling(sigma["wcs"], p=0.1, q=0.001),
        "ols": OnlyLocalSampling(sigma["ols"], q=0.001),
    }
    for name, mechanism in mechanisms.items():
        assert float(mechanism.delta(0.015)) <= 1e-6, name
        assert sigma[name] == float(f"{sigma[name]:.3g}")
    assert (
        float(
            CountRevealed(
                0.99 * sigma["scheme"] - 0.001, p=0.1, q=0.001, samples_per_client=1000
            ).delta(0.015)
        )
        > 1e-6
    )


def test_a_run_is_a_pure_function_and_json_able():
    _, config, _ = training_tasks(PARAMETERS)[6]
    first, again, other = (training_run(config, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert first["iteration"] == [0, 20, 40] and len(first["accuracy"]) == 3
    assert all(0 <= a <= 1 for a in first["accuracy"]) and first["parameters"] == 2410
    assert first["data"]["sha256"] and first["mean_batch"] == pytest.approx(69.98, abs=0.01)


def test_training_without_privacy_learns_and_beats_the_trivial_answer():
    _, config, _ = training_tasks({**PARAMETERS, "iterations": 150})[0]
    run = training_run(config, 0)
    assert run["accuracy"][-1] > 0.9 > 0.2 > run["majority"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": 49}, "at most 1,440"),
        ({"clients": 0}, "clients must"),
        ({"data": "mnist"}, "data must"),
        ({"model": "resnet"}, "name must"),
        ({"device": "tpu"}, "device must"),
        ({"extra": 1}, "unknown 'extra'"),
    ],
)
def test_bad_configurations(change, message):
    _, config, _ = training_tasks(PARAMETERS)[0]
    with pytest.raises(ValueError, match=message):
        training_run({**config, **change}, 0)
    with pytest.raises(ValueError, match="misses 'q'"):
        training_run({k: v for k, v in config.items() if k != "q"}, 0)
