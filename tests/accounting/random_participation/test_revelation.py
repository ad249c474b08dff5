"""The bound that reveals all drawn records but one: second routes, its steps, and what it gains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import accounting_reference as reference
from repro.accounting import RandomParticipation
from repro.accounting._weights import weights
from repro.accounting.random_participation import revelation
from repro.accounting.random_participation.mechanisms import CountRevealed
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
    """One group and equality: only the charges for knots and for covering all angles are left."""
    monkeypatch.setattr(revelation, "_INTERVALS", 60)
    monkeypatch.setattr(revelation, "_KNOTS", {"shares": 14, "outline": 60, "bound": 96})
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
    pair = revelation._pair(column(cosine), column(0.8))
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
    pair = revelation._pair(column(0.4), column(0.8))
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


def drawn_rows(rng, n, add):
    """Random settings, each repeated along the cosines from 0 to 1, and shares for them."""
    rows = revelation._Rows(
        rng.uniform(0.4, 1.8, n),
        np.exp(rng.uniform(0.01, 4, n)),
        np.exp(rng.uniform(-4, 4, n)),
        rng.dirichlet([4, 2, 1], n),
        np.full(n, 0.05),
        add,
    )
    return rows, rng.uniform(0.02, 0.98, (n, 2))


def along(rows, shares, cosine, knots=150):
    """The first group and the others at each cosine, shape (rows, cosines)."""
    every = np.repeat(np.arange(rows.s.size), cosine.shape[1])
    groups = revelation._Groups(rows.take(every), cosine.ravel(), knots)
    first = groups.first(shares[every, 0])
    return first.reshape(cosine.shape), groups.rest(shares[every]).reshape(cosine.shape)


@pytest.mark.parametrize("add", [False, True])
def test_the_first_group_is_largest_at_its_cosine_and_the_others_at_zero(add):
    """The theorem on moving centres, against the integrals themselves."""
    rows, shares = drawn_rows(np.random.default_rng(5), 60, add)
    cosine = np.tile(np.linspace(0.0, 0.999, 25), (60, 1))
    first, rest = along(rows, shares, cosine)
    peak = revelation._worst_of_first(rows)[:, None]
    steps, size = np.diff(first, axis=1), first.max(axis=1, keepdims=True)
    # Chords between many knots, and the charge for rounding, lie a trace above the integral.
    assert np.all(np.where(cosine[:, 1:] <= peak, steps, 0.0) >= -1e-4 * size - 1e-15)
    assert np.all(np.where(cosine[:, :-1] >= peak, steps, 0.0) <= 1e-4 * size + 1e-15)
    assert np.all(np.diff(rest, axis=1) <= 1e-4 * rest.max(axis=1, keepdims=True))
    assert np.any(peak < 0.9) and np.any(peak == 1)
    assert np.median(steps.max(axis=1) / size[:, 0]) > 1e-3  # there is something to see


@pytest.mark.parametrize("add", [False, True])
def test_the_first_group_of_the_plane_is_largest_at_its_cosine(add):
    """The same by a grid in the plane for cosines of both signs, which knows no formula for the integral."""
    s, w1, b, share = 0.8, 2.5, (0.6, 0.4), 0.7
    w0 = 0.2 if add else 1.0
    u, y = np.meshgrid(np.arange(-8, 10, 0.03), np.arange(-8, 10, 0.03), indexing="ij")

    def normal(a, c):
        return np.exp(-((u - a) ** 2 + (y - c) ** 2) / 2) / (2 * np.pi)

    cosines = np.linspace(-1, 1, 21)
    value = []
    for c in cosines:
        # In units of the noise; "add" is written as it is defined, not as the module turns it round.
        toward = -c if add else c
        h = toward / s, np.sqrt(1 - c**2) / s
        with_x, without = normal(h[0] + 1 / s, h[1]), normal(*h)
        if add:
            size0, size1 = normal(0, 0) - w1 * normal(1 / s, 0), without - w1 * with_x
        else:
            size0, size1 = normal(1 / s, 0) - w1 * normal(0, 0), with_x - w1 * without
        signed = b[0] * size0 + share * b[1] * size1 - w0 * normal(0, 0)
        value.append(np.maximum(signed, 0).sum() * 0.03**2)
    one = lambda x: np.array([float(x)])  # noqa: E731
    rows = revelation._Rows(one(s), one(w1), one(w0), np.array([b]), one(0), add)
    peak = float(revelation._worst_of_first(rows)[0])
    assert 0 < peak < 1
    assert abs(cosines[int(np.argmax(value))] - peak) <= 0.1
    left, right = cosines <= peak, cosines >= peak
    assert np.all(np.diff(np.array(value)[left]) >= -1e-6)
    assert np.all(np.diff(np.array(value)[right]) <= 1e-6)


@pytest.mark.parametrize("add", [False, True])
def test_intervals_cover_their_cosines(add):
    rng = np.random.default_rng(3)
    rows, shares = drawn_rows(rng, 100, add)
    peak = revelation._worst_of_first(rows)[:, None]
    ends = np.sort(rng.random((100, 2)), axis=1) * peak
    bound, _ = revelation._cut(rows, shares, np.arange(100), ends, 60)
    inside = ends[:, :1] + rng.random((100, 8)) * (ends[:, 1:] - ends[:, :1])
    first, rest = along(rows, shares, inside)
    assert np.all(first + rest <= bound * (1 + 1e-9))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_cosine_of_either_sign_exceeds_the_bound(direction):
    """Shares as the bound takes them; cosines between -1 and 1, where the bound looks only at 0 to c0."""
    for setting in (
        (0.05, 0.9, 0.1, 0.1, 10),
        (0.3, 0.6, 0.1, 0.3, 4),
        (0.02, 0.65, 0.1, 0.002, 500),
    ):
        epsilon, s, p, q, d = setting
        factor, log_w1, log_w0 = weights(*row(epsilon, p, q), direction)
        if not np.isfinite(factor[0]):
            continue
        last = int(min(d, max(binom.isf(revelation._TAIL, d, q), 2)))
        rows = revelation._Rows(
            np.array([s]),
            np.exp(log_w1),
            np.exp(log_w0),
            binom.pmf(np.arange(last + 1), d, q)[None],
            binom.sf(last, d, np.array([q])),
            direction == "add",
        )
        shares = revelation._shares(rows, revelation._candidates(last, last == d))
        first, rest = along(rows, shares, np.linspace(-0.999, 0.999, 81)[None], knots=120)
        limit = pair_bound(*setting, direction)
        assert np.max(np.exp(factor[0]) * (first + rest)) <= limit * (1 + 1e-3)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_more_intervals_and_knots_hardly_change_it(direction, monkeypatch):
    setting = 0.4, 0.9, 0.3, 0.3, 4
    value = pair_bound(*setting, direction)
    monkeypatch.setattr(revelation, "_INTERVALS", 200)
    monkeypatch.setattr(revelation, "_KNOTS", {"shares": 14, "outline": 60, "bound": 200})
    assert 0.985 * value <= pair_bound(*setting, direction) <= value * (1 + 1e-3)


# ---- properties of the least of the two bounds ---------------------------------------------------


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
        upper = mechanism.delta(epsilon, direction=direction)
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
    setting = {"p": p, "q": q, "samples_per_client": d}
    mechanism = RandomParticipation(sigma, **setting)
    lower = mechanism.delta(epsilon, method="lower")
    assert CountRevealed(sigma, **setting).delta(epsilon) > before * lower
    assert lower <= mechanism.delta(epsilon) < after * lower
