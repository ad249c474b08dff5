"""The cases of a paper's audit, what its trainings say about each, and the verdicts that follow.

Half of a case's records choose the thresholds, the other half is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from repro._validate import integer
from reproduce.notebook import Workbook
from reproduce.papers.auditing import CHOOSING, Audit, Profile, Roc, audit, excess, free_epsilon
from reproduce.papers.words import number

__all__ = ["Case", "Outcome", "Printed", "conclude", "decide", "numbers", "table", "tasks", "told"]

SURE = 1e-6
"""A guarantee counts as beaten where its p-value is below this."""

REACHED = 0.9
"""The share of our upper bound that the implied epsilon reaches where the canary is a worst case."""

ENOUGH = 400_000
"""Trainings for each half of a case without which the implied epsilon is not compared with `REACHED`."""


@dataclass(frozen=True)
class Printed:
    """A guarantee to test.

    Attributes:
        claim: of the catalogue, which says that the attack beats it.
        epsilon, delta: the guarantee; of the whole training.
    """

    claim: str
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Case:
    """One setting of the system, trained with and without its canary.

    Attributes:
        name: in pictures and tables.
        config: of its task, without the number of trainings.
        sigma: the noise of the trainings, > 0.
        family: noise -> the mechanism, or composition, whose upper bound holds for the system; None where
            no bound of ours covers it.
        pair: what the audited pair of data sets attains by method "lower"; None: `family` at `sigma`.
        weaker: why the canary is no worst case; "" where it is one.
        printed: guarantees that the attack is to beat.
        scale: trainings of this case, as a multiple of the parameter, > 0.
        least: trainings of a record at least, whatever the parameter.
        bound: noise -> the mechanism whose upper bound holds, where `family` is that of the canary alone.
        compared: whether the implied epsilon is compared with `REACHED`.
    """

    name: str
    config: Mapping[str, Any]
    sigma: float
    family: Callable[[float], Profile] | None
    pair: Profile | None = None
    weaker: str = ""
    printed: tuple[Printed, ...] = ()
    scale: float = 1.0
    least: int = 2000
    bound: Callable[[float], Profile] | None = None
    compared: bool = True


@dataclass(frozen=True)
class Outcome:
    """What the trainings of a case say.

    Attributes:
        case: the case.
        roc: counts of the half that is tested.
        audit: the bounds; None where no bound of ours covers the system.
        free: distribution-free lower bound on epsilon.
        p_values: of each printed guarantee, by claim.
    """

    case: Case
    roc: Roc
    audit: Audit | None
    free: float
    p_values: Mapping[str, float] = field(default_factory=dict)


def tasks(
    name: str, cases: Sequence[Case], parameters: Mapping[str, Any]
) -> list[tuple[str, dict[str, Any], int]]:
    """Every record of an audit as (task, configuration, seed), case after case.

    Args:
        name: of the task.
        cases: of the paper.
        parameters: of the notebook: "trainings" of one record, "records" (an even number) of a case.

    Raises:
        ValueError: an argument out of range.
    """
    records = integer("records", parameters["records"], 2)
    if records % 2:
        raise ValueError(f"records must be even, half of them choose thresholds, got {records}")
    each = integer("trainings", parameters["trainings"], 1000)
    return [
        (name, {**case.config, "trainings": max(case.least, int(each * case.scale))}, seed)
        for case in cases
        for seed in range(records)
    ]


def conclude(
    cases: Sequence[Case], results: Sequence[Mapping[str, Any]], delta: float
) -> dict[str, Outcome]:
    """The outcome of every case.

    Args:
        cases: of the paper.
        results: of its `tasks`, in their order.
        delta: of the lower bounds on epsilon, in (0, 1).
    """
    each = len(results) // len(cases)
    found = {}
    covered = max(1, sum(case.family is not None for case in cases))
    for place, case in enumerate(cases):
        own = results[place * each : (place + 1) * each]
        choosing, testing = Roc.of(own[: each // 2]), Roc.of(own[each // 2 :])
        sharpest = int(np.argmax(free_epsilon(choosing, delta, CHOOSING)))
        bounds = None
        if case.family is not None:
            pair = case.pair or case.family(case.sigma)
            bounds = audit(
                choosing,
                testing,
                case.family,
                pair,
                case.sigma,
                delta,
                bound=case.bound,
                settings=covered,
            )
        p_values = {}
        for one in case.printed:
            best = int(np.argmin(excess(choosing, one.epsilon, one.delta)))
            p_values[one.claim] = float(excess(testing.at(best), one.epsilon, one.delta)[0])
        free = float(free_epsilon(testing.at(sharpest), delta)[0])
        found[case.name] = Outcome(case, testing, bounds, free, p_values)
    return found


def decide(book: Workbook, found: Mapping[str, Outcome], delta: float) -> None:
    """Every verdict of an audit: "below-upper", "reaches", and one for each printed guarantee."""
    covered = {name: one.audit for name, one in found.items() if one.audit is not None}
    over = [name for name, one in covered.items() if _exceeds(one)]
    closest = max(covered.values(), key=lambda one: one.implied / one.upper)
    book.statement(
        "below-upper",
        not over,
        f"{len(covered)} settings, {3 * len(covered)} bounds; the largest share of an upper bound is "
        f"{closest.implied / closest.upper:.3f}",
        f"above the upper bound: {', '.join(over)}" if over else "",
    )
    worst = {name: one for name, one in covered.items() if _a_worst_case(found[name].case)}
    halves = min(sum(found[name].roc.trainings) for name in worst)
    book.condition(
        "enough", halves >= ENOUGH, f"{halves:,} trainings in the half of a setting that is tested"
    )
    shares = {name: one.implied / one.upper for name, one in worst.items()}
    short = [name for name, share in shares.items() if share < REACHED]
    book.statement(
        "reaches",
        not short,
        "implied over upper: "
        + ", ".join(f"{share:.2f} ({name})" for name, share in shares.items()),
        f"below {REACHED}: {', '.join(short)}" if short else "",
    )
    attacked = sum(len(one.case.printed) for one in found.values())
    for one in found.values():
        for guarantee in one.case.printed:
            p = min(1.0, attacked * one.p_values[guarantee.claim])  # Bonferroni
            book.statement(
                guarantee.claim,
                p < SURE,
                f"({guarantee.epsilon:.4g}, {guarantee.delta:.2g}): p {_tail(p)} for all {attacked} "
                f"together; epsilon at least {one.free:.2f} at delta = {delta:g} ({one.case.name})",
                "" if p < SURE else f"the p-value is not below {SURE:g}",
            )


def _a_worst_case(case: Case) -> bool:
    return case.compared and not case.weaker


def _exceeds(one: Audit) -> bool:
    return bool(one.free > one.upper or one.implied > one.upper or one.tpr[1] > one.tpr_limit)


def _tail(p: float) -> str:
    return "< 1e-80" if p < 1e-80 else f"= {p:.1e}"


def table(found: Mapping[str, Outcome]) -> pd.DataFrame:
    """One row a case: printed and upper epsilon, the lower bounds, and TPR at FPR 0.1."""
    rows = {}
    for name, one in found.items():
        bounds = one.audit
        printed = ", ".join(f"{guarantee.epsilon:.3g}" for guarantee in one.case.printed)
        row = {"trainings": f"{2 * sum(one.roc.trainings):,}", "attacked": printed or "-"}
        row["upper"] = f"{bounds.upper:.3f}" if bounds else "-"
        row["(a) free"] = f"{one.free:.3f}"
        row["(b) implied"] = f"{bounds.implied:.3f}" if bounds else "-"
        row["(c) TPR"] = f"{bounds.tpr[0]:.3f} at FPR {bounds.fpr:.3f}" if bounds else "-"
        row["TPR lower, upper"] = (
            f"{bounds.tpr_lower:.3f}, {bounds.tpr_upper:.3f}" if bounds else "-"
        )
        rows[name] = row
    return pd.DataFrame(rows).T


def shares(found: Mapping[str, Outcome]) -> pd.DataFrame:
    """The lower bounds over the upper one, case by case, and why (b) is below 0.9 where it is.

    (a) and (b) are epsilons over our upper bound, "(b) at once" at a confidence for all cases together; (c) is the
    TPR over the largest that our bound allows at the FPR measured with it.
    """
    rows = {}
    for name, one in found.items():
        if (bounds := one.audit) is None:
            continue
        row = {
            "(a)": bounds.free / bounds.upper,
            "(b)": bounds.implied / bounds.upper,
            "(b) at once": bounds.together / bounds.upper,
            "(c)": bounds.tpr[0] / bounds.tpr_limit,
        }
        why = ""
        if row["(b)"] < REACHED:
            why = one.case.weaker or "too few trainings"
        rows[name] = {key: f"{share:.2f}" for key, share in row.items()} | {"why below 0.9": why}
    return pd.DataFrame(rows).T


def numbers(found: Mapping[str, Outcome]) -> dict[str, Any]:
    """What stands behind the picture, for the figure's record."""
    return {
        name: {
            "bounds": vars(one.audit) if one.audit is not None else {},
            "free": one.free,
            "weaker": one.case.weaker,
            "printed": {
                guarantee.claim: {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
                for guarantee in one.case.printed
            },
            "log10 p": {claim: float(np.log10(max(p, 1e-80))) for claim, p in one.p_values.items()},
        }
        for name, one in found.items()
    }


def told(found: Mapping[str, Outcome]) -> tuple[str, str, str]:
    """Three sentences: claimed, found, why."""
    tested = [(claim, p) for one in found.values() for claim, p in one.p_values.items()]
    beaten = [claim for claim, p in tested if p < SURE]
    covered = [one.audit for one in found.values() if one.audit is not None]
    share = [one.implied / one.upper for one in covered]
    weaker = {one.case.weaker for one in found.values() if one.audit is not None} - {""}
    return (
        f"Our upper bounds hold for the code that trains, and {len(tested)} other guarantees do not.",
        f"The implied epsilon is {min(share):.2f} to {max(share):.2f} of the upper bound in "
        f"{len(covered)} settings; {len(beaten)} of {len(tested)} guarantees are beaten with p < {SURE:g}.",
        "The canary is the worst case of the bound, so only the number of trainings keeps the two apart."
        if not weaker
        else "The gap comes from the number of trainings, and where the canary is weaker than the bound "
        f"allows: {'; '.join(sorted(weaker))}.",
    )


def caption(found: Mapping[str, Outcome], delta: float) -> str:
    """One or two sentences below the picture."""
    counts = [2 * sum(one.roc.trainings) for one in found.values()]
    trainings = " to ".join(dict.fromkeys(f"{count:,}" for count in (min(counts), max(counts))))
    return (
        f"Audit of the running code, {trainings} trainings a setting; one half chooses the "
        "attacker's thresholds, the other tests them. Left: ε of the whole training at δ = "
        f"{number(delta)}: lower bounds (a) from the error rates alone and (b) within the family of our upper bound; "
        "crosses: the guarantees attacked, at a δ of their own. Right: the attacker's ROC (names in the same colour), "
        "from 20 false alarms on; dotted: the most that our upper bound, where there is one, allows; grey: guessing."
    )


def reduction(found: Mapping[str, Outcome]) -> str:
    """What keeps the lower bounds away from the upper ones, for the footer; "" where nothing does."""
    least = min(
        sum(one.roc.trainings)
        for one in found.values()
        if one.audit is not None and _a_worst_case(one.case)
    )
    if least >= ENOUGH:
        return ""
    return f"as few as {least:,} trainings are tested in settings whose canary is the worst case"
