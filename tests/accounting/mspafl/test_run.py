"""Whole runs with a private half that is kept: both ends of the bracket, and the pair that attains it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from repro.accounting import GaussianMechanism, compose
from repro.accounting.mspafl.round import AveragedUploads
from repro.accounting.mspafl.run import (
    average_epsilon_lower,
    exposure,
    run_delta,
    run_epsilon,
    server_delta_lower,
)
from reproduce.papers.mspafl.curves import Setting, run_views, server_run
from reproduce.papers.mspafl.second_routes import carried_uploads, check_ins, switching_client

RATIO = 0.25
POINTS = np.array([0.0, 0.2, 1.0, 3.0])


def at_rates(p, q):
    """A setting of one client whose noise gives `RATIO`."""
    return Setting(p, q, 1, 1.0, RATIO * np.sqrt(2 * np.log(1.25 / 1e-4)), 1e-4, 1.0)


def test_every_round_and_record_is_a_composed_gaussian():
    exact = GaussianMechanism(1 / (RATIO * np.sqrt(30))).delta(POINTS)
    assert run_delta(POINTS, 30, ratio=RATIO, p=1.0) == pytest.approx(exact, rel=1e-6, abs=1e-12)
    assert server_delta_lower(POINTS, 30, ratio=RATIO, p=1.0, q=1.0) == pytest.approx(
        exact, rel=1e-9, abs=1e-15
    )
    many = GaussianMechanism(1 / (RATIO * np.sqrt(30 / 50))).delta(POINTS)
    got = run_delta(POINTS, 30, ratio=RATIO, p=1.0, clients=50)
    assert got == pytest.approx(many, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.3), (0.2, 1.0), (1.0, 0.1)])
def test_upper_bound_by_summing_over_first_draw_and_uploads(p, q):
    rounds = 12
    expected = np.zeros(POINTS.shape)
    for first in range(1, rounds + 1):
        chance = p * q * (1 - p * q) ** (first - 1)
        for more in range(rounds - first + 1):
            weight = chance * binom.pmf(more, rounds - first, p)
            expected += weight * GaussianMechanism(1 / (RATIO * np.sqrt(1 + more))).delta(POINTS)
    got = run_delta(POINTS, rounds, ratio=RATIO, p=p, q=q)
    assert got == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_exposure_to_the_average_by_monte_carlo():
    rng = np.random.default_rng(3)
    n, p, q, rounds = 20, 0.3, 0.4, 15
    k = 1 + rng.binomial(n - 1, p, (100_000, rounds))
    there = rng.random(k.shape) < p
    on = np.cumsum(there & (rng.random(k.shape) < q), axis=1) > 0
    sample = (there * on / k).sum(axis=1)
    values, chance = exposure(rounds, p, q, n)
    assert chance.sum() == pytest.approx(1.0, abs=1e-9)
    assert np.all(np.diff(values) > 0)
    for at in (0.0, 0.3, 0.8, 1.5):
        share = np.mean(sample > at)
        error = np.sqrt(share * (1 - share) / sample.size)
        assert chance[values > at].sum() >= share - 5 * error
    assert values @ chance == pytest.approx(sample.mean(), rel=0.05)
    assert values @ chance >= sample.mean() - 5 * sample.std() / np.sqrt(sample.size)


def test_known_participants_compose_to_the_same():
    """Second route: the loss distribution of one round with the participants revealed."""
    known = AveragedUploads(2 / RATIO, p=0.4, clients=15, participants_known=True)
    through = compose(known, 40).epsilon(1e-5)
    here = run_epsilon(1e-5, 40, lambda e, t: run_delta(e, t, ratio=RATIO, p=0.4, clients=15))
    assert here[0] == pytest.approx(through, rel=0.01)
    assert here[0] >= through * (1 - 1e-3)


@settings(deadline=None, max_examples=30)
@given(p=st.floats(0.05, 1.0), q=st.floats(0.02, 1.0), rounds=st.integers(1, 300))
def test_lower_below_upper_for_the_server(p, q, rounds):
    low = server_delta_lower(POINTS, rounds, ratio=RATIO, p=p, q=q)
    high = run_delta(POINTS, rounds, ratio=RATIO, p=p, q=q)
    assert np.all((low >= 0) & (low <= high * (1 + 1e-9) + 1e-12))
    assert np.all(high <= 1)


@settings(deadline=None, max_examples=15)
@given(p=st.floats(0.05, 0.9), q=st.floats(0.05, 0.9), by=st.floats(0.02, 0.1))
def test_upper_bound_grows_with_rates_and_rounds(p, q, by):
    at = run_delta(POINTS, 40, ratio=RATIO, p=p, q=q, clients=9)
    slack = at * 0.02 + 1e-12  # the law is rounded upwards on a grid that depends on p
    assert np.all(run_delta(POINTS, 40, ratio=RATIO, p=p, q=q + by, clients=9) >= at - 1e-12)
    assert np.all(run_delta(POINTS, 41, ratio=RATIO, p=p, q=q, clients=9) >= at - slack)
    assert np.all(run_delta(POINTS, 40, ratio=RATIO + by, p=p, q=q, clients=9) >= at - 1e-12)


def test_sampling_only_delays():
    """The point of the module: after many rounds a small share of drawn records saves nothing."""
    small = server_run(at_rates(0.5, 0.02), np.array([2000]), 1e-5)["lower"][0]
    whole = server_run(at_rates(0.5, 1.0), np.array([2000]), 1e-5)["upper"][0]
    assert small > 0.9 * whole
    forgotten = compose(AveragedUploads(2 / RATIO, p=0.5, q=0.02), 2000).epsilon(1e-5)
    assert forgotten < 0.1 * small


def test_bracket_of_the_average():
    rounds = np.array([5, 200])
    low = average_epsilon_lower(1e-4, rounds, ratio=RATIO, p=0.5, q=0.3, clients=10)
    high = run_epsilon(
        1e-4, rounds, lambda e, t: run_delta(e, t, ratio=RATIO, p=0.5, q=0.3, clients=10)
    )
    assert low[0] == pytest.approx(0.0, abs=0.5)
    assert np.all(low <= high)
    assert low[1] > 0.5 * high[1]
    sure = average_epsilon_lower(1e-4, 200, ratio=RATIO, p=1.0, q=1.0, clients=10)
    exact = GaussianMechanism(1 / (RATIO * np.sqrt(20))).epsilon(1e-4)
    assert 0.97 * exact < sure[0] <= exact


def test_one_client_average_is_the_server():
    low = average_epsilon_lower(1e-4, 100, ratio=RATIO, p=0.7, q=0.5, clients=1)
    pair = server_run(at_rates(0.7, 0.5), np.array([100]), 1e-4)
    assert 0.9 * pair["lower"][0] < low[0] <= pair["upper"][0]


def test_views_of_a_run_are_ordered():
    setting = Setting(0.5, 0.2, 20, 0.5, 1.0, 1e-4, 1e-4)
    views = run_views(setting, np.array([1, 2, 60]), 1e-4)
    for name, values in views.items():
        assert np.all(values["lower"] <= values["upper"] * (1 + 1e-6)), name
    for name in ("server", "average"):
        assert views[name]["upper"][0] == views[f"{name}, ended"]["upper"][0]
        assert np.all(views[f"{name}, ended"]["lower"] <= views[name]["lower"] * (1 + 1e-9))
    assert np.all(views["average"]["upper"] <= views["server"]["upper"])


def test_search_for_epsilon():
    profile = lambda e, t: np.exp(-e / t)  # noqa: E731
    high = run_epsilon(0.01, [1, 2], profile)
    low = run_epsilon(0.01, [1, 2], profile, lower=True)
    exact = np.log(100) * np.array([1, 2])
    assert np.all((low <= exact) & (exact <= high))
    assert high == pytest.approx(low, rel=2e-5)
    assert run_epsilon(0.5, 1, lambda e, t: 0.1 + 0 * e)[0] == 0
    with pytest.raises(ArithmeticError, match="delta = 0.5"):
        run_epsilon(0.5, 1, lambda e, t: 1.0 + 0 * e)


@pytest.mark.parametrize("scale", [1.0, 2700.0])
def test_algorithm_1_remembers_one_record(scale):
    """The explicit pair: after its first draw the record moves every upload by 2 C, and only then."""
    data, neighbour = (vectors / scale for vectors in switching_client(201))
    assert scale == 1 or np.linalg.norm(data, axis=1).max() <= 1
    options = dict(
        start=-1e4 * scale,
        rounds=40,
        runs=60,
        p=0.5,
        steps=5,
        batch=5,
        learning_rate=40.0 * scale**2,
        sigma=8.0,
        seed=2,
    )
    one, two = carried_uploads(data, **options), carried_uploads(neighbour, **options)
    assert np.array_equal(one.present, two.present)
    after = one.present & (np.cumsum(one.drawn, axis=1) > 0)
    before = one.present & ~after
    assert np.all(one.clipped[after] == pytest.approx(1.0))
    assert np.all(one.clipped[before] == pytest.approx(-1.0))
    assert np.all(two.clipped[two.present] == pytest.approx(-1.0))
    assert np.mean(after[one.present]) > 3 * np.mean(one.drawn[one.present])
    forgotten = carried_uploads(data, **options, keep=False)
    moved = forgotten.clipped[forgotten.present] > 0
    assert np.mean(moved) == pytest.approx(np.mean(forgotten.drawn[forgotten.present]), abs=0.02)


def test_check_ins_are_all_and_add_up():
    sets, chance = check_ins([0.2, 0.7, 1.0])
    assert sets.shape == (8, 3)
    assert len(np.unique(sets, axis=0)) == 8
    assert chance.sum() == pytest.approx(1.0)
    assert chance @ sets == pytest.approx([0.2, 0.7, 1.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run_delta(-1.0, 5, ratio=1.0, p=0.5), "epsilon must be non-negative"),
        (lambda: run_delta(1.0, 0, ratio=1.0, p=0.5), "rounds must be an integer >= 1"),
        (lambda: run_delta(1.0, 5, ratio=-1.0, p=0.5), "ratio must be non-negative"),
        (lambda: run_delta(1.0, 5, ratio=1.0, p=1.5), "p must be in"),
        (lambda: server_delta_lower(1.0, 5, ratio=1.0, p=0.5, q=2.0), "q must be in"),
        (lambda: run_epsilon(1.5, 5, lambda e, t: e), r"delta must be in \(0, 1\)"),
        (lambda: average_epsilon_lower(1e-4, 5, ratio=0.0, p=0.5, q=0.5, clients=3), "ratio must be positive"),
        (lambda: average_epsilon_lower(1e-4, 5, ratio=1.0, p=0.0, q=0.5, clients=3), "p must be positive"),
        (lambda: check_ins(np.full(13, 0.5)), "number of clients must be an integer in"),
        (lambda: switching_client(1), "number of records must be an integer >= 3"),
    ],
)  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_nothing_to_see():
    for gone in (
        dict(p=0.0, q=0.5, ratio=1.0),
        dict(p=0.5, q=0.0, ratio=1.0),
        dict(p=0.5, q=0.5, ratio=0.0),
    ):
        assert np.all(run_delta(POINTS, 5, **gone) == 0)
        assert np.all(server_delta_lower(POINTS, 5, **gone) == 0)
