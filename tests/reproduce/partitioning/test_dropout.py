"""The pieces that the derivations take from elsewhere."""

import numpy as np
import pytest

from repro.accounting.partitioning.printed import poisson_rdp
from reproduce.papers.partitioning import dropout
from reproduce.papers.partitioning.second_routes import (
    participation,
    rays,
    renyi,
    subset_centres,
    tracks,
    uniform,
)


@pytest.mark.parametrize("part", dropout.Network._fields)
def test_gradients_under_dropout_are_those_of_the_loss(part):
    rng = np.random.default_rng(1)
    network, masks = dropout.random_network(3, 2, 2, rng), dropout.all_masks(3)
    x, target = rng.standard_normal(2), rng.standard_normal(2)

    def losses(weights):
        hidden = np.tanh(weights.first @ x + weights.first_bias)
        output = (masks * hidden) @ weights.second.T + weights.second_bias
        return ((output - target) ** 2).sum(1) / 2

    found = getattr(dropout.dropout_gradients(network, x, target, masks), part)
    weights = getattr(network, part)
    for place in np.ndindex(weights.shape):
        step = np.zeros(weights.shape)
        step[place] = 1e-5
        up, down = (
            losses(network._replace(**{part: weights + sign * step})) for sign in (1.0, -1.0)
        )
        np.testing.assert_allclose(
            found[(slice(None), *place)], (up - down) / 2e-5, rtol=1e-6, atol=1e-8
        )


def test_only_the_biases_of_the_succeeding_layer_are_never_silenced():
    rng = np.random.default_rng(2)
    masks = dropout.all_masks(2)
    gradients = dropout.dropout_gradients(
        dropout.random_network(2, 3, 4, rng), rng.standard_normal(3), rng.standard_normal(4), masks
    )
    counts = dropout.untouched(gradients, masks)
    assert counts == {"first": 0, "first_bias": 0, "second": 0, "second_bias": 4}
    rows = dropout.clipped(gradients, ("first", "second"), 0.1)
    assert rows.shape == (4, 6 + 8)
    assert np.all(np.linalg.norm(rows, axis=1) < 0.1 + 1e-12)
    assert np.all(rows[0] == 0)  # all nodes dropped


@pytest.mark.parametrize("alpha", [2, 4])
def test_participation_is_poisson_sampling(alpha):
    run, nothing = participation(2, 0.3, 0.8), uniform(np.zeros((1, 2)))
    assert run.weights.sum() == pytest.approx(1)
    expected = 2 * poisson_rdp(np.array([alpha]), 1 / 0.8, 0.3)[0]
    assert renyi(run, nothing, alpha) == pytest.approx(expected, rel=1e-9)


def test_tracks_have_the_masses_that_rays_compares():
    centres = np.array([[1.0], [-1.0]])
    directions = np.array([[1.0], [-1.0]])
    found = tracks(centres, directions, 15.0)
    masses = np.trapezoid(found.mixture, found.radius, axis=1) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(masses, 0.5, rtol=1e-6)
    assert np.trapezoid(found.gaussian, found.radius) / np.sqrt(2 * np.pi) == pytest.approx(0.5)
    assert np.max(np.abs(rays(centres, directions).surplus)) < 1e-6
    assert subset_centres(2, 1).shape == (2, 2)
