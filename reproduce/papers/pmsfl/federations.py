"""The federations of pmsfl's experiments: the paper's data, their stand-ins, and embedded ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from repro._validate import choice, integer
from repro.datasets.activity import Grouped, load_femnist, load_radhar, load_ucihar
from repro.datasets.cifar import load_cifar100
from repro.datasets.digits import load_digits
from repro.federated.client_data import ClientData, dirichlet_split, own_tests, standardised
from reproduce.papers.pmsfl.time_doppler import generate_time_doppler

CONCENTRATION, TEST_SHARE = 0.3, 1 / 6
"""Of pmsfl, section 6.1: Dirichlet(0.3), training and test records 5 : 1."""


def load_clients(name: str, *, clients: int, seed: int) -> ClientData:
    """The federation `name` of `FEDERATIONS`.

    Args:
        name: which one.
        clients: how many; federations by writer or subject have no more than there are.
        seed: decides who holds what and what is tested, where that is random.

    Raises:
        ValueError: an unknown name, or too many clients.
        repro.datasets.DataError: a file is missing or damaged.
    """
    build = FEDERATIONS[choice("name", name, FEDERATIONS)]
    return build(integer("clients", clients, 1), integer("seed", seed, 0))


def _digits_dirichlet(clients: int, seed: int) -> ClientData:
    images, labels, source, checksum = _digits()
    rng = np.random.default_rng([seed, 11])
    parts = dirichlet_split(labels, clients, CONCENTRATION, 6, rng)
    train, test = own_tests(parts, TEST_SHARE, rng)
    return ClientData(
        standardised(images)[:, None], labels, 10, train, test,
        f"8x8 digits, Dirichlet({CONCENTRATION:g}) over {clients} clients",
        source, checksum, "8x8 digits in place of CIFAR-100",
    )  # fmt: skip


def _digits_personal(clients: int, seed: int) -> ClientData:
    """Writers with habits: five of the ten digits, one of eight orientations, dark or light ink."""
    images, labels, source, checksum = _digits()
    rng = np.random.default_rng([seed, 12])
    share = len(labels) // clients
    free = rng.permutation(len(labels))
    parts, styled = [], images.astype(np.float32)
    for _ in range(clients):
        alphabet = rng.choice(10, 5, replace=False)
        own = free[np.isin(labels[free], alphabet)][:share]
        free = np.setdiff1d(free, own, assume_unique=True)
        turns, mirrored, inverted = rng.integers(4), rng.integers(2), rng.integers(2)
        drawn = np.rot90(images[own], turns, axes=(1, 2)).astype(np.float32)
        drawn = drawn[:, :, ::-1] if mirrored else drawn
        styled[own] = 16.0 - drawn if inverted else drawn
        parts.append(own)
    train, test = own_tests(parts, TEST_SHARE, rng)
    return ClientData(
        standardised(styled)[:, None], labels, 10, train, test,
        f"8x8 digits of {clients} made-up writers (5 digits, own orientation and ink each)",
        source, checksum, "8x8 digits with made-up writers in place of FEMNIST",
    )  # fmt: skip


def _digits() -> tuple[NDArray[np.uint8], NDArray[np.int64], str, str]:
    both = [load_digits(part) for part in ("train", "test")]
    images = np.concatenate([d.images for d in both])
    labels = np.concatenate([d.labels for d in both])
    return images, labels, both[0].source, both[0].sha256


def _generated(sensor: str, replaced: str) -> Callable[[int, int], ClientData]:
    def build(clients: int, seed: int) -> ClientData:
        made = generate_time_doppler(sensor, subjects=clients)
        order = np.random.default_rng([seed, 13]).permutation(12)  # 9 for training, 3 for testing
        tested = np.isin(made.segment, order[:3])
        return ClientData(
            standardised(made.maps), made.labels, 17,
            tuple(np.flatnonzero((made.subject == s) & ~tested) for s in range(clients)),
            tuple(np.flatnonzero((made.subject == s) & tested) for s in range(clients)),
            f"generated time-Doppler maps ({sensor}), {clients} subjects",
            "generated", made.sha256,
            f"generated time-Doppler maps ({sensor}) in place of {replaced}, never published",
        )  # fmt: skip

    return build


def _cifar100(version: str) -> Callable[[int, int], ClientData]:
    """All images at hand, training and test, dealt by Dirichlet; every client tests on its own."""

    def build(clients: int, seed: int) -> ClientData:
        both = [load_cifar100(part, version) for part in ("train", "test")]
        images = np.concatenate([d.images for d in both]).transpose(0, 3, 1, 2)
        labels = np.concatenate([d.labels for d in both])
        rng = np.random.default_rng([seed, 14])
        parts = dirichlet_split(labels, clients, CONCENTRATION, 12, rng)
        train, test = own_tests(parts, TEST_SHARE, rng)
        return ClientData(
            standardised(images), labels, 100, train, test,
            f"CIFAR-100, Dirichlet({CONCENTRATION:g}) over {clients} clients",
            both[0].source, both[0].sha256, both[0].subset,
        )  # fmt: skip

    return build


def _femnist(clients: int, seed: int) -> ClientData:
    """The first writers that have training and test images; the data set says which is which."""
    got = load_femnist()
    writers = np.intersect1d(got.group[got.tested], got.group[~got.tested])
    owner, chosen = _first(writers, clients, got.group, "writers")
    kept, tested = got.values[chosen], got.tested[chosen]
    return ClientData(
        standardised(kept)[:, None], got.labels[chosen], 62,
        *([np.flatnonzero((owner == c) & (tested == t)) for c in range(clients)] for t in (False, True)),
        f"FEMNIST, {clients} writers", got.source, got.sha256, got.subset,
    )  # fmt: skip


def _radhar(clients: int, seed: int) -> ClientData:
    """Recordings of each activity in the order of time, dealt in runs: the authors give no persons."""
    got = load_radhar()
    first = np.unique(got.group, return_index=True)[1]  # of each recording
    activity, owner_of = got.labels[first], np.empty(len(first), dtype=np.int64)
    for label in np.unique(activity):
        own = np.flatnonzero(activity == label)
        own = own[np.argsort(got.start[own], kind="stable")]
        owner_of[own] = np.arange(len(own)) * clients // len(own)
    owner = owner_of[got.group]
    return _by_owner(
        got, owner, clients, seed,
        f"RadHAR time-Doppler maps, {clients} groups of recordings",
        "RadHAR (millimetre-wave radar, 5 activities) in place of mmHAR, never published",
    )  # fmt: skip


def _ucihar(clients: int, seed: int) -> ClientData:
    """The first subjects."""
    got = load_ucihar()
    owner, chosen = _first(np.unique(got.group), clients, got.group, "subjects")
    kept = replace(got, values=got.values[chosen], labels=got.labels[chosen], group=owner)
    return _by_owner(
        kept, owner, clients, seed, f"UCI HAR, {clients} subjects",
        "UCI HAR (smartphone motion, 6 activities) in place of sonicHAR, never published",
    )  # fmt: skip


def _first(
    members: NDArray, clients: int, group: NDArray, kind: str
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Client of each record of the first members, and which records these are."""
    if clients > len(members):
        raise ValueError(f"clients must be at most {len(members)}, the {kind}, got {clients}")
    chosen = np.isin(group, members[:clients])
    return np.searchsorted(members, group[chosen]), chosen


def _by_owner(
    got: Grouped, owner: NDArray, clients: int, seed: int, name: str, stand_in: str
) -> ClientData:
    """A quarter of each client's records for testing (9 : 3 as in the paper)."""
    parts = [np.flatnonzero(owner == client) for client in range(clients)]
    train, test = own_tests(parts, 0.25, np.random.default_rng([seed, 15]))
    return ClientData(
        standardised(got.values), got.labels, len(got.classes), train, test,
        name, got.source, got.sha256, stand_in,
    )  # fmt: skip


FEDERATIONS: dict[str, Callable[[int, int], ClientData]] = {
    "digits_dirichlet": _digits_dirichlet,
    "digits_personal": _digits_personal,
    "generated_radar": _generated("radar", "mmHAR"),
    "generated_ultrasound": _generated("ultrasound", "sonicHAR"),
    "cifar100_subset": _cifar100("subset"),
    "cifar100": _cifar100("official"),
    "femnist": _femnist,
    "radhar": _radhar,
    "ucihar": _ucihar,
}
"""Every federation by name."""
