"""PSNR, SSIM, distance of features and linkage: by hand, by a second route, by identities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from reproduce.papers.pmsfl.image_quality import linked, margin, psnr, relative_distance, ssim
from split_attacks import rng


def test_psnr_and_ssim_by_hand():
    one = torch.tensor([[0.0, 1.0], [2.0, 3.0]]).reshape(1, 1, 2, 2)
    two = torch.tensor([[1.0, 1.0], [2.0, 2.0]]).reshape(1, 1, 2, 2)
    assert float(psnr(one, two, span=3.0)) == pytest.approx(10 * math.log10(9 / 0.5))
    c1, c2 = (0.01 * 3) ** 2, (0.03 * 3) ** 2
    covariance = (0 * 1 + 1 * 1 + 2 * 2 + 3 * 2) / 4 - 1.5 * 1.5
    hand = (2 * 1.5 * 1.5 + c1) * (2 * covariance + c2)
    hand /= (1.5**2 + 1.5**2 + c1) * (1.25 + 0.25 + c2)
    assert float(ssim(one, two, span=3.0, window=2)) == pytest.approx(hand, rel=1e-5)
    assert psnr(one, one, span=3.0).item() == 100.0


@pytest.mark.parametrize("span", [1.0, 2.7])
def test_ssim_and_psnr_by_a_second_route(span):
    """scipy's box filter and numpy's variance; windows that leave the image are cut off."""
    one, two = (
        span * np.random.default_rng(seed).beta(0.6, 1.5, (2, 9, 11)) - 0.8 for seed in (0, 1)
    )

    def mean(values):
        return ndimage.uniform_filter(values, (1, 7, 7))[:, 3:-3, 3:-3]

    spread = [mean(x * x) - mean(x) ** 2 for x in (one, two)]
    both = mean(one * two) - mean(one) * mean(two)
    c1, c2 = (0.01 * span) ** 2, (0.03 * span) ** 2
    light = (2 * mean(one) * mean(two) + c1) / (mean(one) ** 2 + mean(two) ** 2 + c1)
    expected = (light * (2 * both + c2) / (sum(spread) + c2)).mean()
    found = ssim(torch.from_numpy(one), torch.from_numpy(two), span=span, window=7)
    assert float(found) == pytest.approx(expected, rel=1e-9)
    found = psnr(torch.from_numpy(one), torch.from_numpy(two), span=span)
    assert float(found) == pytest.approx(20 * np.log10(span / np.sqrt(np.mean((one - two) ** 2))))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), window=st.integers(2, 6))
def test_identities_of_image_quality(seed, window):
    one, two = torch.rand(2, 3, 2, 7, 6, generator=rng(seed), dtype=torch.float64)
    same = ssim(one, one, span=1.0, window=window)
    assert torch.allclose(same, torch.ones_like(same))
    both = ssim(one, two, span=1.0, window=window), ssim(two, one, span=1.0, window=window)
    assert torch.allclose(*both)
    assert (both[0] < 1).all() and (both[0] >= -1).all()
    assert torch.allclose(psnr(one, two, span=1.0), psnr(two, one, span=1.0))
    assert torch.allclose(psnr(3 * one, 3 * two, span=3.0), psnr(one, two, span=1.0))
    assert (psnr(one + 0.1, one, span=1.0) - 20).abs().max() < 1e-6
    assert linked(one, one).all()
    assert linked(0.5 * one + 0.5 * one.mean(dim=0), one).all()  # contrast does not count


def test_margin_and_linkage_of_images_that_reveal_nothing():
    originals = torch.randn(400, 1, 4, 4, generator=rng(1))
    guesses = torch.randn(400, 1, 4, 4, generator=rng(2))
    distances = relative_distance(guesses.flatten(1), originals.flatten(1))
    assert abs(float(margin(distances).mean())) < 3 * float(margin(distances).std()) / 20
    assert float(linked(guesses, originals).mean()) < 0.02
    own = relative_distance(originals.flatten(1), originals.flatten(1))
    assert torch.allclose(margin(own), own.sum(dim=1) / 399, atol=1e-3)
    assert float(own.sum() / (400 * 399)) == pytest.approx(1.0, abs=1e-3)
