"""When the runs of tables 1 and 2 and of section 4.2 can test the paper's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproduce.papers.partitioning.compare import is_full
from reproduce.papers.statistics import interval

_START = (0.6, 0.8)
_FLAT = 0.02


class Found(NamedTuple):
    """Whether a condition is met, and the numbers that say so."""

    holds: bool
    evidence: str


def look(
    parameters: Mapping[str, Any],
    results: Sequence[Mapping[str, Any]],
    accuracy: Mapping[str, NDArray],
    finals: Mapping[str, NDArray],
    bound: Mapping[str, tuple[str, str]],
    printed: Mapping[str, float],
) -> dict[str, Found]:
    """The conditions of a table, by their ids in the catalogue.

    Section 4.2 has two halves, each with conditions of its own: those of the runs from scratch end in
    "-scratch".

    Args:
        parameters: of the figure.
        results: of the runs.
        accuracy: test accuracies of every row, shape (seeds, points).
        finals: final accuracies of every row, shape (seeds,).
        bound: name -> (row without noise, row with noise) whose gap shows that the noise binds; the
            names of runs from scratch begin with "scratch", as the rows do.
        printed: private row -> the paper's accuracy in per cent.
    """
    full = is_full(parameters)
    found = {
        "setting": Found(full, _setting(results)),
        "images": Found(
            parameters["data"].startswith("cifar"), results[0]["data"]["source"].split(",")[0]
        ),
    }
    for half in ("-scratch", ""):
        rows = {row: v for row, v in printed.items() if row.startswith("scratch") == bool(half)}
        noisy = {k: pair for k, pair in bound.items() if k.startswith("scratch") == bool(half)}
        if rows:
            found[f"learns{half}"] = _learns(results, finals, rows)
            found[f"binds{half}"] = _binds(finals, noisy, full)
            found[f"converged{half}"] = _converged({row: accuracy[row] for row in rows})
    pretrained = [row for row in accuracy if not row.startswith("scratch")]
    start = float(np.mean([accuracy[row][:, 0].mean() for row in pretrained]))
    found["gains"] = _gains({row: finals[row] - accuracy[row][:, 0] for row in pretrained})
    found["start"] = Found(
        _START[0] <= start <= _START[1], f"the pretrained network has {100 * start:.1f} %"
    )
    return found


def _setting(results: Sequence[Mapping[str, Any]]) -> str:
    sizes = sorted({result["parameters"] for result in results})
    return f"networks of {' and '.join(f'{size:,}' for size in sizes)} parameters"


def _learns(
    results: Sequence[Mapping[str, Any]],
    finals: Mapping[str, NDArray],
    printed: Mapping[str, float],
) -> Found:
    trivial = float(results[0]["majority"])
    means = {row: float(finals[row].mean()) for row in printed}
    best = max(means, key=means.__getitem__)
    runs = finals[best]
    low = interval(runs).low if len(runs) > 1 else means[best]
    goal = max(printed.values()) / 100 / 2
    return Found(
        bool(low > trivial and means[best] >= goal),
        f"{best.replace('_', ' ')} {100 * means[best]:.1f} %, most frequent class {100 * trivial:.1f} %, half of the "
        f"paper's best {100 * goal:.1f} %",
    )


def _binds(
    finals: Mapping[str, NDArray], bound: Mapping[str, tuple[str, str]], full: bool
) -> Found:
    gaps = {
        name: interval(finals[free] - finals[noisy]) if len(finals[free]) > 1 else None
        for name, (free, noisy) in bound.items()
    }
    told = "; ".join(f"{name} {gap.text() if gap else '(one seed)'}" for name, gap in gaps.items())
    return Found(
        full or all(gap is not None and gap.low > 0 for gap in gaps.values()),
        f"noise costs, in points: {told}" + (", at the paper's own settings" if full else ""),
    )


def _converged(accuracy: Mapping[str, NDArray]) -> Found:
    changes = {row: _change(runs) for row, runs in accuracy.items()}
    steepest = max(changes, key=lambda row: abs(changes[row]))
    return Found(
        abs(changes[steepest]) <= _FLAT,
        f"most in {steepest.replace('_', ' ')}: {100 * changes[steepest]:+.1f} points",
    )


def _gains(gaps: Mapping[str, NDArray]) -> Found:
    """Whether the row that gains most over its start clearly gains; `gaps` of shape (seeds,)."""
    best = max(gaps, key=lambda row: float(gaps[row].mean()))
    if len(gaps[best]) < 2:
        return Found(False, f"{best.replace('_', ' ')} has one seed")
    gap = interval(gaps[best])
    return Found(gap.low > 0, f"most in {best.replace('_', ' ')}: {gap.text()} points")


def _change(runs: NDArray) -> float:
    """How far the mean accuracy moves over the last quarter of the points."""
    mean = np.asarray(runs).mean(axis=0)
    return float(mean[-1] - mean[-1 - max(1, (len(mean) - 1) // 4)])
