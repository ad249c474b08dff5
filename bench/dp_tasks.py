"""What `dp_step.py` and `dp_parts.py` train: two networks, and each kind of layer that clipping covers by itself.

The networks are the CNN of random_participation, and a small transformer that has every other kind of
layer that clipping covers: embeddings, layer and group normalisation, attention, a convolution along
the sequence. A layer by itself has the size that it has in these two, and the means over its positions
are the logits. Opacus gets attention made of its own layers, with one head, where both compute the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from repro.models import build

CLASSES, WORDS, LENGTH, WIDTH, NARROW = 62, 10_000, 64, 64, 32
PLAIN = {"plain": torch.contiguous_format}
BOTH = {"channels-last": torch.channels_last, **PLAIN}

Attention = type[nn.Module]


class Block(nn.Module):
    """Attention and two linear layers, each behind a layer normalisation."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention(WIDTH, 1, batch_first=True)
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (records, LENGTH, WIDTH) to the same."""
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.narrow(functional.gelu(self.wide(self.after(x))))


class Transformer(nn.Module):
    """Two blocks over embedded words and positions, then a convolution and a mean over positions."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(attention), Block(attention))
        self.along, self.groups = nn.Conv1d(WIDTH, NARROW, 3, padding=1), nn.GroupNorm(4, NARROW)
        self.last = nn.Linear(NARROW, CLASSES)

    def forward(self, index: Tensor) -> Tensor:
        """Logits (records, CLASSES) of words (records, LENGTH)."""
        places = torch.arange(LENGTH, device=index.device).expand_as(index)
        x = self.blocks(self.words(index) + self.places(places))
        return self.last(functional.relu(self.groups(self.along(x.transpose(1, 2)))).mean(2))


class Alone(nn.Module):
    """One layer; the means over its positions are the logits (records, at least NARROW)."""

    def __init__(self, layer: nn.Module, channels_first: bool) -> None:
        super().__init__()
        self.layer, self.channels_first = layer, channels_first

    def forward(self, x: Tensor) -> Tensor:
        """Logits of what the layer takes."""
        y = self.layer(x)
        if y.ndim == 2:
            return y
        return y.flatten(2).mean(2) if self.channels_first else y.flatten(1, -2).mean(1)


class ToItself(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention(WIDTH, 1, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (records, LENGTH, WIDTH) to the same."""
        return self.attention(x, x, x, need_weights=False)[0]


@dataclass(frozen=True)
class Layer:
    """A layer by itself.

    Attributes:
        make: builds it, with the kind of attention that it may need.
        shape: shape of one record.
        channels_first: whether the channels come before the positions.
    """

    make: Callable[[Attention], nn.Module]
    shape: tuple[int, ...]
    channels_first: bool = False


LAYERS = {
    "Linear": Layer(lambda _: nn.Linear(512, 256), (512,)),
    "Linear, at 64 positions": Layer(lambda _: nn.Linear(WIDTH, 4 * WIDTH), (LENGTH, WIDTH)),
    "Conv2d": Layer(lambda _: nn.Conv2d(16, NARROW, 4, stride=2), (16, 13, 13), True),
    "Conv1d": Layer(lambda _: nn.Conv1d(WIDTH, NARROW, 3, padding=1), (WIDTH, LENGTH), True),
    "GroupNorm": Layer(lambda _: nn.GroupNorm(4, NARROW), (NARROW, LENGTH), True),
    "LayerNorm": Layer(lambda _: nn.LayerNorm(WIDTH), (LENGTH, WIDTH)),
    "Embedding": Layer(lambda _: nn.Embedding(WORDS, WIDTH), (LENGTH,)),
    "MultiheadAttention": Layer(ToItself, (LENGTH, WIDTH)),
}


@dataclass(frozen=True)
class Task:
    """What is trained: "cnn", "transformer" or a name in LAYERS, with weights in a layout, for ours or for Opacus."""

    name: str
    layout: str
    for_opacus: bool = False

    def network(self) -> nn.Module:
        """The network, the same on every call."""
        if self.for_opacus:
            from opacus.layers import DPMultiheadAttention as Heads
        else:
            Heads = nn.MultiheadAttention  # noqa: N806
        torch.manual_seed(0)
        if self.name == "cnn":  # random_participation, appendix B
            model = build("emnist_cnn", classes=CLASSES, seed=0)
        elif self.name == "transformer":
            model = Transformer(Heads)
        else:
            layer = LAYERS[self.name]
            model = Alone(layer.make(Heads), layer.channels_first)
        return model.to(memory_format=layouts(self.name)[self.layout])


def layouts(name: str) -> dict[str, torch.memory_format]:
    """The layouts of weights that are tried."""
    return BOTH if name in ("cnn", "Conv2d") else PLAIN


def records(name: str, batch: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Random records and labels."""
    generator = torch.Generator().manual_seed(1)
    if name in ("transformer", "Embedding"):
        x = torch.randint(0, WORDS, (batch, LENGTH), generator=generator)
    else:
        shape = (1, 28, 28) if name == "cnn" else LAYERS[name].shape
        x = torch.randn((batch, *shape), generator=generator)
    classes = NARROW if name in LAYERS else CLASSES
    return x.to(device), torch.randint(0, classes, (batch,), generator=generator).to(device)
