"""The noise columns of Tables 1 and 2 and of section 4.2 of the partitioning paper.

The tables print the standard deviation of the noise divided by a clipping norm and by the expected
number of contributions, but not how the two clips, the two parts of the model and the sampling
enter. Every reading tried is one entry of `READINGS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import brentq

from repro._validate import choice, in_unit, integer, positive
from repro.accounting.composition import compose
from repro.accounting.partitioning.blocks import log_moments
from repro.accounting.partitioning.model_splitting import ModelSplitting
from repro.accounting.partitioning.printed import (
    convert_epsilon,
    forward_bound,
    poisson_amplified,
    poisson_rdp,
    theorem_3_1,
)

__all__ = [
    "READINGS",
    "TABLE_1",
    "TABLE_2",
    "FineTuning",
    "balanced_sigma",
    "fitted_unsplit_clip",
    "noise_column",
    "poisson_sigma",
    "really_spent",
]

#: Orders beyond this are never the best ones at epsilon = 8 over hundreds of rounds.
_ALPHA = np.arange(2, 65)
_EPSILON, _DELTA = 8.0, 1e-5
_LEAST_RATE = 1e-9
#: Clip of the split part, in units of the norm that the tables' noise is relative to.
_SPLIT = 0.5


@dataclass(frozen=True)
class FineTuning:
    """One table of section 4.1: rounds, contributors, and its noise column by number of submodels."""

    rounds: int
    population: int
    printed: dict[int, float]


#: Sample level: half of CIFAR-10's 50,000 images, 1,000 iterations.
TABLE_1 = FineTuning(1000, 25_000, {1: 6.62e-4, 3: 5.44e-4, 8: 4.96e-4})
#: User level: the same half, two images a user, 250 sessions. No rate of participation is printed.
TABLE_2 = FineTuning(250, 12_500, {1: 6.75e-4, 3: 5.72e-4, 8: 5.36e-4})


def _bound(submodels: int, sigma: float) -> np.ndarray:
    return forward_bound(_ALPHA, submodels, 1, sigma)


def _exact(submodels: int, sigma: float) -> np.ndarray:
    return log_moments(1 / sigma, submodels, int(_ALPHA[-1]))[2:] / (_ALPHA - 1)


def _one_coin(split: Callable, sigma: float, submodels: int, rate: float, unsplit: float):
    whole = _ALPHA / 2 * (unsplit / sigma) ** 2
    return poisson_amplified(_ALPHA, whole + split(submodels, sigma / _SPLIT), rate)


def _own_coins(split: Callable, sigma: float, submodels: int, rate: float, unsplit: float):
    amplified = poisson_amplified(_ALPHA, split(submodels, sigma / _SPLIT), rate)
    return poisson_rdp(_ALPHA, sigma, rate, unsplit) + amplified


def _all_split(split: Callable, sigma: float, submodels: int, rate: float, unsplit: float):
    return poisson_amplified(_ALPHA, split(submodels, sigma / np.hypot(_SPLIT, unsplit)), rate)


#: name -> function (sigma, submodels, rate, unsplit clip) -> Renyi curve of one round.
READINGS: dict[str, Callable[[float, int, float, float], np.ndarray]] = {
    "one coin for both parts, bound (3)": partial(_one_coin, _bound),
    "one coin for both parts, exact (2)": partial(_one_coin, _exact),
    "costs added, a coin for each part, bound (3)": partial(_own_coins, _bound),
    "costs added, a coin for each part, exact (2)": partial(_own_coins, _exact),
    "everything split, bound (3)": partial(_all_split, _bound),
}


def _sigma(curve: Callable[[float], np.ndarray], rounds: int) -> float:
    """Noise at which the rounds together cost epsilon = 8 by Proposition 2.3."""

    def excess(sigma: float) -> float:
        return float(convert_epsilon(rounds * curve(sigma), _ALPHA, _DELTA)) - _EPSILON

    low, high = 0.1, 300.0
    while excess(low) < 0:
        low /= 2
    while excess(high) > 0:
        high *= 2
    return brentq(excess, low, high, xtol=1e-9)


def noise_column(
    table: FineTuning, rate: float, reading: str, unsplit_clip: float = 0.5
) -> dict[int, float]:
    """The column that one reading gives: submodels -> noise.

    The split part is clipped to half of the norm that the table's noise is relative to.

    Args:
        table: `TABLE_1` or `TABLE_2`.
        rate: sampling rate, in (0, 1].
        reading: a key of `READINGS`.
        unsplit_clip: clip of the part that is not split, in units of that norm, > 0.

    Returns:
        standard deviation of the noise over the norm and over `rate * population`.
    """
    choice("reading", reading, tuple(READINGS))
    unsplit = float(positive("unsplit_clip", unsplit_clip))
    curve = READINGS[reading]
    return {
        d: _sigma(lambda s, d=d: curve(s, d, rate, unsplit), table.rounds)
        / (rate * table.population)
        for d in table.printed
    }


def fitted_unsplit_clip(table: FineTuning, rate: float, reading: str) -> float:
    """The unsplit clip, in [0.05, 1], at which a reading gives the printed row without splitting.

    Args:
        table: `TABLE_1` or `TABLE_2`.
        rate: sampling rate, in (0, 1].
        reading: a key of `READINGS`.

    Raises:
        ValueError: there is none.
    """
    baseline = replace(table, printed={1: table.printed[1]})

    def excess(clip: float) -> float:
        column = noise_column(baseline, rate, reading=reading, unsplit_clip=clip)
        return column[1] / table.printed[1] - 1

    low, high = 0.05, 1.0
    if excess(low) * excess(high) > 0:
        raise ValueError(f"no unsplit clip in [{low}, {high}] gives the printed {table.printed[1]}")
    return brentq(excess, low, high, xtol=1e-7)


def really_spent(
    table: FineTuning, rate: float, *, unsplit_clip: float = 0.5
) -> dict[int, dict[str, float]]:
    """What the printed noise really costs: submodels -> bracket of epsilon at delta = 1e-5.

    The row of one submodel is the baseline: no splitting. Clips as in `noise_column`.
    """
    spent = {}
    for d, noise in table.printed.items():
        run = compose(
            ModelSplitting(
                noise * rate * table.population,
                submodels=d,
                rate=rate,
                clip=_SPLIT,
                unsplit_clip=unsplit_clip,
            ),
            table.rounds,
        )
        spent[d] = {m: run.epsilon(_DELTA, method=m) for m in ("lower", "upper")}
    return spent


def balanced_sigma(iterations: int, participations: int) -> float:
    """Section 4.2: noise of balanced subsampling for (8, 1e-5), by bound (3) and Proposition 2.3."""
    iterations = integer("iterations", iterations, 1)
    return _sigma(lambda s: theorem_3_1(_ALPHA, iterations, participations, s), 1)


def poisson_sigma(iterations: int, rate: float) -> float:
    """Section 4.2: noise of Poisson sampling for (8, 1e-5), by Theorem 3.11 and Proposition 2.3.

    Raises:
        ValueError: the rate is not in [1e-9, 1], or the iterations are no positive integer.
    """
    if in_unit("rate", rate) < _LEAST_RATE:
        raise ValueError(f"rate must be in [{_LEAST_RATE:g}, 1], got {rate!r}")
    return _sigma(lambda s: poisson_rdp(_ALPHA, s, rate), integer("iterations", iterations, 1))
