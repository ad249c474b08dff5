"""Audit of Algorithm 1 and of SplitFed-DP as they run: every client of a round is one training.

A stack is one call of `SplitMethod.round`, the first of a training, with thousands of clients. Each client
holds a batch of records; all but one are zero, and in half of the clients the other one is 1 (the canary),
in the other half -1. The bottom model is one linear map whose weights are 1, and the loss grows with its
outputs, so that the two records pull every coordinate in opposite directions. All clients start from the
same public values, and the server answers each of them by its own loss. Its head is fixed. Masks and noise are
drawn for each client and coordinate independently, so the clients are independent, and each has the law of a
client by itself.

What an attacker sees, by the name of the canary:

    masks       the binary mask that a client of PM-SFL uploads after its R local steps
    unnoised    the first smashed data that the same client sends to the server, without noise
    smashed     the smashed data of SplitFed-DP, with Laplace noise, in all R steps
    updates     the weights that a client of SplitFed-DP uploads after R noisy steps
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from repro._validate import choice, integer, positive
from repro.federated.client_data import ClientData
from repro.federated.pmsfl.algorithm import PMSFL
from repro.federated.pmsfl.rivals import SplitFedDP
from repro.federated.pmsfl.split_method import Cohort, Plan
from repro.models.split import DEPTH, SplitNetwork
from reproduce.papers.auditing import stacked_trainings
from reproduce.papers.one_run import coins, summary
from reproduce.papers.training_input import check_keys

_KEYS = {
    "canary", "coordinates", "iterations", "batch", "rate", "smashed_epsilon", "update_epsilon",
    "update_delta", "trainings", "stacked",
}  # fmt: skip

_GENTLE = 1e-3
"""Slope of the logit in an output: small, so that gradients keep their size while values move."""

_CLIP = 1e-6
"""Gamma: below the mean gradient of the canary in any batch that is used, so that clipping binds, and far
above the 1e-8 that Adam adds to a gradient's size."""


_BOUND = {"smashed": 1.0, "updates": 2.0}
"""Clip of an activation. The canary's is 1: at the clip where activations are attacked, and below it where
updates are, because a clipped activation has no gradient."""


class _Growing(nn.Module):
    """Logits (_GENTLE sum of outputs, 0): the loss of class 1 grows with every output."""

    def forward(self, outputs: Tensor) -> Tensor:
        """(batch, coordinates) to (batch, 2)."""
        first = _GENTLE * outputs.sum(dim=1, keepdim=True)
        return torch.cat([first, torch.zeros_like(first)], dim=1)


class _Heard(PMSFL):
    """Algorithm 1, and what it sends."""

    def sent(self, smashed: Tensor, generator: torch.Generator) -> Tensor:
        """As `SplitMethod.sent`."""
        found = super().sent(smashed, generator)
        self.__dict__.setdefault("smashed", []).append(found.detach())
        return found

    def upload(self, sampled: Tensor, personal: Tensor, cohort: Cohort, share: float) -> Tensor:
        """As `PMSFL.upload`."""
        self.received = super().upload(sampled, personal, cohort, share)
        return self.received


class _HeardDP(SplitFedDP):
    """SplitFed-DP, and what it sends."""

    def sent(self, smashed: Tensor, generator: torch.Generator) -> Tensor:
        """As `SplitFedDP.sent`."""
        found = super().sent(smashed, generator)
        self.__dict__.setdefault("smashed", []).append(found.detach())
        return found

    def keep(self, cohort: Cohort, values: Tensor) -> None:
        """As `SplitMethod.keep`."""
        self.received = values
        super().keep(cohort, values)


def audit_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Many trainings of one setting, half of them with the canary: histograms of the attacker's scores.

    Args:
        config: JSON-able, all keys required: "canary" ("masks", "unnoised", "smashed" or "updates"),
            "coordinates" (d), "iterations" (R), "batch" (records of a client), "rate" (of Adam),
            "smashed_epsilon", "update_epsilon" and "update_delta" (of SplitFed-DP's noise, in (0, 1) the last),
            "trainings" (in all) and "stacked" (trainings a call, an even number).
        seed: >= 0.

    Returns:
        "without" and "with", see `reproduce.papers.auditing.counted`.

    Raises:
        ValueError: a key missing, unknown or out of range.
    """
    check_keys(config, _KEYS)
    score = _SCORES[choice("canary", config["canary"], tuple(_SCORES))]
    return stacked_trainings(
        config, seed, lambda present, own: score(_round(config, present, own), config)
    )


def one_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """One round in which every client may hold the canary: right guesses, and scores of both groups.

    Args:
        config: as for `audit_run`, with "canaries" (clients) in place of "trainings" and "stacked".
        seed: >= 0.

    Returns:
        See `reproduce.papers.one_run.summary`.

    Raises:
        ValueError: a key missing, unknown or out of range.
    """
    check_keys(config, _KEYS - {"trainings", "stacked"} | {"canaries"})
    score = _SCORES[choice("canary", config["canary"], tuple(_SCORES))]
    present = coins(config["canaries"], seed)
    return summary(score(_round(config, present, seed), config), present)


def _round(config: dict[str, Any], present: NDArray[np.bool_], seed: int) -> PMSFL | SplitFedDP:
    """The first round of a stack of clients, some of which hold the canary."""
    stacked, batch = len(present), integer("batch", config["batch"], 1)
    each = batch + 1  # the last record is for testing, which the audit does not do
    inputs = np.zeros((stacked, each, 1), dtype=np.float32)
    inputs[:, 0, 0] = np.where(present, 1, -1)
    places = np.arange(stacked * each).reshape(stacked, each)
    data = ClientData(
        inputs.reshape(-1, 1), np.ones(stacked * each, dtype=np.int64), 2,
        tuple(places[:, :-1]), tuple(places[:, -1:]), "canaries", "none", "",
    )  # fmt: skip
    bottom = nn.Linear(1, integer("coordinates", config["coordinates"], 1), bias=False)
    network = SplitNetwork([bottom, *(nn.Identity() for _ in range(DEPTH - 1))], _Growing())
    nn.init.ones_(bottom.weight)
    rate = float(positive("rate", config["rate"]))
    plan = Plan(1, 1.0, config["iterations"], batch, rate, rate, 0.01, "straight_through")
    common = data, network, np.ones(stacked, dtype=int), plan, seed, torch.device("cpu")
    if config["canary"] in ("masks", "unnoised"):
        method: PMSFL | SplitFedDP = _Heard(*common, agreement=1, ratio=0.0)
    else:
        method = _HeardDP(
            *common,
            smashed_epsilon=config["smashed_epsilon"],
            bound=_BOUND[config["canary"]],
            update_epsilon=config["update_epsilon"],
            update_delta=config["update_delta"],
            clip=_CLIP,
        )
    method.round(0)
    return method


def reach(config: dict[str, Any]) -> float:
    """How far Adam moves a score in R steps of gradients of one size and sign."""
    return config["iterations"] * config["rate"]


def _masks(seen: PMSFL, config: dict[str, Any]) -> NDArray:
    """Log likelihood ratio of the uploaded bits, each 1 with chance sigma(-reach) against sigma(reach)."""
    ones = seen.received.sum(dim=1).numpy().astype(float)
    return (config["coordinates"] - 2 * ones) * reach(config)


def _unnoised(seen: PMSFL, config: dict[str, Any]) -> NDArray:
    """The sign of what the server gets; 0 where the mask lets nothing through."""
    return 8 * np.sign(seen.smashed[0].sum(dim=(1, 2)).numpy().astype(float))


def _smashed(seen: SplitFedDP, config: dict[str, Any]) -> NDArray:
    """Log likelihood ratio of the outputs in all steps, of one record a client: noise around 1 against -1."""
    outputs = torch.stack(seen.smashed).numpy().astype(float)
    ratio = np.abs(outputs + 1) - np.abs(outputs - 1)
    return config["smashed_epsilon"] / 2 * ratio.sum(axis=(0, 2, 3))


def _updates(seen: SplitFedDP, config: dict[str, Any]) -> NDArray:
    """How far the weights went the canary's way, in steps of Adam."""
    moved = (seen.received - 1).mean(dim=1).numpy().astype(float)
    return -moved / config["rate"]


_SCORES: dict[str, Callable[[Any, dict[str, Any]], NDArray]] = {
    "masks": _masks,
    "unnoised": _unnoised,
    "smashed": _smashed,
    "updates": _updates,
}
