"""Long runs in pieces: the state of a federation after some of its rounds, on disk.

A run of the paper's size takes hours on a GPU. Its state is written every so many rounds; whoever
asks for the same run again after an interruption goes on from there. Since every round draws from
random streams of its own number, a run in pieces has the same bits as a run in one go. The file is
named by configuration, seed and the code that trains, so that old states are never taken up by
newer code; it is deleted when the run is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from repro.atomic import replacing
from repro.federated.pmsfl.split_method import SplitMethod
from reproduce import paths

CODE = ("federated", "models", "datasets")
"""Packages of `repro` whose code decides what a run computes."""


class Checkpoint:
    """Where a run stands.

    Args:
        config, seed: of the run, JSON-able.
        every: rounds between two states, >= 0; 0: nothing is written or read.
    """

    def __init__(self, config: Mapping[str, Any], seed: int, every: int) -> None:
        self.every = every
        code = hashlib.sha256()
        package = Path(__file__).parents[1]
        for path in sorted(p for part in CODE for p in (package / part).glob("*.py")):
            code.update(path.read_bytes())
        run = json.dumps([dict(config), seed, code.hexdigest()], sort_keys=True)
        name = hashlib.sha256(run.encode()).hexdigest()[:20]
        self.path = paths.RUNS / "unfinished" / f"{name}.pt"

    def resume(self, method: SplitMethod) -> tuple[int, dict[str, Any]]:
        """Bring `method` to the last state: (rounds done, what was noted); (0, {}) without one."""
        if not self.every or not self.path.exists():
            return 0, {}
        # to the CPU: the optimiser's step counts live there on every device, all else is moved
        kept = torch.load(self.path, map_location="cpu", weights_only=True)
        method.restore(kept["state"])
        return kept["done"], kept["notes"]

    def note(self, method: SplitMethod, done: int, notes: Mapping[str, Any]) -> None:
        """Write the state after `done` rounds, where it is time to."""
        if self.every and done % self.every == 0:
            with replacing(self.path) as scratch:
                state = {"state": method.state(), "done": done, "notes": dict(notes)}
                torch.save(state, scratch)

    def finish(self) -> None:
        """The run is complete: its state is not needed any more."""
        self.path.unlink(missing_ok=True)
