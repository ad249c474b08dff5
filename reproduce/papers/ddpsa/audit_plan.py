"""The settings of DDP-SA that are audited, and the guarantees that are attacked there."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from repro.accounting import compose
from repro.accounting.laplace import SummedLaplace
from reproduce.papers import one_run
from reproduce.papers.attacker import Stake
from reproduce.papers.audit_cases import Case, Printed, tasks
from reproduce.papers.auditing import Profile
from reproduce.papers.one_run import Single

__all__ = ["audit_tasks", "cases", "singles", "stakes"]

_ROUNDS = 10
_SERVER = {1: 5.847, 2: 3.067, 4: 1.617}
_COLLUDING = {1: 9.901, 2: 4.976, 4: 2.494}
"""Nominal epsilon of the whole training -> scale of a client's noise, rounded up."""

_PAPER = 0.1
"""The budget that the paper prints for its training runs."""

_TARGET = 1.0
"""Epsilon at which the delta of two clients' noise is attacked."""


@cache
def cases() -> tuple[Case, ...]:
    """All settings, from top to bottom of the picture."""
    two = {"clients": 2, "records": 1, "rounds": _ROUNDS}
    server = [
        Case(f"server, ε = {total}", two | {"canary": "server", "epsilon": 1 / b}, b, _two_noises)
        for total, b in _SERVER.items()
    ]
    colluding = [
        Case(
            f"colluding, ε = {total}",
            two | {"canary": "colluding", "epsilon": 1 / b},
            b,
            _one_noise,
            printed=_aggregate_only(b) if total == 4 else (),
            least=20_000 if total == 4 else 2000,
        )
        for total, b in _COLLUDING.items()
    ]
    return (*server, *colluding, *_printed())


def _two_noises(scale: float) -> Profile:
    """Whole training, seen through the sum of two clients' vectors."""
    return compose(SummedLaplace(scale, clients=2), _ROUNDS)


def _one_noise(scale: float) -> Profile:
    """Whole training, with the other client's upload known."""
    return compose(SummedLaplace(scale, clients=1), _ROUNDS)


def _aggregate_only(scale: float) -> tuple[Printed, ...]:
    """The guarantee of one who sees sums only, attacked by one who can subtract an upload."""
    delta = float(_two_noises(scale).delta(_TARGET, method="upper", direction="both"))
    return (Printed("curious-clients", _TARGET, delta),)


def _printed() -> tuple[Case, ...]:
    """Attacks on what is printed for the paper's noise."""
    one = {"epsilon": _PAPER, "clients": 2}
    return (
        Case(
            "1,218 rounds",
            one | {"canary": "colluding", "records": 1, "rounds": 1218},
            1 / _PAPER,
            None,
            printed=(Printed("budget", _PAPER, 0.0),),
            scale=0.02,
            least=1000,
        ),
        Case(
            "whole client",
            one | {"canary": "client", "records": 20, "rounds": 1},
            1 / _PAPER,
            None,
            printed=(Printed("client-level", _PAPER, 0.0),),
            scale=0.1,
            least=2000,
        ),
        Case(
            "one record more",
            {"epsilon": _PAPER, "clients": 1, "canary": "count", "records": 1, "rounds": 1},
            1 / _PAPER,
            None,
            printed=(Printed("noisy-average", _PAPER, 0.0),),
            scale=0.2,
            least=4000,
        ),
    )


def singles(parameters: Mapping[str, Any]) -> tuple[Single, ...]:
    """Trainings on the records of Figure 7 with many canaries: ten rounds at epsilon = 4, and the figure's budget.

    Args:
        parameters: of the notebook: "one_run_rounds" of the second.
    """
    rounds = parameters["one_run_rounds"]
    figure = {"clients": 2, "records": 10_000}
    return (
        Single(
            "server, ε = 4",
            figure | {"epsilon": 1 / _SERVER[4], "rounds": _ROUNDS},
            lambda: _two_noises(_SERVER[4]),
        ),
        Single(
            f"Figure 7, {rounds:,} rounds",
            figure | {"epsilon": _PAPER, "rounds": rounds},
            lambda: compose(SummedLaplace(1 / _PAPER, clients=2), rounds),
        ),
    )


def stakes() -> tuple[Stake, ...]:
    """The training runs at the budget that the paper prints: one round, and the 1,218 rounds of Figure 7."""
    scale = 1 / _PAPER
    return (
        Stake("one round, two clients", lambda: SummedLaplace(scale, clients=2), _PAPER),
        Stake(
            "1,218 rounds, two clients",
            lambda: compose(SummedLaplace(scale, clients=2), 1218),
            _PAPER,
        ),
    )


def audit_tasks(parameters: dict[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """The runs of the audit: those of `cases`, then those of `singles`."""
    return [
        *tasks("ddpsa/audit", cases(), parameters),
        *one_run.tasks("ddpsa/one_run", singles(parameters), parameters),
    ]
