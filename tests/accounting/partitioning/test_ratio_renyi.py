"""Moments of balanced subsampling from independent columns: the two steps of the upper bound, and both ends."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, i0e
from scipy.stats import binom

from repro.accounting.partitioning.ratio_renyi import (
    _SUP,
    _log_chance_above,
    _log_sinh_mean,
    _TiltedColumns,
    log_moment_bounds,
)


def exact_log_moment(a: float, size: int, k: int, order: float, points: int = 90) -> float:
    """log E (e_k / C(T, k))^n over `size` <= 3 normal variables, by a grid that knows no tilting."""
    z = np.linspace(-9, 9 + a * order, points)
    mass = np.exp(-(z**2) / 2) * (z[1] - z[0]) / np.sqrt(2 * np.pi)
    x = np.exp(a * z - a**2 / 2)
    columns = np.meshgrid(*[x] * size, indexing="ij")
    weight = np.prod(np.meshgrid(*[mass] * size, indexing="ij"), axis=0)
    subsets = list(itertools.combinations(range(size), k))
    ratio = sum(np.prod([columns[i] for i in one], axis=0) for one in subsets) / len(subsets)
    return float(np.log(np.sum(weight * ratio**order)))


@pytest.mark.parametrize("order", [2.0, 2.7, 5.0, 9.5])
@pytest.mark.parametrize("a, size, k", [(0.3, 3, 1), (0.8, 3, 2), (1.5, 2, 1)])
def test_the_moment_lies_in_the_bracket(a, size, k, order):
    low, high = (float(x[0]) for x in log_moment_bounds(a, size, k, np.array([order])))
    exact = exact_log_moment(a, size, k, order)
    assert low - 1e-9 <= exact <= high + 1e-9


@pytest.mark.parametrize("order", [2.0, 3.3, 12.0, 60.0])
@pytest.mark.parametrize("size", [40, 400])
def test_the_mean_of_powers_of_a_binomial_number(size, order):
    """Columns whose v is 1/4 or 1/100: its law is known, and so is the mean of min(1, sup / sqrt(v))^n."""
    weight, spread = np.array([0.4, 0.6]), np.array([0.25, 0.01])
    count = np.arange(size + 1)
    law = binom.pmf(count, size, 0.4)
    v = count * 0.25 + (size - count) * 0.01
    # What a bound that knows only p <= min(1, exp(-v) I_0(v)) cannot fall below.
    floor = np.log(np.sum(law * i0e(v) ** order))
    ceiling = np.log(np.sum(law * np.minimum(1.0, _SUP / np.sqrt(v)) ** order))
    found = _log_chance_above(weight, spread, size, order)
    assert floor <= found
    assert found <= ceiling + 5e-3


def test_rare_small_v_are_charged():
    """A column is without spread in half of all cases: both are with chance 1/4, where nothing bounds p but 1."""
    found = _log_chance_above(np.array([0.5, 0.5]), np.array([0.0, 0.25]), 2, 40.0)
    assert found >= np.log(0.25)


@pytest.mark.parametrize("a, log_r, s", [(2.6, 0.0, 3.0), (6.0, -9.0, 50.0), (0.4, 1.0, 0.7)])
def test_the_laplace_transform_of_a_column(a, log_r, s):
    """Against adaptive quadrature."""
    order = 4.0
    tilted = _TiltedColumns(a, 5, 2, order)
    weight, hit, _ = tilted._law(log_r)
    found = weight @ np.exp(-s * hit * (1 - hit))

    def log_density(z):
        return order * np.logaddexp(0.0, log_r + a * z - a**2 / 2) - z**2 / 2

    top = max(log_density(z) for z in np.linspace(-11, 11 + a * order, 500))

    def density(z):
        return np.exp(log_density(z) - top)

    def both(z):
        hit = expit(log_r + a * z - a**2 / 2)
        return density(z) * np.exp(-s * hit * (1 - hit))

    def integral(function):
        ends = np.linspace(-11, 11 + a * order, 30)
        pieces = (
            quad(function, *one, epsabs=1e-15, epsrel=1e-13) for one in itertools.pairwise(ends)
        )
        return sum(value for value, _ in pieces)

    assert found == pytest.approx(integral(both) / integral(density), rel=1e-11)


def test_the_largest_value_of_the_bessel_bound():
    """sqrt(v) exp(-v) I_0(v) is largest at one point, and below the constant there."""
    with mp.workdps(30):
        slope = lambda v: 1 / (2 * v) - 1 + mp.besseli(1, v) / mp.besseli(0, v)  # noqa: E731
        top = mp.findroot(slope, 0.79)
        assert mp.sqrt(top) * mp.exp(-top) * mp.besseli(0, top) < _SUP


def test_the_mean_of_an_exponential():
    x = np.array([-700.0, -3.0, -1e-3, 1e-3, 2.0, 800.0])
    want = np.array([float(mp.log(mp.sinh(mp.mpf(y)) / mp.mpf(y))) for y in x])
    assert np.all(np.abs(_log_sinh_mean(x) - want) <= 1e-12 * (1 + np.abs(want)))
    assert 0 <= _log_sinh_mean(np.array([0.0]))[0] < 1e-8
