"""Adapter of `repro.federated.pmsfl`: the smashed data of SplitFed-DP, every client's seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from repro.conformance import Promise
from repro.federated.client_data import ClientData
from repro.federated.pmsfl.rivals import SplitFedDP
from repro.federated.pmsfl.split_method import Plan
from repro.models.split import DEPTH, SplitNetwork

Array = NDArray[np.float64]

NOTES = """\
SplitFed-DP is the paper's baseline with noise. A client clips every activation that it sends to the server and adds
Laplace noise to each. The paper prints one budget for the smashed data and does not say of what. Here it is read as
that of a record. As every activation is clipped by itself, a record with n activations moves what is sent by up to n
clips, and needs n times the budget; read as the budget of one activation, it holds. What is examined is what a client
sends in one local step a round; its bottom model is the identity, so that the activations are the record. The masks
of PM-SFL are no sum with noise; the audit in `notebooks/pmsfl` examines them."""

_RATE = 1e-9  # so small a step that the bottom model stays the identity
_EPSILON = 0.5
_CLIP = 1.0


class _Head(nn.Module):
    """Logits (mean of the activations, 0)."""

    def forward(self, outputs: Tensor) -> Tensor:
        """(batch, coordinates) to (batch, 2)."""
        first = outputs.mean(dim=1, keepdim=True)
        return torch.cat([first, torch.zeros_like(first)], dim=1)


class _Heard(SplitFedDP):
    """SplitFed-DP, and what it sends."""

    def sent(self, smashed: Tensor, generator: torch.Generator) -> Tensor:
        """As `SplitFedDP.sent`."""
        found = super().sent(smashed, generator)
        self.__dict__.setdefault("heard", []).append(found.detach())
        return found


@dataclass(frozen=True)
class SmashedData:
    """Clients of one record each, which is what the bottom model sends; repetitions are clients of one run."""

    promise: Promise
    name: str = "SplitFed-DP of pmsfl, smashed data, the budget read as that of a record"
    can_silence: bool = True

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
        clients, coordinates = len(owner), vectors.shape[1]
        inputs = np.zeros((repetitions, clients, 2, coordinates), dtype=np.float32)
        inputs[:, :, 0] = vectors  # the second record is for testing, which is not asked for
        places = np.arange(2 * repetitions * clients).reshape(-1, 2)
        data = ClientData(
            inputs.reshape(-1, coordinates), np.ones(places.size, dtype=np.int64), 2,
            tuple(places[:, :1]), tuple(places[:, 1:]), "vectors", "none", "",
        )  # fmt: skip
        bottom = nn.Linear(coordinates, coordinates, bias=False)
        network = SplitNetwork([bottom, *(nn.Identity() for _ in range(DEPTH - 1))], _Head())
        nn.init.eye_(bottom.weight)
        method = _Heard(
            data,
            network,
            np.ones(len(places), dtype=int),
            Plan(rounds, 1.0, 1, 1, _RATE, _RATE, 0.01, "straight_through"),
            seed,
            torch.device("cpu"),
            smashed_epsilon=2 / self.promise.noise_multiplier,
            bound=_CLIP,
            update_epsilon=1.0,
            update_delta=1e-5,
            clip=_RATE,
        )
        if not noise:
            method.scale = 0.0
        for number in range(rounds):
            method.round(number)
        sent = torch.stack(method.heard).numpy().astype(float)
        seen = np.full((repetitions, rounds, self.promise.clients, coordinates), np.nan)
        seen[:, :, owner] = sent.reshape(rounds, repetitions, clients, coordinates).swapaxes(0, 1)
        return seen


def engines() -> list[SmashedData]:
    """One promise."""
    rounds = 3
    promise = Promise(
        clients=3,
        records=1,
        rounds=rounds,
        clip=_CLIP,
        noise_multiplier=2 / _EPSILON,
        divisor=1.0,
        adjacency="zero_out",
        uploads=True,
        law="laplace",
        epsilon=rounds * _EPSILON,
    )
    return [SmashedData(promise)]
