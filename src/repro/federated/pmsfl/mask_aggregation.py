"""The server's average of masks, with personal coordinates left out and missing layers filled in.

pmsfl, (5), (7) and (8). Clients are rows, coordinates are columns.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
