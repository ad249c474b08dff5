"""Model splitting along the axes of Figures 1, 5 and 6: the paper's accounting, and the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy.optimize import brentq

from repro.accounting.composition import compose
from repro.accounting.partitioning.model_splitting import ModelSplitting

__all__ = ["bracket_width", "splitting_epsilon", "splitting_noise"]

Curves = dict[str, dict[str, np.ndarray]]

_METHODS = ("paper", "lower", "upper")


def _names(submodels: Iterable[int]) -> dict[str, int]:
    return {"no splitting": 1} | {f"d = {d}": d for d in submodels}


def splitting_epsilon(
    sigma, *, submodels: Sequence[int], rounds: int, rate: float, delta: float, clip: float = 1.0
) -> Curves:
    """Epsilon of a whole run against the noise (Figures 1 and 5).

    Args:
      sigma: standard deviations, shape (n,).
      submodels: numbers of submodels; 1, "no splitting", is added.
      rounds, rate, delta, clip: of the run.

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
    rounds,
    *,
    submodels: Sequence[int],
    epsilon: float,
    delta: float,
    rate: float,
    clip: float = 1.0,
    rtol: float = 1e-3,
) -> Curves:
    """Noise that a budget asks for against the number of rounds (Figure 6).

    Args:
      rounds: numbers of rounds, shape (n,).
      submodels: numbers of submodels; 1, "no splitting", is added.
      epsilon, delta: the budget; rate, clip: of the run.
      rtol: relative width of the final bracket in sigma, for "lower" and "upper".

    Returns:
      label -> method -> sigma, shape (n,): "lower" falls short of the budget's needs, "upper" meets them.
    """
    curves = {}
    for label, d in _names(submodels).items():
        found = [_noise(int(t), d, epsilon, delta, rate, clip, rtol) for t in rounds]
        curves[label] = dict(zip(_METHODS, np.array(found).T, strict=True))
    return curves


def _noise(rounds, d, epsilon, delta, rate, clip, rtol) -> tuple[float, float, float]:
    """The sigma of each method; Renyi accounting is valid, so its sigma starts the search."""

    def excess(log_sigma: float, method: str) -> float:
        run = compose(ModelSplitting(np.exp(log_sigma), submodels=d, rate=rate, clip=clip), rounds)
        return np.log(max(run.delta(epsilon, method=method), 1e-300)) - np.log(delta)

    paper = brentq(lambda x: excess(x, "paper"), np.log(0.1 * clip), np.log(300 * clip), xtol=1e-9)
    low = paper - 0.2
    while excess(low, "upper") <= 0:
        low -= 0.2
    root = brentq(lambda x: excess(x, "upper"), low, paper, xtol=rtol / 4)
    step = rtol
    while excess(root - step, "lower") <= 0:
        step *= 2
    return tuple(float(np.exp(x)) for x in (paper, root - step, root + rtol))


def bracket_width(curves: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, float]:
    """Largest ratio of upper to lower along each curve that has both."""
    return {
        label: float(np.max(np.asarray(methods["upper"]) / methods["lower"]))
        for label, methods in curves.items()
        if "lower" in methods
    }
