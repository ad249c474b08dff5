"""The server's side of an iteration: weights as one vector, momentum, Gaussian noise, random streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from repro._validate import integer


class Momentum:
    """Stochastic gradient descent with momentum on all trainable parameters as one vector.

    v <- momentum * v + g and w <- w - learning_rate * v, as torch.optim.SGD. The parameters of
    `model` become views of one vector (each in its own memory layout), so that noise and step are
    single operations whatever the number of layers.

    Raises:
        ValueError: the model has no trainable parameters.
    """

    def __init__(self, model: nn.Module, learning_rate: float, momentum: float) -> None:
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        if not self._parameters:
            raise ValueError("model must have trainable parameters")
        self._places = {id(p): k for k, p in enumerate(self._parameters)}
        self.learning_rate, self.momentum = learning_rate, momentum
        self._weights = self.flatten([p.detach() for p in self._parameters])
        self._velocity = torch.zeros_like(self._weights)
        for parameter, part in zip(self._parameters, self._views(self._weights), strict=True):
            parameter.data = part

    def flatten(self, tensors: list[Tensor]) -> Tensor:
        """One vector from one tensor per parameter, in the order of the parameters."""
        flat = tensors[0].new_empty(sum(p.numel() for p in self._parameters))
        for part, tensor in zip(self._views(flat), tensors, strict=True):
            part.copy_(tensor)
        return flat

    def zeros(self) -> Tensor:
        """A flat vector of zeros, to `add` to."""
        return torch.zeros_like(self._weights)

    def add(self, flat: Tensor, parameters: Iterable[nn.Parameter], tensors: list[Tensor]) -> None:
        """Add one tensor per parameter to `flat`, for some of the model's parameters."""
        views = list(self._views(flat))
        for parameter, tensor in zip(parameters, tensors, strict=True):
            views[self._places[id(parameter)]].add_(tensor)

    def step(self, gradient: Tensor) -> None:
        """Apply one flat `gradient`, as `flatten` makes it."""
        self._velocity.mul_(self.momentum).add_(gradient)
        self._weights.add_(self._velocity, alpha=-self.learning_rate)

    def state(self) -> tuple[Tensor, Tensor]:
        """All weights and their momentum, as flat vectors that the next step changes."""
        return self._weights, self._velocity

    def restore(self, weights: Tensor, velocity: Tensor) -> None:
        """Go back to what `state` gave."""
        self._weights.copy_(weights)
        self._velocity.copy_(velocity)

    def finite(self) -> bool:
        """Whether every weight is finite."""
        return bool(torch.isfinite(self._weights).all())

    def _views(self, flat: Tensor) -> Iterator[Tensor]:
        start = 0
        for p in self._parameters:
            yield flat.as_strided(p.shape, p.stride(), start)
            start += p.numel()


def gaussian(like: Tensor, sigma: float, generator: torch.Generator) -> Tensor | None:
    """N(0, sigma^2 I) in the shape of `like`; None where sigma is 0."""
    if sigma == 0:
        return None
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype).mul_(
        sigma
    )


def streams(seed: int, device: torch.device) -> tuple[np.random.Generator, torch.Generator]:
    """Two independent streams from one seed: for the draws, and for the noise."""
    for_draws, for_noise = np.random.SeedSequence(integer("seed", seed, 0)).spawn(2)
    noise = torch.Generator(device=device)
    noise.manual_seed(int(for_noise.generate_state(1, np.uint64)[0] >> 1))
    return np.random.default_rng(for_draws), noise
