"""The runs behind figure 2 of mspafl: their variants, what they measure, and how they are compared."""

import json
import math

import numpy as np
import pytest
from scipy.stats import norm

from repro.datasets.adult import load_adult
from repro.federated.mspafl.algorithm import LocalTraining, Variant, train
from repro.models.logistic import signed
from reproduce.papers.mspafl import compare
from reproduce.papers.mspafl.runs import (
    METHODS,
    mspafl_run,
    mspafl_tasks,
    noise_level,
    variant,
)

PARAMETERS = {
    "data": "adult", "features": "scaled", "test_records": 300, "clients": 20, "records": 30,
    "p": [0.2, 0.6], "epsilon": 1.0, "delta": 1e-4, "clip": 1.0, "steps": 5, "batch": 5,
    "learning_rate": 0.1, "regularisation": 1e-4, "rounds": 16, "evaluate_every": 4, "seeds": 3,
    "readings": ["scaled", "one_hot"], "learning_rates": [0.1, 1.0], "reading_seeds": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def records():
    """Every run of a small figure, as the task pool would hand them out."""
    return [
        {"config": config, "result": mspafl_run(config, seed)}
        for _, config, seed in mspafl_tasks(PARAMETERS)
    ]


def test_the_noise_is_that_of_lemma_1():
    """Computed from the formula again, and checked against the exact profile of the mechanism."""
    sigma = noise_level(1.0, 1e-4, 1.0)
    assert sigma == pytest.approx(math.sqrt(2 * 2**2 * math.log(1.25e4)), rel=1e-5)
    assert sigma == float(f"{sigma:.6g}") and noise_level(1.0, 1e-4, 3.0) == pytest.approx(
        3 * sigma, rel=1e-5
    )
    ratio = 2 / sigma
    delta = norm.cdf(ratio / 2 - 1 / ratio) - math.e * norm.cdf(-ratio / 2 - 1 / ratio)
    assert delta < 1e-4


def test_the_methods_are_settings_of_the_algorithm():
    common = {"p": 0.3, "learning_rate": 0.1, "clip": 1.0, "sigma": 8.7}
    found = {method: variant(method, 14, **common) for method in METHODS}
    assert found["mspafl"] == Variant(0.3, 7, 0.1, 1.0, 8.7)
    assert found["noise_only"] == Variant(0.3, 7, 0.1, 1.0, 8.7, informative=False)
    assert found["alone"].public == 0 and found["fedavg"].public == found["dp_fedavg"].public == 14
    assert found["fedavg"].clip == math.inf and found["fedavg"].sigma == 0 == found["alone"].sigma
    assert found["dp_fedavg"].sigma == 8.7 and found["split_clean"] == Variant(0.3, 7, 0.1)
    assert variant("mspafl", 15, **common).public == 7
    with pytest.raises(ValueError, match="method must be one of"):
        variant("fedprox", 14, **common)


def test_the_tasks_of_the_figure():
    tasks = mspafl_tasks(PARAMETERS)
    assert len(tasks) == 2 * 2 * 3 + 2 * 2 * 2
    assert {f for f, _, _ in tasks} == {"mspafl/training"}
    curves = [config for _, config, _ in tasks if config["methods"] == list(METHODS)]
    assert {(c["split"], c["replacement"]) for c in curves} == {
        (s, r) for s in ("one_label", "shuffled") for r in (False, True)
    }
    assert all(c["learning_rates"] == [0.1] and c["evaluate_every"] == 4 for c in curves)
    others = [config for _, config, _ in tasks if config["methods"] != list(METHODS)]
    assert all(c["learning_rates"] == [0.1, 1.0] and not c["replacement"] for c in others)
    assert all(config["sigma"] == noise_level(1.0, 1e-4, 1.0) for _, config, _ in tasks)


def test_a_run_is_a_pure_function_and_json_able():
    _, config, _ = mspafl_tasks(PARAMETERS)[0]
    first, again, other = (mspafl_run(config, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert first["round"] == [0, 4, 8, 12, 16] and len(first["variants"]) == 12
    assert first["holders"] == {"only <=50K": 15, "only >50K": 5, "both": 0}
    assert first["size"] == 14 and "uci.edu" in first["data"]["source"]
    for name in ("accuracy", "own", "averaged"):
        assert np.shape(first[name]) == (12, 5) and 0 <= np.min(first[name])
        assert np.max(first[name]) <= 1
    # at the start all models are zero and answer class 0
    start = np.array(first["accuracy"])[:, 0]
    assert (start == first["majority"]).all()


def test_what_is_measured_is_what_a_direct_evaluation_finds():
    """Accuracy, own labels and averaged model recomputed from the final models, client by client."""
    _, config, _ = mspafl_tasks(PARAMETERS)[0]
    run = mspafl_run(config, 4)
    training, test = load_adult("train"), load_adult("test")
    features, labels = test.features[:300], test.labels[:300]
    from repro.federated.client_data import deal

    rng = np.random.default_rng(np.random.SeedSequence(4, spawn_key=(3,)))
    holdings = deal(training.labels, 20, 30, "one_label", rng)
    variants = [
        variant(m, 14, p=p, learning_rate=0.1, clip=1.0, sigma=config["sigma"])
        for m in METHODS
        for p in (0.2, 0.6)
    ]
    seen = []
    vectors = signed(training.features, training.labels)
    local = LocalTraining(5, 5, False, 1e-4)
    models = train(vectors, holdings[None], variants, local, 16, [4], seen.append, 4)[0]
    for k in range(len(variants)):
        right = (features @ models[:, k].T > 0) == (labels == 1)[:, None]  # records, clients
        own = [right[labels == training.labels[holdings[i, 0]], i].mean() for i in range(20)]
        mean = ((features @ models[:, k].mean(axis=0) > 0) == (labels == 1)).mean()
        assert run["accuracy"][k][-1] == pytest.approx(right.mean(), abs=1e-5)
        assert run["own"][k][-1] == pytest.approx(np.mean(own), abs=1e-5)
        assert run["averaged"][k][-1] == pytest.approx(mean, abs=1e-5)
        noise = np.mean([np.square(one.noise[0, k]).sum() for one in seen])
        data = np.mean([np.square(one.signal[0, k] - one.echo[0, k]).sum() for one in seen])
        assert run["power"]["noise"][k] == pytest.approx(noise, rel=1e-4)
        assert run["power"]["data"][k] == pytest.approx(data, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "by_sex"}, "split must"),
        ({"data": "digits"}, "data must"),
        ({"features": "raw"}, "features must"),
        ({"device": "cuda"}, "device must"),
        ({"test_records": 0}, "test_records must"),
        ({"test_records": 1}, "test_records must reach records of both classes"),
        ({"clients": 2000}, "clients . records must be at most 32,561"),
        ({"batch": 7}, r"draws \(Q b\) must be at most the 30 records"),
        ({"p": [1.2]}, "p must be in"),
        ({"extra": 1}, "unknown 'extra'"),
    ],
)
def test_bad_configurations(change, message):
    _, config, _ = mspafl_tasks(PARAMETERS)[0]
    with pytest.raises(ValueError, match=message):
        mspafl_run({**config, **change}, 0)
    with pytest.raises(ValueError, match="misses 'clip'"):
        mspafl_run({k: v for k, v in config.items() if k != "clip"}, 0)


def test_the_published_runs_are_complete_and_serve_both_larger_profiles():
    from reproduce import catalogue, paths
    from reproduce.tasks import Task

    figure = catalogue.figure("mspafl/fig2")
    desk, paper = (
        [Task(*row).key for row in mspafl_tasks(figure.parameters(profile))]
        for profile in ("desk", "paper")
    )
    assert desk == paper and len(set(desk)) == len(desk)
    for path in (paths.PUBLISHED / "mspafl/fig2/desk").glob("*.json"):
        result = json.loads(path.read_text())["result"]
        shape = len(result["variants"]), len(result["round"])
        assert result["round"] == sorted(set(result["round"])) and result["round"][-1] == 200
        for key in ("accuracy", "own", "averaged"):
            assert np.shape(result[key]) == shape, (path.name, key)
            assert 0 <= np.min(result[key]) and np.max(result[key]) <= 1
        assert result["majority"] == 0.76377


# ---------------------------------------------------------------- comparing runs


def test_records_are_sorted_into_curves_and_readings(records):
    curves, readings = compare.curves(records), compare.readings(records)
    assert set(curves) == {(s, r) for s in ("one_label", "shuffled") for r in (False, True)}
    assert set(readings) == {
        (f, s) for f in ("scaled", "one_hot") for s in ("one_label", "shuffled")
    }
    runs = curves["one_label", False]
    assert set(runs) == {(m, p, 0.1) for m in METHODS for p in (0.2, 0.6)}
    assert runs["alone", 0.2, 0.1]["own"].shape == (3, 5)
    assert runs["fedavg", 0.6, 0.1]["signal"].shape == (3,)
    wanted = records[1]["result"]["accuracy"][1]  # second seed, MS-PAFL at p = 0.6
    assert runs["mspafl", 0.6, 0.1]["accuracy"][1].tolist() == wanted
    with pytest.raises(ValueError, match="all of the same variants"):
        compare.stack([records[0]["result"], records[-1]["result"]])
    with pytest.raises(ValueError, match="at least one run"):
        compare.stack([])


def test_runs_of_one_seed_share_check_ins_and_noise(records):
    """Whatever the sampling, the split or the method: the noise in the average is the same."""
    curves = compare.curves(records)
    noise = [curves[key]["mspafl", 0.6, 0.1]["noise"] for key in curves]
    noise.append(curves["one_label", False]["noise_only", 0.6, 0.1]["noise"])
    for other in noise[1:]:
        np.testing.assert_allclose(other, noise[0], rtol=1e-4)


def invented():
    """Two methods, two p, two seeds, with round numbers."""
    runs = {}
    for k, method in enumerate(("mspafl", "alone")):
        for j, p in enumerate((0.1, 0.7)):
            base = 0.5 + 0.1 * k + 0.2 * j
            accuracy = np.array([[0.9, base, base + 0.1], [0.9, base, base + 0.3]])
            runs[method, p, 0.1] = {
                "accuracy": accuracy,
                "signal": np.array([1.0, 3.0]),
                "data": np.array([0.1, 0.3]),
                "noise": np.array([10.0, 30.0]),
            }
    return runs


def test_measures_of_a_curve():
    runs = invented()
    accuracy = runs["mspafl", 0.1, 0.1]["accuracy"]
    np.testing.assert_allclose(compare.whole(accuracy), [0.55, 0.65])
    np.testing.assert_allclose(compare.wobble(accuracy), [0.1, 0.3])
    np.testing.assert_allclose(compare.wobble([[9.0, 1.0, 4.0, 0.0]]), math.sqrt((9 + 16) / 2))
    loud = compare.loudness(runs["mspafl", 0.1, 0.1])
    assert loud["signal to noise"] == pytest.approx(0.1) and loud["data"] == pytest.approx(0.2)


def test_gaps_and_averages_are_paired_by_seed():
    runs = invented()
    by_key = compare.gaps(runs, "mspafl", "alone")
    assert set(by_key) == {(0.1, 0.1), (0.7, 0.1)}
    for one in by_key.values():
        assert one.mean == pytest.approx(-0.1) and one.high - one.low < 1e-12 and one.sign == -1
    found = compare.averages(runs, "mspafl")
    np.testing.assert_allclose(found["final"], [0.7, 0.9])
    np.testing.assert_allclose(found["wobble"], [0.1, 0.3])
    rows = compare.by_p(runs, "mspafl")
    assert list(rows) == [0.1, 0.7]
    np.testing.assert_allclose(rows[0.7], [0.75, 0.85])


def test_the_late_move_compares_the_last_two_quarters():
    assert compare.late_move([[0.0, 1.0, 1.0, 1.0, 2.0, 4.0, 5.0, 5.0]]) == pytest.approx(2.0)
    assert compare.late_move([[1.0, 3.0], [1.0, 1.0]]) == pytest.approx(1.0)
