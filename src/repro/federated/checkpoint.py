"""Checkpoints: a run that is killed in any round and resumed ends with the same model, bit for bit.

A checkpoint holds what the next round depends on and cannot be drawn again: weights, momentum,
buffers of the model, the state of the noise, and of PyTorch's own generators, which layers such as
dropout use. Draws of clients, records and submodels depend on the seed alone; a resumed run draws
those of the finished rounds again, which costs little.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from repro._validate import integer
from repro.atomic import replacing
from repro.federated.server import Momentum


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run is saved.

    The file is written whole or not at all, so that it can be read whenever the run is killed. It
    holds the model before any test of its quality and is as public as the model.

    Attributes:
        path: the file; a run that finds its own checkpoint there goes on from it, and a finished one
            returns at once.
        every: rounds between two savings, at least 1; the last round is always saved.

    Raises:
        ValueError: `every` is no integer >= 1.
    """

    path: str | os.PathLike[str]
    every: int = 100

    def __post_init__(self) -> None:
        integer("every", self.every, 1)


def identity(checkpoint: Checkpoint | None, *parts: object) -> str:
    """A digest of everything that decides a run: settings, seed, data, the model at the start.

    Tensors and modules count by their content, all else by its `repr`. Without a checkpoint nobody
    asks for it, and it is "".
    """
    if checkpoint is None:
        return ""
    digest = hashlib.sha256()
    for tensor in (t for part in parts for t in _tensors(part)):
        content = tensor.detach().cpu().contiguous()
        digest.update(f"{content.dtype} {tuple(content.shape)} ".encode())
        digest.update(content.view(-1).view(torch.uint8).numpy().data if content.numel() else b"")
    digest.update(repr([p for p in parts if not isinstance(p, (Tensor, nn.Module))]).encode())
    return digest.hexdigest()


def _tensors(part: object) -> Iterable[Tensor]:
    if isinstance(part, Tensor):
        return [part]
    return part.state_dict().values() if isinstance(part, nn.Module) else []


@dataclass
class Saved:
    """A run's side of its checkpoint: call `begin` before the first round and `end` after each.

    Attributes:
        checkpoint: where; None saves nothing.
        run: the run's `identity`, of the model before its first round.
        model, weights, noises: what is saved and restored; `weights` are those of `model`.
        rounds: T, at least 1.
    """

    checkpoint: Checkpoint | None
    run: str
    model: nn.Module
    weights: Momentum
    noises: torch.Generator
    rounds: int
    _devices: list[torch.device] = field(init=False)

    def __post_init__(self) -> None:
        used = {p.device for p in self.model.parameters()}
        self._devices = [device for device in used if device.type == "cuda"]

    def begin(self) -> int:
        """Restore the last checkpoint, or save the start; the number of rounds that are finished.

        Raises:
            ValueError: the file is of another run, or no checkpoint.
        """
        if self.checkpoint is None:
            return 0
        path = Path(self.checkpoint.path)
        if not path.exists():
            self._save(0)
            return 0
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            run = state["run"]
        except (RuntimeError, pickle.UnpicklingError, KeyError, TypeError, EOFError) as problem:
            raise ValueError(f"checkpoint must be a file of `Checkpoint`, got {path}") from problem
        if run != self.run:
            raise ValueError(
                f"checkpoint must be of the same settings, seed, data and first model, got {path}: "
                "name another file, or remove it"
            )
        self.weights.restore(state["weights"], state["velocity"])
        for name, buffer in self.model.named_buffers():
            buffer.copy_(state["buffers"][name])
        self.noises.set_state(state["noise"])
        torch.set_rng_state(state["torch"])
        for device, own in zip(self._devices, state["cuda"], strict=True):
            torch.cuda.set_rng_state(own, device)
        return int(state["finished"])

    def end(self, finished: int) -> None:
        """Save the run after round `finished`, where that is due."""
        if self.checkpoint is None:
            return
        if finished % self.checkpoint.every == 0 or finished == self.rounds:
            self._save(finished)

    def _save(self, finished: int) -> None:
        weights, velocity = self.weights.state()
        state = {
            "run": self.run,
            "finished": finished,
            "weights": weights,
            "velocity": velocity,
            "buffers": dict(self.model.named_buffers()),
            "noise": self.noises.get_state(),
            "torch": torch.get_rng_state(),
            "cuda": [torch.cuda.get_rng_state(device) for device in self._devices],
        }
        with replacing(self.checkpoint.path) as scratch:
            torch.save(state, scratch)
