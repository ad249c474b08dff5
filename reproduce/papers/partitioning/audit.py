"""Audit of Algorithm 1 as it runs: many short trainings, stacked in the coordinates of one model.

A stack is one call of `repro.federated.partitioning.algorithms.train_on_submodels`. Its network has one weight
in each submodel for each of its trainings, and a record moves, in the submodel that it meets, the weight of
its own training. Batches, submodels, clipping and noise are drawn for each record and coordinate
independently, so the trainings of a stack are independent, and each has the law of a training by itself; the
mean batch is a public constant. The attacker sees the model before every iteration and after the last.

With the canary a training has one record, whose gradient has the norm of the clip; without it, none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import comb
from torch import Tensor, nn

from repro._validate import choice, integer
from repro.federated.participation import BalancedIterations, PoissonIterations
from repro.federated.partitioning.algorithms import (
    NoisyDescent,
    Splitting,
    Step,
    train_on_submodels,
)
from reproduce.papers.auditing import stacked_trainings
from reproduce.papers.one_run import coins, summary
from reproduce.papers.training_input import check_keys

_STEEP = 1e3
"""Slope of the logit in a weight: a gradient stays longer than c = 1 while weights stay near zero."""

_SMALL = 1e-6
"""Learning rate on the undivided sum."""

_KEYS = {
    "sampling", "rate", "participations", "submodels", "sigma", "iterations", "trainings", "stacked",
}  # fmt: skip


class _Block(nn.Module):
    """Adds the weight of the record's training to its running sum; rows are (training, 1, sum)."""

    def __init__(self, coordinates: int) -> None:
        super().__init__()
        self.weights = nn.Linear(1, coordinates, bias=False)
        nn.init.zeros_(self.weights.weight)

    def forward(self, rows: Tensor) -> Tensor:
        own = self.weights(rows[:, 1:2]).gather(1, rows[:, :1].long())
        return torch.cat([rows[:, :2], rows[:, 2:] + own], dim=1)


class Canaries(nn.Module):
    """A network of one block a submodel, in the form that `Routed` takes; logits (_STEEP sum, 0)."""

    def __init__(self, coordinates: int, submodels: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Block(coordinates) for _ in range(submodels))
        self.identity = tuple(range(submodels))
        self.pixels = self.stem = nn.Identity()

    def head(self, rows: Tensor) -> Tensor:
        """Logits, (batch, 2)."""
        return torch.cat([_STEEP * rows[:, 2:], torch.zeros_like(rows[:, 2:])], dim=1)

    def forward(self, rows: Tensor) -> Tensor:
        """Logits of the whole network."""
        for block in self.blocks:
            rows = block(rows)
        return self.head(rows)


def audit_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Many trainings of one setting, half of them with the canary: histograms of the attacker's scores.

    Args:
        config: JSON-able, all keys required: "sampling" ("poisson" or "balanced"), "rate" (of Poisson
            sampling), "participations" (of balanced sampling), "submodels", "sigma" (the clip is 1),
            "iterations", "trainings" (in all) and "stacked" (trainings a call, an even number).
        seed: >= 0.

    Returns:
        "without" and "with", see `reproduce.papers.auditing.counted`.

    Raises:
        ValueError: a key missing, unknown or out of range.
        RuntimeError: a canary's gradient was shorter than the clip.
    """
    check_keys(config, _KEYS)
    choice("sampling", config["sampling"], ("poisson", "balanced"))
    integer("participations", config["participations"], 1)
    return stacked_trainings(
        config, seed, lambda present, own: _score(_views(config, present, own), config)
    )


def one_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """One training with many canaries, each a record of its own: right guesses, and scores of both groups.

    Args:
        config: as for `audit_run`, with "canaries" in place of "trainings" and "stacked".
        seed: >= 0.

    Returns:
        See `reproduce.papers.one_run.summary`.

    Raises:
        ValueError: a key missing, unknown or out of range.
        RuntimeError: a canary's gradient was shorter than the clip.
    """
    check_keys(config, _KEYS - {"trainings", "stacked"} | {"canaries"})
    choice("sampling", config["sampling"], ("poisson", "balanced"))
    present = coins(config["canaries"], seed)
    return summary(_score(_views(config, present, seed), config), present)


def _views(config: dict[str, Any], present: NDArray[np.bool_], seed: int) -> NDArray:
    """What each iteration adds to the sum: (iterations, stacked, submodels)."""
    stacked, parts = len(present), config["submodels"]
    owner = np.flatnonzero(present)
    count = (len(owner), config["iterations"])
    sampling = (
        PoissonIterations(*count, config["rate"])
        if config["sampling"] == "poisson"
        else BalancedIterations(*count, config["participations"])
    )
    descent = NoisyDescent(
        clip=1.0,
        unsplit_clip=1.0,
        sigma=config["sigma"],
        learning_rate=_SMALL * sampling.mean_batch,
    )
    net = Canaries(stacked, parts)
    seen = [np.zeros((parts, stacked))]

    def look(step: Step) -> None:
        if step.batch and step.clipped < 1:
            raise RuntimeError(
                f"a gradient was shorter than the clip in iteration {step.iteration}"
            )
        weights = [block.weights.weight.detach().numpy()[:, 0] for block in net.blocks]
        seen.append(np.array(weights, dtype=float))

    rows = torch.from_numpy(np.stack([owner, np.ones(len(owner)), np.zeros(len(owner))], axis=1))
    labels = torch.zeros(len(owner), dtype=torch.long)
    train_on_submodels(
        net, rows.float(), labels, sampling, Splitting(parts), descent, seed, watch=look
    )
    return np.diff(np.array(seen), axis=0).swapaxes(1, 2) / _SMALL


def _score(views: NDArray, config: dict[str, Any]) -> NDArray:
    """Log likelihood ratio of the model's path with the canary against without it, (stacked,)."""
    ratio = np.exp((2 * views - 1) / (2 * config["sigma"] ** 2)).mean(axis=2)
    if config["sampling"] == "poisson":
        return np.log1p(config["rate"] * (ratio - 1)).sum(axis=0)
    total = np.zeros((config["participations"] + 1, ratio.shape[1]))
    total[0] = 1.0  # sums over all sets of iterations so far, by the size of the set
    for own in ratio:
        total[1:] += own * total[:-1]
    return np.log(total[-1] / comb(config["iterations"], config["participations"]))
