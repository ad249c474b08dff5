"""The servers of Algorithm 2 of ddpsa: sums of the clients' vectors, and the step of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro.secagg import FixedPoint, reconstruct, share

Array = NDArray[np.float64]

SecureSum = Callable[[Array], Array]
"""Sums vectors over clients, (clients, parameters) -> (parameters,): `shared_sum`, or a round of
real servers, `lambda values: cluster.round(values).total`."""

_BETA1, _BETA2, _TINY = 0.9, 0.999, 1e-8  # Adam's usual constants


def shared_sum(
    values: Array, *, servers: int = 3, encoding: FixedPoint | None = None
) -> NDArray[np.float64]:
    """Sum vectors over clients as the servers do, in this process (lines 11-23 of Algorithm 2).

    Every element is encoded (10 decimals modulo 2^64 by default) and split into `servers` shares;
    each server adds up its shares over the clients; the servers' sums are added and decoded. The
    result is bit for bit what `repro.secagg.Cluster` gives.

    Args:
        values: shape (clients, parameters); the parameters may be those of many runs.
        servers: m >= 2.
        encoding: see `FixedPoint`.

    Returns:
        The sums, shape (parameters,).

    Raises:
        ValueError: a value is not finite or too large to be encoded.
    """
    encoding = encoding or FixedPoint()
    encoded = encoding.encode(values, clients=len(values))
    # One key for each server serves all clients, because one process holds all their vectors.
    shares = share(encoded.reshape(1, -1), servers=servers, ring=encoding.ring, overwrite=True)
    by_client = shares.expanded().reshape(servers, *encoded.shape)
    sums = encoding.ring.sum(by_client.swapaxes(0, 1))  # over clients, at each server
    return encoding.decode(reconstruct(sums, encoding.ring))


def plain_sum(values: Array) -> Array:
    """Sum vectors over clients as they are.

    Args:
        values: shape (clients, parameters).

    Returns:
        The sums, shape (parameters,).

    Raises:
        ValueError: a value is not finite.
    """
    if not np.isfinite(values).all():
        raise ValueError(f"values must be finite, got {values[~np.isfinite(values)][0]!r}")
    return values.sum(axis=0)


@dataclass(frozen=True)
class Memory:
    """What Adam keeps from round to round: its two averages, shape (R, S, 3), and the round."""

    first: Array
    second: Array
    rounds: int = 0


def step(
    models: Array, gradients: Array, memory: Memory, learning_rate: ArrayLike, adam: ArrayLike
) -> tuple[Array, Memory]:
    """One step of the server: theta - eta g (line 24 of Algorithm 2), or Adam's.

    Args:
        models: theta, shape (R, S, 3).
        gradients: averages over clients, of the same shape.
        memory: of the steps before.
        learning_rate: eta > 0, shape (S,).
        adam: whether a variant takes Adam's step, shape (S,).

    Returns:
        The new models, and what Adam keeps for the next step.
    """
    t = memory.rounds + 1
    first = _BETA1 * memory.first + (1 - _BETA1) * gradients
    second = _BETA2 * memory.second + (1 - _BETA2) * gradients**2
    root = np.sqrt(second / (1 - _BETA2**t)) + _TINY
    moved = np.where(np.asarray(adam)[:, None], first / (1 - _BETA1**t) / root, gradients)
    models = models - np.asarray(learning_rate)[:, None] * moved
    return models, Memory(first, second, t)
