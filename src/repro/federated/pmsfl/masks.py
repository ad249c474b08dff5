"""Probabilistic masks: sampling, training, personal coordinates and aggregation (pmsfl, section 4).

A mask has one probability theta = sigmoid(score) per weight. What runs is the network with weights
w * M, M drawn from Bernoulli(theta); what is trained is the score (section 4.1). A client keeps some
coordinates of its mask to itself (section 4.2), and the server averages the others, (5), (7), (8)
(section 4.3). Clients are stacked along the first axis, coordinates are the last one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repro._validate import choice, in_unit, integer

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


# What a client trains -----------------------------------------------------------------------------
#
# Weights and masks offer the same four steps, so that one training loop serves all methods. What is
# exchanged with others ("public") are weights, or probabilities; what the optimiser moves are
# weights, or scores.


@dataclass(frozen=True)
class WeightTraining:
    """Trains the weights themselves.

    Attributes:
        weights: the start, shape (size,).
        rate: learning rate of the clients' Adam.
    """

    weights: Tensor
    rate: float

    def start(self) -> Tensor:
        """The public values before the first round, shape (size,)."""
        return self.weights.clone()

    def trainable(self, public: Tensor) -> Tensor:
        """What the optimiser moves."""
        return public.clone()

    def effective(self, trainable: Tensor, generator: torch.Generator) -> Tensor:
        """The weights that run."""
        return trainable

    def public(self, trainable: Tensor) -> Tensor:
        """What training has made, in the form in which it is exchanged."""
        return trainable.detach()


@dataclass(frozen=True)
class MaskTraining:
    """Freezes the weights and trains a probability for each of them (pmsfl, section 4.1).

    Attributes:
        weights: w_b, frozen, shape (size,).
        rate: learning rate of the clients' Adam, for the scores.
        floor: c; probabilities stay in [c, 1 - c].
        gradient: of `GRADIENTS`.
    """

    weights: Tensor
    rate: float
    floor: float
    gradient: str

    def start(self) -> Tensor:
        """Probability 1/2 for every weight."""
        return torch.full_like(self.weights, 0.5)

    def trainable(self, public: Tensor) -> Tensor:
        """Scores of probabilities."""
        return scores(public, self.floor)

    def effective(self, trainable: Tensor, generator: torch.Generator) -> Tensor:
        """w_b * M with a fresh sample M (step 2.1), differentiable with respect to the scores."""
        mask = sample(self.public(trainable), generator)
        return masked(self.weights[: trainable.shape[-1]], trainable, mask, self.gradient)

    def public(self, trainable: Tensor) -> Tensor:
        """Probabilities of scores."""
        return kept_inside(torch.sigmoid(trainable.detach()), self.floor)


Parametrisation = WeightTraining | MaskTraining


# Personal coordinates, section 4.2 ----------------------------------------------------------------


def personal_share(number: int, agreement: int, rounds: int, ratio: float) -> float:
    """Share of a client's masks that are personal after round `number` (0, 1, ...).

    None in the first `agreement` rounds, in which the clients find an initial consensus; then it
    grows by equal steps and reaches `ratio` when half of the remaining rounds are over. The paper
    says that it grows gradually, not how fast.

    Raises:
        ValueError: ratio outside [0, 1], counts no integers, or agreement not in [0, rounds].
    """
    ratio, rounds = float(in_unit("ratio", ratio)), integer("rounds", rounds, 1)
    agreement = integer("agreement", agreement, 0, rounds)
    growing = max(1, (rounds - agreement) // 2)
    return ratio * min(1.0, max(0, integer("number", number, 0) - agreement + 1) / growing)


def select_personal(
    personal: Tensor, before: Tensor, after: Tensor, held: Tensor, share: float
) -> Tensor:
    """Let each client's personal set grow to `share` of the coordinates it holds.

    New ones are taken in the order of the paper: first the disagree group, whose probability
    crossed 1/2 during local training, then the agree group, each by falling |change|; equal changes
    by place. A coordinate once personal stays so.

    Args:
        personal: bool, shape (clients, size), the sets so far.
        before, after: probabilities at the start and the end of local training, same shape.
        held: bool, same shape: coordinates of the client's bottom model.
        share: in [0, 1].

    Returns:
        The new sets, bool, same shape; max(size of the old set, floor(share * held)) each.
    """
    share = float(in_unit("share", share))
    change = (after - before).abs()
    crossed = (before - 0.5) * (after - 0.5) < 0
    # changes are at most 1, so that the groups keep apart: personal 4, disagree 2 to 3, agree 0 to 1
    rank = torch.where(personal, torch.full_like(change, 4.0), change + 2.0 * crossed)
    rank = rank.masked_fill(~held, -1.0)
    wanted = torch.maximum((share * held.sum(dim=1)).long(), (personal & held).sum(dim=1))
    order = rank.argsort(dim=1, descending=True, stable=True)
    place = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
    )
    return place < wanted[:, None]


# Aggregation, (5), (7) and (8) --------------------------------------------------------------------


def over_sharers(uploads: Tensor, shared: Tensor, before: Tensor) -> Tensor:
    """(7): the mean of each coordinate over the clients that share it.

    Where no client shares a coordinate, (7) is 0 / 0; the server then keeps what it had.

    Args:
        uploads: masks, probabilities or weights, shape (clients, size); ignored where not shared.
        shared: bool, shape (clients, size): held by the client and not personal (not I_k).
        before: the server's values of the round before, shape (size,).

    Returns:
        Shape (size,). With everything shared this is (5), the plain mean.

    Raises:
        ValueError: shapes do not fit.
    """
    if uploads.shape != shared.shape or uploads.shape[1:] != before.shape:
        raise ValueError(
            f"uploads and shared must be (clients, size) and before (size,), got "
            f"{tuple(uploads.shape)}, {tuple(shared.shape)} and {tuple(before.shape)}"
        )
    count = shared.sum(dim=0)
    total = torch.where(shared, uploads, torch.zeros_like(uploads)).sum(dim=0)
    return torch.where(count > 0, total / count.clamp(min=1), before)


def compensated(client: Tensor, server: Tensor, holders: Tensor, participants: int) -> Tensor:
    """(8): layer by layer, the clients' average and the server's own mask by share of holders.

    Args:
        client: aggregate of the clients, shape (size,).
        server: what split learning on the server made of the same coordinates, shape (size,).
        holders: |K_t^l|, how many participants hold the coordinate's layer, shape (size,).
        participants: |K_t| >= 1.

    Returns:
        (1 - |K^l| / |K|) server + |K^l| / |K| client, shape (size,).
    """
    weight = holders / participants
    return (1 - weight) * server + weight * client
