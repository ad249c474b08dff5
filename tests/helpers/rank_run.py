"""One rank of the runs in tests/federated/test_ranks.py: python rank_run.py FOLDER WHAT DEVICE.

DEVICE is "cpu" (gloo) or "cuda" (nccl). WHAT is "agree", "agree-few", "agree-rest" or "agree-all", "lose" or
"lose-masks" (a rank, before it is done), or "resume" (after both, and all that agrees).
Rank k writes what it found to FOLDER/WHAT-<ranks>-<k>.pt.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

import federations
from repro.federated import (
    PMSFL,
    Checkpoint,
    Local,
    LostRankError,
    NoisyDescent,
    PoissonIterations,
    RandomParticipationSettings,
    Ranks,
    Splitting,
    cross_entropy,
    launched,
    train_partitioning,
    train_partitioning_clients,
    train_pmsfl,
    train_random_participation,
)
from repro.models import build
from repro.models.networks import drawn_from
from repro.models.residual import Architecture, ResidualNet
from repro.models.split import resnet18, transformer

SIZES = [30, 0, 17, 41, 5, 1, 26]
STEPS = 100
EVERY = 10
"""Iterations between two checkpoints."""
LOST_AFTER = 34
"""Iterations after which rank 1 is killed."""
LOST_AFTER_ROUND = 7
"""The same in rounds of PM-SFL."""
MASKS = "pm-sfl, depths"
"""Of `RUNS`, what "lose-masks" does."""
PATIENCE = {"cpu": 300.0, "cuda": 60.0}
"""Seconds that a rank waits in an exchange. Over gloo it learns at once that another is gone, over nccl after these."""


Found = tuple[torch.Tensor, list[dict]]
"""Weights at the end, and the steps that were watched."""


def run(ranks: Ranks, iterations: int, dtype: torch.dtype, **options) -> Found:
    """Random participation; some batches are empty or smaller than the ranks are many."""
    seed = options.pop("seed", 7)
    model = build("digits_cnn", classes=10, seed=1).to(ranks.device, dtype)
    x, y = records(ranks, dtype, sum(SIZES))
    settings = RandomParticipationSettings(
        iterations=iterations, p=0.6, q=0.2, learning_rate=0.3, clip=0.5, sigma=0.2
    )
    steps: list = []
    options |= {"watch": steps.append, "watch_every": 7}
    train_random_participation(model, x, y, SIZES, settings, seed, ranks=ranks, **options)
    return flat(model), [vars(step) for step in steps]


def run_partitioning(ranks: Ranks, iterations: int, dtype: torch.dtype, *, each: int) -> Found:
    """Partitioning: central (`each` = 1), or federated with so many samples a client.

    Clients that train cost more, so fewer are drawn: some ranks have none in an iteration.
    """
    count, memory = (40, 2.0**20) if each == 1 else (24, 2.0**21)
    with drawn_from(1):
        net = ResidualNet(Architecture(((6, 4, 2),), (4, 1), False, 2, colours=1), classes=10)
    net.pixels = nn.Identity()  # it makes float32 of everything
    net = net.to(ranks.device, dtype)
    x, y = records(ranks, dtype, count * each)
    sampling, splitting = PoissonIterations(count, iterations, 0.1), Splitting(2, 1, 1)
    descent = NoisyDescent(0.5, 0.4, 0.01, 0.3, 0.9)
    steps: list = []
    options = {"watch": steps.append, "watch_every": 7, "memory": memory, "ranks": ranks}
    if each == 1:
        train_partitioning(net, x, y, sampling, splitting, descent, 7, **options)
    else:
        x, y = (part.unflatten(0, (-1, each)) for part in (x, y))
        local = Local(2, 0.1)
        train_partitioning_clients(net, x, y, sampling, splitting, local, descent, 7, **options)
    return flat(net), [vars(step) for step in steps]


def run_pmsfl(
    ranks: Ranks,
    iterations: int,
    dtype: torch.dtype,
    *,
    depths: list[int],
    frames: bool = False,
    dies_after: int | None = None,
    checkpoint: Checkpoint | None = None,
) -> Found:
    """PM-SFL with six of eight clients a round, in rounds of at most five steps.

    After a single step, in two rows: the weights, and the gradients that Adam moved them by (1 where it did not).
    """
    data = federations.data(8, 12, 10, shape=(8, 8) if frames else (1, 8, 8))
    data = replace(data, inputs=torch.from_numpy(data.inputs).to(dtype).numpy())
    if frames:
        network = transformer(classes=10, features=8, width=8)
    else:
        network = resnet18(classes=10, channels=1, width=2, layers=1)
    each = min(5, iterations)
    plan = federations.plan(rounds=iterations // each, participation=0.75, iterations=each)
    network, own = network.to(dtype), {"agreement": 1, "ratio": 0.5}
    method = PMSFL(data, network, np.array(depths), plan, 7, ranks.device, **own)
    if dies_after is not None:
        method.round = fatal(method.round, dies_after)
    steps: list = []

    def note(number: int, method: PMSFL) -> None:
        sent = {
            f"{way} {k}": n for way, kinds in vars(method.traffic).items() for k, n in kinds.items()
        }
        steps.append({"round": number, "loss": method.losses[-1], **sent})

    gradients: list = []
    hook = register_optimizer_step_pre_hook(
        lambda optimiser, *_: gradients.extend(
            p.grad.clone() for group in optimiser.param_groups for p in group["params"]
        )
    )
    train_pmsfl(method, watch=note, watch_every=7, checkpoint=checkpoint, ranks=ranks)
    hook.remove()
    kept = [method.shared, method.own, *method.network.head.parameters(), method.server.values]
    if iterations > 1:
        return vector(kept), steps
    *head, server, clients = gradients
    of_own = torch.ones_like(method.own)
    of_own[method.begin(0)[0].clients] = ranks.sum(clients.flatten()).view_as(clients)
    mixed = server[: len(method.shared)]  # (8), where the server has masks
    of_shared = (
        torch.where(mixed != 0, mixed, 1.0) if method.server_masks() else torch.ones_like(mixed)
    )
    moved = [of_shared, of_own, *head, server]
    return torch.stack([vector(kept), vector(moved)]), steps


RUNS: dict[str, Callable[..., Found]] = {
    "random participation": run,
    "partitioning": partial(run_partitioning, each=1),
    "partitioning, clients": partial(run_partitioning, each=2),
    "pm-sfl": partial(run_pmsfl, depths=[2] * 8),
    MASKS: partial(run_pmsfl, depths=[1, 2, 3, 1, 2, 3, 1, 4]),
    "pm-sfl, frames": partial(run_pmsfl, depths=[1, 2, 3, 1, 2, 3, 1, 2], frames=True),
}
"""What several ranks have to agree on with one."""
QUICK = ("random participation", "partitioning", "partitioning, clients", MASKS)
FEW = tuple(name for name in QUICK if name != "partitioning, clients")
REST = tuple(name for name in RUNS if name not in QUICK)
"""What "agree", "agree-few" and "agree-rest" do."""


def both(run: Callable[..., Found], ranks: Ranks) -> tuple[Found, Found]:
    """One step in float32, 100 in float64."""
    return run(ranks, 1, torch.float32), run(ranks, STEPS, torch.float64)


def records(ranks: Ranks, dtype: torch.dtype, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Made-up images and labels."""
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(count, 1, 8, 8, generator=generator).to(ranks.device, dtype)
    return x, torch.randint(10, (count,), generator=generator).to(ranks.device)


def flat(model: nn.Module) -> torch.Tensor:
    """All weights."""
    return vector(list(model.parameters()))


def vector(tensors: list[torch.Tensor]) -> torch.Tensor:
    """All of them as one."""
    return torch.cat([t.detach().flatten() for t in tensors]).cpu()


def fatal(function, calls: int):
    """A function that ends its process with a signal in a later call."""
    count = 0

    @wraps(function)
    def wrapped(*args):
        nonlocal count
        count += 1
        if count > calls:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args)

    return wrapped


def main(folder: Path, what: str, device: str) -> None:
    """Do `what`, see above."""
    with launched(device=device, patience=PATIENCE[device]) as ranks:
        found: dict[str, object] = {}
        dies = what.startswith("lose") and ranks.rank == 1
        if not what.startswith("lose"):
            names = {"agree": QUICK, "agree-few": FEW, "agree-rest": REST}.get(what, RUNS)
            found |= {name: both(RUNS[name], ranks) for name in names}
            try:
                run(ranks, 1, torch.float64, seed=ranks.rank)
            except ValueError as problem:
                found["other seeds"] = str(problem)
        if what in ("lose", "resume"):
            options = {"loss": fatal(cross_entropy, LOST_AFTER)} if dies else {}
            saved = Checkpoint(folder / "run.pt", every=EVERY)
            found["saved"] = run(ranks, STEPS, torch.float64, checkpoint=saved, **options)
        if what in ("lose-masks", "resume"):
            saved = Checkpoint(folder / "masks.pt", every=2)
            options = {"dies_after": LOST_AFTER_ROUND if dies else None, "checkpoint": saved}
            found["saved masks"] = RUNS[MASKS](ranks, STEPS, torch.float64, **options)
        torch.save(found, folder / f"{what}-{ranks.count}-{ranks.rank}.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    try:
        main(Path(sys.argv[1]), *sys.argv[2:])
    except LostRankError as problem:
        sys.exit(str(problem))
