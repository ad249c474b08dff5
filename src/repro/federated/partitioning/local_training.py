"""Local training of many clients at once, each with weights of its own (partitioning, section 4.1).

Each client starts from the server's weights of its submodel and takes a few steps of gradient
descent on all of its samples. Clients are stacked along a first axis: one batched computation
(`torch.func.vmap`) for all whose submodels have the same shape, whichever blocks they hold. With
balanced partitions there are at most two shapes, so at most two computations, not one per client or
per submodel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from repro._validate import integer, one, positive
from repro.federated.partitioning.submodels import Partition
from repro.models.residual import ResidualNet


@dataclass(frozen=True)
class Local:
    """What a client does with the model it receives.

    Attributes:
        iterations: gradient steps on the mean loss of all its samples, at least 1.
        learning_rate: > 0.

    Raises:
        ValueError: a value out of range.
    """

    iterations: int
    learning_rate: float

    def __post_init__(self) -> None:
        integer("iterations", self.iterations, 1)
        one(positive, "learning_rate", self.learning_rate)


@dataclass(frozen=True)
class Updates:
    """What a group of clients sends back: how far local training moved each of its weights.

    Attributes:
        clients: their places among all clients of the call, shape (group,).
        unsplit: parameter and movements (group, *shape), for the unsplit part.
        split: parameters of equal shape, one per submodel of the group, and the movements (group,
            *shape); `owner` says which of the parameters a client's movement belongs to.
        owner: shape (group,).
    """

    clients: Tensor
    unsplit: list[tuple[nn.Parameter, Tensor]]
    split: list[tuple[list[nn.Parameter], Tensor]]
    owner: Tensor

    def norms(self) -> Tensor:
        """Euclidean norms of the clients' split and unsplit movements, shape (2, group)."""
        parts = [[movement for _, movement in moved] for moved in (self.split, self.unsplit)]
        squares = [sum(m.flatten(1).square().sum(1) for m in movements) for movements in parts]
        return torch.stack(squares).sqrt_()

    def weighted_sum(self, weights: Tensor) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Sum of the movements under `weights` (2, group), parameter by parameter."""
        for parameter, movement in self.unsplit:
            yield parameter, torch.tensordot(weights[1], movement, dims=1)
        for parameters, movement in self.split:
            scaled = movement * weights[0].view(-1, *[1] * (movement.ndim - 1))
            sums = movement.new_zeros(len(parameters), *movement.shape[1:])
            yield from zip(parameters, sums.index_add_(0, self.owner, scaled), strict=True)


def local_updates(
    net: ResidualNet,
    partition: Partition,
    assigned: Tensor,
    images: Tensor,
    labels: Tensor,
    local: Local,
) -> Iterator[Updates]:
    """Train every client on its submodel, group after group of equally shaped submodels.

    Args:
        net: the server's model, which is not changed.
        partition: the split blocks of each submodel.
        assigned: submodel of each client, int64, shape (clients,).
        images: shape (clients, samples, colours, h, w).
        labels: classes, int64, shape (clients, samples).
        local: what a client does.

    Yields:
        the updates of one group of clients after the other.
    """
    for submodels in _equally_shaped(net, partition):
        owner = torch.full((len(partition),), -1, device=assigned.device)
        owner[list(submodels)] = torch.arange(len(submodels), device=assigned.device)
        clients = torch.nonzero(owner[assigned] >= 0).flatten()
        if len(clients):
            owners = owner[assigned[clients]]
            parts = [partition[k] for k in submodels]
            split = {i for blocks in partition for i in blocks}
            yield _group(net, parts, split, owners, clients, images, labels, local)


def _group(
    net: ResidualNet,
    parts: list[tuple[int, ...]],
    split: set[int],
    owner: Tensor,
    clients: Tensor,
    images: Tensor,
    labels: Tensor,
    local: Local,
) -> Updates:
    """Local training of clients whose submodels have the same shape as `parts[0]`."""
    blocks = [i for i in range(len(net.blocks)) if i not in split or i in parts[0]]
    own = {f"blocks.{i}.": slot for slot, i in enumerate(parts[0])}
    left_out = tuple(f"blocks.{i}." for i in split.difference(parts[0]))
    parameters = dict(net.named_parameters())
    start: dict[str, Tensor] = {}
    holders: dict[str, list[nn.Parameter]] = {}
    for name, parameter in parameters.items():
        if name.startswith(left_out):
            continue
        prefix = next((prefix for prefix in own if name.startswith(prefix)), "")
        if prefix:
            rest, slot = name.removeprefix(prefix), own[prefix]
            holders[name] = [parameters[f"blocks.{part[slot]}.{rest}"] for part in parts]
            start[name] = torch.stack([p.detach() for p in holders[name]])[owner]
        else:
            start[name] = parameter.detach().expand(len(clients), *parameter.shape)

    def loss(weights: dict[str, Tensor], batch: Tensor, truth: Tensor) -> Tensor:
        return nn.functional.cross_entropy(functional_call(net, weights, (batch, blocks)), truth)

    gradients = vmap(grad(loss))
    batch, truth = images[clients], labels[clients]
    weights = start
    for _ in range(local.iterations):
        gradient = gradients(weights, batch, truth)
        weights = {name: w - local.learning_rate * gradient[name] for name, w in weights.items()}
    moved = {name: weights[name] - first for name, first in start.items()}
    return Updates(
        clients=clients,
        unsplit=[(parameters[n], moved[n]) for n in moved if n not in holders],
        split=[(holders[n], moved[n]) for n in moved if n in holders],
        owner=owner,
    )


def _equally_shaped(net: ResidualNet, partition: Partition) -> list[tuple[int, ...]]:
    """Submodels grouped by the shapes of their blocks and their place among the unsplit ones."""
    split = {i for blocks in partition for i in blocks}
    groups: dict[tuple, list[int]] = {}
    for k, blocks in enumerate(partition):
        key = tuple(
            (sum(j not in split for j in range(i)), *(p.shape for p in net.blocks[i].parameters()))
            for i in blocks
        )
        groups.setdefault(key, []).append(k)
    return [tuple(group) for group in groups.values()]
