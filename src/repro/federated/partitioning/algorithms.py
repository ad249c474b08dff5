"""Training with a randomly partitioned model: Algorithm 1 of partitioning, central and federated.

The lines of the paper's box have no numbers; they are counted here.

     1  M <- init(m)                                                 the caller's network
     2  for t = 1 to T:                                              `_algorithm_1`
     3      M_1, ..., M_d <- create_subnets(M, d)                    `create_submodels`
     4      grad_sum <- zero_vector(m)                               `Momentum.zeros`
     5      for x in S:                                              `sampling.batches` (section 3.3)
     6          k <- random_integer(1, ..., d)                       all samples at once
     7          grad <- d Loss(M_k, x) / dM, 0 outside of M_k        } `Routed` and `clipped_part_sums`;
     8          grad <- clip(grad, c)                                }   federated: `local_updates`
     9          grad_sum <- grad_sum + grad                          }   and `clip_and_add`
    10      noisy_grad_sum <- N(grad_sum, sigma^2)                   `gaussian`
    11      update_model(M, noisy_grad_sum)                          `Momentum.step`

The parameters that every sample trains (the "unsplit part") have a clip of their own, section 3.2.2.
Split and unsplit part get noise of the same standard deviation. In the federated version (section 4.1)
a "sample" is a client, and its "gradient" is the distance from its trained weights back to the server's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repro._validate import below_one, choice, integer, nonnegative, one, positive
from repro.accounting import BalancedIterationSubsampling, ModelSplitting, compose
from repro.federated.checkpoint import Checkpoint, Saved, identity
from repro.federated.clipping import bytes_per_record, clipped_part_sums
from repro.federated.guarantee import Guarantee, bracket, needs_noise
from repro.federated.participation import BalancedIterations, PoissonIterations
from repro.federated.partitioning.local_training import Local, Updates, local_updates
from repro.federated.partitioning.submodels import (
    Partition,
    Routed,
    create_submodels,
    middle_blocks,
    split_parameters,
)
from repro.federated.ranks import ALONE, Ranks
from repro.federated.server import Momentum, gaussian, streams
from repro.models.residual import ResidualNet

Sampling = PoissonIterations | BalancedIterations


@dataclass(frozen=True)
class NoisyDescent:
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
                one(positive, name, getattr(self, name))
        one(nonnegative, "sigma", self.sigma)
        if self.sigma > 0 and math.inf in (self.clip, self.unsplit_clip):
            raise ValueError(
                f"sigma must be 0 where a part is not clipped, got {self.sigma!r} with clip = "
                f"{self.clip!r} and unsplit_clip = {self.unsplit_clip!r}"
            )
        one(positive, "learning_rate", self.learning_rate)
        one(below_one, "momentum", self.momentum)

    def guarantee(
        self, delta: float, sampling: Sampling, splitting: Splitting, *, neighbours: str = "record"
    ) -> Guarantee:
        """What a run with these settings guarantees each of `sampling.records`.

        Exact up to the accountant's rounding where the sampling is Poisson, or nothing is split.
        Balanced sampling of several submodels is bounded from above as if submodels were disclosed,
        and from below by gradients on the unsplit part alone.

        Args:
            delta: in (0, 1).
            sampling, splitting: those of the run.
            neighbours: "record" for `train_on_submodels`, "client" for `train_federated`.

        Raises:
            ValueError: an argument out of range, or settings without noise.

        Source: partitioning, Theorems 3.4, 3.8 and 3.11, section 3.2.2.
        """
        choice("neighbours", neighbours, ("record", "client"))
        needs_noise(self.sigma)
        rounds, d = sampling.iterations, splitting.submodels
        if isinstance(sampling, PoissonIterations):
            clips = {"clip": self.clip, "unsplit_clip": self.unsplit_clip}
            round_ = ModelSplitting(self.sigma, submodels=d, rate=sampling.rate, **clips)
            return bracket(neighbours, delta, compose(round_, rounds))
        draws = {"iterations": rounds, "participations": sampling.participations}
        both = math.hypot(self.clip, self.unsplit_clip)
        whole = BalancedIterationSubsampling(self.sigma, clip=both, **draws)
        unsplit = BalancedIterationSubsampling(self.sigma, clip=self.unsplit_clip, **draws)
        attained = whole if d == 1 else unsplit
        return bracket(neighbours, delta, compose(whole), compose(attained))


@dataclass(frozen=True)
class Splitting:
    """How submodels are formed.

    Attributes:
        submodels: [d] at least 1; 1 means that everybody trains the whole model.
        first: number of first blocks that are not split, out of those that could be left out, >= 0.
        last: number of last blocks that are not split, >= 0.
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
AddClipped = Callable[[Tensor, Partition, NDArray[np.int64], NDArray[np.int64]], Tensor]
"""Lines 7 to 9: add the clipped contributions of some samples, given with their submodels, to a flat
sum; returns the norms before clipping, shape (2, samples)."""


def train_on_submodels(
    net: ResidualNet,
    images: Tensor,
    labels: Tensor,
    sampling: Sampling,
    splitting: Splitting,
    descent: NoisyDescent,
    seed: int,
    *,
    memory: float = 2**28,
    watch: Watch | None = None,
    watch_every: int = 1,
    checkpoint: Checkpoint | None = None,
    ranks: Ranks = ALONE,
) -> None:
    """Run Algorithm 1 and update `net` in place.

    Privacy: partition, noise and draws come from a seeded generator so that experiments can be
    repeated. That is right for studying accuracy and wrong for protecting anybody: a deployment
    draws the samples, their submodels and the noise from a secret, cryptographically secure
    source, and in a way that floating-point rounding cannot be exploited.

    Formal guarantee: given the drawn batches, one sample changes the sum before the noise on its
    submodel's split blocks by at most `clip`, on the other submodels' not at all, and on the
    unsplit part by at most `unsplit_clip`: the mechanism that `repro.accounting.ModelSplitting`
    analyses, once per iteration (Theorem 3.4).

    Args:
        net: network on the device of `images`.
        images: raw images of all samples, shape (samples, colours, h, w).
        labels: classes, int64, shape (samples,).
        sampling: who takes part when; its `records` are the samples.
        splitting: how submodels are formed.
        descent: clips, noise and optimiser.
        seed: >= 0. Same arguments and machine: the same numbers, bit for bit. The draws depend on
            the seed, the sampling and the splitting only, so that noise levels are compared on the
            same batches and submodels.
        memory: bytes that a chunk of the batch may take, about, > 0; sums over chunks are the same
            up to rounding.
        watch: called after every `watch_every`-th iteration, and after the last.
        watch_every: iterations, >= 1.
        checkpoint: where the run is saved, and resumed from if it is found there: the model then
            becomes what it would have been without the interruption, bit for bit.
        ranks: the processes that share this run, as in `repro.federated.random_participation.train`.

    Raises:
        ValueError: an argument is out of range, sizes disagree, or the checkpoint is of another run.
        LostRankError: another rank is gone.
        FloatingPointError: training diverged (checked where it is watched).
    """
    told = (sampling, splitting, descent, seed, memory)
    run = identity(checkpoint or ranks.count > 1, told, images, labels, net)
    weights = Momentum(net, descent.learning_rate, descent.momentum)
    trained = [p for p in net.parameters() if p.requires_grad]
    split = split_parameters(net, middle_blocks(net, splitting.first, splitting.last))
    inside = {id(p) for p in split}
    unsplit = [p for p in trained if id(p) not in inside]
    parts = [(split, descent.clip), (unsplit, descent.unsplit_clip)]

    def add_clipped(grad_sum, partition, samples, submodel):
        order = np.argsort(submodel, kind="stable")
        chosen = torch.from_numpy(samples[order]).to(images.device)
        model = Routed(net, partition, np.bincount(submodel, minlength=len(partition)))
        sums = clipped_part_sums(model, images[chosen], labels[chosen], parts, rows=model.rows)
        weights.add(grad_sum, trained, sums.gradient)
        return sums.norms

    _one_each(sampling, images, labels)
    at_once = max(1, int(positive("memory", memory) // bytes_per_record(net, images)))
    draws, noises = streams(seed, images.device)
    saved = Saved(checkpoint, run, net, weights, noises, sampling.iterations, ranks)
    iterations = _algorithm_1(sampling, splitting, descent, draws, add_clipped, at_once, saved)
    _watched(iterations, saved, watch, watch_every)


def train_federated(
    net: ResidualNet,
    images: Tensor,
    labels: Tensor,
    sampling: Sampling,
    splitting: Splitting,
    local: Local,
    descent: NoisyDescent,
    seed: int,
    *,
    memory: float = 2**28,
    watch: Watch | None = None,
    watch_every: int = 1,
    checkpoint: Checkpoint | None = None,
    ranks: Ranks = ALONE,
) -> None:
    """Run the federated version of Algorithm 1 (section 4.1) and update `net` in place.

    Formal guarantee: that of `train_on_submodels` with a client, that is all of its samples, in the
    place of a sample: user-level privacy.

    Args:
        net: network on the device of `images`.
        images: shape (clients, samples, colours, h, w).
        labels: classes, int64, shape (clients, samples).
        sampling: who takes part when; its `records` are the clients.
        splitting: how submodels are formed.
        local: what a client does.
        descent: clips, noise and the server's optimiser.
        seed: as in `train_on_submodels`.
        memory: as in `train_on_submodels`.
        watch: as in `train_on_submodels`.
        watch_every: as in `train_on_submodels`.
        checkpoint, ranks: as in `train_on_submodels`.

    Raises:
        ValueError: an argument is out of range, sizes disagree, or the checkpoint is of another run.
        FloatingPointError: training diverged (checked where it is watched).
    """
    told = (sampling, splitting, local, descent, seed, memory)
    run = identity(checkpoint or ranks.count > 1, told, images, labels, net)
    weights = Momentum(net, descent.learning_rate, descent.momentum)

    def add_clipped(grad_sum, partition, clients, submodel):
        chosen = torch.from_numpy(clients).to(images.device)
        assigned = torch.from_numpy(submodel).to(images.device)
        updates = local_updates(net, partition, assigned, images[chosen], labels[chosen], local)
        return clip_and_add(weights, grad_sum, updates, descent)

    _one_each(sampling, images, labels)
    per_client = images.shape[1] * bytes_per_record(net, images[0])
    per_client += 4 * sum(p.numel() * p.element_size() for p in net.parameters())
    at_once = max(1, int(positive("memory", memory) // per_client))
    draws, noises = streams(seed, images.device)
    saved = Saved(checkpoint, run, net, weights, noises, sampling.iterations, ranks)
    iterations = _algorithm_1(sampling, splitting, descent, draws, add_clipped, at_once, saved)
    _watched(iterations, saved, watch, watch_every)


@dataclass(frozen=True)
class _Iteration:
    """What one iteration computed: flat sum and noise, and this rank's norms before clipping (2, n)."""

    number: int
    batch: int
    grad_sum: Tensor
    noise: Tensor | None
    norms: Tensor
    limits: Tensor


def _algorithm_1(
    sampling: Sampling,
    splitting: Splitting,
    descent: NoisyDescent,
    draws: np.random.Generator,
    add_clipped: AddClipped,
    at_once: int,
    saved: Saved,
) -> Iterator[_Iteration]:
    """The box from the first round that is not `saved`; `at_once` samples are held at a time."""
    weights, ranks, d = saved.weights, saved.ranks, splitting.submodels
    blocks = middle_blocks(saved.model, splitting.first, splitting.last)
    fixed = create_submodels(blocks, d)
    finished = saved.begin()
    for t, batch in enumerate(sampling.batches(draws), start=1):  # lines 2 and 5
        partition = create_submodels(blocks, d, draws) if splitting.shuffled else fixed  # line 3
        submodel = draws.integers(d, size=len(batch))  # line 6
        if t <= finished:
            continue
        grad_sum = weights.zeros()  # line 4
        norms = [grad_sum.new_zeros((2, 0), dtype=torch.float32)]
        mine = np.arange(len(batch))[ranks.part(len(batch))]
        for piece in _pieces(mine, at_once):  # lines 7 to 9
            norms.append(add_clipped(grad_sum, partition, batch[piece], submodel[piece]))
        grad_sum = ranks.sum(grad_sum)
        noise = gaussian(grad_sum, descent.sigma, saved.noises)
        noisy_grad_sum = grad_sum if noise is None else grad_sum + noise  # line 10
        weights.step(noisy_grad_sum * (1.0 / sampling.mean_batch))  # line 11
        saved.end(t)
        lengths = torch.cat(norms, dim=1)
        limits = lengths.new_tensor([descent.clip, descent.unsplit_clip])[:, None]
        yield _Iteration(t, len(batch), grad_sum, noise, lengths, limits)


def clip_and_add(
    weights: Momentum, grad_sum: Tensor, updates: Iterator[Updates], descent: NoisyDescent
) -> Tensor:
    """Lines 8 and 9 for clients: add minus the clipped updates, return the norms (2, clients)."""
    norms = []
    for group in updates:
        lengths = group.norms()
        limits = lengths.new_tensor([descent.clip, descent.unsplit_clip])[:, None]
        scale = -(lengths / limits).clamp_(min=1.0).reciprocal_()
        for parameter, moved in group.weighted_sum(scale):
            weights.add(grad_sum, [parameter], [moved])
        norms.append(lengths)
    return torch.cat(norms, dim=1)


def _watched(
    iterations: Iterator[_Iteration], saved: Saved, watch: Watch | None, watch_every: int
) -> None:
    """Run all iterations and report some of them."""
    integer("watch_every", watch_every, 1)
    for done in iterations:
        last = done.number == saved.rounds
        told = watch is not None and (last or done.number % watch_every == 0)
        if not (told or last):
            continue
        signal = float(torch.linalg.vector_norm(done.grad_sum))
        if not math.isfinite(signal) or not saved.weights.finite():
            raise FloatingPointError(
                f"training diverged by iteration {done.number}: contributions or weights are not "
                "finite"
            )
        if not told:
            continue
        over = (done.norms > done.limits).sum(dim=1).tolist()
        shares = [saved.ranks.count_all(count) / max(1, done.batch) for count in over]
        noise = 0.0 if done.noise is None else float(torch.linalg.vector_norm(done.noise))
        if saved.ranks.first:
            watch(Step(done.number, done.batch, signal, noise, *shares))


def _pieces(places: NDArray[np.int64], at_once: int) -> Iterator[NDArray[np.int64]]:
    """The places in runs of at most `at_once`, of nearly equal length."""
    if len(places):
        yield from np.array_split(places, -(-len(places) // at_once))


def _one_each(sampling: Sampling, images: Tensor, labels: Tensor) -> None:
    if not sampling.records == len(images) == len(labels):
        raise ValueError(
            "sampling.records, images and labels must have the same length, got "
            f"{sampling.records}, {len(images)}, {len(labels)}"
        )
