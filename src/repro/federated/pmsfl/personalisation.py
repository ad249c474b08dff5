"""Which masks a client keeps to itself (pmsfl, section 4.2)."""

from __future__ import annotations

import torch
from torch import Tensor

from repro._validate import in_unit, integer


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
