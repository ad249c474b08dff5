"""Small victims and settings for the tests of attacks on split learning."""

from __future__ import annotations

import torch
from torch import nn

from repro.federated.pmsfl.blocks import FlatBlocks
from repro.models.split import SplitNetwork

TINY = {
    "data": "digits_dirichlet", "clients": 3, "width": 2, "layers": 1, "depth": 2, "rounds": 1,
    "participation": 1.0, "iterations": 2, "batch": 8, "rate": 0.003, "mask_rate": 0.1,
    "floor": 0.01, "gradient": "straight_through", "bound": 1.0, "update_epsilon": 5.0,
    "update_delta": 1e-5, "clip": 1.0, "images": 4, "public": 100, "window": 7, "steps": 3,
    "restarts": 2, "variation": 0.1, "seen": 60, "seen_first": 2, "samples": 2, "averaged": 2,
    "guesses": 2, "copies": 3, "versions": 2, "epsilons": [5.0, 0.1], "gradients": True, "masks": True, "shown": 2,
}  # fmt: skip


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dense(inputs: int, outputs: int) -> FlatBlocks:
    """Blocks of which the first is one dense layer on flattened images."""
    first = nn.Sequential(nn.Flatten(), nn.Linear(inputs, outputs, bias=False))
    return FlatBlocks(SplitNetwork([first, *(nn.Identity() for _ in range(3))], nn.Identity()))


def small(value: float, cases: int = 1) -> torch.Tensor:
    return torch.full((cases, 1, 1), value)
