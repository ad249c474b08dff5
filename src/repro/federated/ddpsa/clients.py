"""The clients of Algorithm 2 of ddpsa: what they hold, and the sums of their clipped gradients.

The task is a linear regression. The loss of a record is (theta x - y)^2 with x = (x1, x2, 1), so its
gradient 2 (theta x - y) x is a multiple of x, and clipping its l1 norm |2 (theta x - y)| |x|_1 is
clipping one number: the signed norm, which a matrix product gives for all records and variants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import integer
from repro.datasets.plane import Plane

Array = NDArray[np.float64]

_CACHED = 100_000  # gradients worked on at a time, so that they stay in the processor's cache


@dataclass(frozen=True)
class Federation:
    """The training records of every run, dealt evenly to clients in the order in which they come.

    Attributes:
        signed: 2 |x|_1 (x, y) of each record as columns, shape (parts, runs, 4, records / parts): a
            model (theta, -1) times it is the signed l1 norm of the gradient.
        directions: x / |x|_1, shape (parts, runs, blocks, records / parts / blocks, 3): a signed
            norm times it is the gradient.
        records: N, of all clients together, in each run.

    A block is the largest group of records that stays together for every number of clients; a part
    is what is used in one round.
    """

    signed: Array
    directions: Array
    records: int

    @classmethod
    def deal(cls, training: Plane, clients: Sequence[int], batches: int = 1) -> Federation:
        """Deal `training` to each of the numbers of clients in `clients`.

        Args:
            training: the records; those of a run come in random order.
            clients: each >= 1, and a divisor of the number of records.
            batches: parts into which a client's records are cut, used in turn; 1 is the box: all
                records in every round.

        Raises:
            ValueError: records that cannot be dealt or cut evenly.
        """
        integer("batches", batches, 1)
        runs, records, size = training.inputs.shape
        blocks = math.lcm(*(integer("clients", n, 1) for n in clients))
        if records % (blocks * batches):
            raise ValueError(
                f"clients must divide the {records} records evenly into {batches} batches each, "
                f"got {sorted(set(clients))}"
            )
        norm = np.abs(training.inputs).sum(axis=2, keepdims=True)
        signed = 2 * norm * np.concatenate([training.inputs, training.targets[..., None]], axis=2)
        cut = (runs, blocks, batches, -1)
        signed = signed.reshape(*cut, size + 1).transpose(2, 0, 4, 1, 3)
        directions = (training.inputs / norm).reshape(*cut, size).transpose(2, 0, 1, 4, 3)
        return cls(
            np.ascontiguousarray(signed.reshape(batches, runs, size + 1, -1)),
            np.ascontiguousarray(directions).swapaxes(3, 4),  # matrix products want columns
            records,
        )

    def membership(self, clients: NDArray[np.int64]) -> Array:
        """Which blocks each client holds.

        Args:
            clients: the number of clients of each variant, shape (variants,).

        Returns:
            0 or 1, shape (variants, most clients, blocks).
        """
        blocks = self.directions.shape[2]
        owner = np.arange(blocks) * clients[:, None] // blocks
        return (owner[:, None] == np.arange(clients.max())[:, None]).astype(float)

    def held(self, clients: NDArray[np.int64]) -> Array:
        """Records that a client uses in a round [N_i].

        Args:
            clients: numbers of clients, any shape.

        Returns:
            The records for each of these numbers, of the same shape.
        """
        return self.records / (clients * len(self.signed))


def clipped_sums(
    federation: Federation, models: Array, clip: ArrayLike, membership: Array, part: int = 0
) -> Array:
    """The sum of each client's clipped gradients (lines 4-9 of Algorithm 2).

    Formal guarantee: adding or removing one record changes one client's sum by at most `clip` in l1
    norm (up to rounding).

    Args:
        federation: the records of R runs.
        models: theta, shape (R, S, 3).
        clip: Delta of each variant, shape (S,), infinity for none.
        membership: see `Federation.membership`, shape (S, C, blocks).
        part: the batch that is used, from 0.

    Returns:
        Shape (R, S, C, 3); zero for clients that a variant does not have.
    """
    directions, signed = federation.directions[part], federation.signed[part]
    runs, blocks, held, size = directions.shape
    variants, extended = models.shape[1], _extended(models)
    at_once = max(1, _CACHED // (variants * blocks * held))
    space = np.empty((min(at_once, runs), variants, blocks * held))
    sums = np.empty((runs, blocks, variants, size))
    limits = _limits(clip)
    for first in range(0, runs, at_once):
        some = slice(first, first + at_once)
        norms = np.matmul(extended[some], signed[some], out=space[: len(extended[some])])
        for rows, limit in limits:
            np.clip(norms[:, rows], -limit, limit, out=norms[:, rows])
        by_block = norms.reshape(-1, variants, blocks, held).swapaxes(1, 2)
        np.matmul(by_block, directions[some], out=sums[some])
    by_variant = sums.transpose(2, 1, 0, 3).reshape(variants, blocks, runs * size)
    return (membership @ by_variant).reshape(variants, -1, runs, size).transpose(2, 0, 1, 3)


def signed_norms(federation: Federation, models: Array, part: int = 0) -> Array:
    """l1 norm of each record's gradient with the sign of its error.

    Args:
        federation: the records of R runs.
        models: theta, shape (R, S, 3).
        part: the batch that is used.

    Returns:
        Shape (R, S, records of the batch).
    """
    return _extended(models) @ federation.signed[part]


def _extended(models: Array) -> Array:
    """(theta, -1): its product with (x, y) is the error of the model at x."""
    return np.concatenate([models, np.full((*models.shape[:-1], 1), -1.0)], axis=-1)


def _limits(clip: ArrayLike) -> list[tuple[slice, float]]:
    """Neighbouring variants that share a finite clip, as a slice of their places, and the clip."""
    places = groupby(range(len(clip)), key=[float(value) for value in clip].__getitem__)
    groups = [(limit, list(group)) for limit, group in places]
    return [(slice(g[0], g[-1] + 1), limit) for limit, g in groups if limit != math.inf]
