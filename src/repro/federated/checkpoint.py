"""Checkpoints: a run that is killed in any round and resumed ends with the same model, bit for bit.

A checkpoint holds what the next round depends on and cannot be drawn again: weights, momentum,
buffers of the model, the state of the noise, and of PyTorch's own generators, which layers such as
dropout use. Draws of clients, records and submodels depend on the seed alone; a resumed run draws
those of the finished rounds again, which costs little.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from repro.atomic import replacing
from repro.federated.ranks import ALONE, Ranks
from repro.federated.saved_arrays import Checkpoint, check_checkpoint
from repro.federated.server import Momentum

__all__ = ["Checkpoint", "Saved", "identity", "load", "store"]


def identity(asked: Checkpoint | bool | None, *parts: object) -> str:
    """A digest of everything that decides a run: settings, seed, data, the model at the start.

    Tensors and modules count by their content, all else by its `repr`. Where nobody asks for it, as without a
    checkpoint, it is "".

    Raises:
        ValueError: `asked` is no checkpoint.
    """
    check_checkpoint(asked)
    if not asked:
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


def load(checkpoint: Checkpoint, run: str) -> dict[str, Any] | None:
    """What `store` wrote for this run, on the CPU; None where nothing is there yet.

    Raises:
        ValueError: the file is of another run, or no checkpoint.
    """
    if not Path(checkpoint.path).exists():
        return None
    try:
        state = torch.load(checkpoint.path, map_location="cpu", weights_only=True)
        found = state["run"]
    except (RuntimeError, pickle.UnpicklingError, KeyError, TypeError, EOFError) as problem:
        raise checkpoint.no_checkpoint() from problem
    checkpoint.refuse_others(found, run)
    return state


def store(checkpoint: Checkpoint, state: dict[str, Any]) -> None:
    """Write a state with the identity of its run as "run"."""
    with replacing(checkpoint.path) as scratch:
        torch.save(state, scratch)


@dataclass
class Saved:
    """A run's side of its checkpoint: call `begin` before the first round and `end` after each.

    Attributes:
        checkpoint: where; None saves nothing.
        run: the run's `identity`, of the model before its first round.
        model, weights, noises: what is saved and restored; `weights` are those of `model`.
        rounds: T, at least 1.
        ranks: the processes that share the run; the first one saves, all of them restore.
    """

    checkpoint: Checkpoint | None
    run: str
    model: nn.Module
    weights: Momentum
    noises: torch.Generator
    rounds: int
    ranks: Ranks = ALONE
    _devices: list[torch.device] = field(init=False)

    def __post_init__(self) -> None:
        used = {p.device for p in self.model.parameters()}
        self._devices = [device for device in used if device.type == "cuda"]

    def begin(self) -> int:
        """Restore the last checkpoint, or save the start; the number of rounds that are finished.

        Raises:
            ValueError: the file is of another run, or no checkpoint; or another rank was given another run.
            LostRankError: another rank is gone.
        """
        self.ranks.check_same(self.run)
        return self.ranks.first_before_others(self._begin)

    def _begin(self) -> int:
        if self.checkpoint is None:
            return 0
        state = load(self.checkpoint, self.run)
        if state is None:
            self._save(0)
            return 0
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
        saves = self.checkpoint is not None and self.ranks.first
        if saves and self.checkpoint.due(finished, self.rounds):
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
        store(self.checkpoint, state)
