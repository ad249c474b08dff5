"""DepthFL: exits after every block that teach each other (Kim et al., ICLR 2023)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from repro.federated.pmsfl.exits import distillation, exit_logits, new_exits
from repro.federated.pmsfl.split_method import Cohort, SplitMethod


class DepthFL(SplitMethod):
    """Masks, and exits after every block of the bottom that teach each other (Kim et al., ICLR 2023).

    Beside the server's gradient, a client follows the self-distillation of its exits. Exits are
    weights, averaged over the participants that hold them; predictions are those of the server's
    head, as for all methods.
    """

    masks = True

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.exits = new_exits(self, int(self.depths.max()))

    def local_extras(self, cohort: Cohort) -> list[Tensor]:
        """A copy of the exits that each participant holds."""
        self._trained = {
            depth: [
                e.repeat(rows.stop - rows.start, 1, 1).requires_grad_() for e in self.exits[:depth]
            ]
            for depth, rows in cohort.groups.items()
        }
        copies = [e for exits in self._trained.values() for e in exits]
        for copy in copies:
            self.traffic.count(self.traffic.down, "model", copy)
        return copies

    def local_loss(self, outputs: list[Tensor], labels: Tensor, depth: int) -> Tensor:
        """Self-distillation, summed over the clients."""
        exits = self._trained[depth]
        logits = [exit_logits(q, e) for q, e in zip(outputs, exits, strict=True)]
        return len(labels) * distillation(logits, labels)

    def round(self, number: int) -> None:
        """SplitFed's round, then the exits' average."""
        super().round(number)
        for place in range(len(self.exits)):
            copies = [e[place].detach() for d, e in self._trained.items() if d > place]
            if copies:
                self.exits[place] = torch.cat(copies).mean(dim=0)
            for copy in copies:
                self.traffic.count(self.traffic.up, "model", copy)

    def state(self) -> dict[str, Any]:
        """With the exits."""
        return {**super().state(), "exits": self.exits}

    def restore(self, state: dict[str, Any]) -> None:
        """With the exits."""
        super().restore(state)
        self.exits = [kept.to(self.device) for kept in state["exits"]]
