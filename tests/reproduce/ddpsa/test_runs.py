"""Training runs of ddpsa as functions of (configuration, seed)."""

import math

import numpy as np
import pytest

from repro.datasets.plane import Plane, plane
from repro.federated.ddpsa.algorithm import mechanism, train
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

PARAMETERS = {"records": 500, "runs": 3, "rounds": 30}
PAIR = [mechanism(name, clients=2, clip=1.0, epsilon=0.1) for name in ("LDP", "DDP-SA")]


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
    _, config, seed = medians_task(PARAMETERS, [0, 20], 3, runs=2)
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
            with pytest.raises(ValueError, match="config misses"):
                function({key: value for key, value in config.items() if key != missing}, 0)
