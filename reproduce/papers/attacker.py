"""What a paper's own parameters mean for an attacker who tests whether one record was used.

The attacker allows one false alarm in a hundred: of the records that were not used, one in a hundred is called a
member. What counts is how many of the members are found at that price. (epsilon, delta)-DP promises at most the
smaller of e^epsilon FPR + delta and 1 - e^-epsilon (1 - delta - FPR) (Kairouz, Oh and Viswanath 2015,
Theorem 2.1); our curves say what no attacker exceeds and what a certain one reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from reproduce.notebook import Workbook
from reproduce.quantities import percent

__all__ = ["Risk", "Stake", "conclude", "decide", "numbers", "promised", "table"]

FALSE_ALARMS = 0.01
"""FPR at which attackers are compared."""


class Curve(Protocol):
    """What is needed of a mechanism or a composition of `repro.accounting`."""

    def tpr_at_fpr(self, fpr: float, *, method: str) -> Any:
        """See `repro.accounting.mechanism.Mechanism.tpr_at_fpr`."""


@dataclass(frozen=True)
class Stake:
    """One release at a paper's own parameters.

    Attributes:
        name: in tables and sentences; what is released, and where in the paper.
        mechanism: whose curve holds for it; called once.
        epsilon, delta: what the paper says of it; None where it prints no guarantee of the whole.
    """

    name: str
    mechanism: Callable[[], Curve]
    epsilon: float | None = None
    delta: float = 0.0


@dataclass(frozen=True)
class Risk:
    """Shares of the members that an attacker finds at FPR `FALSE_ALARMS`.

    Attributes:
        reached: by a certain attacker.
        most: by any attacker, at most.
        promised: at most, if the paper's guarantee were true; None where it prints none.
    """

    reached: float
    most: float
    promised: float | None


def promised(epsilon: float, delta: float, fpr: float = FALSE_ALARMS) -> float:
    """The largest TPR at `fpr` that (epsilon, delta)-DP allows, in [0, 1]."""
    near, far = np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * (1 - delta - fpr)
    return float(np.clip(min(near, far), 0.0, 1.0))


def conclude(stakes: Sequence[Stake]) -> dict[str, Risk]:
    """What an attacker finds in each release, by name."""
    found = {}
    for stake in stakes:
        made = stake.mechanism()
        reached, most = (
            float(made.tpr_at_fpr(FALSE_ALARMS, method=method)) for method in ("lower", "upper")
        )
        told = None if stake.epsilon is None else promised(stake.epsilon, stake.delta)
        found[stake.name] = Risk(reached, most, told)
    return found


def decide(book: Workbook, found: Mapping[str, Risk]) -> None:
    """The verdict "attacker": no certain attacker finds more than a paper's guarantee promises."""
    broken = [name for name, one in found.items() if _broken(one)]
    book.statement(
        "attacker",
        not broken,
        "; ".join(f"{name}: {_sentence(one)}" for name, one in found.items()),
        f"an attacker finds more than the guarantee promises: {', '.join(broken)}"
        if broken
        else "",
    )


def _broken(one: Risk) -> bool:
    return one.promised is not None and one.reached > one.promised


def _sentence(one: Risk) -> str:
    between = percent(one.reached), percent(one.most)
    finds = between[0] if between[0] == between[1] else f"between {between[0]} and {between[1]}"
    tail = "" if one.promised is None else f", where the guarantee promises {percent(one.promised)}"
    return f"the best attacker finds {finds} of the members{tail}"


def table(found: Mapping[str, Risk]) -> pd.DataFrame:
    """One row a release: the share of members that is found at one false alarm in a hundred."""
    rows = {
        name: {
            "a certain attacker finds": percent(one.reached),
            "no attacker finds more than": percent(one.most),
            "the paper's guarantee promises": "-"
            if one.promised is None
            else percent(one.promised),
        }
        for name, one in found.items()
    }
    return pd.DataFrame(rows).T


def numbers(found: Mapping[str, Risk]) -> dict[str, Any]:
    """What stands behind the table, for the figure's record."""
    return {
        name: {key: value for key, value in vars(one).items() if value is not None}
        for name, one in found.items()
    }
