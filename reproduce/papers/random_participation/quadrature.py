"""A bracket of the scheme's delta by plain quadrature, written apart from the accountant.

Both ends are integrals along one line. The lower end is the divergence of an explicit pair, whose
other records share one gradient at some angle to the differing one. The upper end is the integral of
the repaired Theorem 4.1. `confirm` and `confirmed_noise` refuse numbers of the accountant that contradict this bracket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

from repro._validate import choice
from reproduce.papers.random_participation.curves import Curves, studied
from reproduce.papers.random_participation.noise_levels import PRINTED, Experiment
from reproduce.papers.second_routes import agree

__all__ = [
    "Weights",
    "baseline_delta",
    "confirm",
    "confirmed_noise",
    "oblique_delta",
    "shared_out_delta",
    "weights",
]

_STEPS = 120
"""Points of the quadrature per standard deviation."""

_REACH = 9.0
"""Standard deviations beyond the outermost mean at which the quadrature ends."""

_LONGEST = 1.0
"""The norm of a gradient after clipping, by which the record moves a mean to either side."""

_COSINES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
"""Between the record's gradient and the others', in the pairs that `confirm` tries."""

_STEEP = 0.05
"""Relative difference of a leak at a noise level: angles between those tried leak up to 3 % more. It changes about
eight times as fast as the noise, so that a level 2 % off is seen."""

_NONE = 1e-3
"""A noise that hides nothing."""

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


@lru_cache(maxsize=8)
def _line(d: int, q: float, sigma: float) -> tuple[NDArray, NDArray, NDArray, float]:
    """Counts that matter, their chances, and a grid over all their means with its step."""
    counts = np.arange(d + 1)
    chances = binom.pmf(counts, d, q)
    kept = chances > 1e-18
    counts, chances = counts[kept], chances[kept]
    beyond = _LONGEST + _REACH * sigma
    low, high = -beyond, counts.max() + beyond
    z = np.linspace(low, high, int(_STEPS * (high - low) / min(sigma, _LONGEST)) + 2)
    return counts, chances, z, z[1] - z[0]


@lru_cache(maxsize=32)
def _counted(shift: float, d: int, q: float, sigma: float) -> NDArray:
    """The density of a sum of equal gradients, moved by `shift`, on the grid of `_line`."""
    counts, chances, z, _ = _line(d, q, sigma)
    return chances @ _normal(z, (counts + shift)[:, None], sigma)


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
    _, _, z, step = _line(d, q, sigma)
    plus, minus = (cosine, 0.0) if direction == "remove" else (0.0, cosine)
    first = _counted(plus, d, q, sigma)
    second = w1 * _counted(minus, d, q, sigma)
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


def baseline_delta(
    scheme: str, epsilon: ArrayLike, *, p: ArrayLike, q: ArrayLike, sigma: ArrayLike
) -> NDArray[np.float64]:
    """delta of "CS", "WCS" or "OLS" by the theorems of section 5, with tails of the normal law; arguments broadcast.

    A record is drawn with rate g and hidden among the rest: g [Phi(1/(2 s) - s l) - w Phi(-1/(2 s) - s l)] with
    w = 1 + (exp(epsilon) - 1) / g and l = ln(w). WCS discloses who takes part, which is p times that with g = q.

    Args:
        scheme: "CS", "WCS" or "OLS". epsilon: >= 0.
        p, q: rates in (0, 1]. sigma: noise on the sum over the clip, > 0.
    """
    choice("scheme", scheme, ("CS", "WCS", "OLS"))
    s, p, q = (np.asarray(x, dtype=float) for x in (sigma, p, q))
    rate = p * q if scheme == "CS" else q
    log_w = np.log1p(np.expm1(epsilon) / rate)
    above, below = log_ndtr(0.5 / s - s * log_w), log_ndtr(-0.5 / s - s * log_w)
    value = -rate * np.exp(above) * np.expm1(np.minimum(log_w + below - above, 0.0))
    return p * value if scheme == "WCS" else value


def confirm(
    curves: Curves,
    setting: Mapping[str, float | NDArray | Sequence[int]],
    quantity: str,
    argument: float | NDArray[np.float64],
    checks: int = 4,
) -> None:
    """Refuse curves that contradict the quadrature.

    A bracket of the accountant is limited to the corridor between CS and WCS by construction. What
    the verdicts on the figures rest on is therefore tested here. CS, WCS and OLS have to be those of section 5
    at every point. On points of every other curve both ends have to lie between the largest leak of the pairs at
    an angle and the integral of the repaired theorem: no pair leaks more than the lower end says, and the upper end
    is at most that bound. For d = 1 both agree, so that an error of 2 % in either end and either direction is seen;
    for larger d one of the width of the bracket.

    Args:
        curves: from `evaluate`. setting: what `schemes` was given.
        quantity: "delta" or "epsilon". argument: what `evaluate` was given.
        checks: points of each curve that are tested.

    Raises:
        ArithmeticError: a curve contradicts the quadrature; the message names it.
    """
    choice("quantity", quantity, ("delta", "epsilon"))
    shape = np.shape(curves["CS"]["upper"])
    given, sigma, p, q = (
        np.broadcast_to(x, shape)
        for x in (
            argument,
            np.divide(setting["sigma"], setting["clip"]),
            setting["p"],
            setting["q"],
        )
    )
    for label in ("CS", "WCS", "OLS"):
        own = curves[label]["upper"]
        delta, epsilon = (own, given) if quantity == "delta" else (given, own)
        rates = {"p": p, "q": q, "sigma": sigma}
        some = (delta > _LEAST) & (epsilon > 0)
        found = baseline_delta(label, epsilon, **rates)
        agree(f"delta of {label}", delta[some], found[some], rtol=_SLACK)
    for label in studied(curves):
        low, high = (
            np.broadcast_to(curves[label][end], shape).ravel() for end in ("lower", "upper")
        )
        for k in np.unique(np.linspace(0, low.size - 1, checks + 2).astype(int)[1:-1]):
            at = float(given.flat[k])
            scheme = {
                "d": int(label.removeprefix("d = ")),
                **{n: float(v.flat[k]) for n, v in (("p", p), ("q", q), ("sigma", sigma))},
            }
            what = f"{label} at {at:.4g}, sigma = {scheme['sigma']:.4g}, p = {scheme['p']:.4g}, q = {scheme['q']:.4g}"
            if quantity == "delta":
                _between(what, (low[k], high[k]), (at, at), scheme)
            else:
                _between(what, (at, at), (low[k], high[k]), scheme)


def confirmed_noise(
    levels: Mapping[str, Mapping[str, float]],
    experiments: Mapping[str, Experiment],
    epsilon: float,
    delta: float,
) -> Mapping[str, Mapping[str, float]]:
    """`levels`, if the quadrature finds the target's delta at them.

    Args:
        levels: experiment -> sigmas, from `needed_noise`; 0 where no noise is needed.
        experiments: the same names. epsilon, delta: the target.

    Raises:
        ArithmeticError: a level contradicts the quadrature; the message names it.
    """
    for name, experiment in experiments.items():
        found, p, q = levels[name], experiment.p, experiment.q
        for scheme, rate in {"CS": p * q, "WCS": p * q, "OLS": q}.items():
            what = f"{name}, {scheme}: delta at sigma = {found[scheme]:.6g}"
            lost = baseline_delta(scheme, epsilon, p=p, q=q, sigma=found[scheme] or _NONE)
            agree(what, lost, delta if found[scheme] else rate, rtol=_SLACK)
        pair = {"d": experiment.d, "p": p, "q": q}
        low, high, stated = (found[key] for key in ("scheme, lower", "scheme, upper", PRINTED))
        if high > 0:
            leak = _leak(epsilon, **pair, sigma=low)
            agree(f"{name}: delta of pairs at sigma = {low:.6g}", leak, delta, rtol=_STEEP)
            leak, bound = (f(epsilon, **pair, sigma=high) for f in (_leak, _bound))
            if not leak <= delta * (1 + _SLACK) <= bound * (1 + _SLACK) ** 2:
                raise ArithmeticError(
                    f"{name}: delta at sigma = {high:.6g} lies between {leak:.4g} and {bound:.4g} by quadrature"
                )
        alone = oblique_delta(epsilon, "remove", **pair, cosine=1.0, sigma=stated or low or 1.0)
        if stated > 0:
            agree(f"{name}: delta as printed at sigma = {stated:.6g}", alone, delta, rtol=_STEEP)
        elif alone > delta:
            raise ArithmeticError(f"{name}: delta as printed is {alone:.4g}, above {delta:.4g}")
    return levels


# Inner parts ------------------------------------------------------------------------------------------


def _leak(epsilon: float, **scheme: Any) -> float:
    """The largest divergence of the pairs at an angle."""
    return max(oblique_delta(epsilon, "remove", **scheme, cosine=c) for c in _COSINES)


def _bound(epsilon: float, **scheme: Any) -> float:
    """The repaired bound, the larger direction."""
    return max(shared_out_delta(epsilon, way, **scheme) for way in ("remove", "add"))


def _between(
    what: str, deltas: tuple[float, float], at: tuple[float, float], scheme: dict[str, Any]
) -> None:
    """Refuse the ends of a bracket, given as pairs of delta and epsilon, that are not between leak and bound."""
    if min(deltas) < _LEAST:
        return
    leak, bound = _leak(at[1], **scheme), _bound(at[0], **scheme)
    same = at[0] == at[1]
    leaks = leak if same else _leak(at[0], **scheme)  # at the lower end
    bounds = bound if same else _bound(at[1], **scheme)  # at the upper end
    right = (
        leak <= deltas[1] * (1 + _SLACK),
        deltas[0] <= bound * (1 + _SLACK),
        leaks <= deltas[0] * (1 + _SLACK),
        deltas[1] <= bounds * (1 + _SLACK),
    )
    if not all(right):
        raise ArithmeticError(
            f"{what}: delta lies between {leak:.4g} and {bound:.4g} by quadrature, at the other ends {leaks:.4g} and "
            f"{bounds:.4g}, which contradicts {deltas} at epsilon {at}"
        )
