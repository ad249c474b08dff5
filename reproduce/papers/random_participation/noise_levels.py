"""The noise levels of section 6 of the random-participation paper: needed, printed, and guaranteed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from repro.accounting._weights import weights
from repro.accounting.calibration import calibrate_sigma
from repro.accounting.composition import compose
from repro.accounting.gaussian import PoissonGaussian
from repro.accounting.mechanism import Mechanism
from repro.accounting.random_participation.lower import log_oblique
from repro.accounting.random_participation.mechanisms import (
    CentralizedShuffling,
    OnlyLocalSampling,
    RandomParticipation,
    WeakClientSampling,
)
from repro.accounting.random_participation.upper import log_split_bound

__all__ = [
    "SETTINGS",
    "Setting",
    "guarantees",
    "noise_levels",
    "readings",
    "smallest_printed_sigma",
    "totals",
]


@dataclass(frozen=True)
class Setting:
    """One of the two experiments: d other records, rates p and q, and the three printed sigmas."""

    d: int
    p: float
    q: float
    printed: dict[str, float]

    def scheme(self, sigma: float, clip: float = 1.0) -> RandomParticipation:
        """The scheme at one noise level."""
        return RandomParticipation(sigma, p=self.p, q=self.q, samples_per_client=self.d, clip=clip)

    def baselines(self, clip: float = 1.0) -> dict[str, Callable[[float], Mechanism]]:
        """CS, WCS and OLS as functions of sigma."""
        return {
            "CS": lambda s: CentralizedShuffling(s, p=self.p, q=self.q, clip=clip),
            "WCS": lambda s: WeakClientSampling(s, p=self.p, q=self.q, clip=clip),
            "OLS": lambda s: OnlyLocalSampling(s, q=self.q, clip=clip),
        }


#: Sections 6.1 and 6.2.
SETTINGS = {
    "many small clients": Setting(30, 0.001, 0.1, {"scheme": 1.065, "WCS": 7.65, "OLS": 22.4}),
    "few large clients": Setting(1000, 0.1, 0.001, {"scheme": 0.646, "WCS": 0.873, "OLS": 1.103}),
}


def noise_levels(
    setting: Setting, *, epsilon: float, delta: float, clip: float = 1.0
) -> dict[str, float]:
    """Sigma that each scheme needs for (epsilon, delta) in one iteration.

    Returns:
      exact levels of the baselines, the bracket of the scheme ("lower" is below the truth, "upper"
      suffices), and what Theorem 4.1 as printed asks for (0 when it is met without noise).
    """
    target = {"epsilon": epsilon, "delta": delta}
    found = {
        name: calibrate_sigma(make, **target) for name, make in setting.baselines(clip).items()
    }
    for method in ("lower", "upper"):
        found[f"scheme, {method}"] = calibrate_sigma(
            lambda s: setting.scheme(s, clip), method=method, **target
        )
    found["scheme, Theorem 4.1 as printed"] = smallest_printed_sigma(
        lambda s: setting.scheme(s, clip).delta(epsilon, method="paper"), delta, clip
    )
    return found


def smallest_printed_sigma(delta_of_sigma: Callable, delta: float, clip: float = 1.0) -> float:
    """Sigma from which on a formula stays at or below delta; 0 if it never exceeds it.

    A printed formula need not fall with sigma, so that the whole range is scanned first.

    Args:
      delta_of_sigma: array of sigmas -> array of deltas.
      delta: target.
      clip: unit of sigma.
    """
    grid = clip * np.geomspace(0.02, 50.0, 400)
    above = np.flatnonzero(delta_of_sigma(grid) > delta)
    if above.size == 0:
        return 0.0
    low, high = grid[above[-1]], grid[above[-1] + 1]
    for _ in range(3):  # each pass narrows the bracket 200-fold
        fine = np.linspace(low, high, 201)
        last = np.flatnonzero(delta_of_sigma(fine) > delta)[-1]
        low, high = fine[last], fine[last + 1]
    return float(high)


def guarantees(
    setting: Setting, *, epsilon: float, delta: float, clip: float = 1.0
) -> dict[str, dict[str, float]]:
    """What the printed noise levels really give: delta at epsilon and epsilon at delta, bracketed."""
    makers = {"scheme": lambda s: setting.scheme(s, clip), **setting.baselines(clip)}
    rows = {}
    for name, sigma in setting.printed.items():
        mechanism = makers[name](sigma)
        rows[name] = {"sigma, printed": sigma}
        for method in ("lower", "upper"):
            rows[name][f"delta, {method}"] = mechanism.delta(epsilon, method=method)
            rows[name][f"epsilon, {method}"] = mechanism.epsilon(delta, method=method)
    return rows


def readings(
    setting: Setting, *, epsilon: float, delta: float, clip: float = 1.0
) -> dict[str, float | None]:
    """Sigma under several readings of section 6; None where the reading needs no noise at all.

    They cover what the text leaves open: whether d counts the differing record, in which direction
    the other records' gradients point, whether their count is random, and which rate is which.
    """
    d, p, q = setting.d, setting.p, setting.q

    def formula(count: int, participation: float, rate: float):
        return lambda s: RandomParticipation(
            s, p=participation, q=rate, samples_per_client=count, clip=clip
        ).delta(epsilon, method="paper")

    def profile(function):
        def value(sigma):
            s = np.atleast_1d(sigma) / clip
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
        "no other records": lambda s: PoissonGaussian(s, rate=p * q, sensitivity=clip).delta(
            epsilon
        ),
        "count disclosed (upper bound)": lambda s: setting.scheme(s, clip).delta(epsilon),
    }
    found = {
        name: smallest_printed_sigma(function, delta, clip) for name, function in tried.items()
    }
    return {name: value or None for name, value in found.items()}


def totals(
    setting: Setting, levels: dict[str, float], *, rounds: int, delta: float, clip: float = 1.0
) -> dict[str, float]:
    """Total epsilon of a whole training run: ``rounds`` iterations composed, upper bounds.

    Args:
      setting: one of :data:`SETTINGS`.
      levels: sigmas from :func:`noise_levels` for the same setting.
      rounds: number of iterations, >= 1.
      delta: of the whole run, in (0, 1).
      clip: largest norm of one record's gradient.

    Returns:
      epsilon of the baselines and of the scheme at their own levels, and of the scheme at the printed one.
    """
    runs = {name: make(levels[name]) for name, make in setting.baselines(clip).items()}
    runs["scheme"] = setting.scheme(levels["scheme, upper"], clip)
    runs["scheme, printed sigma"] = setting.scheme(setting.printed["scheme"], clip)
    return {name: compose(run, rounds).epsilon(delta) for name, run in runs.items()}
