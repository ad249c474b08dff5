"""Reconstruction of images from what a client sends: exact cases, limits, priors, bad input."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from repro.attacks import (
    Averaged,
    Inferred,
    Known,
    Observation,
    public_prior,
    reconstruct,
    smooth_prior,
)
from repro.attacks.priors import total_variation
from repro.attacks.reconstruction import bottom
from repro.attacks.stacked_lbfgs import minimise
from repro.federated.pmsfl.blocks import FlatBlocks
from repro.models.split import resnet18
from reproduce.papers.pmsfl.image_quality import linked, psnr, relative_distance, ssim
from split_attacks import dense, rng, small


def flat_prior(shape=(1, 2, 3), variation=0.0):
    return smooth_prior(shape, variation=variation, low=-10.0, high=10.0)


def test_linear_bottom_is_inverted_as_by_the_pseudo_inverse():
    weights = torch.randn(9, 6, generator=rng(1))
    images = torch.randn(4, 1, 2, 3, generator=rng(2))
    seen = images.flatten(1) @ weights.T
    found = reconstruct(
        dense(6, 9), 1, Observation(seen[None], small(1e-3)), Known(weights.reshape(1, -1)),
        flat_prior(), steps=100, restarts=1, seed=0,
    )  # fmt: skip
    by_hand = (seen @ torch.linalg.pinv(weights).T).reshape(4, 1, 2, 3)
    assert torch.allclose(found.images[0], by_hand, atol=1e-3)
    assert torch.allclose(found.images[0], images, atol=1e-3)


def test_noisy_linear_bottom_gives_the_posterior_mean():
    """With the covariance of public images as prior, the answer is that of Bayes' rule."""
    weights = torch.randn(4, 6, generator=rng(1))
    public = torch.randn(50, 1, 2, 3, generator=rng(2)) * torch.arange(1.0, 7).reshape(1, 1, 2, 3)
    image, variance = public[:1], 0.5
    seen = image.flatten(1) @ weights.T + torch.randn(1, 4, generator=rng(3)) * variance**0.5
    prior = public_prior(public, low=-100.0, high=100.0)
    found = reconstruct(
        dense(6, 4), 1, Observation(seen[None], small(variance)), Known(weights.reshape(1, -1)),
        prior, steps=150, restarts=1, seed=0,
    )  # fmt: skip
    cov, mean = prior.factor @ prior.factor.T, prior.mean.flatten()
    gain = cov @ weights.T @ torch.linalg.inv(weights @ cov @ weights.T + variance * torch.eye(4))
    expected = mean + gain @ (seen[0] - weights @ mean)
    assert torch.allclose(found.images.flatten(), expected, atol=5e-3)


def test_gradient_of_a_dense_layer_gives_its_input():
    """One record, one dense layer: the gradient is answer x input, as in appendix B."""
    weights = torch.randn(5, 6, generator=rng(1))
    image = torch.randn(1, 1, 2, 3, generator=rng(2))
    answer = torch.randn(1, 1, 5, generator=rng(3))
    gradient = torch.outer(answer[0, 0], image.flatten())
    blind = Observation(
        torch.zeros(1, 1, 5), small(math.inf), answer, gradient.reshape(1, -1), torch.tensor([1e-3])
    )
    known = Known(weights.reshape(1, -1))
    found = reconstruct(
        dense(6, 5), 1, blind, known, flat_prior(), steps=60, restarts=1, seed=0
    )  # fmt: skip
    closed = (answer[0, 0] @ gradient) / answer[0, 0].square().sum()
    assert torch.allclose(found.images.flatten(), closed, atol=1e-3)
    assert torch.allclose(found.images, image[None], atol=1e-3)


def test_gradient_of_a_batch_gives_every_input_where_the_answers_differ():
    """Three records: the gradient is the sum of answer x input, solved by a pseudo-inverse."""
    weights = torch.randn(5, 6, generator=rng(1))
    images = torch.randn(3, 1, 2, 3, generator=rng(2))
    answer = torch.randn(1, 3, 5, generator=rng(3))
    gradient = answer[0].T @ images.flatten(1)
    blind = Observation(
        torch.zeros(1, 3, 5), small(math.inf), answer, gradient.reshape(1, -1), torch.tensor([1e-3])
    )
    found = reconstruct(
        dense(6, 5), 1, blind, Known(weights.reshape(1, -1)), flat_prior(), steps=100, restarts=1,
        seed=0,
    )  # fmt: skip
    closed = torch.linalg.pinv(answer[0].T) @ gradient
    assert torch.allclose(found.images[0].flatten(1), closed, atol=5e-3)
    assert torch.allclose(found.images[0], images, atol=5e-3)


def test_clipped_gradient_is_recognised_as_clipped():
    weights, image = torch.zeros(5, 6), torch.randn(1, 1, 2, 3, generator=rng(2))
    answer = torch.randn(1, 1, 5, generator=rng(3))
    gradient = torch.outer(answer[0, 0], image.flatten()).reshape(1, -1)
    clip = gradient.norm() / 4
    smashed = (image.flatten()[:5] / 2).reshape(1, 1, 5)
    weights[:, :5] = torch.eye(5) / 2
    seen = Observation(
        smashed, small(1e-3), answer, gradient / 4, torch.tensor([1e-4]), clip=clip[None]
    )
    found = reconstruct(
        dense(6, 5), 1, seen, Known(weights.reshape(1, -1)), flat_prior(), steps=100, restarts=1,
        seed=0,
    )  # fmt: skip
    assert torch.allclose(found.images, image[None], atol=0.02)


def test_activations_out_of_the_clip_are_recognised_as_clipped():
    image = torch.tensor([0.5, 3.0, -0.2, -4.0]).reshape(1, 1, 2, 2)
    seen = Observation(image.flatten(1)[None].clamp(-1, 1), small(1e-4), bound=torch.tensor([1.0]))
    found = reconstruct(
        dense(4, 4), 1, seen, Known(torch.eye(4).reshape(1, -1)), flat_prior((1, 2, 2)), steps=60,
        restarts=1, seed=0,
    ).images.flatten()  # fmt: skip
    assert torch.allclose(found[[0, 2]], image.flatten()[[0, 2]], atol=1e-3)
    assert found[1] > 0.99 and found[3] < -0.99


def test_seeing_nothing_gives_the_mean_of_public_images():
    public = torch.randn(40, 1, 2, 3, generator=rng(2))
    prior = public_prior(public, low=-10.0, high=10.0)
    seen = Observation(torch.zeros(1, 3, 4), small(math.inf))
    found = reconstruct(
        dense(6, 4), 1, seen, Known(torch.ones(1, 24)), prior, steps=30, restarts=1, seed=0
    )
    assert torch.allclose(found.images[0], public.mean(dim=0).expand(3, -1, -1, -1), atol=1e-4)


def test_trying_every_mask_finds_the_true_one():
    weights = torch.randn(4, 2, generator=rng(5))
    images = torch.randn(3, 1, 1, 2, generator=rng(6))
    every = torch.tensor(list(itertools.product((0.0, 1.0), repeat=8)))
    truth = 0b10110111
    seen = images.flatten(1) @ (weights * every[truth].reshape(4, 2)).T
    found = reconstruct(
        dense(2, 4), 1, Observation(seen[None], small(1e-4)), Known(weights.flatten() * every),
        flat_prior((1, 1, 2)), steps=60, restarts=len(every), seed=0,
    )  # fmt: skip
    assert int(found.chosen) == truth
    assert torch.allclose(found.images[0], images, atol=1e-2)


def test_inferring_a_mask_finds_it_where_it_is_determined():
    weights = torch.randn(8, 3, generator=rng(5))
    mask = (torch.rand(24, generator=rng(8)) < 0.5).float()
    images = torch.randn(40, 1, 1, 3, generator=rng(6))
    seen = images.flatten(1) @ (weights.flatten() * mask).reshape(8, 3).T
    theta = torch.full((4, 24), 0.5)
    found = reconstruct(
        dense(3, 8), 1, Observation(seen[None], small(1e-3)), Inferred(weights.flatten(), theta),
        public_prior(images, low=-9.0, high=9.0), steps=300, restarts=4, seed=1,
    )  # fmt: skip
    agree = ((found.estimate[0] > 0).float() == mask).float().mean()
    blind = reconstruct(
        dense(3, 8), 1, Observation(seen[None], small(1e-3)),
        Known((weights.flatten() / 2)[None]), public_prior(images, low=-9.0, high=9.0), steps=100,
        restarts=1, seed=1,
    )  # fmt: skip
    assert agree > 0.8
    error, naive = ((one.images[0] - images).square().mean() for one in (found, blind))
    assert error < naive / 2


def test_loss_of_an_inferred_mask_is_a_divergence():
    theta = torch.tensor([[0.5, 0.2, 0.9]])
    belief = Inferred(torch.ones(3), theta)
    assert float(belief.loss(torch.logit(theta))) == pytest.approx(0, abs=1e-6)
    mean = torch.tensor([[0.3, 0.6, 0.5]])
    by_hand = mean * (mean / theta).log() + (1 - mean) * ((1 - mean) / (1 - theta)).log()
    moved = Inferred(torch.ones(3), theta, torch.logit(mean))
    assert float(moved.loss(moved.start)) == pytest.approx(float(by_hand.sum()), rel=1e-5)
    assert torch.allclose(moved.weights(moved.start)[0, 0], mean[0])


def test_certain_masks_are_no_protection():
    """theta of zeros and ones: averaging over masks is knowing the mask."""
    weights, theta = torch.randn(54, generator=rng(1)), torch.ones(1, 54)
    images = torch.randn(4, 1, 2, 3, generator=rng(2))
    seen = Observation((images.flatten(1) @ weights.reshape(9, 6).T)[None], small(1e-3))
    known, averaged = (
        reconstruct(dense(6, 9), 1, seen, belief, flat_prior(), steps=60, restarts=1, seed=0)
        for belief in (Known(weights[None]), Averaged(weights, theta, 3, rng()))
    )
    assert torch.allclose(known.images, averaged.images, atol=1e-3)


def test_averaging_many_masks_reduces_the_error():
    """The mean over R masks of a linear bottom has 1/R of the variance that one mask causes."""
    weights, theta, cases = torch.randn(9, 6, generator=rng(1)), 0.5, 16
    images = torch.randn(5, 1, 2, 3, generator=rng(2))
    errors = {}
    for rounds in (8, 32, 128):
        masks = (torch.rand(cases, rounds, 9, 6, generator=rng(rounds)) < theta).float()
        mean = (weights * masks).mean(dim=1)
        seen = torch.einsum("bi,coi->cbo", images.flatten(1), mean)
        found = reconstruct(
            dense(6, 9), 1, Observation(seen, small(1e-2)),
            Known((theta * weights).reshape(1, -1).repeat(cases, 1)), flat_prior(), steps=60,
            restarts=1, seed=0,
        )  # fmt: skip
        errors[rounds] = float((found.images - images).square().mean())
        # second route: least squares by hand
        solved = torch.linalg.lstsq(theta * weights, seen.flatten(0, 1).T).solution.T
        by_hand = (solved.reshape(found.images.shape) - images).square().mean()
        assert errors[rounds] == pytest.approx(float(by_hand), rel=0.05)
    assert 2 < errors[8] / errors[32] < 8
    assert 2 < errors[32] / errors[128] < 8


@pytest.mark.parametrize("copies", [1, 100])
def test_more_noise_means_more_error(copies):
    weights = torch.randn(9, 6, generator=rng(1))
    images = torch.randn(60, 1, 2, 3, generator=rng(2))
    prior = public_prior(torch.randn(500, 1, 2, 3, generator=rng(3)), low=-9.0, high=9.0)
    clean, errors = images.flatten(1) @ weights.T, []
    for epsilon in (5.0, 2.0, 1.0, 0.5, 0.1):
        noise = np.random.default_rng(0).laplace(0, 2 / epsilon, (copies, 60, 9)).mean(axis=0)
        seen = clean + torch.from_numpy(noise).float()
        found = reconstruct(
            dense(6, 9), 1, Observation(seen[None], small(8 / epsilon**2 / copies)),
            Known(weights.reshape(1, -1)), prior, steps=40, restarts=1, seed=0,
        )  # fmt: skip
        errors.append(float((found.images[0] - images).square().mean()))
    assert errors == sorted(errors)
    assert errors[-1] < 1.2  # never much worse than the prior's mean, whose error is 1


def test_resnet_is_inverted_and_the_attack_is_deterministic():
    blocks = FlatBlocks(resnet18(classes=4, channels=1, width=6, layers=1, seed=0))
    weights = blocks.weights()[: blocks.size(1)]
    public = torch.rand(200, 1, 6, 6, generator=rng(1)).cumsum(-1)
    images = public[:4]
    prior = public_prior(public, low=0.0, high=6.0)
    smashed = bottom(blocks, weights[None], images[None], 1)
    seen = Observation(smashed, torch.full((1, 1, 1, 1, 1), 1e-3))

    def attack(seed):
        return reconstruct(
            blocks, 1, seen, Known(weights.expand(2, -1)), prior, steps=90, restarts=2, seed=seed
        )

    first, again, other = attack(0), attack(0), attack(1)
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images, other.images)
    assert psnr(first.images[0], images, span=6.0).mean() > 20
    assert first.losses[0, first.chosen[0]] == first.losses.min()


def test_a_batch_of_one_is_attacked():
    blocks = FlatBlocks(resnet18(classes=4, channels=1, width=4, layers=1, seed=0))
    weights = blocks.weights()[: blocks.size(1)]
    public = torch.rand(60, 1, 6, 6, generator=rng(1)).cumsum(-1)
    smashed = bottom(blocks, weights[None], public[None, :1], 1)
    found = reconstruct(
        blocks, 1, Observation(smashed, torch.full((1, 1, 1, 1, 1), 1e-3)),
        Known(weights.expand(2, -1)), public_prior(public, low=0.0, high=6.0), steps=60, restarts=2,
        seed=0,
    )  # fmt: skip
    assert found.images.shape == (1, 1, 1, 6, 6)
    mean = psnr(public.mean(dim=0, keepdim=True), public[:1], span=6.0)
    assert psnr(found.images[0], public[:1], span=6.0) > mean + 3


def test_lbfgs_minimises_each_function_on_its_own():
    scale = torch.tensor([1.0, 1e6, 1e-6])

    def rosenbrock(x):
        return scale * ((1 - x[:, 0]) ** 2 + 100 * (x[:, 1] - x[:, 0] ** 2) ** 2)

    start = torch.tensor([[-1.2, 1.0]]).repeat(3, 1).double()
    found, values = minimise(rosenbrock, start, 120)
    assert torch.allclose(found, torch.ones_like(found), atol=1e-3)
    for k in range(3):  # stacked or alone, the same steps
        alone, _ = minimise(lambda x, k=k: rosenbrock(x.expand(3, -1))[k : k + 1], start[:1], 120)
        assert torch.allclose(alone[0], found[k], atol=1e-6)
    assert (values <= rosenbrock(start)).all()


def test_total_variation_by_hand():
    image = torch.tensor([[0.0, 2.0, 1.0], [1.0, 1.0, 1.0]]).reshape(1, 1, 2, 3)
    assert float(total_variation(image)) == (2 + 1) + 0 + (1 + 1 + 0)


def test_public_prior_has_the_moments_of_its_images():
    public = torch.randn(300, 2, 2, 2, generator=rng(4)) * 2 + 1
    prior = public_prior(public, low=-20.0, high=20.0, floor=1e-6)
    drawn = prior.images(torch.randn(100_000, 8, generator=rng(5))).flatten(1)
    flat = public.flatten(1)
    assert torch.allclose(drawn.mean(dim=0), flat.mean(dim=0), atol=0.05)
    assert torch.allclose(torch.cov(drawn.T), torch.cov(flat.T), atol=0.15)


def attack(**changes):
    given = {
        "blocks": dense(6, 9), "depth": 1, "seen": Observation(torch.zeros(1, 2, 9), small(1.0)),
        "belief": Known(torch.zeros(1, 54)), "prior": flat_prior(), "steps": 1, "restarts": 1,
        "seed": 0,
    }  # fmt: skip
    return reconstruct(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"restarts": 0}, "restarts must be"),
        ({"steps": 0}, "steps must be"),
        ({"depth": 5}, "depth must be"),
        ({"depth": 0}, "depth must be"),
        ({"seed": -1}, "seed must be"),
        ({"restarts": 2}, "belief must be about"),
        ({"belief": Known(torch.zeros(1, 53))}, "belief must have"),
        ({"seen": Observation(torch.zeros(1, 2, 8), small(1.0))}, "smashed must have the shape"),
        ({"start": torch.zeros(1, 2, 5)}, "start must be"),
    ],
)
def test_wrong_attacks_are_refused(changes, message):
    attack()
    with pytest.raises(ValueError, match=message):
        attack(**changes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Observation(torch.full((1, 2, 3), math.nan), small(1.0)), "smashed must be"),
        (lambda: Observation(torch.zeros(2, 3), small(1.0)), "smashed must be"),
        (lambda: Observation(torch.zeros(1, 2, 3), small(0.0)), "variance must be positive"),
        (lambda: Observation(torch.zeros(1, 2, 3), torch.ones(1, 2, 4)), "variance must broadcast"),
        (
            lambda: Observation(torch.zeros(1, 2, 3), small(1.0), gradient=torch.ones(1, 4)),
            "answer must",
        ),
        (
            lambda: Observation(torch.zeros(1, 2, 3), small(1.0), bound=torch.tensor([-1.0])),
            "bound must",
        ),
        (lambda: Known(torch.full((1, 3), math.inf)), "weights must be finite"),
        (lambda: Inferred(torch.ones(3), torch.full((1, 3), 1.5)), "theta must be in"),
        (lambda: Averaged(torch.ones(3), torch.ones(1, 3), 0, rng()), "samples must be"),
        (lambda: smooth_prior((1, 2, 2), variation=-1.0, low=0.0, high=1.0), "variation must"),
        (lambda: smooth_prior((1, 2, 2), variation=0.0, low=1.0, high=1.0), "low must be"),
        (lambda: public_prior(torch.zeros(1, 1, 2, 2), low=0.0, high=1.0), "images must be"),
        (
            lambda: psnr(torch.zeros(2, 1, 4, 4), torch.zeros(2, 1, 4, 3), span=1.0),
            "images and originals",
        ),
        (
            lambda: psnr(torch.full((1, 4, 4), math.nan), torch.zeros(1, 4, 4), span=1.0),
            "images must",
        ),
        (lambda: psnr(torch.zeros(1, 4, 4), torch.zeros(1, 4, 4), span=0.0), "span must"),
        (
            lambda: ssim(torch.zeros(1, 4, 4), torch.zeros(1, 4, 4), span=1.0, window=5),
            "window must",
        ),
        (lambda: relative_distance(torch.zeros(2, 3), torch.zeros(2, 3)), "originals must hold"),
        (lambda: linked(torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 4, 4)), "number of originals"),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
