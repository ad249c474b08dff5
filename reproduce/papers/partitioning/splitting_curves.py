"""Model splitting along the axes of Figures 1, 5 and 6: the paper's accounting, and the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from repro.accounting.composition import compose
from repro.accounting.partitioning.model_splitting import ModelSplitting

__all__ = ["bracket_width", "splitting_epsilon", "splitting_noise"]

Curves = dict[str, dict[str, np.ndarray]]

_METHODS = ("paper", "lower", "upper")
_SMALLEST = 1e-300  # stands for a delta of 0, whose logarithm a search could not use
_STEPS = 60  # of a search
_LONGEST_STEP = 0.5  # of a search in log sigma
_LEAST_SLOPE = -1.0  # of log delta in log sigma; it is about -20 where delta is small


def _names(submodels: Iterable[int]) -> dict[str, int]:
    return {"no splitting": 1} | {f"d = {d}": d for d in submodels}


def splitting_epsilon(
    sigma: ArrayLike,
    submodels: Sequence[int],
    rounds: int,
    rate: float,
    delta: float,
    clip: float = 1.0,
) -> Curves:
    """Epsilon of a whole run against the noise (Figures 1 and 5).

    Args:
        sigma: standard deviations of the noise, > 0, shape (n,).
        submodels: numbers of submodels d >= 1; 1, "no splitting", is added.
        rounds: number of rounds T >= 1.
        rate: Poisson sampling rate of the records, in [0, 1].
        delta: in (0, 1).
        clip: largest norm of a gradient, > 0.

    Returns:
        label -> method ("paper", "lower", "upper") -> epsilon, shape (n,).
    """
    curves = {}
    for label, d in _names(submodels).items():
        runs = [
            compose(ModelSplitting(s, submodels=d, rate=rate, clip=clip), rounds) for s in sigma
        ]
        curves[label] = {
            method: np.array([run.epsilon(delta, method=method) for run in runs])
            for method in _METHODS
        }
    return curves


def splitting_noise(
    rounds: Sequence[int],
    submodels: Sequence[int],
    epsilon: float,
    delta: float,
    rate: float,
    clip: float = 1.0,
    rtol: float = 1e-3,
) -> Curves:
    """Noise that a budget asks for against the number of rounds (Figure 6).

    Args:
        rounds: numbers of rounds T >= 1, shape (n,).
        submodels: numbers of submodels d >= 1; 1, "no splitting", is added.
        epsilon: of the budget, >= 0.
        delta: of the budget, in (0, 1).
        rate: Poisson sampling rate of the records, in (0, 1].
        clip: largest norm of a gradient, > 0.
        rtol: relative width of the final bracket in sigma, for "lower" and "upper".

    Returns:
        label -> method -> sigma, shape (n,): "lower" is too little noise for the budget, "upper" is
        enough.

    Raises:
        ArithmeticError: the search for the noise does not converge.
    """
    curves = {}
    for label, d in _names(submodels).items():
        needed, start = [], _START
        for t in rounds:
            search = _NoiseSearch(int(t), d, epsilon, delta, rate, clip)
            noise, start = search.bracket(start, rtol)
            needed.append(noise)
        curves[label] = dict(zip(_METHODS, np.array(needed).T, strict=True))
    return curves


class _Start(NamedTuple):
    """Where the search for log sigma begins: the result for the neighbouring number of rounds."""

    paper: float  # log of the paper's sigma over clip sqrt(rounds)
    gap: float  # log of the needed sigma over the paper's
    slope: float  # of log delta in log sigma


_START = _Start(paper=-2.0, gap=-0.2, slope=-25.0)


@dataclass(frozen=True)
class _NoiseSearch:
    """The noise that one run needs for one budget; everything is searched in log sigma."""

    rounds: int
    submodels: int
    epsilon: float
    delta: float
    rate: float
    clip: float

    def excess(self, log_sigma: float, method: str) -> float:
        """log of delta over the budget's delta: decreasing in the noise."""
        mechanism = ModelSplitting(
            np.exp(log_sigma), submodels=self.submodels, rate=self.rate, clip=self.clip
        )
        spent = compose(mechanism, self.rounds).delta(self.epsilon, method=method)
        return float(np.log(max(spent, _SMALLEST)) - np.log(self.delta))

    def bracket(self, start: _Start, rtol: float) -> tuple[tuple[float, float, float], _Start]:
        """The sigma of each method, and where the search for the next number of rounds begins."""
        scale = np.log(self.clip) + np.log(self.rounds) / 2
        paper, _ = _root(lambda x: self.excess(x, "paper"), start.paper + scale, start.slope, 1e-9)
        truth, slope = _root(
            lambda x: self.excess(x, "upper"), paper + start.gap, start.slope, rtol / 40
        )
        step = rtol
        while self.excess(truth - step, "lower") <= 0:
            step *= 2
        sigma = tuple(float(np.exp(x)) for x in (paper, truth - step, truth + rtol))
        return sigma, _Start(paper - scale, truth - paper, slope)


def _root(
    excess: Callable[[float], float], start: float, slope: float, xtol: float
) -> tuple[float, float]:
    """Root of a smooth decreasing function by the secant method, and the slope there.

    Every evaluation composes a loss distribution, and the start is close: three evaluations are
    enough, where a bracketing method takes twice as many.

    Args:
        excess: positive below the root, negative above it.
        start: first point.
        slope: of the function near the root, roughly; negative.
        xtol: error of the root.

    Raises:
        ArithmeticError: no convergence.
    """
    x, value = start, excess(start)
    for _ in range(_STEPS):
        step = float(np.clip(-value / slope, -_LONGEST_STEP, _LONGEST_STEP))
        previous, x = value, x + step
        if abs(step) <= xtol:
            return x, slope
        value = excess(x)
        # Where delta is capped at 1, or too small for doubles, there is no slope to see.
        if (value - previous) / step < _LEAST_SLOPE:
            slope = (value - previous) / step
    raise ArithmeticError(f"no noise found within {_STEPS} steps from sigma = {np.exp(start):g}")


def bracket_width(curves: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, float]:
    """Largest ratio of upper to lower along each curve that has both, where lower is positive."""
    widths = {}
    for label, methods in curves.items():
        if "lower" in methods:
            low, high = np.asarray(methods["lower"]), np.asarray(methods["upper"])
            some = low > 0
            widths[label] = float(np.max(high[some] / low[some], initial=1.0))
    return widths
