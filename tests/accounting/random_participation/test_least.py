"""The least of two bounds as whole curves: hulls, knots, loss distributions, and curves of the best test."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import accounting_reference as reference
from repro.accounting import RandomParticipation, calibrate_sigma, compose
from repro.accounting.random_participation import least, upper
from repro.accounting.random_participation.least import hull, lowered
from repro.accounting.random_participation.mechanisms import CountRevealed

SETTINGS = [
    (0.646, {"p": 0.1, "q": 0.001, "samples_per_client": 1000}),
    (1.0, {"p": 0.1, "q": 0.1, "samples_per_client": 10}),
    (0.7, {"p": 0.6, "q": 0.3, "samples_per_client": 3}),
]


def test_the_hull_lies_below_all_points_and_is_convex():
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.uniform(1e-3, 0.1, 200))
    y = np.minimum.accumulate(-1 - 0.7 * x + rng.uniform(0, 0.2, 200))
    kept = hull(x, y)
    at, value = np.exp(x), np.exp(y)
    line = np.interp(at, at[kept], value[kept])
    assert kept[0] == 0 and kept[-1] == 199
    assert np.all(line <= value * (1 + 1e-12))
    slopes = np.diff(value[kept]) / np.diff(at[kept])
    assert np.all(np.diff(slopes) >= -1e-12)


def test_the_hull_keeps_its_digits_far_out_and_takes_deltas_of_zero():
    x = np.arange(0.0, 600.0)
    y = -3.0 * x
    assert np.array_equal(hull(x, y), np.arange(600))
    y[500:] = -np.inf
    assert np.array_equal(hull(x, y), np.append(np.arange(501), 599))
    assert np.array_equal(hull(np.zeros(1), np.zeros(1)), [0])


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_nothing_changes_where_the_second_bound_is_not_asked_for(direction):
    epsilon = np.linspace(0, 3, 50)
    for sigma, setting in (
        (0.1, SETTINGS[1][1]),
        (1.0, SETTINGS[1][1] | {"p": 1.0}),
        (1.0, {"p": 0.1, "q": 0.1, "samples_per_client": 100}),
    ):
        log_d = CountRevealed(sigma, **setting).log_delta(epsilon, direction, "upper")
        p, q, d = setting.values()
        assert np.array_equal(lowered(epsilon, log_d, sigma, p, q, d, direction), log_d)
        found = RandomParticipation(sigma, **setting).log_delta(epsilon, direction, "upper")
        assert np.array_equal(found, log_d)


@pytest.mark.parametrize("sigma, setting", SETTINGS)
def test_losses_lie_between_what_is_attained_and_single_epsilons(sigma, setting):
    """Chords between knots exceed the bound at the knots' own epsilons by little, and nothing that is attained."""
    mechanism = RandomParticipation(sigma, **setting)
    pld = mechanism.pld(interval=1e-4)
    epsilon = np.array([0.0, 1e-3, 0.0107, 0.0531, 0.22, 0.9, 2.1])
    for side, direction in ((pld._pmf_remove, "remove"), (pld._pmf_add, "add")):
        found = np.array(side.get_delta_for_epsilon(epsilon))
        lower = mechanism.delta(epsilon, method="lower", direction=direction)
        assert np.all(lower <= found * (1 + 1e-9) + 1e-15)
        single = mechanism.delta(epsilon, direction=direction)
        count = CountRevealed(sigma, **setting).delta(epsilon, direction=direction)
        # The gap that is allowed grows in the tail.
        gap = 2 * least._GAP * (single[0] / np.maximum(single, 1e-30)) ** least._EASED
        assert np.all(found <= single * (1 + gap) + 1e-15)
        assert np.all(found <= count * (1 + 1e-5) + 1e-15)


def test_data_sets_composed_stay_below():
    """Two rounds of explicit data sets as one mixture on a grid: no angle leaks more than the composition allows."""
    p, q, sigma, epsilon = 0.6, 0.3, 0.9, 0.5
    run = compose(RandomParticipation(sigma, p=p, q=q, samples_per_client=2), 2)
    bounds = [run.delta(epsilon, direction=way) for way in ("remove", "add")]
    worst = np.zeros(2)
    for u in ([1, 1], [-1, -1], [1, -1], [0, 0], [0.5, 0.5], [-0.5, 0.6]):
        means = np.array(
            [0.0, *(a * u[0] + b * u[1] + c for a in (0, 1) for b in (0, 1) for c in (0, 1))]
        )
        draw = np.array([(q if a else 1 - q) * (q if b else 1 - q) for a in (0, 1) for b in (0, 1)])
        with_record = np.append(1 - p, p * np.outer(draw, [1 - q, q]).ravel())
        without = np.append(1 - p, p * np.outer(draw, [1, 0]).ravel())
        grid = np.arange(-8, 11, 0.02)
        density = np.exp(-((grid[:, None] - means) ** 2) / (2 * sigma**2)) / (
            sigma * np.sqrt(2 * np.pi)
        )
        one, other = density @ with_record, density @ without
        for k, (a, b) in enumerate(((one, other), (other, one))):
            signed = np.outer(a, a) - np.exp(epsilon) * np.outer(b, b)
            worst[k] = max(worst[k], np.maximum(signed, 0).sum() * 0.02**2)
    assert np.all(worst <= np.array(bounds) * (1 + 1e-3))
    assert np.all(
        np.array(bounds) <= 1.4 * worst
    )  # the data sets are near the bound, so the test sees something


@pytest.mark.parametrize(
    "sigma, setting, rounds, before, after",
    [(*SETTINGS[0], 8000, 1.307, 1.18), (*SETTINGS[1], 1, 1.531, 1.41)],
)
def test_what_it_gains(sigma, setting, rounds, before, after):
    run, old = (compose(c(sigma, **setting), rounds) for c in (RandomParticipation, CountRevealed))
    assert run.epsilon(1e-6) < after < before < old.epsilon(1e-6) + 1e-3
    if rounds == 1:
        assert run.epsilon(1e-6, method="lower") <= run.epsilon(1e-6)


def test_calibration_of_a_composition_takes_less_noise():
    def make(kind):
        return lambda sigma: compose(kind(sigma, p=0.1, q=0.1, samples_per_client=10), 4)

    target = {"epsilon": 1.0, "delta": 1e-6, "rtol": 1e-4}
    both, count = (
        calibrate_sigma(make(kind), **target) for kind in (RandomParticipation, CountRevealed)
    )
    assert both < count * 0.99
    assert make(RandomParticipation)(both).epsilon(1e-6, method="lower") <= 1


def test_the_curve_of_the_best_test_uses_both_bounds():
    sigma, setting = SETTINGS[1]
    both, count = RandomParticipation(sigma, **setting), CountRevealed(sigma, **setting)
    for fpr in (1e-6, 1e-4, 0.01, 0.2):
        low, high, old = (
            both.tpr_at_fpr(fpr, method="lower"),
            both.tpr_at_fpr(fpr),
            count.tpr_at_fpr(fpr),
        )
        assert low <= high * (1 + 1e-9) and high <= old * (1 + 1e-9)
    assert both.tpr_at_fpr(1e-6) < 0.99 * count.tpr_at_fpr(1e-6)
    assert both.advantage() == pytest.approx(count.advantage(), rel=1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("d", [3, 1000])
def test_with_nothing_but_noise_the_risk_is_that_of_guessing(d):
    """Deltas that fall by hundreds of powers of ten from one epsilon to the next."""
    mechanism = RandomParticipation(1e12, p=0.001, q=0.5, samples_per_client=d, clip=0.03)
    for method in ("lower", "upper"):
        assert mechanism.tpr_at_fpr(0.01, method=method) == pytest.approx(0.01, abs=1e-12)
        assert 0 <= mechanism.gdp_mu(method=method) < 1e-9


@pytest.mark.parametrize("direction", ["add", "remove"])
def test_thresholds_are_found_in_few_steps_also_with_much_noise(direction, monkeypatch):
    taken = []

    def counted(function, *given):
        steps = itertools.count()
        found = root(lambda *at: (next(steps), function(*at))[1], *given)
        taken.append(next(steps))
        return found

    root = upper._root
    monkeypatch.setattr(upper, "_root", counted)
    few = dict.fromkeys(("s", "p", "q"), np.ones(40))
    for noise, least_epsilon in ((1.0, 0.01), (1e4, 1e-8), (3e11, 1e-13)):
        setting = {"s": noise * few["s"], "p": 0.999 * few["p"], "q": 0.5 * few["q"], "d": 10_000}
        upper.log_count_bound(
            np.geomspace(1, 1000, 40) * least_epsilon, **setting, direction=direction
        )
    assert taken and max(taken) <= 12


def test_random_data_sets_stay_below_in_many_settings():
    rng = np.random.default_rng(11)
    for _ in range(25):
        d = int(rng.integers(1, 4))
        p, q, sigma = rng.uniform([0.05, 0.05, 0.4], [0.95, 0.9, 1.3])
        epsilon = rng.uniform(0, 1) / sigma
        vectors = rng.normal(size=(d + 1, 2))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        found = reference.divergences(
            vectors[0], vectors[1:], p=p, q=q, sigma=sigma, epsilon=epsilon, step=0.08
        )
        mechanism = RandomParticipation(sigma, p=p, q=q, samples_per_client=d)
        for value, way in zip(found, ("remove", "add"), strict=True):
            assert value <= mechanism.delta(epsilon, direction=way) * (1 + 5e-3) + 1e-12
