"""Binary logistic regression in closed form, for whole stacks of models at once.

A record enters as v = y x with y = -1 or 1, the V of (25) in mspafl: the loss ln(1 + exp(-w v))
depends on nothing else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

_AT_ONCE = 256  # models whose scores are held in memory at the same time


def signed(features: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """The vectors v = y x, shape (n, m), from features (n, m) and labels 0 or 1, shape (n,)."""
    return features * (2.0 * labels - 1.0)[:, None]


def gradient(
    models: NDArray[np.float64], batch: NDArray[np.float64], regularisation: float
) -> NDArray[np.float64]:
    """Gradient of mean_j ln(1 + exp(-w v_j)) + gamma |w|^2 for every model.

    Args:
        models: w, shape (..., k, m): the k models of a place share a batch.
        batch: v_j, shape (..., b, m).
        regularisation: gamma >= 0.

    Returns:
        Shape (..., k, m).

    Source: mspafl, (24) and (25), with the squared norm: the printed gamma |W|_2 has no gradient at
    W = 0, where training starts.
    """
    wrong = expit(-(batch @ models.swapaxes(-1, -2)))  # (..., b, k): how wrong each record is
    slope = wrong.swapaxes(-1, -2) @ batch
    return 2.0 * regularisation * models - slope / batch.shape[-2]


def recall(
    models: NDArray[np.float64], features: NDArray[np.float64], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """For each class the share of its records that a model gets right, shape (..., 2).

    Class 1 is answered where w x > 0, else class 0. The accuracy on a set of records is the average
    of the two values, weighted with the set's shares of the classes.

    Args:
        models: w, shape (..., m).
        features: x, shape (n, m).
        labels: 0 or 1, shape (n,), both present.

    Raises:
        ValueError: a class without records.
    """
    if len(np.unique(labels)) != 2:
        raise ValueError(f"labels must hold both classes, 0 and 1, got {np.unique(labels)} only")
    flat = models.reshape(-1, models.shape[-1])
    found = np.empty((len(flat), 2))
    for label in (0, 1):  # the two classes of the data, not a loop over models
        held = features[labels == label]
        for start in range(0, len(flat), _AT_ONCE):
            positive = held @ flat[start : start + _AT_ONCE].T > 0
            share = np.count_nonzero(positive, axis=0) / len(held)
            found[start : start + _AT_ONCE, label] = share if label else 1.0 - share
    return found.reshape(*models.shape[:-1], 2)
