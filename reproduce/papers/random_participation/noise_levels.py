"""The noise of section 6: what is needed, what is printed, and what the printed noise guarantees.

All sigmas are in units of the clip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.accounting import (
    CentralizedShuffling,
    OnlyLocalSampling,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
    calibrate_sigma,
    compose,
)
from repro.accounting._weights import weights
from repro.accounting.mechanism import Mechanism
from repro.accounting.random_participation.lower import log_oblique
from repro.accounting.random_participation.upper import log_split_bound

__all__ = [
    "EXPERIMENTS",
    "PRINTED",
    "Experiment",
    "guarantees",
    "needed_noise",
    "readings",
    "smallest_printed_sigma",
    "totals",
]

PRINTED = "scheme, Theorem 4.1 as printed"
"""The level that the printed theorem asks for, among those of `needed_noise`."""

_Formula = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Experiment:
    """One of the two experiments of section 6.

    Attributes:
        d: number of other records of the differing record's client.
        p: participation rate, in (0, 1].
        q: sampling rate, in (0, 1].
        printed: the sigmas of section 6 for "scheme", "WCS" and "OLS".
    """

    d: int
    p: float
    q: float
    printed: Mapping[str, float]

    def scheme(self, sigma: float) -> RandomParticipation:
        """The scheme at one noise level."""
        return RandomParticipation(sigma, p=self.p, q=self.q, samples_per_client=self.d)

    def baselines(self) -> dict[str, Callable[[float], Mechanism]]:
        """CS, WCS and OLS as functions of sigma."""
        return {
            "CS": lambda sigma: CentralizedShuffling(sigma, p=self.p, q=self.q),
            "WCS": lambda sigma: WeakClientSampling(sigma, p=self.p, q=self.q),
            "OLS": lambda sigma: OnlyLocalSampling(sigma, q=self.q),
        }


EXPERIMENTS = {
    "many small clients": Experiment(30, 0.001, 0.1, {"scheme": 1.065, "WCS": 7.65, "OLS": 22.4}),
    "few large clients": Experiment(
        1000, 0.1, 0.001, {"scheme": 0.646, "WCS": 0.873, "OLS": 1.103}
    ),
}
"""Sections 6.1 and 6.2."""


def needed_noise(experiment: Experiment, *, epsilon: float, delta: float) -> dict[str, float]:
    """Sigma that each scheme needs for (epsilon, delta) in one iteration.

    Args:
        experiment: one of `EXPERIMENTS`.
        epsilon: target, >= 0.
        delta: target, in (0, 1).

    Returns:
        Exact levels of the baselines, the bracket of the scheme ("lower" is below the truth, "upper"
        suffices), and the level that Theorem 4.1 as printed asks for. A level is 0 where the target
        is met without noise.
    """

    def smallest(make: Callable[[float], Mechanism], rate: float, method: str = "upper") -> float:
        # Without noise whoever draws the record is caught, so delta is the rate of drawing it.
        if delta >= rate:
            return 0.0
        return calibrate_sigma(make, epsilon=epsilon, delta=delta, method=method)

    both = experiment.p * experiment.q
    rates = {"CS": both, "WCS": both, "OLS": experiment.q}
    levels = {name: smallest(make, rates[name]) for name, make in experiment.baselines().items()}
    for method in ("lower", "upper"):
        levels[f"scheme, {method}"] = smallest(experiment.scheme, both, method)
    levels[PRINTED] = smallest_printed_sigma(
        lambda sigma: experiment.scheme(sigma).delta(epsilon, method="paper"), delta
    )
    return levels


def smallest_printed_sigma(delta_of_sigma: _Formula, delta: float) -> float:
    """Sigma from which on a formula stays at or below delta; 0 if it never exceeds delta.

    A printed formula need not fall with sigma, so that the whole range is scanned first.

    Args:
        delta_of_sigma: sigmas, shape (n,) -> deltas, shape (n,).
        delta: target, in (0, 1).
    """
    top = 50.0
    while delta_of_sigma(np.array([top]))[0] > delta:
        top *= 10
    grid = np.geomspace(0.02, top, 300)
    above = np.flatnonzero(delta_of_sigma(grid) > delta)
    if above.size == 0:
        return 0.0
    low, high = grid[above[-1]], grid[above[-1] + 1]
    for _ in range(6):  # each pass narrows the bracket 16-fold
        fine = np.linspace(low, high, 17)
        last = np.flatnonzero(delta_of_sigma(fine) > delta)[-1]
        low, high = fine[last], fine[last + 1]
    return float(high)


def guarantees(
    experiment: Experiment, *, epsilon: float, delta: float
) -> dict[str, dict[str, float]]:
    """The guarantee of the printed noise levels: delta at epsilon, and epsilon at delta, bracketed.

    Args:
        experiment: one of `EXPERIMENTS`.
        epsilon: >= 0, at which delta is given.
        delta: in (0, 1), at which epsilon is given.

    Returns:
        Scheme -> the printed sigma, and the lower and upper ends of delta and epsilon.
    """
    makers = {"scheme": experiment.scheme, **experiment.baselines()}
    rows = {}
    for name, sigma in experiment.printed.items():
        mechanism = makers[name](sigma)
        rows[name] = {"sigma, printed": sigma}
        for method in ("lower", "upper"):
            rows[name][f"delta, {method}"] = mechanism.delta(epsilon, method=method)
            rows[name][f"epsilon, {method}"] = mechanism.epsilon(delta, method=method)
    return rows


def readings(experiment: Experiment, *, epsilon: float, delta: float) -> dict[str, float]:
    """Sigma for (epsilon, delta) under several readings of section 6.

    They cover what the text leaves open: whether d counts the differing record, in which direction
    the other records' gradients point, whether their number is random, and which rate is which.

    Returns:
        Reading -> sigma, 0 where the reading needs no noise at all.
    """
    d, p, q = experiment.d, experiment.p, experiment.q

    def formula(count: int, participation: float, rate: float) -> _Formula:
        return lambda sigma: RandomParticipation(
            sigma, p=participation, q=rate, samples_per_client=count
        ).delta(epsilon, method="paper")

    def profile(function: Callable[..., NDArray[np.float64]]) -> _Formula:
        def value(sigma: NDArray[np.float64]) -> NDArray[np.float64]:
            s = np.atleast_1d(sigma)
            return np.exp(
                function(np.full_like(s, epsilon), s, np.full_like(s, p), np.full_like(s, q))
            )

        return value

    def fixed_count(e, s, p_, q_):
        factor, log_w1, log_w0 = weights(e, p_, q_, "remove")
        position = np.full((s.size, 1), max(1, round(d * q)) + 1.0)
        zero = np.zeros_like(position)
        return factor + log_split_bound(position, zero, np.zeros(s.size), log_w1, log_w0, s)

    tried = {
        "Theorem 4.1 as printed": formula(d, p, q),
        "d counts the differing record": formula(d - 1, p, q),
        "p and q exchanged": formula(d, q, p),
        "exactly d q other records, collinear": profile(fixed_count),
        "other records orthogonal": profile(
            lambda e, s, a, b: log_oblique(e, s, a, b, d, 0.0, "remove")
        ),
        "no other records": lambda sigma: PoissonGaussian(sigma, rate=p * q).delta(epsilon),
        "count disclosed (upper bound)": lambda sigma: experiment.scheme(sigma).delta(epsilon),
    }
    return {name: smallest_printed_sigma(function, delta) for name, function in tried.items()}


def totals(
    experiment: Experiment, levels: Mapping[str, float], *, rounds: int, delta: float
) -> dict[str, float]:
    """Total epsilon of a whole training run: `rounds` iterations composed, upper bounds.

    Args:
        experiment: one of `EXPERIMENTS`.
        levels: from `needed_noise` for the same experiment.
        rounds: number of iterations, >= 1.
        delta: of the whole run, in (0, 1).

    Returns:
        Epsilon of the baselines and of the scheme at their own levels, and of the scheme at the
        printed one. Schemes whose level is 0 are left out: without noise no epsilon is finite.
    """
    own = {name: (make, levels[name]) for name, make in experiment.baselines().items()}
    own["scheme"] = experiment.scheme, levels["scheme, upper"]
    own["scheme, printed sigma"] = experiment.scheme, experiment.printed["scheme"]
    return {
        name: compose(make(sigma), rounds).epsilon(delta)
        for name, (make, sigma) in own.items()
        if sigma > 0
    }
