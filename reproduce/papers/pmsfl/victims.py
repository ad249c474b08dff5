"""A client of split federated learning, trained a while, and what the server sees of its batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from repro._validate import choice, integer
from repro.attacks.reconstruction import bottom
from repro.federated.client_data import ClientData
from repro.federated.pmsfl import masks
from repro.federated.pmsfl.algorithm import PMSFL
from repro.federated.pmsfl.rivals import SplitFed, SplitFedDP
from repro.federated.pmsfl.split_method import Plan, SplitMethod
from repro.models.split import resnet18, statistics_from

_CHUNK = 50  # rounds whose smashed data are in memory at once


@dataclass(frozen=True, eq=False)
class Batch:
    """The images that are attacked, and images of the same kind that the attacker may have.

    Attributes:
        images, labels: of one client, shapes (n, channels, h, w) and (n,).
        public: records of the other clients, shape (m, channels, h, w).
        low, high: range of the pixels.
    """

    images: Tensor
    labels: Tensor
    public: Tensor
    low: float
    high: float


def accelerator() -> torch.device:
    """A GPU where there is one, as for "auto" in training; else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@contextmanager
def precise(device: torch.device) -> Iterator[type[np.floating]]:
    """Make float64 the default of new tensors on a CPU, float32 on a GPU; yield numpy's type of it.

    A fit of images ends in another minimum when its first steps differ in the last digit, and the
    last digit of float32 differs between processors. In float64 the fits agree. A GPU keeps all digits
    of float32 in convolutions (it would round to 10 bits, which hides more than a fit may miss) and
    gives the same run the same bits.
    """
    before = torch.get_default_dtype()
    on_cpu = device.type == "cpu"
    torch.set_default_dtype(torch.float64 if on_cpu else torch.float32)
    try:
        with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            yield np.float64 if on_cpu else np.float32
    finally:
        torch.set_default_dtype(before)


def batch_of(data: ClientData, images: int, device: torch.device | str = "cpu") -> Batch:
    """The first `images` training records of the client that has most of them.

    Raises:
        ValueError: the data are no images, or that client has fewer records.
    """
    if data.inputs.ndim != 4:
        raise ValueError(f"data must be images, got records of shape {data.inputs.shape[1:]}")
    victim = max(range(data.clients), key=lambda client: len(data.train[client]))
    places = data.train[victim]
    places = places[: integer("images", images, 2, len(places))]
    others = [part for client, part in enumerate(data.train) if client != victim]
    if not others:
        raise ValueError("data must have at least two clients: the others' images are public")
    return Batch(
        torch.from_numpy(data.inputs[places]).to(device),
        torch.from_numpy(data.labels[places]).to(device),
        torch.from_numpy(data.inputs[np.concatenate(others)]).to(device),
        float(data.inputs.min()),
        float(data.inputs.max()),
    )


class Victim:
    """A trained federation, attacked between two rounds.

    Args:
        config: "width", "layers" and "depth" (blocks at the clients, 1 to 3) of the ResNet; "rounds",
            "participation", "iterations", "batch", "rate", "mask_rate", "floor", "gradient" as in
            `Plan`.
        data: the federation's records.
        method: "splitfed" or "pmsfl".
        seed: >= 0.
        device: where to train and to attack.

    Attributes:
        size: weights of the bottom.
        entropy: of the mask after every round from 0 on, mean bits per weight; empty for weights.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        data: ClientData,
        method: str,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        choice("method", method, ("splitfed", "pmsfl"))
        self.depth: int = config["depth"]
        self.device = torch.device(device)
        self._config, self._masked = config, method == "pmsfl"
        self._method = self._build(data, method, seed)
        self.blocks, self._network = self._method.blocks, self._method.network
        self.size = self.blocks.size(self.depth)
        self.entropy: list[float] = [] if not self._masked else [_bits(self.theta)]
        for number in range(config["rounds"]):
            self._method.round(number)
            if self._masked:
                self.entropy.append(_bits(self.theta))

    def _build(self, data: ClientData, method: str, seed: int) -> SplitMethod:
        config = self._config
        network = resnet18(
            classes=data.classes,
            channels=data.inputs.shape[1],
            width=config["width"],
            layers=config["layers"],
            seed=seed,
        )
        plan = _plan(config, config["rounds"])
        everything = (data, network, np.full(data.clients, self.depth), plan, seed)
        if method == "pmsfl":  # without personalisation: what is broadcast is what is used
            return PMSFL(*everything, self.device, agreement=plan.rounds, ratio=0.0)
        return SplitFed(*everything, self.device)

    # What the server knows ------------------------------------------------------------------------

    @property
    def weights(self) -> Tensor:
        """Weights of the bottom: those that SplitFed has trained, or the frozen w_b; (size,)."""
        return self._method.kind.weights if self._masked else self._method.shared

    @property
    def theta(self) -> Tensor:
        """Probabilities that the server broadcasts, kept off 0 and 1 as clients do, (size,)."""
        return masks.kept_inside(self._method.shared, self._config["floor"])

    def answer(self, smashed: Tensor, labels: Tensor) -> Tensor:
        """Gradient of the mean loss over a batch with respect to smashed data, of their shape."""
        arrived = smashed.detach().requires_grad_()
        loss = nn.functional.cross_entropy(self._network.head(self._top(arrived)), labels)
        return torch.autograd.grad(loss, arrived)[0]

    def features(self, images: Tensor, reference: Tensor) -> Tensor:
        """What the head sees of images, means over pixels, by the weights of SplitFed.

        Args:
            images: shape (n, channels, h, w).
            reference: images that give the batch statistics.

        Returns:
            Shape (n, features).
        """
        hidden, flat = torch.cat([reference, images]), self._flat()
        with torch.no_grad(), statistics_from(self._network, len(reference)):
            for number in range(self.depth):
                hidden = self.blocks.block(number, flat, hidden)
            return self._top(hidden)[len(reference) :].mean(dim=(2, 3))

    def _top(self, hidden: Tensor) -> Tensor:
        flat = self._flat()
        for number in range(self.depth, len(self.blocks.sizes)):
            hidden = self.blocks.block(number, flat, hidden)
        return hidden

    def _flat(self) -> Tensor:
        trained = self._method.server.values.detach()
        return torch.cat([self.weights, trained[self.size :]])

    # What the client sends ------------------------------------------------------------------------

    def smashed(self, images: Tensor, weights: Tensor) -> Tensor:
        """Smashed data of a batch by several versions of the weights, (versions, batch, ...)."""
        with torch.no_grad():
            repeated = images.expand(len(weights), *images.shape)
            return bottom(self.blocks, weights, repeated, self.depth)

    def masked(self, theta: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """w_b * M for fresh masks M ~ Bernoulli(theta), shape (count, size)."""
        return self.weights * masks.sample(theta.expand(count, -1), generator)

    def over_rounds(
        self, images: Tensor, theta: Tensor, count: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance over `count` fresh masks of the smashed data, each (batch, ...)."""
        total, square = 0.0, 0.0
        for start in range(0, count, _CHUNK):
            versions = self.masked(theta, min(_CHUNK, count - start), generator)
            seen = self.smashed(images, versions)
            total, square = total + seen.sum(dim=0), square + seen.square().sum(dim=0)
        return total / count, (square / count - (total / count).square()).clamp(min=0)

    def gradient(self, images: Tensor, weights: Tensor, answer: Tensor) -> Tensor:
        """Gradient of the mean loss with respect to the bottom's weights, (size,)."""
        weights = weights.detach().requires_grad_()
        made = bottom(self.blocks, weights[None], images[None], self.depth)
        return torch.autograd.grad(made, weights, answer[None])[0]


@dataclass(frozen=True)
class Noise:
    """What SplitFed-DP adds, by the very code that trains it.

    Attributes:
        scale: of the Laplace noise on each activation, clipped to [-bound, bound] before.
        bound: that clip.
        clip: norm to which an update is clipped.
        spread: standard deviation of the Gaussian noise on each coordinate of the update.
    """

    scale: float
    bound: float
    clip: float
    spread: float
    _method: SplitFedDP

    @classmethod
    def of(cls, config: Mapping[str, Any], data: ClientData, epsilon: float, seed: int) -> Noise:
        """The noise at a budget of `epsilon` for the smashed data."""
        method = SplitFedDP(
            data,
            resnet18(classes=data.classes, channels=data.inputs.shape[1], width=1, layers=1),
            np.full(data.clients, config["depth"]),
            _plan(config, 1),
            seed,
            torch.device("cpu"),
            smashed_epsilon=epsilon,
            **{key: config[key] for key in ("bound", "update_epsilon", "update_delta", "clip")},
        )
        return cls(method.scale, method.bound, method.clip, method.sigma, method)

    def smashed(self, clean: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """The mean of `count` noisy copies of smashed data, of their shape."""
        total = torch.zeros_like(clean)
        for start in range(0, count, _CHUNK):
            copies = clean.expand(min(_CHUNK, count - start), *clean.shape)
            total += self._method.sent(copies, generator).sum(dim=0)
        return total / count

    def median(self, clean: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """The median of `count` noisy copies of each activation, of the shape of `clean`.

        The likeliest activation under Laplace noise; for many copies its variance is scale^2 /
        count, half of that of the mean.
        """
        return torch.stack(
            [
                self._method.sent(one.expand(count, *one.shape), generator).median(dim=0).values
                for one in clean  # record by record: all copies of one are in memory at once
            ]
        )

    def gradient(self, clean: Tensor, generator: torch.Generator) -> Tensor:
        """A clipped and noisy gradient, (size,)."""
        return self._method.finished_backward(clean[None], generator)[0]


def _bits(theta: Tensor) -> float:
    """Mean entropy of Bernoulli(theta) in bits."""
    p = theta.double().clamp(1e-12, 1 - 1e-12)
    return float(-(p * p.log2() + (1 - p) * (1 - p).log2()).mean())


def _plan(config: Mapping[str, Any], rounds: int) -> Plan:
    keys = ("participation", "iterations", "batch", "rate", "mask_rate", "floor", "gradient")
    return Plan(rounds=rounds, **{key: config[key] for key in keys})
