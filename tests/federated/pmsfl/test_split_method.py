"""What all methods of pmsfl share: a step, a round, its bytes, odd federations, bad plans."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from federations import CPU, data, make, plan
from repro.federated.client_data import ClientData, own_tests
from repro.federated.pmsfl.rivals import (
    SplitFed,
)
from repro.federated.pmsfl.split_method import DivergedError, Traffic
from repro.models.split import resnet18, split
from reproduce.papers.pmsfl.evaluation import client_accuracies
from reproduce.papers.pmsfl.runs import METHODS, depths


def test_one_step_is_that_of_the_uncut_networks():
    # a second route: every client's bottom with the one top as ordinary modules, one backward
    federation = data(clients=3)
    method = make(federation=federation, participation=1.0, iterations=1)
    cohort, generator = method.begin(0)
    start = method.broadcast(cohort)
    places = method._places(cohort, 0)[:, 0]
    network = resnet18(classes=3, channels=1, width=2, layers=1)
    copies = [resnet18(classes=3, channels=1, width=2, layers=1) for _ in range(3)]
    _, top = split(network, 2)
    bottoms = [split(copy, 2)[0] for copy in copies]
    smashed = [
        b(torch.from_numpy(federation.inputs[p])) for b, p in zip(bottoms, places, strict=True)
    ]
    truth = torch.from_numpy(federation.labels[places.ravel()])
    loss = torch.nn.functional.cross_entropy(top(torch.cat(smashed)), truth)
    loss.backward()
    optimisers = [torch.optim.Adam(m.parameters(), lr=0.01) for m in (*bottoms, top)]
    for optimiser in optimisers:
        optimiser.step()
    trained = method.local_updates(cohort, start, 0, generator)
    assert method.losses == [pytest.approx(loss.item(), rel=1e-5)]
    for row, bottom in zip(trained, bottoms, strict=True):
        expected = torch.cat([p.detach().flatten() for p in bottom.parameters()])
        assert torch.allclose(row, expected, atol=2e-4)
    top_weights = torch.cat([p.detach().flatten() for p in network.blocks[2:].parameters()])
    assert torch.allclose(method.server.values[len(start[0]) :], top_weights, atol=2e-4)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("mixed", [False, True])
def test_every_method_runs_and_sends_what_it_counts(name, mixed):
    method = make(name, mixed=mixed)
    for number in range(2):
        method.round(number)
        accuracies = client_accuracies(method, number, reference=4, chunk=4)
        assert accuracies.shape == (6,) and ((accuracies >= 0) & (accuracies <= 1)).all()
    assert torch.isfinite(method.shared).all()
    up, count = method.traffic.up, 3
    if name == "local_only":
        assert up.get("smashed", 0) == 0 and up["model"] == 0
        return
    labels = count * method.plan.iterations * method.plan.batch
    assert up["smashed"] == method.traffic.down["smashed"] + labels
    if name == "standalone":
        assert up["model"] == method.traffic.down["model"] == 0


def test_bytes_of_uniform_depth_by_hand():
    size = make().blocks.size(2)
    found = {}
    for name in ("splitfed", "splitfed_pm", "lg_fedavg", "pmsfl"):
        method = make(name)
        method.round(0)
        found[name] = method.traffic.up
    assert found["splitfed"]["model"] == found["splitfed_pm"]["model"] == 3 * 4 * size
    assert found["lg_fedavg"]["model"] == 3 * 4 * (size - make().blocks.size(1))
    assert found["pmsfl"] == {"smashed": found["splitfed"]["smashed"], "model": 3 * -(-size // 8)}


def odd(train, test, labels):
    inputs = np.random.default_rng(0).standard_normal((len(labels), 1, 8, 8)).astype(np.float32)
    return ClientData(inputs, np.array(labels), 3, train, test, "odd", "generated", "0")


def test_one_class_or_two_images_are_enough():
    train = (np.array([0, 1, 2]), np.array([5]))
    test = (np.array([3, 4]), np.array([6]))
    federation = odd(train, test, [1, 1, 1, 1, 1, 0, 2])
    assert federation.trivial() == 0.5  # the first is always right, the second never
    for name in METHODS:
        method = make(name, federation=federation, participation=1.0)
        method.round(0)
        assert np.isin(client_accuracies(method, 0, reference=4, chunk=1), [0.0, 0.5, 1.0]).all()
    kept, tested = own_tests([np.array([3, 9])], 0.1, np.random.default_rng(0))
    assert len(kept[0]) == len(tested[0]) == 1
    with pytest.raises(ValueError, match="client 1 must have at least 2 records"):
        own_tests([np.array([3, 9]), np.array([4])], 0.1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="client 1 has no test record"):
        odd(train, (test[0], np.array([], dtype=int)), [1, 1, 1, 1, 1, 0, 2])


@pytest.mark.parametrize("name", ["splitfed", "pmsfl", "depthfl"])
def test_batches_of_one(name):
    method = make(name, batch=1, participation=0.1)  # one client, one record
    method.round(0)
    assert torch.isfinite(method.shared).all()


def test_a_loss_that_is_not_finite_ends_the_run_with_a_clear_error():
    federation = data()
    method = make(federation=federation)
    with torch.no_grad():
        method.network.head[-1].bias.fill_(float("nan"))
    with pytest.raises(DivergedError, match="the loss is nan in round 0, iteration 0"):
        method.round(0)
    with pytest.raises(ValueError, match="inputs must be finite"):
        ClientData(
            np.full((2, 1, 8, 8), np.nan, np.float32), np.array([0, 1]), 2,
            (np.array([0]),), (np.array([1]),), "bad", "generated", "0",
        )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"rounds": 0}, {"batch": 0}, {"iterations": 1.5}, {"rate": 0.0}, {"participation": 2}],
)
def test_bad_plans(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        plan(**change)


def test_depths_of_clients_are_checked():
    network = resnet18(classes=3, channels=1, width=2, layers=1)
    for wrong in ([2] * 5, [0] * 6, [5] * 6, [2.5] * 6):
        with pytest.raises(ValueError, match="depth"):
            SplitFed(data(), network, np.array(wrong), plan(), 0, CPU)
    assert depths(5, True).tolist() == [1, 2, 3, 4, 1]


@pytest.mark.parametrize("participation", [0, 0.0, 0.01, 0.1])
def test_one_client_takes_part_where_the_share_rounds_to_none(participation):
    method = make(participation=participation)  # Algorithm 1, line 4: max(C N, 1)
    assert len(method.begin(0)[0].clients) == 1


@pytest.mark.parametrize("participation", [0.5, 0.99, 1.0])
def test_the_share_of_clients_is_rounded_down(participation):
    method = make(participation=participation)
    drawn = method.begin(0)[0].clients
    assert len(set(drawn.tolist())) == len(drawn) == int(6 * participation)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"participation": -0.1}, r"participation must be in \[0, 1\], got -0.1"),
        ({"participation": 1.5}, r"participation must be in \[0, 1\], got 1.5"),
        ({"floor": 0.5}, r"floor must be in \[0, 1/2\), got 0.5"),
        ({"floor": "0.1"}, r"floor must be in \[0, 1/2\), got '0.1'"),
        ({"floor": None}, r"floor must be in \[0, 1/2\), got None"),
        ({"gradient": "exact"}, "gradient must be one of 'paper', 'straight_through', got 'exact'"),
        ({"mask_rate": float("nan")}, "mask_rate must be positive and finite, got nan"),
    ],
)
def test_a_plan_is_checked_before_anything_runs(change, message):
    with pytest.raises(ValueError, match=message):
        plan(**change)


BLOCKS = (
    9 * 2 + 2 * 9 * 4,
    9 * (2 * 4 + 4 * 4) + 2 * 4,
    9 * (4 * 8 + 8 * 8) + 4 * 8,
    9 * (8 * 16 + 16 * 16) + 8 * 16,
)


SMASHED = (2 * 8 * 8, 4 * 4 * 4, 8 * 2 * 2, 16 * 1 * 1)  # numbers of one record after each block


EXITS = tuple(3 * (channels + 1) for channels in (2, 4, 8, 16))


CLIENTS, RECORDS = 8, 2 * 4  # iterations times batch


SIZES = [sum(BLOCKS[:depth]) for depth in (1, 2, 3, 4) * 2]


def bits(count):
    return -(-count // 8)


def by_hand(name):
    """Model bytes up and down, and those of the indicator, of the second of two rounds."""
    if name in ("standalone", "local_only"):
        return 0, 0, 0
    if name == "pmsfl":  # half of each client's masks are personal after the first round
        shared = [size - size // 2 for size in SIZES]
        return sum(map(bits, shared)), 4 * sum(shared), sum(map(bits, SIZES))
    numbers = sum(SIZES)
    if name == "lg_fedavg":
        numbers -= CLIENTS * BLOCKS[0]
    if name == "depthfl":
        numbers += 2 * sum(sum(EXITS[:depth]) for depth in (1, 2, 3, 4))
    return 4 * numbers, 4 * numbers, 0


@pytest.mark.parametrize("name", METHODS)
def test_bytes_of_mixed_depths_are_those_of_what_is_packed(name, monkeypatch):
    own = {"agreement": 0, "ratio": 0.5} if name == "pmsfl" else None
    method = make(name, data(clients=CLIENTS), mixed=True, own=own, participation=1.0, rounds=2)
    method.round(0)
    wire, original = {"up": 0, "down": 0}, Traffic.count

    def packed(self, way, kind, sent):
        payload = sent if isinstance(sent, bytes) else sent.detach().numpy().tobytes()
        wire["up" if way is self.up else "down"] += len(payload)
        original(self, way, kind, sent)

    monkeypatch.setattr(Traffic, "count", packed)
    method.round(1)
    up, down = method.traffic.up, method.traffic.down
    assert wire == {"up": sum(up.values()), "down": sum(down.values())}
    model_up, model_down, indicator = by_hand(name)
    assert (up["model"], down["model"], up.get("indicator", 0)) == (model_up, model_down, indicator)
    smashed = 0 if name == "local_only" else 2 * RECORDS * 4 * sum(SMASHED)
    labels = 0 if name == "local_only" else CLIENTS * RECORDS
    assert down.get("smashed", 0) == smashed
    assert up.get("smashed", 0) == smashed + labels


def test_a_payload_is_counted_by_its_bytes():
    traffic = Traffic()
    traffic.count(traffic.up, "model", b"abc")
    traffic.count(traffic.up, "model", torch.zeros(5))
    traffic.count(traffic.down, "smashed", torch.zeros(5, dtype=torch.uint8))
    assert traffic.up == {"model": 23} and traffic.down == {"smashed": 5}
