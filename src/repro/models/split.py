"""Networks of four blocks and a head that can be cut after any block: a small ResNet-18, a Transformer.

Every parameter of a block is a weight of a convolution or a linear map. There are no biases and no
learned scales in front of the head, so that a binary mask over the weights of the blocks prunes
connections and nothing else; the same networks are trained by weights where masks are compared with
weights. Weights are drawn from Kaiming's normal distribution (pmsfl, section 4.1).

    network = resnet18(classes=10, channels=1, width=4, seed=0)
    bottom, top = split(network, depth=2)     # clients hold the bottom, the server the top
    smashed = bottom(images)
    logits = top(smashed)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from repro._validate import integer
from repro.models.networks import drawn_from

DEPTH = 4
"""Blocks of every network of this module."""


class SplitNetwork(nn.Module):
    """Four blocks in a row, then a head.

    Attributes:
        blocks: `nn.ModuleList` of four; the first contains the stem.
        head: what turns the last block's output into logits (batch, classes).
    """

    def __init__(self, blocks: list[nn.Module], head: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.head = head
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (batch, classes)."""
        for block in self.blocks:
            inputs = block(inputs)
        return self.head(inputs)


def split(network: SplitNetwork, depth: int) -> tuple[nn.Sequential, nn.Sequential]:
    """Cut a network after its block number `depth`: (bottom, top), which share its parameters.

    The bottom maps inputs to smashed data, the top smashed data to logits.

    Raises:
        ValueError: depth is not an integer from 1 to 4.
    """
    depth = integer("depth", depth, 1, DEPTH)
    return (
        nn.Sequential(*network.blocks[:depth]),
        nn.Sequential(*network.blocks[depth:], network.head),
    )


# ResNet -------------------------------------------------------------------------------------------


class StaticBatchNorm(nn.Module):
    """Batch normalisation that tracks nothing: no running statistics, no learned scale or shift.

    Mean and variance of each channel are those of the batch, in training and after it. For testing,
    `statistics_from(network, rows)` takes them from the first `rows` records of the batch only: put
    training records there and the records behind them are normalised by statistics that were
    computed after training over training data, layer by layer, and do not depend on each other.
    This is the static batch normalisation of HeteroFL (Diao et al., ICLR 2021): nothing about a
    client's statistics is ever sent during training.

    `statistics_over(network, total)` takes them from all parts of a batch that several processes hold.

    A channel with a single value (one record, one pixel) is mapped to 0, as any constant channel.
    """

    def __init__(self, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.rows: int | None = None
        self.total: Callable[[Tensor], Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, h, w) to the same shape."""
        if self.total is not None:
            return self._over_all(x, self.total)
        if self.rows is None and x.numel() > x.shape[1]:
            # nn.functional.batch_norm without its checks, which cost as much as small layers do
            return torch.batch_norm(x, None, None, None, None, True, 0.0, self.epsilon, False)
        seen = x[: self.rows]
        variance, mean = torch.var_mean(seen, dim=(0, 2, 3), correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + self.epsilon)

    def _over_all(self, x: Tensor, total: Callable[[Tensor], Tensor]) -> Tensor:
        values = x.new_tensor([x.numel() / x.shape[1]])
        sums = total(torch.cat([x.sum(dim=(0, 2, 3)), values]))
        centred = x - (sums[:-1] / sums[-1])[:, None, None]
        variance = total(centred.square().sum(dim=(0, 2, 3))) / sums[-1]
        return centred * torch.rsqrt(variance + self.epsilon)[:, None, None]


@contextmanager
def statistics_over(network: nn.Module, total: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """While open, batch statistics of `network` are those of a batch of which each process holds a part.

    Args:
        network: run by all processes at the same time, a part may be empty.
        total: the sum of a vector over all processes, differentiable.
    """
    layers = [m for m in network.modules() if isinstance(m, StaticBatchNorm)]
    for layer in layers:
        layer.total = total
    try:
        yield
    finally:
        for layer in layers:
            layer.total = None


@contextmanager
def statistics_from(network: nn.Module, rows: int) -> Iterator[None]:
    """While open, batch statistics of `network` are those of the first `rows` records of a batch.

    Networks without batch normalisation are not affected.

    Raises:
        ValueError: rows is not an integer >= 1.
    """
    rows = integer("rows", rows, 1)
    layers = [m for m in network.modules() if isinstance(m, StaticBatchNorm)]
    for layer in layers:
        layer.rows = rows
    try:
        yield
    finally:
        for layer in layers:
            layer.rows = None


class BasicBlock(nn.Module):
    """relu(x + f(x)), f two 3x3 convolutions (He et al., arXiv:1512.03385)."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, padding=1, bias=False),
            StaticBatchNorm(),
            nn.ReLU(),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            StaticBatchNorm(),
        )
        self.shortcut = (
            nn.Identity()
            if stride == 1 and channels == out
            else nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), StaticBatchNorm())
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, h, w) to (batch, out, h / stride, w / stride)."""
        return nn.functional.relu(self.shortcut(x) + self.residual(x))


def resnet18(
    *, classes: int, channels: int, width: int = 64, layers: int = 2, seed: int = 0
) -> SplitNetwork:
    """ResNet-18 for images of 8x8 to 32x32 pixels, with static batch normalisation.

    Images (batch, channels, h, w) to logits (batch, classes). The stem is one 3x3 convolution of
    stride 1 without pooling, as usual for 32x32; the four blocks are the four stages of the
    network, of `width`, 2, 4 and 8 times `width` channels, all but the first halving the image.

    Args:
        classes: >= 2.
        channels: colours of the images, >= 1.
        width: channels of the first stage, >= 1; 64 in the paper.
        layers: residual blocks in each stage, >= 1; 2 make the eighteen layers of the name.
        seed: of the weights, >= 0.

    Raises:
        ValueError: an argument is out of range.

    Source: pmsfl, section 6.1.
    """
    classes, channels = integer("classes", classes, 2), integer("channels", channels, 1)
    width, layers = integer("width", width, 1), integer("layers", layers, 1)
    with drawn_from(seed):
        stem = [
            nn.Conv2d(channels, width, 3, padding=1, bias=False), StaticBatchNorm(), nn.ReLU()
        ]  # fmt: skip
        stages, before = [], width
        for k in range(DEPTH):
            out = width * 2**k
            stage = [BasicBlock(before, out, 1 if k == 0 else 2)]
            stage += [BasicBlock(out, out, 1) for _ in range(layers - 1)]
            stages.append(nn.Sequential(*(stem if k == 0 else []), *stage))
            before = out
        head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))
        return SplitNetwork(stages, head)


# Transformer --------------------------------------------------------------------------------------


class Embedding(nn.Module):
    """A linear map of each frame, plus sines and cosines of its place (Vaswani et al., 2017)."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.frame = nn.Linear(features, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, features) to (batch, frames, width)."""
        hidden = self.frame(x)
        frames, width = hidden.shape[-2:]
        place = torch.arange(frames, dtype=hidden.dtype, device=hidden.device)[:, None]
        channel = torch.arange(width, device=hidden.device)
        angle = place * torch.exp(-math.log(10000.0) * (channel - channel % 2) / width)
        return hidden + torch.where(channel % 2 == 0, torch.sin(angle), torch.cos(angle))


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each after a layer normalisation and added."""

    def __init__(self, width: int, heads: int, feedforward: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.feedforward = nn.Sequential(
            nn.Linear(width, feedforward, bias=False),
            nn.ReLU(),
            nn.Linear(feedforward, width, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, width) to the same shape."""
        x = x + self._attention(self.norms[0](x))
        return x + self.feedforward(self.norms[1](x))

    def _attention(self, x: Tensor) -> Tensor:
        batch, frames, width = x.shape
        projected = self.project(x).reshape(batch, frames, 3, self.heads, width // self.heads)
        query, key, value = projected.permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-1)
        return self.out((weights @ value).transpose(1, 2).reshape(batch, frames, width))


class MeanOverFrames(nn.Module):
    """(batch, frames, width) to (batch, width)."""

    def forward(self, x: Tensor) -> Tensor:
        """The mean over the frames."""
        return x.mean(dim=1)


def transformer(
    *,
    classes: int,
    features: int,
    width: int = 768,
    heads: int = 2,
    feedforward: int | None = None,
    seed: int = 0,
) -> SplitNetwork:
    """Four identical encoder layers: sequences (batch, frames, features) to logits.

    Args:
        classes: >= 2.
        features: numbers per frame, >= 1.
        width: the model's dimension, a multiple of `heads`; 768 in the paper.
        heads: attention heads, >= 1; 2 in the paper.
        feedforward: width of the hidden layer, >= 1; default 2 * width as in the paper.
        seed: of the weights, >= 0.

    Raises:
        ValueError: an argument is out of range.

    Source: pmsfl, section 6.1.
    """
    classes, features = integer("classes", classes, 2), integer("features", features, 1)
    width, heads = integer("width", width, 1), integer("heads", heads, 1)
    if width % heads:
        raise ValueError(f"width must be a multiple of heads = {heads}, got {width}")
    hidden = 2 * width if feedforward is None else integer("feedforward", feedforward, 1)
    with drawn_from(seed):
        blocks: list[nn.Module] = [EncoderLayer(width, heads, hidden) for _ in range(DEPTH)]
        blocks[0] = nn.Sequential(Embedding(features, width), blocks[0])
        head = nn.Sequential(
            nn.LayerNorm(width, elementwise_affine=False),
            MeanOverFrames(),
            nn.Linear(width, classes),
        )
        return SplitNetwork(blocks, head)
