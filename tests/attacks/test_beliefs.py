"""Beliefs about the client's weights: several copies, each mask inferred; masks of zeros."""

from __future__ import annotations

import pytest
import torch

from repro.attacks import Averaged, InferredEach, Observation, public_prior, reconstruct
from split_attacks import dense, rng, small


def copies_of_a_dense_bottom(copies):
    """Images, weights, masks of theta = 1/2, and what is seen of every copy, (batch, copies, 4)."""
    weights = torch.randn(4, 6, generator=rng(5))
    images = torch.randn(24, 1, 2, 3, generator=rng(6))
    kept = (torch.rand(copies, 4, 6, generator=rng(8)) < 0.5).float()
    return images, weights, kept, torch.einsum("coi,bi->bco", weights * kept, images.flatten(1))


def fitted(copies):
    images, weights, kept, seen = copies_of_a_dense_bottom(copies)
    prior = public_prior(torch.randn(500, 1, 2, 3, generator=rng(9)), low=-9.0, high=9.0)
    variance = torch.full((1, 1, 1, 1), 1e-3)
    each = torch.full((2, copies, 24), 0.5)
    found = reconstruct(
        dense(6, 4), 1, Observation(seen[None], variance), InferredEach(weights.flatten(), each),
        prior, steps=150, restarts=2, seed=1,
    )  # fmt: skip
    agree = ((found.estimate[0].reshape(kept.shape) > 0).float() == kept).float().mean()
    return float((found.images[0] - images).square().mean()), float(agree)


def test_more_copies_reveal_more_where_every_mask_is_inferred():
    """Masks of 1/2 and fewer outputs than pixels: one copy leaves a lot open, eight do not."""
    once, often = fitted(1), fitted(8)
    assert often[0] < once[0] / 2
    assert often[1] > 0.75


def test_inferring_each_mask_of_one_copy_is_inferring_the_mask():
    images, weights, _, seen = copies_of_a_dense_bottom(1)
    theta = torch.full((1, 24), 0.3)
    each, one = InferredEach(weights.flatten(), theta[:, None]), torch.logit(theta) + 0.1
    assert torch.equal(each.start, torch.logit(theta))
    by_hand = torch.sigmoid(one)
    by_hand = by_hand * (by_hand / 0.3).log() + (1 - by_hand) * ((1 - by_hand) / 0.7).log()
    assert float(each.loss(one)) == pytest.approx(float(by_hand.sum()), rel=1e-4)
    assert torch.allclose(each.weights(one)[0, 0], weights.flatten() * torch.sigmoid(one)[0])


def test_gradients_and_several_copies_do_not_go_together():
    images, weights, _, seen = copies_of_a_dense_bottom(2)
    watched = Observation(
        seen[None], torch.ones(1, 1, 1, 1), seen[None], torch.ones(1, 24), torch.ones(1)
    )
    belief = InferredEach(weights.flatten(), torch.full((1, 2, 24), 0.5))
    prior = public_prior(images, low=-9.0, high=9.0)
    with pytest.raises(ValueError, match="gradient must be None"):
        reconstruct(dense(6, 4), 1, watched, belief, prior, steps=1, restarts=1, seed=0)
    with pytest.raises(ValueError, match="smashed must have the shape"):
        few = Observation(seen[None, :, :1], torch.ones(1, 1, 1, 1))
        reconstruct(dense(6, 4), 1, few, belief, prior, steps=1, restarts=1, seed=0)
    with pytest.raises(ValueError, match="theta must be finite, with 3 dimensions"):
        InferredEach(weights.flatten(), torch.full((2, 24), 0.5))


def test_a_mask_of_zeros_reveals_nothing_and_stays_finite():
    """All smashed data are the same: what remains is the prior."""
    weights = torch.randn(24, generator=rng(1))
    public = torch.randn(60, 1, 2, 3, generator=rng(2))
    prior = public_prior(public, low=-9.0, high=9.0)
    seen = Observation(torch.zeros(1, 3, 4), small(1e-3))
    belief = Averaged(weights, torch.zeros(1, 24), 2, rng())
    found = reconstruct(dense(6, 4), 1, seen, belief, prior, steps=40, restarts=1, seed=0)
    assert torch.allclose(found.images[0], public.mean(dim=0).expand(3, -1, -1, -1), atol=1e-3)


def test_a_loss_without_end_is_an_error():
    """Weights so large that every loss overflows."""
    prior = public_prior(torch.randn(60, 1, 2, 3, generator=rng(2)), low=-9.0, high=9.0)
    huge = Averaged(torch.full((24,), 1e38), torch.ones(1, 24), 1, rng())
    seen = Observation(torch.zeros(1, 3, 4), small(1e-3))
    with pytest.raises(ArithmeticError, match="not finite"):
        reconstruct(dense(6, 4), 1, seen, huge, prior, steps=3, restarts=1, seed=0)
