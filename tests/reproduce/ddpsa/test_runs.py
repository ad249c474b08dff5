"""Runs, measures and comparisons of ddpsa's training figures."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from repro.accounting.ddpsa.printed import total_epsilon
from repro.accounting.ddpsa.totals import aggregate_epsilon, equal_scale
from repro.datasets.plane import Plane, plane
from repro.federated.ddpsa.algorithm import mechanism, train
from reproduce.papers.ddpsa import compare as comparison
from reproduce.papers.ddpsa import measures
from reproduce.papers.ddpsa.runs import (
    CRITERIA,
    ddpsa_run,
    medians_run,
    medians_task,
    points,
    run_task,
    start,
)

PARAMETERS = {"records": 500, "runs": 3, "rounds": 30, "pilot_runs": 2}
PAIR = [mechanism(name, clients=2, clip=1.0, epsilon=0.1) for name in ("LDP", "DDP-SA")]


# Data ---------------------------------------------------------------------------------------------


def test_the_plane_is_split_and_labelled_as_the_paper_says():
    parts = plane([0, 1], 10_000)
    assert [part.targets.shape for part in parts] == [(2, 6000), (2, 2000), (2, 2000)]
    for part in parts:
        np.testing.assert_allclose(part.inputs[..., 0] + part.inputs[..., 1] + 1, part.targets)
        assert (part.inputs[..., 2] == 1).all()
        assert 0 <= part.inputs[..., :2].min() and part.inputs[..., :2].max() < 1
        # a variance of 1/6: what the paper's losses and R2 imply together
        assert part.targets.var(axis=1) == pytest.approx(np.full(2, 1 / 6), rel=0.1)


def test_records_depend_on_the_seed_alone():
    both, one = plane([7, 8], 100), plane([8], 100)
    for a, b in zip(both, one, strict=True):
        np.testing.assert_array_equal(a.inputs[1], b.inputs[0])
        assert not np.isclose(a.inputs[0, :, 0], a.inputs[1, :, 0]).any()


@pytest.mark.parametrize("call", [{"seeds": []}, {"seeds": [-1]}, {"records": 0}, {"records": 12}])
def test_data_out_of_range_are_refused(call):
    with pytest.raises(ValueError, match="seed|records"):
        plane(**{"seeds": [0], "records": 100} | call)


# Measures -----------------------------------------------------------------------------------------


def test_losses_are_mean_squared_errors_down_to_rounding():
    part = plane([0, 1], 1000)[2]
    exact = np.ones(3)
    path = exact + np.array([1.0, 1e-5, 1e-12])[:, None, None, None] * np.array([0.3, -0.2, 0.1])
    path = np.broadcast_to(path, (3, 2, 1, 3))
    found = measures.losses(path, part)
    direct = np.square(part.inputs @ (path[0, 0, 0] - exact)).mean(axis=1)
    for size, row in zip((1.0, 1e-10, 1e-24), found, strict=True):
        np.testing.assert_allclose(row[:, 0], size * direct, rtol=1e-2)
    assert measures.r_squared(found, part)[0, :, 0] == pytest.approx(
        1 - direct / part.targets.var(axis=1)
    )


def test_the_mean_has_r_squared_zero():
    part = plane([0], 1000)[0]
    trivial = measures.trivial_loss(part, part)
    assert trivial == pytest.approx(part.targets.var(axis=1))
    assert measures.r_squared(trivial[:, None], part) == pytest.approx(np.zeros((1, 1)))


def test_criteria_on_a_curve_that_can_be_read_by_eye():
    curve = np.array([8.0, 4.0, 2.0, 1.0, 1.0, 1.5, 1.0, 0.9, 1.0, 1.0])[:, None]
    assert measures.below(curve, 1.0) == [3]
    assert measures.below(curve, 8.0) == [0]
    assert np.isnan(measures.below(curve, 0.5))
    assert measures.flat(curve, 0.01) == [4]
    assert measures.flat(curve, 2.0) == [2]
    assert np.isnan(measures.flat(curve[:4], 0.5))
    assert measures.patient(curve, 1) == [4]
    assert measures.patient(curve, 3) == [6]
    assert np.isnan(measures.patient(curve, 4))  # the gain of round 7 comes in time
    assert measures.settled(curve, 1.2) == [6]
    assert measures.settled(curve, 100.0) == [0]
    falling = np.array([3.0, 2.0, 1.0])[:, None]
    assert np.isnan(measures.patient(falling, 1))


@pytest.mark.parametrize(
    ("rule", "value"),
    [(measures.below, 0.0), (measures.flat, -1.0), (measures.patient, 0), (measures.settled, 0.0)],
)
def test_criteria_out_of_range_are_refused(rule, value):
    with pytest.raises(ValueError, match="must be"):
        rule(np.ones((3, 1)), value)


# Runs ---------------------------------------------------------------------------------------------


def test_a_run_is_reproducible_and_a_stack_of_its_seeds():
    """The same bits again; and runs 1 and 2 of seed 5 are runs 0 and 1 of seed 6."""
    _, config, _ = run_task(PARAMETERS, PAIR, pairs=[[0, 1]])
    first = ddpsa_run(config, 5)
    assert first == ddpsa_run(config, 5)
    later = ddpsa_run({**config, "runs": 2}, 6)
    for key in ("train", "test", "r2"):
        np.testing.assert_allclose(np.array(first[key])[:, 1:], later[key], rtol=1e-5)
    assert first["trivial"][1:] == later["trivial"]
    shape = (2, 3, len(config["points"]))
    assert np.shape(first["train"]) == np.shape(first["test"]) == np.shape(first["r2"]) == shape
    assert set(first["converged"]) == set(CRITERIA)
    assert np.max(first["apart"]) < 1e-9
    np.testing.assert_allclose(first["train"][0], first["train"][1], rtol=1e-5)


def test_a_client_alone_has_its_part_of_the_records():
    """`share` keeps a client's records: the loss of training is that on the first third."""
    single = mechanism("No-Private", clients=1, clip=1.0, epsilon=0.1)
    _, config, _ = run_task(PARAMETERS, [single], share=3, points=[0, 30])
    found = ddpsa_run(config, 0)
    training, _, test = plane(range(3), 500)
    part = Plane(training.inputs[:, :100], training.targets[:, :100])
    path = train(part, [single], 30, range(3), start(range(3), "uniform"))
    np.testing.assert_allclose(
        found["train"][0], measures.losses(path[[0, 30]], part)[..., 0].T, rtol=1e-5
    )
    np.testing.assert_allclose(
        found["test"][0], measures.losses(path[[0, 30]], test)[..., 0].T, rtol=1e-5
    )
    np.testing.assert_allclose(
        found["averaged"], measures.losses(path[-7:].mean(0)[None], test)[0].T, rtol=1e-5
    )


def test_converged_rounds_are_numbers_or_none():
    quick = mechanism("No-Private", clients=2, clip=1.0, epsilon=0.1, learning_rate=0.5)
    _, config, _ = run_task(PARAMETERS, [quick, PAIR[0]], start="zero")
    converged = ddpsa_run(config, 0)["converged"]["loss 0.0106"]
    assert all(0 < t <= 30 for t in converged[0]) and converged[1] == [None, None, None]


def test_medians_are_those_of_all_gradients_so_far():
    _, config, seed = medians_task(PARAMETERS, [0, 20], 3)
    found = medians_run(config, seed)["medians"]
    training = plane([3, 4], 500)[0]
    adam = mechanism("LDP", clients=1, clip=math.inf, epsilon=math.inf)
    path = train(training, [adam], 20, [3, 4], start([3, 4], "uniform"))
    norms = []
    for t in (0, 10, 20):
        errors = np.einsum("rnk,rk->rn", training.inputs, path[t, :, 0]) - training.targets
        norms.append(np.abs(2 * errors[..., None] * training.inputs).sum(-1))
    assert found == pytest.approx([np.median(norms[0]), np.median(norms)], rel=5e-3)


def test_starts_and_points():
    assert not start([1, 2], "zero").any()
    drawn = start(range(2000), "uniform")
    assert np.abs(drawn).max() <= math.sqrt(0.5) and drawn.std() == pytest.approx(
        math.sqrt(1 / 6), rel=0.03
    )
    np.testing.assert_array_equal(drawn[7], start([7], "uniform")[0])
    assert points(120, [7, 500]) == sorted({*range(0, 121, 2), 7})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"start": "ones"}, "start"),
        ({"batch": 7}, "batch"),
        ({"batch": -1}, "batch"),
        ({"runs": 0}, "runs"),
        ({"share": 0}, "share"),
        ({"points": [31]}, "points"),
        ({"rounds": 0}, "rounds"),
        ({"more": 1}, "more"),
    ],
)
def test_configurations_out_of_range_are_refused(change, said):
    _, config, _ = run_task(PARAMETERS, PAIR)
    with pytest.raises(ValueError, match=said):
        ddpsa_run({**config, **change}, 0)


def test_configurations_with_a_key_missing_are_refused():
    for function, (_, config, _) in (
        (ddpsa_run, run_task(PARAMETERS, PAIR)),
        (medians_run, medians_task(PARAMETERS, [0], 0)),
    ):
        for missing in config:
            with pytest.raises(ValueError, match="config must have the keys"):
                function({key: value for key, value in config.items() if key != missing}, 0)


# Comparison ---------------------------------------------------------------------------------------


def test_quartiles_count_missing_rounds_as_late():
    assert comparison.quartiles([4, 1, 3, 2]) == [1, 2, 3]
    assert comparison.quartiles([1, 2, np.nan, np.nan, np.nan]) == [2, math.inf, math.inf]


def test_the_four_mechanisms_differ_in_the_parts_they_use():
    found = comparison.four_and_controls(clients=3, clip=0.5, epsilon=0.2)
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
    parameters = {**PARAMETERS, "clients": 2, "epsilon": 0.1, "marks": [7, 30]}
    _, config, seed = comparison.four_task(parameters, 1.0)
    assert {7, 30} <= set(config["points"])
    names = list(comparison.four_and_controls(clients=2, clip=1.0, epsilon=0.1))
    result = ddpsa_run(config, seed)
    found = comparison.by_name(names, result)
    assert list(found) == names
    for k, name in enumerate(names):
        np.testing.assert_array_equal(found[name]["test"], result["test"][k])
    assert np.isnan(found["LDP"]["converged: loss 1e-12"]).all()
    assert np.array(result["apart"]).shape == (3, 3)


# Guarantees ---------------------------------------------------------------------------------------


def test_the_aggregate_of_one_client_is_its_vector():
    one = aggregate_epsilon(0.1, clients=1, rounds=100, delta=1e-5)
    assert one == pytest.approx(total_epsilon(0.1, 100, delta=1e-5), rel=1e-6)
    found = [aggregate_epsilon(0.1, clients=n, rounds=100, delta=1e-5) for n in (1, 2, 4)]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("clients", [1, 2, 6])
def test_equal_scale_has_the_guarantee_of_the_clients_noise(clients):
    own = aggregate_epsilon(0.1, clients=clients, rounds=60, delta=1e-5)
    scale = equal_scale(0.1, clients=clients, rounds=60, delta=1e-5)
    shared = aggregate_epsilon(1 / scale, clients=1, rounds=60, delta=1e-5)
    assert 0.99 * own <= shared <= own * (1 + 1e-9)


def test_after_many_rounds_fisher_information_decides():
    """A second route: two clients' noise has density (1 + |x|) exp(-|x|) / 4, one has information 1."""
    information = 2 * quad(lambda x: x**2 * math.exp(-x) / (4 * (1 + x)), 0, math.inf)[0]
    scale = equal_scale(0.1, clients=2, rounds=400, delta=1e-5) * 0.1
    assert scale == pytest.approx(1 / math.sqrt(information), rel=0.03)
    assert math.sqrt(2) < scale < 2


@pytest.mark.parametrize(
    "change", [{"epsilon": 0.0}, {"clients": 0}, {"rounds": 0}, {"delta": 0.0}, {"delta": 1.0}]
)
def test_guarantees_out_of_range_are_refused(change):
    values = {"epsilon": 0.1, "clients": 2, "rounds": 10, "delta": 1e-5} | change
    epsilon = values.pop("epsilon")
    for function in (aggregate_epsilon, equal_scale):
        with pytest.raises(ValueError, match=next(iter(change))):
            function(epsilon, **values)
