"""Second routes for Figures 4 to 8 of partitioning: what is drawn, computed anew at a few points of every curve.

Nothing here calls the accountant. The paper's bounds are transcribed a second time, in other forms; loss distributions
are those of a likelihood ratio on a grid, without rounding to one side. The functions `confirmed_…` return the curves
that they are given, and end the notebook with an `ArithmeticError` that names the curve where one disagrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from scipy.stats import binom, hypergeom, norm

from reproduce.papers.partitioning.sampled_ratio import sampled_delta
from reproduce.papers.second_routes import agree, composed_delta

__all__ = [
    "bound_3",
    "confirmed_lengths",
    "confirmed_noise",
    "confirmed_renyi",
    "confirmed_runs",
    "confirmed_sigmas",
    "confirmed_splitting",
    "poisson_curve",
    "split_delta",
]

Curves = Mapping[str, Mapping[str, NDArray]]

_FORMULA = 1e-8
"""Relative difference of a formula that is transcribed twice: rounding."""

_GRID = 2e-3
"""The same of a delta from a likelihood ratio on a grid."""

_WIDTH = 0.01
"""Beyond this share of an end of a bracket the truth must be on the other side."""

_ORDERS = np.arange(2, 257)
_CELLS = 2**14
_SAMPLES = 8192

_LONGEST = 100
"""Iterations of a run that is sampled."""


def bound_3(alpha: NDArray, iterations: int, k: int, a: float) -> NDArray:
    """(3) at whole orders; a is the clip over sigma. Its first term sums over what two subsets of size k share."""
    alpha = np.asarray(alpha, dtype=float)[:, None]
    share = np.arange(max(0, 2 * k - iterations), k + 1)
    log_chance = hypergeom.logpmf(share, iterations, k, k)
    first = logsumexp(log_chance + alpha * share * a**2 / 2, axis=1)
    alpha = alpha[:, 0]
    r = a**2 * k * (iterations - k) / iterations**2
    inner = alpha * np.exp((1 - alpha) * r) - (alpha - 1) * np.exp(-alpha * r)
    second = alpha * a**2 * k**2 / (2 * iterations) - iterations * np.log(inner) / (2 * alpha - 2)
    return np.maximum(first, second)


def poisson_curve(alpha: NDArray, single: NDArray, rate: float) -> NDArray:
    """The sum of Theorem 3.11 on the divergences `single` of the orders 2, 3, …; `alpha` are whole orders up to 256."""
    some = np.asarray(alpha)
    cost = np.zeros(some[-1] + 1)
    cost[2:] = np.arange(1, some[-1]) * single[: some[-1] - 1]
    return logsumexp(_draws(rate)[some, : cost.size] + cost, axis=1) / (some - 1)


@lru_cache(maxsize=16)
def _draws(rate: float) -> NDArray:
    """Logarithm of the chance of each number of draws (column) of each order (row)."""
    some = np.arange(_ORDERS[-1] + 1)
    return binom.logpmf(some, some[:, None], rate)


def split_delta(
    epsilon: ArrayLike, rounds: int, *, submodels: int, rate: float, a: float
) -> NDArray:
    """delta of rounds of Poisson sampling of which each trains one of d secret submodels, removing the record.

    The mean of d lognormals is a power of one Fourier transform; the likelihood ratio is 1 - rate + rate times it.

    Args:
        epsilon: >= 0, any shape. rounds: T >= 1. submodels: d >= 1; 1 is no splitting.
        rate: in (0, 1]. a: clip over sigma, up to about 1.
    """
    z = np.linspace(-9.0, 9.0 + a, 4001)
    mass, value = norm.pdf(z) * (z[1] - z[0]), np.exp(a * z - a**2 / 2)
    if submodels > 1:
        step = (2 * np.exp(8 * a) / submodels + 4) / _CELLS
        below, part = np.divmod(value / submodels / step, 1.0)
        law = np.zeros(_CELLS)
        np.add.at(law, below.astype(int) % _CELLS, mass * (1 - part))
        np.add.at(law, (below.astype(int) + 1) % _CELLS, mass * part)
        mass = np.fft.irfft(np.fft.rfft(law) ** submodels, _CELLS)
        value = step * np.arange(_CELLS)
    ratio = 1 - rate + rate * value
    some = (mass > 1e-18) & (ratio > 0)
    return composed_delta(epsilon, (mass * ratio)[some], mass[some], rounds)


def confirmed_splitting(
    curves: Mapping[str, Curves], settings: Sequence[Sequence[float]], sigma: NDArray, clip: float
) -> Mapping[str, Curves]:
    """`curves` of Figures 1 and 5, if epsilon is right at the middle and the last noise level.

    Args:
        curves: panel -> label -> "paper", "lower", "upper" -> epsilon, shape (n,).
        settings: rounds, delta and sampling rate of each panel. sigma: shape (n,). clip: > 0.

    Raises:
        ArithmeticError: an epsilon is another one.
    """
    for (title, panel), (rounds, delta, rate) in zip(curves.items(), settings, strict=False):
        for label, methods in panel.items():
            for place in (len(sigma) // 2, len(sigma) - 1):
                run = {
                    "submodels": _submodels(label),
                    "rate": rate,
                    "a": clip / float(sigma[place]),
                }
                paper, low, high = (float(methods[m][place]) for m in ("paper", "lower", "upper"))
                where = f"{title}, {label}, σ = {sigma[place]:.4g}"
                agree(where, paper, _split_epsilon(int(rounds), delta, **run), rtol=_FORMULA)
                found = split_delta(_places((low, high)), int(rounds), **run)
                _bracket(where, (low, high), delta, found)
    return curves


def confirmed_noise(
    curves: Mapping[str, Curves],
    settings: Sequence[Sequence[float]],
    rounds: Sequence[int],
    clip: float,
) -> Mapping[str, Curves]:
    """`curves` of Figure 6, if epsilon and delta are right at the noise of the longest run.

    Args:
        curves: panel -> label -> "paper", "lower", "upper" -> sigma, shape (n,).
        settings: epsilon, delta and sampling rate of each panel. rounds: shape (n,). clip: > 0.

    Raises:
        ArithmeticError: a noise level is another one.
    """
    t = int(rounds[-1])
    for (title, panel), (epsilon, delta, rate) in zip(curves.items(), settings, strict=False):
        for label, methods in panel.items():
            run = {"submodels": _submodels(label), "rate": rate}
            paper, low, high = (float(methods[m][-1]) for m in ("paper", "lower", "upper"))
            where = f"{title}, {label}, T = {t}"
            agree(where, _split_epsilon(t, delta, **run, a=clip / paper), epsilon, rtol=1e-6)
            found = [split_delta(epsilon, t, **run, a=clip / s) for s in _places((low, high))]
            _bracket(where, (low, high), delta, found)
    return curves


def confirmed_renyi(
    alpha: NDArray, curves: Curves, iterations: int, k: int, sigma: float, clip: float
) -> Curves:
    """`curves` of Figures 2, 3 and 7, if the paper's are right at every order, and the divergence itself at order 2.

    At order 2 the divergence is a sum over what two subsets share. At every order its bracket must be one, and below
    bound (3).

    Raises:
        ArithmeticError: a curve is another one.
    """
    a, balanced = clip / sigma, curves["balanced"]
    where = f"T = {iterations}, k = {k}"
    agree(f"{where}, (3)", balanced["paper"], bound_3(alpha, iterations, k, a), rtol=_FORMULA)
    single = np.arange(2, max(alpha) + 1) * a**2 / 2
    poisson = iterations * poisson_curve(alpha, single, k / iterations)
    agree(f"{where}, Poisson", curves["Poisson"]["upper"], poisson, rtol=_FORMULA)
    share = np.arange(k + 1)
    second = logsumexp(hypergeom.logpmf(share, iterations, k, k) + share * a**2)
    for end in ("lower", "upper"):
        some = np.asarray(alpha) == 2
        agree(f"{where}, order 2, {end}", balanced[end][some], second, rtol=_FORMULA)
    low, high, top = (balanced[m] for m in ("lower", "upper", "paper"))
    if np.any(low > high * (1 + _FORMULA)) or np.any(high > top * (1 + _FORMULA)):
        raise ArithmeticError(f"{where}: the bracket is none, or reaches above bound (3)")
    return curves


def confirmed_lengths(
    curves: Curves, iterations: Sequence[int], rate: float, epsilon: float, a: float, epoch: int
) -> Curves:
    """`curves` of Figure 4, if the paper's deltas are right for every T, and the true ones for some T.

    Poisson subsampling is composed for the middle and the longest run. Balanced subsampling is sampled for the longest
    one, which sees a change of its delta by a third.

    Raises:
        ArithmeticError: a delta is another one.
    """
    balanced, epochs, poisson = curves.values()
    single = poisson_curve(_ORDERS, _ORDERS * a**2 / 2, rate)
    part = bound_3(_ORDERS, epoch, round(rate * epoch), a)
    for place, t in enumerate(map(int, iterations)):
        whole = bound_3(_ORDERS, t, round(rate * t), a)
        for methods, curve in (
            (balanced, whole),
            (epochs, t // epoch * part),
            (poisson, t * single),
        ):
            own = np.exp(min(np.min((_ORDERS - 1) * (curve - epsilon)), 0.0))
            agree(f"T = {t}, Rényi", methods["paper"][place], own, rtol=1e-6)
    for place in (len(iterations) // 2, len(iterations) - 1):
        t = int(iterations[place])
        own = float(split_delta(epsilon, t, submodels=1, rate=rate, a=a))
        for end in ("lower", "upper"):
            agree(f"T = {t}, Poisson, {end}", poisson[end][place], own, rtol=_WIDTH)
    place = len(iterations) - 1
    t, low, high = int(iterations[place]), balanced["lower"][place], balanced["upper"][place]
    found = sampled_delta(a, t, round(rate * t), epsilon, _SAMPLES)
    if not (low <= found.high and high >= found.low and low <= high):
        raise ArithmeticError(
            f"T = {t}, balanced: {low:.4g} to {high:.4g}, and {found} by sampling"
        )
    return curves


def confirmed_runs(
    panels: Mapping[str, tuple[NDArray, Curves]], settings: Sequence[Sequence[float]], clip: float
) -> Mapping[str, tuple[NDArray, Curves]]:
    """`panels` of Figure 8, if epsilon is right at the middle noise level.

    Args:
        panels: title -> sigma, and label -> "paper", "lower", "upper" -> epsilon, shape (n,).
        settings: T, k and delta of each panel. clip: > 0.

    Raises:
        ArithmeticError: an epsilon is another one.
    """
    for (title, (sigma, panel)), (iterations, taken, delta) in zip(
        panels.items(), settings, strict=False
    ):
        t, k, place = int(iterations), int(taken), len(sigma) // 2
        a = clip / float(sigma[place])
        ends = {
            label: [float(methods[m][place]) for m in ("paper", "lower", "upper")]
            for label, methods in panel.items()
        }
        cost = np.log(1 / delta) / (_ORDERS - 1)
        own = float(np.min(bound_3(_ORDERS, t, k, a) + cost))
        agree(f"{title}, balanced", ends["balanced"][0], own, rtol=_FORMULA)
        run = {"submodels": 1, "rate": k / t, "a": a}
        agree(
            f"{title}, Poisson", ends["Poisson"][0], _split_epsilon(t, delta, **run), rtol=_FORMULA
        )
        found = split_delta(_places(ends["Poisson"][1:]), t, **run)
        _bracket(f"{title}, Poisson", ends["Poisson"][1:], delta, found)
        if t <= _LONGEST:
            low, high = ends["balanced"][1:]
            at = [sampled_delta(a, t, k, e, _SAMPLES) for e in (low, high)]
            if not (at[0].high >= delta and at[1].low <= delta and low <= high):
                raise ArithmeticError(f"{title}, balanced: ε from {low:.4g} to {high:.4g}, δ {at}")
    return panels


def confirmed_sigmas(
    noise: Mapping[str, float], runs: Mapping[str, tuple[int, int]], epsilon: float, delta: float
) -> Mapping[str, float]:
    """`noise` of section 4.2, if it costs epsilon by the paper's bounds at the orders 2 to 64.

    Args:
        noise: name -> sigma over the clip; a name that ends in "balanced" is accounted by (3), another by Theorem 3.11.
        runs: the same names -> T and k. epsilon, delta: the budget.

    Raises:
        ArithmeticError: a noise level costs another epsilon.
    """
    some = _ORDERS[:63]
    for name, (t, k) in runs.items():
        a = 1 / noise[name]
        balanced = name.endswith("balanced")
        curve = (
            bound_3(some, t, k, a) if balanced else t * poisson_curve(some, some * a**2 / 2, k / t)
        )
        cost = np.min(curve + np.log(1 / delta) / (some - 1))
        agree(f"{name}: ε at σ = {noise[name]:.6g}", cost, epsilon, rtol=1e-6)
    return noise


# Inner parts ------------------------------------------------------------------------------------------


def _submodels(label: str) -> int:
    return int(label.removeprefix("d = ")) if label.startswith("d = ") else 1


def _split_epsilon(rounds: int, delta: float, *, submodels: int, rate: float, a: float) -> float:
    """As the paper accounts: (3) with k = 1, Theorem 3.11 and Proposition 2.3."""
    single = bound_3(_ORDERS, submodels, 1, a)
    curve = rounds * poisson_curve(_ORDERS, single, rate)
    return float(np.min(curve + np.log(1 / delta) / (_ORDERS - 1)))


def _bracket(where: str, ends: Sequence[float], delta: float, found: Sequence[float]) -> None:
    """Refuse ends of a bracket that are on the wrong side, or 1 % too far.

    `found` are the deltas at the four places of `_places`, which fall from the first to the last.
    """
    at, beyond, before, near = found
    if not (
        beyond <= delta <= at * (1 + _GRID) and near <= delta * (1 + _GRID) and before >= delta
    ):
        raise ArithmeticError(
            f"{where}: δ = {at:.4g} at the lower end {ends[0]:.6g} and {near:.4g} at the upper end {ends[1]:.6g} by a "
            f"second route, in place of {delta:.4g}"
        )


def _places(ends: Sequence[float]) -> NDArray:
    """The lower end and 1 % above it, 1 % below the upper end and this end."""
    low, high = ends
    return np.array([low, low * (1 + _WIDTH), high * (1 - _WIDTH), high])
