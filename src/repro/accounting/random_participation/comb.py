"""Sums of one function shifted by whole clips: mixtures over the number of sampled records."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from repro.accounting._binomial import window

__all__ = ["Comb", "comb"]

_BLOCKED = 500  # points a clip from which sums are products of matrices
_SOME, _MANY = 48, 50_000  # or points a clip, and these times counts


class Comb:
    """Binomial weights and a grid along the axis whose step divides the clip, or is a multiple of it.

    One table of a function, read with a stride, then serves all counts, and the sum over counts runs
    without a copy of the (grid x counts) block.

    Attributes:
        y: grid in units of the clip, shape (n, points).
        step: of the grid, in units of the clip.
        dropped: bound on the weight of the counts that are left out, shape (n,).
    """

    def __init__(
        self,
        first: np.ndarray,
        weights: np.ndarray,
        per_clip: int,
        clips: int,
        reach: int,
        dropped: np.ndarray,
    ) -> None:
        self._weights = weights[:, ::-1]
        self._per_clip, self._clips = per_clip, clips
        self.step = clips / per_clip
        self.dropped = dropped
        width = weights.shape[1]
        points = (width - 1 + 2 * reach) * per_clip // clips + 1
        # Whole numbers first, so that each distance is rounded once, relative to its own size.
        steps = np.arange((points - 1) * clips + (width - 1) * per_clip + 1)
        self._offset = (steps - (reach + width - 1) * per_clip) / per_clip
        self.y = first[:, None] + self._offset[(width - 1) * per_clip :: clips]

    def mixture(
        self,
        function: Callable[[np.ndarray], np.ndarray],
        shift: float,
        points: slice = slice(None),
    ) -> np.ndarray:
        """sum_i b_i function(y - i - shift) on the grid, or on a slice of it, shape (n, points).

        `function` takes distances in units of the clip, shape (m,), and returns shape (n, m).
        """
        start, stop, _ = points.indices(self.y.shape[1])
        n, width = self._weights.shape
        span = slice(
            start * self._clips, (stop - 1) * self._clips + (width - 1) * self._per_clip + 1
        )
        table = np.ascontiguousarray(function(self._offset[span] - shift))
        blocked = self._per_clip >= (_SOME if self._per_clip * width >= _MANY else _BLOCKED)
        if self._clips == 1 and blocked:
            return self._by_blocks(table, stop - start)
        by_row, by_point = table.strides
        shifted = np.lib.stride_tricks.as_strided(
            table,
            (n, stop - start, width),
            (by_row, by_point * self._clips, by_point * self._per_clip),
            writeable=False,
        )
        return np.einsum("nyj,nj->ny", shifted, self._weights)

    def _by_blocks(self, table: np.ndarray, points: int) -> np.ndarray:
        """The same sum as products of matrices of one clip a row, without the rows that hold nothing.

        With little noise nearly all of them do: the function has fallen to 0 within a few clips.
        """
        (n, width), per_clip = self._weights.shape, self._per_clip
        rows = -(-points // per_clip)
        padded = np.zeros((n, (rows + width - 1) * per_clip))
        padded[:, : table.shape[1]] = table
        blocks = padded.reshape(n, -1, per_clip)
        place = np.arange(blocks.shape[1]) - np.arange(rows)[:, None]
        found = np.empty((n, rows, per_clip))
        for k, (block, weight) in enumerate(zip(blocks, self._weights, strict=True)):
            some = np.flatnonzero(block.any(axis=1))
            at = place[:, some]
            lies = (at >= 0) & (at < width)
            found[k] = np.where(lies, weight[np.clip(at, 0, width - 1)], 0.0) @ block[some]
        return found.reshape(n, -1)[:, :points]


def comb(
    d: int, q: np.ndarray, s: np.ndarray, *, step: float, reach: float, lightest: float
) -> Comb:
    """The comb of Binomial(d, q) for noise multipliers s.

    Args:
        d: number of records, >= 0.
        q: sampling rates, shape (n,).
        s: noise multipliers, shape (n,).
        step: largest grid step, in units of the power of two below s: the same whichever s of an octave are here.
        reach: margin at both ends, in units of s.
        lightest: logarithm of the least binomial weight; columns of counts lighter in every row are left out.
    """
    counts, log_b, tail = window(d, q)
    unit = step * 2.0 ** np.floor(np.log2(np.min(s)) + 1e-9)  # rounding must not change the octave
    kept = np.flatnonzero(np.any(log_b > lightest, axis=0))
    columns = slice(kept[0], kept[-1] + 1)
    weights = np.exp(log_b)
    dropped = (
        tail + weights[:, : columns.start].sum(axis=1) + weights[:, columns.stop :].sum(axis=1)
    )
    return Comb(
        counts[:, columns][:, 0],
        weights[:, columns],
        int(np.ceil(1 / unit)),
        max(1, int(unit)),
        int(np.ceil(reach * np.max(s))) + 1,
        dropped,
    )
