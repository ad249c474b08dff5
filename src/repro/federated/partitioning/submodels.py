"""Submodels of a residual network: which blocks they hold, and a forward pass through each.

A submodel is the whole network without some of the blocks that can be left out. Blocks that are
split lie in exactly one submodel; stem, head and all other blocks lie in every one (the unsplit
part). Source: partitioning, section 3.2; Dun et al., "ResIST", UAI 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch
from torch import Tensor, nn

from repro._validate import integer
from repro.models.residual import ResidualNet

Partition = tuple[tuple[int, ...], ...]
"""The places of the split blocks of each submodel, increasing."""


def middle_blocks(net: ResidualNet, first: int, last: int) -> tuple[int, ...]:
    """The blocks to split: those that can be left out, without the `first` and the `last` of them.

    Args:
        net: the full network.
        first: number of first blocks that stay unsplit, >= 0.
        last: number of last blocks that stay unsplit, >= 0.

    Raises:
        ValueError: nothing is left to split.
    """
    integer("first", first, 0)
    integer("last", last, 0)
    chosen = net.identity[first : len(net.identity) - last]
    if not chosen:
        raise ValueError(
            f"first + last must be below {len(net.identity)}, the number of blocks that can be "
            f"left out, got {first} + {last}"
        )
    return chosen


def create_submodels(
    blocks: Sequence[int], submodels: int, rng: np.random.Generator | None = None
) -> Partition:
    """Deal `blocks` to d disjoint submodels, whose sizes differ by at most one.

    Args:
        blocks: places of the blocks to split.
        submodels: d, from 1 to the number of blocks.
        rng: shuffles the blocks first. Without it the blocks are dealt in turn, so that every
            submodel has blocks at all depths and the partition is always the same.

    Raises:
        ValueError: d is not in [1, number of blocks].
    """
    integer("submodels", submodels, 1, len(blocks))
    order = list(blocks) if rng is None else rng.permutation(list(blocks)).tolist()
    return tuple(tuple(sorted(order[k::submodels])) for k in range(submodels))


def split_parameters(net: ResidualNet, blocks: Sequence[int]) -> list[nn.Parameter]:
    """The trainable parameters of the split part, that is of `blocks`."""
    return [p for i in blocks for p in net.blocks[i].parameters() if p.requires_grad]


class Routed(nn.Module):
    """A network as a batch sees it that is sorted by submodel: record i passes its submodel only.

    The unsplit part is computed for all records at once, the blocks of a submodel for its own
    records: one pass in all, whatever the number of submodels.

    Args:
        net: the full network; its parameters are shared.
        partition: the split blocks of each submodel.
        counts: how many records of the batch belong to each submodel, shape (d,).
    """

    def __init__(self, net: ResidualNet, partition: Partition, counts: Sequence[int]) -> None:
        super().__init__()
        self.net = net
        self._counts = [int(count) for count in counts]
        self._owner = {i: k for k, blocks in enumerate(partition) for i in blocks}

    @property
    def rows(self) -> dict[nn.Module, slice]:
        """Which records reach each layer of a split block, for `clipped_part_sums`."""
        ends = np.cumsum(self._counts)
        return {
            layer: slice(int(ends[k]) - self._counts[k], int(ends[k]))
            for i, k in self._owner.items()
            for layer in self.net.blocks[i].modules()
        }

    def forward(self, images: Tensor) -> Tensor:
        """Logits (batch, classes) of images sorted by submodel."""
        net, owner = self.net, self._owner
        hidden = net.stem(net.pixels(images))
        for split, places in groupby(range(len(net.blocks)), key=lambda i: i in owner):
            if split:
                hidden = self._split_run(list(places), hidden)
            else:
                for i in places:
                    hidden = net.blocks[i](hidden)
        return net.head(hidden)

    def _split_run(self, places: list[int], hidden: Tensor) -> Tensor:
        """Neighbouring split blocks: each submodel's records through its own ones of them."""
        done = []
        for k, part in enumerate(hidden.split(self._counts)):
            if len(part):
                for i in places:
                    part = self.net.blocks[i](part) if self._owner[i] == k else part
            done.append(part)
        return torch.cat(done)
