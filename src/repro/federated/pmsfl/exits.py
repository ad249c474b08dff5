"""Linear exits after the blocks of a network, and what they learn from each other (DepthFL)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from repro.federated.pmsfl.split_method import SplitMethod


def new_exits(method: SplitMethod, depth: int) -> list[Tensor]:
    """An exit of zeros after each of the first `depth` blocks, shape (classes, features + 1)."""
    with torch.no_grad():
        one = torch.from_numpy(method.data.inputs[:1][None]).to(method.device)
        outputs = method.blocks.run(method.blocks.weights()[None], one, [depth])
    return [one.new_zeros(method.data.classes, _pooled(q).shape[-1] + 1) for q in outputs]


def exit_logits(output: Tensor, exits: Tensor) -> Tensor:
    """Logits (clients, batch, classes) of one block's output, the mean over pixels or frames.

    Args:
        output: (clients, batch, channels, h, w) or (clients, batch, frames, features).
        exits: one for each client, shape (clients, classes, features + 1), the bias last.
    """
    features = nn.functional.pad(_pooled(output), (0, 1), value=1.0)
    return torch.einsum("kbc,koc->kbo", features, exits)


def distillation(logits: list[Tensor], labels: Tensor) -> Tensor:
    """Mean over exits of cross-entropy plus mean divergence from the other exits.

    Args:
        logits: of each exit, shape (clients, batch, classes).
        labels: shape (clients, batch).

    Returns:
        Mean over clients and records. The teachers of a divergence get no gradient from it.

    Source: Kim, Yu, Kim and Moon, "DepthFL", ICLR 2023.
    """
    loss = logits[0].new_zeros(())
    told = [q.log_softmax(dim=-1) for q in logits]
    for i, own in enumerate(told):
        loss = loss + nn.functional.nll_loss(own.flatten(0, 1), labels.flatten())
        for j, other in enumerate(told):
            if i != j:
                gap = nn.functional.kl_div(own, other.detach(), reduction="none", log_target=True)
                loss = loss + gap.sum(dim=-1).mean() / (len(told) - 1)
    return loss / len(told)


def _pooled(output: Tensor) -> Tensor:
    return output.mean(dim=(3, 4)) if output.ndim == 5 else output.mean(dim=2)
