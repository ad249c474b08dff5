"""The corridor of Figures 1-5, the six noise levels, and the bound of Figure 4."""

import numpy as np
import pytest

from repro.accounting import PoissonGaussian
from reproduce.papers.random_participation.checkins import (
    checkin_readings,
    confirm_readings,
    random_checkins_epsilon,
)
from reproduce.papers.random_participation.curves import (
    departure,
    evaluate,
    position,
    schemes,
    sigma_width,
)
from reproduce.papers.random_participation.noise_levels import (
    EXPERIMENTS,
    guarantees,
    needed_noise,
    smallest_printed_sigma,
    totals,
)

pytestmark = pytest.mark.filterwarnings("ignore::repro.accounting.InvalidBoundWarning")
SETTING = {"sigma": 1.0, "p": 0.1, "q": 0.1, "clip": 1.0, "samples": [1, 10]}


def test_corridor_is_kept_by_the_bracket_and_left_by_the_formula():
    curves = evaluate(schemes(**SETTING), "delta", np.array([0.1, 0.5, 1.0]))
    assert departure(curves) == 1.0
    assert departure(curves, "paper") > 5


def test_position_is_zero_at_cs_and_one_at_wcs():
    curves = evaluate(schemes(**SETTING), "delta", np.array([0.5, 1.0]))
    curves["d = 1"]["upper"], curves["d = 10"]["upper"] = (
        curves["CS"]["upper"],
        curves["WCS"]["upper"],
    )
    assert np.allclose(position(curves, "d = 1", "upper"), 0)
    assert np.allclose(position(curves, "d = 10", "upper"), 1)


def test_position_is_nan_where_the_corridor_is_closed():
    curves = evaluate(schemes(**SETTING), "delta", np.array([0.0]))
    assert np.isnan(position(curves, "d = 1", "upper")).all()


def test_sigma_width_reads_horizontally():
    sigma = np.geomspace(1, 4, 60)
    curves = {"d = 5": {"lower": sigma**-2.0, "upper": (sigma / 1.1) ** -2.0}}
    assert sigma_width(sigma, curves)["d = 5"] == pytest.approx(1.1, rel=1e-3)


def test_evaluate_refuses_an_unknown_quantity():
    with pytest.raises(ValueError, match="quantity must be one of 'delta', 'epsilon'"):
        evaluate(schemes(**SETTING), "alpha", 1.0)


@pytest.mark.parametrize(
    "name, wcs, ols", [("many small clients", 7.665, 22.497), ("few large clients", 0.8739, 1.1035)]
)
def test_baseline_levels_and_the_bracket(name, wcs, ols):
    levels = needed_noise(EXPERIMENTS[name], epsilon=0.015, delta=1e-6)
    assert levels["WCS"] == pytest.approx(wcs, rel=1e-4) and levels["OLS"] == pytest.approx(
        ols, rel=1e-4
    )
    assert levels["CS"] < levels["scheme, lower"] <= levels["scheme, upper"] < levels["WCS"]
    assert EXPERIMENTS[name].printed["scheme"] < levels["scheme, lower"]


def test_printed_levels_of_the_scheme_miss_the_target():
    for setting in EXPERIMENTS.values():
        assert guarantees(setting, epsilon=0.015, delta=1e-6)["scheme"]["delta, lower"] > 2e-6


def test_smallest_printed_sigma_takes_the_last_crossing():
    bump = lambda s: np.exp(-((np.log(s) - 1) ** 2))  # noqa: E731
    assert smallest_printed_sigma(bump, np.exp(-1)) == pytest.approx(np.exp(2), rel=1e-4)
    assert smallest_printed_sigma(bump, 2.0) == 0.0


def test_random_checkins_fall_with_delta_and_grow_with_check_in():
    local = PoissonGaussian(20.0, rate=0.1)
    delta = np.array([1e-3, 1e-2, 1e-1])
    few, many = (random_checkins_epsilon(delta, local=local, check_in=c) for c in (0.01, 0.1))
    assert np.all(np.diff(few) <= 0) and np.all(few < many) and np.all(np.isfinite(many))


def test_random_checkins_agree_with_the_theorem_written_out():
    eps0, p0, m, delta = 0.01, 0.2, 5, 0.01
    local = PoissonGaussian(300.0, rate=0.05)
    found = random_checkins_epsilon(delta, local=local, check_in=p0, slots=m)[0]
    wide = np.exp(8 * eps0)
    theorem = p0**2 * wide * (wide - 1) ** 2 / (2 * m) + p0 * (wide - 1) * np.sqrt(
        2 * wide * np.log(2 / delta) / m
    )
    assert 0 < found < theorem  # the local randomizer is well within eps0 = 0.01, delta0 -> 0


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_readings_of_random_checkins_are_confirmed_and_others_refused(factor):
    setting = {"sigma": 3.0, "p": 0.1, "q": 0.1, "clip": 1.0}
    readings = checkin_readings(np.array([0.05, 0.1, 0.3]), **setting)
    confirm_readings(readings, **setting)
    speaking = {name: pair for name, pair in readings.items() if pair[0].size}
    assert len(speaking) == 2
    for name, (delta, epsilon) in speaking.items():
        with pytest.raises(ArithmeticError, match="is not the best at delta"):
            confirm_readings(readings | {name: (delta, factor * epsilon)}, **setting)


def test_random_checkins_reject_bad_input():
    with pytest.raises(ValueError, match="check_in must be in"):
        random_checkins_epsilon(0.1, local=PoissonGaussian(1.0, rate=0.1), check_in=1.5)


def test_totals_compose_the_right_levels():
    setting = EXPERIMENTS["few large clients"]
    levels = needed_noise(setting, epsilon=0.015, delta=1e-6)
    one, many = (totals(setting, levels, rounds=r, delta=1e-6) for r in (1, 100))
    assert one["WCS"] == pytest.approx(0.015, rel=1e-3) and one["scheme"] == pytest.approx(
        0.015, rel=1e-3
    )
    assert one["scheme, printed sigma"] > 2 * one["scheme"]
    assert all(many[name] > one[name] for name in one)
