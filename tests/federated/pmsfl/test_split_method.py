"""What a round of split learning does, by second routes: gradients, steps, exits, personal sets, tests."""

import numpy as np
import pytest
import torch
from torch import nn

from federations import CPU, config, data, make, plan
from repro.federated.client_data import ClientData
from repro.federated.pmsfl import algorithm as pmsfl
from repro.federated.pmsfl import blocks as flat_blocks
from repro.federated.pmsfl.blocks import FlatBlocks
from repro.federated.pmsfl.evaluation import client_accuracies
from repro.federated.pmsfl.masks import MaskTraining, WeightTraining
from repro.federated.pmsfl.rivals import SplitFed, distillation
from repro.federated.pmsfl.server import SplitServer
from repro.models.split import resnet18, split, statistics_from, transformer
from reproduce.papers.pmsfl.runs import pmsfl_run


def tensors(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# The server -----------------------------------------------------------------------------------------


def test_each_client_is_sent_the_gradient_of_its_own_mean_loss():
    # layer normalisation couples no records, so that every client's loss can be computed alone
    network = transformer(classes=3, features=4, width=8)
    blocks = FlatBlocks(network)
    server = SplitServer(network, blocks, WeightTraining(blocks.weights(), 0.01), 0.01)
    start = [p.detach().clone() for p in network.head.parameters()]
    smashed = {1: tensors(2, 5, 6, 8), 3: tensors(1, 5, 6, 8, seed=1)}
    labels = {
        1: torch.tensor([[0, 1, 2, 0, 1], [2, 2, 1, 0, 0]]),
        3: torch.tensor([[1, 1, 0, 2, 0]]),
    }
    gradients, loss = server.answer(smashed, labels, torch.Generator())

    with torch.no_grad():  # the step changed the head: back to where the gradients were taken
        for p, old in zip(network.head.parameters(), start, strict=True):
            p.copy_(old)
    losses = []
    for depth, batches in smashed.items():
        for client, batch in enumerate(batches):
            arrived = batch.clone().requires_grad_()
            own = nn.functional.cross_entropy(
                split(network, depth)[1](arrived), labels[depth][client]
            )
            (expected,) = torch.autograd.grad(own, arrived)
            assert torch.allclose(gradients[depth][client], expected, atol=1e-7)
            losses.append(own.item())
    assert loss == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("name", ["splitfed", "pmsfl"])
def test_the_server_steps_as_often_as_there_are_iterations(name):
    method = make(name, data(clients=8), mixed=True, participation=1.0, iterations=3)
    method.round(0)
    counts = {int(s["step"]) for s in method.server._optimiser.state.values()}
    assert counts == {3}  # not once for each of the eight clients or the three depths with a top


def test_a_masked_server_trains_no_weights_but_the_heads():
    method = make("pmsfl", data(clients=4), mixed=True, participation=1.0)
    assert isinstance(method.server.kind, MaskTraining)
    frozen, head = (
        method.server.kind.weights.clone(),
        method.network.head[-1].weight.detach().clone(),
    )
    scores = method.server.values.detach().clone()
    method.round(0)
    assert torch.equal(method.server.kind.weights, frozen)
    assert torch.equal(method.kind.weights, frozen)
    assert not torch.equal(method.network.head[-1].weight, head)
    assert not torch.equal(method.server.values, scores)
    assert isinstance(
        make("pmsfl").server.kind, WeightTraining
    )  # one depth: w_p is trained, as in (3)


# Personal sets --------------------------------------------------------------------------------------


def test_nothing_is_personal_before_the_agreement_then_sets_only_grow():
    method = make("pmsfl", participation=1.0, rounds=8, own={"agreement": 3, "ratio": 0.6})
    size, counts, before = method.blocks.size(2), [], method.personal.clone()
    for number in range(8):
        method.round(number)
        assert (method.personal | ~before).all()  # once personal, for good
        before = method.personal.clone()
        counts.append(method.personal.sum(dim=1).tolist())
    # five rounds are left, the set grows in two of them
    shares = [0, 0, 0, 0.3, 0.6, 0.6, 0.6, 0.6]
    assert counts == [[int(np.float32(share) * size)] * 6 for share in shares]


def test_personal_values_stay_with_the_client_and_shared_ones_are_broadcast():
    method = make("pmsfl", participation=0.5, own={"agreement": 0, "ratio": 0.5})
    for number in range(3):
        method.round(number)
    everyone = np.arange(6)
    values, own = method.client_values(everyone), method.personal
    assert own.any()
    assert torch.equal(values[own], method.own[own])
    assert torch.equal(values[~own], method.shared.expand_as(values)[~own])


def test_the_server_averages_the_bits_of_those_who_share(monkeypatch):
    method = make("pmsfl", participation=1.0, own={"agreement": 0, "ratio": 0.5})
    method.round(0)
    seen = {}

    def watched(uploads, shared, before):
        seen.update(uploads=uploads.clone(), shared=shared.clone(), before=before.clone())
        return original(uploads, shared, before)

    original = pmsfl.over_sharers
    monkeypatch.setattr(pmsfl, "over_sharers", watched)
    method.round(1)
    assert set(seen["uploads"].unique().tolist()) == {0.0, 1.0}
    assert torch.equal(seen["shared"], ~method.personal)
    nobody = ~seen["shared"].any(dim=0)
    for place in range(len(method.shared)):  # (7) coordinate by coordinate
        sent = seen["uploads"][seen["shared"][:, place], place]
        expected = seen["before"][place] if nobody[place] else sent.mean()
        assert float(method.shared[place]) == pytest.approx(float(expected), abs=1e-6)


# Self-distillation ----------------------------------------------------------------------------------


def test_an_exit_learns_from_the_others_which_do_not_follow_it():
    a, b = tensors(1, 2, 3).requires_grad_(), tensors(1, 2, 3, seed=1)
    labels = torch.tensor([[0, 2]])
    distillation([a, b], labels).backward()
    p, q, truth = (
        torch.softmax(a.detach(), -1),
        torch.softmax(b, -1),
        nn.functional.one_hot(labels, 3),
    )
    # d/da of (cross-entropy + KL(q || p)) / 2, the mean over two records; KL(p || q) has another
    assert torch.allclose(a.grad, ((p - truth) + (p - q)) / 2 / 2, atol=1e-6)


def test_exits_are_averaged_over_those_who_hold_them():
    method = make("depthfl", data(clients=4), mixed=True, participation=1.0)
    method.round(0)
    trained = method._trained  # depth -> its exits, (clients, classes, features + 1)
    for place in range(4):
        copies = [trained[depth][place][0] for depth in range(place + 1, 5)]
        assert torch.allclose(method.exits[place], torch.stack(copies).mean(dim=0))
    assert not torch.equal(trained[4][0], trained[1][0])


# Testing --------------------------------------------------------------------------------------------


def uneven(seed=0, loud=False):
    """Three clients with 3, 9 and 15 test records; `loud`: the last one's are replaced."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 57)
    inputs = rng.standard_normal((57, 1, 8, 8)).astype(np.float32)
    inputs += labels[:, None, None, None]
    test = (np.arange(3), np.arange(3, 12), np.arange(12, 27))
    if loud:
        inputs[test[2]] = 1000 * rng.standard_normal((15, 1, 8, 8))
    train = tuple(np.split(np.arange(27, 57), 3))
    return ClientData(inputs, labels, 3, train, test, "made up", "generated", "0")


def trained(federation):
    network = resnet18(classes=3, channels=1, width=2, layers=1)
    schedule = plan(participation=1.0)
    method = SplitFed(federation, network, np.full(3, 2), schedule, 0, CPU)
    method.round(0)
    return method


def test_accuracies_by_plain_modules():
    federation = uneven()
    method = trained(federation)
    found = client_accuracies(method, 0, reference=10, chunk=2)
    whole = torch.cat([method.shared, method.server.values.detach()[len(method.shared) :]])
    with torch.no_grad():
        start = 0
        for p in (p for block in method.network.blocks for p in block.parameters()):
            p.copy_(whole[start : start + p.numel()].view(p.shape))
            start += p.numel()
        bottom, top = split(method.network, 2)
        inputs = torch.from_numpy(federation.inputs)
        references, tests = [], []
        for train, test in zip(federation.train, federation.test, strict=True):
            with statistics_from(bottom, 10):
                smashed = bottom(inputs[np.concatenate([train, test])])
            references.append(smashed[:10])
            tests.append(smashed[10:])
        with statistics_from(top, 30):
            logits = top(torch.cat([*references, *tests]))[30:]
    right = logits.argmax(dim=1).numpy() == federation.labels[np.concatenate(federation.test)]
    assert found.tolist() == [part.mean() for part in np.split(right, [3, 12])]


def test_nobodys_test_records_change_the_accuracy_of_another():
    quiet, loud = (client_accuracies(trained(uneven(loud=loud)), 0, reference=10, chunk=2)
                   for loud in (False, True))  # fmt: skip
    assert quiet[:2].tolist() == loud[:2].tolist()


def test_every_client_counts_the_same_whatever_it_tests():
    found = pmsfl_run(config("splitfed"), 0)
    assert found["accuracy"][-1] == pytest.approx(np.mean(found["clients"]), abs=2e-5)


# Stacked clients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["images", "sequences"])
def test_a_loop_over_clients_is_the_stacked_run(kind, monkeypatch):
    if kind == "images":
        network, x = resnet18(classes=3, channels=1, width=3, layers=1), tensors(4, 5, 1, 8, 8)
    else:
        network, x = transformer(classes=3, features=4, width=8), tensors(4, 5, 6, 4)
    blocks, depths = FlatBlocks(network), [1, 2, 2, 4]
    found = []
    for bound in (flat_blocks.STACKED_BELOW, 0):
        monkeypatch.setattr(flat_blocks, "STACKED_BELOW", bound)
        assert blocks.stacked(x) == (bound > 0)
        flat = (blocks.weights() * tensors(4, blocks.size(4), seed=2)).requires_grad_()
        outputs = blocks.run(flat, x, depths)
        (gradient,) = torch.autograd.grad(sum(q.sum() + q.square().sum() for q in outputs), flat)
        found.append([*outputs, gradient])
    for one, two in zip(*found, strict=True):
        assert one.shape == two.shape and torch.allclose(one, two, rtol=1e-4, atol=1e-4)


def test_small_layers_are_stacked_and_wide_ones_only_on_a_gpu():
    small, wide = (FlatBlocks(resnet18(classes=3, channels=3, width=w, layers=1)) for w in (8, 64))
    x = torch.zeros(2, 1, 3, 32, 32)
    assert small.first_cost(x) == 9 * (3 * 8 + 2 * 8 * 8) * 32 * 32
    assert small.stacked(x) and not wide.stacked(x)
    assert wide.stacked(x.to("meta"))
    little, large = (FlatBlocks(transformer(classes=3, features=8, width=w)) for w in (32, 768))
    frames = torch.zeros(2, 1, 30, 8)
    assert little.stacked(frames) and not large.stacked(frames)
