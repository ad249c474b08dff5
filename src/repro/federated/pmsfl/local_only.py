"""The control that the paper leaves out: clients that train whole networks alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from repro.federated.pmsfl.exits import distillation, exit_logits, new_exits
from repro.federated.pmsfl.split_method import Cohort, SplitMethod
from repro.models.split import DEPTH


class LocalOnly(SplitMethod):
    """A control that the paper leaves out: whole networks at the clients, nothing is ever sent.

    All four blocks and a linear exit behind them as head, trained on the client's records alone.
    """

    def __init__(self, data, network, depths, plan, seed, device) -> None:
        super().__init__(data, network, np.full_like(depths, DEPTH), plan, seed, device)
        self.personal.fill_(True)
        self.heads = new_exits(self, DEPTH)[-1].repeat(data.clients, 1, 1)

    def local_extras(self, cohort: Cohort) -> list[Tensor]:
        """The participants' heads."""
        self._clients = cohort.clients
        self._trained = self.heads[cohort.clients].requires_grad_()
        return [self._trained]

    def local_loss(self, outputs: list[Tensor], labels: Tensor, depth: int) -> Tensor:
        """Cross-entropy, summed over the clients."""
        return len(labels) * distillation([exit_logits(outputs[-1], self._trained)], labels)

    def answers(
        self, sent: dict[int, Tensor], labels: dict[int, Tensor], generator: torch.Generator
    ) -> tuple[dict[int, Tensor], float]:
        """None: there is no server."""
        return {d: torch.zeros_like(q) for d, q in sent.items()}, 0.0

    def round(self, number: int) -> None:
        """Local updates of the round's participants."""
        super().round(number)
        self.heads[self._clients] = self._trained.detach()

    def predict(
        self, reference: dict[int, Tensor], tests: dict[int, Tensor], generator: torch.Generator
    ) -> dict[int, Tensor]:
        """Each client's own head."""
        return {depth: exit_logits(q, self.heads) for depth, q in tests.items()}

    def state(self) -> dict[str, Any]:
        """With the heads."""
        return {**super().state(), "heads": self.heads}

    def restore(self, state: dict[str, Any]) -> None:
        """With the heads."""
        super().restore(state)
        self.heads = state["heads"].to(self.device)
