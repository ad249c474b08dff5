"""The adversaries of the partitioning paper: they must find what is there, and no more."""

import numpy as np
import pytest

from repro.accounting import GaussianMechanism, PoissonGaussian
from reproduce.papers.partitioning.search import (
    adaptive_excess,
    best_binary_delta,
    gradient_excess,
    grid_measures,
    overlap_search,
    shuffled_pair,
)
from reproduce.papers.partitioning.second_routes import renyi, uniform
from reproduce.papers.second_routes import Mixture

ORIGIN = {dim: uniform(np.zeros((1, dim))) for dim in (1, 2, 3)}


@pytest.mark.parametrize("alpha", [2, 8, 32])
def test_binary_search_stays_below_the_best_known_conversion_and_reaches_it(alpha):
    epsilon = 1 + np.array([0.5, 3.0, 9.0]) / (alpha - 1)
    known = np.exp((alpha - 1) * (1 - epsilon)) * (1 - 1 / alpha) ** alpha / (alpha - 1)
    found = best_binary_delta(alpha, 1.0, epsilon)
    assert np.all(found <= known) and np.all(np.diff(found) < 0)
    if alpha == 32:
        assert found[1:] == pytest.approx(known[1:], rel=1e-3)


def test_grid_measures_agree_with_both_directions_of_known_mechanisms():
    epsilon = [0.1, 0.5, 1.0]
    found = grid_measures(uniform([[1.0]]), step=0.002)
    exact = GaussianMechanism(1.0).delta(epsilon)
    assert found.remove == pytest.approx(exact, rel=1e-5)
    assert found.add == pytest.approx(exact, rel=1e-5)
    assert found.forward == pytest.approx(np.array([1.5, 2, 3]) / 2, rel=1e-6)
    assert found.reverse == pytest.approx(np.array([1.5, 2, 3]) / 2, rel=1e-6)
    sampled = PoissonGaussian(1.0, rate=0.6)
    mixture = Mixture(np.array([0.6, 0.4]), np.array([[1.0, 0], [0, 0]]))
    found = grid_measures(mixture, step=0.02)
    assert found.remove == pytest.approx(sampled.delta(epsilon, direction="remove"), rel=1e-3)
    assert found.add == pytest.approx(sampled.delta(epsilon, direction="add"), rel=1e-3)
    assert found.forward[1:] == pytest.approx(sampled.rdp([2, 3]), rel=1e-6)


def test_no_gradients_exceed_full_norms():
    for blocks, unsplit, rate in ((3, 0.0, 1.0), (2, 0.5, 0.4)):
        found, _ = gradient_excess(blocks, 0.8, unsplit, rate=rate, trials=3, seed=1)
        # Full norms are among those tried, so every entry is at least one.
        assert np.min(found) >= 1 - 1e-12 and np.max(found) < 1.001


def test_no_reply_to_the_history_exceeds_the_constant():
    found = adaptive_excess(2, 1, 1.0, trials=15, seed=0)
    assert 0.99 < np.min(found) and np.max(found) < 1.001
    with pytest.raises(ValueError, match="iterations must be an integer in"):
        adaptive_excess(4, 1, 1.0, trials=1, seed=0)


def test_adaptive_search_starts_from_the_mixture_over_subsets():
    # All iterations taken: one shift of norm sqrt(2), whatever the strategy says at most that.
    found = adaptive_excess(2, 2, 0.5, trials=10, seed=0)
    assert 0.98 < np.min(found) and np.max(found) < 1.001


def test_one_dropped_node_is_poisson_sampling():
    found = overlap_search([[0], [1]], [0.5, 0.5], 0.7, trials=2, seed=0)
    assert found.renyi_2 == pytest.approx(PoissonGaussian(1.0, rate=0.5, sensitivity=0.7).rdp(2.0))


def test_overlap_search_keeps_supports_and_norms_and_finds_the_common_blocks():
    masks = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    found = overlap_search(masks, np.full(4, 0.25), 1.0, trials=10, seed=0)
    assert np.all(found.gradients[masks == 0] == 0)
    assert np.linalg.norm(found.gradients, axis=1) == pytest.approx(np.ones(4))
    assert found.renyi_2 == pytest.approx(np.log((1 + np.e) / 2), rel=1e-9)


def test_shuffled_pair_without_another_gradient_is_one_of_two_blocks():
    with_record, blank = shuffled_pair(1.0, 0.0)
    assert renyi(with_record, blank, 2.0) == pytest.approx(np.log((1 + np.e) / 2), rel=1e-9)
