"""Does the printed epsilon hold? By account of the promised parameters, and by an attack on the engine."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.stats import beta

from repro.accounting._composed import Composed
from repro.accounting.composition import compose
from repro.accounting.federation import Federation
from repro.accounting.gaussian import GaussianMechanism
from repro.accounting.laplace import SummedLaplace
from repro.accounting.mechanism import Mechanism
from repro.accounting.partitioning.balanced import BalancedIterationSubsampling
from repro.accounting.random_participation.baselines import WeakClientSampling
from repro.conformance.adapter import Array, Promise
from repro.conformance.findings import Finding, exact, skipped
from repro.conformance.scenes import Sight

_THRESHOLDS = 60
_LEVELS = np.logspace(-12, 0, 97)
_SHARE = 1e-3  # relative tolerance of an account


def account(promise: Promise) -> Mechanism | Composed | None:
    """The mechanism of all rounds, or None where no theorem here covers the promise."""
    sigma = promise.noise_multiplier * promise.clip
    whole = promise.participation == promise.local_rate == 1 and promise.sampling != "balanced"
    moved = promise.clip * (2 if promise.adjacency == "replace" else 1)
    if whole and promise.law == "laplace":
        return compose(SummedLaplace(sigma, sensitivity=moved), promise.rounds)
    if whole:
        return compose(GaussianMechanism(sigma, sensitivity=moved), promise.rounds)
    coins = promise.law == "gaussian" and promise.sampling == "poisson"
    if coins and promise.uploads and promise.adjacency == "replace" and promise.local_rate == 1:
        seen = WeakClientSampling(sigma, p=promise.participation, q=1, clip=moved)  # who takes part
        return compose(seen, promise.rounds)
    if promise.law == "laplace" or promise.adjacency == "replace" or promise.sampling == "fixed":
        return None
    if promise.sampling == "balanced":
        return BalancedIterationSubsampling(
            sigma,
            iterations=promise.rounds,
            participations=promise.participations,
            clip=promise.clip,
        )
    return Federation(
        clients=promise.clients,
        records_per_client=promise.records,
        rounds=promise.rounds,
        participation=promise.participation,
        local_rate=promise.local_rate,
        adjacency=promise.unit,
        observer="uploads" if promise.uploads else "sums",
        clip=promise.clip,
    ).run(sigma)


@lru_cache(maxsize=64)
def bracket(promise: Promise) -> tuple[float, float] | None:
    """Lower and upper bound on epsilon of the promised parameters, or None."""
    mechanism = account(promise)
    if mechanism is None:
        return None
    return tuple(float(mechanism.epsilon(promise.delta, method=m)) for m in ("lower", "upper"))


def check_account(promise: Promise) -> Finding:
    """The printed value against the accountants here."""
    name = "printed epsilon, account of the promised parameters"
    if promise.epsilon is None:
        return skipped(name, "no epsilon is printed")
    known = bracket(promise)
    if known is None:
        return skipped(name, "no theorem here bounds this sampling with this adjacency and law")
    least, most = known
    evidence = f"printed {promise.epsilon:.4g}, true value in [{least:.4g}, {most:.4g}] at delta {promise.delta:g}"
    return exact(name, least > promise.epsilon * (1 + _SHARE), evidence, _SHARE)


def scores(promise: Promise, sight: Sight, rate: float) -> Array:
    """How much each repetition looks as if the first unit took part, shape (repetitions,).

    The sum over rounds of the log-likelihood ratio of the unit's own coordinate, for the promised parameters.
    """
    x = np.nan_to_num(sight.releases[..., 0, 0] if promise.uploads else sight.total[..., 0])
    x = x / promise.scale
    jump = 1 / promise.noise_multiplier
    there, here = _density(promise, x), _density(promise, x - jump)
    away = _density(promise, x + jump) if promise.adjacency == "replace" else there
    with np.errstate(divide="ignore"):
        absent, present = np.log1p(-rate), np.log(rate)
    ratio = np.logaddexp(absent + there, present + here) - np.logaddexp(
        absent + there, present + away
    )
    return ratio.sum(axis=1)


def _density(promise: Promise, x: Array) -> Array:
    """Logarithm, up to a constant."""
    return -0.5 * x**2 if promise.law == "gaussian" else -np.abs(x)


def check_attack(promise: Promise, present: Array, absent: Array) -> Finding:
    """Tell two neighbouring data sets apart by thresholds; chosen on one half, judged on the other.

    Args:
        promise: of the engine.
        present: scores with the first unit, shape (repetitions,).
        absent: scores without it (or with its replacement).
    """
    name = "printed epsilon, attack"
    if promise.epsilon is None:
        return skipped(name, "no epsilon is printed")
    half = len(present) // 2
    best, rule = -np.inf, (1.0, 0.0, False)
    for swapped in (False, True):
        one, two = (absent, present) if swapped else (present, absent)
        for sign in (1.0, -1.0):
            cuts = np.quantile(sign * two[:half], np.linspace(0.02, 1, _THRESHOLDS))
            hits, false = _counts(sign * one[:half], cuts), _counts(sign * two[:half], cuts)
            found = _least(hits, false, half, promise.delta, 1e-3)
            k = int(np.argmax(found))
            if found[k] > best:
                best, rule = float(found[k]), (sign, float(cuts[k]), swapped)
    sign, cut, swapped = rule
    one, two = (absent, present) if swapped else (present, absent)
    rest = len(present) - half
    hits, false = (int((sign * side[half:] > cut).sum()) for side in (one, two))
    shown = _least(hits, false, rest, promise.delta, _LEVELS)
    refuted = shown > promise.epsilon
    p_value = float(_LEVELS[np.argmax(refuted)]) if refuted.any() else 1.0
    least = max(0.0, float(_least(hits, false, rest, promise.delta, 0.01)))
    largest = float(_least(rest, 0, rest, promise.delta, 0.01))
    return Finding(
        name,
        f"epsilon is at least {least:.3g} (confidence 99 %), printed {promise.epsilon:.4g}",
        p_value,
        detects=lambda _: f"at best an epsilon of {largest:.2g}",
    )


def _counts(values: Array, cuts: Array) -> Array:
    return len(values) - np.searchsorted(np.sort(values), cuts, side="right")


def _least(hits: Array, false: Array, trials: int, delta: float, level: Array) -> Array:
    """Lower confidence bound on epsilon, from Clopper-Pearson bounds at half the level each."""
    low = np.where(
        np.asarray(hits) > 0, beta.ppf(np.asarray(level) / 2, hits, trials - hits + 1), 0.0
    )
    high = beta.isf(np.asarray(level) / 2, false + 1, np.maximum(trials - false, 1e-9))
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0)) - np.log(high)
