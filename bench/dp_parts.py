"""Where the time of a private step of the CNN goes, beside the non-private one.

    python bench/dp_parts.py [--batches 70 512] [--rounds 40]

One thread, seconds of the processor, the least of all rounds; every part is timed in every round, so that
a busy machine troubles all alike. Parts are timed by themselves and need not add up to the whole step.

The bounds at the end are shares of the non-private step that a step can reach which clips each record's gradient
and draws this noise: first where the records' gradients cost no more than their sum; then where they cost
what PyTorch's products need with operands that lie in the cache; then with a copy of the patches, which a
convolution of the whole batch does not need: it reads the images in place.

On a busy EPYC with 1 MiB of cache a core, the step reached 0.68 to 0.73 at 70 records and 0.72 to 0.73 at
512. The bounds were 0.89, 0.88 and 0.81 at 70, and 0.98, 0.93 and 0.83 at 512. The rest is what is written of
the records' gradients and read again (33 kB a record for the second kernel), checks, and the vector of all
parameters. A step at 0.8 would have nothing but that copy on top: it needs kernels that read the images in
place, which PyTorch has not for gradients record by record (a convolution with a group for each record is 2 to 6
times slower than patches and products).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from dp_step import SIGMA, non_private, ours
from dp_tasks import Task, records
from torch import Tensor

from repro.federated.clipping import cross_entropy
from repro.federated.server import gaussian
from repro.federated.shares import CACHED, HELD, _patches, shares_of
from repro.federated.taps import Tap, recording, trainable_layers

Timer = Callable[[str], AbstractContextManager[None]]


def timer() -> tuple[Timer, dict[str, float]]:
    """A context that keeps the least seconds of the processor under a name, and what it kept."""
    least: dict[str, float] = {}

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        least[name] = min(least.get(name, float("inf")), time.process_time() - start)

    return timed, least


def convolution(name: str, tap: Tap, back: Tensor, timed: Timer) -> None:
    """The two parts of a convolution's gradients: copies of patches, and products that find them in the cache."""
    before, arrived = tap.before.detach(), back.movedim(1, -1).flatten(1, -2)
    piece = max(1, CACHED // (arrived.shape[1] * tap.weight[0].numel()))
    parts = [slice(start, start + piece) for start in range(0, len(back), piece)]
    with timed(f"{name}: patches"):
        for part in parts:
            rows = _patches(tap.layer, before[part], back.shape[2:])
    rows = _patches(tap.layer, before[:piece], back.shape[2:])
    out = rows.new_empty(len(rows), arrived.shape[2], rows.shape[2])
    with timed(f"{name}: products"):
        for part in parts:
            now = arrived[part].transpose(1, 2)
            torch.bmm(now, rows[: len(now)], out=out[: len(now)])


def measure(batch: int, rounds: int) -> dict[str, float]:
    """Seconds of each part."""
    task = Task("cnn", "channels-last")
    x, y = records("cnn", batch, torch.device("cpu"))
    model, (public, _), (private, _) = (
        task.network(),
        non_private(task, x.device),
        ours(task, x.device),
    )
    parameters, layers = list(model.parameters()), trainable_layers(model)
    like, generator = torch.cat([p.detach().flatten() for p in parameters]), torch.Generator()
    weights = torch.linspace(0.1, 1.0, batch)
    timed, least = timer()
    for _ in range(rounds):
        with timed("non-private step"):
            public(x, y)
        with timed("private step"):
            private(x, y)
        with timed("non-private: forward"):
            total = cross_entropy(model(x), y).sum()
        with timed("non-private: backward"):
            torch.autograd.grad(total, parameters)
        with recording(layers) as tape, timed("private: forward"):
            total = cross_entropy(model(x), y).sum()
        taps = [tap for found in tape.values() for tap in found]
        with timed("private: backward to outputs"):
            arrived = torch.autograd.grad(total, [tap.after for tap in taps])
        with timed("noise"):
            gaussian(like, SIGMA, generator)
        with torch.no_grad():
            for name, tap, back in zip(layers, taps, arrived, strict=True):
                with timed(f"{name}: gradients and norms"):
                    found = list(shares_of(tap, back, HELD))
                with timed(f"{name}: sum"):
                    for share in found:
                        share.weighted_sum(weights)
                if back.ndim == 4:
                    convolution(name, tap, back, timed)
    return least


def table(batch: int, least: dict[str, float]) -> None:
    """Milliseconds of the parts, and the bounds."""
    step = least["non-private step"]
    summed = least["non-private: backward"] - least["private: backward to outputs"]
    products = sum(v for k, v in least.items() if k.endswith(": products"))
    patches = sum(v for k, v in least.items() if k.endswith(": patches"))
    of_convolutions = {k.partition(":")[0] for k in least if k.endswith(": patches")}
    matrices = sum(
        v
        for k, v in least.items()
        if k.endswith(": sum") and k.partition(":")[0] not in of_convolutions
    )  # one product of two tall matrices each, as without privacy
    each = sum(v for k, v in least.items() if k.endswith((": gradients and norms", ": sum")))
    print(f"\nbatch of {batch}: milliseconds {'non-private':>22}{'private':>10}")
    rows = [
        ("forward", least["non-private: forward"], least["private: forward"]),
        ("backward to the layers' outputs", *2 * (least["private: backward to outputs"],)),
        ("gradients of the parameters", summed, each),
    ]
    for name, public, private in rows:
        print(f"  {name:40}{public * 1e3:8.2f}{private * 1e3:10.2f}")
    for name in sorted(k for k in least if k[0].isdigit()):
        print(f"    layer {name:40}{least[name] * 1e3:10.2f}")
    print(f"  {'noise':40}{'':8}{least['noise'] * 1e3:10.2f}")
    print(f"  {'the whole step':40}{step * 1e3:8.2f}{least['private step'] * 1e3:10.2f}")
    bounds = {
        "reached": least["private step"],
        "bound, gradients as cheap as their sum": step + least["noise"],
        "bound, products record by record": step - summed + matrices + products + least["noise"],
    }
    bounds["bound, and a copy of the patches"] = (
        bounds["bound, products record by record"] + patches
    )
    for name, spent in bounds.items():
        print(f"  {name:40}{step / spent:8.2f} of the non-private step")


def main() -> None:
    """Print one table per batch size."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--batches", type=int, nargs="+", default=[70, 512])
    options.add_argument("--rounds", type=int, default=40)
    given = options.parse_args()
    torch.set_num_threads(1)
    for batch in given.batches:
        table(batch, measure(batch, max(1, given.rounds * 70 // batch)))


if __name__ == "__main__":
    main()
