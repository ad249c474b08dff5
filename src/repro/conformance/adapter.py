"""What an engine promises, and the one method through which it is examined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from repro._validate import choice, in_unit, integer, positive, probability_open

Array = NDArray[np.float64]

LARGEST = 12
"""Most units of privacy in the data set that is used: who took part is kept as bits of one number."""

WORDS = {
    "unit": ("record", "client"),
    "sampling": ("poisson", "fixed", "balanced"),
    "adjacency": ("add_remove", "zero_out", "replace"),
    "law": ("gaussian", "laplace"),
}


@dataclass(frozen=True)
class Promise:
    """What an engine says about itself, for a small data set that the examination uses.

    Attributes:
        clients: number of clients, >= 1.
        records: records of each client, >= 1.
        rounds: T >= 1, rounds that `epsilon` pays for.
        clip: largest norm of one unit's contribution, > 0: Euclidean for Gaussian noise, l1 for Laplace noise.
        noise_multiplier: scale of the noise on the sum, divided by `clip`, > 0: the standard deviation of Gaussian
            noise, or the scale parameter of Laplace noise.
        divisor: public number by which the noisy sum is divided, > 0.
        unit: what a neighbour differs in, a "record" or all records of a "client". `clip` bounds its contribution.
        sampling: "poisson": independent coins. "fixed": the same number in every round, without replacement.
            "balanced": every unit, independently, in exactly `participations` of the rounds.
        participation: chance that a client takes part in a round, in [0, 1].
        local_rate: chance that a participant uses a record, in [0, 1].
        participations: of a unit over all rounds, with "balanced" sampling.
        adjacency: what neighbours are. "add_remove": one unit more or less. "zero_out": one unit contributes or not,
            and how many units there are is public. "replace": one unit in the place of another.
        uploads: whether the observer sees one release per client, each with noise of its own, or their sum.
        law: of the noise, "gaussian" or "laplace".
        epsilon: the printed value for all rounds, > 0; None where nothing is printed.
        delta: at which `epsilon` is printed, in (0, 1).

    Raises:
        ValueError: a value out of range, or a combination that makes no sense.
    """

    clients: int
    records: int
    rounds: int
    clip: float
    noise_multiplier: float
    divisor: float
    unit: str = "record"
    sampling: str = "poisson"
    participation: float = 1.0
    local_rate: float = 1.0
    participations: int = 0
    adjacency: str = "add_remove"
    uploads: bool = False
    law: str = "gaussian"
    epsilon: float | None = None
    delta: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("clients", "records", "rounds"):
            integer(name, getattr(self, name), 1)
        for name in ("clip", "noise_multiplier", "divisor"):
            positive(name, getattr(self, name))
        for name in ("participation", "local_rate"):
            in_unit(name, getattr(self, name))
        for name, allowed in WORDS.items():
            choice(name, getattr(self, name), allowed)
        probability_open("delta", self.delta)
        if self.epsilon is not None:
            positive("epsilon", self.epsilon)
        if not 2 <= self.units <= LARGEST:
            raise ValueError(
                f"clients and records must make 2 to {LARGEST} units, got {self.units}"
            )
        if self.sampling == "balanced":
            integer("participations", self.participations, 1, self.rounds)
        if self.sampling == "fixed":
            for name, total in (("participation", self.clients), ("local_rate", self.records)):
                count = getattr(self, name) * total
                if abs(count - round(count)) > 1e-9 or count < 0.5:
                    raise ValueError(
                        f"{name} must be a whole number of {total} with fixed sampling, got "
                        f"{getattr(self, name)!r}"
                    )

    @property
    def units(self) -> int:
        """How many units of privacy the data set holds: records, or clients."""
        return self.clients * self.per_client

    @property
    def per_client(self) -> int:
        """Units of one client."""
        return self.records if self.unit == "record" else 1

    @property
    def owner(self) -> NDArray[np.int64]:
        """The client of each record, shape (clients * records,)."""
        return np.repeat(np.arange(self.clients), self.records)

    @property
    def everybody(self) -> bool:
        """Whether every unit takes part in every round."""
        if self.sampling == "balanced":
            return self.participations == self.rounds
        return self.participation == self.local_rate == 1

    @property
    def order(self) -> int:
        """Order of the norm that `clip` bounds."""
        return 1 if self.law == "laplace" else 2

    @property
    def step(self) -> float:
        """The largest contribution of a unit, in units of what is seen."""
        return self.clip / self.divisor

    @property
    def scale(self) -> float:
        """The noise's scale, in units of what is seen."""
        return self.noise_multiplier * self.step


class Engine(Protocol):
    """An adapter: how the examination talks to an engine.

    Attributes:
        name: of the engine, with its version.
        promise: what it says about itself.
        can_silence: whether `run` can switch the noise off. Without that only statistical checks are possible.
    """

    name: str
    promise: Promise
    can_silence: bool

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
        """Train `rounds` rounds from scratch, `repetitions` times, with fresh randomness each time.

        Args:
            vectors: the raw contribution of each record (its gradient before clipping, whatever the model),
                shape (records, inputs).
            owner: the client of each record, not decreasing, shape (records,). One record, or one client, may be
                missing that the promise counts; where the unit is a client, one client may hold a record more and
                another one a record less than `records`.
            repetitions: how often, >= 1.
            rounds: of each repetition, >= 1.
            noise: whether noise is added.
            seed: >= 0. Different seeds must give independent randomness.

        Returns:
            What the adversary sees, shape (repetitions, rounds, senders, coordinates): one sender where only the sum
            is seen, else one for each client, nan where a client sends nothing. The first coordinates are those of
            `vectors`; all others that are published (biases, scales) follow. The sum is divided by the promised
            divisor, and what the server does with it afterwards is undone.
        """
        ...
