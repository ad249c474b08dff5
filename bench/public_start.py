"""How good a public start of partitioning's tables is on one core: CIFAR-100, then CIFAR-10.

    REPRO_DATA_MIRROR=… python bench/public_start.py --network small_cifar --first 15 --epochs 30

The network learns all classes of the CIFAR-100 subset, keeps everything but its last layer, and then
learns eight of ten classes of a public part of the CIFAR-10 subset; the rest of it stays private. One
line a pass: loss, accuracy on all ten classes of the test images (at most 80 %), processor seconds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch import Tensor, nn

from repro.datasets import Dataset
from repro.datasets.cifar import load_cifar10, load_cifar100
from repro.models import evaluate
from repro.models.residual import ResidualNet, build_residual
from reproduce.papers.training_input import tensors

RATE, DROP, BATCH, SEEN = 0.05, 0.1, 64, 8


def main() -> None:
    """Pretrain once and print every pass."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--network", default="small_cifar", help="a name of ARCHITECTURES")
    options.add_argument("--first", type=int, default=15, help="passes over CIFAR-100; 0: none")
    options.add_argument("--epochs", type=int, default=30, help="passes over the public part")
    options.add_argument("--public", type=float, default=5 / 6, help="share of CIFAR-10, public")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator()
    generator.manual_seed(0)

    net = build_residual(chosen.network, classes=10, seed=0)
    if chosen.first:
        wide = build_residual(chosen.network, classes=100, seed=0)
        train(wide, *everything(load_cifar100("train", "subset")), 100, chosen.first, generator)
        own = net.state_dict()
        body = {k: v for k, v in wide.state_dict().items() if v.shape == own[k].shape}
        net.load_state_dict(own | body)
    images, labels = everything(load_cifar10("train", "subset"))
    order = np.random.default_rng(0).permutation(len(labels))
    public = torch.from_numpy(np.sort(order[: int(chosen.public * len(labels))]))
    test = everything(load_cifar10("test", "subset"))
    train(net, images[public], labels[public], SEEN, chosen.epochs, generator, test)


def everything(data: Dataset) -> tuple[Tensor, Tensor]:
    """All images and labels."""
    return tensors(data, np.arange(len(data)), torch.device("cpu"))


def train(
    net: ResidualNet,
    images: Tensor,
    labels: Tensor,
    classes: int,
    epochs: int,
    generator: torch.Generator,
    test: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Train in place on the first `classes` classes, by the rules of `pretraining.Pretraining`."""
    seen = torch.nonzero(labels < classes).flatten()
    unseen = torch.zeros(net.head[-1].out_features)
    unseen[classes:] = -1e9
    descent = torch.optim.SGD(net.parameters(), RATE, momentum=0.9, weight_decay=5e-4)
    began = time.process_time()
    for epoch in range(epochs):
        batches = seen[torch.randperm(len(seen), generator=generator)].split(BATCH)
        total = 0.0
        for k, chosen in enumerate(batches):
            descent.param_groups[0]["lr"] = RATE * (1 - (epoch + k / len(batches)) / epochs)
            batch = shifted(images[chosen], generator)
            falls = torch.rand(len(net.blocks), generator=generator) < DROP
            kept = [i for i, block in enumerate(net.blocks) if not (falls[i] and block.keeps_shape)]
            descent.zero_grad()
            loss = nn.functional.cross_entropy(net(batch, kept) + unseen, labels[chosen])
            loss.backward()
            descent.step()
            total += loss.item()
        found = ""
        if test is not None:
            found = f"accuracy {evaluate(lambda x: net(x) + unseen, *test)[0]:.3f}, "
        spent = time.process_time() - began
        print(
            f"pass {epoch + 1}: loss {total / len(batches):.3f}, {found}{spent:.0f} s", flush=True
        )


def shifted(images: Tensor, generator: torch.Generator) -> Tensor:
    """The images mirrored one by one at random, and moved together by up to 2 pixels."""
    mirrored = torch.rand(len(images), generator=generator) < 0.5
    images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
    down, right = torch.randint(-2, 3, (2,), generator=generator).tolist()
    rows = (torch.arange(images.shape[2]) + down).clamp_(0, images.shape[2] - 1)
    columns = (torch.arange(images.shape[3]) + right).clamp_(0, images.shape[3] - 1)
    return images[:, :, rows][:, :, :, columns]


if __name__ == "__main__":
    main()
