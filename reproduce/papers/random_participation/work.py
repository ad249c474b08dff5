"""What a training run takes, from its configuration: for `make paper DRY=1`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from repro.models import build
from reproduce.papers.run_work import MIB, NetworkCost, network_cost
from reproduce.work import Work

SETS = {
    "digits": ((1, 8, 8), 10, 357),
    "emnist_embedded": ((1, 28, 28), 62, 3_000),
    "emnist_subset": ((1, 28, 28), 62, 12_000),
    "emnist": ((1, 28, 28), 62, 116_323),
}
"""Shape of an image, classes, and test images of each data set."""


def training(config: Mapping[str, Any]) -> Work:
    """Of `runs.training_run`: the gradients of the drawn records, and the evaluations."""
    shape, _, tested = SETS[config["data"]]
    cost = _network(config["model"], config["data"])
    held = config["clients"] * config["records"]
    batch = config["p"] * config["q"] * held
    evaluations = -(-config["iterations"] // config["evaluate_every"]) + 1
    operations = config["iterations"] * batch * cost.training + evaluations * tested * cost.forward
    pixels = shape[0] * shape[1] * shape[2]
    # images lie in memory as bytes, twice while they are ordered; a batch can be twice its mean
    mib = (2 * (held + tested) * pixels + 2 * batch * cost.activations) / MIB
    return Work(operations, operations, mib)


@lru_cache
def _network(model: str, data: str) -> NetworkCost:
    shape, classes, _ = SETS[data]
    return network_cost(lambda: build(model, classes=classes, seed=0), shape)
