"""Audits of one training with many canaries: their records, the bounds that follow, and the verdict.

Whether a canary is in the training is decided by a coin of its own. A record keeps how many guesses of the coins
were right, and mean and variance of the scores of both groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from repro._validate import integer
from repro.attacks.one_run import (
    Scores,
    gaussian_epsilon,
    guess_counts,
    guess_epsilon,
    right_guesses,
)
from reproduce.notebook import Workbook
from reproduce.papers.auditing import Profile

__all__ = [
    "Found",
    "Single",
    "caveat",
    "coins",
    "conclude",
    "decide",
    "numbers",
    "summary",
    "table",
    "tasks",
]


@dataclass(frozen=True)
class Single:
    """One training with many canaries.

    Attributes:
        name: in tables.
        config: of its task, without the number of canaries.
        mechanism: whose upper bound holds for every canary; called once.
        sums: whether scores are sums of many terms, so that the Gaussian bound can be asked for.
    """

    name: str
    config: Mapping[str, Any]
    mechanism: Callable[[], Profile]
    sums: bool = True


@dataclass(frozen=True)
class Found:
    """What one training says, at 95 % confidence.

    Attributes:
        canaries: how many.
        upper: our upper bound on epsilon.
        guesses: lower bound from guesses, which assumes nothing.
        gaussian: lower bound if scores are independent and Gaussian; None where they are no sums.
        best: right guesses, of how many, where their share is largest among all numbers of guesses.
    """

    canaries: int
    upper: float
    guesses: float
    gaussian: float | None
    best: tuple[int, int]


def coins(canaries: int, seed: int) -> NDArray[np.bool_]:
    """Which canaries are in the training, shape (canaries,).

    Args:
        canaries: at least 2.
        seed: >= 0; the stream has nothing in common with that of the training.
    """
    source = np.random.SeedSequence(integer("seed", seed, 0), spawn_key=(2305, 8846))
    return np.random.default_rng(source).random(integer("canaries", canaries, 2)) < 0.5


def summary(scores: ArrayLike, present: NDArray[np.bool_]) -> dict[str, Any]:
    """What a record keeps: right guesses for each of `guess_counts`, and both groups' scores.

    Args:
        scores: of the canaries, finite, shape (m,); high ones say "in".
        present: whether each was in the training.
    """
    scores = np.asarray(scores, dtype=float)
    counts = guess_counts(len(scores))
    return {
        "canaries": len(scores),
        "right": [right_guesses(scores, present, count) for count in counts],
        "with": vars(Scores.of(scores[present])),
        "without": vars(Scores.of(scores[~present])),
    }


def tasks(
    name: str, singles: Sequence[Single], parameters: Mapping[str, Any]
) -> list[tuple[str, dict[str, Any], int]]:
    """The record of each training as (task, configuration, seed).

    Args:
        name: of the task.
        singles: of the paper.
        parameters: of the notebook: "canaries" of a training.
    """
    canaries = integer("canaries", parameters["canaries"], 100)
    return [(name, {**single.config, "canaries": canaries}, 0) for single in singles]


def conclude(
    singles: Sequence[Single], results: Sequence[Mapping[str, Any]], delta: float
) -> dict[str, Found]:
    """The bounds of every training.

    Args:
        singles: of the paper.
        results: of its `tasks`, in their order.
        delta: in (0, 1).
    """
    found = {}
    for single, result in zip(singles, results, strict=True):
        counts = guess_counts(result["canaries"])
        groups = Scores(**result["with"]), Scores(**result["without"])
        found[single.name] = Found(
            canaries=result["canaries"],
            upper=float(single.mechanism().epsilon(delta, method="upper")),
            guesses=guess_epsilon(result["right"], counts, result["canaries"], delta),
            gaussian=gaussian_epsilon(*groups, delta) if single.sums else None,
            best=max(zip(result["right"], counts, strict=True), key=lambda pair: pair[0] / pair[1]),
        )
    return found


def decide(book: Workbook, found: Mapping[str, Found]) -> None:
    """The verdict "one-run": no bound from guesses is above our upper bound."""
    over = [name for name, one in found.items() if one.guesses > one.upper]
    book.statement(
        "one-run",
        not over,
        "; ".join(
            f"{name}: at least {one.guesses:.2f} from guesses, {_words(one.gaussian)} if scores are Gaussian, at "
            f"most {one.upper:.2f}"
            for name, one in found.items()
        ),
        f"above the upper bound: {', '.join(over)}" if over else "",
    )


def table(found: Mapping[str, Found]) -> pd.DataFrame:
    """One row a training: canaries, the best share of right guesses, both lower bounds and the upper one."""
    rows = {
        name: {
            "canaries": f"{one.canaries:,}",
            "right guesses": f"{one.best[0]:,} of {one.best[1]:,}",
            "from guesses": f"{one.guesses:.2f}",
            "if Gaussian": _words(one.gaussian),
            "upper": f"{one.upper:.2f}",
        }
        for name, one in found.items()
    }
    return pd.DataFrame(rows).T


def caveat(found: Mapping[str, Found]) -> str:
    """A sentence for the caption where a Gaussian bound is above the upper one; "" where none is."""
    over = [
        name for name, one in found.items() if one.gaussian is not None and one.gaussian > one.upper
    ]
    if not over:
        return ""
    return (
        f" With many canaries in one training ({', '.join(over)}; not drawn) the Gaussian bound is above the upper "
        "one: it assumes Gaussian scores, these are skewed, and no verdict rests on it."
    )


def _words(bound: float | None) -> str:
    return "-" if bound is None else f"{bound:.2f}"


def numbers(found: Mapping[str, Found]) -> dict[str, Any]:
    """What stands behind the table, for the figure's record."""
    return {name: vars(one) | {"best": list(one.best)} for name, one in found.items()}
