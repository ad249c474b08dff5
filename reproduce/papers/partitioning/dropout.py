"""Gradients of a small network under every dropout mask, from the chain rule.

The network is y = W2 (m * tanh(W1 x + b1)) + b2 with the loss |y - target|^2 / 2; the mask m keeps a
hidden node (1) or drops it (0), with its weights in both layers.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer

__all__ = ["Network", "all_masks", "clipped", "dropout_gradients", "random_network", "untouched"]


class Network(NamedTuple):
    """Weights: W1 of shape (nodes, inputs), b1 (nodes,), W2 (outputs, nodes), b2 (outputs,)."""

    first: NDArray
    first_bias: NDArray
    second: NDArray
    second_bias: NDArray


def all_masks(nodes: int) -> NDArray:
    """Every mask of a hidden layer, shape (2^nodes, nodes); the last keeps all nodes."""
    return np.array(list(product((0.0, 1.0), repeat=integer("nodes", nodes, 1, 12))))


def random_network(nodes: int, inputs: int, outputs: int, rng: np.random.Generator) -> Network:
    """A network with standard normal weights."""
    shapes = ((nodes, inputs), (nodes,), (outputs, nodes), (outputs,))
    return Network(*(rng.standard_normal(shape) for shape in shapes))


def dropout_gradients(network: Network, x: NDArray, target: NDArray, masks: NDArray) -> Network:
    """The gradient of the loss of one record, under each mask.

    Args:
        network: the weights.
        x, target: the record, shapes (inputs,) and (outputs,).
        masks: shape (n, nodes), of 0 and 1.

    Returns:
        gradients in the shapes of the weights, each with a first axis of length n.
    """
    hidden = np.tanh(network.first @ x + network.first_bias)
    error = (masks * hidden) @ network.second.T + network.second_bias - target
    back = (error @ network.second) * masks * (1 - hidden**2)
    return Network(
        back[:, :, None] * x, back, error[:, :, None] * (masks * hidden)[:, None, :], error
    )


def clipped(gradients: Network, parts: tuple[str, ...], clip: float) -> NDArray:
    """The named parts of the gradients side by side, each row scaled to norm `clip` at most, (n, size)."""
    rows = np.hstack([getattr(gradients, part).reshape(len(gradients[0]), -1) for part in parts])
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, clip / np.maximum(norm, np.finfo(float).tiny))


def untouched(gradients: Network, masks: NDArray) -> dict[str, int]:
    """How many parameters of each part have a gradient that no dropped node sets to zero.

    Args:
        gradients: of a generic record, under `masks`.
        masks: every mask, shape (2^nodes, nodes).
    """
    counts = {}
    for part, values in gradients._asdict().items():
        rows = np.abs(values.reshape(len(masks), -1)) > 0
        silenced = [~rows[masks[:, node] == 0].any(0) for node in range(masks.shape[1])]
        counts[part] = int(np.count_nonzero(~np.any(silenced, axis=0)))
    return counts
