"""Bytes of a round of split learning, computed from a network's shapes (pmsfl, Figure 4b)."""

from __future__ import annotations

import torch

from repro._validate import in_unit, integer
from repro.federated.pmsfl.blocks import FlatBlocks
from repro.models.split import SplitNetwork, split

FLOAT = 4
"""Bytes of a number that is no bit."""


def round_bytes(
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
