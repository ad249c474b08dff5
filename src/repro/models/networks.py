"""The networks: the paper's CNN for 28x28 characters and two small ones for 8x8 digits.

All of them take images (batch, 1, height, width) and return logits (batch, classes); the softmax
belongs to the loss. None contains a layer that mixes the records of a batch (batch normalisation
and the like), so the gradient of one record is well defined. Weights are kept channels-last, a
layout in which pooling and convolution are several times faster on a CPU; it changes no value
beyond rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from repro._validate import choice, integer, positive


class Pixels(nn.Module):
    """Raw grey values of any dtype to float32, with the given mean and deviation removed.

    `brightest` is the raw value of full ink; `mean` and `deviation` are in units of it. It stands
    in front of a network so that a data set stays in memory as bytes and only the drawn records
    become floats.
    """

    def __init__(self, brightest: float, mean: float = 0.0, deviation: float = 1.0) -> None:
        super().__init__()
        self.scale = 1.0 / (
            float(positive("brightest", brightest)) * float(positive("deviation", deviation))
        )
        self.shift = -float(mean) / deviation

    def forward(self, images: Tensor) -> Tensor:
        """Floats of the same shape."""
        return images.to(torch.float32).mul(self.scale).add_(self.shift)


class EmnistCNN(nn.Sequential):
    """The network of random_participation, appendix B, figure 8 (156,526 parameters at 62 classes).

    Two convolutions, each followed by ReLU and a 2x2 max-pooling of stride 1, then two linear
    layers; 28x28 images give 16 x 14 x 14, 16 x 13 x 13, 32 x 5 x 5 and 32 x 4 x 4 = 512 features.
    """

    def __init__(self, classes: int = 62) -> None:
        super().__init__(
            nn.Conv2d(1, 16, kernel_size=8, stride=2, padding=3),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=1),
            nn.Conv2d(16, 32, kernel_size=4, stride=2),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2, stride=1),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 256),
            nn.ReLU(),
            nn.Linear(256, integer("classes", classes, 2)),
        )
        self.to(memory_format=torch.channels_last)


class DigitsMLP(nn.Sequential):
    """One hidden layer for 8x8 images (2,410 parameters at 32 hidden units and 10 classes)."""

    def __init__(self, classes: int = 10, hidden: int = 32) -> None:
        super().__init__(
            nn.Flatten(),
            nn.Linear(64, integer("hidden", hidden, 1)),
            nn.ReLU(),
            nn.Linear(hidden, integer("classes", classes, 2)),
        )


class DigitsCNN(nn.Sequential):
    """A small relative of `EmnistCNN` for 8x8 images (2,218 parameters at 10 classes)."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__(
            nn.Conv2d(1, 8, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=2),
            nn.Conv2d(8, 16, kernel_size=3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * 2 * 2, integer("classes", classes, 2)),
        )
        self.to(memory_format=torch.channels_last)


_NETWORKS = {"emnist_cnn": EmnistCNN, "digits_mlp": DigitsMLP, "digits_cnn": DigitsCNN}


def build(name: str, *, classes: int, seed: int) -> nn.Module:
    """The network `name` with PyTorch's default initialisation drawn from `seed` alone.

    The state of the global random generator is left as it was. The parameters come out on the CPU,
    so that a seed means the same start on every device.

    Raises:
        ValueError: no network of that name, fewer than 2 classes, or a negative seed.
    """
    network = _NETWORKS[choice("name", name, tuple(_NETWORKS))]
    with drawn_from(seed):
        return network(classes)


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """While open, PyTorch's global generator starts from `seed`; then it is as it was before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(integer("seed", seed, 0))
        yield


def count_parameters(model: nn.Module) -> int:
    """The number of trainable scalars of `model`: the dimension in which the noise is drawn."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


@torch.no_grad()
def evaluate(
    model: nn.Module, images: Tensor, labels: Tensor, chunk: int = 2000
) -> tuple[float, float]:
    """Accuracy in [0, 1] and mean cross-entropy on images (n, 1, h, w) and labels (n,)."""
    right, loss = 0, 0.0
    for start in range(0, len(labels), chunk):
        logits, truth = model(images[start : start + chunk]), labels[start : start + chunk]
        right += int((logits.argmax(dim=1) == truth).sum())
        loss += float(nn.functional.cross_entropy(logits, truth, reduction="sum"))
    return right / len(labels), loss / len(labels)
