"""Who takes part in an iteration, and with which records.

Two levels of coins (clients and their records) for federations with large clients; one level,
Poisson or balanced, where each record, or each client as a whole, is drawn on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import in_unit, integer, one


@dataclass(frozen=True)
class Draw:
    """One iteration's outcome.

    Attributes:
        clients: participating clients (P_t in the paper), int64, increasing.
        records: drawn records of all of them (the union of S_{i,t}), int64, increasing; a record is
            numbered by its place in the federation, client after client. May be empty.
    """

    clients: NDArray[np.int64]
    records: NDArray[np.int64]


@dataclass(frozen=True)
class TwoLevelPoisson:
    """Clients take part with probability p, their records are drawn with probability q.

    All coins are independent. Marginally a record is drawn with probability p q; two records of one
    client come together with probability p q^2, two of different clients with p^2 q^2: this
    correlation is why multiplying the rates and calling it Poisson sampling under-counts the
    privacy loss.

    Formal guarantee: `draw` returns every set of records S, given participants P, with probability
    prod_i p^[i in P] (1-p)^[i not in P] * prod_{i in P} q^|S_i| (1-q)^(d_i-|S_i|), up to the 53
    bits of its uniform numbers; rates 0 and 1 are exact.

    Args:
        sizes: records held by each client (d_i >= 0), shape (clients,).
        p: client participation rate, in [0, 1].
        q: record sampling rate within a participating client, in [0, 1].

    Raises:
        ValueError: a rate outside [0, 1]; sizes not a non-empty list of integers >= 0.

    Source: random_participation, section 4.1 and Algorithm 1.
    """

    sizes: ArrayLike
    p: float
    q: float
    _sizes: NDArray[np.int64] = field(init=False, repr=False, compare=False)
    _starts: NDArray[np.int64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = np.asarray(self.sizes)
        if given.ndim != 1 or not given.size or given.dtype.kind not in "iu" or (given < 0).any():
            raise ValueError(f"sizes must be a non-empty list of integers >= 0, got {self.sizes!r}")
        sizes = given.astype(np.int64)
        object.__setattr__(self, "p", one(in_unit, "p", self.p))
        object.__setattr__(self, "q", one(in_unit, "q", self.q))
        object.__setattr__(self, "_sizes", sizes)
        object.__setattr__(self, "_starts", np.cumsum(sizes) - sizes)

    @property
    def mean_batch(self) -> float:
        """The expected number of records drawn in an iteration, p q sum_i d_i (p q N d)."""
        return self.p * self.q * float(self._sizes.sum())

    @property
    def largest(self) -> int:
        """The most records that a client holds."""
        return int(self._sizes.max())

    def draw(self, rng: np.random.Generator) -> Draw:
        """Sample one iteration, in O(clients + records of the participants), without a loop."""
        clients = np.flatnonzero(rng.random(len(self._sizes)) < self.p)
        sizes = self._sizes[clients]
        ends = np.cumsum(sizes)
        held = int(ends[-1]) if len(ends) else 0
        drawn = np.flatnonzero(rng.random(held) < self.q)
        owner = np.searchsorted(
            ends, drawn, side="right"
        )  # which participant holds the drawn record
        records = drawn + (self._starts[clients] - (ends - sizes))[owner]
        return Draw(clients=clients, records=records)


@dataclass(frozen=True)
class PoissonIterations:
    """Each of `records` is in each of `iterations` batches with probability `rate`, by own coins.

    Raises:
        ValueError: counts below 1 or no integers, or a rate outside [0, 1].

    Source: partitioning, section 3.3 ("Poisson Subsampling").
    """

    records: int
    iterations: int
    rate: float

    def __post_init__(self) -> None:
        integer("records", self.records, 1)
        integer("iterations", self.iterations, 1)
        one(in_unit, "rate", self.rate)

    @property
    def mean_batch(self) -> float:
        """The expected size of a batch."""
        return self.records * self.rate

    def batches(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """The batches in order, each an increasing array of record numbers, possibly empty."""
        for _ in range(self.iterations):
            yield np.flatnonzero(rng.random(self.records) < self.rate)


@dataclass(frozen=True)
class BalancedIterations:
    """Each of `records` is in exactly `participations` of `iterations` batches.

    Balanced Iteration Subsampling. Formal guarantee: every choice of k of the T iterations has the
    same probability, independently from record to record, up to the 53 bits of the uniform
    numbers. A record with r participations left and s iterations to come is drawn with probability
    r / s (Knuth, The Art of Computer Programming 2, section 3.4.2, algorithm S), which needs one
    number per record, not the table of all choices.

    Raises:
        ValueError: counts below 1 or no integers, or more participations than iterations.

    Source: partitioning, section 3.3.
    """

    records: int
    iterations: int
    participations: int

    def __post_init__(self) -> None:
        integer("records", self.records, 1)
        integer("iterations", self.iterations, 1)
        integer("participations", self.participations, 1, self.iterations)

    @property
    def mean_batch(self) -> float:
        """The expected size of a batch."""
        return self.records * self.participations / self.iterations

    def batches(self, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        """The batches in order, each an increasing array of record numbers, possibly empty."""
        left = np.full(self.records, self.participations)
        for to_come in range(self.iterations, 0, -1):
            drawn = np.flatnonzero(rng.random(self.records) * to_come < left)
            left[drawn] -= 1
            yield drawn
