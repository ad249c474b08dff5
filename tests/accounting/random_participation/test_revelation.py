"""The bound that reveals all drawn records but one: second routes, its steps, and what it gains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accounting_reference as reference
from repro.accounting import RandomParticipation
from repro.accounting.random_participation import revelation
from repro.accounting.random_participation.mechanisms import log_count_bound
from repro.accounting.random_participation.revelation import log_pair_bound

DIRECTIONS = ("remove", "add")


def row(*values):
    return tuple(np.array([float(x)]) for x in values)


def pair_bound(epsilon, s, p, q, d, direction):
    return float(np.exp(log_pair_bound(*row(epsilon, s, p, q), d, direction)[0]))


# ---- no data set exceeds it ---------------------------------------------------------------------


def data_set(rng, d, kind):
    """Gradients in the plane, the differing record first."""
    vectors = rng.normal(size=(d + 1, 2))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    if kind == "short":
        vectors *= rng.random((d + 1, 1)) ** 0.3
    elif kind == "clustered":
        angles = rng.uniform(0, np.pi, 2)[np.arange(d) % rng.integers(1, 3)]
        vectors[0] = 1.0, 0.0
        vectors[1:] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return vectors


@pytest.mark.parametrize("kind", ["random", "short", "clustered"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_data_set_exceeds_the_bound(d, kind):
    rng = np.random.default_rng(d)
    compared = 0
    for _ in range(12):
        p, q, s = rng.uniform([0.03, 0.03, 0.4], [1.0, 0.9, 1.4])
        epsilon = rng.uniform(0, 1.2) / s
        vectors = data_set(rng, d, kind)
        found = reference.divergences(
            vectors[0], vectors[1:], p=p, q=q, sigma=s, epsilon=epsilon, step=0.06
        )
        for value, direction in zip(found, DIRECTIONS, strict=True):
            limit = pair_bound(epsilon, s, p, q, d, direction)
            assert value <= limit * (1 + 3e-3) + 1e-13
            compared += np.isfinite(limit)
    assert compared >= 10


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("p, q, s, epsilon", [(0.4, 0.3, 0.9, 0.25), (0.85, 0.6, 1.2, 0.1)])
def test_with_one_other_record_it_is_the_largest_divergence(
    p, q, s, epsilon, direction, monkeypatch
):
    """One group and equality: only the charge for covering all angles is left."""
    monkeypatch.setattr(revelation, "_CELLS", 150)
    record = np.array([1.0, 0.0])
    best = max(
        reference.divergences(
            record, np.array([[c, np.sqrt(1 - c**2)]]), p=p, q=q, sigma=s, epsilon=epsilon
        )[DIRECTIONS.index(direction)]
        for c in np.linspace(-1, 1, 41)
    )
    limit = pair_bound(epsilon, s, p, q, 1, direction)
    assert best <= limit * (1 + 1e-3)
    assert limit <= best * 1.03


# ---- its steps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cosine", [-0.7, 0.05, 0.4, 0.95])
@pytest.mark.parametrize("weights", [(1.0, 30.0, 5.0), (0.4, 5.0, 5.0), (1.0, 3.0, 3.0)])
def test_chords_lie_just_above_the_integral(cosine, weights):
    """Against a grid in the plane that knows neither thresholds nor chords."""
    a1, a0, w1 = weights
    column = lambda x: np.array([[float(x)]])  # noqa: E731
    pair = revelation._pair(column(cosine), 0.0, column(0.8))
    knots = revelation._knots(pair, column(a1), column(a0), column(w1), 48)
    length, along, across = (float(x[0, 0]) for x in pair)
    u, y = np.meshgrid(np.arange(-9, 13, 0.02), np.arange(-9, 11, 0.02), indexing="ij")

    def normal(a, b):
        return np.exp(-((u - a) ** 2 + (y - b) ** 2) / 2) / (2 * np.pi)

    for b in (0.01, 0.3, 4.0):
        signed = a1 * normal(length, 0) - a0 * normal(0, 0)
        signed += b * (normal(along + length, across) - w1 * normal(along, across))
        want = np.maximum(signed, 0).sum() * 0.02**2
        got = revelation._mean(knots, pair.across, np.ones(1), np.array([b]))[0]
        assert want * (1 - 1e-4) <= got <= want * 1.02


def test_a_negative_weight_at_the_record_is_allowed():
    """The first group of "add" where silence outweighs the empty sum."""
    column = lambda x: np.array([[float(x)]])  # noqa: E731
    pair = revelation._pair(column(0.4), 0.0, column(0.8))
    knots = revelation._knots(pair, column(-2.0), column(3.0), column(3.0), 48)
    length, along, across = (float(x[0, 0]) for x in pair)
    u, y = np.meshgrid(np.arange(-9, 13, 0.02), np.arange(-9, 11, 0.02), indexing="ij")
    normal = lambda a, b: np.exp(-((u - a) ** 2 + (y - b) ** 2) / 2) / (2 * np.pi)  # noqa: E731
    for b in (1.0, 10.0):
        signed = -2 * normal(length, 0) - 3 * normal(0, 0)
        signed += b * (normal(along + length, across) - 3 * normal(along, across))
        want = np.maximum(signed, 0).sum() * 0.02**2
        got = revelation._mean(knots, pair.across, np.ones(1), np.array([b]))[0]
        assert want * (1 - 1e-4) <= got <= want * 1.05


@pytest.mark.parametrize("add", [False, True])
def test_a_cell_covers_its_cosines(add):
    """The longer pair in the middle of a cell bounds every pair of unit vectors in it."""
    rng = np.random.default_rng(3)
    half, n = 1 / 24, 200
    rows = revelation._Rows(
        np.full(n, 0.9),
        np.full(n, 8.0),
        np.full(n, 12.0),
        np.tile([0.6, 0.25, 0.1], (n, 1)),
        np.full(n, 0.05),
        add,
    )
    shares = rng.random((n, 2))
    middle = rng.uniform(-1 + half, 1 - half, n)
    inside = np.clip(middle + rng.uniform(-half, half, n), -0.9999, 0.9999)
    covered = revelation._Groups(rows, middle, half, 64).total(shares)
    exact = revelation._Groups(rows, inside, 1e-9, 400).total(shares)
    assert np.all(exact <= covered * (1 + 1e-9))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_more_cells_and_knots_hardly_change_it(direction, monkeypatch):
    setting = 0.4, 0.9, 0.3, 0.3, 4
    value = pair_bound(*setting, direction)
    monkeypatch.setattr(revelation, "_CELLS", 96)
    monkeypatch.setattr(revelation, "_KNOTS", {"coarse": 60, "fine": 200})
    assert 0.985 * value <= pair_bound(*setting, direction) <= value * (1 + 1e-3)


# ---- properties of the least of the two bounds ---------------------------------------------------


def least(epsilon, s, p, q, d, direction):
    """The least of the two upper bounds on delta, shape of epsilon."""
    setting = epsilon, *(np.full(epsilon.size, x) for x in (s, p, q))
    bounds = (bound(*setting, d, direction) for bound in (log_count_bound, log_pair_bound))
    return np.exp(np.minimum(*bounds))


@settings(max_examples=25, derandomize=True, deadline=None)
@given(
    s=st.floats(0.2, 3),
    p=st.floats(1e-3, 1),
    expected=st.floats(0.02, 4),
    d=st.sampled_from([1, 2, 3, 10, 200]),
    x=st.floats(0, 5),
)
def test_it_falls_with_epsilon_and_stays_above_the_lower_bound(s, p, expected, d, x):
    q = min(1.0, expected / d)
    mechanism = RandomParticipation(s, p=p, q=q, samples_per_client=d)
    epsilon = x / s + np.array([0.0, 1e-4, 1e-2, 0.05, 0.3])
    for direction in DIRECTIONS:
        upper = least(epsilon, s, p, q, d, direction)
        lower = mechanism.delta(epsilon, method="lower", direction=direction)
        assert np.all(lower <= upper * (1 + 1e-8) + 1e-15)
        assert np.all(np.diff(upper) <= 1e-12 + 1e-6 * upper[:-1])


@pytest.mark.parametrize(
    "epsilon, d, p, q, sigma, before, after",
    [  # upper / lower without and with this bound
        (0.015, 1000, 0.1, 0.001, 0.7415, 1.90, 1.26),
        (2.0, 10, 0.1, 0.1, 0.8402, 2.79, 1.60),
        (1.0, 10, 0.1, 0.1, 0.9223, 2.38, 1.45),
        (1.0, 100, 0.1, 0.01, 0.6192, 1.93, 1.24),
        (0.5, 20, 0.05, 0.05, 0.8349, 2.20, 1.37),
    ],
)
def test_the_bracket_where_it_is_widest(epsilon, d, p, q, sigma, before, after):
    mechanism = RandomParticipation(sigma, p=p, q=q, samples_per_client=d)
    lower = mechanism.delta(epsilon, method="lower")
    assert mechanism.delta(epsilon) > before * lower
    found = max(least(np.array([epsilon]), sigma, p, q, d, one)[0] for one in DIRECTIONS)
    assert lower <= found < after * lower
