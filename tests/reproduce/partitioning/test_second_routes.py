"""The second routes of the partitioning paper: they must be right before they may judge anything."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduce.papers.partitioning.second_routes import (
    balanced_moment,
    centred_floor,
    coupling,
    occupancy_rdp,
    rays,
    renyi,
    replica_moment,
    subset_centres,
    uniform,
)
from reproduce.papers.second_routes import Mixture

ORIGIN = {dim: uniform(np.zeros((1, dim))) for dim in (1, 2, 3)}


def test_subset_centres_are_all_vectors_once():
    rows = subset_centres(6, 2)
    assert rows.shape == (15, 6) and np.all(rows.sum(1) == 2)
    assert len(np.unique(rows, axis=0)) == 15
    assert subset_centres(3, 0).shape == (1, 3)
    with pytest.raises(ValueError, match="k must be an integer in"):
        subset_centres(3, 4)


@pytest.mark.parametrize("alpha", [1.001, 1.5, 2.0, 7.0])
def test_renyi_of_one_shift_is_exact_in_both_directions(alpha):
    shifted = uniform([0.4, -1.1])
    exact = alpha * (0.4**2 + 1.1**2) / 2
    assert renyi(shifted, ORIGIN[2], alpha) == pytest.approx(exact, rel=1e-8)
    assert renyi(ORIGIN[2], shifted, alpha) == pytest.approx(exact, rel=1e-8)


def test_renyi_does_not_depend_on_the_grid_nor_on_the_origin():
    first = Mixture(np.array([0.2, 0.8]), np.array([[1.0, 0.0], [0.3, -0.7]]))
    second = uniform(np.array([[0.0, 0.5], [-0.4, 0.1]]))
    value = renyi(first, second, 2.5)
    moved = (Mixture(m.weights, m.means + np.array([2.0, 3.0])) for m in (first, second))
    assert renyi(first, second, 2.5, step=0.1) == pytest.approx(value, rel=1e-10)
    assert renyi(*moved, 2.5) == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ORIGIN[1], ORIGIN[1], 1.0), "alpha - 1 must be positive"),
        ((ORIGIN[3], uniform(60 * np.eye(3)), 3.0), "number of grid points must be an integer"),
    ],
)
def test_renyi_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        renyi(*arguments)


@settings(max_examples=30, deadline=None)
@given(a=st.floats(0.05, 2.5), alpha=st.integers(2, 5), d=st.integers(2, 5))
def test_three_sums_over_one_shift_agree(a, alpha, d):
    tuples = replica_moment(np.full(d, 1 / d), a**2 * np.eye(d), alpha)
    assert balanced_moment(d, 1, alpha, a) == pytest.approx(tuples, rel=1e-9, abs=1e-12)
    assert (alpha - 1) * occupancy_rdp(d, alpha, a) == pytest.approx(tuples, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("d", "k"), [(3, 1), (3, 2), (4, 2), (5, 3)])
@pytest.mark.parametrize("alpha", [2, 3, 4])
def test_counting_agrees_with_tuples_for_many_participations(d, k, alpha):
    rows = subset_centres(d, k)
    tuples = replica_moment(np.full(len(rows), 1 / len(rows)), 0.49 * rows @ rows.T, alpha)
    assert balanced_moment(d, k, alpha, 0.7) == pytest.approx(tuples, rel=1e-10)


def test_sums_agree_with_quadrature_for_unequal_weights():
    mixture = Mixture(np.array([0.5, 0.3, 0.2]), np.array([[1.0, 0], [0.2, -1.0], [0, 0]]))
    for alpha in (2, 3, 5):
        tuples = replica_moment(mixture.weights, mixture.means @ mixture.means.T, alpha)
        assert (alpha - 1) * renyi(mixture, ORIGIN[2], alpha) == pytest.approx(tuples, rel=1e-10)


def test_all_participations_are_the_plain_gaussian():
    assert balanced_moment(4, 4, 3, 0.6) == pytest.approx(3 * 0.36 * 4)
    assert balanced_moment(4, 0, 3, 0.6) == pytest.approx(0, abs=1e-14)
    assert occupancy_rdp(1, 6, 0.6) == pytest.approx(6 * 0.36 / 2)


def test_sums_refuse_what_they_cannot_hold():
    with pytest.raises(ValueError, match="number of tuples"):
        replica_moment(np.full(100, 0.01), np.eye(100), 5)
    with pytest.raises(ValueError, match="number of states"):
        balanced_moment(300, 100, 4, 1.0)


@pytest.mark.parametrize("alpha", [1.3, 2.0, 4.0])
@pytest.mark.parametrize("d", [2, 3])
def test_floor_lies_closely_below_the_divergence(alpha, d):
    exact = renyi(ORIGIN[d], uniform(0.25 * (subset_centres(d, 1) - 1 / d)), alpha)
    floors = [centred_floor(alpha, 0.25, d, degree) for degree in (3, 5)]
    assert floors[0] < floors[1] <= exact * (1 + 1e-12)
    assert floors[1] == pytest.approx(exact, rel=0.03)


def test_floor_refuses_an_even_degree_and_gives_up_where_the_series_fails():
    with pytest.raises(ValueError, match="degree must be odd, got 4"):
        centred_floor(2.0, 0.3, 3, 4)
    assert centred_floor(2.0, 3.0, 2, 7) == -np.inf


def test_rays_balance_on_average_only():
    angle = np.arange(360) * np.pi / 180
    basis = np.linalg.svd(subset_centres(3, 1) - 1 / 3)[2][:2]
    triangle = 2.0 * (subset_centres(3, 1) - 1 / 3) @ basis.T
    found = rays(triangle, np.stack([np.cos(angle), np.sin(angle)], axis=1))
    assert found.surplus.mean() == pytest.approx(0, abs=1e-5)
    assert found.surplus.max() > 0.4 and found.surplus.min() < -0.4
    assert set(found.crossings) == {1}


def test_rays_of_two_centres_balance_on_each():
    found = rays(np.array([[0.8], [-0.8]]), np.array([[1.0], [-1.0]]))
    assert found.surplus == pytest.approx([0, 0], abs=1e-6)


def test_coupling_sees_a_broken_hypothesis():
    assert coupling(subset_centres(4, 2), 3) == (0, 0, 0)
    assert coupling(np.array([[0.0], [1.0]]), 3).same_law > 1
