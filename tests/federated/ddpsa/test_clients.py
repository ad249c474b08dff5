"""The clients of ddpsa: sums of clipped gradients against PyTorch and against an adversary."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plane_data import data, gradients
from repro.accounting.ddpsa.printed import clip_l1
from repro.federated.ddpsa.clients import Federation, clipped_sums


@given(
    st.integers(0, 2**32),
    st.sampled_from([(1, 1), (2, 3), (5, 2), (4, 6)]),
    st.floats(0.01, 100),
    st.floats(0.01, 100),
)
@settings(max_examples=40, deadline=None)
def test_clipped_sums_are_those_of_clipped_gradients(seed, dealt, first, second):
    """Every client's sum is that of its own records' clipped gradients, for every part and clip."""
    clients, batches = np.array([dealt[0], 2]), dealt[1]
    training = data(600)
    models = np.random.default_rng(seed).normal(0, 2, (2, 2, 3))
    federation = Federation.deal(training, clients, batches)
    for part in range(batches):
        found = clipped_sums(
            federation, models, [first, second], federation.membership(clients), part
        )
        assert found.shape == (2, 2, clients.max(), 3)
        for k, clip in enumerate((first, second)):
            clipped = clip_l1(gradients(training, models[:, k]), clip)
            blocks = math.lcm(*clients)
            used = clipped.reshape(2, blocks, batches, -1, 3)[:, :, part]
            each = used.reshape(2, clients[k], -1, 3).sum(axis=2)
            np.testing.assert_allclose(found[:, k, : clients[k]], each, rtol=1e-9, atol=1e-9)
            assert not found[:, k, clients[k] :].any()


def test_parts_cover_every_record_once():
    federation = Federation.deal(data(600), [2, 3], 5)
    models = np.zeros((2, 1, 3))
    parts = [
        clipped_sums(federation, models, [math.inf], federation.membership(np.array([3])), part)
        for part in range(5)
    ]
    whole = gradients(data(600), models[:, 0]).reshape(2, 3, -1, 3).sum(axis=2)
    np.testing.assert_allclose(np.sum(parts, axis=0)[:, 0], whole, rtol=1e-10)


@given(st.integers(0, 2**32), st.floats(0.01, 10))
@settings(max_examples=40, deadline=None)
def test_one_record_moves_its_clients_sum_by_at_most_the_clip(seed, clip):
    """Adversary: any record, far outside the data's range, put in the place of one that counts nil."""
    rng = np.random.default_rng(seed)
    training = data()
    model = rng.normal(size=(2, 1, 3))
    silent = np.einsum("rk,rk->r", training.inputs[:, 7], model[:, 0])
    training.targets[:, 7] = silent  # no error, no gradient: as if the record were not there
    worst = training.inputs.copy(), training.targets.copy()
    worst[0][:, 7, :2] = rng.normal(0, 10 ** rng.uniform(-2, 4), (2, 2))
    worst[1][:, 7] = rng.normal(0, 10 ** rng.uniform(-2, 8), 2)
    sums = []
    for inputs, targets in ((training.inputs, training.targets), worst):
        federation = Federation.deal(replace(training, inputs=inputs, targets=targets), [2])
        sums.append(clipped_sums(federation, model, [clip], federation.membership(np.array([2]))))
    moved = np.abs(sums[1] - sums[0]).sum(axis=-1)
    assert moved.max() <= clip * (1 + 1e-9)
    # The other client's is as it was, but for rounding: the order of a matrix product's sums may change.
    assert moved.max(axis=(0, 1)).min() <= 1e-14 * clip * training.inputs.shape[1]


def test_every_client_holds_the_same_number_of_records():
    federation = Federation.deal(data(600), [1, 2, 3, 4, 6])
    members = federation.membership(np.array([1, 2, 3, 4, 6]))
    assert members.shape == (5, 6, 12)
    assert (members.sum(axis=1) == 1).all()  # each block has one holder
    for n, one in zip((1, 2, 3, 4, 6), members, strict=True):
        assert (one.sum(axis=1) == [12 / n] * n + [0] * (6 - n)).all()
    np.testing.assert_array_equal(federation.held(np.array([1, 6])), [360, 60])


@pytest.mark.parametrize(
    ("clients", "batches"), [([7], 1), ([2], 7), ([0], 1), ([2], 0), ([2.0], 1)]
)
def test_uneven_deals_are_refused(clients, batches):
    with pytest.raises(ValueError, match="clients|batches"):
        Federation.deal(data(), clients, batches)


def test_many_clients_need_no_matrix_of_who_holds_what():
    """One block for each client: no matrix is made, and the sums are bit for bit those with one."""
    clients, training = np.array([60, 60]), data(600)
    federation = Federation.deal(training, clients, 2)
    assert federation.membership(clients) is None
    matrix = np.broadcast_to(np.eye(60), (2, 60, 60))
    assert federation.membership(np.array([60, 30])).shape == (2, 60, 60)
    models = np.random.default_rng(0).normal(0, 2, (2, 2, 3))
    for part in range(2):
        found = clipped_sums(federation, models, [0.5, math.inf], None, part)
        np.testing.assert_array_equal(
            found, clipped_sums(federation, models, [0.5, math.inf], matrix, part)
        )
