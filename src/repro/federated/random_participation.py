"""DP-DSGD with random participation: Algorithm 1 of random_participation, and its baselines.

    for t in [T]:                                          the paper's box, and where it is done
        here client i takes part with probability p             } `TwoLevelPoisson.draw` client i
        draws each of its records w.p. q          } g_i = sum of clipped gradients, C
        } `clipped_gradient_sum`, all clients at once: aggregate sum_i g_i
        }  the sum over clients of sums over records g = (sum_i g_i + N(0, sigma^2 I)) / (p N q d)
        `gaussian`, `scale` w = w - eta g                                        `Momentum.step`
        (momentum 0.9 in appendix B)

The baselines of the paper (weak client sampling, only local sampling) run the same algorithm with
the noise level that their weaker analysis asks for; training without privacy has neither clipping
nor noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from repro._validate import in_unit, integer, positive
from repro.federated.clipping import clipped_gradient_sum, gradient_sum
from repro.federated.participation import TwoLevelPoisson
from repro.federated.server import Momentum, gaussian, streams


@dataclass(frozen=True)
class Settings:
    """The parameters of Algorithm 1, in the field's words and (in brackets) the paper's letters.

    Attributes:
        iterations: [T] at least 1.
        p: client participation rate, in (0, 1].
        q: record sampling rate within a client, in (0, 1].
        learning_rate: [eta_t] constant, > 0.
        clip: [C] largest norm of a record's gradient, > 0; None trains without clipping.
        sigma: standard deviation of the noise on the sum of gradients in every coordinate, >= 0. It
            is absolute, as in the paper: the noise multiplier of other libraries is sigma / C.
        momentum: of the server's SGD, in [0, 1).

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

    def __post_init__(self) -> None:
        integer("iterations", self.iterations, 1)
        for name in ("p", "q"):
            in_unit(name, getattr(self, name))
            positive(name, getattr(self, name))
        positive("learning_rate", self.learning_rate)
        if self.clip is not None and self.clip != math.inf:
            positive("clip", self.clip)
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ValueError(f"sigma must be finite and >= 0, got {self.sigma!r}")
        if self.sigma > 0 and (self.clip is None or self.clip == math.inf):
            raise ValueError(
                f"sigma must be 0 when clip is {self.clip!r}: noise hides only clipped gradients"
            )
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum!r}")


@dataclass(frozen=True)
class Step:
    """What happened in one iteration; the model has been updated.

    Attributes:
        iteration: t, from 1.
        clients: number of participants |P_t|.
        batch: number of drawn records.
        signal: norm of the sum of (clipped) gradients, before the noise.
        noise: norm of the noise added to it.
        clipped: share of the drawn records whose gradient was longer than `clip` (0 for an empty
            batch).
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
    watch: Callable[[Step], None] | None = None,
    watch_every: int = 1,
) -> None:
    """Run Algorithm 1 and update `model` in place.

    Privacy: the noise comes from a seeded generator so that experiments can be repeated. That is
    right for studying accuracy and wrong for protecting anybody: a deployment draws clients,
    records and noise from a secret, cryptographically secure source, and in a way that
    floating-point rounding cannot be exploited.

    Args:
        model: network on the device of `images`; see `clipped_gradient_sum` for the layers allowed.
        images: all records, client after client, shape (records, ...).
        labels: shape (records,).
        sizes: records per client (d_i), shape (N,); they sum to `records`.
        settings: see `Settings`.
        seed: >= 0. Same model, data, settings, seed and machine: the same numbers, bit for bit. Who
            is drawn depends on the seed and (sizes, p, q) only, so that noise levels are compared
            on the same batches.
        watch: called after every `watch_every`-th iteration, and after the last.

    Raises:
        ValueError: sizes and records disagree, or an argument is out of range.
        FloatingPointError: training diverged (checked where it is watched).
    """
    participation = TwoLevelPoisson(sizes, settings.p, settings.q)
    held = int(np.sum(sizes))
    if not held == len(images) == len(labels) or held == 0:
        raise ValueError(
            "sizes must sum to the number of images and labels (and to 1 or more), got "
            f"{held}, {len(images)}, {len(labels)}"
        )
    integer("watch_every", watch_every, 1)
    draws, noises = streams(seed, images.device)
    weights = Momentum(model, settings.learning_rate, settings.momentum)
    scale = 1.0 / participation.mean_batch  # 1 / (p N q d)

    for t in range(1, settings.iterations + 1):
        drawn = participation.draw(draws)
        records = torch.from_numpy(drawn.records).to(images.device)
        batch, truth = images[records], labels[records]

        norms = None
        if settings.clip is None:
            gradients = gradient_sum(model, batch, truth)
        else:
            result = clipped_gradient_sum(model, batch, truth, settings.clip)
            gradients, norms = result.gradient, result.norms
        total = weights.flatten(gradients)
        noise = gaussian(total, settings.sigma, noises)
        weights.step((total if noise is None else total + noise) * scale)

        if watch is not None and (t % watch_every == 0 or t == settings.iterations):
            signal = float(torch.linalg.vector_norm(total))
            if not math.isfinite(signal) or not weights.finite():
                raise FloatingPointError(
                    f"training diverged by iteration {t}: gradients or weights are not finite"
                )
            watch(
                Step(
                    iteration=t,
                    clients=len(drawn.clients),
                    batch=len(records),
                    signal=signal,
                    noise=0.0 if noise is None else float(torch.linalg.vector_norm(noise)),
                    clipped=0.0
                    if norms is None or not len(records)
                    else float((norms > settings.clip).double().mean()),
                )
            )
