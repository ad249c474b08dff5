"""The settings of random participation that are audited, and the guarantees that are attacked there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from repro.accounting import (
    CentralizedShuffling,
    InvalidBoundWarning,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
    compose,
)
from reproduce.papers import one_run
from reproduce.papers.attacker import Stake
from reproduce.papers.audit_cases import Case, Printed, tasks
from reproduce.papers.auditing import Profile
from reproduce.papers.one_run import Single
from reproduce.papers.random_participation.noise_levels import EXPERIMENTS

__all__ = ["audit_tasks", "cases", "singles", "stakes"]

_P, _Q, _ROUNDS = 0.2, 0.5, 20
_ALONE = {1: 2.103, 2: 1.363, 4: 0.948}
_CROWD = {1: 4.762, 2: 2.714, 4: 1.610}
"""Nominal epsilon of the whole training -> noise, rounded up so that the upper bound is at most that."""

_COMMON = {"momentum": 0.9, "average": "expected", "width": 0}
_ONE = {"p": 0.2, "q": 0.5, "others": 40, "sigma": 0.5, "iterations": 1}
_EPSILON = 1.0
"""One iteration and the epsilon at which printed values of delta are attacked."""

_FIGURE_SIGMA = 2.38
"""Noise of the scheme in Figure 6, calibrated for the paper's federation."""

_REALISED = {"p": 0.5, "q": 0.5, "others": 1, "sigma": 5.0, "iterations": 5}


@cache
def cases() -> tuple[Case, ...]:
    """All settings, from top to bottom of the picture."""
    rates = {"p": _P, "q": _Q, "iterations": _ROUNDS}
    alone = [
        Case(
            f"alone, ε = {epsilon}",
            _COMMON | rates | {"canary": "alone", "others": 0, "sigma": sigma, "stacked": 2000},
            sigma,
            _alone,
        )
        for epsilon, sigma in _ALONE.items()
    ]
    crowd = [
        Case(
            f"crowd, ε = {epsilon}",
            _COMMON | rates | {"canary": "crowd", "others": 40, "sigma": sigma, "stacked": 100},
            sigma,
            _crowd,
            scale=0.5,
        )
        for epsilon, sigma in _CROWD.items()
    ]
    return (*alone, *crowd, _one_iteration(), _realised())


def _alone(sigma: float) -> Profile:
    """A client with one record: each iteration is Poisson sampling with rate p q."""
    return compose(PoissonGaussian(sigma, rate=_P * _Q), _ROUNDS)


def _crowd(sigma: float) -> Profile:
    """Participation disclosed, an upper bound for every number of other records."""
    return compose(WeakClientSampling(sigma, p=_P, q=_Q), _ROUNDS)


def _one_iteration() -> Case:
    """One iteration at a client with 40 other records, against printed values of delta."""
    p, q, sigma, others = (_ONE[key] for key in ("p", "q", "sigma", "others"))
    scheme: Callable[[int], Profile] = lambda d: RandomParticipation(  # noqa: E731
        sigma, p=p, q=q, samples_per_client=d
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InvalidBoundWarning)  # attacked on purpose
        theorem = float(scheme(others).delta(_EPSILON, method="paper"))
    claims = {
        "thm-4.1": theorem,
        "cs-independence": float(CentralizedShuffling(sigma, p=p, q=q).delta(_EPSILON)),
        "sizes-unneeded": float(scheme(1).delta(_EPSILON)),
    }
    return Case(
        "crowd, 1 iteration",
        _COMMON | _ONE | {"canary": "crowd", "stacked": 100},
        sigma,
        lambda s: WeakClientSampling(s, p=p, q=q),
        printed=tuple(Printed(claim, _EPSILON, delta) for claim, delta in claims.items()),
        scale=2.0,
        least=80_000,
        compared=False,
    )


def _realised() -> Case:
    """The server divides by the realised batch; the bound is that of the printed divisor."""
    p, q, sigma, others = (_REALISED[key] for key in ("p", "q", "sigma", "others"))
    scheme = compose(
        RandomParticipation(sigma, p=p, q=q, samples_per_client=others), _REALISED["iterations"]
    )
    return Case(
        "realised divisor",
        {
            **_COMMON,
            **_REALISED,
            "canary": "crowd",
            "stacked": 1,
            "average": "realised",
            "width": 100,
        },
        sigma,
        None,
        printed=(Printed("realised", float(scheme.epsilon(1e-5)), 1e-5),),
        scale=0.01,
        least=1000,
    )


def singles(parameters: Mapping[str, Any]) -> tuple[Single, ...]:
    """The trainings with many canaries: at epsilon = 4, and the federation of Figure 6 (profile desk).

    Args:
        parameters: of the notebook: "one_run_rounds", iterations of Figure 6.
    """
    rounds = parameters["one_run_rounds"]
    alone = {"p": _P, "q": _Q, "iterations": _ROUNDS, "canary": "alone", "others": 0}
    figure = {"p": 0.01, "q": 0.1, "iterations": rounds, "canary": "crowd", "others": 29}
    rates = {"p": 0.01, "q": 0.1, "samples_per_client": 29}
    return (
        Single("alone, ε = 4", _COMMON | alone | {"sigma": _ALONE[4]}, lambda: _alone(_ALONE[4])),
        Single(
            f"Figure 6, {rounds:,} iterations",
            _COMMON | figure | {"sigma": _FIGURE_SIGMA},
            lambda: compose(RandomParticipation(_FIGURE_SIGMA, **rates), rounds),
        ),
    )


def stakes() -> tuple[Stake, ...]:
    """Section 6.1 at its printed noise: one iteration with its target, and the 8,000 iterations of Figure 6."""
    experiment = EXPERIMENTS["many small clients"]
    scheme = experiment.scheme(experiment.printed["scheme"])
    return (
        Stake("one iteration of section 6.1", lambda: scheme, 0.015, 1e-6),
        Stake("8,000 iterations of section 6.1", lambda: compose(scheme, 8000)),
    )


def audit_tasks(parameters: dict[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """The runs of the audit: those of `cases`, then those of `singles`."""
    return [
        *tasks("random_participation/audit", cases(), parameters),
        *one_run.tasks("random_participation/one_run", singles(parameters), parameters),
    ]
