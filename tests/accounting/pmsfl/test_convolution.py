"""Whole convolutions of pmsfl against their dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from repro.accounting.pmsfl.convolution import circular_singular_values, convolution_terms


def dense(filters: np.ndarray, side: int, *, wrap: bool) -> np.ndarray:
    """The convolution's matrix, written out pixel by pixel."""
    out, inward, k, _ = filters.shape
    matrix = np.zeros((out, side, side, inward, side, side))
    for a, b, u, v in np.ndindex(side, side, k, k):
        x, y = a + u - k // 2, b + v - k // 2
        if wrap or (0 <= x < side and 0 <= y < side):
            matrix[:, a, b, :, x % side, y % side] += filters[:, :, u, v]
    return matrix.reshape(out * side**2, -1)


@pytest.mark.parametrize("side", [1, 3, 4, 5])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
def test_circular_singular_values_are_those_of_the_matrix(side, shape):
    rng = np.random.default_rng(side)
    filters = rng.normal(size=(*shape, 1 if side < 3 else 3, 1 if side < 3 else 3))
    values = np.linalg.svd(dense(filters, side, wrap=True), compute_uv=False)
    assert circular_singular_values(filters, side=side) == pytest.approx(np.sort(values))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("side", [8, 11])
def test_terms_of_whole_convolutions(seed, side):
    rng = np.random.default_rng(seed)
    filters = rng.normal(size=(2, 2, 3, 3))
    mask, guess = rng.integers(0, 2, (2, *filters.shape))
    exact, limit = convolution_terms(filters, mask, guess, side=side)
    for wrap in (True, False):
        change, kept = (
            np.linalg.svd(dense(filters * bits, side, wrap=wrap), compute_uv=False)
            for bits in (guess - mask, guess)
        )
        if wrap:
            assert exact == pytest.approx(change.min() / kept.max(), rel=1e-9, abs=1e-14)
        else:
            assert change.min() / kept.max() <= limit * (1 + 1e-9)


def test_term_at_its_limits():
    eye = np.zeros((2, 2, 3, 3))
    eye[[0, 1], [0, 1], 1, 1] = 2.0
    ones, none = np.ones_like(eye), np.zeros_like(eye)
    assert convolution_terms(eye, none, ones, side=4) == pytest.approx((1, 1))
    assert convolution_terms(eye, ones, ones, side=4) == (0, 0)
    assert convolution_terms(eye, ones, none, side=4) == (0, 0)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"filters": "w"}, "filters"),
        ({"filters": np.ones((2, 3, 3, 3))}, "filters"),
        ({"filters": np.full((2, 2, 3, 3), np.nan)}, "filters"),
        ({"mask": np.ones((2, 2))}, "mask"),
        ({"guess": np.full((2, 2, 3, 3), 0.5)}, "guess"),
        ({"side": 2}, "filters"),
        ({"side": 3.0}, "side"),
    ],
)
def test_bad_input_is_named(change, name):
    ones = np.ones((2, 2, 3, 3))
    arguments = {"filters": ones, "mask": ones, "guess": ones, "side": 8, **change}
    with pytest.raises(ValueError, match=name):
        convolution_terms(**arguments)
