"""Audit of Algorithm 1 as it runs: many short trainings, stacked in the coordinates of one model.

A stack is one call of `repro.federated.random_participation.train`. Its model has a few weights for each of
its trainings, and a record moves the weights of its own training only. Coins, clipping and noise are drawn
for each client, record and coordinate independently, so the trainings of a stack are independent, and each
has the law of a training by itself; the divisor p N q d is a public constant, which the learning rate takes
back. The attacker sees what is broadcast: the model before every iteration and after the last.

Each training has one client that matters. Half of the trainings hold the canary, a record whose gradient has
norm at least C in the first coordinate. Two data sets: "alone", where the client holds nothing else, and
"crowd", where its other records all have the second coordinate as gradient, so that their sum tells whether
the client takes part. Where the server divides by the realised batch, trainings are not stacked, as they
would share it: then one call is one training, and `width` idle coordinates show the divisor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import binom
from torch import Tensor, nn

from repro._validate import choice, integer
from repro.federated.random_participation import Settings, Step, train
from reproduce.papers.auditing import counted
from reproduce.papers.one_run import coins, summary
from reproduce.papers.training_input import check_keys

_STEEP = 1e3
"""Slope of the logit in the weight: a gradient stays longer than C = 1 while weights stay near zero."""

_SMALL = 1e-6
"""Learning rate on the undivided sum."""

_KEYS = {
    "canary", "p", "q", "others", "sigma", "momentum", "iterations", "average", "trainings", "stacked",
    "width",
}  # fmt: skip


class Canaries(nn.Module):
    """One weight a coordinate; record (k, s) has logits (_STEEP s w_k, 0) and so moves w_k alone."""

    def __init__(self, coordinates: int) -> None:
        super().__init__()
        self.weights = nn.Linear(1, coordinates, bias=False)
        nn.init.zeros_(self.weights.weight)

    def forward(self, records: Tensor) -> Tensor:
        """Logits (batch, 2) of records (batch, 2), each a coordinate and a sign."""
        place = records[:, :1].long()
        logit = _STEEP * self.weights(records[:, 1:]).gather(1, place)
        return torch.cat([logit, torch.zeros_like(logit)], dim=1)


def audit_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Many trainings of one setting, half of them with the canary: histograms of the attacker's scores.

    Args:
        config: JSON-able, all keys required: "canary" ("alone" or "crowd"), "p", "q", "others" (the client's
            other records), "sigma" (C is 1), "momentum", "iterations", "average" ("expected" or
            "realised": what the server divides by), "trainings" (in all), "stacked" (trainings a call;
            1 where the divisor is realised) and "width" (idle coordinates).
        seed: >= 0.

    Returns:
        "without" and "with", see `reproduce.papers.auditing.counted`.

    Raises:
        ValueError: a key missing, unknown or out of range.
        RuntimeError: a canary's gradient was shorter than C.
    """
    check_keys(config, _KEYS)
    stacked = integer("stacked", config["stacked"], 1)
    trainings = integer("trainings", config["trainings"], 2 * stacked)
    if choice("average", config["average"], ("expected", "realised")) == "realised" and stacked > 1:
        raise ValueError(f"stacked must be 1 where the divisor is realised, got {stacked}")
    score = _SCORES[choice("canary", config["canary"], tuple(_SCORES))]
    if config["average"] == "realised":
        score = _divisor
    seeds = np.random.SeedSequence(integer("seed", seed, 0)).generate_state(trainings // stacked)
    scores: tuple[list[NDArray], list[NDArray]] = ([], [])
    for number, own in enumerate(seeds):
        present = (np.arange(stacked) + number) % 2 == 0
        views = np.stack(list(_views(config, present, int(own))))
        found = score(views, config)
        for held, kept in zip((False, True), scores, strict=True):
            kept.append(found[present == held])
    return counted(*(np.concatenate(kept) for kept in scores))


def one_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """One training in which every client may hold a canary: right guesses, and scores of both groups.

    Args:
        config: as for `audit_run`, with "canaries" (clients) in place of "trainings" and "stacked", and the
            divisor "expected".
        seed: >= 0.

    Returns:
        See `reproduce.papers.one_run.summary`.

    Raises:
        ValueError: a key missing, unknown or out of range.
        RuntimeError: a canary's gradient was shorter than C.
    """
    check_keys(config, _KEYS - {"trainings", "stacked"} | {"canaries"})
    choice("average", config["average"], ("expected",))
    score = _SCORES[choice("canary", config["canary"], tuple(_SCORES))]
    present = coins(config["canaries"], seed)
    return summary(score(np.stack(list(_views(config, present, seed))), config), present)


def _views(config: dict[str, Any], present: NDArray[np.bool_], seed: int) -> Iterator[NDArray]:
    """What each iteration adds to the sum, as the broadcast models show it: (stacked, 2 + width)."""
    stacked, others = len(present), config["others"]
    each = 2 + config["width"]
    sizes = present + others
    owner = np.repeat(np.arange(stacked), sizes)
    first = np.cumsum(sizes) - sizes
    canary = np.zeros(len(owner), dtype=bool)
    canary[first[present]] = True
    records = np.stack([each * owner + ~canary, np.ones(len(owner))], axis=1)
    mean_batch = config["p"] * config["q"] * len(owner)
    settings = Settings(
        iterations=config["iterations"],
        p=config["p"],
        q=config["q"],
        learning_rate=_SMALL * (mean_batch if config["average"] == "expected" else 1.0),
        sigma=config["sigma"],
        momentum=config["momentum"],
        average=config["average"],
    )
    model = Canaries(each * stacked)
    seen = [np.zeros(each * stacked)]

    def look(step: Step) -> None:
        if step.batch and step.clipped < 1:
            raise RuntimeError(
                f"a gradient was shorter than the clip in iteration {step.iteration}"
            )
        seen.append(model.weights.weight.detach().numpy().ravel().astype(float))

    inputs = torch.from_numpy(records).float()
    train(
        model, inputs, torch.zeros(len(owner), dtype=torch.long), sizes, settings, seed, watch=look
    )
    moved = np.diff(np.array(seen), axis=0) / _SMALL
    moved[1:] -= config["momentum"] * moved[:-1]
    yield from moved.reshape(-1, stacked, each)


def _alone(views: NDArray, config: dict[str, Any]) -> NDArray:
    """Log likelihood ratio of the first coordinate: N(1) with chance p q against N(0), (stacked,)."""
    rate = config["p"] * config["q"]
    return np.log1p(rate * np.expm1(_shift(views, config))).sum(axis=0)


def _crowd(views: NDArray, config: dict[str, Any]) -> NDArray:
    """The same given what the second coordinate says about taking part."""
    p, q, d, sigma = (config[key] for key in ("p", "q", "others", "sigma"))
    second, counts = views[..., 1], np.arange(d + 1)
    away = np.log1p(-p) - 0.5 * np.square(second / sigma)
    terms = -0.5 * np.square((second[..., None] - counts) / sigma) + binom.logpmf(counts, d, q)
    here = np.log(p) + logsumexp(terms, axis=-1)
    taking_part = np.exp(here - np.logaddexp(here, away))
    return np.log1p(taking_part * q * np.expm1(_shift(views, config))).sum(axis=0)


def _shift(views: NDArray, config: dict[str, Any]) -> NDArray:
    """Log ratio of N(1, sigma^2) to N(0, sigma^2) at the first coordinate."""
    return (2 * views[..., 0] - 1) / (2 * config["sigma"] ** 2)


def _divisor(views: NDArray, config: dict[str, Any]) -> NDArray:
    """How far the noise of the idle coordinates, at its smallest, is below what one record leaves.

    A batch of b >= 1 records leaves noise of deviation sigma / b. With one other record, a batch of two
    proves the canary.
    """
    idle = views[..., 2:] / config["sigma"]
    smallest = np.sqrt(np.square(idle).mean(axis=-1)).min(axis=0)
    return -8 * np.log(smallest)


_SCORES = {"alone": _alone, "crowd": _crowd}
