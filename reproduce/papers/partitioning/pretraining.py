"""The public start of private fine-tuning: a model trained on some classes of half of the data.

A pretrained model is a pure function of (configuration, seed), made once and kept below
`paths.RUNS`, so that the rows of a table which start from it do not each train it again. The name
of the file is a hash of the configuration, the seed, the data, the PyTorch version and the source
of the modules that decide the result: a stale file is never read.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from repro._validate import in_unit, integer, positive
from repro.atomic import replacing
from repro.models import evaluate, networks, residual
from repro.models.residual import ResidualNet, build_residual
from reproduce import paths


@dataclass(frozen=True)
class Pretraining:
    """How the model is pretrained.

    Attributes:
        classes: the first so many classes are seen, at least 2; the outputs for the others have no
            part in the loss and stay as they were initialised.
        target: training ends when the validation accuracy reaches it, in [0, 1]. All classes are
            validated: with 8 of 10 balanced classes at most 0.8 can be reached.
        epochs: training ends after so many passes at the latest; the learning rate falls linearly
            to zero over them.
        batch: images a step.
        learning_rate: at the start, of SGD with momentum 0.9 and weight decay 5e-4.
        drop: each block that can be left out is left out of a batch with this probability, in [0,
            1): small networks otherwise rest on every single block.
        augment: move each batch by up to 2 pixels and mirror each image with probability 1/2.

    Raises:
        ValueError: a value out of range.
    """

    classes: int
    target: float
    epochs: int
    batch: int
    learning_rate: float
    drop: float
    augment: bool

    def __post_init__(self) -> None:
        integer("classes", self.classes, 2)
        in_unit("target", self.target)
        integer("epochs", self.epochs, 1)
        integer("batch", self.batch, 1)
        positive("learning_rate", self.learning_rate)
        in_unit("drop", self.drop)


@dataclass(frozen=True)
class Data:
    """Images (n, colours, h, w) and labels (n,), for pretraining, and what it is validated on."""

    images: Tensor
    labels: Tensor
    validation_images: Tensor
    validation_labels: Tensor
    classes: int
    sha256: str


def halves(labels: NDArray[np.int64], rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Two disjoint random sets of records, each with half of the records of every class."""
    order = rng.permutation(len(labels))
    ranked = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    first = np.arange(len(labels)) - starts < np.repeat(counts // 2, counts)
    return np.sort(ranked[first]), np.sort(ranked[~first])


def pretrained(
    name: str, data: Data, settings: Pretraining, seed: int
) -> tuple[ResidualNet, dict[str, float]]:
    """The network `name` of `build_residual`, pretrained without privacy, and how far it got.

    Returns:
        the model on the device of the images, and {"epochs", "accuracy"}: the passes made and the
        validation accuracy then.

    Raises:
        ValueError: see `build_residual`.
    """
    start = build_residual(name, classes=data.classes, seed=seed).to(data.images.device)
    path = paths.RUNS / ".pretrained" / f"{_key(name, data, settings, seed)}.pt"
    with locked(path):
        if not path.exists():
            found = _pretrain(start, data, settings, seed)
            with replacing(path) as scratch:
                torch.save({"weights": start.state_dict(), "found": found}, scratch)
    kept = torch.load(path, map_location=data.images.device, weights_only=True)
    start.load_state_dict(kept["weights"])
    return start, kept["found"]


def _pretrain(model: ResidualNet, data: Data, settings: Pretraining, seed: int) -> dict[str, float]:
    """Train `model` in place; see `Pretraining`."""
    device = data.images.device
    generator = torch.Generator()
    generator.manual_seed(seed)
    seen = torch.nonzero(data.labels.cpu() < settings.classes).flatten()
    descent = torch.optim.SGD(
        model.parameters(), settings.learning_rate, momentum=0.9, weight_decay=5e-4
    )

    unseen = torch.zeros(data.classes, device=device)
    unseen[settings.classes :] = -1e9  # their logits, next to nothing in every softmax

    def known(batch: Tensor, blocks: list[int] | None = None) -> Tensor:
        return model(batch, blocks) + unseen

    accuracy, epoch = 0.0, 0
    for epoch in range(1, settings.epochs + 1):
        order = seen[torch.randperm(len(seen), generator=generator)].to(device)
        batches = order.split(settings.batch)
        for k, chosen in enumerate(batches):
            passed = (epoch - 1 + k / len(batches)) / settings.epochs
            descent.param_groups[0]["lr"] = settings.learning_rate * (1 - passed)
            batch = data.images[chosen]
            if settings.augment:
                batch = _augmented(batch, generator)
            falls = torch.rand(len(model.blocks), generator=generator) < settings.drop
            kept = [i for i in range(len(falls)) if not (falls[i] and model.blocks[i].keeps_shape)]
            descent.zero_grad()
            nn.functional.cross_entropy(known(batch, kept), data.labels[chosen]).backward()
            descent.step()
        accuracy, _ = evaluate(known, data.validation_images, data.validation_labels)
        if accuracy >= settings.target:
            break
    return {"epochs": epoch, "accuracy": accuracy}


def _augmented(images: Tensor, generator: torch.Generator) -> Tensor:
    """Raw images, mirrored one by one and moved together, with edges repeated."""
    mirrored = torch.rand(len(images), generator=generator).to(images.device) < 0.5
    images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
    down, right = torch.randint(-2, 3, (2,), generator=generator).tolist()
    rows = (torch.arange(images.shape[2]) + down).clamp_(0, images.shape[2] - 1)
    columns = (torch.arange(images.shape[3]) + right).clamp_(0, images.shape[3] - 1)
    return images[:, :, rows.to(images.device)][:, :, :, columns.to(images.device)]


def _key(name: str, data: Data, settings: Pretraining, seed: int) -> str:
    """What decides the weights, as a hash."""
    modules = (residual, networks, sys.modules[__name__])
    parts = [name, asdict(settings), seed, data.sha256, data.classes, torch.__version__]
    parts += [data.images.device.type, [inspect.getsource(module) for module in modules]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time work at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
