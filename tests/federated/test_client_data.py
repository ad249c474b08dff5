"""Dealing records out to a federation."""

import numpy as np
import pytest

from repro.federated.client_data import ClientData, deal, dirichlet_split

LABELS = np.random.default_rng(7).integers(0, 2, 54)


def test_one_label_per_client_in_proportion_to_the_labels():
    labels = np.repeat([0, 1], [24_720, 7_841])
    dealt = deal(labels, 100, 325, "one_label", np.random.default_rng(0))
    held = labels[dealt]
    assert dealt.shape == (100, 325) and len(np.unique(dealt)) == 32_500
    assert (held == held[:, :1]).all() and held[:, 0].tolist() == [0] * 76 + [1] * 24
    other = deal(labels, 100, 325, "one_label", np.random.default_rng(1))
    assert not np.array_equal(dealt, other)


def test_shuffled_clients_hold_every_label():
    labels = np.repeat([0, 1], [24_720, 7_841])
    dealt = deal(labels, 100, 325, "shuffled", np.random.default_rng(0))
    share = labels[dealt].mean(axis=1)
    assert len(np.unique(dealt)) == 32_500 and share.min() > 0.1 and share.max() < 0.4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((LABELS, 6, 10, "shuffled"), "clients . records must be at most 54, got 6 . 10"),
        (
            (np.repeat([0, 1], [51, 49]), 4, 25, "one_label"),
            "at most 24 for the 2 clients of label 1",
        ),
        ((LABELS, 6, 9, "by_sex"), "split must be one of"),
        ((LABELS, 0, 9, "shuffled"), "clients must"),
        ((LABELS, 6, 0, "shuffled"), "records must"),
    ],
)
def test_deals_that_cannot_be_made(arguments, message):
    with pytest.raises(ValueError, match=message):
        deal(*arguments, np.random.default_rng(0))


def test_dirichlet_deals_everything_once():
    labels = np.repeat(np.arange(5), 40)
    parts = dirichlet_split(labels, 8, 0.3, 5, np.random.default_rng(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(200))
    assert min(map(len, parts)) >= 5
    even = dirichlet_split(labels, 8, 1e6, 5, np.random.default_rng(0))
    assert all(abs(np.bincount(labels[p], minlength=5) - 5).max() <= 1 for p in even)
    for bad in ({"concentration": 0.0}, {"smallest": 26}, {"clients": 0}):
        arguments = {"clients": 8, "concentration": 0.3, "smallest": 5, **bad}
        with pytest.raises(ValueError, match=next(iter(bad))):
            dirichlet_split(labels, rng=np.random.default_rng(0), **arguments)


def federation(train, test, labels=(0, 1, 1, 0)):
    return ClientData(
        np.zeros((4, 1, 8, 8), np.float32), np.array(labels), 2,
        tuple(map(np.array, train)), tuple(map(np.array, test)), "odd", "generated", "0",
    )  # fmt: skip


def test_who_holds_what_is_checked():
    federation([[0], [1]], [[2], [3]])
    for train, test, message in (
        ([[0, 1]], [[1, 2]], "record 1 must be in one place only"),
        ([[0], [0]], [[2], [3]], "record 0 must be in one place only"),
        ([[0], [1]], [[2], [4]], r"places in \[0, 3\]"),
        ([[0], [-1]], [[2], [3]], r"places in \[0, 3\]"),
        ([[0], [1]], [[2]], "one list for each client, got 2 and 1"),
        ([], [], "one list for each client, got 0 and 0"),
    ):
        with pytest.raises(ValueError, match=message):
            federation(train, test)
    with pytest.raises(ValueError, match=r"labels must be in \[0, 1\]"):
        federation([[0]], [[1]], labels=(0, 1, 2, 0))
