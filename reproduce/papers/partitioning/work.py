"""What a training run takes, from its configuration: for `make paper DRY=1`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from repro.models.residual import build_residual
from reproduce.papers.partitioning.public_start import FIRST, PRIVATE
from reproduce.papers.run_work import FLOAT, MIB, NetworkCost, network_cost
from reproduce.work import Work

SETS = {
    "digits": ((1, 8, 8), 1_440, 357, 0),
    "letters": ((1, 14, 14), 8_697, 1_476, 1_431),
    "cifar_subset": ((3, 32, 32), 18_000, 4_000, 0),
    "cifar_public": ((3, 32, 32), PRIVATE, 4_000, 18_000 - PRIVATE),
    "cifar": ((3, 32, 32), 50_000, 10_000, 0),
}
"""Shape, training and test images of each data set, and public ones where these are no half of the former."""

CLASSES = 10
FIRST_IMAGES = 10_000  # of CIFAR-100, before "cifar_public"


def training(config: Mapping[str, Any]) -> Work:
    """Of `runs.partitioning_run`.

    At least the private training, in which a record passes through one of d submodels. At most also the pretraining
    in full, which runs of one seed share and which ends at an accuracy, with the whole network for every record.
    """
    shape, images, tested, public = SETS[config["data"]]
    cost = _network(config["model"], shape)
    pretrained = config["start"] == "pretrained"
    half = pretrained and not public
    private = config["records"] or (images // 2 if half else images)
    evaluations = config["iterations"] // config["evaluate_every"] + 2
    evaluation = evaluations * tested * cost.forward
    local = 1 if config["samples_per_user"] == 1 else config["local_iterations"]
    steps = config["participations"] * private * local * cost.training
    shown = (images // 2 if half else public) * config["pretrain_classes"] / CLASSES
    epoch = shown * cost.training + tested * cost.forward
    first = FIRST * FIRST_IMAGES * cost.training if config["data"] == "cifar_public" else 0.0
    pixels = shape[0] * shape[1] * shape[2]
    copies = 6  # weights, gradients, momentum, noise, their sum, the sum of a chunk
    mib = (2 * (images + tested) * pixels + copies * FLOAT * cost.parameters) / MIB
    return Work(
        least=steps / config["submodels"] + evaluation,
        most=steps
        + evaluation
        + (first + config["pretrain_epochs"] * epoch if pretrained else 0.0),
        mib=mib + config["memory"],
    )


@lru_cache
def _network(model: str, shape: tuple[int, ...]) -> NetworkCost:
    return network_cost(lambda: build_residual(model, classes=CLASSES, seed=0), shape)
