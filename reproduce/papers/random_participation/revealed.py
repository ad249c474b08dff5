"""The least that the theorem on partial revelation can give, by plain quadrature, written apart from the accountant.

A choice of shares cuts the sum over the sizes of the drawn set into groups. Here each group is a sum over a grid in the
plane of the two gradients, and the shares come from dynamic programming. At a fixed angle no choice of shares gives
less. So an upper end that is below the result does not follow from the theorem.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.stats import binom

from reproduce.papers.random_participation.quadrature import weights

__all__ = ["least_revealed"]

_STEP, _REACH = 0.06, 6.5
"""Of the grid, in units of the noise: its width, and how far it goes beyond the outermost mean."""

_RATIOS = np.exp(np.linspace(-16.0, 16.0, 81))
"""Weight of the second size in a group for one unit of the first, where a group is tabulated."""

_SHARES = np.linspace(0.0, 1.0, 41)
"""Of a size, that belong to the group before it."""

_MOST = 8
"""Sizes above 0; later groups are left out, which makes the result smaller: no group is below 0."""


def least_revealed(
    epsilon: float,
    direction: str,
    *,
    d: int,
    p: float,
    q: float,
    sigma: float,
    cosines: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0),
) -> float:
    """The largest over some angles of the least bound over all shares; delta of one iteration.

    Args:
        epsilon: >= 0.
        direction: "remove" or "add".
        d: number of other records, >= 1.
        p, q: participation and sampling rate, in (0, 1).
        sigma: noise on the sum over the clip, > 0.
        cosines: of the angles between the differing record's gradient and the others'. For "add" the first is turned
            round, so that the worst angles have positive cosines in both directions.
    """
    factor, w1, w0 = weights(epsilon, p, q, direction)
    if factor == 0:
        return 0.0
    sizes = binom.pmf(np.arange(min(d, _MOST) + 1), d, q)
    alone = sizes[-1] if d <= _MOST else 0.0
    every = (_densities(w1, w0, direction, sigma, cosine) for cosine in cosines)
    return factor * max(_least(sizes, alone, *densities) for densities in every)


def _least(sizes: NDArray, alone: float, single: NDArray, pair: NDArray, silence: NDArray) -> float:
    """The least sum of the groups over all shares, at one angle; `alone`: the weight of a size without a next one."""
    first = sizes[0] * single - silence
    # What all later groups give at least, by the share of their first size that the group before them has taken.
    rest = alone * (1 - _SHARES) * _mass(single)
    later = _Group(single, pair)
    for near, far in list(pairwise(sizes))[:0:-1]:
        cost = later.mass((1 - _SHARES)[:, None] * near, _SHARES * far)
        rest = np.min(cost + rest, axis=1)
    taken = [_mass(first + share * sizes[1] * pair) for share in _SHARES]
    return float(np.min(np.array(taken) + rest))


def _densities(
    w1: float, w0: float, direction: str, sigma: float, cosine: float
) -> tuple[NDArray, NDArray, NDArray]:
    """f without and with the other record, and the weighted density of silence, on the grid; its cells count in."""
    record = np.array([1.0, 0.0]) / sigma
    sign = 1 if direction == "remove" else -1
    other = np.array([sign * cosine, np.sqrt(1 - cosine**2)]) / sigma
    means = np.array([0 * record, record, other, record + other])
    axes = [
        np.arange(low - _REACH, high + _REACH, _STEP)
        for low, high in zip(means.min(axis=0), means.max(axis=0), strict=True)
    ]
    at = [
        np.exp(-((axes[0][:, None] - x) ** 2) / 2) * np.exp(-((axes[1] - y) ** 2) / 2)
        for x, y in means
    ]
    none, alone, without, both = (density * _STEP**2 / (2 * np.pi) for density in at)
    if direction == "remove":
        return alone - w1 * none, both - w1 * without, w0 * none
    return none - w1 * alone, without - w1 * both, w0 * none


def _mass(signed: NDArray) -> float:
    """The integral of the positive part."""
    return float(signed[signed > 0].sum())


class _Group:
    """Two neighbouring sizes, neither of them 0: the integral as a function of their weights.

    Args:
        near, far: densities of the smaller and of the larger size.
    """

    def __init__(self, near: NDArray, far: NDArray) -> None:
        self._near, self._far = _mass(near), _mass(far)
        table = [_mass(near + ratio * far) for ratio in _RATIOS]
        self._table = make_interp_spline(np.log(_RATIOS), np.log(table))

    def mass(self, near: NDArray, far: NDArray) -> NDArray:
        """The integral for weights >= 0; the arrays broadcast."""
        near, far = np.broadcast_arrays(near, far)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.log(far) - np.log(near)
            between = near * np.exp(self._table(np.clip(log_ratio, *np.log(_RATIOS[[0, -1]]))))
        found = np.where(near > 0, between, far * self._far)
        return np.where(far > 0, found, near * self._near)
