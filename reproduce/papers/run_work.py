"""What training a network takes, from its shapes alone: tensors on the device "meta" hold no numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from reproduce.work import Work

MIB = 2.0**20
FLOAT = 4
"""Bytes of a number."""


@dataclass(frozen=True)
class NetworkCost:
    """What one record costs a network.

    Attributes:
        forward: floating-point operations of matrix products and convolutions, a multiply-add counted as two.
        training: of a forward and a backward pass.
        parameters: trainable scalars.
        activations: bytes that the backward pass needs.
    """

    forward: float
    training: float
    parameters: int
    activations: int


def network_cost(make: Callable[[], nn.Module], shape: Sequence[int]) -> NetworkCost:
    """Count what one record costs.

    Args:
        make: builds the network; called with "meta" as default device.
        shape: of a record.
    """
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage.nbytes()  # a tensor that two layers need is kept once
        return tensor

    with torch.device("meta"):
        network = make()
        record = torch.empty(1, *shape)
        with FlopCounterMode(display=False) as count:
            with saved_tensors_hooks(note, lambda tensor: tensor):
                answer = network(record)
            forward = count.get_total_flops()
            answer.sum().backward()
            training = count.get_total_flops()
    own = {parameter.untyped_storage()._cdata for parameter in network.parameters()}
    activations = sum(size for storage, size in kept.items() if storage not in own)
    parameters = sum(p.numel() for p in network.parameters() if p.requires_grad)
    return NetworkCost(forward, training, parameters, activations)


def one_run(config: Mapping[str, Any]) -> Work:
    """Of an audit in one run: proportional to its canaries and rounds."""
    amount = config["canaries"] * config.get("rounds", config.get("iterations", 1))
    return Work(amount, amount, 0.0)
