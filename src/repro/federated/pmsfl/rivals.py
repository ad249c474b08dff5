"""The rivals of PM-SFL: the other columns of Table 1, and a control that the paper leaves out.

    SplitFed      weights, averaged over the clients that hold them: `SplitMethod` itself
    SplitFedDP    the same, with noise on all that clients send
    SplitFedPM    probabilities of masks in place of weights, sent and averaged
    Standalone    the bottom models are never averaged; the server's part is shared
    LGFedAvg      masks; the first blocks stay with the client, the others are averaged
    DepthFL       masks; exits after every block of the bottom teach each other
    LocalOnly     the control: whole networks at the clients, nothing is ever sent

Each class states only its difference from `repro.federated.pmsfl.split_method.SplitMethod`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from repro._validate import integer, positive, probability_open
from repro.federated.client_data import ClientData
from repro.federated.pmsfl.split_method import Cohort, Plan, SplitMethod
from repro.models.split import DEPTH, SplitNetwork


class SplitFed(SplitMethod):
    """Weights, averaged over the clients that hold them (Thapa et al., AAAI 2022)."""


class SplitFedDP(SplitMethod):
    """SplitFed with noise on all that clients send (PixelDP and DP-SGD; pmsfl, section 3).

    Args:
        smashed_epsilon: Laplace noise on the smashed data, in training and in use: every activation
            is clipped to [-bound, bound] and gets Lap(2 bound / epsilon). That is epsilon for one
            activation; a record has as many as its smashed data are long.
        bound: clip of an activation, > 0.
        update_epsilon, update_delta: of the local updates of a round, > 0 and in (0, 1). Each step's
            gradient is clipped to norm `clip`, and gets Gaussian noise of the deviation that the
            paper's Theorem 3 prints, clip sqrt(2 R ln(1/delta)) / (epsilon batch).
        clip: Gamma > 0.

    The layers of the network normalise over a batch, so no record has a gradient of its own that
    could be clipped. The mean over the client's batch is clipped instead, and one record can move
    this mean by 2 Gamma, not by the Gamma / batch behind the formula. The noise has the paper's
    size; (update_epsilon, update_delta)-DP of the updates is not claimed.

    Raises:
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        *args: Any,
        smashed_epsilon: float,
        bound: float,
        update_epsilon: float,
        update_delta: float,
        clip: float,
    ) -> None:
        super().__init__(*args)
        self.bound = float(positive("bound", bound))
        self.scale = 2 * self.bound / float(positive("smashed_epsilon", smashed_epsilon))
        self.clip = float(positive("clip", clip))
        update_delta = float(probability_open("update_delta", update_delta))
        spread = math.sqrt(2 * self.plan.iterations * math.log(1 / update_delta))
        update_epsilon = float(positive("update_epsilon", update_epsilon))
        self.sigma = self.clip * spread / (update_epsilon * self.plan.batch)

    def sent(self, smashed: Tensor, generator: torch.Generator) -> Tensor:
        """Clipped activations with Laplace noise."""
        # a Laplace variable is the difference of two exponential ones
        shape = (2, *smashed.shape)
        drawn = torch.empty(shape, device=smashed.device).exponential_(generator=generator)
        return smashed.clamp(-self.bound, self.bound) + self.scale * (drawn[0] - drawn[1])

    def finished_backward(self, gradient: Tensor, generator: torch.Generator) -> Tensor:
        """Clipped gradients with Gaussian noise."""
        norms = gradient.norm(dim=1, keepdim=True)
        clipped = gradient / (norms / self.clip).clamp(min=1.0)
        noise = torch.randn(gradient.shape, generator=generator, device=gradient.device)
        return clipped + self.sigma * noise


class SplitFedPM(SplitMethod):
    """Probabilistic masks instead of weights; probabilities are sent and averaged."""

    masks = True


class Standalone(SplitMethod):
    """Each client trains its own bottom model with the server's help; none is aggregated."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.personal.fill_(True)


class LGFedAvg(SplitMethod):
    """Masks; the first blocks stay with the client, the others are averaged (Liang et al., 2020).

    Table 1 lists it under mask training.

    Args:
        local_blocks: how many blocks stay, 0 to 4.
    """

    masks = True

    def __init__(self, *args: Any, local_blocks: int) -> None:
        super().__init__(*args)
        self.personal[:, : self.blocks.size(integer("local_blocks", local_blocks, 0, 4))] = True


class DepthFL(SplitMethod):
    """Masks; exits after every block of the bottom teach each other (Kim et al., ICLR 2023).

    Beside the server's gradient, a client follows the self-distillation of its exits. Exits are
    weights, averaged over the participants that hold them; predictions are those of the server's
    head, as for all methods.
    """

    masks = True

    def __init__(self, *args: Any) -> None:
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


class LocalOnly(SplitMethod):
    """A control that the paper leaves out: each client trains a whole network, nothing is sent.

    The network has all four blocks and a linear exit as its head; it sees the client's records only.
    """

    def __init__(
        self,
        data: ClientData,
        network: SplitNetwork,
        depths: np.ndarray,
        plan: Plan,
        seed: int,
        device: torch.device,
    ) -> None:
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


# Exits: linear maps after the blocks of a network -------------------------------------------------


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
    log_probabilities = [q.log_softmax(dim=-1) for q in logits]
    for i, own in enumerate(log_probabilities):
        loss = loss + nn.functional.nll_loss(own.flatten(0, 1), labels.flatten())
        for j, other in enumerate(log_probabilities):
            if i != j:
                gap = nn.functional.kl_div(own, other.detach(), reduction="none", log_target=True)
                loss = loss + gap.sum(dim=-1).mean() / (len(logits) - 1)
    return loss / len(logits)


def _pooled(output: Tensor) -> Tensor:
    return output.mean(dim=(3, 4)) if output.ndim == 5 else output.mean(dim=2)
