"""What a run takes, from its configuration: for `make paper DRY=1`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from repro.models.split import resnet18, transformer
from reproduce.papers.run_work import FLOAT, MIB, NetworkCost, network_cost
from reproduce.work import Work

SETS = {
    "digits_dirichlet": ((1, 8, 8), 10, 1_797, 299),
    "digits_personal": ((1, 8, 8), 10, 1_797, 299),
    "generated_radar": ((30, 16), 17, 2_040, 510),
    "generated_ultrasound": ((30, 16), 17, 2_040, 510),
    "cifar100_subset": ((3, 32, 32), 100, 12_000, 2_000),
    "cifar100": ((3, 32, 32), 100, 60_000, 10_000),
    "femnist": ((1, 28, 28), 62, 16_273, 1_662),
    "radhar": ((30, 16), 5, 1_116, 279),
    "ucihar": ((32, 36), 6, 1_614, 404),
}
"""Shape of a record, classes, records and test records of each federation, for as many clients as the paper has."""

COPIES = 5
"""Of a client's weights: themselves, gradients, two moments of Adam, what is sent."""


def training(config: Mapping[str, Any]) -> Work:
    """Of `runs.pmsfl_run`: every participant's steps through the whole network, and the evaluations.

    The least and the most are the same, although methods that train a part of the network only take less: that is part
    of how much runs differ in their seconds per operation.
    """
    cost = _network(config)
    shape, _, records, tested = SETS[config["data"]]
    evaluations = config["rounds"] // config["evaluate_every"] + 2
    # at an evaluation, the clients' networks take their statistics from `reference` records each
    shown = tested + config["clients"] * config["reference"]
    operations = _federation(config, cost) + evaluations * shown * cost.forward
    own = config["clients"] * cost.parameters  # what each client keeps for itself
    held = records * math.prod(shape) + 2 * own + _participants(config) * COPIES * cost.parameters
    batch = _participants(config) * config["batch"] * cost.activations
    return Work(operations, operations, (FLOAT * held + batch) / MIB)


def attack(config: Mapping[str, Any]) -> Work:
    """Of `attack_runs.attack_run`: the training of two federations, and the fits of all attackers."""
    cost = _network(config)
    kinds = 12 if config["masks"] else 4 + 3 * len(config["epsilons"])
    fits = kinds * config["steps"] * config["restarts"] * config["images"]
    federations = _federation(config, cost) * (1 if config["masks"] else 2)
    shape, _, records, _ = SETS[config["data"]]
    held = records * math.prod(shape) + _participants(config) * COPIES * cost.parameters
    batch = max(_participants(config) * config["batch"], 2 * config["images"]) * cost.activations
    one_fit = fits * cost.training
    return Work(
        federations + one_fit / 3, federations + 3 * one_fit, (FLOAT * held + batch) / MIB, True
    )


def audit(config: Mapping[str, Any]) -> Work:
    """Of `audit.audit_run`: proportional to trainings, steps, records and coordinates."""
    amount = config["trainings"] * config["iterations"] * config["batch"] * config["coordinates"]
    return Work(amount, amount, 0.0)


def _network(config: Mapping[str, Any]) -> NetworkCost:
    images = len(SETS[config["data"]][0]) == 3
    return _cost(config["data"], config["width"], config["layers"] if images else config["heads"])


@lru_cache
def _cost(data: str, width: int, more: int) -> NetworkCost:
    """Of a ResNet with `more` layers a stage for images, of a Transformer with `more` heads for sequences."""
    shape, classes, _, _ = SETS[data]
    if len(shape) == 3:
        return network_cost(
            lambda: resnet18(classes=classes, channels=shape[0], width=width, layers=more), shape
        )
    return network_cost(
        lambda: transformer(classes=classes, features=shape[1], width=width, heads=more), shape
    )


def _federation(config: Mapping[str, Any], cost: NetworkCost) -> float:
    steps = config["rounds"] * _participants(config) * config["iterations"]
    return steps * config["batch"] * cost.training


def _participants(config: Mapping[str, Any]) -> int:
    return max(1, round(config["clients"] * config["participation"]))
