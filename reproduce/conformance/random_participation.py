"""Adapter of `repro.federated.random_participation`: a linear classifier of two classes, with biases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from repro.conformance import Promise
from repro.conformance.checks_epsilon import bracket
from repro.federated.random_participation import Settings, train

Array = NDArray[np.float64]

NOTES = """\
Algorithm 1 divides by p q N d, the mean number of records in a batch. This number depends on how many records there
are, so a guarantee for adding or removing a record needs that number to be fixed beforehand, or public. The theorem
speaks of the noisy sum, where this question does not arise. The first examination lets a record come or go while the
program recomputes its divisor; the second one takes the number of records as public. With n records the first effect is
a relative change of 1/n, large for the six records that are used here and small for a real data set. What is examined
is the noisy mean gradient of all weights and biases of a linear model, as its update shows it. Noise and draws come
from seeded generators, which suits experiments and protects nobody."""

_RATE = 1e-9  # so small a step that the gradients of later rounds are those at zero weights
_P, _Q, _SIZES = 0.5, 0.4, (2, 2, 2)


@dataclass(frozen=True)
class RandomParticipation:
    """Records as inputs of a linear model: at zero weights the gradient is a multiple of the input."""

    promise: Promise
    can_silence: bool = True

    @property
    def name(self) -> str:
        """The algorithm, and what is taken as public."""
        public = ", number of records public" if self.promise.adjacency == "zero_out" else ""
        return f"Algorithm 1 of random_participation{public}"

    def run(
        self,
        vectors: Array,
        owner: NDArray[np.int64],
        *,
        repetitions: int,
        rounds: int,
        noise: bool,
        seed: int,
    ) -> Array:
        """See `repro.conformance.Engine.run`."""
        promise = self.promise
        settings = Settings(
            iterations=rounds,
            p=promise.participation,
            q=promise.local_rate,
            learning_rate=_RATE,
            clip=promise.clip,
            sigma=promise.noise_multiplier * promise.clip if noise else 0.0,
            momentum=0.0,
        )
        inputs = torch.from_numpy(sqrt(2) * vectors)
        labels = torch.zeros(len(vectors), dtype=torch.int64)
        seeds = np.random.SeedSequence(seed).generate_state(repetitions)
        return np.stack(
            [_released(settings, inputs, labels, np.bincount(owner), int(s)) for s in seeds]
        )


def _released(
    settings: Settings, inputs: torch.Tensor, labels: torch.Tensor, sizes: Array, seed: int
) -> Array:
    """The mean gradients of one run, shape (rounds, 1, coordinates)."""
    model = nn.Linear(inputs.shape[1], 2, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    path = [np.zeros((2, inputs.shape[1] + 1))]

    def keep(_: object) -> None:
        path.append(
            np.hstack([model.weight.detach().numpy(), model.bias.detach().numpy()[:, None]])
        )

    train(model, inputs, labels, sizes, settings, seed, watch=keep)
    one, two = -np.diff(path, axis=0).swapaxes(0, 1) / _RATE
    return np.hstack([(two - one), (two + one)])[:, None] / sqrt(
        2
    )  # a rotation: norms and noise stay


def engines() -> list[RandomParticipation]:
    """With the promise at its word, and with a public number of records."""
    promise = Promise(
        clients=len(_SIZES),
        records=_SIZES[0],
        rounds=3,
        clip=1.0,
        noise_multiplier=1.5,
        divisor=_P * _Q * sum(_SIZES),
        participation=_P,
        local_rate=_Q,
    )
    promise = replace(promise, epsilon=bracket(promise)[1])
    return [
        RandomParticipation(promise),
        RandomParticipation(replace(promise, adjacency="zero_out")),
    ]
