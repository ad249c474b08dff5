"""The runs of ddpsa side by side: which settings there are, and whether their losses differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import integer, positive
from repro.accounting.ddpsa.costs import MECHANISMS
from repro.accounting.ddpsa.printed import quantisation_error
from repro.federated.ddpsa.algorithm import Setting, mechanism
from reproduce.papers.ddpsa.runs import CRITERIA, Task, points, run_task

Runs = dict[str, dict[str, NDArray]]
"""By name of a setting: "train", "test", "r2", shape (runs, points), "averaged", shape (runs,), and
"converged: …" for each criterion, shape (runs,), nan where there is none."""

OWN_NOISE = "DDP-SA, own noise"
NO_NOISE = "Adam and clip, no noise"
PLAIN_ADAM = "Adam, no clip, no noise"
LDP_SGD, DDPSA_SGD = "LDP with SGD", "DDP-SA with SGD"
PAIRS = (("No-Private", "MPC"), ("LDP", "DDP-SA"), (LDP_SGD, DDPSA_SGD))
"""Settings that differ in the sharing alone."""


def four_and_controls(*, clients: int, clip: float, epsilon: float) -> dict[str, Setting]:
    """The paper's four mechanisms and what tells their parts apart, by name.

    LDP and DDP-SA use the same noise; "DDP-SA, own noise" has noise of its own. The controls leave
    noise, or noise and clip, away from LDP, and give LDP and DDP-SA the optimiser of No-Private.
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
    """The run of `four_and_controls` with a notebook's parameters, losses kept at its "marks"."""
    common = {key: parameters[key] for key in ("clients", "epsilon")}
    settings = four_and_controls(clip=clip, **common)
    names = list(settings)
    return run_task(
        parameters,
        list(settings.values()),
        points=points(parameters["rounds"], parameters["marks"]),
        pairs=[[names.index(name) for name in pair] for pair in PAIRS],
    )


def by_name(names: Sequence[str], result: Mapping[str, Any]) -> Runs:
    """The result of `ddpsa_run` as arrays, by the names of its settings in their order."""
    found: Runs = {}
    for k, name in enumerate(names):
        found[name] = {
            key: np.array(result[key][k], dtype=float)
            for key in ("train", "test", "r2", "averaged")
        }
        for rule in CRITERIA:
            rounds = [math.nan if t is None else t for t in result["converged"][rule][k]]
            found[name][f"converged: {rule}"] = np.array(rounds, dtype=float)
    return found


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
