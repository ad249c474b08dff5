"""Algorithm 1 of pmsfl on a tiny federation: what is kept, sent, averaged and mixed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from federations import CPU, config, data, make, plan
from repro.federated.client_data import ClientData
from repro.federated.pmsfl import algorithm as pmsfl
from repro.federated.pmsfl import masks
from repro.federated.pmsfl.algorithm import PMSFL
from repro.federated.saved_arrays import Checkpoint
from repro.models.split import transformer
from reproduce.papers.pmsfl.evaluation import client_accuracies
from reproduce.papers.pmsfl.runs import depths, pmsfl_run


def test_the_upload_arrives_bit_by_bit():
    method = make("pmsfl", mixed=True, participation=1.0)
    cohort, generator = method.begin(0)
    sampled = (
        torch.rand(len(cohort.clients), len(method.shared), generator=generator) < 0.5
    ).float()
    personal = torch.rand(sampled.shape, generator=generator) < 0.3
    received = method.upload(sampled, personal, cohort, 0.3)
    assert torch.equal(received, sampled * (cohort.holds & ~personal))


def test_personal_masks_cost_an_indicator_and_are_not_sent():
    method = make("pmsfl", own={"agreement": 0, "ratio": 0.5}, rounds=2)
    method.round(0)
    size = method.blocks.size(2)
    shared = size - size // 2
    assert method.traffic.up["indicator"] == 3 * -(-size // 8)
    assert method.traffic.up["model"] == 3 * -(-shared // 8)


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

    original = pmsfl.masks.over_sharers
    monkeypatch.setattr(pmsfl.masks, "over_sharers", watched)
    method.round(1)
    assert set(seen["uploads"].unique().tolist()) == {0.0, 1.0}
    assert torch.equal(seen["shared"], ~method.personal)
    nobody = ~seen["shared"].any(dim=0)
    for place in range(len(method.shared)):  # (7) coordinate by coordinate
        sent = seen["uploads"][seen["shared"][:, place], place]
        expected = seen["before"][place] if nobody[place] else sent.mean()
        assert float(method.shared[place]) == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize("ratio", [0.0, 1.0])
@pytest.mark.parametrize("agreement", [0, 3])
def test_the_ends_of_ratio_and_agreement_run(ratio, agreement):
    found = pmsfl_run(config("pmsfl", ratio=ratio, agreement=agreement, participation=1.0), 0)
    assert found["personal"] == (ratio if agreement == 0 else 0.0)
    assert ("indicator" in found["up"]) == (ratio > 0 and agreement == 0)


def test_a_round_of_empty_masks_is_survived(monkeypatch):
    method = make("pmsfl", mixed=True, participation=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(masks, "sample", lambda theta, generator: torch.zeros_like(theta))
        method.round(0)
    first = method.blocks.size(1)  # held by all: nothing but their zeros is averaged
    assert torch.equal(method.shared[:first], torch.zeros(first))
    used = method.kind.public(method.kind.trainable(method.shared))
    assert used.min() == method.plan.floor
    method.round(1)
    assert torch.isfinite(method.shared).all() and method.shared[:first].max() > 0


# Whole runs ---------------------------------------------------------------------------------------


class KilledError(Exception):
    pass


@pytest.mark.parametrize("name", ["pmsfl", "splitfed_dp", "depthfl"])
@pytest.mark.parametrize(("every", "number"), [(1, 2), (3, 2), (3, 3)])
def test_a_run_killed_in_any_round_ends_with_the_same_method(tmp_path, name, every, number):
    def killed(now, method):
        if now == number:
            raise KilledError

    whole = make(name, mixed=True)
    pmsfl.train(whole)
    checkpoint = Checkpoint(tmp_path / "run.pt", every)
    with pytest.raises(KilledError):
        pmsfl.train(make(name, mixed=True), watch=killed, checkpoint=checkpoint)
    resumed, seen = make(name, mixed=True), []
    pmsfl.train(resumed, watch=lambda now, method: seen.append(now), checkpoint=checkpoint)
    assert seen == list(range(number - number % every + 1, 5))
    for part in ("shared", "own", "personal"):
        assert torch.equal(getattr(whole, part), getattr(resumed, part))
    for one, other in zip(whole.server.state()["head"].values(),
                          resumed.server.state()["head"].values(), strict=True):  # fmt: skip
        assert torch.equal(one, other)
    with pytest.raises(ValueError, match="checkpoint must be of the same settings"):
        pmsfl.train(make(name, mixed=True, batch=3), checkpoint=checkpoint)


def test_a_whole_run_is_its_rounds_one_after_the_other():
    whole, rounds, seen = make("pmsfl"), make("pmsfl"), []
    pmsfl.train(whole, watch=lambda now, method: seen.append((now, method)), watch_every=3)
    for number in range(4):
        rounds.round(number)
    assert torch.equal(whole.shared, rounds.shared) and torch.equal(whole.own, rounds.own)
    assert seen == [(3, whole), (4, whole)]
    with pytest.raises(ValueError, match="watch_every must"):
        pmsfl.train(whole, watch_every=0)


def test_no_method_has_a_guarantee_while_labels_are_sent():
    """The server gets the labels of a batch as they are, so that a replaced record is told for certain."""
    for name in ("pmsfl", "splitfed_dp"):
        method = make(name)
        with pytest.raises(ValueError, match="must keep labels from the server for a guarantee"):
            method.guarantee(1e-5)
        given, answer = [], method.server.answer

        def watched(smashed, labels, *others, answer=answer, given=given):
            given.append(labels)
            return answer(smashed, labels, *others)

        method.server.answer = watched
        method.round(0)
        sent = {
            int(label) for labels in given for group in labels.values() for label in group.flatten()
        }
        assert sent <= set(method.data.labels.tolist()) and len(sent) > 1
