"""An adversary who chooses the gradients: nothing may exceed "upper", and Theorem 4.1 falls.

All subsets of the records are enumerated and the divergence is integrated on a grid, in one, two or
three dimensions, from the definition. The quadrature is good to a few parts in a thousand.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import accounting_reference as reference
from repro.accounting import InvalidBoundWarning, RandomParticipation

QUADRATURE = 3e-3
SETTINGS = [  # p, q, sigma, epsilon
    (0.1, 0.1, 1.0, 0.1),
    (0.1, 0.3, 1.0, 0.5),
    (0.5, 0.5, 1.0, 0.3),
    (0.5, 0.5, 0.6, 1.0),
    (1.0, 0.3, 1.0, 0.2),
    (0.4, 1.0, 1.0, 0.5),
]


def bounds(d, p, q, sigma, epsilon, method="upper"):
    mechanism = RandomParticipation(sigma, p=p, q=q, samples_per_client=d)
    return np.array(
        [mechanism.delta(epsilon, method=method, direction=way) for way in ("remove", "add")]
    )


def assert_not_above(found, limit):
    assert np.all(found <= limit * (1 + QUADRATURE) + 1e-13), (found, limit)


STRUCTURED = {
    "absent": np.zeros((2, 2)),
    "equal": np.array([[1.0, 0.0], [1.0, 0.0]]),
    "opposite": np.array([[-1.0, 0.0], [-1.0, 0.0]]),
    "orthogonal": np.array([[0.0, 1.0], [0.0, 1.0]]),
    "cancelling": np.array([[0.0, 1.0], [0.0, -1.0]]),
    "one each way": np.array([[1.0, 0.0], [-1.0, 0.0]]),
    "short": np.array([[0.3, 0.1], [0.0, 0.5]]),
}


@pytest.mark.parametrize("p, q, sigma, epsilon", SETTINGS)
@pytest.mark.parametrize("name", STRUCTURED)
def test_structured_gradients(name, p, q, sigma, epsilon):
    limit = bounds(2, p, q, sigma, epsilon)
    for length in (1.0, 0.5):
        found = reference.divergences(
            np.array([length, 0.0]), STRUCTURED[name], p=p, q=q, sigma=sigma, epsilon=epsilon
        )
        assert_not_above(found, limit)


@pytest.mark.parametrize("d, dimension, trials", [(1, 2, 12), (2, 2, 12), (3, 2, 8), (3, 3, 2)])
@pytest.mark.parametrize("p, q, sigma, epsilon", SETTINGS[:4])
def test_random_gradients(d, dimension, trials, p, q, sigma, epsilon):
    rng = np.random.default_rng(d * 10 + dimension)
    limit = bounds(d, p, q, sigma, epsilon)
    for _ in range(trials):
        vectors = rng.normal(size=(d + 1, dimension))
        vectors *= (rng.random((d + 1, 1)) ** 0.3) / np.linalg.norm(vectors, axis=1, keepdims=True)
        found = reference.divergences(
            vectors[0],
            vectors[1:],
            p=p,
            q=q,
            sigma=sigma,
            epsilon=epsilon,
            step=0.05 if dimension == 2 else 0.2,
        )
        assert_not_above(found, limit)


@pytest.mark.parametrize("way", [0, 1], ids=["remove", "add"])
@pytest.mark.parametrize(
    "d, p, q, sigma, epsilon", [(2, 0.1, 0.3, 1.0, 0.5), (2, 0.5, 0.5, 1.0, 0.1)]
)
def test_local_search_stays_between_lower_and_upper(way, d, p, q, sigma, epsilon):
    """Angles of all records are optimised; the best found confirms how tight ``lower`` is."""
    upper = bounds(d, p, q, sigma, epsilon)[way]
    lower = bounds(d, p, q, sigma, epsilon, "lower")[way]
    if upper == 0:
        assert lower == 0
        return

    def loss(angles, step=0.15):
        others = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        pair = reference.divergences(
            np.array([1.0, 0.0]), others, p=p, q=q, sigma=sigma, epsilon=epsilon, step=step
        )
        return -pair[way] / upper

    starts = ([0.5, 0.7], [1.4, -1.4], [2.5, 2.0])
    searched = [minimize(loss, x, method="Nelder-Mead", options={"maxfev": 60}) for x in starts]
    best = max(-loss(s.x, 0.04) for s in searched) * upper
    assert_not_above(best, upper)
    assert best == pytest.approx(lower, rel=0.02)


def test_collinear_gradients_are_not_the_worst():
    """The counterexample to Theorem 4.1: oblique records leak more than it allows."""
    p, q, sigma, epsilon, d = 0.5, 0.5, 1.0, 0.5, 3
    scheme = RandomParticipation(sigma, p=p, q=q, samples_per_client=d)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InvalidBoundWarning)
        printed = scheme.delta(epsilon, method="paper")
    record, setting = np.array([1.0, 0.0]), {"p": p, "q": q, "sigma": sigma, "epsilon": epsilon}
    collinear = reference.divergences(record, np.tile(record, (d, 1)), **setting)[0]
    oblique = np.tile([0.43, np.sqrt(1 - 0.43**2)], (d, 1))
    assert collinear == pytest.approx(printed, rel=QUADRATURE)
    assert reference.divergences(record, oblique, **setting)[0] > 1.1 * printed
    assert scheme.delta(epsilon) > 1.1 * printed


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
def test_two_level_sampling_is_not_the_product_of_the_rates(epsilon):
    """Multiplying p and q under-counts as soon as the client has other records."""
    product = bounds(0, 0.1, 0.5, 1.0, epsilon)
    other = reference.divergences(
        np.array([1.0, 0.0]), np.array([[0.0, 1.0]] * 3), p=0.1, q=0.5, sigma=1.0, epsilon=epsilon
    )
    if epsilon:
        assert other[0] > 1.2 * product[0]
    assert_not_above(other, bounds(3, 0.1, 0.5, 1.0, epsilon))


def test_other_clients_cannot_raise_the_leak():
    """A second client whose record is drawn independently only blurs the output."""
    p, q, sigma, epsilon = 0.3, 0.4, 0.8, 0.2
    record, others = np.array([1.0, 0.0]), np.array([[0.2, 0.9]])
    limit = bounds(1, p, q, sigma, epsilon)
    alpha = np.exp(epsilon)
    means, with_record, without = reference.hypotheses(record, others, p, q)
    for third in ([1.0, 0.0], [-1.0, 0.0], [0.0, -1.0]):
        both = np.concatenate([means, means + np.array(third)])
        one, other = (np.concatenate([(1 - p * q) * w, p * q * w]) for w in (with_record, without))
        signed = np.stack([one - alpha * other, other - alpha * one], axis=1)
        found = np.maximum(reference.density_cells(both, signed, sigma), 0).sum(axis=(0, 1))
        alone = reference.divergences(record, others, p=p, q=q, sigma=sigma, epsilon=epsilon)
        assert_not_above(found, alone)
        assert_not_above(found, limit)
