"""The settings of MS-PAFL that are audited, and the guarantees that are attacked there."""

from __future__ import annotations

from functools import cache
from typing import Any

from repro.accounting import PoissonGaussian, WeakClientSampling, compose
from repro.accounting.mspafl import printed as paper
from repro.accounting.mspafl.carried import CarriedRun
from repro.accounting.mspafl.round import AveragedUploads
from reproduce.papers import one_run
from reproduce.papers.attacker import Stake
from reproduce.papers.audit_cases import Case, Printed, tasks
from reproduce.papers.auditing import Profile
from reproduce.papers.one_run import Single

__all__ = ["audit_tasks", "cases", "singles", "stakes"]

_P, _RECORDS, _ROUNDS = 0.5, 5, 10
_SHARED = {1: 4.780, 2: 3.044, 4: 2.035}
"""Nominal epsilon of the whole training -> noise, rounded up so that the upper bound is at most that."""

_KEPT = {"p": 0.5, "records": 41, "batch": 8, "rounds": 100}
_KEPT_SIGMA = 27.9
"""A client with a private half, at epsilon = 2."""

_FIGURE = {"p": 0.3, "records": 325, "batch": 25, "rounds": 200}
"""Figure 2 in the profile desk; its five steps of five records are one step of 25."""

_ONE = {"p": 0.1, "records": 1, "batch": 1, "sigma": 1.0, "rounds": 1}
_EPSILON = 1.0
"""One round, and the epsilon at which the amplified value of delta is attacked."""

_LOCAL = (1.0, 1e-4)
"""Local epsilon and delta of the printed total, as in the paper's figures 4 and 5."""


@cache
def cases() -> tuple[Case, ...]:
    """All settings, from top to bottom of the picture."""
    rates = {"canary": "shared", "p": _P, "records": _RECORDS, "batch": 1, "rounds": _ROUNDS}
    shared = [
        Case(
            f"all shared, ε = {epsilon}",
            rates | {"sigma": sigma},
            sigma,
            _nothing_kept,
            bound=_replaced,
        )
        for epsilon, sigma in _SHARED.items()
    ]
    return (*shared, _private(), _total(), _one_round())


def _nothing_kept(sigma: float) -> Profile:
    """Composed rounds towards the server, for data sets without and with the canary.

    Replacing is symmetric, so `_replaced` takes in each round the worse of the two orders. The canary has
    one order, and its trade-off curve is that of a gradient of 2 C added.
    """
    return compose(WeakClientSampling(sigma, p=_P, q=1 / _RECORDS, clip=2.0), _ROUNDS)


def _replaced(sigma: float) -> Profile:
    """Composed rounds towards the server, an upper bound for every record replaced."""
    return compose(AveragedUploads(sigma, p=_P, q=1 / _RECORDS), _ROUNDS)


def _kept(sigma: float) -> Profile:
    """A whole run of a client with a private half, towards the server."""
    q = _KEPT["batch"] / _KEPT["records"]
    return CarriedRun(sigma, rounds=_KEPT["rounds"], p=_KEPT["p"], q=q)


def _private() -> Case:
    """A private half, against our bound for it."""
    return Case(
        "private half, ε = 2",
        {"canary": "private", **_KEPT, "sigma": _KEPT_SIGMA},
        _KEPT_SIGMA,
        _kept,
        weaker="the server does not know when the record was first drawn, which our bound discloses",
        scale=0.1,
    )


def _total() -> Case:
    """A private half at the noise of Lemma 1, against Theorem 3 and against a round without memory."""
    p, rounds = _KEPT["p"], _KEPT["rounds"]
    q = _KEPT["batch"] / _KEPT["records"]
    sigma = float(paper.local_sigma(*_LOCAL))
    constant = paper.local_constant(_LOCAL[1])
    total = float(paper.total_local_epsilon(_LOCAL[0], rounds, p=p, q=q, constant=constant))
    alone = compose(AveragedUploads(sigma, p=p, q=q), rounds)
    return Case(
        "private half, Lemma 1",
        {"canary": "private", **_KEPT, "sigma": round(sigma, 6)},
        sigma,
        _kept,
        weaker="the server does not know when the record was first drawn, which our bound discloses",
        printed=(
            Printed("thm-3", total, _LOCAL[1]),
            Printed("private-half", _EPSILON, float(alone.delta(_EPSILON))),
        ),
        scale=0.1,
        least=8000,
    )


def _one_round() -> Case:
    """One round towards the server, against amplification by a check-in that the server cannot see."""
    p, sigma, q = _ONE["p"], _ONE["sigma"], _ONE["batch"] / _ONE["records"]
    hidden = PoissonGaussian(sigma, rate=p * q, sensitivity=2.0)
    return Case(
        "all shared, 1 round",
        {"canary": "shared", **_ONE},
        sigma,
        lambda s: AveragedUploads(s, p=p, q=q),
        printed=(Printed("participants-unknown", _EPSILON, float(hidden.delta(_EPSILON))),),
        least=20_000,
        compared=False,
    )


@cache
def singles() -> tuple[Single, ...]:
    """The federations with many canaries: at epsilon = 4, and the rounds and noise of Figure 2 (profile desk)."""
    shared = {"canary": "shared", "p": _P, "records": _RECORDS, "batch": 1, "rounds": _ROUNDS}
    sigma = round(float(paper.local_sigma(*_LOCAL)), 6)
    q = _FIGURE["batch"] / _FIGURE["records"]
    return (
        Single("all shared, ε = 4", shared | {"sigma": _SHARED[4]}, lambda: _replaced(_SHARED[4])),
        Single(
            "Figure 2, private half",
            {"canary": "private", **_FIGURE, "sigma": sigma},
            lambda: CarriedRun(sigma, rounds=_FIGURE["rounds"], p=_FIGURE["p"], q=q),
        ),
    )


def stakes() -> tuple[Stake, ...]:
    """Figure 4 (p = 0.5, q = 0.2) with the noise of Lemma 1: 100 rounds of a client, and Theorem 3 for them."""
    p, q, rounds = 0.5, 0.2, 100
    sigma, constant = float(paper.local_sigma(*_LOCAL)), paper.local_constant(_LOCAL[1])
    total = float(paper.total_local_epsilon(_LOCAL[0], rounds, p=p, q=q, constant=constant))
    run = CarriedRun(sigma, rounds=rounds, p=p, q=q)
    return (Stake("100 rounds of Figure 4", lambda: run, total, _LOCAL[1]),)


def audit_tasks(parameters: dict[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """The runs of the audit: those of `cases`, then those of `singles`."""
    return [
        *tasks("mspafl/audit", cases(), parameters),
        *one_run.tasks("mspafl/one_run", singles(), parameters),
    ]
