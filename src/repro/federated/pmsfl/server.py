"""The server's side of split learning: the blocks behind the cut and the head (pmsfl, step 2.2)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from repro.federated.pmsfl.blocks import FlatBlocks
from repro.federated.pmsfl.masks import MaskTraining, Parametrisation
from repro.federated.ranks import ALONE, Ranks
from repro.models.split import DEPTH, SplitNetwork, statistics_from, statistics_over


class SplitServer:
    """Runs and trains what the clients do not hold.

    Smashed data of clients that hold d blocks enter at block d + 1, together with what the server
    has made of the smashed data of shallower clients: one model, one batch, one step.

    Attributes:
        values: what is trained of the blocks, weights or scores, shape (size of all blocks,).
        kind: how.
    """

    def __init__(
        self, network: SplitNetwork, blocks: FlatBlocks, kind: Parametrisation, rate: float
    ) -> None:
        self._network, self._blocks, self.kind = network, blocks, kind
        self.values = kind.trainable(kind.start()).requires_grad_()
        owned = list(network.head.parameters())
        if not isinstance(kind, MaskTraining):
            owned.append(self.values)
        self._optimiser = torch.optim.Adam(owned, lr=rate)
        self.begin_round()

    def begin_round(self, public: Tensor | None = None) -> None:
        """Start a round, a masked server from the probabilities `public` of its first coordinates.

        The scores of a masked server are optimised as a client's: anew in every round.
        """
        if not isinstance(self.kind, MaskTraining):
            return
        if public is not None:
            with torch.no_grad():
                self.values[: len(public)] = self.kind.trainable(public)
        self._masks = torch.optim.Adam([self.values], lr=self.kind.rate)

    def answer(
        self,
        smashed: Mapping[int, Tensor],
        labels: Mapping[int, Tensor],
        generator: torch.Generator,
        ranks: Ranks = ALONE,
    ) -> tuple[dict[int, Tensor], float]:
        """Step once on the union of all smashed data; return their gradients.

        Args:
            smashed: by depth, shape (clients of that depth, batch, ...).
            labels: by depth, shape (clients of that depth, batch).
            generator: draws the server's mask, if it has one; the same at every rank.
            ranks: the processes among which the union is dealt out, by clients. Each has all depths, maybe with no
                clients, and makes the same step.

        Returns:
            By depth, the gradient of each client's own mean loss with respect to its smashed data;
            and the mean loss of the union.
        """
        arrived = {d: q.detach().requires_grad_() for d, q in sorted(smashed.items())}
        truth = torch.cat([labels[d].flatten() for d in arrived])
        self._optimiser.zero_grad(set_to_none=True)
        self.values.grad = None
        effective = self.kind.effective(self.values, generator)
        inputs, records = {d: q.flatten(0, 1) for d, q in arrived.items()}, len(truth)
        if ranks.count == 1:
            loss = nn.functional.cross_entropy(self._forward(inputs, effective), truth)
            loss.backward()
        else:
            records = ranks.count_all(records)
            with statistics_over(self._network, ranks.sum_with_gradient):
                logits = self._forward(inputs, effective)
            loss = nn.functional.cross_entropy(logits, truth, reduction="sum") / records
            loss.backward()
            loss = self._add_up(loss.detach(), ranks)
        self._optimiser.step()
        if isinstance(self.kind, MaskTraining):
            self._masks.step()
        batch = next(iter(arrived.values())).shape[1]
        return {d: q.grad * (records / batch) for d, q in arrived.items()}, loss.item()

    def _add_up(self, loss: Tensor, ranks: Ranks) -> Tensor:
        """Give every rank the gradients and the loss of the union, from those of its part."""
        trained = [p for p in (self.values, *self._network.head.parameters()) if p.grad is not None]
        flat = ranks.sum(torch.cat([*(p.grad.flatten() for p in trained), loss[None]]))
        *gradients, (whole,) = flat.split([*(p.numel() for p in trained), 1])
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter.grad = gradient.view_as(parameter)
        return whole

    @torch.no_grad()
    def predict(
        self,
        reference: Mapping[int, Tensor],
        tests: Mapping[int, Tensor],
        generator: torch.Generator,
    ) -> dict[int, Tensor]:
        """Logits of `tests`, batch statistics being those of all of `reference`.

        Both by depth, shape (clients of that depth, records, ...); the result likewise, with the
        classes last.
        """
        effective = self.kind.effective(self.values, generator)
        known = {d: q.flatten(0, 1) for d, q in sorted(reference.items())}
        asked = {d: q.flatten(0, 1) for d, q in sorted(tests.items())}
        logits = self._forward(asked, effective, known)
        parts = logits.split([len(q) for q in asked.values()])
        return {d: p.unflatten(0, tests[d].shape[:2]) for d, p in zip(asked, parts, strict=True)}

    def _forward(
        self,
        arrivals: Mapping[int, Tensor],
        effective: Tensor,
        reference: Mapping[int, Tensor] | None = None,
    ) -> Tensor:
        """Logits of what arrives before each block, in order of depth.

        Reference records travel in front of the others and give the batch statistics.
        """
        ahead: list[Tensor] = []
        behind: list[Tensor] = []
        for depth in range(1, DEPTH + 1):
            if depth in arrivals:
                behind.append(arrivals[depth])
                if reference is not None:
                    ahead.append(reference[depth])
            if not behind or depth == DEPTH:
                continue
            front = sum(len(q) for q in ahead)
            hidden = torch.cat(ahead + behind)
            block = self._network.blocks[depth]
            if front:
                with statistics_from(block, front):
                    hidden = self._blocks.block(depth, effective, hidden)
                ahead, behind = [hidden[:front]], [hidden[front:]]
            else:
                behind = [self._blocks.block(depth, effective, hidden)]
        return self._network.head(torch.cat(behind))

    def state(self) -> dict:
        """What a checkpoint has to keep."""
        return {
            "values": self.values.detach().clone(),
            "head": self._network.head.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }

    def restore(self, state: dict) -> None:
        """Go back to a `state`."""
        with torch.no_grad():
            self.values.copy_(state["values"])
        self._network.head.load_state_dict(state["head"])
        self._optimiser.load_state_dict(state["optimiser"])
