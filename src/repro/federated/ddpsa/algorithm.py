"""DDP-SA: Algorithm 2 of ddpsa (arXiv 2604.07125v1), for all clients, runs and variants at once.

    for each round t = 0, ..., T - 1:               line 1       `Training.round`
        broadcast the model theta_t                 line 2       (all clients read `models`)
        for each client C_i in parallel:            line 3       (no loop: one axis of every array)
            for each of its N_i records x_j:        lines 4-5    (no loop: a matrix product)
                gradient of the loss, clipped to    lines 6-7    `clipped_sums`
                l1 norm Delta, added to the sum     lines 8-9    `clipped_sums`
            add Lap(Delta / epsilon), divide by N_i line 10      `NoiseStreams`, `upload`
            encode: round(value 10^d_n)             lines 11-12  `shared_sum`
            share it, send share j to server S_j    lines 13-17  `shared_sum`
        for each server S_j: sum of its shares      lines 18-21  `shared_sum`
        parameter server: sum modulo p, decode      lines 22-23  `shared_sum`
        theta_{t+1} = theta_t - eta N_i / N times   lines 24-25  `step`
            the sum
    return theta_T                                  line 26      `train`

No-Private, LDP, MPC and DDP-SA are variants of this box (`mechanism`): without noise and clip, and
with `plain_sum` in the place of `shared_sum`. Every client takes part in every round. All clients
hold equally many records, so that N_i / N in line 24 is 1 / n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import choice, flag, integer, one, positive
from repro.accounting import compose
from repro.accounting.ddpsa.printed import MECHANISMS, laplace_scale
from repro.accounting.laplace import SummedLaplace
from repro.datasets.plane import Plane
from repro.federated.ddpsa.clients import Federation, clipped_sums
from repro.federated.ddpsa.noise import NoiseStreams
from repro.federated.ddpsa.servers import Memory, SecureSum, plain_sum, shared_sum, step
from repro.federated.guarantee import Guarantee, bracket, needs_noise

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Variant:
    """One way to run the box, in the field's words and (in brackets) the paper's letters.

    Attributes:
        clients: [n] at least 1; they hold the records in equal parts.
        clip: [Delta] largest l1 norm of a record's gradient, > 0; `math.inf` leaves it as it is.
        epsilon: budget of a client and round, > 0; `math.inf` adds no noise.
        shared: whether uploads are encoded and shared over servers, or sent as they are.
        adam: whether the server steps with Adam, or with plain gradient descent.
        learning_rate: [eta] > 0.
        distributed: whether a client adds only its share of the noise, so that the n shares
            together are one Laplace variable of scale Delta / epsilon; else each adds all of it.
        divided: whether the noise is added to the sum of the gradients, and divided by N_i with it
            (the box), or added to their average.
        stream: variants with the same number use the same noise, up to its scale; different ones
            have independent noise.

    Raises:
        ValueError: a value out of range, or noise without a clip (it would guarantee nothing).
        TypeError: a choice that is neither True nor False.
    """

    clients: int
    clip: float
    epsilon: float
    shared: bool
    adam: bool
    learning_rate: float
    distributed: bool = False
    divided: bool = True
    stream: int = 0

    def __post_init__(self) -> None:
        integer("clients", self.clients, 1)
        integer("stream", self.stream, 0)
        for name in ("shared", "adam", "distributed", "divided"):
            flag(name, getattr(self, name))
        one(positive, "learning_rate", self.learning_rate)
        for name in ("clip", "epsilon"):
            if getattr(self, name) != math.inf:
                one(positive, name, getattr(self, name))
        if self.clip == math.inf and self.epsilon != math.inf:
            raise ValueError(f"epsilon must be inf where clip is inf, got {self.epsilon!r}")

    @property
    def scale(self) -> float:
        """Delta / epsilon, 0 where there is no noise."""
        return 0.0 if self.epsilon == math.inf else laplace_scale(self.epsilon, clip=self.clip)

    @property
    def noise(self) -> tuple[int, int] | None:
        """The kind of noise, see `NoiseStreams`."""
        return (self.stream, self.clients if self.distributed else 1) if self.scale else None

    def guarantee(self, delta: float, rounds: int, *, batches: int = 1) -> Guarantee:
        """What `train` with this variant guarantees every record.

        Uploads that are sent as they are, and sums of shared uploads with distributed noise, are
        Laplace mechanisms, and the bracket is tight. Behind shared uploads that carry all of their
        noise, "upper" counts one client's noise alone, and "lower" all clients' on one coordinate.

        Args:
            delta: in (0, 1).
            rounds: [T] at least 1.
            batches: parts into which a client cuts its records, as in `Training`; at least 1.

        Raises:
            ValueError: an argument out of range, or a variant without noise, with distributed noise
                on uploads that are not shared, or with noise that is not divided by N_i.

        Source: ddpsa, Definition 4 and Algorithm 2.
        """
        needs_noise(self.scale)
        if self.distributed and not self.shared:
            raise ValueError("shared must be True where the noise is distributed, got False")
        if not self.divided:
            raise ValueError("divided must be True for a guarantee that needs no N_i, got False")
        used = -(-integer("rounds", rounds, 1) // integer("batches", batches, 1))
        alone, together = (
            compose(SummedLaplace(self.scale, clients=n, sensitivity=self.clip), used)
            for n in (1, self.clients if self.shared and not self.distributed else 1)
        )
        return bracket("record", delta, alone, together)


def mechanism(name: str, *, clients: int, clip: float, epsilon: float, **other: Any) -> Variant:
    """The variant of Algorithm 2 that the paper calls `name`.

    The mechanisms without noise take gradient descent at rate 0.1 and do not clip; those with noise
    take Adam at rate 0.001.

    Args:
        name: of `MECHANISMS`.
        clients: n >= 1.
        clip: Delta > 0, used where there is noise.
        epsilon: budget of a client and round, > 0, used where there is noise.
        other: further attributes of `Variant`, which take precedence.

    Raises:
        ValueError: an unknown name, or a value out of range.

    Source: ddpsa (arXiv 2604.07125v1), section VI-A.
    """
    private = choice("name", name, MECHANISMS) in ("LDP", "DDP-SA")
    own = Variant(
        clients=clients,
        clip=clip if private else math.inf,
        epsilon=epsilon if private else math.inf,
        shared=name in ("MPC", "DDP-SA"),
        adam=private,
        learning_rate=0.001 if private else 0.1,
    )
    return replace(own, **other)


def upload(sums: Array, noise: Array, held: ArrayLike, divided: ArrayLike = True) -> Array:
    """What a client sends before encoding (line 10 of Algorithm 2).

    Args:
        sums: the clipped gradients' sums, shape (..., 3).
        noise: of the same shape.
        held: N_i, broadcast against the shape without its last axis.
        divided: whether the noise is divided by N_i as well, as in the box; broadcast likewise.

    Returns:
        (sum + noise) / N_i where `divided`, else sum / N_i + noise; shape (..., 3).
    """
    held = np.asarray(held, dtype=float)[..., None]
    return np.where(np.asarray(divided)[..., None], (sums + noise) / held, sums / held + noise)


class Training:
    """Algorithm 2 under way: one model per run and variant, and a method that runs a round.

    Args:
        training: the records of R runs.
        variants: S >= 1 of them.
        seeds: R seeds >= 0 for the noise.
        start: the first models, shape (R, 3), common to all variants.
        batches: parts into which a client cuts its records, one for each round in turn; 1 is the
            box: all records in every round.
        secure_sum: for the variants that share. With real servers there are as many clients as the
            most that a variant has, and the parameters of all runs and variants in one vector.

    Attributes:
        models: theta, shape (R, S, 3).

    Raises:
        ValueError: an argument out of range, or shapes that do not fit.
    """

    def __init__(
        self,
        training: Plane,
        variants: Sequence[Variant],
        seeds: Sequence[int],
        start: Array,
        *,
        batches: int = 1,
        secure_sum: SecureSum = shared_sum,
    ) -> None:
        runs, size = len(training.inputs), training.inputs.shape[2]
        if not variants or len(seeds) != runs or np.shape(start) != (runs, size):
            raise ValueError(
                f"variants, seeds and start must be at least one, {runs} and of shape "
                f"{(runs, size)}, got {len(variants)}, {len(seeds)} and {np.shape(start)}"
            )
        clients = np.array([s.clients for s in variants])
        self.federation = Federation.deal(training, clients, batches)
        self.models = np.repeat(np.asarray(start, dtype=float)[:, None], len(variants), axis=1)
        self._memory = Memory(np.zeros_like(self.models), np.zeros_like(self.models))
        kinds = [s.noise for s in variants]
        self._noise = NoiseStreams(seeds, kinds, int(clients.max()), size)
        self._members = self.federation.membership(clients)
        self._present = np.arange(clients.max()) < clients[:, None]  # (S, C)
        self._held = self.federation.held(clients)[:, None]
        self._clients = clients[:, None]
        self._clip = np.array([s.clip for s in variants])
        self._scale = (
            np.array([s.scale for s in variants])[:, None, None] * self._present[..., None]
        )
        self._divided = np.array([s.divided for s in variants])[:, None]
        self._shared = np.array([s.shared for s in variants])
        self._rate = np.array([s.learning_rate for s in variants])
        self._adam = np.array([s.adam for s in variants])
        self._secure_sum = secure_sum

    def round(self) -> None:
        """One round of the box, in all runs and variants.

        Raises:
            ValueError: an upload is not finite or cannot be encoded; all models, and what the
                optimiser keeps, are as they were before the round.
            repro.secagg.RoundError: the real servers failed; likewise.
        """
        part = self._memory.rounds % len(self.federation.signed)
        sums = clipped_sums(self.federation, self.models, self._clip, self._members, part)  # 3-9
        noise = self._noise.draw() * self._scale
        uploads = upload(sums, noise, self._held, self._divided)  # line 10
        totals = np.empty_like(self.models)  # lines 11-23
        for chosen, add in ((~self._shared, plain_sum), (self._shared, self._secure_sum)):
            if chosen.any():
                vectors = uploads[:, chosen].transpose(2, 0, 1, 3)  # clients first
                total = add(np.ascontiguousarray(vectors.reshape(len(vectors), -1)))
                totals[:, chosen] = total.reshape(vectors.shape[1:])
        self.models, self._memory = step(  # line 24
            self.models, totals / self._clients, self._memory, self._rate, self._adam
        )


def train(
    training: Plane,
    variants: Sequence[Variant],
    rounds: int,
    seeds: Sequence[int],
    start: Array,
    *,
    batches: int = 1,
    secure_sum: SecureSum = shared_sum,
) -> Array:
    """Run Algorithm 2; the models before the first and after every round.

    Args:
        rounds: [T] at least 1.
        training, variants, seeds, start, batches, secure_sum: see `Training`.

    Returns:
        theta, shape (T + 1, R, S, 3).

    Raises:
        ValueError: an argument out of range, or an upload that cannot be encoded.

    Source: ddpsa (arXiv 2604.07125v1), Algorithm 2.
    """
    run = Training(training, variants, seeds, start, batches=batches, secure_sum=secure_sum)
    path = np.empty((integer("rounds", rounds, 1) + 1, *run.models.shape))
    path[0] = run.models
    for t in range(rounds):
        run.round()
        path[t + 1] = run.models
    return path
