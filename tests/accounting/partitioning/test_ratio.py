"""Attempts to leak more than the bounds of balanced subsampling allow, by quadrature on a grid.

Everything is written from the definition: densities of mixtures over subsets, a grid over all iterations,
hockey-stick divergences summed in both directions. Gradients may depend on earlier outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import numpy as np
import pytest

from repro.accounting import BalancedIterationSubsampling, ModelSplitting

EPSILON = np.array([0.0, 0.5, 1.5])
DIRECTIONS = ("remove", "add")


def chosen(size: int, k: int) -> np.ndarray:
    """All 0-1 rows with k ones."""
    rows = [np.isin(np.arange(size), ones) for ones in combinations(range(size), k)]
    return np.array(rows, dtype=float)


def axes(size: int, step: float, reach: float) -> list[np.ndarray]:
    line = np.arange(-reach, reach + step / 2, step)
    return np.meshgrid(*[line] * size, indexing="ij", sparse=True)


def density(y, rows, shift: Callable) -> np.ndarray:
    """Mixture over the rows; ``shift(row, t, y)`` is the mean of output t given the earlier ones."""
    size = len(y)
    total = 0.0
    for row in rows:
        exponent = sum((y[t] - shift(row, t, y)) ** 2 for t in range(size)) / -2
        total = total + np.exp(exponent)
    return total / len(rows) / (2 * np.pi) ** (size / 2)


def leaked(first, second, step: float, size: int) -> np.ndarray:
    """Shape (2, epsilons): with the record first, and without it first."""
    cell = step**size
    return np.array(
        [
            [np.maximum(p - np.exp(e) * q, 0).sum() * cell for e in EPSILON]
            for p, q in ((first, second), (second, first))
        ]
    )


def bracket(size: int, k: int, a: float):
    run = BalancedIterationSubsampling(1 / a, iterations=size, participations=k)
    return [
        np.array([run.delta(EPSILON, method=m, direction=w) for w in DIRECTIONS])
        for m in ("lower", "upper")
    ]


@pytest.mark.parametrize(
    "size, k, a, step",
    [(2, 1, 1.3, 0.05), (3, 1, 0.8, 0.1), (3, 2, 0.8, 0.1), (3, 2, 2.1, 0.1), (4, 2, 0.9, 0.3)],
)
def test_constant_gradients_lie_in_the_bracket(size, k, a, step):
    y = axes(size, step, 6 + a)
    rows = chosen(size, k)
    found = leaked(
        density(y, rows, lambda row, t, y: a * row[t]),
        density(y, [rows[0]], lambda *_: 0.0),
        step,
        size,
    )
    low, high = bracket(size, k, a)
    slack = 3e-3 * found + 1e-7  # of the quadrature
    assert np.all(low <= found + slack)
    assert np.all(found <= high + slack)
    assert np.all(high - low <= 0.08 * high + 1e-6)


def strategies(a: float):
    """Means that a data set may give to output t, given the row of participations and the past."""
    yield "smaller with time", lambda row, t, y: a * row[t] * 0.8**t
    yield "other sign in one iteration", lambda row, t, y: a * row[t] * (-1.0 if t == 1 else 1.0)
    yield "sign of the last output", lambda row, t, y: a * row[t] * (np.sign(y[t - 1]) if t else 1)
    yield "stops after a large output", lambda row, t, y: a * row[t] * (y[t - 1] < 1 if t else 1)
    yield "follows the past", lambda row, t, y: a * row[t] * (np.tanh(y[t - 1] + y[0]) if t else 1)


@pytest.mark.parametrize("size, k, a", [(3, 1, 1.2), (3, 2, 1.2), (3, 2, 2.0)])
def test_no_varying_or_adaptive_gradient_leaks_more(size, k, a):
    step = 0.1
    y = axes(size, step, 6 + a)
    rows = chosen(size, k)
    without = density(y, [rows[0]], lambda *_: 0.0)
    _, high = bracket(size, k, a)
    for name, shift in strategies(a):
        found = leaked(density(y, rows, shift), without, step, size)
        assert np.all(found <= high * (1 + 3e-3) + 1e-7), name


@pytest.mark.parametrize("other", [1.0, -1.0, 0.5, -2.0])
@pytest.mark.parametrize("k", [1, 2])
def test_another_record_equal_or_opposite_only_blurs(k, other):
    """The other record draws its own subset: with it both hypotheses are mixtures."""
    size, a, step = 3, 1.2, 0.12
    y = axes(size, step, 6 + a + abs(other))
    rows = chosen(size, k)
    pairs = [mine + other * theirs for mine, theirs in product(rows, rows)]
    found = leaked(
        density(y, pairs, lambda row, t, y: a * row[t]),
        density(y, other * rows, lambda row, t, y: a * row[t]),
        step,
        size,
    )
    _, high = bracket(size, k, a)
    assert np.all(found <= high * (1 + 3e-3) + 1e-7)


def test_the_attacks_can_succeed_against_a_bound_that_is_too_small():
    """Two participations against the bound for one, and against that of the reverse direction's gap."""
    size, a, step = 3, 1.2, 0.1
    y = axes(size, step, 6 + a)
    rows = chosen(size, 2)
    found = leaked(
        density(y, rows, lambda row, t, y: a * row[t]),
        density(y, [rows[0]], lambda *_: 0.0),
        step,
        size,
    )
    _, high = bracket(size, 1, a)
    assert np.all(found[:, 1] > high[:, 1])


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("size, k, a", [(7, 3, 0.9), (20, 5, 0.6), (40, 16, 0.35), (200, 10, 0.8)])
def test_monte_carlo_at_settings_of_its_own(size, k, a, direction):
    """Losses from elementary symmetric functions, in the log domain; four standard errors either way."""
    rng = np.random.default_rng([size, k])
    draws = 40_000
    z = rng.standard_normal((draws, size))
    if direction == "remove":
        z[:, :k] += a  # every subset is as good as the first one
    x = a * z - a**2 / 2
    log_sums = np.full((k + 1, draws), -np.inf)
    log_sums[0] = 0.0
    for t in range(size):
        log_sums[1:] = np.logaddexp(log_sums[1:], log_sums[:-1] + x[:, t])
    count = np.arange(1, k + 1)
    loss = log_sums[k] - np.log((size - k + count) / count).sum()
    loss = loss if direction == "remove" else -loss
    run = BalancedIterationSubsampling(1 / a, iterations=size, participations=k)
    for epsilon in EPSILON:
        gain = np.maximum(-np.expm1(epsilon - loss), 0.0)
        mean, error = gain.mean(), gain.std() / np.sqrt(draws)
        low, high = (run.delta(epsilon, method=m, direction=direction) for m in ("lower", "upper"))
        assert low - 4 * error - 1e-9 <= mean <= high + 4 * error + 1e-9


# ---- model splitting: overlapping submodels, and the reverse direction ------------------------------


@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_overlapping_submodels_stay_below_the_theorem(rate):
    """Theorem 3.5: a partition drawn in secret, then one of its two parts; four units, two partitions."""
    a, step = 1.4, 0.12
    # Units 0 | 1 2 and 0 1 | 2: submodels of different partitions overlap.
    parts = [np.array(p, dtype=float) for p in ((1, 0, 0), (0, 1, 1), (1, 1, 0), (0, 0, 1))]
    y = axes(3, step, 6 + a)
    _, high = (
        np.array(
            [
                ModelSplitting(1 / a, submodels=2, rate=rate).delta(EPSILON, method=m, direction=w)
                for w in DIRECTIONS
            ]
        )
        for m in ("lower", "upper")
    )
    without = density(y, [parts[0]], lambda *_: 0.0)
    rng = np.random.default_rng(0)
    for trial in range(4):
        norms = [a * p / np.linalg.norm(p) for p in parts]
        if trial:
            turned = [p * rng.normal(size=3) for p in parts]
            norms = [a * t / np.linalg.norm(t) for t in turned]
        with_record = density(y, norms, lambda row, t, y: row[t])
        found = leaked((1 - rate) * without + rate * with_record, without, step, 3)
        assert np.all(found <= high * (1 + 3e-3) + 1e-7)
        assert np.all(
            found[1] <= found[0] * (1 + 3e-3) + 1e-7
        )  # adding is never the worse direction
