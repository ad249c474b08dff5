"""Sums of one function shifted by whole clips: mixtures over the number of sampled records."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from repro.accounting._binomial import window

__all__ = ["Comb", "comb"]

_LIGHTEST = -45.0  # logarithm of the smallest binomial weight that is carried along


class Comb:
    """Binomial weights and a grid along the axis whose step divides the clip.

    One table of a function, read with a stride, then serves all counts, and the sum over counts runs
    without a copy of the (grid x counts) block.

    Attributes:
      y: grid in units of the clip, shape (n, points).
      per_clip: grid points per clip.
    """

    def __init__(self, first: np.ndarray, weights: np.ndarray, per_clip: int, reach: int) -> None:
        self._weights = weights[:, ::-1]
        self.per_clip = per_clip
        width = weights.shape[1]
        points = (width - 1 + 2 * reach) * per_clip + 1
        self._offset = np.arange(points + (width - 1) * per_clip) / per_clip - reach - (width - 1)
        self.y = first[:, None] + self._offset[(width - 1) * per_clip :]

    def mixture(self, function: Callable[[np.ndarray], np.ndarray], shift: float) -> np.ndarray:
        """sum_i b_i function(y - i - shift) on the grid, shape (n, points).

        ``function`` takes distances in units of the clip, shape (m,), and returns shape (n, m).
        """
        table = np.ascontiguousarray(function(self._offset - shift))
        n, width = self._weights.shape
        by_row, by_point = table.strides
        shifted = np.lib.stride_tricks.as_strided(
            table,
            (n, self.y.shape[1], width),
            (by_row, by_point, by_point * self.per_clip),
            writeable=False,
        )
        return np.einsum("nyj,nj->ny", shifted, self._weights)


def comb(d: int, q: np.ndarray, s: np.ndarray, *, step: float, reach: float) -> Comb:
    """The comb of Binomial(d, q) for noise multipliers s.

    Args:
      d, q: number of records and sampling rates, q of shape (n,).
      s: noise multipliers, shape (n,).
      step: largest grid step, reach: margin at both ends, both in units of s.
    """
    counts, log_b, _ = window(d, q)
    kept = np.flatnonzero(np.any(log_b > _LIGHTEST, axis=0))
    columns = slice(kept[0], kept[-1] + 1)
    return Comb(
        counts[:, columns][:, 0],
        np.exp(log_b[:, columns]),
        int(np.ceil(1 / (step * np.min(s)))),
        int(np.ceil(reach * np.max(s))) + 1,
    )
