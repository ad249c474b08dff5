"""The claims of Figures 1 to 8 of partitioning, decided on whatever numbers are at hand.

The functions build their texts from the numbers, so that they stay true where a reader has changed
a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Curves = Mapping[str, Mapping[str, NDArray]]
"""Label -> method ("paper", "lower", "upper") -> values along an axis."""

UNSPLIT = "no splitting"


class Finding(NamedTuple):
    """Whether a statement holds on our numbers, these numbers, and why it does not."""

    holds: bool
    ours: str
    reason: str = ""


def _ratio(first: NDArray, second: NDArray) -> NDArray:
    """first / second, and 1 where both are 0; both non-negative."""
    first, second = np.broadcast_arrays(np.asarray(first, float), np.asarray(second, float))
    with np.errstate(divide="ignore"):
        return np.divide(first, second, out=np.ones(first.shape), where=(first > 0) | (second > 0))


# Model splitting: Figures 1, 5 and 6 --------------------------------------------------------------


def falls(curves: Curves, method: str) -> dict[str, NDArray]:
    """By which share each split curve lies below the curve without splitting.

    Args:
        curves: epsilon or sigma.
        method: "paper" compares the paper's accounting with itself; "upper" what certainly remains
            in truth: the upper end of the bracket with the lower end without splitting.
    """
    plain = curves[UNSPLIT]["paper" if method == "paper" else "lower"]
    return {
        label: 1 - _ratio(methods[method], plain)
        for label, methods in curves.items()
        if label != UNSPLIT
    }


def smallest_fall(curves: Curves, method: str) -> float:
    """The smallest of all `falls`, along every axis; 0 where nothing is split."""
    return min((float(np.min(fall)) for fall in falls(curves, method).values()), default=0.0)


def ordered(curves: Curves) -> bool:
    """Whether each curve of the paper's accounting lies strictly below the one before it."""
    values = [np.asarray(methods["paper"]) for methods in curves.values()]
    return all(bool(np.all(after < before)) for before, after in pairwise(values))


def insignificant(significant: float) -> str:
    """Why a fall does not count."""
    return f"the gain is smaller than {100 * significant:.0f} %, which we call significant"


def less_epsilon(curves: Curves, significant: float) -> Finding:
    """Figure 5: epsilon falls by a significant share at every noise level, accounted and in truth."""
    fall, truth = (smallest_fall(curves, method) for method in ("paper", "upper"))
    return Finding(
        fall >= significant and truth >= significant,
        f"ε falls by at least {100 * fall:.1f} % as accounted, {100 * truth:.1f} % in truth",
        insignificant(significant),
    )


def less_noise(rounds: Sequence[int], curves: Curves, significant: float) -> Finding:
    """Figure 6: less noise at equal rounds by a significant share, and more noise for more rounds."""
    fall, truth = (smallest_fall(curves, method) for method in ("paper", "upper"))
    ascending = np.argsort(rounds)
    rising = all(bool(np.all(np.diff(c["paper"][ascending]) > 0)) for c in curves.values())
    return Finding(
        rising and min(fall, truth) >= significant,
        f"at least {100 * fall:.1f} % less noise at equal rounds as accounted, {100 * truth:.1f} % in truth",
        insignificant(significant) if rising else "more rounds do not always need more noise",
    )


def more_rounds(rounds: Sequence[int], curves: Curves) -> dict[str, str]:
    """How many times more rounds a split run lasts at the noise of the shortest unsplit run.

    By the paper's accounting, interpolated in the logarithm of the rounds; "more than" where the
    axis ends.
    """
    ascending = np.argsort(rounds)
    axis = np.asarray(rounds, dtype=float)[ascending]
    level = curves[UNSPLIT]["paper"][ascending[0]]
    gains = {}
    for label, methods in curves.items():
        if label != UNSPLIT:
            noise = methods["paper"][ascending]
            reached = np.exp(np.interp(level, noise, np.log(axis)))
            gains[label] = ("more than " if level > noise[-1] else "") + f"{reached / axis[0]:.2f}"
    return gains


# Renyi curves: Figures 2, 3 and 7 -----------------------------------------------------------------


def beside_poisson(curves: Curves) -> dict[str, NDArray]:
    """Balanced over Poisson, order by order: "paper" (bound (3)), "lower" and "upper"."""
    poisson = curves["Poisson"]["upper"]
    return {method: _ratio(values, poisson) for method, values in curves["balanced"].items()}


def same_noise(noise: Mapping[str, float], near: float) -> Finding:
    """Figure 2: the noise for (8, 1e-5) differs by at most the share `near`."""
    apart = noise["balanced"] / noise["Poisson"] - 1
    return Finding(
        abs(apart) <= near,
        f"σ for (8, 10⁻⁵): balanced {noise['balanced']:.3f}, Poisson {noise['Poisson']:.3f}, "
        f"{100 * apart:+.2f} %",
        f"the noise differs by more than {100 * near:.0f} %",
    )


def much_better(alpha: NDArray, curves: Curves, much: float) -> Finding:
    """Figure 3: at the largest order bound (3) is at most the share `much` of Poisson's curve."""
    ratio = beside_poisson(curves)
    last = float(ratio["paper"][-1])
    return Finding(
        last <= much,
        f"at α = {alpha[-1]} bound (3) is {last:.2f} of Poisson, the truth "
        f"{ratio['upper'][-1]:.2f}",
        f"bound (3) is more than {much:.2f} of Poisson",
    )


def always_below(alpha: NDArray, curves: Curves) -> Finding:
    """Figure 3: bound (3) and the divergence itself lie below Poisson's curve at every order."""
    ratio = beside_poisson(curves)
    above = alpha[(ratio["upper"] >= 1) | (ratio["paper"] >= 1)]
    where = f"every order from {alpha[0]} to {alpha[-1]}"
    if above.size:
        where = f"{alpha.size - above.size} of {alpha.size} orders"
    return Finding(
        above.size == 0,
        f"below Poisson at {where}, by bound (3) and in truth",
        f"the curves cross between order {above.min()} and {above.max()}" if above.size else "",
    )


def poisson_spikes(curves: Curves) -> Finding:
    """Figure 3: Poisson's curve ends more than twice as steep as it begins, and than balanced."""
    poisson, balanced = (np.diff(curves[label]["upper"]) for label in ("Poisson", "balanced"))
    if poisson.size < 2:
        return Finding(False, "fewer than three orders", "two slopes need three orders")
    return Finding(
        bool(poisson[-1] > 2 * max(poisson[0], balanced[-1])),
        f"slope of the Poisson curve {poisson[0]:.2f} at first, {poisson[-1]:.2f} at the end; "
        f"balanced {balanced[-1]:.2f}",
        "the Poisson curve does not bend away",
    )


def bound_below(alpha: NDArray, curves: Curves) -> Finding:
    """Figure 7b: bound (3) lies below Poisson's curve at every order."""
    bound = beside_poisson(curves)["paper"]
    worse = alpha[bound > 1]
    return Finding(
        worse.size == 0,
        f"bound (3) is at most {bound.max():.3f} of Poisson",
        f"bound (3) lies above Poisson at orders {worse.min()} to {worse.max()}"
        if worse.size
        else "",
    )


def bound_above(alpha: NDArray, curves: Curves) -> Finding:
    """Figure 7a: bound (3) lies above Poisson's curve at some orders."""
    below, ours, where = bound_below(alpha, curves)
    return Finding(not below, ours + (f"; {where}" if where else ""), "bound (3) is nowhere above")


def truth_below(alpha: NDArray, curves: Curves) -> Finding:
    """Figure 7: the divergence itself certainly lies below Poisson's curve at every order."""
    certain = int(np.count_nonzero(beside_poisson(curves)["upper"] < 1))
    return Finding(
        certain == alpha.size,
        f"the divergence itself is certainly smaller at {certain} of {alpha.size} orders",
        "the certified bracket reaches across the Poisson curve at the other orders",
    )


# Whole runs: Figures 4 and 8 ----------------------------------------------------------------------


def longest(iterations: Sequence[int], curves: Curves, delta: float) -> dict[str, dict[str, int]]:
    """The longest run within delta of each curve, by each method; 0 where none is."""
    return {
        label: {
            method: max(
                (t for t, d in zip(iterations, values, strict=True) if d <= delta), default=0
            )
            for method, values in methods.items()
        }
        for label, methods in curves.items()
    }


def crossings(
    iterations: Sequence[int], curves: Curves, delta: float
) -> dict[str, dict[str, float]]:
    """The length at which each curve reaches delta, interpolated in log delta.

    The ends of the axis stand for curves that begin above delta, or end below it.
    """
    axis = np.asarray(iterations, dtype=float)
    order = np.argsort(axis)

    def crossing(values: NDArray) -> float:
        heights = np.log(np.maximum(np.asarray(values, dtype=float)[order], 1e-300))
        return float(np.interp(np.log(delta), heights, axis[order]))

    return {
        label: {method: crossing(values) for method, values in methods.items()}
        for label, methods in curves.items()
    }


def pld_longest(iterations: Sequence[int], curves: Curves, delta: float) -> Finding:
    """Figure 4: Poisson sampling by loss distributions outlasts the Rényi curves of the picture."""
    reached = crossings(iterations, curves, delta)
    balanced, epochs, poisson = reached.values()
    return Finding(
        poisson["upper"] > max(balanced["paper"], epochs["paper"], poisson["paper"]),
        f"δ is reached after {poisson['upper']:.1f} iterations (Poisson, PLD), "
        f"{balanced['paper']:.1f} (balanced, RDP), {poisson['paper']:.1f} (Poisson, RDP)",
        "a Rényi curve lasts as long",
    )


def longer_in_truth(
    iterations: Sequence[int], curves: Curves, delta: float, more: int = 10
) -> Finding:
    """Figure 4: balanced runs last `more` iterations longer than Poisson ones, tightly accounted."""
    runs = longest(iterations, curves, delta)
    balanced, epochs, poisson = runs.values()
    return Finding(
        balanced["upper"] - poisson["lower"] >= more,
        f"truth: balanced {balanced['upper']}, epochs {epochs['upper']}, "
        f"Poisson {poisson['lower']}",
        "Poisson subsampling accounted by loss distributions, as the figure also draws it, runs "
        "nearly as long",
    )


def epochs_cost_more(iterations: Sequence[int], curves: Curves, epoch: int) -> Finding:
    """Remark 3.10: composed epochs cost more than one long run, by a factor below 10."""
    whole, epochs, _ = curves.values()
    several = np.asarray(iterations) > epoch
    if not np.any(several):
        return Finding(False, f"no run is longer than an epoch of {epoch}", "nothing is composed")
    factor = _ratio(epochs["paper"], whole["paper"])[several]
    above = np.all(factor > 1) and np.all((epochs["upper"] >= whole["lower"])[several])
    return Finding(
        bool(above and np.all((epochs["lower"] <= 10 * epochs["upper"])[several])),
        f"by Rényi accounting δ is {factor.min():.2f} to {factor.max():.2f} times that of one "
        "long run",
        f"somewhere δ of composed epochs is only {factor.min():.2f} times that of one long run",
    )


def less_epsilon_balanced(curves: Curves) -> Finding:
    """Figure 8a: epsilon of balanced subsampling lies below Poisson's, accounted and in truth."""
    balanced, poisson = curves["balanced"], curves["Poisson"]
    saved = 1 - _ratio(balanced["paper"], poisson["paper"])
    truly = 1 - _ratio(balanced["upper"], poisson["lower"])
    return Finding(
        bool(np.all(saved > 0) and np.all(truly > 0)),
        f"ε is smaller by {100 * saved.min():.1f} % to {100 * saved.max():.1f} % as accounted, "
        f"{100 * truly.min():.1f} % to {100 * truly.max():.1f} % in truth",
        "the true curves cross",
    )


def saved(curves: Curves) -> dict[str, tuple[NDArray, NDArray]]:
    """Figure 8: Poisson's epsilon, and by which share that of balanced subsampling is smaller.

    "paper" compares the paper's accounting with itself; "lower" and "upper" are the ends of what
    is saved in truth.
    """
    balanced, poisson = curves["balanced"], curves["Poisson"]
    sides = {"paper": ("paper", "paper"), "lower": ("upper", "lower"), "upper": ("lower", "upper")}
    return {
        name: (
            np.asarray(poisson["paper" if name == "paper" else "upper"]),
            1 - _ratio(balanced[a], poisson[b]),
        )
        for name, (a, b) in sides.items()
    }


def nearly_identical(curves: Curves, near: float, largest: float) -> Finding:
    """Figure 8b: up to the epsilon `largest`, both kinds of subsampling differ by at most `near`."""
    epsilon, share = saved(curves)["paper"]
    apart, used = np.abs(share), np.asarray(epsilon) <= largest
    if not np.any(used):
        return Finding(False, f"no ε of the axis is up to {largest:g}", "nothing to compare")
    beyond = "" if np.all(used) else f", by up to {100 * apart.max():.1f} % beyond"
    return Finding(
        bool(apart[used].max() <= near),
        f"as accounted ε differs by up to {100 * apart[used].max():.1f} % where it is at most {largest:g}{beyond}",
        f"the Rényi curves are more than {100 * near:.0f} % apart",
    )
