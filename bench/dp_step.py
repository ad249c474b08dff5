"""Samples per second of one private training step: ours beside its peers.

    python bench/dp_step.py [--networks cnn transformer layers] [--batches 70 512] [--threads N] [--seconds 4]

What is trained stands in `dp_tasks.py`: the CNN of random_participation, a small transformer, and each
kind of layer by itself, at the first of the batch sizes. The transformer's table of words decides there:
a method that holds it for every record pays for its size, and with 2,000 words in the place of 10,000
Opacus' expanded weights come within a factor 1.2 to 1.4 of ours. `dp_parts.py` says what keeps the
private step of the CNN below the non-private one.

Measured in one process, method after method in turn so that a busy machine troubles all alike; the
best of the repetitions counts, in seconds of the processor where one thread does all. A step is:
forward, backward, clipping to C = 1, Gaussian noise, SGD with momentum; the non-private step leaves out
clipping and noise and is the limit. A layer by itself gets no noise, which is no matter of its kind and
costs every method the same. Every method is tried with the weights of two-dimensional convolutions
channels-last and plain. Before anything is timed, the clipped sum of each is compared with a loop over
records; one that is wrong is named and left out.

Opacus is not a dependency of the workbook: `pip install opacus` beside it to have it in the table.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable, Iterable
from importlib import metadata, util
from itertools import product

import torch
from dp_tasks import LAYERS, Task, layouts, records
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from repro.federated.clipping import clipped_gradient_sum
from repro.federated.server import Momentum, gaussian

CLIP, SIGMA, RATE, MOMENTUM = 1.0, 2.38, 1e-5, 0.9

Step = Callable[[Tensor, Tensor], None]
Sum = Callable[[], Tensor]
Rates = dict[tuple[str, str], float]
"""Samples per second of each (method, layout)."""


def sigma(task: Task) -> float:
    """Standard deviation of the noise."""
    return 0.0 if task.name in LAYERS else SIGMA


def flat(tensors: list[Tensor]) -> Tensor:
    """One vector, to compare methods."""
    return torch.cat([t.detach().reshape(-1) for t in tensors])


# Each maker returns the step, and a function that gives its clipped sum before noise.


def non_private(task: Task, device: torch.device) -> tuple[Step, Sum | None]:
    model = task.network().to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)

    def step(x: Tensor, y: Tensor) -> None:
        optimiser.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimiser.step()

    return step, None


def ours(task: Task, device: torch.device) -> tuple[Step, Sum | None]:
    model = task.network().to(device)
    weights = Momentum(model, RATE, MOMENTUM)
    generator = torch.Generator(device=device).manual_seed(0)
    last: list[Tensor] = []

    def step(x: Tensor, y: Tensor) -> None:
        last[:] = clipped_gradient_sum(model, x, y, CLIP).gradient
        total = weights.flatten(last)
        noise = gaussian(total, sigma(task), generator)
        weights.step((total if noise is None else noise.add_(total)).mul_(1.0 / len(x)))

    return step, lambda: flat(last)


def vmap_grad(task: Task, device: torch.device) -> tuple[Step, Sum | None]:
    model = task.network().to(device)
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
            p.grad = (total + sigma(task) * torch.randn_like(total)) / len(x)
        optimiser.step()

    return step, lambda: flat(last)


def opacus(mode: str) -> Callable[[Task, torch.device], tuple[Step, Sum | None]]:
    def make(task: Task, device: torch.device) -> tuple[Step, Sum | None]:
        from opacus import optimizers
        from opacus.grad_sample import (
            GradSampleModule,
            GradSampleModuleExpandedWeights,
            GradSampleModuleFastGradientClipping,
        )
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

        plain = task.network().to(device)
        common = {
            "noise_multiplier": sigma(task) / CLIP,
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


METHODS: dict[str, tuple[Callable[[Task, torch.device], tuple[Step, Sum | None]], str]] = {
    "non-private (the limit)": (non_private, ""),
    "ours": (ours, ""),
    "Opacus, ghost": (opacus("ghost"), "opacus"),
    "Opacus, hooks": (opacus("hooks"), "opacus"),
    "Opacus, expanded weights": (opacus("ew"), "opacus"),
    "vmap(grad)": (vmap_grad, ""),
}


def exact(task: Task, x: Tensor, y: Tensor) -> Tensor:
    """The sum of clipped gradients by a loop over records, in double precision."""
    model = task.network().double()
    total = 0.0
    for k in range(len(x)):
        row = x[k : k + 1].double() if x.is_floating_point() else x[k : k + 1]
        loss = functional.cross_entropy(model(row), y[k : k + 1])
        gradient = flat(list(torch.autograd.grad(loss, list(model.parameters()))))
        total = total + gradient / max(1.0, float(gradient.norm()) / CLIP)
    return total


def prepare(name: str, methods: Iterable[str], x: Tensor, y: Tensor) -> dict[tuple[str, str], Step]:
    """The steps that work and compute the right sum on the first records; says which do not."""
    steps: dict[tuple[str, str], Step] = {}
    for method, layout in product(methods, layouts(name)):
        make, needs = METHODS[method]
        if needs and not util.find_spec(needs):
            continue
        task = Task(name, layout, for_opacus=bool(needs))
        try:
            step, clipped = make(task, x.device)
            step(x[:16], y[:16])
        except (RuntimeError, NotImplementedError) as problem:
            print(f"  left out: {name}, {method}, {layout}: {str(problem).splitlines()[0]}")
            continue
        if clipped is not None:
            truth = exact(task, x[:16].cpu(), y[:16].cpu())
            error = float((clipped().cpu() - truth).norm() / truth.norm())
            if not error < 1e-3:
                print(f"  left out: {name}, {method}, {layout}: its sum is wrong by {error:.0%}")
                continue
        steps[method, layout] = step
    return steps


def measure(
    name: str, methods: Iterable[str], batch: int, seconds: float, device: torch.device
) -> Rates:
    """Samples per second of each (method, layout) that computes the right sum."""
    x, y = records(name, batch, device)
    steps = prepare(name, methods, x, y)
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    clock = time.process_time if alone else time.perf_counter
    best = dict.fromkeys(steps, float("inf"))
    end, rounds = clock() + seconds * len(steps), 0
    while rounds < 5 or clock() < end:
        rounds += 1
        for key, step in steps.items():
            _wait(device)
            start = clock()
            step(x, y)
            _wait(device)
            best[key] = min(best[key], clock() - start)
    return {key: batch / spent for key, spent in best.items()}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def fastest(rates: Rates, start: str) -> tuple[float, str]:
    """The best rate among the methods whose names begin so, and the method; 0 where there is none."""
    return max(
        ((r, method) for (method, _), r in rates.items() if method.startswith(start)),
        default=(0.0, ""),
    )


def network_table(name: str, batch: int, seconds: float, device: torch.device) -> None:
    """Every method on a whole network."""
    print(f"\n{name}, batch of {batch}")
    rates = measure(name, METHODS, batch, seconds, device)
    (limit, _), (mine, _) = fastest(rates, "non-private"), fastest(rates, "ours")
    print(f"  {'':42}{'samples/s':>11}{'of the limit':>14}{'ours is faster by':>19}")
    for (method, layout), rate in rates.items():
        print(f"  {method + ', ' + layout:42}{rate:11,.0f}{rate / limit:14.2f}{mine / rate:18.2f}x")
    if peer := fastest(rates, "Opacus")[0]:
        verdict = "reached" if mine >= 1.5 * peer else "MISSED"
        print(
            f"  aim, ours at least 1.5 times as fast as the best Opacus: {verdict} ({mine / peer:.2f}x)"
        )


def layer_table(batch: int, seconds: float, device: torch.device) -> None:
    """One row for each kind of layer by itself, every method in its best layout."""
    print(f"\nlayers by themselves, batch of {batch}, samples per second")
    print(
        f"  {'':25}{'non-private':>12}{'ours':>11}{'of the limit':>14}{'best Opacus':>13}{'ours by':>9}"
    )
    for name in LAYERS:
        rates = measure(name, [m for m in METHODS if m != "vmap(grad)"], batch, seconds, device)
        limit, mine = fastest(rates, "non-private")[0], fastest(rates, "ours")[0]
        peer, mode = fastest(rates, "Opacus")
        beside = f"{peer:13,.0f}{mine / peer:8.2f}x  {mode}" if peer else f"{'-':>13}{'-':>9}"
        print(f"  {name:25}{limit:12,.0f}{mine:11,.0f}{mine / limit:14.2f}{beside}", flush=True)


def main() -> None:
    """Print a table per network and batch size, and one of the layers."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    whole = ["cnn", "transformer", "layers"]
    options.add_argument("--networks", nargs="+", choices=whole, default=whole)
    options.add_argument("--batches", type=int, nargs="+", default=[70, 512])
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    options.add_argument(
        "--seconds",
        type=float,
        default=4.0,
        help="per method, layout and batch size; a quarter of it for a layer by itself",
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
    for name in given.networks:
        if name == "layers":
            layer_table(given.batches[0], given.seconds / 4, device)
            continue
        for batch in given.batches:
            network_table(name, batch, given.seconds, device)


if __name__ == "__main__":
    main()
