"""The runs of ddpsa side by side: which variants there are, and whether their losses differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from repro._validate import integer, positive
from repro.accounting.ddpsa.printed import MECHANISMS, quantisation_error
from repro.federated.ddpsa.algorithm import Variant, mechanism
from reproduce.papers.ddpsa import stated
from reproduce.papers.ddpsa.runs import CRITERIA, Task, points, run_task
from reproduce.papers.statistics import Interval, final, interval

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
    """Median rounds until convergence between their interval's ends, by variant and criterion."""
    return {
        name: {rule: median_rounds(run[f"converged: {rule}"]) for rule in rules}
        for name, run in runs.items()
    }


def apart(first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]) -> float:
    """Largest relative difference of two variants' medians at `stated.LEVELS`.

    Args:
        first: medians by criterion, see `counted`.
        second: likewise; levels that most of its runs do not reach are left out.

    Returns:
        The difference, >= 0; infinity where no level is left.
    """
    levels = [rule for rule in stated.LEVELS if second[rule][1] < math.inf]
    return max((abs(first[rule][1] / second[rule][1] - 1) for rule in levels), default=math.inf)


def shown(three: Sequence[float]) -> str:
    """`1,041 [1,034, 1,050]`, the median and its interval; `-` where most runs do not converge."""
    low, middle, high = three
    top = f"{high:,.0f}" if high < math.inf else "never"
    return f"{middle:,.0f} [{low:,.0f}, {top}]" if middle < math.inf else "-"


class Reached(NamedTuple):
    """A mechanism's rounds until convergence, where the paper states no criterion.

    Attributes:
        middle: the median to the mechanism's own loss of Figure 7.
        interval: from the lowest to the highest end of the medians' 95 % intervals, over all
            criteria that may be meant (`stated.REACHED_BY_PAIR`).
        text: median and interval by criterion.
    """

    middle: float
    interval: tuple[float, float]
    text: str


def reached(counted: Mapping[str, Sequence[float]], name: str, factor: int = 1) -> Reached:
    """The rounds of mechanism `name` times `factor`, from its row of `counted`."""
    rules = stated.REACHED_BY_PAIR[name]
    found = {rule: [factor * t for t in counted[rule]] for rule in rules}
    told = [shown(three) for three in found.values()]
    if len(rules) > 1:
        told = [
            f"{text} to a {rule.replace(' ', ' of ')}"
            for rule, text in zip(rules, told, strict=True)
        ]
    ends = [min(three[0] for three in found.values()), max(three[2] for three in found.values())]
    return Reached(found[rules[0]][1], (ends[0], ends[1]), "; ".join(told))


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


def sides(
    runs: Mapping[str, NDArray], first: str, second: str, places: Sequence[str]
) -> dict[str, tuple[NDArray, NDArray]]:
    """Losses of two mechanisms, one pair for each place of a curve, as `Comparisons` takes them.

    Args:
        runs: losses by variant; a variant is called "<mechanism>, <place>".
        first, second: mechanisms.
        places: such as "ε = 0.1" or "n = 2".
    """
    return {
        f"{first} over {second}, {place}": (runs[f"{first}, {place}"], runs[f"{second}, {place}"])
        for place in places
    }


def pooled(runs: Mapping[str, NDArray], name: str, places: Sequence[str]) -> NDArray:
    """Each run's geometric mean of a mechanism's losses over the places of its curve."""
    return np.exp(np.mean([np.log(runs[f"{name}, {place}"]) for place in places], axis=0))


def ratio(first: ArrayLike, second: ArrayLike) -> Interval:
    """Geometric mean of first over second, run by run, with its 95 % t interval."""
    found = interval(np.log(positive("first", first)) - np.log(positive("second", second)))
    return Interval(*(math.exp(x) for x in (found.mean, found.low, found.high)))


def ratio_text(found: Interval) -> str:
    """`0.980 [0.910, 1.05]`."""
    return f"{found.mean:#.3g} [{found.low:#.3g}, {found.high:#.3g}]"


def versus_ldp(loss: Losses, places: Sequence[str]) -> dict[str, dict[str, str]]:
    """Loss of DDP-SA over that of LDP, by reading: at each place, and over all of them."""
    return {
        reading: {
            place: ratio_text(ratio(runs[f"DDP-SA, {place}"], runs[f"LDP, {place}"]))
            for place in places
        }
        | {
            "all together": ratio_text(
                ratio(pooled(runs, "DDP-SA", places), pooled(runs, "LDP", places))
            )
        }
        for reading, runs in loss.items()
    }


def by_run(values: Losses) -> dict[str, dict[str, dict[str, NDArray]]]:
    """Losses, or R2, as the json holds them: a band over seeds is drawn around "runs"."""
    return {
        reading: {name: {"runs": runs} for name, runs in by_variant.items()}
        for reading, by_variant in values.items()
    }


def median_rounds(rounds: ArrayLike) -> list[float]:
    """The median of rounds between the ends of its 95 % interval; nan is later than every round.

    The ends are order statistics, whose ranks are quantiles of Binomial(runs, 1/2); with fewer than
    6 runs they are the least and the largest.
    """
    ordered = np.sort(np.nan_to_num(np.asarray(rounds, dtype=float), nan=math.inf))
    rank = max(1, int(binom.ppf(0.025, len(ordered), 0.5)))
    middle = ordered[(len(ordered) - 1) // 2]
    return [float(ordered[rank - 1]), float(middle), float(ordered[-rank])]


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
