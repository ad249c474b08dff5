"""Balanced against Poisson subsampling along the axes of Figures 2 to 4, 7 and 8."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repro._validate import integer, positive
from repro.accounting.composition import compose
from repro.accounting.partitioning.balanced import BalancedIterationSubsampling
from repro.accounting.partitioning.model_splitting import ModelSplitting
from repro.accounting.partitioning.printed import poisson_rdp, theorem_3_1

__all__ = ["balanced_epsilon", "renyi_curves", "run_length_delta", "whole_orders_to"]

Curves = dict[str, dict[str, np.ndarray]]

_METHODS = ("paper", "lower", "upper")


def whole_orders_to(alpha_max: int) -> np.ndarray:
    """The orders 2, 3, ..., alpha_max, shape (alpha_max - 1,).

    Raises:
        ValueError: alpha_max is not a whole number of at least 2.
    """
    return np.arange(2, integer("alpha_max", alpha_max, 2) + 1)


def renyi_curves(
    alpha: np.ndarray, iterations: int, participations: int, sigma: float, clip: float = 1.0
) -> Curves:
    """Renyi divergence of a whole run against the order (Figures 2, 3 and 7).

    Args:
        alpha: whole orders >= 2, shape (n,).
        iterations: T >= 1.
        participations: k, 1 <= k <= T; the Poisson rate is k / T.
        sigma: standard deviation of the noise, > 0.
        clip: largest norm of a gradient, > 0.

    Returns:
        label -> method -> divergence, shape (n,). "balanced": bound (3) as "paper", and the bracket
        around the larger of both directions. "Poisson": Theorem 3.11, exact.
    """
    balanced = BalancedIterationSubsampling(
        sigma, iterations=iterations, participations=participations, clip=clip
    )
    poisson = iterations * poisson_rdp(alpha, sigma, participations / iterations, clip)
    return {
        "balanced": {
            "paper": theorem_3_1(alpha, iterations, participations, sigma, clip),
            "lower": balanced.rdp(alpha, method="lower"),
            "upper": balanced.rdp(alpha, method="upper"),
        },
        "Poisson": {"upper": poisson},
    }


def balanced_epsilon(
    sigma: np.ndarray, iterations: int, participations: int, delta: float, clip: float = 1.0
) -> Curves:
    """Epsilon of a whole run against the noise, balanced and Poisson (Figure 8).

    Args:
        sigma: standard deviations of the noise, > 0, shape (n,).
        iterations: T >= 1.
        participations: k, 1 <= k <= T; the Poisson rate is k / T.
        delta: in (0, 1).
        clip: largest norm of a gradient, > 0.

    Returns:
        label -> method ("paper", "lower", "upper") -> epsilon, shape of `sigma`.
    """
    rate = participations / iterations
    curves: Curves = {"balanced": {}, "Poisson": {}}
    for s in sigma:
        balanced = BalancedIterationSubsampling(
            s, iterations=iterations, participations=participations, clip=clip
        )
        poisson = compose(ModelSplitting(s, submodels=1, rate=rate, clip=clip), iterations)
        for label, run in (("balanced", balanced), ("Poisson", poisson)):
            for method in _METHODS:
                curves[label].setdefault(method, []).append(run.epsilon(delta, method=method))
    return {
        label: {method: np.array(values) for method, values in methods.items()}
        for label, methods in curves.items()
    }


def run_length_delta(
    iterations: Sequence[int],
    rate: float,
    epsilon: float,
    sigma: float,
    epoch: int,
    clip: float = 1.0,
) -> Curves:
    """Delta at a fixed epsilon against the number of iterations (Figure 4).

    Args:
        iterations: T, whole multiples of `epoch`, shape (n,).
        rate: k / T, the rate of Poisson sampling as well; `rate * epoch` must be whole.
        epsilon: >= 0.
        sigma: standard deviation of the noise, > 0.
        epoch: iterations per epoch of the composed variant (Remark 3.10), >= 1.
        clip: largest norm of a gradient, > 0.

    Returns:
        label -> method -> delta, shape (n,).

    Raises:
        ValueError: the numbers of participations do not come out whole.
    """
    epoch = integer("epoch", epoch, 1)
    share = float(positive("rate", rate)) * epoch
    if abs(share - round(share)) > 1e-9 or np.any(np.asarray(iterations) % epoch):
        raise ValueError(
            f"rate * epoch and iterations / epoch must be whole, got rate={rate!r}, "
            f"epoch={epoch!r}, iterations={iterations!r}"
        )

    def balanced(size: int) -> BalancedIterationSubsampling:
        return BalancedIterationSubsampling(
            sigma, iterations=size, participations=round(rate * size), clip=clip
        )

    poisson = ModelSplitting(sigma, submodels=1, rate=rate, clip=clip)
    one_epoch = balanced(epoch)
    runs = {
        "balanced": [balanced(int(t)) for t in iterations],
        f"balanced, epochs of {epoch}": [compose(one_epoch, int(t) // epoch) for t in iterations],
        "Poisson": [compose(poisson, int(t)) for t in iterations],
    }
    return {
        label: {
            method: np.array([run.delta(epsilon, method=method) for run in several])
            for method in _METHODS
        }
        for label, several in runs.items()
    }
