"""Long runs in pieces: the state of a federation after some of its rounds, on disk.

A run of the paper's size takes hours on a GPU. Its state is written at regular intervals; after an
interruption the same run goes on from the last state. Every round draws from random streams of its
own number, so a run in pieces has the same bits as a run without interruption. The file is named by
configuration, seed and the code that trains: new code never continues an old state. The file is
deleted when the run is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import repro
from repro.atomic import replacing
from repro.federated.pmsfl.split_method import SplitMethod
from reproduce import paths

CODE = ("federated", "models", "datasets")
"""Packages of `repro` whose code decides, with this package's, what a run computes."""


def sources() -> list[Path]:
    """The files whose code names a state.

    They are found by folder and not by `reproduce.fingerprint`, which knows them more exactly: what
    a run imports decides whether its record is valid, and the catalogue must not.
    """
    package = Path(repro.__file__).parent
    folders = [*(package / part for part in CODE), Path(__file__).parent]
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


class Checkpoint:
    """Where a run stands.

    Args:
        config: of the run, JSON-able.
        seed: of the run, >= 0.
        every: rounds between two states, >= 0; 0: nothing is written or read.

    Attributes:
        path: of the state, below `data/runs/unfinished/`.
    """

    def __init__(self, config: Mapping[str, Any], seed: int, every: int) -> None:
        self.every = every
        code = hashlib.sha256()
        for path in sources():
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
