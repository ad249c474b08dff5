"""The runs of ddpsa side by side: which variants there are, and whether their losses differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import integer, positive
from repro.accounting.ddpsa.printed import MECHANISMS, quantisation_error
from repro.federated.ddpsa.algorithm import Variant, mechanism
from reproduce.papers.ddpsa import stated
from reproduce.papers.ddpsa.runs import CRITERIA, Task, points, run_task
from reproduce.papers.statistics import Comparison, compare_losses, final

Runs = dict[str, dict[str, NDArray]]
"""By name of a variant: "train", "test", "r2", shape (runs, points), "averaged", shape (runs,), and
"converged: …" for each criterion, shape (runs,), nan where there is none."""

Losses = Mapping[str, Mapping[str, NDArray]]
"""By reading of what the paper leaves open and by name of a variant, shape (runs,)."""

OWN_NOISE = "DDP-SA, own noise"
NO_NOISE = "Adam and clip, no noise"
PLAIN_ADAM = "Adam, no clip, no noise"
LDP_SGD, DDPSA_SGD = "LDP with SGD", "DDP-SA with SGD"
PAIRS = (("No-Private", "MPC"), ("LDP", "DDP-SA"), (LDP_SGD, DDPSA_SGD))
"""Variants that differ in the sharing alone."""


def four_and_controls(clients: int, clip: float, epsilon: float) -> dict[str, Variant]:
    """The paper's four mechanisms and what tells their parts apart, by name.

    LDP and DDP-SA use the same noise; "DDP-SA, own noise" has noise of its own. The controls are
    LDP without noise, LDP without noise and clip, and LDP and DDP-SA with No-Private's optimiser.
    """
    common = {"clients": clients, "clip": clip, "epsilon": epsilon}
    four = {name: mechanism(name, **common) for name in MECHANISMS}
    sgd = {"adam": False, "learning_rate": four["No-Private"].learning_rate}
    return four | {
        OWN_NOISE: replace(four["DDP-SA"], stream=1),
        NO_NOISE: replace(four["LDP"], epsilon=math.inf),
        PLAIN_ADAM: replace(four["LDP"], epsilon=math.inf, clip=math.inf),
        LDP_SGD: replace(four["LDP"], **sgd),
        DDPSA_SGD: replace(four["DDP-SA"], **sgd),
    }


def four_task(parameters: Mapping[str, Any], clip: float) -> Task:
    """The run of `four_and_controls` with a notebook's parameters, losses kept at `stated.MARKS`."""
    variants = four_and_controls(parameters["clients"], clip, parameters["epsilon"])
    names = list(variants)
    return run_task(
        parameters,
        list(variants.values()),
        points=points(parameters["rounds"], stated.MARKS),
        pairs=[[names.index(name) for name in pair] for pair in PAIRS],
    )


def by_name(names: Sequence[str], result: Mapping[str, Any]) -> Runs:
    """The result of `ddpsa_run` as arrays, by the names of its variants in their order."""
    runs: Runs = {}
    for k, name in enumerate(names):
        runs[name] = {
            key: np.array(result[key][k], dtype=float)
            for key in ("train", "test", "r2", "averaged")
        }
        for rule in CRITERIA:
            rounds = [math.nan if t is None else t for t in result["converged"][rule][k]]
            runs[name][f"converged: {rule}"] = np.array(rounds, dtype=float)
    return runs


def counted(runs: Runs, rules: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """Quartiles of the rounds until convergence, by variant and criterion of `CRITERIA`."""
    return {
        name: {rule: quartiles(run[f"converged: {rule}"]) for rule in rules}
        for name, run in runs.items()
    }


def apart(first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]) -> float:
    """Largest relative difference of two variants' medians at `stated.LEVELS`.

    Args:
        first: quartiles by criterion, see `counted`.
        second: likewise; levels that most of its runs do not reach are left out.

    Returns:
        The difference, >= 0; infinity where no level is left.
    """
    levels = [rule for rule in stated.LEVELS if second[rule][1] < math.inf]
    return max((abs(first[rule][1] / second[rule][1] - 1) for rule in levels), default=math.inf)


def shown(three: Sequence[float]) -> str:
    """`1041 [1034, 1050]`, the median and the quartiles; `-` where most runs do not converge."""
    low, middle, high = three
    return f"{middle:.0f} [{low:.0f}, {high:.0f}]" if middle < math.inf else "-"


def late(runs: Runs, rules: Sequence[str], rounds: int) -> dict[str, dict[str, Any]]:
    """The rounds until convergence as the json holds them: T + 1 where a run does not converge."""
    return {
        name: {
            rule: {"runs": np.nan_to_num(run[f"converged: {rule}"], nan=rounds + 1.0)}
            for rule in rules
        }
        for name, run in runs.items()
    }


def levels(trained: Mapping[str, Runs]) -> Losses:
    """Test losses by reading and variant, shape (runs,).

    Gradient descent ("descent") has settled: its level is the mean over the last quarter of the
    rounds. Adam has not: the loss is that of the last round.
    """
    return {
        reading: {
            name: final(run["test"]) if reading == "descent" else run["test"][:, -1]
            for name, run in by_variant.items()
        }
        for reading, by_variant in trained.items()
    }


def against_ldp(
    loss: Losses, places: Sequence[str]
) -> tuple[dict[str, dict[str, Comparison]], dict[str, Comparison]]:
    """Compare DDP-SA with LDP, in every reading, at each place of a curve and over all of them.

    Args:
        loss: by reading and variant; a variant is called "<mechanism>, <place>".
        places: such as "ε = 0.1" or "n = 2".

    Returns:
        By reading and place, and by reading for the geometric mean over the places.
    """
    each = {
        reading: {
            place: compare_losses(runs[f"DDP-SA, {place}"], runs[f"LDP, {place}"])
            for place in places
        }
        for reading, runs in loss.items()
    }
    pooled = {
        reading: compare_losses(
            *(
                np.exp(np.mean([np.log(runs[f"{name}, {place}"]) for place in places], axis=0))
                for name in ("DDP-SA", "LDP")
            )
        )
        for reading, runs in loss.items()
    }
    return each, pooled


def ends(loss: Losses, first: str, second: str) -> dict[str, list[Comparison]]:
    """LDP and DDP-SA at the place `first` compared with the same at `second`, by reading."""
    return {
        reading: [
            compare_losses(runs[f"{name}, {first}"], runs[f"{name}, {second}"])
            for name in ("LDP", "DDP-SA")
        ]
        for reading, runs in loss.items()
    }


def by_run(values: Losses) -> dict[str, dict[str, dict[str, NDArray]]]:
    """Losses, or R2, as the json holds them: a band over seeds is drawn around "runs"."""
    return {
        reading: {name: {"runs": runs} for name, runs in by_variant.items()}
        for reading, by_variant in values.items()
    }


def quartiles(rounds: ArrayLike) -> list[float]:
    """Lower quartile, median and upper quartile of rounds, where nan is later than every round."""
    ordered = np.sort(np.nan_to_num(np.asarray(rounds, dtype=float), nan=math.inf))
    places = [0.25, 0.5, 0.75]
    return [float(x) for x in np.quantile(ordered, places, method="inverted_cdf")]


def rounding_bound(rounds: int, *, learning_rate: float, decimals: int, size: int = 3) -> float:
    """How far apart two models can be after T rounds of gradient descent, one of them sharing.

    Same records, start and noise; one server sums the clients' vectors as they are, the other their
    encodings. An encoded average errs by at most 1 / (2 SF) per coordinate, so a step moves the
    models apart by at most eta sqrt(d) / (2 SF). It never drives them further apart by itself: the
    mean clipped gradient is the gradient of a convex function whose curvature is at most that of
    the mean squared error (clipping a record's gradient makes its parabola straight beyond some
    point), and theta - eta g does not expand distances where eta times that curvature is at most 2.
    Rounding of float64 itself, of the order 1e-16 a round, comes on top. There is no such bound for
    Adam, which divides by the size of past gradients.

    Args:
        rounds: T >= 1.
        learning_rate: eta > 0; eta times the largest curvature (3.06 for the plane) at most 2.
        decimals: of the encoding.
        size: d, numbers in a model.
    """
    rate = float(positive("learning_rate", learning_rate))
    steps = integer("rounds", rounds, 1) * math.sqrt(integer("size", size, 1))
    return steps * rate * quantisation_error(decimals, average=True)
