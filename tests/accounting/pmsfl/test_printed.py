"""The formulas of pmsfl as printed, each by a second route that knows no closed form."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.accounting.pmsfl import printed
from repro.accounting.pmsfl.printed import circular_singular_values, convolution_terms
from reproduce.papers.pmsfl.second_routes import (
    all_masks,
    inversion_errors,
    mask_chances,
)

units = st.floats(0.02, 0.98)


floors = st.floats(0.01, 0.49)


scores = st.floats(-8, 8)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.01, 8), st.integers(1, 400), floors)
def test_smashed_epsilon_in_high_precision(epsilon, dimension, floor):
    with mp.workdps(850):  # the smallest gain is 1e-800
        power = mp.mpf(floor) ** dimension
        value = mp.log((1 - power) * mp.exp(epsilon) + power)
        gain = mp.log10(epsilon - value)
    ours = float(printed.smashed_epsilon(epsilon, dimension=dimension, floor=floor))
    assert ours == pytest.approx(float(value), rel=1e-13)
    logarithm = float(printed.smashed_gain_log10(epsilon, dimension=dimension, floor=floor))
    power = float(power)
    assert logarithm == pytest.approx(float(gain), abs=1e-9 + power)


def test_smashed_epsilon_at_its_limits():
    assert printed.smashed_epsilon(0.0, dimension=3, floor=0.1) == 0.0
    falling = printed.smashed_epsilon(1.0, dimension=1, floor=np.linspace(0.01, 0.49, 20))
    assert np.all(np.diff(falling) < 0)
    rising = printed.smashed_epsilon(1.0, dimension=np.arange(1, 9), floor=0.3)
    assert np.all(np.diff(rising) > 0) and rising[-1] < 1
    assert printed.smashed_epsilon(1.0, dimension=675_392, floor=0.4) == 1.0
    assert printed.smashed_gain_log10(1.0, dimension=675_392, floor=0.1) < -675_000


def test_noise_levels_are_those_of_the_text():
    sigma = printed.step_sigma(5.0, 1e-5, steps=80, clip=2.0, batch=32)
    assert sigma**2 == pytest.approx(2 * 80 * 4 * np.log(1e5) / (25 * 32**2))
    sigma = printed.mask_sigma(5.0, 1e-5, floor=0.1)
    assert sigma**2 == pytest.approx(2 * 0.8**2 * np.log(1.25e5) / 25)


@settings(deadline=None, max_examples=30)
@given(st.floats(1.05, 30), floors)
def test_meant_sampling_term_is_a_renyi_divergence(alpha, floor):
    far, near = np.array([floor, 1 - floor]), np.array([1 - floor, floor])
    divergence = np.log(np.sum(near**alpha * far ** (1 - alpha))) / (alpha - 1)
    term = printed.sampling_term(alpha, dimension=7, floor=floor, form="meant")
    assert term == pytest.approx(7 * divergence, rel=1e-7, abs=1e-9)
    assert printed.sampling_term(alpha, dimension=7, floor=floor) > term


@pytest.mark.parametrize("form", ["printed", "meant"])
def test_sampled_epsilon_is_the_infimum_of_its_terms(form):
    alpha = 1 + np.geomspace(1e-6, 1e6, 200)
    terms = printed.sampling_term(alpha, dimension=3, floor=0.2, form=form)
    least = printed.sampled_epsilon(1e9, dimension=3, floor=0.2, form=form)
    assert least <= terms.min() and terms.min() == pytest.approx(float(least), rel=1e-4)
    assert printed.sampled_epsilon(0.5, dimension=3, floor=0.2, form=form) == 0.5


def test_sampling_term_at_extreme_orders():
    pure = 3 * (np.log1p(-1e-300) - np.log(1e-300))
    for form in ("printed", "meant"):
        value = printed.sampling_term(1e308, dimension=3, floor=1e-300, form=form)
        assert value == pytest.approx(pure)


def test_score_slopes_are_derivatives():
    s = np.linspace(-6, 6, 25)
    moved = [1 / (1 + np.exp(-s - h)) for h in (1e-5, -1e-5)]
    plain = printed.score_slope(s, rule="straight-through")
    assert plain == pytest.approx((moved[0] - moved[1]) / 2e-5, abs=1e-9)
    assert printed.score_slope(s) == pytest.approx((moved[0] ** 2 - moved[1] ** 2) / 4e-5, abs=1e-9)
    assert np.all(np.isfinite(printed.score_slope(np.array([-800.0, 800.0]))))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(units, min_size=3, max_size=3), min_size=2, max_size=4))
def test_estimator_error_by_enumeration(probabilities):
    probabilities = np.array(probabilities)
    clients, d = probabilities.shape
    masks = all_masks(clients * d)
    law = mask_chances(masks, probabilities.ravel())
    average = masks.reshape(-1, clients, d).mean(1)
    assert law @ average == pytest.approx(probabilities.mean(0))
    error = law @ np.sum((average - probabilities.mean(0)) ** 2, axis=1)
    assert error <= printed.estimator_error_bound(d, clients=clients) + 1e-12
    assert error == pytest.approx(np.sum(probabilities * (1 - probabilities)) / clients**2)


@pytest.mark.parametrize("seed", range(5))
def test_singular_value_terms_hold_for_invertible_guesses(seed):
    rng = np.random.default_rng(seed)
    weights, mask = rng.normal(size=(3, 3)), rng.integers(0, 2, (3, 3)).astype(float)
    guesses = all_masks(9).reshape(-1, 3, 3)
    good = guesses[np.abs(np.linalg.det(weights * guesses)) > 1e-6]
    terms = printed.reconstruction_bound(weights, mask, good, spectrum="singular values")
    for _ in range(20):
        x = rng.normal(size=3)
        errors = inversion_errors(weights, mask, good, x)
        assert np.all(errors >= terms * np.linalg.norm(x) * (1 - 1e-9))


def test_reconstruction_bound_at_its_limits():
    rng = np.random.default_rng(0)
    w, ones = rng.normal(size=(3, 3)), np.ones((3, 3))
    one_off = ones.copy()
    one_off[0, 0] = 0
    for spectrum in ("eigenvalues", "singular values"):
        assert printed.reconstruction_bound(w, ones, ones, spectrum=spectrum) == 0
        assert printed.reconstruction_bound(w, ones, one_off, spectrum=spectrum) == 0
    wide = rng.normal(size=(2, 3))
    masks = rng.integers(0, 2, (2, 2, 3)).astype(float)
    assert printed.reconstruction_bound(wide, *masks, spectrum="singular values") == 0
    symmetric = w + w.T
    values = [
        printed.reconstruction_bound(symmetric, 0 * ones, ones, spectrum=s)
        for s in ("eigenvalues", "singular values")
    ]
    assert values[0] == pytest.approx(float(values[1]))
    nothing_left = printed.reconstruction_bound(w, ones, 0 * ones, spectrum="singular values")
    assert np.isinf(nothing_left)


def dense(filters: np.ndarray, side: int, *, wrap: bool) -> np.ndarray:
    """The convolution's matrix, written out pixel by pixel."""
    out, inward, k, _ = filters.shape
    matrix = np.zeros((out, side, side, inward, side, side))
    for a, b, u, v in np.ndindex(side, side, k, k):
        x, y = a + u - k // 2, b + v - k // 2
        if wrap or (0 <= x < side and 0 <= y < side):
            matrix[:, a, b, :, x % side, y % side] += filters[:, :, u, v]
    return matrix.reshape(out * side**2, -1)


@pytest.mark.parametrize("side", [1, 3, 4, 5])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
def test_circular_singular_values_are_those_of_the_matrix(side, shape):
    rng = np.random.default_rng(side)
    filters = rng.normal(size=(*shape, 1 if side < 3 else 3, 1 if side < 3 else 3))
    values = np.linalg.svd(dense(filters, side, wrap=True), compute_uv=False)
    assert circular_singular_values(filters, side=side) == pytest.approx(np.sort(values))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("side", [8, 11])
def test_terms_of_whole_convolutions(seed, side):
    rng = np.random.default_rng(seed)
    filters = rng.normal(size=(2, 2, 3, 3))
    mask, guess = rng.integers(0, 2, (2, *filters.shape))
    exact, limit = convolution_terms(filters, mask, guess, side=side)
    for wrap in (True, False):
        change, kept = (
            np.linalg.svd(dense(filters * bits, side, wrap=wrap), compute_uv=False)
            for bits in (guess - mask, guess)
        )
        if wrap:
            assert exact == pytest.approx(change.min() / kept.max(), rel=1e-9, abs=1e-14)
        else:
            assert change.min() / kept.max() <= limit * (1 + 1e-9)


def test_term_at_its_limits():
    eye = np.zeros((2, 2, 3, 3))
    eye[[0, 1], [0, 1], 1, 1] = 2.0
    ones, none = np.ones_like(eye), np.zeros_like(eye)
    assert convolution_terms(eye, none, ones, side=4) == pytest.approx((1, 1))
    assert convolution_terms(eye, ones, ones, side=4) == (0, 0)
    assert convolution_terms(eye, ones, none, side=4) == (0, 0)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"filters": "w"}, "filters"),
        ({"filters": np.ones((2, 3, 3, 3))}, "filters"),
        ({"filters": np.full((2, 2, 3, 3), np.nan)}, "filters"),
        ({"mask": np.ones((2, 2))}, "mask"),
        ({"guess": np.full((2, 2, 3, 3), 0.5)}, "guess"),
        ({"side": 2}, "filters"),
        ({"side": 3.0}, "side"),
    ],
)
def test_bad_input_of_a_convolution_is_named(change, name):
    ones = np.ones((2, 2, 3, 3))
    arguments = {"filters": ones, "mask": ones, "guess": ones, "side": 8, **change}
    with pytest.raises(ValueError, match=name):
        convolution_terms(**arguments)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: printed.smashed_epsilon(-1, dimension=2, floor=0.1), "epsilon"),
        (lambda: printed.smashed_epsilon(1, dimension=0, floor=0.1), "dimension"),
        (lambda: printed.smashed_epsilon(1, dimension=2, floor=0.5), "floor"),
        (lambda: printed.smashed_gain_log10(1, dimension=2, floor=0.0), "floor"),
        (lambda: printed.smashed_epsilon([1, 2], dimension=[1, 2, 3], floor=0.1), "broadcast"),
        (lambda: printed.smashed_epsilon(1, dimension=1e-300, floor=0.1), "dimension"),
        (lambda: printed.score_slope("a"), "scores"),
        (lambda: printed.reconstruction_bound([[1.0], [1.0, 2.0]], 0, 1), "weights"),
        (lambda: printed.reconstruction_bound(np.eye(2), np.ones((3, 2, 2)), np.ones((4, 2, 2))), "broadcast"),
        (lambda: printed.step_sigma(0, 1e-5, steps=1, clip=1, batch=1), "epsilon"),
        (lambda: printed.step_sigma(1, 1.0, steps=1, clip=1, batch=1), "delta"),
        (lambda: printed.step_sigma(1, 1e-5, steps=0, clip=1, batch=1), "steps"),
        (lambda: printed.step_sigma(1, 1e-5, steps=1, clip=np.nan, batch=1), "clip"),
        (lambda: printed.step_sigma(1, 1e-5, steps=1, clip=1, batch=-3), "batch"),
        (lambda: printed.mask_sigma(1, 1e-5, floor=0.6), "floor"),
        (lambda: printed.sampling_term(1.0, dimension=1, floor=0.1), "alpha"),
        (lambda: printed.sampling_term(2.0, dimension=1, floor=0.1, form="other"), "form"),
        (lambda: printed.sampled_epsilon(None, dimension=1, floor=0.1), "epsilon"),
        (lambda: printed.score_slope([np.inf]), "scores"),
        (lambda: printed.score_slope([0.0], rule="ste"), "rule"),
        (lambda: printed.estimator_error_bound(3, clients=0), "clients"),
        (lambda: printed.estimator_error_bound(3, clients=0.5), "clients"),
        (lambda: printed.reconstruction_bound(np.ones(3), np.ones(3), np.ones(3)), "weights"),
        (lambda: printed.reconstruction_bound(np.eye(2), np.eye(3), np.eye(2)), "mask"),
        (lambda: printed.reconstruction_bound(np.eye(2), np.eye(2), np.eye(2) / 2), "guesses"),
        (lambda: printed.reconstruction_bound(np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3))), "square"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()
