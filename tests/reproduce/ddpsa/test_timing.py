"""What is timed does the work it says; the statistics of times are right. Nothing here looks at a clock."""

import numpy as np
import pytest

from repro.accounting.ddpsa.printed import MECHANISMS
from repro.datasets.plane import plane
from repro.federated.ddpsa.algorithm import mechanism, train
from repro.federated.ddpsa.clients import Federation, clipped_sums
from repro.secagg import Cluster
from reproduce.papers.clock import Spread, growth, interleaved
from reproduce.papers.ddpsa.deployment import Deployment
from reproduce.papers.ddpsa.timing import (
    OneByOne,
    client_steps,
    clip_step,
    transmissions,
    vector_steps,
)

COMMON = {"clients": 2, "servers": 3, "clip": 2.0, "epsilon": 0.1, "seed": 0}


# Measuring ------------------------------------------------------------------------------------------


def test_steps_take_turns_and_short_ones_are_called_several_times():
    """A clock that only the steps move: each call of `slow` takes 1 s, of `fast` 1/100 s."""
    now, called = [0.0], []

    def step(name, seconds):
        def run():
            called.append(name)
            now[0] += seconds

        return run

    steps = {"slow": step("slow", 1.0), "fast": step("fast", 0.01)}
    found = interleaved(steps, 3, shortest=0.5, clock=lambda: now[0])
    assert list(found) == ["slow", "fast"]
    np.testing.assert_allclose(found["slow"], [1.0] * 3)
    np.testing.assert_allclose(found["fast"], [0.01] * 3)
    warm_up = ["slow"] * 2 + ["fast"] * 2
    assert called == warm_up + (["slow"] + ["fast"] * 50) * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"repeats": 0}, "repeats must be an integer >= 1"),
        ({"repeats": 2, "shortest": 0.0}, "shortest must be positive"),
    ],
)
def test_interleaved_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        interleaved({}, **arguments)


def test_the_interval_covers_the_median_as_often_as_it_says():
    """Monte Carlo on a skewed law, 2000 samples of 15: at least 95 % up to 4 deviations."""
    rng = np.random.default_rng(0)
    spreads = [Spread.of(rng.exponential(size=15)) for _ in range(2000)]
    covered = np.mean([one.low <= np.log(2) <= one.high for one in spreads])
    assert covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 2000)
    assert all(one.least <= one.low <= one.median <= one.high for one in spreads)
    assert covered < 0.99  # and it is not simply the whole range


def test_few_values_have_no_interval():
    assert Spread.of(np.arange(1.0, 7.0)) == Spread(3.5, 1.0, 6.0, 1.0)
    for few in ([], [1.0] * 5):
        with pytest.raises(ValueError, match="seconds must hold enough values"):
            Spread.of(few)
    with pytest.raises(ValueError, match="seconds must be non-negative"):
        Spread.of([1.0] * 9 + [-1.0])


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_growth_is_the_exponent(power):
    sizes = np.array([1e2, 1e3, 1e5])
    noise = np.exp(np.random.default_rng(1).normal(scale=0.05, size=(3, 20)))
    found = growth(sizes, 3e-6 * sizes[:, None] ** power * noise)
    assert found.low < power < found.high and found.high - found.low < 0.05


def test_growth_refuses_bad_shapes():
    for sizes, seconds in (([1.0, 1.0], np.ones((2, 3))), ([1.0, 2.0], np.ones((3, 2)))):
        with pytest.raises(ValueError, match="seconds must have a row for each"):
            growth(sizes, seconds)
    with pytest.raises(ValueError, match="seconds must be positive"):
        growth([1.0, 2.0], np.zeros((2, 3)))


# A client's work ------------------------------------------------------------------------------------


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


# Rounds over real servers ---------------------------------------------------------------------------


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
