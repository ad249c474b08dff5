"""The clients of ddpsa's Algorithm 2: what they hold, and the sums of their clipped gradients.

The task is a linear regression. The loss of a record is (theta x - y)^2 with x = (x1, x2, 1), so its
gradient 2 (theta x - y) x is a multiple of x, and clipping its l1 norm |2 (theta x - y)| |x|_1 is
clipping one number: the signed norm, which a matrix product gives for all records and settings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import integer
from repro.datasets.plane import Plane

Array = NDArray[np.float64]


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
        directions = (training.inputs / norm).reshape(*cut, size).transpose(2, 0, 1, 3, 4)
        return cls(
            np.ascontiguousarray(signed.reshape(batches, runs, size + 1, -1)),
            np.ascontiguousarray(directions),
            records,
        )

    def membership(self, clients: NDArray[np.int64]) -> Array:
        """Which blocks each client holds, 0 or 1, shape (settings, most clients, blocks).

        `clients` has the number of clients of each setting, shape (settings,).
        """
        blocks = self.directions.shape[2]
        owner = np.arange(blocks) * clients[:, None] // blocks
        return (owner[:, None] == np.arange(clients.max())[:, None]).astype(float)

    def held(self, clients: NDArray[np.int64]) -> Array:
        """Records that a client uses in a round [N_i], for each number of clients."""
        return self.records / (clients * len(self.signed))


def clipped_sums(
    federation: Federation, models: Array, clip: ArrayLike, membership: Array, part: int = 0
) -> Array:
    """The sum of each client's clipped gradients.

    Formal guarantee: adding or removing one record changes one client's sum by at most `clip` in l1
    norm (up to rounding).

    Args:
        federation: the records of R runs.
        models: theta, shape (R, S, 3).
        clip: Delta of each setting, shape (S,), infinity for none.
        membership: see `Federation.membership`, shape (S, C, blocks).
        part: the batch that is used.

    Returns:
        Shape (R, S, C, 3); zero for clients that a setting does not have.
    """
    norms = signed_norms(federation, models, part)
    limit = np.asarray(clip, dtype=float)[:, None]
    np.clip(norms, -limit, limit, out=norms)
    directions = federation.directions[part]
    runs, blocks, held, _ = directions.shape
    norms = norms.reshape(runs, -1, blocks, held).swapaxes(1, 2)
    return np.einsum("rbsk,scb->rsck", norms @ directions, membership, optimize=True)


def signed_norms(federation: Federation, models: Array, part: int = 0) -> Array:
    """l1 norm of each record's gradient with the sign of its error, shape (R, S, records used)."""
    minus_one = np.full((*models.shape[:-1], 1), -1.0)
    return np.concatenate([models, minus_one], axis=-1) @ federation.signed[part]
