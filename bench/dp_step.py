"""Samples per second of one private training step on the paper's CNN: ours beside its peers.

    python bench/dp_step.py [--batches 70 512] [--threads N] [--seconds 4]

Measured in one process, method after method in turn so that a busy machine troubles all alike; the
best of the repetitions counts. A step is: forward, backward, clipping to C = 1, Gaussian noise, SGD
with momentum; the non-private step leaves out clipping and noise and is the limit. Every method is
tried with the network's weights channels-last and plain. Before anything is timed, the clipped sum
of each is compared with a loop over records; one that is wrong is named and left out.

Opacus is not a dependency of the workbook: `pip install opacus` beside it to have it in the table.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from importlib import metadata, util

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from repro.federated.clipping import clipped_gradient_sum
from repro.federated.server import Momentum
from repro.models import build

CLIP, SIGMA, RATE, MOMENTUM = 1.0, 2.38, 1e-5, 0.9
LAYOUTS = {"channels-last": torch.channels_last, "plain": torch.contiguous_format}

Step = Callable[[Tensor, Tensor], None]
Sum = Callable[[], Tensor]


def network(layout: str) -> nn.Module:
    """The CNN of random_participation, appendix B, with weights in the given layout."""
    return build("emnist_cnn", classes=62, seed=0).to(memory_format=LAYOUTS[layout])


def flat(tensors: list[Tensor]) -> Tensor:
    """One vector, to compare methods."""
    return torch.cat([t.detach().reshape(-1) for t in tensors])


# Each maker returns the step, and a function that gives its clipped sum before noise.


def non_private(layout: str, device: torch.device) -> tuple[Step, Sum | None]:
    model = network(layout).to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)

    def step(x: Tensor, y: Tensor) -> None:
        optimiser.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimiser.step()

    return step, None


def ours(layout: str, device: torch.device) -> tuple[Step, Sum | None]:
    model = network(layout).to(device)
    weights = Momentum(model, RATE, MOMENTUM)
    generator = torch.Generator(device=device).manual_seed(0)
    last: list[Tensor] = []

    def step(x: Tensor, y: Tensor) -> None:
        last[:] = clipped_gradient_sum(model, x, y, CLIP).gradient
        total = weights.flatten(last)
        noise = torch.randn(total.shape, generator=generator, device=device).mul_(SIGMA)
        weights.step((total + noise).mul_(1.0 / len(x)))

    return step, lambda: flat(last)


def vmap_grad(layout: str, device: torch.device) -> tuple[Step, Sum | None]:
    model = network(layout).to(device)
    values = dict(model.named_parameters())
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    last: list[Tensor] = []

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(functional_call(model, parameters, (x[None],)), y[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))

    def step(x: Tensor, y: Tensor) -> None:
        rows = each({name: p.detach() for name, p in values.items()}, x, y)
        norms = torch.stack([r.flatten(1).norm(dim=1) for r in rows.values()]).norm(dim=0)
        scale = 1.0 / torch.clamp(norms / CLIP, min=1.0)
        last[:] = [(scale @ r.flatten(1)).view(r.shape[1:]) for r in rows.values()]
        for p, total in zip(values.values(), last, strict=True):
            p.grad = (total + SIGMA * torch.randn_like(total)) / len(x)
        optimiser.step()

    return step, lambda: flat(last)


def opacus(mode: str) -> Callable[[str, torch.device], tuple[Step, Sum | None]]:
    def make(layout: str, device: torch.device) -> tuple[Step, Sum | None]:
        from opacus import optimizers
        from opacus.grad_sample import (
            GradSampleModule,
            GradSampleModuleExpandedWeights,
            GradSampleModuleFastGradientClipping,
        )
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

        plain = network(layout).to(device)
        common = {
            "noise_multiplier": SIGMA / CLIP,
            "max_grad_norm": CLIP,
            "expected_batch_size": None,
        }
        if mode == "ghost":
            model = GradSampleModuleFastGradientClipping(
                plain, max_grad_norm=CLIP, use_ghost_clipping=True, loss_reduction="sum"
            )
            kind = optimizers.DPOptimizerFastGradientClipping
        else:
            wrap = GradSampleModule if mode == "hooks" else GradSampleModuleExpandedWeights
            model = wrap(plain, loss_reduction="sum")
            kind = optimizers.DPOptimizer
        optimiser = kind(
            torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM),
            loss_reduction="sum",
            **common,
        )
        criterion: Callable = nn.CrossEntropyLoss(reduction="sum")
        if mode == "ghost":
            criterion = DPLossFastGradientClipping(model, optimiser, criterion, "sum")

        def step(x: Tensor, y: Tensor) -> None:
            optimiser.zero_grad()
            criterion(model(x), y).backward()
            optimiser.step()

        return step, lambda: flat([p.summed_grad for p in model.parameters()])

    return make


METHODS: dict[str, tuple[Callable[[str, torch.device], tuple[Step, Sum | None]], str]] = {
    "non-private (the limit)": (non_private, ""),
    "ours": (ours, ""),
    "Opacus, ghost": (opacus("ghost"), "opacus"),
    "Opacus, hooks": (opacus("hooks"), "opacus"),
    "Opacus, expanded weights": (opacus("ew"), "opacus"),
    "vmap(grad)": (vmap_grad, ""),
}


def exact(x: Tensor, y: Tensor) -> Tensor:
    """The sum of clipped gradients by a loop over records, in double precision."""
    model = network("plain").double()
    total = 0.0
    for k in range(len(x)):
        loss = functional.cross_entropy(model(x[k : k + 1].double()), y[k : k + 1])
        gradient = flat(list(torch.autograd.grad(loss, list(model.parameters()))))
        total = total + gradient / max(1.0, float(gradient.norm()) / CLIP)
    return total


def prepare(x: Tensor, y: Tensor) -> dict[tuple[str, str], Step]:
    """The steps that work and compute the right sum on the first records; says which do not."""
    few, truth = x[:16], exact(x[:16].cpu(), y[:16].cpu())
    steps: dict[tuple[str, str], Step] = {}
    for name, (make, needs) in METHODS.items():
        if needs and not util.find_spec(needs):
            continue
        for layout in LAYOUTS:
            try:
                step, clipped = make(layout, x.device)
                step(few, y[:16])
            except RuntimeError as problem:
                print(f"  left out: {name}, {layout}: {str(problem).splitlines()[0]}")
                continue
            error = (
                0.0 if clipped is None else float((clipped().cpu() - truth).norm() / truth.norm())
            )
            if error > 1e-3:
                print(f"  left out: {name}, {layout}: its clipped sum is wrong by {error:.0%}")
                continue
            steps[name, layout] = step
    return steps


def measure(batch: int, seconds: float, device: torch.device) -> dict[tuple[str, str], float]:
    """Samples per second of each (method, layout)."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn((batch, 1, 28, 28), generator=generator).to(device)
    y = torch.randint(0, 62, (batch,), generator=generator).to(device)
    steps = prepare(x, y)
    best = dict.fromkeys(steps, float("inf"))
    end, rounds = time.perf_counter() + seconds * len(steps), 0
    while rounds < 5 or time.perf_counter() < end:
        rounds += 1
        for key, step in steps.items():
            _wait(device)
            start = time.perf_counter()
            step(x, y)
            _wait(device)
            best[key] = min(best[key], time.perf_counter() - start)
    return {key: batch / spent for key, spent in best.items()}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    """Print one table per batch size."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--batches", type=int, nargs="+", default=[70, 512])
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    options.add_argument(
        "--seconds", type=float, default=4.0, help="per method, layout and batch size"
    )
    options.add_argument("--device", default="cpu")
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    warnings.filterwarnings("ignore", category=UserWarning)
    device = torch.device(given.device)
    machine = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"CPU, {given.threads} threads"
    )
    peer = (
        f"opacus {metadata.version('opacus')}"
        if util.find_spec("opacus")
        else "opacus is not installed: left out"
    )
    print(f"{machine}; Python {platform.python_version()}, torch {torch.__version__}, {peer}")
    for batch in given.batches:
        print(f"\nbatch of {batch}")
        rates = measure(batch, given.seconds, device)

        def fastest(start: str, rates: dict = rates) -> float:
            return max(
                (rate for (name, _), rate in rates.items() if name.startswith(start)), default=0.0
            )

        limit, mine = fastest("non-private"), fastest("ours")
        print(f"  {'':42}{'samples/s':>11}{'of the limit':>14}{'ours is faster by':>19}")
        for (name, layout), rate in rates.items():
            print(
                f"  {name + ', ' + layout:42}{rate:11,.0f}{rate / limit:14.2f}{mine / rate:18.2f}x"
            )
        if peer_best := fastest("Opacus"):
            verdict = "reached" if mine >= peer_best else "MISSED"
            ratio = mine / peer_best
            print(f"  aim, ours at least as fast as the best Opacus: {verdict} ({ratio:.2f}x)")


if __name__ == "__main__":
    main()
