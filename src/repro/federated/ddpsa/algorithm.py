"""DDP-SA: Algorithm 2 of ddpsa, for all clients, runs and settings at once.

    for t = 0, ..., T - 1:                              the paper's box, and where it is done below
        for each client C_i:                            (no loop: one axis of every array)
            for each sample: its gradient, clipped to   `clipped_sums`
                l1 norm Delta, is added to the sum      `clipped_sums`
            add Lap(Delta / epsilon)                    `NoiseStreams`, `upload`
            divide by N_i                               `upload`
            encode, secret_share, send to the S_j       `shared_sum`
        for each server S_j: sum of its shares          `shared_sum`
        parameter server: reconstruct, decode           `shared_sum`
        theta - eta N_i / N times the sum               `step`

No-Private, LDP, MPC and DDP-SA are settings of this box (`mechanism`): without noise and clip, and
with `plain_sum` in the place of `shared_sum`. Every client takes part in every round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import choice, integer, positive
from repro.accounting.ddpsa.costs import MECHANISMS
from repro.accounting.ddpsa.printed import laplace_scale
from repro.datasets.plane import Plane
from repro.federated.ddpsa.clients import Federation, clipped_sums
from repro.federated.ddpsa.noise import NoiseStreams
from repro.federated.ddpsa.servers import Memory, SecureSum, plain_sum, shared_sum, step

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
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
        stream: settings with the same number use the same noise, up to its scale; different ones
            have independent noise.

    Raises:
        ValueError: a value out of range, or noise without a clip (it would guarantee nothing).
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
        positive("learning_rate", self.learning_rate)
        for name in ("clip", "epsilon"):
            if getattr(self, name) != math.inf:
                positive(name, getattr(self, name))
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


def mechanism(name: str, *, clients: int, clip: float, epsilon: float, **other) -> Setting:
    """The setting that one of the paper's four mechanisms is.

    Without noise: gradient descent at rate 0.1, no clip. With noise: Adam at rate 0.001.

    Args:
        name: of `MECHANISMS`.
        clients: n.
        clip: Delta, used where there is noise.
        epsilon: likewise.
        other: further attributes of `Setting`, which take precedence.

    Source: ddpsa, section VI-A.
    """
    private = choice("name", name, MECHANISMS) in ("LDP", "DDP-SA")
    own = Setting(
        clients=clients,
        clip=clip if private else math.inf,
        epsilon=epsilon if private else math.inf,
        shared=name in ("MPC", "DDP-SA"),
        adam=private,
        learning_rate=0.001 if private else 0.1,
    )
    return replace(own, **other)


def upload(sums: Array, noise: Array, held: ArrayLike, divided: ArrayLike = True) -> Array:
    """(sum + noise) / N_i where `divided`, else sum / N_i + noise; shape (..., 3).

    `held` and `divided` broadcast against the shape without its last axis.
    """
    held = np.asarray(held, dtype=float)[..., None]
    return np.where(np.asarray(divided)[..., None], (sums + noise) / held, sums / held + noise)


class Training:
    """Algorithm 2 under way: one model per run and setting, and a method that runs a round.

    Args:
        training: the records of R runs.
        settings: S >= 1 of them.
        seeds: R seeds >= 0 for the noise.
        start: the first models, shape (R, 3), common to all settings.
        batches: parts into which a client cuts its records, one for each round in turn; 1 is the
            box: all records in every round.
        secure_sum: for the settings that share. With real servers there are as many clients as the
            most that a setting has, and the parameters of all runs and settings in one vector.

    Attributes:
        models: theta, shape (R, S, 3).

    Raises:
        ValueError: an argument out of range, or shapes that do not fit.
    """

    def __init__(
        self,
        training: Plane,
        settings: Sequence[Setting],
        seeds: Sequence[int],
        start: Array,
        *,
        batches: int = 1,
        secure_sum: SecureSum = shared_sum,
    ) -> None:
        runs, size = len(training.inputs), training.inputs.shape[2]
        if not settings or len(seeds) != runs or np.shape(start) != (runs, size):
            raise ValueError(
                f"settings, seeds and start must be at least one, {runs} and of shape "
                f"{(runs, size)}, got {len(settings)}, {len(seeds)} and {np.shape(start)}"
            )
        clients = np.array([s.clients for s in settings])
        self.federation = Federation.deal(training, clients, batches)
        self.models = np.repeat(np.asarray(start, dtype=float)[:, None], len(settings), axis=1)
        self._memory = Memory(np.zeros_like(self.models), np.zeros_like(self.models))
        kinds = [s.noise for s in settings]
        self._noise = NoiseStreams(seeds, kinds, int(clients.max()), size)
        self._members = self.federation.membership(clients)
        self._present = self._members.any(axis=2)  # (S, C)
        self._held = self.federation.held(clients)[:, None]
        self._clients = clients[:, None]
        self._clip = np.array([s.clip for s in settings])
        self._scale = (
            np.array([s.scale for s in settings])[:, None, None] * self._present[..., None]
        )
        self._divided = np.array([s.divided for s in settings])[:, None]
        self._shared = np.array([s.shared for s in settings])
        self._rate = np.array([s.learning_rate for s in settings])
        self._adam = np.array([s.adam for s in settings])
        self._secure_sum = secure_sum

    def round(self) -> None:
        """One round of the box, in all runs and settings.

        Raises:
            ValueError: an upload is not finite or cannot be encoded; all models, and what the
                optimiser keeps, are as they were before the round.
            repro.secagg.RoundError: the real servers failed; likewise.
        """
        part = self._memory.rounds % len(self.federation.signed)
        sums = clipped_sums(self.federation, self.models, self._clip, self._members, part)
        uploads = upload(sums, self._noise.draw() * self._scale, self._held, self._divided)
        totals = np.empty_like(self.models)
        for chosen, add in ((~self._shared, plain_sum), (self._shared, self._secure_sum)):
            if chosen.any():
                vectors = uploads[:, chosen].transpose(2, 0, 1, 3)  # clients first
                total = add(np.ascontiguousarray(vectors.reshape(len(vectors), -1)))
                totals[:, chosen] = total.reshape(vectors.shape[1:])
        self.models, self._memory = step(
            self.models, totals / self._clients, self._memory, self._rate, self._adam
        )


def train(
    training: Plane,
    settings: Sequence[Setting],
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
        training, settings, seeds, start, batches, secure_sum: see `Training`.

    Returns:
        theta, shape (T + 1, R, S, 3).

    Raises:
        ValueError: an argument out of range, or an upload that cannot be encoded.

    Source: ddpsa, Algorithm 2.
    """
    going = Training(training, settings, seeds, start, batches=batches, secure_sum=secure_sum)
    path = np.empty((integer("rounds", rounds, 1) + 1, *going.models.shape))
    path[0] = going.models
    for t in range(rounds):
        going.round()
        path[t + 1] = going.models
    return path
