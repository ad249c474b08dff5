"""Checkpoints of runs whose state is NumPy arrays: written whole or not at all, resumed bit for bit.

The states of the random generators are saved, so that a resumed run draws what the whole one would have drawn.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import integer
from repro.atomic import replacing


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run is saved.

    The file is written whole or not at all, so that it can be read whenever the run is killed. It
    holds the model before any test of its quality, and what clients keep to themselves where the algorithm
    has such parts. It is as private as the most private of them.

    Attributes:
        path: the file; a run that finds its own checkpoint there goes on from it, and a finished one
            returns at once.
        every: rounds between two savings, at least 1; the last round is always saved.

    Raises:
        ValueError: `path` is no path, or `every` no integer >= 1.
    """

    path: str | os.PathLike[str]
    every: int = 100

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, os.PathLike)):
            raise ValueError(f"path must be a path, got {self.path!r}")
        integer("every", self.every, 1)

    def due(self, finished: int, rounds: int) -> bool:
        """Whether a run of so many rounds is saved after round `finished`."""
        return finished % self.every == 0 or finished == rounds

    def no_checkpoint(self) -> ValueError:
        """The error of a file that holds no checkpoint."""
        return ValueError(f"checkpoint must be a file of `Checkpoint`, got {self.path}")

    def refuse_others(self, found: str, run: str) -> None:
        """Refuse the checkpoint of another run.

        Raises:
            ValueError: the identities differ.
        """
        if found != run:
            raise ValueError(
                f"checkpoint must be of the same settings, seed, data and first model, got {self.path}: "
                "name another file, or remove it"
            )


def check_checkpoint(asked: object) -> None:
    """Refuse what is neither a checkpoint nor says whether there is one.

    Raises:
        ValueError: as when a path is given in place of a `Checkpoint`.
    """
    if asked is not None and not isinstance(asked, (Checkpoint, bool)):
        raise ValueError(f"checkpoint must be a repro.federated.Checkpoint or None, got {asked!r}")


class SavedArrays:
    """A run's side of its checkpoint: call `begin` before the first round and `end` after each.

    Args:
        checkpoint: where; None saves nothing.
        parts: everything that decides the run; arrays count by their content, all else by its `repr`.
        rounds: T, at least 1.
    """

    def __init__(self, checkpoint: Checkpoint | None, parts: Iterable[object], rounds: int) -> None:
        check_checkpoint(checkpoint)
        self._checkpoint, self._rounds = checkpoint, rounds
        self._run = "" if checkpoint is None else _identity(parts)

    def begin(self) -> dict[str, NDArray] | None:
        """The state that was saved last, with the number of finished rounds as "finished"; None without one.

        Raises:
            ValueError: the file is of another run, or no checkpoint.
        """
        if self._checkpoint is None or not Path(self._checkpoint.path).exists():
            return None
        try:
            with np.load(self._checkpoint.path, allow_pickle=False) as file:
                state = dict(file)
            run = str(state.pop("run"))
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            EOFError,
            zipfile.BadZipFile,
        ) as problem:
            raise self._checkpoint.no_checkpoint() from problem
        self._checkpoint.refuse_others(run, self._run)
        return state

    def end(self, finished: int, state: Callable[[], Mapping[str, ArrayLike]]) -> None:
        """Save the run after round `finished`, where that is due."""
        if self._checkpoint is None or not self._checkpoint.due(finished, self._rounds):
            return
        with replacing(self._checkpoint.path) as scratch, open(scratch, "wb") as file:
            np.savez(file, run=self._run, finished=finished, **state())


def generator_states(generators: Iterable[np.random.Generator]) -> NDArray[np.str_]:
    """The states of generators as an array of texts, shape (n,)."""
    return np.array([json.dumps(one.bit_generator.state) for one in generators])


def set_generators(generators: Iterable[np.random.Generator], states: NDArray[np.str_]) -> None:
    """Set generators to what `generator_states` gave."""
    for one, state in zip(generators, states, strict=True):
        one.bit_generator.state = json.loads(str(state))


def _identity(parts: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype} {part.shape} ".encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()
