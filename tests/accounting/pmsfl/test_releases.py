"""What the releases of pmsfl disclose, exactly: by enumeration, quadrature and sampled losses."""

from __future__ import annotations

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
from repro.accounting.pmsfl import printed
from repro.accounting.pmsfl import releases as exact
from repro.accounting.pmsfl.printed import smashed_epsilon
from repro.accounting.pmsfl.releases import masked_laplace_bound, masked_laplace_epsilon
from reproduce.papers.pmsfl.second_routes import (
    all_masks,
    mask_chances,
    masked_loss,
    search_masked_loss,
)

units = st.floats(0.02, 0.98)


floors = st.floats(0.01, 0.49)


scores = st.floats(-8, 8)


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


def test_concentrated_epsilon_bounds_gaussian_noise_and_adds_up():
    for ratio in (0.1, 1.0, 5.0):
        bound = exact.concentrated_epsilon(ratio**2 / 2, 1e-5)
        assert bound >= GaussianMechanism(1.0, sensitivity=ratio).epsilon(1e-5)
        assert bound == pytest.approx(float(exact.binary_upload_epsilon(2 * ratio, 1e-5)))
    assert exact.concentrated_epsilon(0.0, 1e-5) == 0


def test_masked_laplace_epsilon_at_its_limits():
    assert exact.masked_laplace_epsilon(2.0, keep=1.0) == 2.0
    assert exact.masked_laplace_epsilon(2.0, keep=0.0) == pytest.approx(0, abs=1e-15)
    one = masked_loss(np.array([1.0]), np.array([0.0]), np.array([0.7]), epsilon=2.0)
    assert exact.masked_laplace_epsilon(2.0, keep=0.7) == pytest.approx(float(one))


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


keeps = st.floats(0.5, 1)


@settings(deadline=None, max_examples=40)
@given(st.floats(0, 60), keeps)
def test_both_formulas_in_high_precision(epsilon, keep):
    with mp.workdps(60):
        p, e = mp.mpf(keep), mp.exp(epsilon)
        lower = mp.log(1 - p + p * e)
        upper = mp.log((p * e + (1 - p) / e) / (p + (1 - p) / e))
    assert float(masked_laplace_epsilon(epsilon, keep=keep)) == pytest.approx(
        float(lower), rel=1e-12
    )
    assert float(masked_laplace_bound(epsilon, keep=keep)) == pytest.approx(
        float(upper), rel=1e-12, abs=1e-15
    )


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-3, 30), st.floats(0.5, 0.999))
def test_the_bound_lies_between_the_attained_value_and_epsilon(epsilon, keep):
    attained = float(masked_laplace_epsilon(epsilon, keep=keep))
    bound = float(masked_laplace_bound(epsilon, keep=keep))
    assert attained <= bound * (1 + 1e-12) and bound <= epsilon
    spared = np.expm1(epsilon - attained), np.expm1(epsilon - bound)
    assert spared[1] >= spared[0] * np.exp(-epsilon) * (1 - 1e-6) - 1e-12


def test_limits_and_extreme_arguments():
    assert masked_laplace_bound(0.0, keep=0.7) == 0 and masked_laplace_bound(3.0, keep=1.0) == 3
    for epsilon in (0.0, 1e-300, 700.0, 710.0, 1e300):
        for keep in (0.0, 1e-300, 1e-17, 0.5, 1.0):
            value = masked_laplace_epsilon(epsilon, keep=keep)
            assert 0 <= value <= epsilon
    assert masked_laplace_epsilon(800.0, keep=0.0) == 0
    assert masked_laplace_epsilon(800.0, keep=1e-300) == pytest.approx(800 + np.log(1e-300))
    shape = masked_laplace_bound(np.ones((3, 1)), keep=[0.5, 0.9]).shape
    assert shape == masked_laplace_epsilon(np.ones((3, 1)), keep=[0.5, 0.9]).shape == (3, 2)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 6), st.floats(0.5, 1), st.integers(0, 10**6))
def test_mean_difference_of_outputs_is_at_most_the_keep_probability(dimension, keep, seed):
    """The lemma in the proof: positive and negative parts of at most 1, bits kept up to p >= 1/2."""
    rng = np.random.default_rng(seed)
    terms = rng.standard_cauchy(dimension)
    terms /= max(np.maximum(terms, 0).sum(), np.maximum(-terms, 0).sum())
    masks = all_masks(dimension)
    law = mask_chances(masks, keep * rng.uniform(size=dimension))
    assert law @ np.abs(masks @ terms) <= keep + 1e-12


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("floor", [0.02, 0.3, 0.48])
def test_the_search_stays_below_the_bound(epsilon, floor):
    rng = np.random.default_rng(7)
    bound = float(masked_laplace_bound(epsilon, keep=1 - floor))
    for dimension in (2, 4):
        worst = search_masked_loss(
            rng, dimension=dimension, floor=floor, epsilon=epsilon, tries=200
        )
        assert worst <= bound


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(0, 6), min_size=2, max_size=5), keeps)
def test_bounds_of_several_outputs_add_to_less_than_the_bound_of_their_sum(parts, keep):
    parts = np.array(parts)
    separate = masked_laplace_bound(parts, keep=keep).sum()
    assert separate <= masked_laplace_bound(parts.sum(), keep=keep) + 1e-12


def test_the_attained_value_is_exceeded_where_the_theorem_ends():
    # keep probabilities below 1/2 only: one positive and one negative term leak more than one term
    pair = np.zeros(2), np.array([1.0, -1.0])
    rare = float(masked_loss(*pair, np.full(2, 0.1), epsilon=0.1))
    assert rare > 1.5 * masked_laplace_epsilon(0.1, keep=0.1)
    # two outputs under the same two bits
    outputs = np.array([[0.5, 0.5], [0.5, -0.5]])
    masks = all_masks(2)
    moved = np.abs(masks @ outputs).sum(1)
    assert moved == pytest.approx([0, 1, 1, 1])
    shared = -np.log(mask_chances(masks, 0.7) @ np.exp(-0.1 * moved))
    assert masked_laplace_bound(0.1, keep=0.7) < shared
    assert shared < smashed_epsilon(0.1, dimension=2, floor=0.3)


def test_losses_of_extreme_inputs():
    far = masked_loss(np.array([1000.0]), np.array([0.0]), np.array([0.5]), epsilon=1.0)
    assert far == pytest.approx(1000 + np.log(0.5))
    assert masked_loss(np.array([800.0]), np.array([0.0]), [1.0], epsilon=1.0) == 800
    many = masked_loss(np.ones((4, 1, 2)), np.zeros((3, 2)), 0.5 * np.ones(2), epsilon=700.0)
    assert many.shape == (4, 3) and np.all(np.isfinite(many))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: masked_laplace_bound(-1.0, keep=0.6), "epsilon"),
        (lambda: masked_laplace_bound(np.inf, keep=0.6), "epsilon"),
        (lambda: masked_laplace_bound(1.0, keep=0.4), "keep"),
        (lambda: masked_laplace_bound(1.0, keep=np.nan), "keep"),
        (lambda: masked_laplace_bound([1.0, 2.0], keep=[0.5] * 3), "broadcast"),
        (lambda: masked_laplace_epsilon("1", keep=0.6), "epsilon"),
        (lambda: masked_loss([np.nan], [1.0], [0.5], epsilon=1.0), "first"),
        (lambda: masked_loss([1.0], "x", [0.5], epsilon=1.0), "second"),
        (lambda: masked_loss(1.0, 2.0, 0.5, epsilon=1.0), "dimension"),
        (lambda: masked_loss([1.0, 2.0], [1.0] * 3, 0.5, epsilon=1.0), "broadcast"),
    ],
)
def test_bad_input_of_masked_noise_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: exact.concentrated_epsilon(-1.0, 1e-5), "rho"),
        (lambda: exact.adam_reach(1, rate=[1e-3, 1e-2]), "rate"),
        (lambda: exact.adam_reach(1, betas=(0.9,)), "betas"),
        (lambda: exact.run_epsilon(1e-5, smashed=[1, 2], releases=1, update=1, rounds=1), "smashed"),
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
        (lambda: exact.masked_laplace_epsilon(1.0, keep=1.2), "keep"),
        (lambda: exact.adam_reach(0), "steps"),
        (lambda: exact.adam_reach(1, betas=(0.99, 0.9)), "betas"),
        (lambda: exact.run_epsilon(1e-5, smashed=0, releases=1, update=1, rounds=1), "smashed"),
        (lambda: exact.run_epsilon(1e-5, smashed=1, releases=1.5, update=1, rounds=1), "releases"),
        (lambda: exact.run_epsilon(1e-30, smashed=1, releases=1, update=1, rounds=1), "delta"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()
