"""Probabilistic masks: what is sampled, what gradients reach, what goes over the wire, what freezes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.federated.pmsfl import masks
from repro.federated.pmsfl.masks import (
    compensated,
    over_sharers,
    personal_share,
    select_personal,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_samples_have_their_probabilities():
    theta = torch.tensor([0.0, 0.1, 0.5, 0.93, 1.0])
    drawn = masks.sample(theta.expand(40_000, 5), generator())
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(drawn.mean(dim=0)[[0, 4]], torch.tensor([0.0, 1.0]))
    error = (theta * (1 - theta) / 40_000).sqrt()
    assert ((drawn.mean(dim=0) - theta).abs() <= 4.5 * error + 1e-9).all()


def test_scores_undo_the_sigmoid_and_stay_finite():
    theta = torch.linspace(0, 1, 11)
    kept = torch.sigmoid(masks.scores(theta, 0.05))
    assert torch.allclose(kept, theta.clamp(0.05, 0.95), atol=1e-6)
    assert torch.isinf(masks.scores(theta, 0.0)[[0, -1]]).all()


@pytest.mark.parametrize("floor", [-0.1, 0.5, 1.0, float("nan")])
def test_a_floor_outside_its_range(floor):
    with pytest.raises(ValueError, match="floor must be in"):
        masks.scores(torch.tensor([0.5]), floor)


@pytest.mark.parametrize("gradient", masks.GRADIENTS)
def test_the_two_gradients(gradient):
    weights, score = torch.tensor([2.0, -3.0, 0.5]), torch.tensor([0.3, -1.0, 2.0])
    score.requires_grad_()
    mask = torch.tensor([1.0, 0.0, 1.0])
    out = masks.masked(weights, score, mask, gradient)
    assert torch.equal(out.detach(), weights * mask)
    upstream = torch.tensor([1.0, 2.0, -1.0])
    out.backward(upstream)
    theta = torch.sigmoid(score.detach())
    plain = upstream * weights * theta * (1 - theta)
    expected = plain if gradient == "straight_through" else plain * theta  # (4): sigma(s) once more
    assert torch.allclose(score.grad, expected)


def test_straight_through_is_unbiased_for_a_linear_loss_and_the_papers_is_not():
    # E[w.M a] = w.theta a has the derivative w a sigmoid'(s): by finite differences, no autograd
    weights, a = torch.tensor([1.5, -0.7]), torch.tensor([0.4, 2.0])
    score = torch.tensor([0.8, -0.6])

    def mean_loss(s):
        return float((weights * torch.sigmoid(s) * a).sum())

    step = 1e-3
    numeric = []
    for k in range(2):
        shift = torch.zeros(2)
        shift[k] = step
        numeric.append((mean_loss(score + shift) - mean_loss(score - shift)) / (2 * step))
    found = {}
    for gradient in masks.GRADIENTS:
        s = score.clone().requires_grad_()
        (
            masks.masked(weights, s, masks.sample(torch.sigmoid(s), generator()), gradient) * a
        ).sum().backward()
        found[gradient] = s.grad
    assert torch.allclose(found["straight_through"], torch.tensor(numeric), atol=1e-3)
    assert torch.allclose(found["paper"], torch.tensor(numeric) * torch.sigmoid(score), atol=1e-3)


def test_unknown_gradient():
    with pytest.raises(ValueError, match="gradient must be one of"):
        masks.masked(torch.ones(1), torch.ones(1), torch.ones(1), "exact")


@given(st.lists(st.booleans(), max_size=70))
@settings(max_examples=60, deadline=None)
def test_bits_survive_the_wire_and_cost_one_bit_each(bits):
    payload = masks.pack(torch.tensor(bits, dtype=torch.float32))
    assert len(payload) == -(-len(bits) // 8)
    assert masks.unpack(payload, len(bits)).tolist() == bits


def test_wrong_payloads():
    with pytest.raises(ValueError, match="zeros and ones only"):
        masks.pack(torch.tensor([0.0, 0.5]))
    with pytest.raises(ValueError, match="payload must have 2 bytes for 9 bits, got 1"):
        masks.unpack(b"\x00", 9)


def test_the_average_of_bits_is_within_the_papers_bound():
    # (6): E|mean of bits - mean of probabilities|^2 <= d / (4 K)
    theta = torch.rand(8, 500, generator=generator(1000))
    errors = [
        float((masks.sample(theta, generator(s)).mean(dim=0) - theta.mean(dim=0)).square().sum())
        for s in range(200)
    ]
    exact = float((theta * (1 - theta)).sum()) / 64
    assert np.mean(errors) == pytest.approx(exact, rel=0.05)
    assert np.mean(errors) <= 500 / (4 * 8)


# Aggregation ----------------------------------------------------------------------------------------


def test_average_over_sharers_by_hand():
    uploads = torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]])
    shared = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 1], [1, 1, 0, 1]]).bool()
    before = torch.tensor([0.5, 0.5, 0.25, 0.5])
    found = over_sharers(uploads, shared, before)
    assert torch.allclose(found, torch.tensor([2 / 3, 0.5, 0.25, 0.5]))


def test_where_nobody_shares_the_server_keeps_what_it_had():
    before = torch.tensor([0.1, 0.9])
    nothing = torch.zeros(3, 2, dtype=torch.bool)
    assert torch.equal(over_sharers(torch.full((3, 2), float("nan")), nothing, before), before)


def test_with_everything_shared_it_is_the_plain_mean():
    uploads = torch.rand(4, 9, generator=generator())
    everything = torch.ones(4, 9, dtype=torch.bool)
    assert torch.allclose(over_sharers(uploads, everything, torch.zeros(9)), uploads.mean(dim=0))
    with pytest.raises(ValueError, match="must be"):
        over_sharers(uploads, everything[:3], torch.zeros(9))


def test_compensation_goes_from_the_server_to_the_clients():
    client, server = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([0.0, 0.0, 0.0])
    mixed = compensated(client, server, torch.tensor([0, 1, 4]), 4)
    assert torch.equal(mixed, torch.tensor([0.0, 0.25, 1.0]))


# Personalisation ------------------------------------------------------------------------------------


def test_share_grows_after_the_agreement_and_stays():
    shares = [personal_share(t, 4, 20, 0.5) for t in range(20)]
    assert shares[:4] == [0.0] * 4 and shares[11:] == [0.5] * 9
    assert np.all(np.diff(shares) >= 0) and 0 < shares[4] < 0.5
    assert personal_share(19, 20, 20, 0.5) == 0.0
    assert personal_share(0, 0, 1, 1.0) == 1.0
    for bad in ({"ratio": 1.1}, {"agreement": 21}, {"number": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            personal_share(**{"number": 0, "agreement": 2, "rounds": 20, "ratio": 0.5, **bad})


def test_the_disagree_group_comes_first_then_the_largest_change():
    before = torch.tensor([[0.5, 0.49, 0.9, 0.4, 0.6, 0.2]])
    after = torch.tensor([[0.9, 0.51, 0.6, 0.8, 0.4, 0.3]])
    none, held = torch.zeros(1, 6, dtype=torch.bool), torch.ones(1, 6, dtype=torch.bool)
    order = []
    for k in range(1, 7):
        chosen = select_personal(none, before, after, held, min(1.0, k / 6 + 1e-9))
        order.append(set(torch.nonzero(chosen[0]).flatten().tolist()))
    # crossed 1/2: 3 (by 0.4), 4 (0.2), 1 (0.02); then 0 (0.4: from exactly 1/2), 2 (0.3), 5 (0.1)
    grown = [{3}, {3, 4}, {1, 3, 4}, {0, 1, 3, 4}, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4, 5}]
    assert order == grown


@given(seed=st.integers(0, 10**6), share=st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_sets_grow_and_stay_inside(seed, share):
    g = generator(seed)
    before, after = torch.rand(3, 30, generator=g), torch.rand(3, 30, generator=g)
    held = torch.arange(30) < torch.tensor([[10], [20], [30]])
    old = (torch.rand(3, 30, generator=g) < 0.2) & held
    new = select_personal(old, before, after, held, share)
    assert (new | ~old).all() and not (new & ~held).any()
    wanted = torch.maximum((share * held.sum(dim=1)).long(), old.sum(dim=1))
    assert torch.equal(new.sum(dim=1), wanted)
