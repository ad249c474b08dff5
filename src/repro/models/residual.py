"""Residual networks with group normalisation, to size for small images, block by block addressable.

One builder makes all of them: ResNet-101 and WideResNet-40-4 for 32x32 images as in partitioning,
section 4, and small relatives for 8x8 digits, for 14x14 letters and for training CIFAR-10 on a CPU. Batch
normalisation, which mixes the records of a batch, is replaced by group normalisation as in the
paper, so that the gradient of one record is well defined.

A block that keeps the shape of its input can be left out: the network still fits together. The
paper splits such blocks only ("identity blocks" below), after Dun et al., "ResIST", UAI 2022.
ResNet-101 has 33 blocks, of which the first of each of its four stages changes the shape; 29
identity blocks remain, 2 + 3 in the first two stages, 22 in the third and 2 in the last. These are
the "first 5", "middle 22" and "last 2" blocks of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from repro._validate import choice, integer
from repro.models.networks import Pixels, drawn_from

CIFAR_PIXELS = (0.473, 0.251)
"""Mean and standard deviation of CIFAR-10's pixels over all three colours, in units of full light.
"""


@dataclass(frozen=True)
class Architecture:
    """What tells the networks apart.

    Attributes:
        stages: (number of blocks, channels at their output, stride of the first), stage by stage.
        stem: (channels, stride) of the first 3x3 convolution.
        bottleneck: blocks of 1x1, 3x3 and 1x1 convolutions, activated after the addition (He et
            al., arXiv:1512.03385); False: two 3x3 convolutions, activated before (Zagoruyko and
            Komodakis, arXiv:1605.07146).
        groups: groups of the group normalisation, at most; see `_norm`.
        colours: channels of the images.
        pixels: (brightest, mean, deviation) of the images, for `Pixels`; the latter two in units
            of the first.
        convolutions: 3x3 convolutions in a block that is no bottleneck, 1 or 2.
    """

    stages: tuple[tuple[int, int, int], ...]
    stem: tuple[int, int]
    bottleneck: bool
    groups: int
    colours: int = 3
    pixels: tuple[float, float, float] = (255, *CIFAR_PIXELS)
    convolutions: int = 2


ARCHITECTURES = {
    "resnet101": Architecture(
        ((3, 256, 1), (4, 512, 2), (23, 1024, 2), (3, 2048, 2)), (64, 1), True, 32
    ),
    "wrn_40_4": Architecture(((6, 64, 1), (6, 128, 2), (6, 256, 2)), (16, 1), False, 16),
    "small_cifar": Architecture(((2, 24, 2), (10, 16, 2)), (16, 2), False, 8),
    "medium_cifar": Architecture(((2, 64, 2), (10, 64, 2)), (32, 2), False, 8, convolutions=1),
    "small_digits": Architecture(
        ((1, 8, 1), (10, 12, 2)), (8, 1), False, 4, colours=1, pixels=(16, 0.305, 0.376)
    ),
    "small_letters": Architecture(
        ((1, 12, 1), (10, 16, 2)), (12, 2), False, 4, 1, (255, 0.174, 0.280), convolutions=1
    ),
}
"""The networks that `build_residual` knows."""


class ResidualNet(nn.Module):
    """Stem, blocks, head; raw images (batch, colours, h, w) to logits (batch, classes).

    Attributes:
        stem, head: what every submodel contains.
        blocks: all blocks in order.
        identity: the places of the blocks that can be left out.
    """

    def __init__(self, architecture: Architecture, classes: int) -> None:
        super().__init__()
        self.pixels = Pixels(*architecture.pixels)
        channels, stride = architecture.stem
        groups, after = architecture.groups, architecture.bottleneck
        first = nn.Conv2d(architecture.colours, channels, 3, stride, padding=1, bias=False)
        self.stem = nn.Sequential(first, _norm(channels, groups), nn.ReLU()) if after else first
        blocks: list[Bottleneck | PreActivation] = []
        for count, width, stride in architecture.stages:
            for k in range(count):
                shape = (channels, width, stride if k == 0 else 1, groups)
                blocks.append(
                    Bottleneck(*shape)
                    if after
                    else PreActivation(*shape, architecture.convolutions)
                )
                channels = width
        self.blocks = nn.ModuleList(blocks)
        self.identity = tuple(i for i, block in enumerate(blocks) if block.keeps_shape)
        top = [] if after else [_norm(channels, groups), nn.ReLU()]
        self.head = nn.Sequential(
            *top,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(channels, integer("classes", classes, 2)),
        )

    def forward(self, images: Tensor, blocks: Iterable[int] | None = None) -> Tensor:
        """Logits of the whole network, or with the named `blocks` only (places, in order)."""
        hidden = self.stem(self.pixels(images))
        for i in range(len(self.blocks)) if blocks is None else blocks:
            hidden = self.blocks[i](hidden)
        return self.head(hidden)


class Bottleneck(nn.Module):
    """relu(x + f(x)), f with a quarter of the channels between its 1x1 convolutions."""

    def __init__(self, channels: int, out: int, stride: int, groups: int) -> None:
        super().__init__()
        middle = out // 4
        self.keeps_shape = stride == 1 and channels == out
        self.residual = nn.Sequential(
            nn.Conv2d(channels, middle, 1, bias=False),
            _norm(middle, groups),
            nn.ReLU(),
            nn.Conv2d(middle, middle, 3, stride, padding=1, bias=False),
            _norm(middle, groups),
            nn.ReLU(),
            nn.Conv2d(middle, out, 1, bias=False),
            _norm(out, groups),
        )
        self.shortcut = (
            nn.Identity()
            if self.keeps_shape
            else nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), _norm(out, groups))
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, h, w) to (batch, out, h / stride, w / stride)."""
        return nn.functional.relu(self.shortcut(x) + self.residual(x))


class PreActivation(nn.Module):
    """x + f(relu(norm(x))), f with two 3x3 convolutions, or one.

    A shortcut that must change the shape sees the activated input.
    """

    def __init__(
        self, channels: int, out: int, stride: int, groups: int, convolutions: int = 2
    ) -> None:
        super().__init__()
        self.keeps_shape = stride == 1 and channels == out
        self.activate = nn.Sequential(_norm(channels, groups), nn.ReLU())
        first = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        second = (_norm(out, groups), nn.ReLU(), nn.Conv2d(out, out, 3, padding=1, bias=False))
        self.residual = nn.Sequential(first, *(second if convolutions == 2 else ()))
        self.shortcut = (
            None if self.keeps_shape else nn.Conv2d(channels, out, 1, stride, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, h, w) to (batch, out, h / stride, w / stride)."""
        active = self.activate(x)
        return (x if self.shortcut is None else self.shortcut(active)) + self.residual(active)


def _norm(channels: int, groups: int) -> nn.GroupNorm:
    """Group normalisation with at most `groups` groups of at least 2 channels each."""
    return nn.GroupNorm(math.gcd(groups, max(1, channels // 2)), channels)


def build_residual(name: str, *, classes: int, seed: int) -> ResidualNet:
    """The network `name` of `ARCHITECTURES`, initialised from `seed` alone.

    PyTorch's default initialisation; the state of the global random generator is left as it was.

    Raises:
        ValueError: no network of that name, fewer than 2 classes, or a negative seed.
    """
    architecture = ARCHITECTURES[choice("name", name, tuple(ARCHITECTURES))]
    with drawn_from(seed):
        return ResidualNet(architecture, classes)
