"""Training runs that differ in their noise: accuracy, order, and what the noise guarantees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro.accounting import RandomParticipation


def by_curve(
    results: Sequence[Mapping[str, Any]], names: Sequence[str], key: str
) -> dict[str, NDArray]:
    """One array (seeds, points) per curve, from results ordered curve after curve.

    Raises:
        ValueError: the number of results is no multiple of the number of names.
    """
    if not names or len(results) % len(names):
        raise ValueError(
            f"results must hold equally many seeds of {len(names)} curves, got {len(results)}"
        )
    seeds = len(results) // len(names)
    return {
        name: np.array([results[k * seeds + s][key] for s in range(seeds)], dtype=float)
        for k, name in enumerate(names)
    }


def final(runs: ArrayLike) -> NDArray:
    """Mean over the last quarter of each run's points, (seeds, points) -> (seeds,)."""
    runs = np.asarray(runs, dtype=float)
    return runs[:, -max(1, runs.shape[1] // 4) :].mean(axis=1)


@dataclass(frozen=True)
class Order:
    """Whether curves come in an expected order, and how clearly.

    Attributes:
        holds: every neighbour is ahead by more than `clear` standard errors.
        text: the final accuracies in the expected order, in per cent, with one standard deviation.
        unclear: the gaps that are too small or negative, in percentage points; empty when `holds`.
    """

    holds: bool
    text: str
    unclear: str


def order(finals: Mapping[str, ArrayLike], clear: float = 2.0) -> Order:
    """Check that the curves, given best first, are in that order.

    The seeds are paired (the same seed is the same start and the same batches in every curve), so
    the standard error is that of the mean difference over seeds. It takes at least 2 seeds.

    Raises:
        ValueError: fewer than 2 curves or 2 seeds, or curves with different numbers of seeds.
    """
    values = {name: np.asarray(v, dtype=float) for name, v in finals.items()}
    counts = {v.shape for v in values.values()}
    if len(values) < 2 or len(counts) != 1 or min(counts)[0] < 2:
        raise ValueError(
            f"finals must hold at least 2 curves with the same 2 or more seeds, got shapes {counts}"
        )
    unclear = []
    for (first, ahead), (second, behind) in zip(
        list(values.items())[:-1], list(values.items())[1:], strict=True
    ):
        gap = 100 * (ahead - behind)
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        if not gap.mean() > clear * error:
            unclear.append(f"{first} - {second} = {gap.mean():.2f} ± {error:.2f} points")
    text = ", ".join(
        f"{name} {100 * v.mean():.1f} ± {100 * v.std(ddof=1):.1f}" for name, v in values.items()
    )
    return Order(not unclear, text + " %", "; ".join(unclear))


def guarantees(
    parameters: Mapping[str, Any], curves: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, float]]:
    """What one iteration of Algorithm 1 gives at `epsilon` with the noise of each private curve.

    Returns: for every curve with noise, sigma and the bracket of delta: "lower" is reached by an
    explicit pair of data sets, "upper" is a bound. All of them for the scheme itself (participation
    and sampling unknown to the adversary) in the federation of the guarantee; the analyses of WCS
    and OLS leave that knowledge unused, which is why they ask for more noise.
    """
    found = {}
    for name, curve in curves.items():
        if not curve["sigma"]:
            continue
        mechanism = RandomParticipation(
            curve["sigma"],
            p=parameters["guarantee_p"],
            q=parameters["guarantee_q"],
            samples_per_client=parameters["guarantee_records"],
            clip=parameters["clip"],
        )
        bracket = {
            m: float(mechanism.delta(parameters["epsilon"], method=m)) for m in ("lower", "upper")
        }
        found[name] = {"sigma": float(curve["sigma"]), **bracket}
    return found


def promise(bracket: Mapping[str, float]) -> str:
    """The delta of a bracket from :func:`guarantees` in words: one number, or "lower to upper"."""
    low, high = f"{bracket['lower']:.1e}", f"{bracket['upper']:.1e}"
    return high if low == high else f"{low} to {high}"


def fulfils(bracket: Mapping[str, float], delta: float) -> str:
    """Whether a bracket from :func:`guarantees` keeps, misses or leaves open a target delta."""
    if bracket["upper"] <= delta:
        return "keeps δ"
    return "misses δ" if bracket["lower"] > delta else "δ undecided"


def reduction(parameters: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """What was reduced against the paper, for a picture's footer; empty when nothing was."""
    parts = []
    if parameters["data"] == "digits":
        parts.append(
            f"8x8 digits and a network of {result['parameters']:,} parameters "
            "in place of EMNIST and the CNN"
        )
    elif result["data"]["subset"]:
        parts.append(result["data"]["subset"])
    trained = tuple(parameters[k] for k in ("clients", "records", "p", "q"))
    paper = tuple(parameters[f"guarantee_{k}"] for k in ("clients", "records", "p", "q"))
    if trained != paper:
        told = "{:,} clients x {:,} records, p = {:g}, q = {:g}"
        parts.append(
            f"trained in a federation of {told.format(*trained)} with the paper's mean batch of "
            f"{result['mean_batch']:.0f}; noise and guarantee are those of the paper's federation "
            f"({told.format(*paper)})"
        )
    return "; ".join(parts)
