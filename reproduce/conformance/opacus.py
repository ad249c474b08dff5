"""Adapter of Opacus: `PrivacyEngine.make_private` with Poisson sampling, plain SGD and a linear model."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, replace
from importlib import metadata

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from repro.conformance import Promise

Array = NDArray[np.float64]

NOTES = """\
Opacus 1.6.0 with its defaults: Poisson sampling, flat clipping, mean of the losses, the accountant "prv". One epoch of
three batches is examined, with plain gradient descent and a linear model with a bias. Sampling rate and divisor are
computed from the data: the rate is 1 / ceil(n / batch size), and the divisor is the whole part of rate times n. Both
take the number n of records as public, which is a common convention. The first examination lets a record come or go
while the library recomputes both: 6 records in batches of 2 give the divisor 2, and 5 records the divisor 1. With real
sizes the divisor changes by at most one part in the mean batch, for sum and noise alike. The second examination takes
n as public. The third one switches Poisson sampling off: batches are then shuffled and the account stays the same. The
documentation itself says that this does not fit. Random numbers are torch's; the library's secure mode is not
examined."""

_BATCH, _RECORDS, _ROUNDS = 2, 6, 3
_RATE = 0.01


@dataclass(frozen=True)
class Opacus:
    """The loss is the mean of a linear model's outputs, so that a record is its own gradient, and 1 for the bias."""

    promise: Promise
    poisson: bool = True
    can_silence: bool = True

    @property
    def name(self) -> str:
        """The version, and what is taken as public."""
        public = ", number of records public" if self.promise.adjacency == "zero_out" else ""
        shuffled = "" if self.poisson else ", poisson_sampling=False"
        return f"Opacus {metadata.version('opacus')}{public}{shuffled}"

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
        """See `repro.conformance.Engine.run`: one repetition is one epoch, which has `_ROUNDS` batches."""
        multiplier = self.promise.noise_multiplier if noise else 0.0
        logging.getLogger("opacus").setLevel(
            logging.ERROR
        )  # it warns of empty batches, which are wanted here
        model, optimizer, loader, _ = _private(
            vectors, self.promise.clip, multiplier, seed, self.poisson
        )
        weights = list(model.parameters())
        released = np.empty((repetitions, rounds, 1, vectors.shape[1] + 1))
        for repetition in range(repetitions):
            for t, (batch,) in enumerate(loader):
                with torch.no_grad():
                    for weight in weights:
                        weight.zero_()
                optimizer.zero_grad()
                model(batch).mean().backward()
                optimizer.step()
                released[repetition, t, 0] = torch.cat(
                    [w.detach().ravel() for w in weights]
                ).numpy()
        return released / -_RATE


def _private(vectors: Array, clip: float, multiplier: float, seed: int, poisson: bool = True):
    """Model, optimiser, loader and engine, as the library's first example has them."""
    from opacus import PrivacyEngine

    records = TensorDataset(torch.from_numpy(vectors.astype(np.float32)))
    model = nn.Linear(vectors.shape[1], 1)
    torch.manual_seed(seed)  # the generator of the library's draws and noise
    engine = PrivacyEngine()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=_RATE),
            data_loader=DataLoader(records, batch_size=_BATCH, shuffle=True),
            noise_multiplier=multiplier,
            max_grad_norm=clip,
            poisson_sampling=poisson,
        )
    return model, optimizer, loader, engine


def engines() -> list[Opacus]:
    """With the promise at its word; with a public number of records; and with shuffled batches."""
    promise = Promise(
        clients=1,
        records=_RECORDS,
        rounds=_ROUNDS,
        clip=1.0,
        noise_multiplier=1.2,
        divisor=_RECORDS / _ROUNDS,
        local_rate=1 / _ROUNDS,
    )
    promise = replace(promise, epsilon=_printed(promise))
    public = replace(promise, adjacency="zero_out")
    return [Opacus(promise), Opacus(public), Opacus(public, poisson=False)]


def _printed(promise: Promise) -> float:
    """What the library prints after one epoch."""
    vectors = np.ones((_RECORDS, 1))
    model, optimizer, loader, engine = _private(vectors, promise.clip, promise.noise_multiplier, 0)
    for (batch,) in loader:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
    return engine.get_epsilon(promise.delta)
