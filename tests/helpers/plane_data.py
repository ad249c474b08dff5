"""Records, starts and gradients for the tests of Algorithm 2 of ddpsa."""

import numpy as np
import torch

from repro.datasets.plane import plane
from repro.federated.ddpsa.algorithm import (
    mechanism,
)

START = np.array([[0.3, -0.5, 0.1], [-0.2, 0.6, 0.4]])
LDP, DDPSA = (mechanism(name, clients=2, clip=1.0, epsilon=0.1) for name in ("LDP", "DDP-SA"))


def data(records=200):
    return plane([3, 4], records)[0]


def gradients(training, models):
    """Gradients of (theta x - y)^2 by PyTorch, shape (R, N, 3)."""
    weights = torch.tensor(models[:, None]).expand(*training.inputs.shape).clone().requires_grad_()
    error = (weights * torch.tensor(training.inputs)).sum(-1) - torch.tensor(training.targets)
    (error**2).sum().backward()
    return weights.grad.numpy()
