"""The bracket by quadrature that judges the figures, and the steps of the repaired theorem."""

from itertools import product

import numpy as np
import pytest

from repro.accounting import PoissonGaussian
from reproduce.papers.random_participation.curves import evaluate, schemes
from reproduce.papers.random_participation.noise_levels import EXPERIMENTS, PRINTED
from reproduce.papers.random_participation.quadrature import (
    confirm,
    confirmed_noise,
    oblique_delta,
    shared_out_delta,
    weights,
)
from reproduce.papers.random_participation.steps import proof_steps
from reproduce.papers.second_routes import client_pair, grid_divergence, shared_out_integral

AT = {"d": 3, "p": 0.5, "q": 0.5, "sigma": 1.0}
SETTING = {"sigma": 1.0, "p": 0.1, "q": 0.1, "clip": 1.0, "samples": [1, 10]}

pytestmark = pytest.mark.filterwarnings("ignore::repro.accounting.InvalidBoundWarning")


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("cosine", [-1.0, -0.5, 0.0, 0.9, 1.0])
def test_the_pair_at_an_angle_is_that_of_the_enumeration(direction, cosine):
    others = [[cosine, np.sqrt(1 - cosine**2)]] * AT["d"]
    pair = client_pair(others, [1.0, 0.0], AT["p"], AT["q"])
    pair = pair if direction == "remove" else pair[::-1]
    expected = grid_divergence(*pair, AT["sigma"], np.exp(0.1), 401)
    assert oblique_delta(0.1, direction, **AT, cosine=cosine) == pytest.approx(expected, rel=5e-4)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_the_bound_is_that_of_high_precision(direction):
    expected = shared_out_integral(0.1, direction, **AT)
    assert shared_out_delta(0.1, direction, **AT) == pytest.approx(expected, rel=1e-4)


def test_no_other_records_is_poisson_sampling():
    at = {"d": 0, "p": 0.4, "q": 0.5, "sigma": 1.0}
    for way in ("remove", "add"):
        expected = PoissonGaussian(1.0, rate=0.2).delta(0.05, direction=way)
        assert oblique_delta(0.05, way, **at, cosine=1.0) == pytest.approx(expected, rel=1e-4)
        assert shared_out_delta(0.05, way, **at) == pytest.approx(expected, rel=1e-4)


def test_adding_reveals_nothing_beyond_the_sampling_rate():
    assert weights(1.0, 0.5, 0.1, "add").factor == 0
    assert oblique_delta(1.0, "add", **AT | {"q": 0.1}, cosine=0.0) == 0
    assert shared_out_delta(1.0, "add", **AT | {"q": 0.1}) == 0


def test_an_unknown_direction_is_refused():
    with pytest.raises(ValueError, match="direction must be"):
        weights(1.0, 0.5, 0.5, "both")


@pytest.mark.parametrize(
    ("quantity", "argument"), [("delta", np.linspace(0.0, 1.0, 5)), ("epsilon", np.full(5, 1e-5))]
)
def test_a_bracket_two_percent_off_is_refused(quantity, argument):
    curves = evaluate(schemes(**SETTING), quantity, argument)
    confirm(curves, SETTING, quantity, argument)
    for end, factor in product(("upper", "lower"), (0.98, 1.02)):
        wrong = {label: dict(methods) for label, methods in curves.items()}
        wrong["d = 1"][end] = factor * curves["d = 1"][end]
        with pytest.raises(ArithmeticError, match="^d = 1 at "):
            confirm(wrong, SETTING, quantity, argument)


@pytest.mark.parametrize(
    ("quantity", "argument"), [("delta", np.linspace(0.1, 1.0, 5)), ("epsilon", np.full(5, 1e-5))]
)
def test_a_baseline_two_percent_off_is_refused(quantity, argument):
    curves = evaluate(schemes(**SETTING), quantity, argument)
    for label, factor in product(("CS", "WCS", "OLS"), (0.98, 1.02)):
        wrong = curves | {label: {"upper": factor * curves[label]["upper"]}}
        with pytest.raises(ArithmeticError, match=f"^delta of {label}: "):
            confirm(wrong, SETTING, quantity, argument)


def test_noise_levels_two_percent_off_are_refused():
    small = EXPERIMENTS["many small clients"]
    name, target = "small", {"epsilon": 0.015, "delta": 1e-6}
    levels = {
        **{"CS": 0.567365, "WCS": 7.66512, "OLS": 22.49746},
        **{"scheme, lower": 2.371497, "scheme, upper": 2.373276, PRINTED: 2.371498},
    }
    assert confirmed_noise({name: levels}, {name: small}, **target) == {name: levels}
    for key, factor in product(levels, (0.98, 1.02)):
        wrong = {name: levels | {key: factor * levels[key]}}
        with pytest.raises(ArithmeticError, match="^small"):
            confirmed_noise(wrong, {name: small}, **target)


def test_the_bracket_is_right_in_units_of_the_clip():
    setting = SETTING | {"sigma": 3.0, "clip": 3.0, "samples": [1]}
    argument = np.array([0.1, 0.5, 1.0])
    confirm(evaluate(schemes(**setting), "delta", argument), setting, "delta", argument)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_the_steps_of_the_proof_never_decrease(direction):
    rng = np.random.default_rng(0)
    gradients = rng.standard_normal((3, 2))
    gradients /= np.maximum(1, np.linalg.norm(gradients, axis=1, keepdims=True))
    shares = rng.dirichlet(np.ones(4))
    found = proof_steps(
        0.1, direction, gradients[1:], gradients[0], shares, p=0.5, q=0.6, sigma=0.8
    )
    slack = 1 + 2e-3
    assert found["divergence"] <= found["shared out"] * slack
    assert found["shared out"] <= found["equal gradients"] * slack
    assert found["divergence"] <= found["best shares"] * slack
    assert found["best shares"] <= found["equal gradients"] * slack
