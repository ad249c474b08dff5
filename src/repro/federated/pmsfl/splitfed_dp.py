"""SplitFed with noise on smashed data and on local updates (pmsfl, section 3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from repro._validate import positive, probability_open
from repro.federated.pmsfl.split_method import SplitMethod


class SplitFedDP(SplitMethod):
    """SplitFed with noise on all that clients send (PixelDP and DP-SGD; pmsfl, section 3).

    Args:
        smashed_epsilon: Laplace noise on the smashed data, in training and in use: every activation
            is clipped to [-bound, bound] and gets Lap(2 bound / epsilon). That is epsilon for one
            activation; a record has as many as its smashed data are long.
        bound: clip of an activation, > 0.
        update_epsilon, update_delta: of the local updates of a round, > 0 and in (0, 1). Every step's
            gradient is clipped to norm `clip`, and gets Gaussian noise of the deviation that the
            paper's Theorem 3 prints, clip sqrt(2 R ln(1/delta)) / (epsilon batch).
        clip: Gamma > 0.

    The layers of the network normalise over a batch, so that there is no gradient of one record
    that could be clipped for itself: what is clipped is the mean over the client's batch. One
    record can move that by 2 Gamma, not by the Gamma / batch behind the formula. So the noise is
    the paper's, (update_epsilon, update_delta)-DP of the updates is not claimed.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        *args,
        smashed_epsilon: float,
        bound: float,
        update_epsilon: float,
        update_delta: float,
        clip: float,
    ) -> None:
        super().__init__(*args)
        self.bound = float(positive("bound", bound))
        self.scale = 2 * self.bound / float(positive("smashed_epsilon", smashed_epsilon))
        self.clip = float(positive("clip", clip))
        update_delta = float(probability_open("update_delta", update_delta))
        spread = math.sqrt(2 * self.plan.iterations * math.log(1 / update_delta))
        update_epsilon = float(positive("update_epsilon", update_epsilon))
        self.sigma = self.clip * spread / (update_epsilon * self.plan.batch)

    def sent(self, smashed: Tensor, generator: torch.Generator) -> Tensor:
        """Clipped activations with Laplace noise."""
        # a Laplace variable is the difference of two exponential ones
        shape = (2, *smashed.shape)
        drawn = torch.empty(shape, device=smashed.device).exponential_(generator=generator)
        return smashed.clamp(-self.bound, self.bound) + self.scale * (drawn[0] - drawn[1])

    def finished_backward(self, gradient: Tensor, generator: torch.Generator) -> Tensor:
        """Clipped gradients with Gaussian noise."""
        norms = gradient.norm(dim=1, keepdim=True)
        clipped = gradient / (norms / self.clip).clamp(min=1.0)
        noise = torch.randn(gradient.shape, generator=generator, device=gradient.device)
        return clipped + self.sigma * noise
