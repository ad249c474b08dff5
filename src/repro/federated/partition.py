"""Which client holds which records: dealing a labelled data set out to a federation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import choice, integer

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
