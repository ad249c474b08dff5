"""The settings of PM-SFL and SplitFed-DP that are audited, and the guarantees that are attacked there."""

from __future__ import annotations

from functools import cache
from typing import Any

from scipy.special import expit

from repro.accounting import compose
from repro.accounting.laplace import SummedLaplace
from repro.accounting.pmsfl.masks import SampledMask
from repro.accounting.pmsfl.releases import adam_reach
from reproduce.papers import one_run
from reproduce.papers.attacker import Stake
from reproduce.papers.audit_cases import Case, Printed, tasks
from reproduce.papers.auditing import Profile
from reproduce.papers.one_run import Single
from reproduce.papers.pmsfl.audit import reach

__all__ = ["audit_tasks", "cases", "singles", "stakes"]

_COORDINATES = 64
_MASKS = {1: 0.00847, 2: 0.0159, 4: 0.0295}
"""Nominal epsilon of an upload -> learning rate of the scores, so that the upper bound is at most that."""

_SMASHED = {1: 0.0497, 2: 0.0936, 4: 0.1766}
"""Nominal epsilon of all smashed data of a record -> epsilon of one activation, likewise."""

_COMMON = {
    "coordinates": _COORDINATES, "iterations": 4, "batch": 1, "rate": 0.001, "smashed_epsilon": 0.1,
    "update_epsilon": 5.0, "update_delta": 1e-5, "stacked": 2000,
}  # fmt: skip
_ACTIVATIONS = {"coordinates": 16, "iterations": 2}
_BUDGET = {"smashed": 0.1, "updates": 5.0}
"""Of the paper, section 3: for the smashed data, and for the updates of a round at delta = 1e-5."""


@cache
def cases() -> tuple[Case, ...]:
    """All settings, from top to bottom of the picture."""
    masks = []
    for epsilon, rate in _MASKS.items():
        config = {**_COMMON, "canary": "masks", "rate": rate}
        masks.append(Case(f"masks, ε = {epsilon}", config, 1 / reach(config), _upload))
    smashed = [
        Case(
            f"smashed, ε = {epsilon}",
            {**_COMMON, **_ACTIVATIONS, "canary": "smashed", "smashed_epsilon": each},
            1 / each,
            _activations,
        )
        for epsilon, each in _SMASHED.items()
    ]
    return (*masks, *smashed, *_attacked())


def _upload(noise: float) -> Profile:
    """The mask of one round: `noise` is 1 over the distance from the common start that scores reach.

    No gradients move a score further in R steps than `adam_reach`, 0.3 % beyond the canary's reach for R = 4.
    The two ends of that range dominate every other pair of probabilities in it: a channel from bits to bits
    leads from the ends to any of them.
    """
    steps = _COMMON["iterations"]
    far = adam_reach(steps, rate=1 / (steps * noise))
    return SampledMask(float(expit(far)), second=float(expit(-far)), count=_COORDINATES)


def _activations(scale: float) -> Profile:
    """All activations that a record causes in a round; `scale` is that of the noise over their range."""
    count = _ACTIVATIONS["coordinates"] * _ACTIVATIONS["iterations"]
    return compose(SummedLaplace(scale), count)


def _attacked() -> tuple[Case, ...]:
    """The budgets of the paper, against what it sends."""
    return (
        Case(
            "smashed, 64 × 4",
            {**_COMMON, "canary": "smashed"},
            1 / _BUDGET["smashed"],
            None,
            printed=(Printed("smashed-budget", _BUDGET["smashed"], 0.0),),
            scale=0.2,
            least=4000,
        ),
        Case(
            "updates, batch of 32",
            {
                **_COMMON,
                "canary": "updates",
                "coordinates": 1,
                "iterations": 25,
                "batch": 32,
                "stacked": 200,
            },
            1.0,
            None,
            printed=(Printed("update-budget", _BUDGET["updates"], 1e-5),),
            scale=0.05,
            least=12_000,
        ),
        Case(
            "unnoised smashed data",
            {**_COMMON, "canary": "unnoised", "iterations": 1},
            1.0,
            None,
            printed=(Printed("masks-alone", sum(_BUDGET.values()), 1e-5),),
            scale=0.1,
            least=12_000,
        ),
    )


@cache
def singles() -> tuple[Single, ...]:
    """Rounds with many canaries: at epsilon = 4, and one coordinate at the rates of Table 1 (profile desk)."""
    common = {key: value for key, value in _COMMON.items() if key != "stacked"} | {
        "canary": "masks"
    }
    four = common | {"rate": _MASKS[4]}
    figure = common | {"coordinates": 1, "iterations": 10, "rate": 0.3}
    far = adam_reach(figure["iterations"], rate=figure["rate"])
    return (
        Single("masks, ε = 4", four, lambda: _upload(1 / reach(four))),
        Single(
            "Table 1, one coordinate",
            figure,
            lambda: SampledMask(float(expit(far)), second=float(expit(-far)), count=1),
            sums=False,
        ),
    )


def stakes() -> tuple[Stake, ...]:
    """Smashed data with noise for the paper's budget of 0.1: one activation, and 64 in each of four steps."""
    scale = 1 / _BUDGET["smashed"]
    return (
        Stake("one activation", lambda: SummedLaplace(scale), _BUDGET["smashed"]),
        Stake(
            "256 activations of a round",
            lambda: compose(SummedLaplace(scale), 256),
            _BUDGET["smashed"],
        ),
    )


def audit_tasks(parameters: dict[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """The runs of the audit: those of `cases`, then those of `singles`."""
    return [
        *tasks("pmsfl/audit", cases(), parameters),
        *one_run.tasks("pmsfl/one_run", singles(), parameters),
    ]
