"""Adapter of `repro.federated.ddpsa`: least squares with weights at zero, every upload seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.conformance import Promise
from repro.datasets.plane import Plane
from repro.federated.ddpsa.algorithm import Training, Variant
from repro.federated.ddpsa.servers import plain_sum

Array = NDArray[np.float64]

NOTES = """\
Algorithm 2 lets every client clip its records' gradients in l1, add Laplace noise, divide by its number of records and
share the result over servers. What is examined is the upload before it is shared: the paper's guarantee is that of the
client's own noise. The number of records of a client is a divisor and must be public. The printed epsilon is the
paper's: the budget of a round times the rounds. Sampling, encoding and sharing are not part of this examination (every
client takes part in every round; the shares have exact tests of their own in `tests/secagg`)."""

_RATE = 1e-9  # so small a step that all gradients are those at zero weights
_EPSILON = 0.5


@dataclass(frozen=True)
class Uploads:
    """Records whose gradients at zero weights, -2 y x, are the vectors: x is the vector and y is -1/2."""

    promise: Promise
    name: str = "Algorithm 2 of ddpsa, uploads of the clients"
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
        """See `repro.conformance.Engine.run`; every client holds equally many records."""
        clients = int(owner.max()) + 1
        some = np.abs(vectors).sum(axis=1) > 0
        inputs = np.where(some[:, None], vectors, np.eye(1, vectors.shape[1]))
        plane = Plane(
            np.broadcast_to(inputs, (repetitions, *inputs.shape)),
            np.broadcast_to(np.where(some, -0.5, 0.0), (repetitions, len(inputs))),
        )
        variant = Variant(
            clients=clients,
            clip=self.promise.clip,
            epsilon=1 / self.promise.noise_multiplier if noise else math.inf,
            shared=True,
            adam=False,
            learning_rate=_RATE,
        )
        seen: list[Array] = []

        def listening(values: Array) -> Array:
            """What the servers add up, (clients, repetitions * inputs), written down."""
            seen.append(values.reshape(clients, repetitions, -1).swapaxes(0, 1))
            return plain_sum(values)

        seeds = np.random.SeedSequence(seed).generate_state(repetitions).tolist()
        start = np.zeros((repetitions, vectors.shape[1]))
        training = Training(plane, [variant], seeds, start, secure_sum=listening)
        for _ in range(rounds):
            training.round()
        return np.stack(seen, axis=1)


def engines() -> list[Uploads]:
    """One promise."""
    clients, records, rounds = 3, 2, 3
    return [
        Uploads(
            Promise(
                clients=clients,
                records=records,
                rounds=rounds,
                clip=1.0,
                noise_multiplier=1 / _EPSILON,
                divisor=records,
                adjacency="zero_out",
                uploads=True,
                law="laplace",
                epsilon=rounds * _EPSILON,
            )
        )
    ]
