"""What is read off a training run of ddpsa: loss, R2, and the round at which it has converged.

Runs are paths of models, shape (T + 1, R, S, 3): the start and T rounds, R runs, S settings.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer, positive
from repro.datasets.plane import Plane

Array = NDArray[np.float64]


def losses(path: Array, part: Plane) -> Array:
    """Mean squared error of every model on the records of its run, shape (T + 1, R, S).

    With the triangular factor Q R of the records (x, y) it is |R (theta, -1)|^2 / N: exact to the
    square of the rounding error, so that losses down to 1e-30 can be told apart.
    """
    records = np.concatenate([part.inputs, part.targets[..., None]], axis=2)
    factor = np.linalg.qr(records, mode="r")  # (R, 4, 4)
    extended = np.concatenate([path, np.full((*path.shape[:-1], 1), -1.0)], axis=-1)
    errors = np.matmul(extended, factor.swapaxes(1, 2))
    return np.square(errors).sum(axis=-1) / records.shape[1]


def trivial_loss(training: Plane, test: Plane) -> Array:
    """Test loss of the mean training target as the answer to everything, shape (R,)."""
    return np.square(test.targets - training.targets.mean(axis=1, keepdims=True)).mean(axis=1)


def r_squared(loss: Array, test: Plane) -> Array:
    """1 - loss / variance of the test targets, for test losses of shape (..., R, S)."""
    return 1.0 - loss / test.targets.var(axis=1)[:, None]


def below(loss: Array, level: float) -> Array:
    """First round with a loss of at most `level`, shape (T + 1, …) -> (…); nan where there is none."""
    return _first(loss <= float(positive("level", level)))


def flat(loss: Array, change: float) -> Array:
    """First round whose loss differs by at most `change` from the round before; nan likewise."""
    steps = np.abs(np.diff(loss, axis=0)) <= float(positive("change", change))
    return _first(steps) + 1


def patient(loss: Array, rounds: int) -> Array:
    """Early stopping: first round that is the `rounds`-th in a row without a new best loss; nan likewise."""
    best = np.minimum.accumulate(loss, axis=0)
    place = np.arange(len(loss)).reshape(-1, *[1] * (loss.ndim - 1))
    better = np.concatenate([np.ones_like(loss[:1], dtype=bool), loss[1:] < best[:-1]])
    latest = np.maximum.accumulate(np.where(better, place, 0), axis=0)
    return _first(place - latest >= integer("rounds", rounds, 1))


def settled(loss: Array, factor: float = 2.0) -> Array:
    """First round from which the loss stays below `factor` times its final level.

    The final level is the median over the last tenth of the rounds.
    """
    level = np.median(loss[-max(1, len(loss) // 10) :], axis=0)
    above = loss > float(positive("factor", factor)) * level
    last = len(loss) - 1 - above[::-1].argmax(axis=0)
    return np.where(above.any(axis=0), last + 1.0, 0.0)


def _first(hit: NDArray[np.bool_]) -> Array:
    return np.where(hit.any(axis=0), hit.argmax(axis=0), np.nan)
