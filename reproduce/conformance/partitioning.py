"""Adapter of `repro.federated.partitioning`: central training of a network whose one block is linear."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from repro.conformance import Promise
from repro.conformance.checks_epsilon import bracket
from repro.federated.participation import BalancedIterations, PoissonIterations
from repro.federated.partitioning.algorithms import NoisyDescent, Splitting, train_on_submodels

Array = NDArray[np.float64]

NOTES = """\
Algorithm 1 divides by the mean batch, which depends on the number of records: that number is public in both
examinations, of Poisson sampling and of Balanced Iteration Subsampling. The whole network is one submodel here, so that
every parameter shows every record that is drawn. The secret draw of submodels, and the clip of the part that is not
split, are not examined: the promise of `repro.conformance` has no words for them. `tests/federated/partitioning` tests
both on the parts. Noise and draws come from seeded generators, which suits experiments and protects nobody."""

_RATE = 1e-9  # so small a step that the gradients of later rounds are those at zero weights
_RECORDS = 5


class _Linear(nn.Module):
    """The parts of a `ResidualNet`: one block that can be left out adds two logits to the record."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.pixels, self.stem = nn.Identity(), nn.Identity()
        self.blocks = nn.ModuleList([_Block(inputs)])
        self.head = _Logits()
        self.identity = (0,)

    def forward(self, records: Tensor) -> Tensor:
        return self.head(self.blocks[0](records))


class _Block(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, 2, bias=False, dtype=torch.float64)
        nn.init.zeros_(self.linear.weight)

    def forward(self, hidden: Tensor) -> Tensor:
        records = hidden[:, :-2]
        return torch.cat([records, hidden[:, -2:] + self.linear(records)], dim=1)


class _Logits(nn.Module):
    def forward(self, hidden: Tensor) -> Tensor:
        return hidden[:, -2:]


@dataclass(frozen=True)
class Partitioning:
    """Records as inputs of a linear model: at zero weights the gradient is a multiple of the input."""

    promise: Promise
    can_silence: bool = True

    @property
    def name(self) -> str:
        """The algorithm and its sampling."""
        return f"Algorithm 1 of partitioning, {self.promise.sampling} sampling"

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
        sigma = promise.noise_multiplier * promise.clip if noise else 0.0
        descent = NoisyDescent(promise.clip, promise.clip, sigma, _RATE)
        if promise.sampling == "balanced":
            sampling = BalancedIterations(len(vectors), rounds, promise.participations)
        else:
            sampling = PoissonIterations(len(vectors), rounds, promise.local_rate)
        inputs = torch.from_numpy(np.hstack([sqrt(2) * vectors, np.zeros((len(vectors), 2))]))
        seeds = np.random.SeedSequence(seed).generate_state(repetitions)
        return np.stack([_released(sampling, descent, inputs, int(s)) for s in seeds])


def _released(
    sampling: PoissonIterations | BalancedIterations,
    descent: NoisyDescent,
    inputs: Tensor,
    seed: int,
) -> Array:
    """The mean gradients of one run, shape (rounds, 1, coordinates)."""
    net = _Linear(inputs.shape[1] - 2)
    labels = torch.zeros(len(inputs), dtype=torch.int64)
    path = [net.blocks[0].linear.weight.detach().numpy().copy()]

    def keep(_: object) -> None:
        path.append(net.blocks[0].linear.weight.detach().numpy().copy())

    train_on_submodels(net, inputs, labels, sampling, Splitting(1), descent, seed, watch=keep)
    one, two = -np.diff(path, axis=0).swapaxes(0, 1) / _RATE
    return np.hstack([(two - one), (two + one)])[:, None] / sqrt(
        2
    )  # a rotation: norms and noise stay


def engines() -> list[Partitioning]:
    """Poisson and balanced sampling."""
    poisson = Promise(
        clients=1,
        records=_RECORDS,
        rounds=4,
        clip=1.0,
        noise_multiplier=1.2,
        divisor=_RECORDS / 4,
        local_rate=1 / 4,
        adjacency="zero_out",
    )
    balanced = replace(poisson, sampling="balanced", participations=1)
    return [Partitioning(replace(p, epsilon=bracket(p)[1])) for p in (poisson, balanced)]
