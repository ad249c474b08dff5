"""DP-DSGD with random participation: Algorithm 1 of random_participation, for all clients at once.

    Protocol in client i:                                   the paper's box, and its place below
     1  for t in [T] do                                     the loop of `train`
     2      sample B ~ Bern(p)                              `TwoLevelPoisson.draw`
     3      if B = 1 then                                   `TwoLevelPoisson.draw`
     4          inform the PS that B = 1                    no message: one process plays all roles
     5          receive w_t from the PS                     no message
     6          initialize g_i = 0                          `clipped_gradient_sum`
     7          sample S_i from D_i, each record w.p. q     `TwoLevelPoisson.draw`
     8          for s in S_i do                             `clipped_gradient_sum`
     9              add grad l(w_t, s) / max{1, |grad l(w_t, s)|_2 / C} to g_i
    10          end for
    11          send g_i to the PS                          no message
    12      end if
    13  end for
    Protocol in the PS:
    14  for t in [T] do                                     the loop of `train`
    15      learn P_t from the clients                      `drawn.clients`
    16      broadcast w_t to all i in P_t                   no message
    17      receive g_i from all i in P_t                   no message
    18      g_t = (sum_{i in P_t} g_i + N(0, sigma^2 I))    `clipped_gradient_sum`, `gaussian`
                  / (p N_t q d)                             `divisor`
    19      update w_{t+1} = w_t - eta_t g_t                `Momentum.step`, 0.9 in appendix B
    20  end for

All participating clients are summed at once: the inner sums g_i and their sum over P_t are one sum
over the drawn records.

The box has no line numbers in the paper; they are counted here from its top, without the two
headings. The baselines of the paper (weak client sampling, only local sampling) run the same
algorithm with the noise that their weaker analysis asks for. Training without privacy has neither
clipping nor noise.

Source: random_participation (arXiv 2205.01556v1), section 4.1, Algorithm 1 and appendix B.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from repro._validate import below_one, choice, in_unit, integer, nonnegative, one, positive
from repro.accounting import RandomParticipation, WeakClientSampling, compose
from repro.federated.checkpoint import Checkpoint, Saved, identity
from repro.federated.clipping import Loss, clipped_gradient_sum, cross_entropy, gradient_sum
from repro.federated.guarantee import Guarantee, bracket, needs_noise
from repro.federated.participation import TwoLevelPoisson
from repro.federated.ranks import ALONE, Ranks
from repro.federated.server import Momentum, gaussian, streams


@dataclass(frozen=True)
class Settings:
    """The parameters of Algorithm 1, in the field's words and (in brackets) the paper's letters.

    Attributes:
        iterations: [T] at least 1.
        p: [p] client participation rate, in (0, 1].
        q: [q] record sampling rate within a client, in (0, 1].
        learning_rate: [eta_t] constant, > 0.
        clip: [C] largest norm of a record's gradient, > 0; None trains without clipping.
        sigma: [sigma] standard deviation of the noise on the sum of gradients in every coordinate,
            >= 0. It is absolute, as in the paper: the noise multiplier of other libraries is
            sigma / C.
        momentum: of the server's SGD, in [0, 1); 0 is line 19 as printed.
        average: what the server divides by: "expected", p N_t q d as in line 18, or "realised", the
            number of records drawn (1 where none is). No bound of the paper covers "realised": the
            scale of the noise then tells how many records were drawn.

    Raises:
        ValueError: a value out of range, or noise without clipping (it would guarantee nothing).
    """

    iterations: int
    p: float
    q: float
    learning_rate: float
    clip: float | None = 1.0
    sigma: float = 0.0
    momentum: float = 0.9
    average: str = "expected"

    def __post_init__(self) -> None:
        integer("iterations", self.iterations, 1)
        for name in ("p", "q"):
            one(in_unit, name, getattr(self, name))
            positive(name, getattr(self, name))
        one(positive, "learning_rate", self.learning_rate)
        if self.clip is not None and self.clip != math.inf:
            one(positive, "clip", self.clip)
        if one(nonnegative, "sigma", self.sigma) > 0 and (
            self.clip is None or self.clip == math.inf
        ):
            raise ValueError(
                f"sigma must be 0 when clip is {self.clip!r}: noise hides only clipped gradients"
            )
        one(below_one, "momentum", self.momentum)
        choice("average", self.average, ("expected", "realised"))

    def guarantee(self, delta: float, *, sizes: ArrayLike | None = None) -> Guarantee:
        """What a run of `train` with these settings guarantees every record.

        Args:
            delta: in (0, 1).
            sizes: records per client, as `train` takes them; the largest client counts. Of two
                neighbours this is the larger one: a record that joins a client of the largest size
                is not covered, because the others' gradients tell who takes part. None: for
                federations of any sizes, bounded from above as if participants were disclosed.

        Raises:
            ValueError: delta or sizes out of range, settings without noise, or a sum that is divided by
                the realised batch size, which no theorem here covers.

        Source: random_participation, Theorem 4.1 as repaired, and Theorem 5.2.
        """
        needs_noise(self.sigma)
        if self.average != "expected":
            raise ValueError(f"average must be 'expected' for a guarantee, got {self.average!r}")
        rates = {"p": self.p, "q": self.q, "clip": self.clip}
        largest = 1
        if sizes is not None:
            largest = TwoLevelPoisson(sizes, self.p, self.q).largest
            integer("largest of sizes", largest, 1)
        round_ = RandomParticipation(self.sigma, samples_per_client=largest - 1, **rates)
        run = compose(round_, self.iterations)
        if sizes is not None:
            return bracket("record", delta, run)
        disclosed = compose(WeakClientSampling(self.sigma, **rates), self.iterations)
        return bracket("record", delta, disclosed, run)


@dataclass(frozen=True)
class Step:
    """What happened in one iteration; the model has been updated.

    Attributes:
        iteration: [t] from 1.
        clients: [|P_t|] number of participants.
        batch: number of drawn records.
        signal: norm of the sum of (clipped) gradients, before the noise.
        noise: norm of the noise added to that sum.
        clipped: share of the drawn records whose gradient was longer than `clip`, in [0, 1]; 0 for
            an empty batch.
    """

    iteration: int
    clients: int
    batch: int
    signal: float
    noise: float
    clipped: float


def train(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    sizes: np.ndarray,
    settings: Settings,
    seed: int,
    *,
    loss: Loss = cross_entropy,
    watch: Callable[[Step], None] | None = None,
    watch_every: int = 1,
    checkpoint: Checkpoint | None = None,
    ranks: Ranks = ALONE,
) -> None:
    """Run Algorithm 1 and update `model` in place.

    Privacy: the noise comes from a seeded generator so that experiments can be repeated. That suits
    a study of accuracy and protects nobody: a deployment draws clients, records and noise from a
    secret, cryptographically secure source, and in a way that resists attacks on floating-point
    rounding.

    Args:
        model: network on the device of `images`; see `clipped_gradient_sum` for the layers allowed.
        images: [D] all records, client after client, shape (records, ...).
        labels: their targets, shape (records, ...): classes as integers, or what `loss` takes.
        sizes: [d_i] records per client, integers >= 0, shape (N,); they sum to `records`.
        settings: see `Settings`.
        seed: >= 0. Same model, data, settings, seed and machine: the same numbers, bit for bit. The
            draws depend on the seed and (sizes, p, q) only, so that all noise levels are compared
            on the same batches.
        loss: maps outputs (batch, ...) and targets (batch, ...) to one loss per record, (batch,).
        watch: called with a `Step` after every `watch_every`-th iteration, and after the last; the
            place to evaluate the model, see `repro.federated.evaluation`.
        watch_every: iterations between two calls of `watch`, at least 1.
        checkpoint: where the run is saved, and resumed from if it is found there: the model then
            becomes what it would have been without the interruption, bit for bit. With several ranks
            it lies where all of them can read it, and rank 0 writes it.
        ranks: the processes that share this run, see `repro.federated.ranks`; each is called with the same
            arguments, and rank 0 alone calls `watch`. One rank and several agree up to the rounding of
            sums, except for layers that draw, such as dropout: each rank draws its own.

    Raises:
        ValueError: sizes and records disagree, an argument is out of range, the targets are not
            those of `loss`, the checkpoint is of another run, or the ranks differ in their arguments.
        LostRankError: another rank is gone.
        FloatingPointError: training diverged (checked in the iterations that are watched, and in the last).

    Source: random_participation (arXiv 2205.01556v1), Algorithm 1.
    """
    participation = TwoLevelPoisson(sizes, settings.p, settings.q)
    for name, given in (("images", images), ("labels", labels)):
        if not isinstance(given, Tensor):
            raise ValueError(f"{name} must be a torch.Tensor, got {type(given).__name__}")
    held = int(np.sum(np.asarray(sizes)))
    if not held == len(images) == len(labels) or held == 0:
        raise ValueError(
            "sizes must sum to the number of images and labels (and to 1 or more), got "
            f"{held}, {len(images)}, {len(labels)}"
        )
    integer("watch_every", watch_every, 1)
    draws, noises = streams(seed, images.device)
    told = (settings, seed, np.asarray(sizes).tolist(), getattr(loss, "__qualname__", ""))
    run = identity(checkpoint or ranks.count > 1, told, images, labels, model)
    weights = Momentum(model, settings.learning_rate, settings.momentum)
    expected = settings.average == "expected"
    saved = Saved(checkpoint, run, model, weights, noises, settings.iterations, ranks)
    finished = saved.begin()

    for t in range(1, settings.iterations + 1):  # lines 1 and 14
        drawn = participation.draw(draws)  # lines 2-3 and 7
        if t <= finished:
            continue
        records = torch.from_numpy(drawn.records).to(images.device)
        own = records[ranks.part(len(records))]
        batch, truth = images[own], labels[own]

        norms = None  # lines 6, 8-10 and the sum of line 18
        if settings.clip is None:
            gradients = gradient_sum(model, batch, truth, loss=loss)
        else:
            result = clipped_gradient_sum(model, batch, truth, settings.clip, loss=loss)
            gradients, norms = result.gradient, result.norms
        total = ranks.sum(weights.flatten(gradients))
        noise = gaussian(total, settings.sigma, noises)  # line 18
        divisor = participation.mean_batch if expected else max(1, len(records))  # p N q d
        noisy = total.clone() if noise is None else total + noise
        weights.step(noisy.mul_(1.0 / divisor))  # lines 18-19

        saved.end(t)
        if t == settings.iterations or (watch is not None and t % watch_every == 0):
            signal = float(torch.linalg.vector_norm(total))
            if not math.isfinite(signal) or not weights.finite():
                raise FloatingPointError(
                    f"training diverged by iteration {t}: gradients or weights are not finite"
                )
        if watch is not None and (t % watch_every == 0 or t == settings.iterations):
            clipped = 0 if norms is None else ranks.count_all(int((norms > settings.clip).sum()))
            if ranks.first:
                watch(
                    Step(
                        iteration=t,
                        clients=len(drawn.clients),
                        batch=len(records),
                        signal=signal,
                        noise=0.0 if noise is None else float(torch.linalg.vector_norm(noise)),
                        clipped=clipped / max(1, len(records)),
                    )
                )
