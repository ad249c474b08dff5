"""Dealing records out to a federation."""

import numpy as np
import pytest

from repro.federated.client_data import deal

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
