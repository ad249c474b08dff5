"""The settings of partitioned training that are audited, and the guarantee that is attacked there."""

from __future__ import annotations

from functools import cache
from typing import Any

from repro.accounting import (
    BalancedIterationSubsampling,
    ModelSplitting,
    PoissonGaussian,
    compose,
)
from reproduce.papers import one_run
from reproduce.papers.attacker import Stake
from reproduce.papers.audit_cases import Case, Printed, tasks
from reproduce.papers.auditing import Profile
from reproduce.papers.one_run import Single

__all__ = ["audit_tasks", "cases", "singles", "stakes"]

_SUBMODELS, _RATE, _ITERATIONS = 3, 0.2, 10
_SPLIT = {1: 1.750, 2: 1.179, 4: 0.851}
_BALANCED = {1: 1.479, 2: 1.045, 4: 0.735}
"""Nominal epsilon of the whole training -> noise, rounded up so that the upper bound is at most that."""

_TABLE, _TABLE_SIGMA = {"iterations": 60, "participations": 6}, 0.59
"""Table 1 in the profile desk, its baseline without submodels."""

_TWO = {"iterations": 2, "participations": 1, "sigma": 0.5}
_EPSILON = 0.5
"""Two iterations, and the epsilon at which the delta of Poisson sampling is attacked."""


@cache
def cases() -> tuple[Case, ...]:
    """All settings, from top to bottom of the picture."""
    common = {"iterations": _ITERATIONS, "stacked": 500}
    split = [
        Case(
            f"{_SUBMODELS} submodels, ε = {epsilon}",
            common | _poisson(_SUBMODELS) | {"sigma": sigma},
            sigma,
            _splitting,
        )
        for epsilon, sigma in _SPLIT.items()
    ]
    balanced = [
        Case(
            f"balanced, ε = {epsilon}",
            common | _balanced(1) | {"sigma": sigma},
            sigma,
            _balanced_bound,
        )
        for epsilon, sigma in _BALANCED.items()
    ]
    return (*split, *balanced, _against_poisson())


def _poisson(submodels: int) -> dict[str, Any]:
    return {"sampling": "poisson", "rate": _RATE, "participations": 1, "submodels": submodels}


def _balanced(participations: int) -> dict[str, Any]:
    return {"sampling": "balanced", "rate": 0.0, "participations": participations, "submodels": 1}


def _splitting(sigma: float) -> Profile:
    """Whole training with a split model and Poisson batches."""
    return compose(ModelSplitting(sigma, submodels=_SUBMODELS, rate=_RATE), _ITERATIONS)


def _balanced_bound(sigma: float) -> Profile:
    """Whole training with one participation of each record."""
    return BalancedIterationSubsampling(sigma, iterations=_ITERATIONS, participations=1)


def _against_poisson() -> Case:
    """Balanced sampling against the guarantee of Poisson sampling at the same rate."""
    count, chosen, sigma = (_TWO[key] for key in ("iterations", "participations", "sigma"))
    poisson = compose(PoissonGaussian(sigma, rate=chosen / count), int(count))
    return Case(
        "balanced, 2 iterations",
        _balanced(1) | _TWO | {"stacked": 500},
        sigma,
        lambda s: BalancedIterationSubsampling(
            s, iterations=int(count), participations=int(chosen)
        ),
        printed=(Printed("balanced-over-poisson", _EPSILON, float(poisson.delta(_EPSILON))),),
        least=20_000,
        compared=False,
    )


@cache
def singles() -> tuple[Single, ...]:
    """The trainings with many canaries: at epsilon = 4, and the baseline of Table 1 (profile desk)."""
    split = _poisson(_SUBMODELS) | {"iterations": _ITERATIONS, "sigma": _SPLIT[4]}
    baseline = _balanced(_TABLE["participations"]) | {
        "iterations": _TABLE["iterations"],
        "sigma": _TABLE_SIGMA,
    }
    return (
        Single(f"{_SUBMODELS} submodels, ε = 4", split, lambda: _splitting(_SPLIT[4])),
        Single(
            "Table 1, no submodels",
            baseline,
            lambda: BalancedIterationSubsampling(_TABLE_SIGMA, **_TABLE),
        ),
    )


def stakes() -> tuple[Stake, ...]:
    """Training from scratch in section 4.2 with balanced subsampling, at its printed noise and guarantee."""
    run = BalancedIterationSubsampling(10.17, iterations=2000, participations=655)
    return (Stake("training from scratch in section 4.2", lambda: run, 8.0, 1e-5),)


def audit_tasks(parameters: dict[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """The runs of the audit: those of `cases`, then those of `singles`."""
    return [
        *tasks("partitioning/audit", cases(), parameters),
        *one_run.tasks("partitioning/one_run", singles(), parameters),
    ]
