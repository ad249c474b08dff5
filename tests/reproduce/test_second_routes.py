"""The second routes themselves: they must be right before they may judge anything."""

import numpy as np
import pytest

from repro.accounting import GaussianMechanism, PoissonGaussian
from repro.accounting.random_participation.mechanisms import CountRevealed
from reproduce.papers.second_routes import (
    Mixture,
    average_pair,
    client_pair,
    crossing_signs,
    grid_divergence,
    line_divergence,
    sampled_divergence,
    search_leaks,
    shared_out_integral,
    sign_changes,
)

ONE, ZERO = (Mixture(np.ones(1), np.array([[m]])) for m in (1.0, 0.0))


def test_client_pair_enumerates_every_subset():
    with_record, without = client_pair([[1.0], [10.0]], [100.0], 0.5, 0.25)
    assert with_record.weights.sum() == pytest.approx(1) and without.weights.sum() == pytest.approx(
        1
    )
    chance = dict(zip(without.means[1:, 0], without.weights[1:], strict=True))
    assert chance == pytest.approx({0: 9 / 32, 1: 3 / 32, 10: 3 / 32, 11: 1 / 32})
    both = dict(zip(with_record.means[-4:, 0], with_record.weights[-4:], strict=True))
    assert both[111.0] == pytest.approx(0.5 * 0.25**3)


def test_client_pair_refuses_too_many_records():
    with pytest.raises(ValueError, match="number of other records must be an integer in"):
        client_pair(np.zeros((13, 1)), [1.0], 0.5, 0.5)


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
def test_three_integrators_agree_with_the_gaussian_mechanism(epsilon):
    exact = GaussianMechanism(1.0).delta(epsilon)
    alpha = np.exp(epsilon)
    assert line_divergence(ONE, ZERO, 1.0, alpha) == pytest.approx(exact, rel=1e-12)
    assert grid_divergence(ONE, ZERO, 1.0, alpha, 2001) == pytest.approx(exact, rel=1e-4)
    estimate, error = sampled_divergence(ONE, ZERO, 1.0, alpha, samples=100_000, seed=1)
    assert abs(estimate - exact) < 4 * error and error < 0.01 * exact + 1e-3


def test_grid_divergence_in_the_plane_ignores_an_idle_dimension():
    line = client_pair([[1.0]], [1.0], 0.5, 0.5)
    plane = client_pair([[1.0, 0.0]], [1.0, 0.0], 0.5, 0.5)
    assert grid_divergence(*plane, 1.0, 1.2, 301) == pytest.approx(
        grid_divergence(*line, 1.0, 1.2, 301), rel=1e-6
    )


def test_search_finds_the_leak_of_absent_records():
    found = search_leaks(
        d=1, p=1.0, q=0.5, sigma=0.5, epsilon=0.3, direction="remove", trials=3, seed=0
    )
    assert found.delta >= 0.999 * PoissonGaussian(0.5, rate=0.5).delta(0.3)
    assert np.linalg.norm(found.others, axis=1).max() <= 1 + 1e-12


def test_average_pair_divides_by_the_number_of_sampled_records():
    with_record, without = average_pair(np.array([[3.0], [5.0]]), [7.0], 1.0, 0.5)
    assert set(without.means[1:, 0]) == {0.0, 3.0, 5.0, 4.0}
    assert with_record.means[-1, 0] == 5.0


def test_sign_changes_skip_zeros():
    assert sign_changes([-1, 0, -2, 0, 3, 1, 0, -1]) == 2
    assert sign_changes(crossing_signs(30, 0.1, 5.0)) == 1


@pytest.mark.parametrize("direction, epsilon", [("remove", 0.0), ("remove", 1.0), ("add", 0.1)])
def test_shared_out_integral_agrees_with_the_code(direction, epsilon):
    ours = CountRevealed(0.8, p=0.3, q=0.4, samples_per_client=4)
    exact = shared_out_integral(epsilon, direction, d=4, p=0.3, q=0.4, sigma=0.8)
    assert ours.delta(epsilon, direction=direction) == pytest.approx(exact, rel=1e-9)


def test_shared_out_integral_vanishes_where_the_add_direction_does():
    assert shared_out_integral(1.0, "add", d=2, p=0.5, q=0.1, sigma=1.0) == 0.0
