"""The methods of pmsfl's Table 1 on a tiny federation: what each shares, keeps, sends and survives."""

import math

import numpy as np
import pytest
import torch

from federations import CPU, OWN, config, data, make, plan
from repro.federated.client_data import ClientData, dirichlet_split, own_tests
from repro.federated.pmsfl import masks
from repro.federated.pmsfl.algorithm import PMSFL
from repro.federated.pmsfl.evaluation import client_accuracies
from repro.federated.pmsfl.exits import distillation
from repro.federated.pmsfl.lg_fedavg import LGFedAvg
from repro.federated.pmsfl.split_method import DivergedError
from repro.federated.pmsfl.splitfed import SplitFed
from repro.federated.pmsfl.splitfed_dp import SplitFedDP
from repro.federated.pmsfl.splitfed_pm import SplitFedPM
from repro.federated.pmsfl.standalone import Standalone
from repro.models.split import resnet18, split, transformer
from reproduce import paths
from reproduce.papers.pmsfl.federations import load_clients
from reproduce.papers.pmsfl.runs import METHODS, depths, device_of, keys_of, pmsfl_run

# Step by step ---------------------------------------------------------------------------------------


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


def test_the_server_steps_once_on_the_union_of_all_depths():
    method = make(mixed=True, participation=1.0)
    before = method.server.values.detach().clone()
    method.round(0)
    moved = method.server.values.detach() != before
    ends = [method.blocks.size(d) for d in range(5)]
    assert not moved[: ends[1]].any()  # no client leaves the first block to the server
    assert all(moved[a:b].any() for a, b in zip(ends[1:-1], ends[2:], strict=True))
    assert len(method.losses) == method.plan.iterations


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


def test_personal_masks_cost_an_indicator_and_are_not_sent():
    method = make("pmsfl", own={"agreement": 0, "ratio": 0.5}, rounds=2)
    method.round(0)
    size = method.blocks.size(2)
    shared = size - size // 2
    assert method.traffic.up["indicator"] == 3 * -(-size // 8)
    assert method.traffic.up["model"] == 3 * -(-shared // 8)


def test_the_upload_arrives_bit_by_bit():
    method = make("pmsfl", mixed=True, participation=1.0)
    cohort, generator = method.begin(0)
    sampled = (
        torch.rand(len(cohort.clients), len(method.shared), generator=generator) < 0.5
    ).float()
    personal = torch.rand(sampled.shape, generator=generator) < 0.3
    received = method.upload(sampled, personal, cohort, 0.3)
    assert torch.equal(received, sampled * (cohort.holds & ~personal))


# Who keeps what -------------------------------------------------------------------------------------


def test_standalone_never_meets_and_splitfed_always_does():
    alone, together = make("standalone"), make("splitfed")
    for method in (alone, together):
        method.round(0)
    everyone = np.arange(6)
    assert len(torch.unique(together.client_values(everyone), dim=0)) == 1
    assert len(torch.unique(alone.client_values(everyone), dim=0)) == 4  # three trained, the start


def test_layerwise_personalisation_keeps_the_first_block():
    method = make("lg_fedavg", participation=1.0)
    method.round(0)
    first = method.blocks.size(1)
    values = method.client_values(np.arange(6))
    assert len(torch.unique(values[:, :first], dim=0)) == 6
    assert len(torch.unique(values[:, first:], dim=0)) == 1
    with pytest.raises(ValueError, match="local_blocks"):
        make("lg_fedavg", own={"local_blocks": 5})


def test_limits_of_the_personal_ratio():
    everything = make("pmsfl", own={"agreement": 0, "ratio": 1.0}, rounds=1)
    everything.round(0)
    chosen = everything.personal.any(dim=1)
    assert int(chosen.sum()) == 3 and everything.personal[chosen].all()
    assert torch.equal(everything.shared, torch.full_like(everything.shared, 0.5))  # nobody shares
    nothing = make("pmsfl", own={"agreement": 0, "ratio": 0.0})
    nothing.round(0)
    assert not nothing.personal.any() and "indicator" not in nothing.traffic.up


def test_masks_are_averages_of_bits():
    method = make("pmsfl")
    method.round(0)
    thirds = (3 * method.shared).round()
    assert torch.allclose(3 * method.shared, thirds, atol=1e-5)


def test_compensation_mixes_layers_by_their_holders():
    method = make("pmsfl", federation=data(clients=4), mixed=True, participation=1.0,
                  own={"agreement": 4, "ratio": 0.5})  # fmt: skip
    captured = {}
    original = method.upload

    def watched(*args):
        captured["bits"] = original(*args)
        captured["server"] = method.server.kind.public(method.server.values)
        return captured["bits"]

    method.upload = watched
    method.round(0)
    a, b = method.blocks.size(3), method.blocks.size(4)  # the last block: one of four holds it
    expected = 0.75 * captured["server"][a:b] + 0.25 * captured["bits"][3, a:b]
    assert torch.allclose(method.shared[a:b], expected)
    first = method.blocks.size(1)
    assert torch.allclose(method.shared[:first], captured["bits"][:, :first].mean(dim=0))


def test_no_mask_leaves_its_interval():
    method = make("pmsfl", floor=0.1)
    for number in range(3):
        method.round(number)
    kept = method.kind.public(method.kind.trainable(method.shared))
    assert kept.min() >= 0.1 and kept.max() <= 0.9
    assert method.own.min() >= 0.1 and method.own.max() <= 0.9


def test_without_a_floor_coordinates_freeze_for_good():
    method = make("pmsfl", floor=0.0, own={"agreement": 4, "ratio": 0.0}, participation=0.34)
    method.round(0)
    ones, zeros = method.shared == 1, method.shared == 0
    assert ones.float().mean() > 0.1 and zeros.float().mean() > 0.1
    for number in range(1, 4):
        method.round(number)
        assert (method.shared[ones] == 1).all() and (method.shared[zeros] == 0).all()


# Noise ----------------------------------------------------------------------------------------------


def test_noise_has_the_stated_laws():
    method = make("splitfed_dp", own={**OWN["splitfed_dp"], "smashed_epsilon": 0.5, "bound": 2.0})
    g = torch.Generator().manual_seed(0)
    sent = method.sent(torch.full((200_000,), 7.0), g) - 2.0  # clipped to the bound
    scale = 2 * 2.0 / 0.5
    assert float(sent.abs().mean()) == pytest.approx(scale, rel=0.02)
    assert float(sent.var()) == pytest.approx(2 * scale**2, rel=0.05)
    gradient = torch.randn(3, 400_000, generator=g)
    out = method.finished_backward(gradient, g)
    sigma = math.sqrt(2 * 2 * math.log(1e5)) / (5.0 * 4)
    assert float(out.std()) == pytest.approx(sigma, rel=0.01)
    quiet = SplitFedDP(
        data(), resnet18(classes=3, channels=1, width=2, layers=1), depths(6, False), plan(), 3, CPU,
        smashed_epsilon=1e9, bound=1e3, update_epsilon=1e15, update_delta=1e-5, clip=1e9,
    )  # fmt: skip
    loud = make("splitfed", own={})
    for method in (quiet, loud):
        method.round(0)
    assert torch.allclose(quiet.shared, loud.shared, atol=1e-3)  # no noise, no clip: SplitFed
    with pytest.raises(ValueError, match="bound must be positive"):
        make("splitfed_dp", own={**OWN["splitfed_dp"], "bound": 0.0})


def test_self_distillation_by_hand():
    a, b = torch.tensor([[[2.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])
    labels = torch.tensor([[0]])
    p, q = torch.softmax(a, -1).flatten(), torch.softmax(b, -1).flatten()
    divergence = float((p * (p / q).log()).sum() + (q * (q / p).log()).sum())
    expected = (-float(p[0].log()) - float(q[0].log()) + divergence) / 2
    assert float(distillation([a, b], labels)) == pytest.approx(expected, rel=1e-5)
    assert float(distillation([a], labels)) == pytest.approx(-float(p[0].log()), rel=1e-5)


# Odd clients and bad input --------------------------------------------------------------------------


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


def test_a_mask_of_zeros_sends_zeros_and_survives():
    method = make("splitfed_pm")
    cohort, generator = method.begin(0)
    kind = method.kind
    scores = kind.trainable(method.broadcast(cohort)).requires_grad_()
    nothing = masks.masked(kind.weights, scores, torch.zeros_like(scores), kind.gradient)
    x = method.inputs(np.stack([p[:4] for p in method.data.train[:3]]))
    smashed = method.blocks.run(nothing, x, cohort.depths)[-1]
    assert torch.equal(smashed, torch.zeros_like(smashed))
    smashed.sum().backward()
    assert torch.isfinite(scores.grad).all()


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


# Runs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["splitfed_dp", "depthfl", "pmsfl", "local_only"])
def test_same_configuration_same_bits_and_interruptions_change_nothing(
    method, tmp_path, monkeypatch
):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    mixed = {"heterogeneous": True}
    whole = pmsfl_run(config(method, **mixed), 1)
    assert pmsfl_run(config(method, **mixed), 1) == whole
    assert whole["round"] == [0, 2, 3] and len(whole["accuracy"]) == 3

    kind, original = METHODS[method], METHODS[method].round

    def interrupted(self, number):
        if number == 2:
            raise KeyboardInterrupt
        original(self, number)

    pieces = config(method, **mixed, checkpoint=1)
    monkeypatch.setattr(kind, "round", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pmsfl_run(pieces, 1)
    assert len(list((tmp_path / "unfinished").glob("*.pt"))) == 1
    monkeypatch.setattr(kind, "round", original)
    assert pmsfl_run(pieces, 1) == whole
    assert not list((tmp_path / "unfinished").glob("*.pt"))


def test_methods_of_one_seed_share_data_participants_and_batches():
    one, two = make("splitfed"), make("splitfed_pm")
    first, second = one.begin(1)[0], two.begin(1)[0]
    assert np.array_equal(first.clients, second.clients)
    assert np.array_equal(one._places(first, 1), two._places(second, 1))


def test_configurations_are_checked():
    good = config("pmsfl")
    for change, told in (
        ({"ratio": 1.5}, "ratio"),
        ({"data": "mnist"}, "name must be one of"),
        ({"device": "tpu"}, "device"),
        ({"gradient": "exact"}, "gradient"),
        ({"floor": 0.5}, "floor"),
    ):
        with pytest.raises(ValueError, match=told):
            pmsfl_run({**good, **change}, 0)
    with pytest.raises(ValueError, match="misses 'ratio'"):
        pmsfl_run({k: v for k, v in good.items() if k != "ratio"}, 0)
    with pytest.raises(ValueError, match="has the unknown 'ratio'"):
        pmsfl_run({**config("splitfed"), "ratio": 0.5}, 0)
    with pytest.raises(ValueError, match="method must be one of"):
        keys_of("fedavg")
    assert device_of("cpu") == CPU


def test_embedded_federations():
    for name, clients in (
        ("digits_dirichlet", 10),
        ("digits_personal", 10),
        ("generated_radar", 4),
    ):
        one, two = (load_clients(name, clients=clients, seed=1) for _ in range(2))
        assert np.array_equal(one.inputs, two.inputs) and one.clients == clients and one.stand_in
        together = np.concatenate([*one.train, *one.test])
        assert len(np.unique(together)) == len(together)
        assert abs(float(one.inputs.mean())) < 1e-3
    writers = load_clients("digits_personal", clients=10, seed=1)
    assert all(len(np.unique(writers.labels[p])) <= 5 for p in writers.train)
    radar = load_clients("generated_radar", clients=4, seed=1)
    assert {(len(a), len(b)) for a, b in zip(radar.train, radar.test, strict=True)} == {(153, 51)}


def test_masks_learn():
    federation = data(clients=4, records=30)
    network = transformer(classes=3, features=8, width=16)
    sequences = ClientData(
        federation.inputs[:, 0], federation.labels, 3, federation.train, federation.test,
        "made up", "generated", "0",
    )  # fmt: skip
    schedule = plan(rounds=8, participation=1.0, iterations=4, batch=8, rate=0.003)
    method = PMSFL(sequences, network, depths(4, False), schedule, 0, CPU, agreement=2, ratio=0.5)
    for number in range(8):
        method.round(number)
    assert client_accuracies(method, 8, reference=8, chunk=4).mean() > 0.8


def test_the_plain_methods_are_what_their_names_say():
    assert not SplitFed.masks and not Standalone.masks and not SplitFedDP.masks
    assert SplitFedPM.masks and LGFedAvg.masks and PMSFL.masks
