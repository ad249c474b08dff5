"""Fits of a reconstruction attack per second: all stacked, or one after another by other L-BFGSs.

    python bench/stacked_attacks.py [--stacks 24] [--steps 60] [--repeats 3] [--width 8]

Every fit is one image behind two blocks of a small ResNet, with known weights and a smooth prior,
from the same start, and every optimiser may evaluate the loss equally often. Measured in one
process, method after method in turn so that a busy machine troubles all alike; the best of the
repetitions counts. The mean loss in the end stands beside the time: a fast optimiser that does not
get down is no gain.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from repro.attacks import smooth_prior
from repro.attacks.reconstruction import bottom
from repro.attacks.stacked_lbfgs import minimise
from repro.federated.pmsfl.blocks import FlatBlocks
from repro.models.split import resnet18

DEPTH, SIDE, MEMORY = 2, 8, 20

Loss = Callable[[Tensor], Tensor]


def problem(stacks: int, width: int, device: torch.device) -> tuple[Loss, Tensor]:
    """The loss of any number of the fits, (k, pixels) -> (k,), for the first k; and the starts."""
    network = resnet18(classes=10, channels=1, width=width, layers=1, seed=0).to(device)
    blocks = FlatBlocks(network)
    weights = blocks.weights()[: blocks.size(DEPTH)].detach()
    generator = torch.Generator().manual_seed(0)
    images = torch.rand((stacks, 1, 1, SIDE, SIDE), generator=generator).to(device)
    start = torch.rand((stacks, SIDE * SIDE), generator=generator).to(device)
    prior = smooth_prior((1, SIDE, SIDE), variation=0.0, low=0.0, high=1.0, device=device)

    def made(batches: Tensor) -> Tensor:
        return bottom(blocks, weights.expand(len(batches), -1), batches, DEPTH)

    with torch.no_grad():
        seen = made(images)

    def loss(z: Tensor, of: slice = slice(None)) -> Tensor:
        guess = prior.images(z[:, None])
        error = (made(guess) - seen[of]).square().flatten(1).sum(dim=1)
        return 50 * error + prior.loss(z[:, None], guess)

    return loss, start


def stacked(loss: Loss, start: Tensor, steps: int) -> Tensor:
    """Ours: all fits at once."""
    return minimise(loss, start, steps)[0]


def one_by_one(loss: Loss, start: Tensor, steps: int) -> Tensor:
    """Ours, fit after fit."""
    return torch.cat(
        [
            minimise(lambda z, k=k: loss(z, slice(k, k + 1)), start[k : k + 1], steps)[0]
            for k in range(len(start))
        ]
    )


def torch_loop(loss: Loss, start: Tensor, steps: int) -> Tensor:
    """torch.optim.LBFGS with its strong Wolfe line search, fit after fit."""
    found = []
    for k in range(len(start)):
        z = start[k : k + 1].clone().requires_grad_()
        optimiser = torch.optim.LBFGS(
            [z], max_iter=steps, max_eval=steps, history_size=MEMORY, line_search_fn="strong_wolfe"
        )

        def closure(z: Tensor = z, k: int = k, optimiser: torch.optim.LBFGS = optimiser) -> Tensor:
            optimiser.zero_grad()
            value = loss(z, slice(k, k + 1)).sum()
            value.backward()
            return value

        optimiser.step(closure)
        found.append(z.detach())
    return torch.cat(found)


def scipy_loop(loss: Loss, start: Tensor, steps: int) -> Tensor:
    """scipy.optimize's L-BFGS-B, fit after fit."""
    found = []
    for k in range(len(start)):

        def value(x: np.ndarray, k: int = k) -> tuple[float, np.ndarray]:
            z = torch.from_numpy(x).to(start)[None].requires_grad_()
            at = loss(z, slice(k, k + 1)).sum()
            (slope,) = torch.autograd.grad(at, z)
            return float(at.detach()), slope[0].double().cpu().numpy()

        options = {"maxcor": MEMORY, "maxfun": steps, "maxiter": steps}
        first = start[k].double().cpu().numpy()
        result = minimize(value, first, jac=True, method="L-BFGS-B", options=options)
        found.append(torch.from_numpy(result.x).to(start)[None])
    return torch.cat(found)


METHODS = {
    "ours, stacked": stacked,
    "ours, one by one": one_by_one,
    "torch.optim.LBFGS, loop": torch_loop,
    "scipy L-BFGS-B, loop": scipy_loop,
}


def main() -> None:
    """Print one table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--stacks", type=int, default=24)
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--width", type=int, default=8)
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    options.add_argument("--device", default="cpu")
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    device = torch.device(given.device)
    loss, start = problem(given.stacks, given.width, device)
    print(
        f"{device.type}, {given.threads} threads; Python {platform.python_version()}, torch "
        f"{torch.__version__}; {given.stacks} fits of {given.steps} evaluations, width {given.width}"
    )
    best, ends = dict.fromkeys(METHODS, float("inf")), {}
    for _ in range(given.repeats):
        for name, method in METHODS.items():
            begin = time.perf_counter()
            found = method(loss, start, given.steps)
            ends[name] = float(loss(found).detach().mean())  # waits for a GPU, too
            best[name] = min(best[name], time.perf_counter() - begin)
    print(f"  {'':26}{'fits/s':>9}{'mean loss':>11}{'stacked is faster by':>22}")
    for name, spent in best.items():
        ratio = spent / best["ours, stacked"]
        print(f"  {name:26}{given.stacks / spent:9.1f}{ends[name]:11.3g}{ratio:20.1f}x")


if __name__ == "__main__":
    main()
