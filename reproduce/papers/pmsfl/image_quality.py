"""How like its original a reconstruction is: PSNR, SSIM, distance of features, linkage.

Images are stacks (..., channels, height, width); `span` is the largest possible value minus the
smallest. All functions return one number per image.
"""

from __future__ import annotations

import torch
from torch import Tensor

from repro._validate import integer, positive

_K1, _K2 = 0.01, 0.03  # the constants of Wang et al.
_CEILING = 100.0


def psnr(images: Tensor, originals: Tensor, *, span: float) -> Tensor:
    """10 log10(span^2 / mean squared error) in dB, at most 100 (which identical images get).

    Args:
        images, originals: shapes (..., channels, height, width) that broadcast.
        span: > 0.

    Returns:
        Shape (...).

    Raises:
        ValueError: images of different sizes, values that are not finite, span not positive.
    """
    images, originals = _pair(images, originals)
    span = float(positive("span", span))
    error = (images - originals).square().mean(dim=(-3, -2, -1))
    return (10 * torch.log10(span**2 / error)).clamp(max=_CEILING)


def ssim(images: Tensor, originals: Tensor, *, span: float, window: int = 7) -> Tensor:
    """Structural similarity: mean over all square windows inside the image, and over channels.

    Windows weigh their pixels alike. 1 for identical images, symmetric, at most 1.

    Args:
        images, originals, span: as in `psnr`.
        window: side of a window, from 2 to the smaller side of the images.

    Raises:
        ValueError: as for `psnr`; window out of range.

    Source: Wang, Bovik, Sheikh and Simoncelli, "Image quality assessment", IEEE Transactions on
    Image Processing 13 (2004), equation (13).
    """
    images, originals = _pair(images, originals)
    span = float(positive("span", span))
    window = integer("window", window, 2, min(images.shape[-2:]))

    def mean(values: Tensor) -> Tensor:
        flat = values.reshape(-1, 1, *values.shape[-2:])
        pooled = torch.nn.functional.avg_pool2d(flat, window, stride=1)
        return pooled.reshape(*values.shape[:-2], *pooled.shape[-2:])

    one, two = mean(images), mean(originals)
    both = mean(images * originals) - one * two
    spread = mean(images.square()) - one.square() + mean(originals.square()) - two.square()
    small, smaller = (_K1 * span) ** 2, (_K2 * span) ** 2
    likeness = (2 * one * two + small) * (2 * both + smaller)
    likeness = likeness / ((one.square() + two.square() + small) * (spread + smaller))
    return likeness.mean(dim=(-3, -2, -1))


def relative_distance(features: Tensor, originals: Tensor) -> Tensor:
    """Distance of features from every original's, over that of two different originals on average.

    Args:
        features: shape (..., images, numbers).
        originals: shape (images, numbers), at least two different rows.

    Returns:
        Shape (..., images, images): of each image from each original. A reconstruction's own
        original is on the diagonal: 0 for the original itself, about 1 for any other image.

    Raises:
        ValueError: shapes do not fit, or all originals have the same features.
    """
    if originals.ndim != 2 or features.shape[-2:] != originals.shape:
        raise ValueError(
            f"features must end in the shape of originals, (images, numbers), got "
            f"{tuple(features.shape)} and {tuple(originals.shape)}"
        )
    count = len(originals)
    typical = torch.cdist(originals, originals).sum() / max(count * (count - 1), 1)
    if not typical > 0:
        raise ValueError("originals must hold at least two rows with different features")
    return torch.cdist(features, originals) / typical


def margin(distances: Tensor) -> Tensor:
    """How much nearer a reconstruction is to its own original than to the others, on average.

    Zero in expectation for whatever does not depend on which original is whose.

    Args:
        distances: of each reconstruction from each original, (..., n, n), n >= 2.

    Returns:
        Shape (..., n).
    """
    own = distances.diagonal(dim1=-2, dim2=-1)
    return (distances.sum(dim=-1) - own) / (distances.shape[-1] - 1) - own


def linked(images: Tensor, originals: Tensor) -> Tensor:
    """Whether each reconstruction is more like its own original than like any other of the batch.

    Likeness is the correlation of pixels after the mean of the originals has been taken away, so
    that neither brightness nor contrast counts. Guessing links 1 in n of n images; a constant
    reconstruction links none or as many.

    Args:
        images: shape (..., n, channels, height, width).
        originals: shape (n, channels, height, width), n >= 2.

    Returns:
        1.0 where linked, else 0.0, shape (..., n).

    Raises:
        ValueError: as for `psnr`; fewer than two originals.
    """
    images, originals = _pair(images, originals)
    integer("the number of originals", len(originals), 2)
    middle = originals.mean(dim=0)
    one = torch.nn.functional.normalize((images - middle).flatten(-3), dim=-1)
    two = torch.nn.functional.normalize((originals - middle).flatten(-3), dim=-1)
    best = (one @ two.mT).argmax(dim=-1)
    return (best == torch.arange(len(originals), device=best.device)).to(images.dtype)


def _pair(images: Tensor, originals: Tensor) -> tuple[Tensor, Tensor]:
    if images.ndim < 3 or images.shape[-3:] != originals.shape[-3:]:
        raise ValueError(
            f"images and originals must have one shape (..., channels, height, width), got "
            f"{tuple(images.shape)} and {tuple(originals.shape)}"
        )
    for name, values in (("images", images), ("originals", originals)):
        if not torch.isfinite(values).all():
            raise ValueError(f"{name} must be finite")
    return images, originals
