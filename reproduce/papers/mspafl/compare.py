"""Runs of mspafl's figure 2 side by side: one array over seeds per variant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reproduce.papers.mspafl.runs import METHODS
from reproduce.papers.statistics import Interval, final, interval

Key = tuple[str, float, float]
"""A variant: method, p, learning rate."""

Runs = dict[Key, dict[str, NDArray]]
"""What `stack` returns."""


def stack(results: Sequence[Mapping[str, Any]]) -> Runs:
    """The results of `mspafl_run` of one configuration, one per seed, as arrays per variant.

    Returns: "accuracy", "own" and "averaged", shape (seeds, points), and "signal", "data" and
    "noise", shape (seeds,).

    Raises:
        ValueError: no result, or results of different variants or rounds.
    """
    if not results or any(
        one["variants"] != results[0]["variants"] or one["round"] != results[0]["round"]
        for one in results
    ):
        raise ValueError("results must be at least one run, all of the same variants and rounds")
    stacked: Runs = {}
    for k, row in enumerate(results[0]["variants"]):
        found = {
            key: np.array([one[key][k] for one in results])
            for key in ("accuracy", "own", "averaged")
        }
        for key in ("signal", "data", "noise"):
            found[key] = np.array([one["power"][key][k] for one in results])
        stacked[row["method"], row["p"], row["learning_rate"]] = found
    return stacked


def curves(records: Iterable[Mapping[str, Any]]) -> dict[tuple[str, bool], Runs]:
    """The runs with all methods by (split, replacement), from records with "config" and "result"."""
    return _grouped(
        (record for record in records if record["config"]["methods"] == list(METHODS)),
        ("split", "replacement"),
    )


def readings(records: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Runs]:
    """The runs of the other readings by (features, split), from records likewise."""
    return _grouped(
        (record for record in records if record["config"]["methods"] != list(METHODS)),
        ("features", "split"),
    )


def _grouped(records: Iterable[Mapping[str, Any]], names: Sequence[str]) -> dict[Any, Runs]:
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for record in records:
        key = tuple(record["config"][name] for name in names)
        groups.setdefault(key, []).append(record["result"])
    return {key: stack(results) for key, results in groups.items()}


def whole(runs: ArrayLike) -> NDArray:
    """Mean of each run over its evaluated rounds, the start left out, (seeds, points) -> (seeds,)."""
    return np.asarray(runs, dtype=float)[:, 1:].mean(axis=1)


def wobble(runs: ArrayLike) -> NDArray:
    """Root mean square change from one evaluated round to the next, the start left out, (seeds,)."""
    return np.sqrt(np.square(np.diff(np.asarray(runs, dtype=float)[:, 1:])).mean(axis=1))


def estimate(values: ArrayLike) -> Interval:
    """The mean of one value per seed with its 95 % interval, which is unbounded for a single seed."""
    values = np.asarray(values, dtype=float)
    if len(values) > 1:
        return interval(values)
    return Interval(float(values[0]), -np.inf, np.inf)


def pick(runs: Runs, method: str) -> dict[tuple[float, float], NDArray]:
    """Final accuracy of a method in every seed by (p, learning rate), in the order of the runs."""
    return {(p, rate): final(one["accuracy"]) for (m, p, rate), one in runs.items() if m == method}


def gaps(runs: Runs, first: str, second: str) -> dict[tuple[float, float], Interval]:
    """Final accuracy of method `first` minus that of `second`, paired by seed, as `pick`."""
    other = pick(runs, second)
    return {key: estimate(values - other[key]) for key, values in pick(runs, first).items()}


def averages(runs: Runs, method: str) -> dict[str, NDArray]:
    """Per seed, averaged over p: a method's "final" accuracy and its "wobble", shape (seeds,)."""
    rows = [one["accuracy"] for (name, _, _), one in runs.items() if name == method]
    return {
        "final": np.mean([final(row) for row in rows], axis=0),
        "wobble": np.mean([wobble(row) for row in rows], axis=0),
    }


def by_p(runs: Runs, method: str) -> dict[float, NDArray]:
    """`whole` accuracy of a method in each seed by increasing p; runs of one learning rate."""
    rows = sorted((p, rate) for name, p, rate in runs if name == method)
    return {p: whole(runs[method, p, rate]["accuracy"]) for p, rate in rows}


def late_move(runs: ArrayLike) -> float:
    """Mean accuracy in the last quarter of the evaluated rounds minus that in the quarter before."""
    runs = np.asarray(runs, dtype=float)
    quarter = max(1, runs.shape[1] // 4)
    return float(final(runs).mean() - runs[:, -2 * quarter : -quarter].mean())


def loudness(runs: Mapping[str, NDArray]) -> dict[str, float]:
    """How loud the parts of the server's average are.

    Returns: mean squared norms "signal" (the average before the noise), "data" (its part that the
    round's local steps made) and "noise", and their ratios "signal to noise" and "data to noise".
    """
    powers = {key: float(runs[key].mean()) for key in ("signal", "data", "noise")}
    ratios = {f"{key} to noise": powers[key] / powers["noise"] for key in ("signal", "data")}
    return powers | ratios
