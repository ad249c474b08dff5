"""PM-SFL: sizes of the paper's networks by formula, and the bytes that go up from their bottoms.

The paper splits both networks after the second of four blocks (section 6.2). It names a ResNet-18
whose batch norms became static, and a Transformer of width 768 with 2 heads and a feed-forward width
of 1536; what it leaves open (the stem, the embedding of the radar maps) is an argument here.
"""

from __future__ import annotations

from repro._validate import integer

__all__ = ["local_steps", "resnet_bottom", "smashed_numbers", "transformer_bottom"]

_STAGE = 2  # basic blocks in each of ResNet-18's four blocks


def resnet_bottom(
    blocks: int = 2, *, width: int = 64, colours: int = 3, kernel: int = 3, norm: bool = True
) -> int:
    """Parameters of a ResNet-18 up to and including its block `blocks`.

    Block l has 2^(l-1) `width` channels; from the second on its first layer halves the image and a 1x1
    convolution with a norm replaces the shortcut.

    Args:
      blocks: 0 (stem only) to 4.
      width: channels of the stem, >= 1. colours: of the image, >= 1.
      kernel: side of the stem's convolution: 3 for 32x32 images, 7 for large ones.
      norm: count the two numbers a channel of each batch norm.

    Raises:
      ValueError: an argument out of range.
    """
    integer("blocks", blocks, 0, 4)
    width, colours = integer("width", width, 1), integer("colours", colours, 1)
    kernel = integer("kernel", kernel, 1)
    per_channel = 2 if norm else 0
    total = kernel**2 * colours * width + per_channel * width
    before = width
    for block in range(blocks):
        out = width * 2**block
        total += 9 * out * (before + (2 * _STAGE - 1) * out) + per_channel * 2 * _STAGE * out
        if before != out:
            total += before * out + per_channel * out
        before = out
    return total


def transformer_bottom(blocks: int = 2, *, width: int = 768, hidden: int = 1536) -> int:
    """Parameters of `blocks` encoder layers, biases and two layer norms each; no embedding.

    The number of heads does not change it.

    Raises:
      ValueError: an argument out of range.
    """
    integer("blocks", blocks, 0)
    width, hidden = integer("width", width, 1), integer("hidden", hidden, 1)
    attention = 4 * (width**2 + width)
    forward = 2 * width * hidden + hidden + width
    return blocks * (attention + forward + 4 * width)


def smashed_numbers(blocks: int = 2, *, width: int = 64, side: int = 32) -> int:
    """Activations that one image sends up from a ResNet-18 split after `blocks` >= 1 blocks.

    The stem keeps the image's `side`; every block from the second on halves it.
    """
    integer("blocks", blocks, 1, 4)
    side = integer("side", side, 1)
    for _ in range(blocks - 1):
        side = (side + 1) // 2
    return integer("width", width, 1) * 2 ** (blocks - 1) * side**2


def local_steps(records: int, *, batch: int = 32, epochs: int = 5) -> int:
    """R, the local steps of a round: `epochs` passes over `records` in batches, the last one short."""
    batches = -(-integer("records", records, 1) // integer("batch", batch, 1))
    return integer("epochs", epochs, 1) * batches
