"""What PM-SFL costs: sizes of the paper's networks by formula, and the bytes that a round sends.

The paper splits both networks after the second of four blocks (section 6.2). It names a ResNet-18
with static batch norms, and a Transformer of width 768 with 2 heads and a feed-forward width of
1536. What it leaves open (the stem, the embedding of the radar maps) is an argument here.
"""

from __future__ import annotations

import torch

from repro._validate import in_unit, integer
from repro.federated.pmsfl.blocks import FlatBlocks
from repro.models.split import SplitNetwork, split

_STAGE = 2  # basic blocks in each of ResNet-18's four blocks


def resnet_bottom(
    blocks: int = 2, *, width: int = 64, colours: int = 3, kernel: int = 3, norm: bool = True
) -> int:
    """Parameters of a ResNet-18 up to and including its block `blocks`.

    Block l has 2^(l-1) `width` channels; from the second on its first layer halves the image and a 1x1
    convolution with a norm replaces the shortcut.

    Args:
        blocks: 0 (stem only) to 4.
        width: channels of the stem, >= 1.
        colours: of the image, >= 1.
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


FLOAT = 4
"""Bytes of a number that is no bit."""


def participant_bytes(
    network: SplitNetwork,
    shape: tuple[int, ...],
    depth: int,
    records: int,
    ratio: float = 0.0,
) -> dict[str, int]:
    """Bytes of one participant in one round.

    Args:
        network: the model.
        shape: of one input, without the batch.
        depth: blocks at the client, 1 to 4.
        records: that it passes through its bottom in the round, iterations times batch, >= 1.
        ratio: share of personal masks, in [0, 1].

    Returns:
        "smashed" (activations up, as many bytes of gradients down) and "labels" (up); for the
        model "weights" (up and down: SplitFed, and SplitFed-PM's probabilities), "bits" (up:
        PM-SFL's shared masks) and "indicator" (up, where there are personal masks).

    Raises:
        ValueError: an argument out of range.
    """
    records, ratio = integer("records", records, 1), float(in_unit("ratio", ratio))
    bottom, _ = split(network, depth)
    with torch.no_grad():
        width = bottom(torch.zeros(2, *shape))[0].numel()
    size = FlatBlocks(network).size(depth)
    personal = int(ratio * size)
    return {
        "smashed": records * width * FLOAT,
        "labels": records,
        "weights": size * FLOAT,
        "bits": -(-(size - personal) // 8),
        "indicator": -(-size // 8) if ratio else 0,
    }
