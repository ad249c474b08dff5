"""Probabilistic masks: scores, straight-through gradients, one-bit uploads (pmsfl, section 4.1).

A mask has one probability theta = sigmoid(score) per weight. What runs is the network with weights
w * M, M drawn from Bernoulli(theta); what is trained is the score. All functions work on tensors of
any shape; clients are stacked along the first axis.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repro._validate import choice

GRADIENTS = ("paper", "straight_through")
"""How the gradient reaches the score through the sample; see `masked`."""


def scores(theta: Tensor, floor: float) -> Tensor:
    """sigmoid^-1 of probabilities that are first kept in [floor, 1 - floor].

    A probability of exactly 0 or 1 has no finite score, and its sigmoid no slope: such a coordinate
    would never move again.

    Raises:
        ValueError: floor is outside [0, 1/2). 0 is allowed, to show what freezes; then 0 and 1
            become the scores -inf and inf.
    """
    return torch.logit(kept_inside(theta, floor))


def kept_inside(theta: Tensor, floor: float) -> Tensor:
    """Probabilities clipped to [floor, 1 - floor], c and 1 - c in the paper's Theorem 2.

    Raises:
        ValueError: floor is outside [0, 1/2).
    """
    floor = checked_floor(floor)
    return theta.clamp(floor, 1 - floor)


def checked_floor(floor: float) -> float:
    """Return c.

    Raises:
        ValueError: it is no number in [0, 1/2).
    """
    number = isinstance(floor, int | float) and not isinstance(floor, bool)
    if not number or not 0 <= floor < 0.5:
        raise ValueError(f"floor must be in [0, 1/2), got {floor!r}")
    return floor


def sample(theta: Tensor, generator: torch.Generator) -> Tensor:
    """M ~ Bernoulli(theta), float 0 or 1, of the same shape.

    Formal guarantee: every coordinate is 1 with its own probability, independently, up to the 24
    bits of a uniform float32; 0 and 1 are exact.
    """
    uniform = torch.rand(theta.shape, generator=generator, device=theta.device)
    return (uniform < theta).to(theta.dtype)


def masked(weights: Tensor, score: Tensor, mask: Tensor, gradient: str) -> Tensor:
    """weights * mask, with a gradient for the score although the mask is a sample.

    Args:
        weights: frozen, w_b; broadcasts against `score`.
        score: s, any shape.
        mask: a sample from Bernoulli(sigmoid(s)), zeros and ones of the shape of `score`.
        gradient: "straight_through": the sample counts as sigmoid(s), so that the derivative is
            w * sigmoid'(s) (Bengio et al., 2013, as Isik et al., ICLR 2023, use it);
            "paper": w * sigmoid(s) * sigmoid'(s), (4) and (17) as printed. The additional factor
            does not follow from (16); it slows down what is already improbable.

    Raises:
        ValueError: an unknown gradient.
    """
    choice("gradient", gradient, GRADIENTS)
    theta = torch.sigmoid(score)
    # d surrogate / d theta is 1, or theta: the derivative of theta^2 / 2
    surrogate = theta if gradient == "straight_through" else theta.square() / 2
    return weights * (mask + (surrogate - surrogate.detach()))


def pack(mask: Tensor) -> bytes:
    """Zeros and ones, any shape, as bytes: one bit each, the last byte filled up with zeros.

    Raises:
        ValueError: a value other than 0 and 1.
    """
    values = mask.detach().cpu().numpy().ravel()
    bits = values.astype(bool)
    if not np.array_equal(bits, values):
        raise ValueError("mask must hold zeros and ones only, to be sent as bits")
    return np.packbits(bits).tobytes()


def unpack(payload: bytes, count: int) -> NDArray[np.bool_]:
    """The first `count` bits of what `pack` made, shape (count,).

    Raises:
        ValueError: the payload has not exactly as many bytes as `count` bits need.
    """
    if len(payload) != (count + 7) // 8:
        raise ValueError(
            f"payload must have {(count + 7) // 8} bytes for {count} bits, got {len(payload)}"
        )
    return np.unpackbits(np.frombuffer(payload, np.uint8), count=count).astype(bool)


def frozen(theta: Tensor) -> Tensor:
    """Which coordinates have probability exactly 0 or 1, and so are the same in every sample."""
    return (theta <= 0) | (theta >= 1)
