"""Random calls of whole trainings, and of what goes with them: recipes as in `fault_recipes`, for tiny problems."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fault_values import JUNK, Call, picked, told
from torch import nn

from repro import federated
from repro.datasets.plane import plane
from repro.federated.client_data import ClientData
from repro.models.networks import drawn_from
from repro.models.residual import Architecture, ResidualNet
from repro.models.split import resnet18

RATE = [0.0, 0.3, 1.0]
STEP = [1e-3, 0.3, 1e30]
CPU = torch.device("cpu")


def _run(train: Callable[[], Any]) -> Any:
    """What a training returns; None where it says that it diverged."""
    try:
        with np.errstate(all="ignore"):  # a rate of 10^30 is the caller's
            return train()
    except ArithmeticError as problem:
        assert "diverged" in str(problem) or "not finite" in str(problem), f"{problem}"
        return None


def mspafl_runs(rng: random.Random) -> Call:
    """`train_mspafl`: models of the right shape, finite at usual rates; without check-ins all zero."""
    given = picked(
        rng,
        p=RATE,
        public=[0, 2, 4, 9],
        learning_rate=STEP,
        clip=[0.1, 0.1, 1.0, math.inf],
        sigma=[0.0, 1.0],
        informative=[True, False],
    )
    local = picked(
        rng,
        steps=[1, 3],
        batch=[1, 1, 2, 9],
        replacement=[True, False],
        regularisation=[0.0, 0.1],
    )
    options = picked(
        rng,
        rounds=[1, 3],
        seeds=[*[[0, 7], [5, 5]] * 5, [1], [], [-1, 2], [2**70, 1]],
        watch_every=[1, 2],
    )
    held = rng.choice([2, 4, 4, 4, 4, 0])

    def call() -> None:
        records = np.random.default_rng(0).normal(size=(24, 4))
        places = np.arange(2 * 3 * held).reshape(2, 3, held)
        variant = federated.MspaflVariant(**given)
        training = federated.MspaflLocalTraining(**local)
        models = _run(
            lambda: federated.train_mspafl(
                records, places, [variant], training, watch=lambda step: None, **options
            )
        )
        assert models.shape == (2, 3, 1, 4), f"{models.shape}"
        assert given["learning_rate"] > 1 or np.all(np.isfinite(models)), "not finite"
        assert given["p"] > 0 or not models.any(), "trained without a check-in"

    return told("train_mspafl", {**given, **local, **options, "held": held}), call


def ddpsa_runs(rng: random.Random) -> Call:
    """`train_ddpsa`: models after every round, finite at usual rates, or uploads that cannot be encoded."""
    given = picked(
        rng,
        clients=[1, 2, 5, 5, 7],
        clip=[0.1, 1.0, 1.0, math.inf],
        epsilon=[1e-9, 0.5, math.inf],
        shared=[True, False],
        adam=[True, False],
        learning_rate=STEP,
        distributed=[True, False],
        divided=[True, False],
    )
    options = picked(rng, rounds=[1, 3], batches=[1, 1, 1, 2, 100], every=1 / 16)
    seeds = rng.choice([*[[3, 4], [0, 0]] * 6, [3], [], [-1, 0], [2**70, 1]])

    def call() -> None:
        training, start = plane([3, 4], 50)[0], np.zeros((2, 3))
        variants = [federated.DdpsaVariant(**given)]
        models = _run(
            lambda: federated.train_ddpsa(training, variants, seeds=seeds, start=start, **options)
        )
        assert models.shape == (options["rounds"] + 1, 2, 1, 3), f"{models.shape}"
        assert given["learning_rate"] > 1 or np.all(np.isfinite(models)), "not finite"

    return told("train_ddpsa", {**given, **options, "seeds": seeds}), call


def partitioning_runs(rng: random.Random) -> Call:
    """`train_partitioning` and its federated version: finite weights, or a named end."""
    given = picked(
        rng,
        clip=[0.1, 1.0, 1e6, math.inf],
        unsplit_clip=[0.1, 1.0, 1e6],
        sigma=[0.0, 0.01],
        learning_rate=STEP,
        momentum=[0.0, 0.9],
    )
    split = picked(
        rng,
        submodels=[1, 1, 2, 2, 3, 5],
        first=[0, 0, 1, 1, 9],
        last=[0, 1],
        shuffled=[True, False],
    )
    local = picked(rng, iterations=[1, 2], learning_rate=[0.1, 1e30])
    options = picked(rng, seed=[0, 7], memory=[1.0, 2.0**20], watch_every=[1, 2], every=1 / 16)
    each, records = rng.choice([0, 0, 3]), rng.choice([*[8] * 9, 7])

    def call() -> None:
        with drawn_from(1):
            net = ResidualNet(Architecture(((6, 4, 2),), (4, 1), False, 2, colours=1), classes=3)
        x, y = torch.rand(8, 1, 8, 8), torch.arange(8) % 3
        sampling = federated.PoissonIterations(records, 2, 0.5)
        splitting = federated.Splitting(**split)
        descent = federated.NoisyDescent(**given)
        common = {"watch": lambda step: None, **options}
        if each:
            x, y = (part.repeat_interleave(each, 0).unflatten(0, (-1, each)) for part in (x, y))
            own = federated.Local(**local)
            train = federated.train_partitioning_clients
            done = _run(
                lambda: train(net, x, y, sampling, splitting, own, descent, **common) or True
            )
        else:
            train = federated.train_partitioning
            done = _run(lambda: train(net, x, y, sampling, splitting, descent, **common) or True)
        finite = all(torch.isfinite(weight).all() for weight in net.parameters())
        assert finite or not done, "weights are not finite"

    told_of = {**given, **split, **local, **options, "each": each, "records": records}
    return told("train_partitioning", told_of), call


def pmsfl_runs(rng: random.Random) -> Call:
    """`PMSFL` and `train_pmsfl` on a few made-up pictures: finite weights and masks that are chances."""
    plan = picked(
        rng,
        rounds=[1, 2],
        participation=[0.0, 0.5, 1.0],
        iterations=[1, 2],
        batch=[1, 4],
        rate=[0.01, 1e30],
        mask_rate=[0.3, 1e30],
        floor=[0.0, 0.05, 0.2, 0.05, 0.5],
        gradient=[*["paper", "straight_through"] * 4, "no"],
        every=1 / 16,
    )
    own = picked(rng, agreement=[0, 1, 1, 1, 9], ratio=RATE)
    seed = rng.choice([*[0, 3] * 5, -1, "x"])

    def call() -> None:
        labels = np.arange(12) % 3
        inputs = np.random.default_rng(0).normal(size=(12, 1, 8, 8)).astype(np.float32)
        parts = np.arange(12).reshape(3, 4)
        data = ClientData(
            inputs, labels, 3, tuple(parts[:, 1:]), tuple(parts[:, :1]), "made", "generated", "0"
        )
        network = resnet18(classes=3, channels=1, width=2, layers=1)
        depths = np.full(3, 1)
        method = federated.PMSFL(
            data, network, depths, federated.PmsflPlan(**plan), seed, CPU, **own
        )
        if _run(lambda: federated.train_pmsfl(method) or True):
            assert np.all(np.isfinite(method.losses)), f"{method.losses}"

    return told("train_pmsfl", {**plan, **own, "seed": seed}), call


def watched(rng: random.Random) -> Call:
    """`Checkpoint` and `Evaluation` beside a training: a run that is resumed ends where a whole one ends."""
    rounds, every = rng.choice([*[1, 3, 5] * 8, *JUNK[:6]]), rng.choice([*[1, 2, 7] * 10, 0, *JUNK])
    name, seed = rng.choice(["run.pt", "run.pt", "", "no/such/folder/run.pt"]), rng.choice([0, 7])
    path = rng.choice([None, 3, b"x"]) if rng.random() < 0.1 else name

    def train(model: nn.Module, saved: Any, watch: Any, iterations: int) -> None:
        chosen = federated.RandomParticipationSettings(
            iterations=iterations, p=0.7, q=0.5, learning_rate=0.1, clip=1.0, sigma=0.1
        )
        x = torch.randn(10, 4, generator=torch.Generator().manual_seed(1))
        options = {"checkpoint": saved, "watch": watch}
        federated.train_random_participation(
            model, x, torch.arange(10) % 3, [5, 5], chosen, seed, **options
        )

    def network() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))

    class Stop(Exception):
        """The kill of a run."""

    def call() -> None:
        with tempfile.TemporaryDirectory() as folder:
            where = Path(folder) / path if isinstance(path, str) and path else path
            saved = federated.Checkpoint(where, every)
            model, other = network(), network()
            scores = federated.Evaluation(
                model, lambda m: {"bias": float(m[0].bias.sum())}, rounds, progress=False
            )

            def fatal(step: Any) -> None:
                if step.iteration >= 2:
                    raise Stop

            try:
                train(other, saved, fatal, rounds)
            except Stop:
                pass
            except OSError as problem:
                assert "folder" in str(problem) or "directory" in str(problem), f"{problem}"
                return
            train(model, None, scores, rounds)
            other = network()
            train(other, saved, None, rounds)
            for first, second in zip(model.parameters(), other.parameters(), strict=True):
                assert torch.equal(first, second), "a resumed run ends elsewhere"
            assert len(scores.history) == rounds, f"{scores.history}"

    return told("Checkpoint, Evaluation", {"rounds": rounds, "every": every, "path": path}), call


RECIPES = {
    one.__name__: one for one in (mspafl_runs, ddpsa_runs, partitioning_runs, pmsfl_runs, watched)
}
"""Every recipe of this file by its name."""
