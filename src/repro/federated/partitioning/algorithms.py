"""Training with a randomly partitioned model: Algorithms 1 and 2 of partitioning, also federated.

    for t in [T]:                                       the paper's box, and where it is done
        M_1 .. M_d <- create_subnets(M, d)                           `create_submodels`
        for x in S:                                                  `sampling.batches` (section 3.3)
            k <- random_integer(1 .. d)                              } all samples at once, sorted
            grad <- d Loss(M_k, x) / dM, 0 outside of M_k            }   by submodel: `Routed`,
            grad_sum <- grad_sum + clip(grad, c)                     }   `clipped_part_sums`
        noisy_grad_sum <- N(grad_sum, sigma^2)                       `gaussian`
        update_model(M, noisy_grad_sum)                              `Momentum.step`

Algorithm 2 has dropout with rate 1/2 in the place of the first two lines and of k. In both the
parameters that every sample trains (the "unsplit part") have a clip of their own, section 3.2.2;
split and unsplit part get noise of the same standard deviation. In the federated version a "sample"
is a client, and its "gradient" is minus what local training moves its weights by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from repro._validate import integer, nonnegative, positive
from repro.federated.clipping import bytes_per_record, clipped_part_sums
from repro.federated.participation import BalancedIterations, PoissonIterations
from repro.federated.partitioning.local_training import Local, local_updates
from repro.federated.partitioning.submodels import (
    Routed,
    create_submodels,
    draw_masks,
    dropping,
    middle_blocks,
    split_parameters,
)
from repro.federated.server import Momentum, gaussian, streams
from repro.models.residual import ResidualNet

Sampling = PoissonIterations | BalancedIterations


@dataclass(frozen=True)
class Settings:
    """Clipping, noise and the server's optimiser.

    Attributes:
        clip: [c] largest norm of a contribution on the split part, > 0; `math.inf`: not clipped.
        unsplit_clip: the same on the unsplit part.
        sigma: standard deviation of the noise on the sum of contributions in every coordinate, >=
            0. It is absolute; divided by the mean batch it is the noise on the mean contribution.
        learning_rate: of the server, on the sum divided by the mean batch, > 0.
        momentum: of the server, in [0, 1).

    Raises:
        ValueError: a value out of range, or noise without clipping (it would guarantee nothing).
    """

    clip: float
    unsplit_clip: float
    sigma: float
    learning_rate: float
    momentum: float = 0.0

    def __post_init__(self) -> None:
        for name in ("clip", "unsplit_clip"):
            if getattr(self, name) != math.inf:
                positive(name, getattr(self, name))
        nonnegative("sigma", self.sigma)
        if self.sigma > 0 and math.inf in (self.clip, self.unsplit_clip):
            raise ValueError(
                f"sigma must be 0 where a part is not clipped, got {self.sigma!r} with clip = "
                f"{self.clip!r} and unsplit_clip = {self.unsplit_clip!r}"
            )
        positive("learning_rate", self.learning_rate)
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum!r}")


@dataclass(frozen=True)
class Splitting:
    """How submodels are formed.

    Attributes:
        submodels: [d] at least 1; 1 means that everybody trains the whole model.
        first, last: blocks that are not split, out of those that could be left out.
        shuffled: deal the blocks anew in every iteration, instead of once and for all.
    """

    submodels: int
    first: int = 0
    last: int = 0
    shuffled: bool = False


@dataclass(frozen=True)
class Step:
    """What happened in one iteration; the model has been updated.

    Attributes:
        iteration: t, from 1.
        batch: number of contributions (samples, or clients).
        signal: norm of the sum of clipped contributions, before the noise.
        noise: norm of the noise added to it.
        clipped, unsplit_clipped: share of the contributions that were longer than the clip on the
            split and on the unsplit part (0 for an empty batch).
    """

    iteration: int
    batch: int
    signal: float
    noise: float
    clipped: float
    unsplit_clipped: float


Watch = Callable[[Step], None]
Contributions = Callable[[NDArray[np.int64], np.random.Generator], tuple[Tensor, Tensor]]
"""From the drawn samples to the flat sum of clipped contributions, and their norms (2, batch)."""


def train(
    net: ResidualNet,
    images: Tensor,
    labels: Tensor,
    sampling: Sampling,
    splitting: Splitting,
    settings: Settings,
    seed: int,
    *,
    memory: float = 2**28,
    watch: Watch | None = None,
    watch_every: int = 1,
) -> None:
    """Run Algorithm 1 and update `net` in place.

    Privacy: partition, noise and draws come from a seeded generator so that experiments can be
    repeated. That is right for studying accuracy and wrong for protecting anybody: a deployment
    draws the samples, their submodels and the noise from a secret, cryptographically secure
    source, and in a way that floating-point rounding cannot be exploited.

    Formal guarantee: given the drawn batches, one sample changes the sum before the noise on its
    submodel's split blocks by at most `clip`, on the other submodels' not at all, and on the
    unsplit part by at most `unsplit_clip`: the mechanism that `repro.accounting.ModelSplitting`
    analyses, once per iteration.

    Args:
        net: network on the device of `images`.
        images: raw images of all samples, shape (samples, colours, h, w).
        labels: shape (samples,).
        sampling: who takes part when; its `records` are the samples.
        splitting, settings: see there.
        seed: >= 0. Same arguments and machine: the same numbers, bit for bit. The draws depend on
            the seed, the sampling and the splitting only, so that noise levels are compared on the
            same batches and submodels.
        memory: bytes that a chunk of the batch may take, about; sums over chunks are the same up to
            rounding.
        watch: called after every `watch_every`-th iteration, and after the last.

    Raises:
        ValueError: an argument is out of range, or sizes disagree.
        FloatingPointError: training diverged (checked where it is watched).
    """
    _one_each(sampling, images, labels)
    blocks = middle_blocks(net, splitting.first, splitting.last)
    fixed = create_submodels(blocks, splitting.submodels)
    parts = _two_parts(net, split_parameters(net, blocks), settings)
    weights = Momentum(net, settings.learning_rate, settings.momentum)
    trained = [p for p in net.parameters() if p.requires_grad]
    at_once = max(1, int(positive("memory", memory) // bytes_per_record(net, images)))

    def contributions(drawn: NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        d = splitting.submodels
        partition = create_submodels(blocks, d, rng) if splitting.shuffled else fixed
        assigned = rng.integers(d, size=len(drawn))
        total, norms = weights.zeros(), [images.new_zeros((2, 0), dtype=torch.float32)]
        for piece in _pieces(len(drawn), at_once):
            order = piece[np.argsort(assigned[piece], kind="stable")]
            chosen = torch.from_numpy(drawn[order]).to(images.device)
            model = Routed(net, partition, np.bincount(assigned[order], minlength=d))
            found = clipped_part_sums(model, images[chosen], labels[chosen], parts, rows=model.rows)
            weights.add(total, trained, found.gradient)
            norms.append(found.norms)
        return total, torch.cat(norms, dim=1)

    _descend(weights, contributions, sampling, settings, seed, images.device, watch, watch_every)


def train_with_dropout(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    sampling: Sampling,
    split: Sequence[nn.Parameter],
    settings: Settings,
    seed: int,
    *,
    memory: float = 2**28,
    watch: Watch | None = None,
    watch_every: int = 1,
) -> None:
    """Run Algorithm 2 and update `model` in place; every sample has its own dropout masks.

    Formal guarantee: as of `train`, with Corollary 3.7 in the place of Theorem 3.4 (d = 2) for the
    split part alone. The printed algorithm clips all parameters together, also those that no
    dropout touches; there the corollary does not hold, hence the two clips.

    Args:
        model: network with `NodeDropout` layers and layers that `clipped_part_sums` covers.
        split: parameters whose gradient vanishes where a node is dropped: weights and biases of the
            layers before, weights of the layers after the dropout (their biases never vanish).
        images, labels, sampling, settings, seed, memory, watch, watch_every: as in `train`.

    Raises:
        ValueError: as `train`; or the model has no `NodeDropout` layer.
    """
    _one_each(sampling, images, labels)
    parts = _two_parts(model, split, settings)
    weights = Momentum(model, settings.learning_rate, settings.momentum)
    trained = [p for p in model.parameters() if p.requires_grad]
    at_once = max(1, int(positive("memory", memory) // bytes_per_record(model, images)))

    def contributions(drawn: NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        masks = draw_masks(model, len(drawn), rng)
        total, norms = weights.zeros(), [images.new_zeros((2, 0), dtype=torch.float32)]
        for piece in _pieces(len(drawn), at_once):
            chosen = torch.from_numpy(drawn[piece]).to(images.device)
            with dropping(model, [mask[piece] for mask in masks]):
                found = clipped_part_sums(model, images[chosen], labels[chosen], parts)
            weights.add(total, trained, found.gradient)
            norms.append(found.norms)
        return total, torch.cat(norms, dim=1)

    _descend(weights, contributions, sampling, settings, seed, images.device, watch, watch_every)


def train_federated(
    net: ResidualNet,
    images: Tensor,
    labels: Tensor,
    sampling: Sampling,
    splitting: Splitting,
    local: Local,
    settings: Settings,
    seed: int,
    *,
    memory: float = 2**28,
    watch: Watch | None = None,
    watch_every: int = 1,
) -> None:
    """Run the federated version of Algorithm 1 (partitioning, section 4.1) and update `net`.

    Formal guarantee: as of `train` with a client, that is all of its samples, in the place of a
    sample: user-level privacy.

    Args:
        images: shape (clients, samples, colours, h, w); labels: shape (clients, samples).
        sampling: who takes part when; its `records` are the clients.
        local: what a client does.
        net, splitting, settings, seed, memory, watch, watch_every: as in `train`.
    """
    _one_each(sampling, images, labels)
    blocks = middle_blocks(net, splitting.first, splitting.last)
    fixed = create_submodels(blocks, splitting.submodels)
    weights = Momentum(net, settings.learning_rate, settings.momentum)
    per_client = images.shape[1] * bytes_per_record(net, images[0])
    per_client += 4 * sum(p.numel() * p.element_size() for p in net.parameters())
    at_once = max(1, int(positive("memory", memory) // per_client))

    def contributions(drawn: NDArray[np.int64], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        d = splitting.submodels
        partition = create_submodels(blocks, d, rng) if splitting.shuffled else fixed
        assigned = torch.from_numpy(rng.integers(d, size=len(drawn))).to(images.device)
        total, norms = weights.zeros(), [images.new_zeros((2, 0), dtype=torch.float32)]
        for piece in _pieces(len(drawn), at_once):
            chosen = torch.from_numpy(drawn[piece]).to(images.device)
            submodel = assigned[torch.from_numpy(piece).to(images.device)]
            for group in local_updates(
                net, partition, submodel, images[chosen], labels[chosen], local
            ):
                lengths = group.norms()
                limits = lengths.new_tensor([settings.clip, settings.unsplit_clip])[:, None]
                scale = -(lengths / limits).clamp_(min=1.0).reciprocal_()
                for parameter, moved in group.weighted_sum(scale):
                    weights.add(total, [parameter], [moved])
                norms.append(lengths)
        return total, torch.cat(norms, dim=1)

    _descend(weights, contributions, sampling, settings, seed, images.device, watch, watch_every)


def _descend(
    weights: Momentum,
    contributions: Contributions,
    sampling: Sampling,
    settings: Settings,
    seed: int,
    device: torch.device,
    watch: Watch | None,
    watch_every: int,
) -> None:
    """The loop that the algorithms share: draw, sum up, add noise, step, report."""
    integer("watch_every", watch_every, 1)
    draws, noises = streams(seed, device)
    scale = 1.0 / sampling.mean_batch
    for t, drawn in enumerate(sampling.batches(draws), start=1):
        total, norms = contributions(drawn, draws)
        noise = gaussian(total, settings.sigma, noises)
        weights.step((total if noise is None else total + noise) * scale)
        if watch is None or (t % watch_every and t != sampling.iterations):
            continue
        signal = float(torch.linalg.vector_norm(total))
        if not math.isfinite(signal) or not weights.finite():
            raise FloatingPointError(
                f"training diverged by iteration {t}: contributions or weights are not finite"
            )
        over = norms > norms.new_tensor([settings.clip, settings.unsplit_clip])[:, None]
        shares = over.double().mean(dim=1).tolist() if len(drawn) else [0.0, 0.0]
        watch(
            Step(
                iteration=t,
                batch=len(drawn),
                signal=signal,
                noise=0.0 if noise is None else float(torch.linalg.vector_norm(noise)),
                clipped=shares[0],
                unsplit_clipped=shares[1],
            )
        )


def _two_parts(
    model: nn.Module, split: Sequence[nn.Parameter], settings: Settings
) -> list[tuple[list[nn.Parameter], float]]:
    """The split and the unsplit parameters, each with its clip."""
    inside = {id(p) for p in split}
    rest = [p for p in model.parameters() if p.requires_grad and id(p) not in inside]
    return [(list(split), settings.clip), (rest, settings.unsplit_clip)]


def _pieces(count: int, at_once: int) -> Iterator[NDArray[np.int64]]:
    """The numbers 0 .. count - 1 in runs of at most `at_once`, of nearly equal length."""
    if count:
        yield from np.array_split(np.arange(count), -(-count // at_once))


def _one_each(sampling: Sampling, images: Tensor, labels: Tensor) -> None:
    if not sampling.records == len(images) == len(labels):
        raise ValueError(
            "sampling.records, images and labels must have the same length, got "
            f"{sampling.records}, {len(images)}, {len(labels)}"
        )
