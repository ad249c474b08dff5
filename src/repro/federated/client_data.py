"""Who holds which records: federations with training and test records, and dealing records out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import choice, in_unit, integer, positive


@dataclass(frozen=True, eq=False)
class ClientData:
    """A federation's records.

    Attributes:
        inputs: float32, shape (n, ...): images (n, channels, h, w) or sequences (n, frames,
            features), with zero mean and unit deviation over the data set.
        labels: int64, shape (n,).
        classes: number of classes.
        train, test: for each client the places of its records, int64; at least one of each, and no
            record in two places.
        name: the phrase a picture's footer carries about the data.
        source, sha256: where the bytes come from.
        stand_in: what it stands for where the paper's data could not be used; else empty.
    """

    inputs: NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: int
    train: tuple[NDArray[np.int64], ...]
    test: tuple[NDArray[np.int64], ...]
    name: str
    source: str
    sha256: str
    stand_in: str = ""

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels) or not np.isfinite(self.inputs).all():
            raise ValueError("inputs must be finite, one for every label")
        integer("classes", self.classes, 2)
        if not self.train or len(self.train) != len(self.test):
            raise ValueError(
                f"train and test must hold one list for each client, got {len(self.train)} and "
                f"{len(self.test)}"
            )
        for kind, parts in (("train", self.train), ("test", self.test)):
            for client, part in enumerate(parts):
                if not len(part):
                    raise ValueError(
                        f"client {client} has no {kind} record, each needs one or more"
                    )
        together = np.concatenate([*self.train, *self.test])
        if together.min() < 0 or together.max() >= len(self.labels):
            raise ValueError(f"train and test must hold places in [0, {len(self.labels) - 1}]")
        if np.bincount(together).max() > 1:
            twice = int(np.bincount(together).argmax())
            raise ValueError(f"record {twice} must be in one place only, among all train and test")
        if self.labels.min() < 0 or self.labels.max() >= self.classes:
            raise ValueError(f"labels must be in [0, {self.classes - 1}]")

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return len(self.train)

    def trivial(self) -> float:
        """Mean over clients of the test accuracy of always answering its own most frequent label.

        Of equally frequent training labels the smallest one.
        """
        favourites = [np.bincount(self.labels[part]).argmax() for part in self.train]
        return float(
            np.mean(
                [(self.labels[t] == f).mean() for t, f in zip(self.test, favourites, strict=True)]
            )
        )


def dirichlet_split(
    labels: ArrayLike, clients: int, concentration: float, smallest: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Deal all records: each class is spread over the clients by its own Dirichlet draw.

    Draws in which a client gets fewer than `smallest` records are repeated, at most 1,000 times.

    Args:
        labels: integers >= 0, shape (n,).
        clients: >= 1.
        concentration: alpha > 0; the smaller, the fewer classes a client has.
        smallest: >= 1; clients * smallest at most n.
        rng: decides everything.

    Returns:
        Places in `labels` of each client, increasing; no place twice.

    Raises:
        ValueError: an argument out of range, or no draw in which all clients have enough.

    Source: Hsu, Qi and Brown, arXiv:1909.06335, 2019; pmsfl, section 6.1 (alpha = 0.3).
    """
    labels = np.asarray(labels)
    clients, alpha = integer("clients", clients, 1), float(positive("concentration", concentration))
    smallest = integer("smallest", smallest, 1)
    if smallest * clients > len(labels):
        raise ValueError(
            f"clients must be at most {len(labels) // smallest} for {len(labels):,} records and "
            f"{smallest} for each client (smallest), got {clients}"
        )
    places = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(1000):
        owner = np.empty(len(labels), dtype=np.int64)
        for own in places:
            shares = rng.dirichlet(np.full(clients, alpha))
            ends = np.round(np.cumsum(shares) * len(own)).astype(np.int64)
            owner[rng.permutation(own)] = np.searchsorted(ends[:-1], np.arange(len(own)), "right")
        if np.bincount(owner, minlength=clients).min() >= smallest:
            return [np.flatnonzero(owner == client) for client in range(clients)]
    raise ValueError(
        f"concentration = {alpha:g} gave no draw in 1,000 in which all {clients} clients have "
        f"{smallest} records; raise it, or have fewer clients"
    )


def own_tests(
    parts: Sequence[NDArray[np.int64]], share: float, rng: np.random.Generator
) -> tuple[tuple[NDArray[np.int64], ...], tuple[NDArray[np.int64], ...]]:
    """Set a share of each client's records aside for testing, at random: (train, test).

    At least one record goes to each side, whatever the share; two records are enough.

    Raises:
        ValueError: a client has fewer than two records; share outside [0, 1].
    """
    share = float(in_unit("share", share))
    train, test = [], []
    for client, part in enumerate(parts):
        if len(part) < 2:
            raise ValueError(
                f"client {client} must have at least 2 records, one to train on and one to test, "
                f"got {len(part)}"
            )
        count = min(max(1, round(share * len(part))), len(part) - 1)
        shuffled = rng.permutation(part)
        test.append(np.sort(shuffled[:count]))
        train.append(np.sort(shuffled[count:]))
    return tuple(train), tuple(test)


def standardised(values: NDArray) -> NDArray[np.float32]:
    """Float32 with mean 0 and deviation 1 over all values; constant data become zeros."""
    values = np.asarray(values, dtype=np.float32)
    deviation = float(values.std(dtype=np.float64))
    return (values - np.float32(values.mean(dtype=np.float64))) / np.float32(deviation or 1.0)


SPLITS = ("one_label", "shuffled")


def deal(
    labels: ArrayLike, clients: int, records: int, split: str, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Deal `records` records to each of `clients` clients, no record twice.

    Args:
        labels: label of every record, integers >= 0, shape (n,) with n >= clients * records; the
            remainder stays undealt.
        clients: N >= 1.
        records: |D_i| >= 1, the same for all.
        split: "one_label": every client holds records of a single label, and the number of clients
            of a label is proportional to its frequency (rounded by largest remainders); the first
            clients hold label 0, the next label 1, and so on. "shuffled": dealt at random from all
            records, so that a client holds every label that is not rare.
        rng: decides who gets which record.

    Returns:
        Places in `labels`, int64, shape (clients, records).

    Raises:
        ValueError: too few records in all, or of one label for its clients; an unknown split.
    """
    labels = np.asarray(labels)
    clients, records = integer("clients", clients, 1), integer("records", records, 1)
    if clients * records > len(labels):
        raise ValueError(
            f"clients * records must be at most {len(labels):,}, got {clients} * {records}"
        )
    if choice("split", split, SPLITS) == "shuffled":
        return rng.permutation(len(labels))[: clients * records].reshape(clients, records)
    counts = np.bincount(labels)
    dealt = []
    for label, share in enumerate(_apportion(counts, clients)):
        if share * records > counts[label]:
            raise ValueError(
                f"records must be at most {counts[label] // share} for the {share} clients of "
                f"label {label}, which has {counts[label]:,} records, got {records}"
            )
        held = rng.permutation(np.flatnonzero(labels == label))
        dealt.append(held[: share * records].reshape(share, records))
    return np.concatenate(dealt)


def _apportion(counts: NDArray[np.int64], clients: int) -> NDArray[np.int64]:
    """Whole numbers of clients proportional to `counts`, by largest remainders (Hamilton)."""
    quotas = clients * counts / counts.sum()
    shares = np.floor(quotas).astype(np.int64)
    largest = np.argsort(shares - quotas, kind="stable")  # most negative first: largest remainder
    shares[largest[: clients - shares.sum()]] += 1
    return shares
