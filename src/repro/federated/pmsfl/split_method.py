"""Split federated learning: the parts that all methods of pmsfl's Table 1 share.

Stacked clients: what K participants train is one (K, size) matrix. A client whose bottom model is
shallower than the deepest one uses the first coordinates of its row only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from repro._validate import choice, in_unit, integer, one, positive
from repro.federated.client_data import ClientData
from repro.federated.pmsfl import masks
from repro.federated.pmsfl.blocks import FlatBlocks, held
from repro.federated.pmsfl.masks import (
    MaskTraining,
    Parametrisation,
    WeightTraining,
    over_sharers,
)
from repro.federated.pmsfl.server import SplitServer
from repro.federated.ranks import ALONE, Ranks
from repro.models.split import DEPTH, SplitNetwork


class DivergedError(ArithmeticError):
    """Training produced a loss that is not finite; the message says when."""


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train.

    Attributes:
        rounds: T >= 1.
        participation: C in [0, 1], share of clients in a round, rounded down; one client takes part
            where that is none (Algorithm 1, line 4).
        iterations: R >= 1, local steps in a round.
        batch: records of one client in a step, >= 1. A client with fewer repeats them.
        rate: learning rate for weights, of clients and server.
        mask_rate: learning rate for scores.
        floor: c in [0, 1/2): probabilities stay in [c, 1 - c].
        gradient: of `repro.federated.pmsfl.masks.GRADIENTS`.
    """

    rounds: int
    participation: float
    iterations: int
    batch: int
    rate: float
    mask_rate: float
    floor: float
    gradient: str

    def __post_init__(self) -> None:
        for name in ("rounds", "iterations", "batch"):
            integer(name, getattr(self, name), 1)
        for name in ("rate", "mask_rate"):
            one(positive, name, getattr(self, name))
        one(in_unit, "participation", self.participation)
        masks.checked_floor(self.floor)
        choice("gradient", self.gradient, masks.GRADIENTS)


@dataclass
class Traffic:
    """Bytes of what was really sent in one round, over all participants.

    Attributes:
        up, down: by kind: "model" (weights, probabilities or masks), "indicator" (which
            coordinates are personal), "smashed" (data with labels up, gradients down).
    """

    up: dict[str, int] = field(default_factory=dict)
    down: dict[str, int] = field(default_factory=dict)

    def count(self, way: dict[str, int], kind: str, sent: Tensor | bytes) -> None:
        """Add a payload."""
        size = len(sent) if isinstance(sent, bytes) else sent.numel() * sent.element_size()
        way[kind] = way.get(kind, 0) + size


@dataclass(frozen=True)
class Cohort:
    """The participants of a round.

    Attributes:
        clients: their numbers, by rising depth, then number.
        depths: how many blocks each of them holds.
        groups: depth -> the rows of the participants of that depth.
        holds: bool (participants, size): coordinates of each one's bottom model.
    """

    clients: np.ndarray
    depths: list[int]
    groups: dict[int, slice]
    holds: Tensor

    def by_depth(self, outputs: list[Tensor]) -> dict[int, list[Tensor]]:
        """The outputs of `FlatBlocks.run` sorted by depth: those of each block, deepest last."""
        return {
            depth: [
                q[rows.start - len(self.depths) + len(q) :][: rows.stop - rows.start]
                for q in outputs[:depth]
            ]
            for depth, rows in self.groups.items()
        }


class SplitMethod:
    """A method of Table 1: split federated learning of weights (SplitFed) unless a subclass differs.

    Args:
        data: the federation's records.
        network: the model; its weights are the start.
        depths: blocks that each client holds, 1 to 4.
        plan: how to train.
        seed: >= 0; decides participants, batches, masks and noise of every round.
        device: where to compute.

    Attributes:
        shared: the server's values of the clients' blocks, shape (size of the deepest bottom,).
        own: each client's own values, shape (clients, size); they count where personal.
        personal: bool, same shape.
        ranks: the processes that share the work, see `repro.federated.pmsfl.algorithm.train`.

    Raises:
        ValueError: `depths` does not hold one integer from 1 to 4 for each client.
    """

    masks = False
    ranks: Ranks = ALONE

    def __init__(
        self,
        data: ClientData,
        network: SplitNetwork,
        depths: np.ndarray,
        plan: Plan,
        seed: int,
        device: torch.device,
    ) -> None:
        if len(depths) != data.clients:
            raise ValueError(f"depths must hold one for each of {data.clients} clients")
        self.depths = np.array([integer("depth", depth, 1, DEPTH) for depth in depths])
        self.data, self.plan, self.seed, self.device = data, plan, integer("seed", seed, 0), device
        self.network = network.to(device)
        self.blocks = FlatBlocks(self.network)
        self._inputs = torch.from_numpy(data.inputs).to(device)
        self._labels = torch.from_numpy(data.labels).to(device)
        size = self.blocks.size(int(self.depths.max()))
        weights = self.blocks.weights()
        self.kind = self._parametrisation(weights[:size], self.masks)
        self.server = SplitServer(
            self.network,
            self.blocks,
            self._parametrisation(weights, self.server_masks()),
            plan.rate,
        )
        self.shared = self.kind.start()
        self.own = self.shared.repeat(data.clients, 1)
        self.personal = torch.zeros_like(self.own, dtype=torch.bool)
        self.traffic = Traffic()
        self.losses: list[float] = []

    # What methods differ in -----------------------------------------------------------------------

    def server_masks(self) -> bool:
        """Whether the server trains a mask of its blocks instead of their weights."""
        return False

    def sent(self, smashed: Tensor, generator: torch.Generator) -> Tensor:
        """What leaves the client of its smashed data."""
        return smashed

    def local_loss(self, outputs: list[Tensor], labels: Tensor, depth: int) -> Tensor | float:
        """A loss of the clients of one depth that they compute by themselves, summed over them.

        `outputs` are those of every block of their bottoms, `labels` have shape (clients, batch).
        """
        return 0.0

    def local_extras(self, cohort: Cohort) -> list[Tensor]:
        """Tensors that clients train in a round beside their blocks."""
        return []

    def answers(
        self, sent: dict[int, Tensor], labels: dict[int, Tensor], generator: torch.Generator
    ) -> tuple[dict[int, Tensor], float]:
        """Step 2.2: the gradients of the smashed data, and the loss."""
        gradients, loss = self.server.answer(sent, labels, generator, self.ranks)
        for depth, smashed in sent.items():
            self.traffic.count(self.traffic.up, "smashed", smashed)
            self.traffic.count(self.traffic.up, "smashed", labels[depth].to(torch.uint8))
            self.traffic.count(self.traffic.down, "smashed", gradients[depth])
        return gradients, loss

    def predict(
        self, reference: dict[int, Tensor], tests: dict[int, Tensor], generator: torch.Generator
    ) -> dict[int, Tensor]:
        """Logits of smashed data, by depth; see `SplitServer.predict`."""
        return self.server.predict(reference, tests, generator)

    def finished_backward(self, gradient: Tensor, generator: torch.Generator) -> Tensor:
        """The clients' gradients, shape (clients, size), as their optimiser sees them."""
        return gradient

    def round(self, number: int) -> None:
        """Round `number` (0, 1, ...): SplitFed (Thapa et al., AAAI 2022)."""
        cohort, generator = self.begin(number)
        start = self.broadcast(cohort)
        trained = self.local_updates(cohort, start, number, generator)
        uploads = self.kind.public(trained)
        self.keep(cohort, uploads)
        sharing = cohort.holds & ~self.personal[cohort.clients]
        self.traffic.count(self.traffic.up, "model", uploads[sharing])
        self.shared = over_sharers(uploads, sharing, self.shared)

    # Shared parts ---------------------------------------------------------------------------------

    @property
    def participants(self) -> int:
        """K, clients in a round (Algorithm 1, line 4)."""
        return max(int(self.plan.participation * self.data.clients + 1e-9), 1)

    def begin(self, number: int) -> tuple[Cohort, torch.Generator]:
        """Draw the participants of a round, and the generator of its masks and noise."""
        self.traffic, self.losses = Traffic(), []
        drawn = rng_of(self.seed, number, 0).permutation(self.data.clients)[: self.participants]
        self.server.begin_round(self.shared)
        return self.cohort(drawn), self.generator(number, 2)

    def broadcast(self, cohort: Cohort) -> Tensor:
        """What each participant starts from: the shared values, its own where personal."""
        for needed in cohort.holds & ~self.personal[cohort.clients]:
            self.traffic.count(self.traffic.down, "model", self.shared[needed])
        return self.client_values(cohort.clients)

    def local_updates(
        self, cohort: Cohort, start: Tensor, number: int, generator: torch.Generator
    ) -> Tensor:
        """Steps 2.1 to 2.3, R times: what the optimiser has made of `start`, shape (K, size).

        Raises:
            DivergedError: the loss is not finite.
        """
        places = self._places(cohort, number)
        values = self.kind.trainable(start).requires_grad_()
        optimiser = torch.optim.Adam([values], lr=self.kind.rate)
        if extras := self.local_extras(cohort):
            optimiser.add_param_group({"params": extras, "lr": self.plan.rate})
        # sorted by depth, so that all ranks have as many clients of each depth, within one
        mine = slice(self.ranks.rank, None, self.ranks.count)
        own = cohort if self.ranks.count == 1 else self.cohort(cohort.clients[mine])
        absent = cohort.groups.keys() - own.groups.keys()
        nobody = {d: self.blocks.nobody(self._inputs, self.plan.batch, d) for d in absent}
        for iteration in range(self.plan.iterations):
            labels = self._labels[torch.from_numpy(places[mine, iteration]).to(self.device)]
            effective = self.kind.effective(values, generator)  # step 2.1: local forward
            inputs = self.inputs(places[mine, iteration])
            outputs = own.by_depth(self.blocks.run(effective[mine], inputs, own.depths))
            truth = {depth: labels[rows] for depth, rows in own.groups.items()}
            sent = {depth: self.sent(blocks[-1], generator) for depth, blocks in outputs.items()}
            local = sum(self.local_loss(outputs[d], truth[d], d) for d in outputs)
            sent |= nobody
            truth |= {depth: labels[:0] for depth in nobody}
            answers, loss = self.answers(sent, truth, generator)  # step 2.2
            if not np.isfinite(whole := loss + torch.as_tensor(local).item()):
                raise DivergedError(
                    f"the loss is {whole} in round {number}, iteration {iteration}; lower the "
                    "learning rates"
                )
            self.losses.append(loss)
            optimiser.zero_grad(set_to_none=True)  # step 2.3: local backward
            replied = sum((sent[d] * answers[d]).sum() for d in sent)  # its gradient: the replies
            (replied + local).backward()
            values.grad = self.finished_backward(values.grad, generator)
            optimiser.step()
        return self._gathered(values.detach(), mine)

    def _gathered(self, values: Tensor, mine: slice) -> Tensor:
        """What all ranks have trained, shape (K, size), each the rows that are its own; and their traffic."""
        if self.ranks.count == 1:
            return values
        for way in (self.traffic.up, self.traffic.down):
            way["smashed"] = self.ranks.count_all(way["smashed"])
        whole = torch.zeros_like(values)
        whole[mine] = values[mine]
        return self.ranks.sum(whole.flatten()).view_as(whole)

    def keep(self, cohort: Cohort, values: Tensor) -> None:
        """Store what the participants have trained, as their own values."""
        self.own[cohort.clients] = values

    def client_values(self, clients: np.ndarray) -> Tensor:
        """The public values that some clients would use now, shape (len(clients), size)."""
        return torch.where(self.personal[clients], self.own[clients], self.shared)

    def inputs(self, places: np.ndarray) -> Tensor:
        """The records at `places`, shape (*places.shape, ...), on the device."""
        return self._inputs[torch.from_numpy(places).to(self.device)]

    def generator(self, number: int, stream: int) -> torch.Generator:
        """Random numbers for one purpose in round `number`: 2 training, 3 evaluation."""
        generator = torch.Generator(device=self.device)
        return generator.manual_seed(training_seed(self.seed, number, stream))

    def _parametrisation(self, weights: Tensor, masked: bool) -> Parametrisation:
        plan = self.plan
        if masked:
            return MaskTraining(weights, plan.mask_rate, plan.floor, plan.gradient)
        return WeightTraining(weights, plan.rate)

    def cohort(self, clients: np.ndarray) -> Cohort:
        """Some clients, sorted by depth."""
        clients = clients[np.lexsort((clients, self.depths[clients]))]
        depths = self.depths[clients]
        groups = {
            int(d): slice(int(np.searchsorted(depths, d)), int(np.searchsorted(depths, d, "right")))
            for d in np.unique(depths)
        }
        holds = held(depths, self.blocks, len(self.shared), self.device)
        return Cohort(clients, depths.tolist(), groups, holds)

    def _places(self, cohort: Cohort, number: int) -> np.ndarray:
        """Records of every participant and iteration, see `batches`."""
        held = [self.data.train[client] for client in cohort.clients]
        return batches(held, self.plan, rng_of(self.seed, number, 1))

    def guarantee(self, delta: float) -> NoReturn:
        """Refused: no method of Table 1 has a finite epsilon for a record that may be replaced by any other.

        Labels leave the clients as they are, in every batch, and without noise the smashed data do as well.
        `repro.accounting.pmsfl.releases` says what single releases leak, such as a sampled mask or smashed data
        behind noise, and composes them.

        Raises:
            ValueError: always, with this reason.

        Source: pmsfl, Algorithm 1, step 2.1.
        """
        raise ValueError(
            f"method must keep labels from the server for a guarantee at delta {delta!r}, got "
            f"{type(self).__name__}: every batch is sent with its labels, which no noise hides"
        )

    # Checkpoints ----------------------------------------------------------------------------------

    def decided_by(self) -> list[Any]:
        """Everything that decides a run: settings, seed, data, the model."""
        numbers = [[part.tolist() for part in side] for side in (self.data.train, self.data.test)]
        own = {k: v for k, v in vars(self).items() if isinstance(v, (int, float, str))}
        told = (type(self).__name__, self.plan, self.depths.tolist(), numbers, own)
        return [told, self._inputs, self._labels, self.network]

    def state(self) -> dict[str, Any]:
        """All that a later round depends on."""
        return {
            "shared": self.shared,
            "own": self.own,
            "personal": self.personal,
            "server": self.server.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a `state`, wherever its tensors are."""
        self.shared, self.own, self.personal = (
            state[k].to(self.device) for k in ("shared", "own", "personal")
        )
        self.server.restore(state["server"])


def rng_of(seed: int, number: int, stream: int) -> np.random.Generator:
    """Random numbers for one purpose in round `number`: 0 participants, 1 batches."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, stream)))


def training_seed(seed: int, number: int, stream: int) -> int:
    """The seed of `SplitMethod.generator`."""
    source = np.random.SeedSequence(seed, spawn_key=(number, stream))
    return int(source.generate_state(1, np.uint64)[0] >> 1)


def batches(held: Sequence[np.ndarray], plan: Plan, rng: np.random.Generator) -> np.ndarray:
    """Records of every participant and iteration, shape (K, R, batch), from those that each holds.

    A client passes through its records in random order, again and again.
    """
    wanted = plan.iterations * plan.batch
    rows = []
    for records in held:
        passes = [rng.permutation(records) for _ in range(-(-wanted // len(records)))]
        rows.append(np.concatenate(passes)[:wanted])
    return np.stack(rows).reshape(len(rows), plan.iterations, plan.batch)
