"""Clients of split learning stacked (`torch.func.vmap`) beside a loop over them: which is faster where.

    python bench/split_clients.py [--clients 10] [--records 16] [--seconds 3] [--threads 1] [--device cpu]

A step is what all participants do in one iteration of pmsfl: each runs its own weights of the first
two blocks on its batch, and back for given gradients of its smashed data. Both ways take turns in one
process, so that a busy machine troubles both alike; the best repetition counts. Before that their
smashed data and gradients are compared; a network for which they differ is named and left out.

`FlatBlocks.stacked` chooses by the multiply-adds of the first block for one record (second column).
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.func import vmap

from repro.federated.pmsfl.blocks import FlatBlocks, one_by_one
from repro.models.split import SplitNetwork, resnet18, transformer

DEPTH = 2
WAYS: dict[str, Callable] = {"stacked": vmap, "loop": one_by_one}


@dataclass(frozen=True)
class Work:
    """One step of all clients: their weights, inputs, and the gradients they are sent."""

    blocks: FlatBlocks
    flat: Tensor
    inputs: Tensor
    replies: Tensor

    def step(self, way: str) -> tuple[Tensor, Tensor]:
        """Smashed data, and the gradients of every client's weights."""
        weights = self.flat.detach().requires_grad_()
        smashed = self.forward(weights, way)
        (gradients,) = torch.autograd.grad(smashed, weights, self.replies)
        return smashed.detach(), gradients

    def forward(self, weights: Tensor, way: str) -> Tensor:
        """Smashed data of all clients."""
        hidden = self.inputs
        for number in range(DEPTH):
            hidden = WAYS[way](partial(self.blocks.block, number))(weights, hidden)
        return hidden


def work(network: SplitNetwork, inputs: Tensor) -> Work:
    """Clients whose weights have moved apart."""
    blocks = FlatBlocks(network.to(inputs.device))
    weights = blocks.weights()[: blocks.size(DEPTH)].repeat(len(inputs), 1)
    flat = weights * (1 + 0.1 * torch.randn_like(weights))
    made = Work(blocks, flat, inputs, torch.empty(0))
    with torch.no_grad():
        return Work(blocks, flat, inputs, torch.randn_like(made.forward(flat, "loop")))


def networks(clients: int, records: int, device: torch.device) -> dict[str, Work]:
    """The networks of the quick, desk and paper profiles, and some in between."""
    made = {}
    for width, pixels in ((6, 8), (8, 32), (16, 32), (32, 32), (64, 32)):
        inputs = torch.randn(clients, records, 3, pixels, pixels, device=device)
        network = resnet18(classes=10, channels=3, width=width, layers=1)
        made[f"ResNet, width {width}, {pixels}x{pixels}"] = work(network, inputs)
    for width in (16, 32, 256):
        inputs = torch.randn(clients, records, 30, 16, device=device)
        made[f"Transformer, width {width}, 30 frames"] = work(
            transformer(classes=10, features=16, width=width), inputs
        )
    return made


def difference(task: Work) -> float:
    """How far the two ways are apart, relative to the loop."""
    pairs = zip(task.step("stacked"), task.step("loop"), strict=True)
    return max(float((one - two).norm() / two.norm()) for one, two in pairs)


def measure(task: Work, seconds: float) -> dict[str, float]:
    """Seconds of a step, the best of at least two."""
    best, turns = dict.fromkeys(WAYS, float("inf")), 0
    end = time.perf_counter() + seconds
    while turns < 2 or time.perf_counter() < end:
        turns += 1
        for way in WAYS:
            _wait(task.inputs.device)
            start = time.perf_counter()
            task.step(way)
            _wait(task.inputs.device)
            best[way] = min(best[way], time.perf_counter() - start)
    return best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    """Print one table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--clients", type=int, default=10)
    options.add_argument("--records", type=int, default=16, help="of a client in a step")
    options.add_argument("--seconds", type=float, default=3.0, help="per network, at least 2 steps")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--device", default="cpu")
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    device = torch.device(given.device)
    machine = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"CPU, {given.threads} thread{'s' * (given.threads > 1)}"
    )
    print(
        f"{machine}; Python {platform.python_version()}, torch {torch.__version__}\n"
        f"{given.clients} clients x {given.records} records, {DEPTH} blocks forward and backward\n"
    )
    print(f"  {'':34}{'million/record':>15}{'stacked':>11}{'loop':>11}{'loop/stacked':>14}  chosen")
    for name, task in networks(given.clients, given.records, device).items():
        if (error := difference(task)) > 1e-2:
            print(f"  left out: {name}: the two ways differ by {error:.0%}")
            continue
        best = measure(task, given.seconds)
        ratio = best["loop"] / best["stacked"]
        chosen = "stacked" if task.blocks.stacked(task.inputs) else "loop"
        slower = (ratio < 1) == (chosen == "stacked")
        print(
            f"  {name:34}{task.blocks.first_cost(task.inputs) / 1e6:15.2f}"
            f"{1e3 * best['stacked']:8.1f} ms{1e3 * best['loop']:8.1f} ms{ratio:14.2f}  {chosen}"
            + (f" (the other is {max(ratio, 1 / ratio):.2f}x as fast)" if slower else "")
        )


if __name__ == "__main__":
    main()
