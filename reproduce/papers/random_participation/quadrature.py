"""A bracket of the scheme's delta by plain quadrature, written apart from the accountant.

Both ends are integrals along one line. The lower end is the divergence of an explicit pair, whose
other records share one gradient at some angle to the differing one. The upper end is the integral of
the repaired Theorem 4.1. `confirm` refuses curves of the accountant that contradict this bracket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import binom

from repro._validate import choice
from reproduce.papers.random_participation.curves import Curves, studied

__all__ = ["Weights", "confirm", "oblique_delta", "shared_out_delta", "weights"]

_STEPS = 120
"""Points of the quadrature per standard deviation."""

_REACH = 9.0
"""Standard deviations beyond the outermost mean at which the quadrature ends."""

_COSINES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
"""Between the record's gradient and the others', in the pairs that `confirm` tries."""

_SLACK = 1e-3
"""Relative error of this quadrature that `confirm` forgives; its own is below 1e-4 from `_LEAST` on."""

_LEAST = 1e-15
"""Smaller deltas are not tested: the step of the quadrature is too wide for their steep tails."""


class Weights(NamedTuple):
    """D_alpha = factor Int [sum_S pi_S (M_S^+ - w1 M_S^-) - w0 N_0]_+ : the three numbers."""

    factor: float
    w1: float
    w0: float


def weights(epsilon: float, p: float, q: float, direction: str) -> Weights:
    """The weights of one direction; the factor is 0 where the divergence is.

    Args:
        epsilon: >= 0.
        p, q: participation and sampling rate, in (0, 1].
        direction: "remove" (M^+ holds the record) or "add" (M^- holds it).
    """
    choice("direction", direction, ("remove", "add"))
    alpha = np.exp(epsilon)
    if direction == "remove":
        return Weights(p * q, 1 + (alpha - 1) / q, (alpha - 1) * (1 - p) / (p * q))
    kappa = 1 - alpha * (1 - q)
    if kappa <= 0:
        return Weights(0.0, np.inf, np.inf)
    return Weights(p * kappa, alpha * q / kappa, (alpha - 1) * (1 - p) / (p * kappa))


def _line(d: int, q: float, sigma: float) -> tuple[NDArray, NDArray, NDArray, float]:
    """Counts that matter, their chances, and a grid over all their means with its step."""
    counts = np.arange(d + 1)
    chances = binom.pmf(counts, d, q)
    kept = chances > 1e-18
    counts, chances = counts[kept], chances[kept]
    low, high = min(-1.0, counts[0] - 1.0) - _REACH * sigma, counts[-1] + 1 + _REACH * sigma
    z = np.linspace(low, high, int(_STEPS * (high - low) / min(sigma, 1.0)) + 2)
    return counts, chances, z, z[1] - z[0]


def _normal(z: NDArray, mean: NDArray | float, sigma: float) -> NDArray:
    return np.exp(-(((z - mean) / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi))


def oblique_delta(
    epsilon: float, direction: str, *, d: int, p: float, q: float, sigma: float, cosine: float
) -> float:
    """The divergence of the pair whose d other records share one gradient; all norms are 1.

    Along the others the integral is a sum over a grid, across them it is a normal tail. Collinear
    gradients (cosine 1 or -1) leave only the line, and the best half-line of the grid.

    Args:
        epsilon: >= 0. direction: "remove" or "add".
        d: number of other records. p, q: rates in (0, 1]. sigma: noise on the sum, > 0.
        cosine: of the angle between the record's gradient and the others', in [-1, 1].
    """
    factor, w1, w0 = weights(epsilon, p, q, direction)
    if factor == 0:
        return 0.0
    counts, chances, z, step = _line(d, q, sigma)
    plus, minus = (cosine, 0.0) if direction == "remove" else (0.0, cosine)
    first = chances @ _normal(z, (counts + plus)[:, None], sigma)
    second = w1 * (chances @ _normal(z, (counts + minus)[:, None], sigma))
    silence = w0 * _normal(z, 0.0, sigma)
    mu = np.sqrt(1 - cosine**2) / sigma
    if mu == 0:
        return factor * float(np.sum(np.maximum(first - second - silence, 0)) * step)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if direction == "remove":  # first lies at mu across, the rest at 0
            edge = np.log((second + silence) / first) / mu + mu / 2
            gain = first * ndtr(mu - edge) - (second + silence) * ndtr(-edge)
        else:  # silence and first lie at 0 across, second at mu
            edge = np.log((first - silence) / second) / mu + mu / 2
            gain = (first - silence) * ndtr(edge) - second * ndtr(edge - mu)
    return factor * float(np.sum(np.maximum(np.nan_to_num(gain, nan=0.0), 0)) * step)


def shared_out_delta(
    epsilon: float, direction: str, *, d: int, p: float, q: float, sigma: float
) -> float:
    """The integral of the repaired Theorem 4.1 on a grid; arguments as for `oblique_delta`."""
    factor, w1, w0 = weights(epsilon, p, q, direction)
    if factor == 0:
        return 0.0
    counts, chances, z, step = _line(d, q, sigma)
    ahead, behind = (1, 0) if direction == "remove" else (0, -1)
    apart = _normal(z, (counts + ahead)[:, None], sigma)
    apart -= w1 * _normal(z, (counts + behind)[:, None], sigma)
    kept = chances @ np.maximum(apart, 0) - w0 * _normal(z, 0.0, sigma)
    return factor * float(np.sum(np.maximum(kept, 0)) * step)


def confirm(
    curves: Curves,
    setting: Mapping[str, float | NDArray | Sequence[int]],
    quantity: str,
    argument: float | NDArray[np.float64],
    checks: int = 4,
) -> None:
    """Refuse curves of which an end of a bracket contradicts the quadrature.

    A bracket of the accountant is limited to the corridor between CS and WCS by construction. What
    the verdicts on the figures rest on is therefore tested here, on points of every curve: no
    explicit pair leaks more than the upper end, and the lower end is at most the repaired bound. For
    d = 1 both agree, so that an error of 2 % in either end is seen; for larger d one of the width of
    the bracket.

    Args:
        curves: from `evaluate`. setting: what `schemes` was given.
        quantity: "delta" or "epsilon". argument: what `evaluate` was given.
        checks: points of each curve that are tested.

    Raises:
        ArithmeticError: a curve contradicts the quadrature; the message names it.
    """
    choice("quantity", quantity, ("delta", "epsilon"))
    for label in studied(curves):
        ends = curves[label]
        d = int(label.removeprefix("d = "))
        clip = setting["clip"]
        grid = np.broadcast_arrays(
            argument, np.divide(setting["sigma"], clip), setting["p"], setting["q"], ends["upper"]
        )
        size = ends["upper"].size
        for k in np.unique(np.linspace(0, size - 1, checks + 2).astype(int)[1:-1]):
            given, sigma, p, q = (float(values[k]) for values in grid[:4])
            scheme = {"d": d, "p": p, "q": q, "sigma": sigma}
            if quantity == "delta":
                deltas, at = (float(ends["lower"][k]), float(ends["upper"][k])), (given, given)
            else:
                deltas, at = (given, given), (float(ends["lower"][k]), float(ends["upper"][k]))
            leak = max(oblique_delta(at[1], "remove", **scheme, cosine=c) for c in _COSINES)
            bound = max(shared_out_delta(at[0], way, **scheme) for way in ("remove", "add"))
            if min(deltas) < _LEAST:
                continue
            if leak > deltas[1] * (1 + _SLACK) or deltas[0] > bound * (1 + _SLACK):
                raise ArithmeticError(
                    f"{label} at {given:.4g}, sigma = {sigma:.4g}, p = {p:.4g}, q = {q:.4g}: delta lies between "
                    f"{leak:.4g} and {bound:.4g} by quadrature, which contradicts {deltas}"
                )
