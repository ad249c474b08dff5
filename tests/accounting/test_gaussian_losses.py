"""Losses of the subsampled Gaussian beside dp-accounting's own constructor, and the search for thresholds."""

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld_lib

from repro.accounting import PoissonGaussian
from repro.accounting._pld import losses, one_sided
from repro.accounting.random_participation.upper import _root


@pytest.mark.parametrize(
    ("sigma", "sensitivity", "rate", "interval"),
    [
        (1.0, 1.0, 1.0, 1e-2),
        (2.0, 1.0, 0.1, 1e-2),
        (0.7, 2.0, 0.3, 1e-2),
        (1.1, 1.0, 1e-4, 1e-2),
        (0.03, 1.0, 0.5, 0.5),
    ],
)
def test_losses_are_those_of_dp_accounting(sigma, sensitivity, rate, interval):
    """On grids of few losses, every one of which is used; ours reach a little further out."""
    ours = PoissonGaussian(sigma, rate=rate, sensitivity=sensitivity).losses("upper", interval)
    theirs = pld_lib.from_gaussian_mechanism(
        sigma,
        sensitivity=sensitivity,
        sampling_prob=rate,
        value_discretization_interval=interval,
        use_connect_dots=True,
    )
    for first, second in zip(one_sided(ours), one_sided(theirs), strict=True):
        mine, other = losses(first), losses(second)
        table = dict(zip(mine.first + np.arange(mine.mass.size), mine.mass, strict=True))
        found = [table.pop(other.first + k, 0.0) for k in range(other.mass.size)]
        np.testing.assert_allclose(found, other.mass, rtol=0, atol=1e-13)
        assert sum(table.values()) < 1e-13
        assert mine.infinite == pytest.approx(other.infinite, abs=1e-13)


def test_search_finds_roots_next_to_poles_and_kinks():
    """log(z) + k max(z - 1, 0) + c increases from -inf at 0, with a kink at 1."""
    rng = np.random.default_rng(0)
    root = np.concatenate([10.0 ** rng.uniform(-9, 2, 200), 1 + 10.0 ** rng.uniform(-9, -1, 50)])
    steep = 10.0 ** rng.uniform(0, 6, root.size)

    def curve(z, rows):
        return np.log(z) + steep[rows] * np.maximum(z - 1, 0)

    level = curve(root, np.arange(root.size))

    def function(z, rows):
        with np.errstate(divide="ignore"):
            return curve(z, rows) - level[rows], 1 / z + steep[rows] * (z > 1)

    low, high = np.zeros(root.size), np.full(root.size, 1e3)
    for guess in (high, low, rng.permutation(root)):
        found = _root(function, low, high, guess, np.full(root.size, 1e-13))
        np.testing.assert_allclose(found, root, rtol=1e-9, atol=1e-12)
