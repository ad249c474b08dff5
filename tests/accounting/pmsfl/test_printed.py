"""The bounds of pmsfl and their exact counterparts, each by a second route that knows no closed form."""

from __future__ import annotations

from itertools import product

import mpmath as mp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from repro.accounting import GaussianMechanism, compose
from repro.accounting.ddpsa import printed as ddpsa
from repro.accounting.pmsfl import masked, printed
from repro.accounting.pmsfl import releases as exact
from reproduce.papers.pmsfl.second_routes import (
    all_masks,
    averaging_errors,
    frozen_share,
    inversion_errors,
    mask_chances,
    masked_loss,
    row_matches,
    search_masked_loss,
)
from reproduce.papers.pmsfl.sizes import (
    local_steps,
    resnet_bottom,
    smashed_numbers,
    transformer_bottom,
)

units = st.floats(0.02, 0.98)
floors = st.floats(0.01, 0.49)
scores = st.floats(-8, 8)


# --- formulas as printed -------------------------------------------------------------------------


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


# --- theorem 1 -----------------------------------------------------------------------------------


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


def test_averaging_finds_the_input_and_matches_are_all_found():
    rng = np.random.default_rng(1)
    w, x = rng.normal(size=(40, 4)), rng.uniform(size=4)
    errors = averaging_errors(w, np.full(w.shape, 0.6), x, np.array([1, 10, 4000]), rng)
    assert errors[2] < 0.02 < errors[0]
    sure = averaging_errors(w, np.ones(w.shape), x, np.array([1]), rng)
    assert sure == pytest.approx(0, abs=1e-9)
    mask = rng.integers(0, 2, (40, 4))
    found = row_matches(w, np.stack([x, x + 0.1, 0 * x]), (w * mask) @ x)
    assert np.all(found[0] >= 1) and not np.all(found[1] >= 1)
    assert np.all(found[2][mask.any(1)] == 0)


# --- sampled masks -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 5), st.floats(0, 4))
def test_mask_delta_by_enumeration(first, second, count, epsilon):
    p, q = (mask_chances(all_masks(count), x) for x in (first, second))
    value = np.maximum(p - np.exp(epsilon) * q, 0).sum()
    ours = exact.mask_delta(epsilon, first=first, second=second, count=count)
    assert ours == pytest.approx(value, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(units, units, st.integers(1, 300), st.floats(1e-8, 0.3))
def test_mask_epsilon_inverts_mask_delta_in_both_directions(first, second, count, delta):
    epsilon = float(exact.mask_epsilon(delta, first=first, second=second, count=count))
    ways = [(first, second), (second, first)]

    def worst(at):
        return max(exact.mask_delta(at, first=a, second=b, count=count) for a, b in ways)

    assert worst(epsilon) <= delta * (1 + 1e-6)
    if epsilon > 1e-6:
        assert worst(epsilon * (1 - 1e-6)) >= delta * (1 - 1e-4)


def test_worst_masks_are_randomised_response():
    pure = np.log(0.9 / 0.1)
    for total in (0.0, 3.0, 9.0):
        known = ddpsa.optimal_delta(total, pure, 12)
        assert exact.mask_delta(total, first=0.9, second=0.1, count=12) == pytest.approx(known)
    one = exact.mask_epsilon(1e-9, first=0.9, second=0.1, count=1)
    assert one == pytest.approx(pure, rel=1e-7)
    many = exact.mask_epsilon(1e-12, first=0.9, second=0.1, count=675_392)
    assert np.isfinite(many) and many < 675_392 * pure


@pytest.mark.parametrize(("first", "second"), [(0.8, 0.3), (0.502, 0.5), (0.97, 1e-6)])
def test_counts_left_out_do_not_matter(first, second):
    """The inverse leaves out far counts; the divergence sums over all of them."""
    for count in (2_000, 60_000):
        epsilon = float(exact.mask_epsilon(1e-6, first=first, second=second, count=count))
        for share, sign in ((1 + 1e-7, 1), (1 - 1e-7, -1)):
            worst = max(
                exact.mask_delta(epsilon * share, first=a, second=b, count=count)
                for a, b in ((first, second), (second, first))
            )
            assert sign * (1e-6 - worst) >= -1e-11


def test_a_frozen_coordinate_has_no_finite_epsilon():
    assert np.isinf(exact.mask_epsilon(1e-5, first=1.0, second=0.5, count=3))
    assert exact.mask_delta(700.0, first=1.0, second=0.0, count=1) == 1.0
    assert exact.mask_epsilon(1e-5, first=0.4, second=0.4, count=9) == 0.0


@settings(deadline=None, max_examples=25)
@given(st.floats(0, 1), st.floats(0.05, 4), floors)
def test_noised_probability_by_quadrature(theta, sigma, floor):
    def integrand(z):
        return np.clip(theta + sigma * z, floor, 1 - floor) * norm.pdf(z)

    kinks = [(floor - theta) / sigma, (1 - floor - theta) / sigma]
    inside = sorted(k for k in kinks if -12 < k < 12)
    value = sum(
        quad(integrand, a, b)[0] for a, b in zip([-12, *inside], [*inside, 12], strict=True)
    )
    ours = exact.noised_probability(theta, sigma, floor=floor)
    assert ours == pytest.approx(value, abs=1e-9)
    mirrored = exact.noised_probability(1 - theta, sigma, floor=floor)
    assert ours + mirrored == pytest.approx(1)


@settings(deadline=None, max_examples=60)
@given(st.lists(scores, min_size=3, max_size=3), st.lists(scores, min_size=3, max_size=3),
       st.floats(1.01, 20))  # fmt: skip
def test_renyi_divergence_of_sampled_masks_is_below_that_of_noise_of_deviation_two(s, other, alpha):
    s, other = np.array(s), np.array(other)
    masks = all_masks(3)
    p, q = (mask_chances(masks, 1 / (1 + np.exp(-x))) for x in (s, other))
    with np.errstate(divide="ignore"):
        terms = alpha * np.log(p) + (1 - alpha) * np.log(q)
    divergence = np.logaddexp.reduce(terms) / (alpha - 1)
    distance = np.linalg.norm(s - other)
    bound = exact.binary_upload_rdp(alpha, distance)
    assert divergence <= bound * (1 + 1e-6) + 1e-9
    assert bound == pytest.approx(GaussianMechanism(2.0, sensitivity=max(distance, 1e-9)).rdp(alpha),
                                  abs=1e-12)  # fmt: skip


@settings(deadline=None, max_examples=30)
@given(st.floats(-3, 3), st.floats(0, 1.5), st.integers(1, 200))
def test_exact_epsilon_of_an_upload_is_below_the_theorem(start, move, count):
    probabilities = 1 / (1 + np.exp(-np.array([start, start + move])))
    value = exact.mask_epsilon(1e-5, first=probabilities[0], second=probabilities[1], count=count)
    assert value <= exact.binary_upload_epsilon(move * np.sqrt(count), 1e-5) + 1e-9


# --- masked Laplace sums -------------------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(-2, 2), min_size=2, max_size=2),
       st.lists(st.floats(-2, 2), min_size=2, max_size=2), units, st.floats(0.2, 3))  # fmt: skip
def test_masked_loss_on_a_fine_grid(first, second, keep, epsilon):
    u = np.linspace(-10, 10, 20_001)
    density = []
    for z in (first, second):
        total = 0.0
        for mask in product((0, 1), repeat=2):
            chance = np.prod([keep if m else 1 - keep for m in mask])
            total = total + chance * np.exp(-epsilon * np.abs(u - np.dot(mask, z)))
        density.append(total)
    value = masked_loss(np.array(first), np.array(second), np.array([keep] * 2), epsilon=epsilon)
    found = np.log(density[0] / density[1]).max()
    assert found <= value + 1e-9
    assert value <= found + epsilon * 2e-3


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_repaired_theorem_2_survives_the_search(dimension, epsilon):
    rng = np.random.default_rng(dimension)
    worst = search_masked_loss(rng, dimension=dimension, floor=0.2, epsilon=epsilon, tries=300)
    bound = float(printed.smashed_epsilon(epsilon, dimension=dimension, floor=0.2))
    attained = float(masked.masked_laplace_epsilon(epsilon, keep=0.8))
    assert worst <= bound + 1e-9
    assert 0.98 * attained <= worst <= attained + 1e-9


def test_sensitivity_before_the_mask_is_not_enough():
    z = np.array([1.0, -0.9]) / 0.1  # in units of the unmasked sensitivity
    leak = masked_loss(z, 0 * z, np.full(2, 0.5), epsilon=1.0)
    assert leak > 8 > float(printed.smashed_epsilon(1.0, dimension=2, floor=0.4))


@pytest.mark.parametrize("delta", [1e-3, 1e-60, 1e-200, 1e-300])
def test_tiny_deltas_reach_far_counts(delta):
    """Rare bits: the tail that matters lies hundreds of deviations from the mean."""
    count = 5_000
    epsilon = float(exact.mask_epsilon(delta, first=1e-4, second=1e-5, count=count))
    log_delta = []
    for share in (1 + 1e-9, 1 - 1e-9):
        with mp.workdps(30):
            total = mp.mpf(0)
            for k in range(400):
                p, q = (mp.binomial(count, k) * mp.mpf(x) ** k * (1 - mp.mpf(x)) ** (count - k)
                        for x in (1e-4, 1e-5))  # fmt: skip
                total += max(0, p - mp.exp(epsilon * share) * q)
            log_delta.append(float(mp.log(total)))
    assert log_delta[0] <= np.log(delta) <= log_delta[1] + 1e-6


def test_extreme_noise_on_probabilities():
    assert exact.noised_probability(0.3, 1e-300, floor=0.1) == pytest.approx(0.3)
    assert exact.noised_probability(0.0, 5e-324, floor=0.1) == pytest.approx(0.1)
    assert exact.noised_probability([0.0, 1.0], 1e300, floor=1e-9) == pytest.approx(0.5)
    spread = exact.noised_probability(1.0, 1e6, floor=0.01) - 0.5
    assert spread == pytest.approx(0.98 * 0.5 / 1e6 / np.sqrt(2 * np.pi), rel=1e-6)


def test_sampling_term_at_extreme_orders():
    pure = 3 * (np.log1p(-1e-300) - np.log(1e-300))
    for form in ("printed", "meant"):
        value = printed.sampling_term(1e308, dimension=3, floor=1e-300, form=form)
        assert value == pytest.approx(pure)


def test_concentrated_epsilon_bounds_gaussian_noise_and_adds_up():
    for ratio in (0.1, 1.0, 5.0):
        bound = exact.concentrated_epsilon(ratio**2 / 2, 1e-5)
        assert bound >= GaussianMechanism(1.0, sensitivity=ratio).epsilon(1e-5)
        assert bound == pytest.approx(float(exact.binary_upload_epsilon(2 * ratio, 1e-5)))
    assert exact.concentrated_epsilon(0.0, 1e-5) == 0


def test_masked_laplace_epsilon_at_its_limits():
    assert masked.masked_laplace_epsilon(2.0, keep=1.0) == 2.0
    assert masked.masked_laplace_epsilon(2.0, keep=0.0) == pytest.approx(0, abs=1e-15)
    one = masked_loss(np.array([1.0]), np.array([0.0]), np.array([0.7]), epsilon=2.0)
    assert masked.masked_laplace_epsilon(2.0, keep=0.7) == pytest.approx(float(one))


# --- noise, runs, drift, sizes -------------------------------------------------------------------


def test_local_noise_is_the_composition_of_its_steps():
    sigma = 0.7
    together = exact.local_noise(sigma, steps=6, clip=1.0, batch=4, relation="replace")
    composed = compose(GaussianMechanism(sigma, sensitivity=0.5), 6)
    assert together.epsilon(1e-5) == pytest.approx(composed.epsilon(1e-5), rel=1e-3)
    each = [
        exact.local_noise(sigma, steps=6, clip=1.0, batch=4, relation=r).sensitivity
        for r in exact.RELATIONS
    ]
    assert each == pytest.approx(np.sqrt(6) * np.array([0.25, 0.5, 2.0]))


def test_first_strategy_holds_for_an_added_gradient_and_fails_for_a_replaced_one():
    for epsilon in (0.5, 2.0, 5.0, 7.5):
        sigma = printed.step_sigma(epsilon, 1e-5, steps=80, clip=1.0, batch=32)
        added, replaced = (
            exact.local_noise(sigma, steps=80, clip=1.0, batch=32, relation=r).delta(epsilon)
            for r in ("add or remove", "replace")
        )
        assert added <= 1e-5 < replaced


def test_second_strategy_fails_from_seven_coordinates_on():
    sigma = printed.mask_sigma(5.0, 1e-5, floor=0.01)
    kept = float(exact.noised_probability(1.0, sigma, floor=0.01))
    value = [
        exact.mask_epsilon(1e-5, first=kept, second=1 - kept, count=n) for n in (6, 7)
    ]  # fmt: skip
    assert value[0] < 5 < value[1]


def test_adam_never_moves_further_than_its_reach():
    steps, tries = 25, 400
    rng = np.random.default_rng(0)
    growth = rng.uniform(-4, 4, tries)
    gradients = np.exp(growth * np.arange(steps)[:, None]) * rng.choice([-1, 1], (steps, tries))
    gradients[:, :200] = np.abs(gradients[:, :200])
    gradients = gradients / np.abs(gradients).max(0) * 1e3
    score = torch.zeros(tries, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([score], lr=1e-3, eps=1e-300)
    for t, gradient in enumerate(gradients, start=1):
        score.grad = torch.from_numpy(gradient)
        optimiser.step()
        assert score.detach().abs().max() <= exact.adam_reach(t) * (1 + 1e-12)
    assert score.detach().abs().max() > 0.5 * exact.adam_reach(steps)
    assert exact.adam_reach(1, rate=0.5) == pytest.approx(0.5)


def test_run_epsilon_falls_back_to_each_of_its_parts():
    alone = exact.run_epsilon(1e-5, smashed=0.1, releases=60, update=1e-4, rounds=1, interval=1e-3)
    assert alone == pytest.approx(ddpsa.total_epsilon(0.1, 60, delta=1e-5), rel=5e-3)
    gaussian = exact.run_epsilon(
        1e-5, smashed=1e-3, releases=1, update=0.4, rounds=9, interval=1e-3
    )
    assert gaussian == pytest.approx(
        GaussianMechanism(1.0, sensitivity=1.2).epsilon(1e-5), rel=5e-3
    )


def test_run_epsilon_against_sampled_losses():
    rng = np.random.default_rng(3)
    moved = 0.5 + rng.laplace(size=(200_000, 8))
    loss = np.sum(np.abs(moved) - np.abs(moved - 0.5), axis=1)
    loss += 0.9 * rng.normal(size=200_000) + 0.9**2 / 2
    epsilon = float(exact.run_epsilon(0.01, smashed=0.5, releases=8, update=0.3, rounds=9))
    gain = np.maximum(-np.expm1(epsilon - loss), 0)
    assert gain.mean() == pytest.approx(0.01, abs=5 * gain.std() / np.sqrt(gain.size) + 2e-4)


def test_frozen_share_in_closed_form_and_by_simulation():
    assert frozen_share(2, 6, start=0.5) == pytest.approx(1 - 0.5 ** np.arange(1, 7))
    assert frozen_share(1, 3, start=0.2) == pytest.approx(1)
    rng = np.random.default_rng(0)
    theta = np.full(50_000, 0.3)
    for share in frozen_share(5, 6, start=0.3):
        theta = rng.binomial(5, theta) / 5
        assert np.mean((theta == 0) | (theta == 1)) == pytest.approx(share, abs=0.012)


def basic_block(inward: int, out: int) -> torch.nn.Module:
    nn = torch.nn
    layers = [nn.Conv2d(inward, out, 3, bias=False), nn.BatchNorm2d(out)]
    layers += [nn.Conv2d(out, out, 3, bias=False), nn.BatchNorm2d(out)]
    if inward != out:
        layers += [nn.Conv2d(inward, out, 1, bias=False), nn.BatchNorm2d(out)]
    return nn.Sequential(*layers)


@pytest.mark.parametrize("width", [4, 64])
@pytest.mark.parametrize("blocks", [0, 2, 4])
def test_sizes_are_those_of_built_networks(width, blocks):
    nn = torch.nn
    net = [nn.Conv2d(3, width, 3, bias=False), nn.BatchNorm2d(width)]
    before = width
    for block in range(blocks):
        out = width * 2**block
        net += [basic_block(before, out), basic_block(out, out)]
        before = out
    built = sum(p.numel() for p in nn.Sequential(*net).parameters())
    assert resnet_bottom(blocks, width=width) == built
    norms = sum(p.numel() for m in nn.Sequential(*net).modules()
                if isinstance(m, nn.BatchNorm2d) for p in m.parameters())  # fmt: skip
    assert resnet_bottom(blocks, width=width, norm=False) == built - norms


def test_other_sizes():
    layer = torch.nn.TransformerEncoderLayer(768, 2, 1536)
    assert transformer_bottom(2) == 2 * sum(p.numel() for p in layer.parameters())
    assert resnet_bottom(kernel=7) - resnet_bottom() == 40 * 3 * 64
    assert smashed_numbers() == 128 * 16 * 16
    assert smashed_numbers(1) == 64 * 32 * 32
    assert local_steps(500) == 80 and local_steps(32) == 5 and local_steps(1, epochs=1) == 1


# --- bad input -----------------------------------------------------------------------------------


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
        (lambda: exact.concentrated_epsilon(-1.0, 1e-5), "rho"),
        (lambda: exact.adam_reach(1, rate=[1e-3, 1e-2]), "rate"),
        (lambda: exact.adam_reach(1, betas=(0.9,)), "betas"),
        (lambda: exact.run_epsilon(1e-5, smashed=[1, 2], releases=1, update=1, rounds=1), "smashed"),
        (lambda: frozen_share(2, 1, start=[0.5, 0.1]), "start"),
        (lambda: frozen_share(100_000, 1, start=0.5), "clients"),
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
        (lambda: exact.mask_delta(-0.1, first=0.5, second=0.5, count=1), "epsilon"),
        (lambda: exact.mask_delta(0.1, first=1.5, second=0.5, count=1), "first"),
        (lambda: exact.mask_epsilon(0.1, first=0.5, second=-0.1, count=1), "second"),
        (lambda: exact.mask_epsilon(0.1, first=[0.5, 0.2], second=0.1, count=1), "first"),
        (lambda: exact.mask_epsilon(0.0, first=0.5, second=0.1, count=1), "delta"),
        (lambda: exact.mask_epsilon(0.1, first=0.5, second=0.1, count=0), "count"),
        (lambda: exact.noised_probability(1.1, 1.0, floor=0.1), "theta"),
        (lambda: exact.noised_probability(0.5, 0.0, floor=0.1), "sigma"),
        (lambda: exact.binary_upload_rdp(1.0, 1.0), "alpha"),
        (lambda: exact.binary_upload_epsilon(-1.0, 1e-5), "distance"),
        (lambda: exact.local_noise(1.0, steps=1, clip=1, batch=1, relation="both"), "relation"),
        (lambda: masked.masked_laplace_epsilon(1.0, keep=1.2), "keep"),
        (lambda: exact.adam_reach(0), "steps"),
        (lambda: exact.adam_reach(1, betas=(0.99, 0.9)), "betas"),
        (lambda: exact.run_epsilon(1e-5, smashed=0, releases=1, update=1, rounds=1), "smashed"),
        (lambda: exact.run_epsilon(1e-5, smashed=1, releases=1.5, update=1, rounds=1), "releases"),
        (lambda: exact.run_epsilon(1e-30, smashed=1, releases=1, update=1, rounds=1), "delta"),
        (lambda: all_masks(17), "cells"),
        (lambda: masked_loss(np.ones(9), np.ones(9), np.ones(9), epsilon=1.0), "dimension"),
        (lambda: masked_loss(np.ones(1), np.ones(1), [2.0], epsilon=1.0), "keep"),
        (lambda: frozen_share(0, 1, start=0.5), "clients"),
        (lambda: frozen_share(2, 1, start=1.5), "start"),
        (lambda: averaging_errors(np.eye(2), np.eye(2), np.ones(2), np.array([2, 1]), None), "views"),
        (lambda: averaging_errors(np.eye(2), np.eye(2), np.ones(3), np.array([1]), None), "x must"),
        (lambda: inversion_errors(np.eye(2), np.eye(3), np.eye(2), np.ones(2)), "mask"),
        (lambda: row_matches(np.eye(2), np.ones((1, 3)), np.ones(2)), "inputs"),
        (lambda: resnet_bottom(5), "blocks"),
        (lambda: resnet_bottom(2, width=0), "width"),
        (lambda: transformer_bottom(-1), "blocks"),
        (lambda: smashed_numbers(0), "blocks"),
        (lambda: local_steps(0), "records"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()
