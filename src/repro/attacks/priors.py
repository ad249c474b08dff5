"""What an attacker knows about images before it has seen anything of the victim."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from repro._validate import nonnegative, positive


@dataclass(frozen=True)
class Prior:
    """Images are low <= mean + factor z <= high with standard normal z, and not too rough.

    Attributes:
        mean: shape (channels, height, width).
        factor: shape (pixels, numbers of z), pixels = channels * height * width.
        weight: of |z|^2 / 2 in the attacker's loss; 1 for a covariance that was measured, 0 where
            `factor` is a mere change of coordinates.
        variation: weight of the total variation, the sum of absolute differences of neighbours.
        low, high: range of the pixels.
    """

    mean: Tensor
    factor: Tensor
    weight: float
    variation: float
    low: float
    high: float

    def images(self, z: Tensor) -> Tensor:
        """Images (..., channels, height, width) of coordinates z (..., numbers)."""
        return self.mean + (z @ self.factor.mT).reshape(*z.shape[:-1], *self.mean.shape)

    def loss(self, z: Tensor, images: Tensor) -> Tensor:
        """What the prior adds to the loss, summed over the images of each stack.

        Args:
            z: shape (stacks, batch, numbers).
            images: what `images` makes of it.

        Returns:
            Shape (stacks,): weight |z|^2 / 2 + variation TV + (pixels out of range)^2 * 50.
        """
        outside = (self.low - images).clamp(min=0) + (images - self.high).clamp(min=0)
        loss = 50 * outside.square().flatten(1).sum(dim=1)
        if self.weight:
            loss = loss + self.weight / 2 * z.square().flatten(1).sum(dim=1)
        if self.variation:
            loss = loss + self.variation * total_variation(images).flatten(1).sum(dim=1)
        return loss


def total_variation(images: Tensor) -> Tensor:
    """Sum of absolute differences between neighbouring pixels, (..., c, h, w) -> (..., c)."""
    down = images.diff(dim=-2).abs().sum(dim=(-2, -1))
    return down + images.diff(dim=-1).abs().sum(dim=(-2, -1))


def smooth_prior(
    shape: tuple[int, int, int],
    *,
    variation: float,
    low: float,
    high: float,
    device: torch.device | str = "cpu",
) -> Prior:
    """No images seen: any pixels in range, with a total variation that is not large.

    Args:
        shape: of an image, (channels, height, width).
        variation: weight of the total variation, >= 0.
        low, high: range of the pixels; their mean and deviation are 0 and 1.
        device: of the images to come.

    Raises:
        ValueError: a negative weight, or an empty range.
    """
    _check_range(low, high)
    pixels = math.prod(shape)
    weight = float(nonnegative("variation", variation))
    mean, factor = torch.zeros(shape, device=device), torch.eye(pixels, device=device)
    return Prior(mean, factor, 0.0, weight, low, high)


def public_prior(
    images: Tensor, *, low: float, high: float, floor: float = 1e-2, variation: float = 0.0
) -> Prior:
    """The normal distribution with mean and covariance of public images of the same kind.

    Args:
        images: shape (n, channels, height, width), n >= 2.
        low, high: range of the pixels.
        floor: added to every variance, > 0: no direction is ruled out because it was not seen.
        variation: weight of the total variation, >= 0.

    Raises:
        ValueError: fewer than two images, values that are not finite, or an argument out of range.
    """
    _check_range(low, high)
    if images.ndim != 4 or len(images) < 2 or not torch.isfinite(images).all():
        raise ValueError(
            f"images must be two or more finite ones, (n, channels, height, width), got shape "
            f"{tuple(images.shape)}"
        )
    flat = images.flatten(1).double()
    one = torch.eye(flat.shape[1], device=flat.device)
    covariance = torch.cov(flat.mT) + float(positive("floor", floor)) * one
    factor = torch.linalg.cholesky(covariance).to(images.dtype)
    weight = float(nonnegative("variation", variation))
    return Prior(images.mean(dim=0), factor, 1.0, weight, low, high)


def _check_range(low: float, high: float) -> None:
    if not low < high:
        raise ValueError(f"low must be less than high = {high!r}, got {low!r}")
