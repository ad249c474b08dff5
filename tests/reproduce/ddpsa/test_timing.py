"""What is timed of a client's work does what its name says. Nothing here looks at a clock."""

import numpy as np
import pytest

from repro.datasets.plane import plane
from repro.federated.ddpsa.clients import Federation, clipped_sums
from repro.secagg import Cluster
from reproduce.papers.ddpsa.timing import (
    OneByOne,
    client_steps,
    clip_step,
    transmissions,
    vector_steps,
)

COMMON = {"clients": 2, "servers": 3, "clip": 2.0, "epsilon": 0.1, "seed": 0}


@pytest.mark.parametrize("clip", [0.5, 3.0, 1e6])
def test_one_by_one_gives_the_sum_that_arrays_give(clip):
    training = plane([3], 100)[0]
    federation = Federation.deal(training, [2])
    model = np.array([0.3, -0.2, 0.9])
    sums = clipped_sums(federation, model[None, None], [clip], federation.membership(np.array([2])))
    for client, rows in enumerate((slice(0, 30), slice(30, 60))):
        loop = OneByOne(training.inputs[0, rows], training.targets[0, rows])
        np.testing.assert_allclose(loop(model, clip), sums[0, 0, client], rtol=1e-9)


def test_client_steps_do_what_their_names_say():
    steps = client_steps(30, **COMMON)
    assert list(steps) == [
        *("clipping", "clipping, one by one"),
        *("noise", "exact noise", "addition", "encoding", "sharing"),
    ]
    np.testing.assert_allclose(steps["clipping"]()[0, 0, 0], steps["clipping, one by one"]())


def test_vector_steps_share_what_they_encode():
    vector = np.random.default_rng(0).normal(size=(1, 50))
    steps = vector_steps(vector, clients=2, servers=4, scale=0.5, seed=1)
    encoded = steps["encoding"]()
    shares = steps["sharing"]()
    assert shares.shape == (4, 1, 50)
    assert (shares.sum(axis=0, dtype=np.uint64) == encoded).all()
    assert abs(steps["noise"]()).mean() == pytest.approx(0.5, rel=0.5)
    assert abs(steps["exact noise"]()).mean() == pytest.approx(0.5e10, rel=0.5)
    np.testing.assert_allclose(encoded.view(np.int64) / 1e10, steps["addition"](), atol=1e-9)


def test_clip_step_needs_a_dimension():
    clip_step(5, 1.0, 0)()
    with pytest.raises(ValueError, match="dimension must be an integer >= 1"):
        clip_step(0, 1.0, 0)


def test_transmissions_leave_the_first_round_out():
    values = np.random.default_rng(0).normal(size=(2, 10))
    with Cluster(clients=2, servers=2) as cluster:
        seconds, last = transmissions(cluster, values, 4)
    assert {key: times.shape for key, times in seconds.items()} == {
        "transmission": (4,),
        "sum": (4,),
    }
    assert last.number == 5 and last.traffic["uploads"].payload == 2 * 2 * 10 * 8
    np.testing.assert_allclose(last.total, values.sum(axis=0), atol=1e-9)
