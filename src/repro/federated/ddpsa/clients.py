"""The clients of Algorithm 2 of ddpsa: what they hold, and the sums of their clipped gradients.

The task is a linear regression. The loss of a record is (theta x - y)^2 with x = (x1, x2, 1), so its
gradient 2 (theta x - y) x is a multiple of x, and clipping its l1 norm |2 (theta x - y)| |x|_1 is
clipping one number: the signed norm, which a matrix product gives for all records and variants.
Where no gradient of a run can be as long as the clip, as at the end of training, their sum is a
linear function of the model, and no record has to be looked at.
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

_ROUNDING = 1e-9  # added to a bound on norms, far above what rounding does to it
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
        linear: the sum of a block's unclipped gradients is this times (theta, -1), shape
            (parts, runs, blocks, 3, 4).
        reach: what bounds the norms of all gradients, see `longest`, shape (parts, runs, 3, 4): a
            model close to all records, the middle and the half width of 2 |x|_1 x, and (repeated)
            the largest norm at that model.

    A block is the largest group of records that stays together for every number of clients; a part
    is what is used in one round.
    """

    signed: Array
    directions: Array
    records: int
    linear: Array
    reach: Array

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
                f"got {sorted({int(n) for n in clients})}"
            )
        norm = np.abs(training.inputs).sum(axis=2, keepdims=True)
        signed = 2 * norm * np.concatenate([training.inputs, training.targets[..., None]], axis=2)
        cut = (runs, blocks, batches, -1)
        signed = signed.reshape(*cut, size + 1).transpose(2, 0, 4, 1, 3)
        directions = (training.inputs / norm).reshape(*cut, size).transpose(2, 0, 1, 4, 3)
        signed = np.ascontiguousarray(signed)
        directions = np.ascontiguousarray(directions)
        linear = directions @ signed.transpose(0, 1, 3, 4, 2)
        signed = signed.reshape(batches, runs, size + 1, -1)
        return cls(
            signed,
            directions.swapaxes(3, 4),  # matrix products want columns
            records,
            linear,
            _reach(signed, linear.sum(axis=2)),
        )

    def longest(self, models: Array, part: int = 0) -> Array:
        """An upper bound on the l1 norm of every record's gradient.

        Args:
            models: theta, shape (R, S, 3).
            part: the batch that is used.

        Returns:
            Shape (R, S): by the triangle inequality, from the largest norm at a model that is close
            to all records, and from how far the models are from it.
        """
        centre, middle, half, least = self.reach[part].transpose(2, 0, 1)[:, :, None]
        away = models - centre
        return least[..., 0] + np.abs((away * middle).sum(-1)) + (np.abs(away) * half).sum(-1)

    def membership(self, clients: NDArray[np.int64]) -> Array | None:
        """Which blocks each client holds.

        Args:
            clients: the number of clients of each variant, shape (variants,).

        Returns:
            0 or 1, shape (variants, most clients, blocks); None where every client of all variants
            holds the block of its own number (so many numbers would be too many for many clients).
        """
        blocks = self.directions.shape[2]
        if (clients == blocks).all():
            return None
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
    federation: Federation,
    models: Array,
    clip: ArrayLike,
    membership: Array | None,
    part: int = 0,
) -> Array:
    """The sum of each client's clipped gradients (lines 4-9 of Algorithm 2).

    Formal guarantee: adding or removing one record changes one client's sum by at most `clip` in l1
    norm (up to rounding).

    Args:
        federation: the records of R runs.
        models: theta, shape (R, S, 3).
        clip: Delta of each variant, shape (S,), infinity for none.
        membership: see `Federation.membership`.
        part: the batch that is used, from 0.

    Returns:
        Shape (R, S, C, 3); zero for clients that a variant does not have.
    """
    directions, signed = federation.directions[part], federation.signed[part]
    runs, blocks, held, size = directions.shape
    variants, extended, limits = models.shape[1], _extended(models), np.asarray(clip, dtype=float)
    sums = np.matmul(federation.linear[part], extended.swapaxes(1, 2)[:, None]).swapaxes(2, 3)
    binding = federation.longest(models, part) > limits
    at_once = max(1, _CACHED // (variants * blocks * held))
    space = np.empty(min(at_once, runs) * variants * blocks * held)
    for first in range(0, runs, at_once):
        some = slice(first, min(first + at_once, runs))
        chosen = np.flatnonzero(binding[some].any(axis=0))
        if not chosen.size:
            continue
        shape = (some.stop - first, chosen.size, blocks * held)
        norms = space[: math.prod(shape)].reshape(shape)
        np.matmul(extended[some, chosen], signed[some], out=norms)
        for rows, limit in _limits(limits[chosen]):
            np.clip(norms[:, rows], -limit, limit, out=norms[:, rows])
        by_block = norms.reshape(-1, chosen.size, blocks, held).swapaxes(1, 2)
        sums[some, :, chosen] = np.matmul(by_block, directions[some])
    by_variant = sums.transpose(2, 1, 0, 3).reshape(variants, blocks, runs * size)
    by_client = by_variant if membership is None else membership @ by_variant
    return by_client.reshape(variants, -1, runs, size).transpose(2, 0, 1, 3)


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


def _limits(clip: Array) -> list[tuple[slice, float]]:
    """Neighbouring variants that share a clip, as a slice of their places, and the clip."""
    groups = [
        (limit, list(group)) for limit, group in groupby(range(len(clip)), key=clip.__getitem__)
    ]
    return [(slice(g[0], g[-1] + 1), float(limit)) for limit, g in groups]


def _reach(signed: Array, linear: Array) -> Array:
    """`Federation.reach`, from the records and from the sum of all gradients (parts, runs, 3, 4)."""
    square, right = linear[..., :-1], linear[..., -1:]
    centre = np.matmul(np.linalg.pinv(square), right).swapaxes(2, 3)  # least squares
    errors = np.matmul(_extended(centre), signed)
    least = np.abs(errors).max(axis=(2, 3)) * (1 + _ROUNDING) + _ROUNDING
    low, high = signed[:, :, :-1].min(axis=3), signed[:, :, :-1].max(axis=3)
    least = np.broadcast_to(least[..., None], low.shape)
    return np.stack([centre[:, :, 0], (low + high) / 2, (high - low) / 2, least], axis=3)
