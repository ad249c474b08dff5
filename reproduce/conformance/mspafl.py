"""Adapter of `repro.federated.mspafl`: one round of uploads of clients that share their whole model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from repro.conformance import Promise
from repro.conformance.checks_epsilon import bracket
from repro.federated.mspafl.algorithm import LocalTraining, Round, Variant, train

Array = NDArray[np.float64]

NOTES = """\
A client of Algorithm 1 clips the public half of its model to C and adds noise to it. Two models of norm C are up to 2 C
apart, and neighbours of the paper differ in one record that is replaced: so the client as a whole is examined, and may
change by 2 C. The observer is the server, which sees every upload and who sent it. One round is examined, in which all
clients start from zero. The printed epsilon is that of a whole client whose presence is seen. A record that is drawn at
random, or an observer who sees averages only, is better off: see `repro.accounting.mspafl.round`. What a client keeps
from round to round (its private half, and what its records did to it) needs several rounds and is beyond this
examination: see `repro.accounting.mspafl.run`. Noise and draws come from seeded generators, which suits experiments and
protects nobody."""


@dataclass(frozen=True)
class Uploads:
    """One step of gradient descent from zero, at a rate at which the model is the sum of the client's vectors."""

    promise: Promise
    can_silence: bool = True

    @property
    def name(self) -> str:
        """The algorithm, and how often clients check in."""
        return (
            f"Algorithm 1 of mspafl, uploads, check-in probability {self.promise.participation:g}"
        )

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
        """See `repro.conformance.Engine.run`; each client of each repetition is a run with one client."""
        held = np.bincount(owner)
        places = np.arange(len(owner)).reshape(len(held), 1, held[0])
        variant = Variant(
            p=self.promise.participation,
            public=vectors.shape[1],
            learning_rate=2.0 * held[0],  # at zero, the gradient is minus half the mean vector
            clip=self.promise.clip,
            sigma=self.promise.noise_multiplier * self.promise.clip if noise else 0.0,
        )
        seen: list[Array] = []

        def keep(done: Round) -> None:
            upload = (done.signal + done.noise)[:, 0]
            upload = np.where(done.checked_in[:, 0], upload, np.nan)
            seen.append(upload.reshape(repetitions, len(held), -1))

        runs = repetitions * len(held)
        seeds = np.random.SeedSequence(seed).generate_state(runs).tolist()
        local = LocalTraining(steps=1, batch=int(held[0]))
        train(vectors, np.tile(places, (repetitions, 1, 1)), [variant], local, rounds, seeds, keep)
        return np.stack(seen, axis=1)


def engines() -> list[Uploads]:
    """All clients check in, or some."""
    promise = Promise(
        clients=4,
        records=2,
        rounds=1,
        clip=1.0,
        noise_multiplier=4.0,
        divisor=1.0,
        unit="client",
        adjacency="replace",
        uploads=True,
    )
    promises = promise, replace(promise, participation=0.6)
    return [Uploads(replace(p, epsilon=bracket(p)[1])) for p in promises]
