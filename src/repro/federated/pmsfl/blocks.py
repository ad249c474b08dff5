"""The blocks of a split network as one vector, for many clients at once.

A client whose bottom has depth d holds the first `size(d)` coordinates of the vector, so that
masks, updates, personalisation and aggregation are operations on the rows of a (clients, size)
matrix. Clients run stacked through `torch.func.vmap` where that is faster: on a GPU, and on a CPU for
small layers, whose cost is that of calling them; `bench/split_clients.py` measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import vmap

from repro.models.split import SplitNetwork, split

STACKED_BELOW = 10_000_000
"""`FlatBlocks.first_cost` below which a CPU runs all clients in one call."""


class FlatBlocks:
    """Addresses and runs the four blocks of `network` by one flat vector.

    Args:
        network: whose blocks are run; its own weights are only read by `weights`.
    """

    def __init__(self, network: SplitNetwork) -> None:
        self._network = network
        self._places: list[list[tuple[nn.Module, str, torch.Size, int]]] = []
        ends, start = [0], 0
        for block in network.blocks:
            own = []
            for path, parameter in block.named_parameters():
                module, _, name = path.rpartition(".")
                own.append((block.get_submodule(module), name, parameter.shape, start))
                start += parameter.numel()
            self._places.append(own)
            ends.append(start)
        self._ends = tuple(ends)

    def size(self, depth: int) -> int:
        """Coordinates of the first `depth` blocks (0 to 4)."""
        return self._ends[depth]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Coordinates of each of the four blocks."""
        return tuple(b - a for a, b in zip(self._ends[:-1], self._ends[1:], strict=True))

    def weights(self) -> Tensor:
        """The network's own block weights, shape (size(4),), a copy."""
        parts = [
            p.detach().reshape(-1) for block in self._network.blocks for p in block.parameters()
        ]
        return torch.cat(parts)

    def block(self, number: int, flat: Tensor, x: Tensor) -> Tensor:
        """Run one block (0 to 3) with weights from `flat`, one vector from coordinate 0 on."""
        with self._holding(number, flat):
            return self._network.blocks[number](x)

    def run(self, flat: Tensor, inputs: Tensor, depths: Sequence[int]) -> list[Tensor]:
        """Run every client's bottom, block by block over all clients that have the block.

        Args:
            flat: weights, shape (clients, at least size of the deepest).
            inputs: shape (clients, batch, ...).
            depths: blocks of each client, 1 to 4, in rising order.

        Returns:
            For each block up to the deepest its output, shape (clients that have it, batch, ...);
            these are the last ones.
        """
        outputs, hidden = [], inputs
        each = vmap if self.stacked(inputs) else one_by_one
        for number in range(max(depths)):
            have = sum(depth > number for depth in depths)
            run = each(partial(self.block, number))
            hidden = run(flat[len(depths) - have :], hidden[len(hidden) - have :])
            outputs.append(hidden)
        return outputs

    def nobody(self, inputs: Tensor, batch: int, depth: int) -> Tensor:
        """The output of `depth` blocks for no client, shape (0, batch, ...), from `inputs` of shape (records, ...)."""
        with torch.no_grad():
            one = split(self._network, depth)[0](inputs[:1])
        return one.new_zeros((0, batch, *one.shape[1:]))

    def first_cost(self, inputs: Tensor) -> int:
        """Multiply-adds of the first block for one record of `inputs` (as for `run`), about.

        Each weight counts once for each pixel or frame.
        """
        images = inputs.ndim == 5
        return self.sizes[0] * (inputs.shape[3] * inputs.shape[4] if images else inputs.shape[2])

    def stacked(self, inputs: Tensor) -> bool:
        """Whether one call for all clients is the faster way to run `inputs` (as for `run`)."""
        return inputs.device.type != "cpu" or self.first_cost(inputs) < STACKED_BELOW

    @contextmanager
    def _holding(self, number: int, flat: Tensor) -> Iterator[None]:
        """While open, a block's parameters are views of `flat`.

        This is `torch.func.functional_call` without the search for the parameters in every call,
        which takes a tenth of the time of a small network.
        """
        places = self._places[number]
        kept = [module._parameters[name] for module, name, _, _ in places]
        try:
            for module, name, shape, start in places:
                module._parameters[name] = flat[start : start + shape.numel()].view(shape)
            yield
        finally:
            for (module, name, _, _), parameter in zip(places, kept, strict=True):
                module._parameters[name] = parameter


def held(depths: Sequence[int], blocks: FlatBlocks, length: int, device: torch.device) -> Tensor:
    """Which of the first `length` coordinates each client holds, bool (clients, length)."""
    ends = torch.tensor([blocks.size(depth) for depth in depths], device=device)
    return torch.arange(length, device=device) < ends[:, None]


def one_by_one(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """What `vmap` makes of a function of two tensors, as a loop over their first axis."""

    def run(flats: Tensor, inputs: Tensor) -> Tensor:
        return torch.stack([function(f, x) for f, x in zip(flats, inputs, strict=True)])

    return run
