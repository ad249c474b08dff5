"""The least value of the theorem on partial revelation, by quadrature and dynamic programming."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from reproduce.papers.random_participation.exactness import one_other
from reproduce.papers.random_participation.quadrature import weights
from reproduce.papers.random_participation.revealed import least_revealed


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_with_one_other_record_it_is_the_largest_divergence(direction):
    setting = {"p": 0.8, "q": 0.6, "sigma": 0.8}
    delta, cosine = one_other(0.1, direction, **setting)
    turned = abs(cosine)  # "add" is told with the record the other way round
    found = least_revealed(0.1, direction, d=1, **setting, cosines=(turned,))
    assert found == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("cosine", [0.0, 0.6])
def test_with_two_others_one_share_is_sought(direction, cosine):
    """All in one place: densities on another grid, and one number to minimise over."""
    epsilon, p, q, sigma = 0.1, 0.6, 0.5, 0.9
    factor, w1, w0 = weights(epsilon, p, q, direction)
    b = (1 - q) ** 2, 2 * q * (1 - q), q**2
    x, y = np.meshgrid(np.arange(-7, 9, 0.04), np.arange(-6, 7, 0.04), indexing="ij")

    def normal(along, across):
        square = (x - along / sigma) ** 2 + (y - across / sigma) ** 2
        return np.exp(-square / 2) / (2 * np.pi)

    across = np.sqrt(1 - cosine**2)
    if direction == "remove":
        single = normal(1, 0) - w1 * normal(0, 0)
        pair = normal(1 + cosine, across) - w1 * normal(cosine, across)
    else:
        single = normal(0, 0) - w1 * normal(1, 0)
        pair = normal(-cosine, across) - w1 * normal(1 - cosine, across)

    def total(share):
        first = b[0] * single + share * b[1] * pair - w0 * normal(0, 0)
        second = (1 - share) * b[1] * single + b[2] * pair
        return factor * sum(np.maximum(each, 0).sum() for each in (first, second)) * 0.04**2

    least = minimize_scalar(total, bounds=(0, 1), method="bounded").fun
    found = least_revealed(epsilon, direction, d=2, p=p, q=q, sigma=sigma, cosines=(cosine,))
    assert found == pytest.approx(least, rel=1e-3)


def test_nothing_leaks_to_who_adds_beyond_its_reach():
    assert least_revealed(1.0, "add", d=2, p=0.4, q=0.3, sigma=0.9) == 0
