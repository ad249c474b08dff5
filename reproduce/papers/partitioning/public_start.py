"""The public start of the long tables: CIFAR-100, then eight classes of most of CIFAR-10.

The paper pretrains one model, without privacy, on eight classes of half of CIFAR-10, until it answers
70 % of the validation images, and gives every method this start. A subset of 18,000 images is too
little for that on one half, so here all of it but `PRIVATE` images is public, CIFAR-100 comes first,
and the schedule is that of fast training on a processor. Split and start are one for all seeds, which
differ in the private training alone.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from repro.atomic import replacing
from repro.datasets import Dataset
from repro.models import evaluate, networks, residual
from repro.models.residual import ResidualNet, build_residual
from reproduce import paths
from reproduce.papers.partitioning.pretraining import Data, Pretraining, locked

PRIVATE = 2_500
"""Private images. They hold the two classes that the start never saw, 250 images of each."""
FIRST = 25
"""Passes over CIFAR-100."""
SEED = 0
"""Of the split into public and private images, of the start and of its training."""

_RISE = 0.15  # share of the steps over which the learning rate grows
_SMOOTHING = 0.1  # of the labels
_SHIFT = 3  # pixels, at most
_ERASED = 4  # sides of an image to one side of the square in it that is erased
_ENLARGED = 100  # classes of CIFAR-100


def split(images: Dataset) -> tuple[Dataset, Dataset]:
    """The public and the private part of CIFAR-10's training images, classes balanced in both.

    Raises:
        ValueError: fewer than `PRIVATE` images, or classes that do not share them evenly.
    """
    rng = np.random.default_rng(SEED)
    each, rest = divmod(PRIVATE, len(images.classes))
    places = [np.flatnonzero(images.labels == label) for label in range(len(images.classes))]
    if rest or min(map(len, places)) < each:
        raise ValueError(
            f"images must hold at least {each} of each class, got {len(images)} images"
        )
    private = np.sort(np.concatenate([rng.permutation(place)[:each] for place in places]))
    public = np.setdiff1d(np.arange(len(images)), private)
    first, second = (
        replace(images, images=images.images[chosen], labels=images.labels[chosen])
        for chosen in (public, private)
    )
    return first, second


def public_start(
    name: str, data: Data, wide: tuple[Tensor, Tensor], settings: Pretraining
) -> tuple[ResidualNet, dict[str, float]]:
    """The network `name` of `build_residual` after both public data sets, and how far it got.

    Args:
        name: of the network.
        data: the public part of CIFAR-10, of which the first `settings.classes` classes are seen, and
            what the start is validated on in the end.
        wide: images (n, colours, h, w) and labels (n,) of CIFAR-100.
        settings: passes over the public part, images a step, the highest learning rate, and how
            often a block is left out. `target` and `augment` have no part: all passes are made, and
            images are always mirrored, moved and partly erased.

    Returns:
        the model on the device of the images, and {"epochs", "accuracy"}: the passes made over the
        public part, and the share of all validation images that it answers.

    Raises:
        ValueError: see `build_residual`.

    An interrupted training goes on at the last pass.
    """
    net = build_residual(name, classes=data.classes, seed=SEED).to(data.images.device)
    path = paths.RUNS / ".pretrained" / f"{_key(name, data, wide, settings)}.pt"
    with locked(path):
        if not path.exists():
            begun = path.with_suffix(".begun")
            _train_both(name, net, data, wide, settings, begun)
            accuracy, _ = evaluate(
                lambda batch: net(batch) + _unseen(data.classes, settings.classes),
                data.validation_images,
                data.validation_labels,
            )
            found = {"epochs": settings.epochs, "accuracy": accuracy}
            with replacing(path) as scratch:
                torch.save({"weights": net.state_dict(), "found": found}, scratch)
            begun.unlink(missing_ok=True)
    kept = torch.load(path, map_location=data.images.device, weights_only=True)
    net.load_state_dict(kept["weights"])
    return net, kept["found"]


def _train_both(
    name: str,
    net: ResidualNet,
    data: Data,
    wide: tuple[Tensor, Tensor],
    settings: Pretraining,
    begun: Path,
) -> None:
    """CIFAR-100 with a head of its own, then the public part, in place."""
    generator = torch.Generator()
    generator.manual_seed(SEED)
    first = build_residual(name, classes=_ENLARGED, seed=SEED).to(data.images.device)
    _train(first, *wide, replace(settings, epochs=FIRST, classes=_ENLARGED), generator, begun, 0)
    learned, own = first.state_dict(), net.state_dict()
    body = {key: value for key, value in learned.items() if value.shape == own[key].shape}
    net.load_state_dict(own | body)
    seen = data.labels < settings.classes
    _train(net, data.images[seen], data.labels[seen], settings, generator, begun, 1)


def _train(
    net: ResidualNet,
    images: Tensor,
    labels: Tensor,
    settings: Pretraining,
    generator: torch.Generator,
    begun: Path,
    stage: int,
) -> None:
    """One data set: the learning rate rises and falls once; state is kept after every pass."""
    net.to(memory_format=torch.channels_last)
    decayed = [p for p in net.parameters() if p.ndim > 1]
    others = [p for p in net.parameters() if p.ndim <= 1]
    descent = torch.optim.SGD(
        [{"params": decayed, "weight_decay": 5e-4}, {"params": others, "weight_decay": 0.0}],
        settings.learning_rate,
        momentum=0.9,
        nesterov=True,
    )
    done = _resumed(net, descent, generator, begun, stage)
    per_pass = -(-len(labels) // settings.batch)
    for passed in range(done, settings.epochs):
        order = torch.randperm(len(labels), generator=generator)
        for k, chosen in enumerate(order.split(settings.batch)):
            share = (passed + k / per_pass) / settings.epochs
            for group in descent.param_groups:
                height = min(share / _RISE, (1 - share) / (1 - _RISE))
                group["lr"] = settings.learning_rate * height
            batch = _moved(images[chosen], generator)
            falls = torch.rand(len(net.blocks), generator=generator) < settings.drop
            blocks = [i for i, b in enumerate(net.blocks) if not (falls[i] and b.keeps_shape)]
            descent.zero_grad()
            logits = net(batch, blocks)[:, : settings.classes]
            loss = nn.functional.cross_entropy(logits, labels[chosen], label_smoothing=_SMOOTHING)
            loss.backward()
            descent.step()
        with replacing(begun) as scratch:
            torch.save(
                {
                    "stage": stage,
                    "passed": passed + 1,
                    "weights": net.state_dict(),
                    "descent": descent.state_dict(),
                    "generator": generator.get_state(),
                },
                scratch,
            )
    net.to(memory_format=torch.contiguous_format)


def _resumed(
    net: ResidualNet,
    descent: torch.optim.Optimizer,
    generator: torch.Generator,
    begun: Path,
    stage: int,
) -> int:
    """Passes made before an interruption; puts back the state after them."""
    if not begun.exists():
        return 0
    state = torch.load(begun, weights_only=True)
    if state["stage"] < stage:
        return 0
    if state["stage"] > stage:
        return sys.maxsize  # the next data set's state holds what this one gave
    net.load_state_dict(state["weights"])
    descent.load_state_dict(state["descent"])
    generator.set_state(state["generator"])
    return state["passed"]


def _moved(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image mirrored with probability 1/2, moved by itself (edges repeated) and partly erased.

    Channels last. The erased square takes the mean of the image's own pixels.
    """
    count, side = len(images), images.shape[-1]
    mirrored = torch.rand(count, generator=generator) < 0.5
    images = torch.where(mirrored[:, None, None, None], images.flip(3), images).float()
    padded = nn.functional.pad(images, [_SHIFT] * 4, mode="replicate")
    down, right = torch.randint(0, 2 * _SHIFT + 1, (2, count, 1), generator=generator)
    rows, columns = down + torch.arange(side), right + torch.arange(side)
    which = torch.arange(count)[:, None, None]
    moved = padded[which, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    square, place = side // _ERASED, torch.arange(side)
    top, left = torch.randint(0, side - square + 1, (2, count, 1), generator=generator)
    high, wide = ((place >= edge) & (place < edge + square) for edge in (top, left))
    erased = (high[:, :, None] & wide[:, None, :])[:, None]
    moved = torch.where(erased, moved.mean(dim=(1, 2, 3), keepdim=True), moved)
    return moved.contiguous(memory_format=torch.channels_last)


def _unseen(classes: int, seen: int) -> Tensor:
    """Added to logits so that classes that were not seen are never answered, shape (classes,)."""
    return torch.where(torch.arange(classes) < seen, 0.0, -1e9)


def _key(name: str, data: Data, wide: tuple[Tensor, Tensor], settings: Pretraining) -> str:
    """What decides the weights, as a hash."""
    modules = (residual, networks, sys.modules[__name__])
    parts = [name, asdict(settings), data.sha256, data.classes, torch.__version__]
    parts += [[inspect.getsource(module) for module in modules]]
    parts += [hashlib.sha256(tensor.cpu().numpy()).hexdigest() for tensor in wide]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
