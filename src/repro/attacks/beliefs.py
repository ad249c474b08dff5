"""What an attacker believes about the weights of the client's bottom model.

A belief is about `stacks` attacks at once. It may have numbers of its own that the attack estimates
together with the images, `free` of them in each stack, starting from `start`.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from repro._validate import integer
from repro.federated.pmsfl import masks


class Belief(Protocol):
    """See the module.

    Attributes:
        start: shape (stacks, free).
        copies: True where each version of the weights has made a copy of the smashed data, all of
            which were seen; False where only the mean over the versions counts.
    """

    start: Tensor
    copies: bool

    def weights(self, estimate: Tensor) -> Tensor:
        """Versions of the weights: shape (stacks, versions, size)."""

    def loss(self, estimate: Tensor) -> Tensor:
        """How improbable the estimate, (stacks, free), is: nats, shape (stacks,)."""


class Known:
    """The weights are these: of SplitFed, of a mask that was guessed, or those of the mean mask.

    Args:
        weights: shape (stacks, size).

    Raises:
        ValueError: another number of dimensions, or values that are not finite.
    """

    copies = False

    def __init__(self, weights: Tensor) -> None:
        self._versions = _finite("weights", weights, 2)[:, None]
        self.start = weights[:, :0]

    def weights(self, estimate: Tensor) -> Tensor:
        """The weights, (stacks, 1, size)."""
        return self._versions

    def loss(self, estimate: Tensor) -> Tensor:
        """Zeros."""
        return estimate.new_zeros(len(estimate))


class Averaged(Known):
    """An expectation over masks: `samples` of them from Bernoulli(theta), drawn once.

    Args:
        weights: w_b, shape (size,).
        theta: shape (stacks, size), in [0, 1].
        samples: >= 1.
        generator: draws the masks.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self, weights: Tensor, theta: Tensor, samples: int, generator: torch.Generator
    ) -> None:
        repeated = _unit(theta)[:, None].expand(-1, integer("samples", samples, 1), -1)
        self._versions = _finite("weights", weights, 1) * masks.sample(repeated, generator)
        self.start = theta[:, :0]


class Inferred:
    """The mask is unknown and estimated together with the images, by its mean in [0, 1].

    The loss is the divergence KL(Bernoulli(m) | Bernoulli(theta)), summed over coordinates: a mask
    that is likely under theta costs little.

    Args:
        weights: w_b, shape (size,).
        theta: shape (stacks, size); kept in [0.01, 0.99], so that its scores are finite.
        start: scores of m from which the estimate starts; default: those of theta.

    Raises:
        ValueError: theta outside [0, 1], or weights or a start that are not finite.
    """

    copies = False

    def __init__(self, weights: Tensor, theta: Tensor, start: Tensor | None = None) -> None:
        self._weights = _finite("weights", weights, 1)
        self._prior = masks.scores(_unit(theta), 0.01)
        self.start = self._prior if start is None else _finite("start", start, 2)

    def weights(self, estimate: Tensor) -> Tensor:
        """w_b * m, (stacks, 1, size)."""
        return (self._weights * torch.sigmoid(estimate))[:, None]

    def loss(self, estimate: Tensor) -> Tensor:
        """The divergence."""
        mean, logsigmoid = torch.sigmoid(estimate), torch.nn.functional.logsigmoid
        kept = mean * (logsigmoid(estimate) - logsigmoid(self._prior))
        dropped = (1 - mean) * (logsigmoid(-estimate) - logsigmoid(-self._prior))
        return (kept + dropped).sum(dim=1)


class InferredEach(Inferred):
    """The same images were sent several times, each time through an unknown mask of its own.

    Every copy adds its equations, and the bits of its mask as unknowns, but no pixels: the images
    are what all copies have in common.

    Args:
        weights: w_b, shape (size,).
        theta: of each copy's mask, shape (stacks, copies, size).

    Raises:
        ValueError: as for `Inferred`; theta without a dimension for the copies.
    """

    copies = True

    def __init__(self, weights: Tensor, theta: Tensor) -> None:
        self._shape = _finite("theta", theta, 3).shape[1:]
        super().__init__(weights, theta.flatten(1))

    def weights(self, estimate: Tensor) -> Tensor:
        """w_b * m of each copy, (stacks, copies, size)."""
        return self._weights * torch.sigmoid(estimate).unflatten(1, self._shape)


def _finite(name: str, values: Tensor, dimensions: int) -> Tensor:
    if values.ndim != dimensions or not values.numel() or not torch.isfinite(values).all():
        raise ValueError(
            f"{name} must be finite, with {dimensions} dimensions, got shape {tuple(values.shape)}"
        )
    return values


def _unit(theta: Tensor) -> Tensor:
    if _finite("theta", theta, 2).min() < 0 or theta.max() > 1:
        raise ValueError("theta must be in [0, 1]")
    return theta
