"""The two things a client can train: the weights of its blocks, or the probabilities of a mask.

Both offer the same four steps, so that one training loop serves all methods. What is exchanged with
others ("public") are weights, or probabilities; what the optimiser moves are weights, or scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from repro.federated.pmsfl import masks


@dataclass(frozen=True)
class WeightTraining:
    """Trains the weights themselves.

    Attributes:
        weights: the start, shape (size,).
        rate: learning rate of the clients' Adam.
    """

    weights: Tensor
    rate: float

    def start(self) -> Tensor:
        """The public values before the first round, shape (size,)."""
        return self.weights.clone()

    def trainable(self, public: Tensor) -> Tensor:
        """What the optimiser moves."""
        return public.clone()

    def effective(self, trainable: Tensor, generator: torch.Generator) -> Tensor:
        """The weights that run."""
        return trainable

    def public(self, trainable: Tensor) -> Tensor:
        """What training has made, in the form in which it is exchanged."""
        return trainable.detach()


@dataclass(frozen=True)
class MaskTraining:
    """Freezes the weights and trains a probability for each of them (pmsfl, section 4.1).

    Attributes:
        weights: w_b, frozen, shape (size,).
        rate: learning rate of the clients' Adam, for the scores.
        floor: c; probabilities stay in [c, 1 - c].
        gradient: of `masks.GRADIENTS`.
    """

    weights: Tensor
    rate: float
    floor: float
    gradient: str

    def start(self) -> Tensor:
        """Probability 1/2 for every weight."""
        return torch.full_like(self.weights, 0.5)

    def trainable(self, public: Tensor) -> Tensor:
        """Scores of probabilities."""
        return masks.scores(public, self.floor)

    def effective(self, trainable: Tensor, generator: torch.Generator) -> Tensor:
        """w_b * M with a fresh sample M (step 2.1), differentiable with respect to the scores."""
        mask = masks.sample(self.public(trainable), generator)
        return masks.masked(self.weights[: trainable.shape[-1]], trainable, mask, self.gradient)

    def public(self, trainable: Tensor) -> Tensor:
        """Probabilities of scores."""
        return masks.kept_inside(torch.sigmoid(trainable.detach()), self.floor)


Parametrisation = WeightTraining | MaskTraining
