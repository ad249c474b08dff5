"""Claims of a paper and the verdicts on them.

A claim stands in the catalogue, with its tolerance, before anything runs. A notebook decides it:
it gives its own value and the verdict follows, by the rules of this module. Which cell decided is
kept, so that the ledger can link to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from reproduce import quantities

REPRODUCED, DIFFERS, UNDECIDED = "reproduced", "differs", "undecided"
NOT_TESTED, UNATTAINABLE, PENDING = "not tested", "not attainable", "not yet"
NOT_APPLICABLE = "not applicable"
"""The verdict on a claim whose subject a changed parameter touches; no committed run has it."""

RESULT_VERDICTS = (
    *(REPRODUCED, DIFFERS, UNDECIDED),
    *(NOT_TESTED, UNATTAINABLE, PENDING, NOT_APPLICABLE),
)
"""Verdicts on a number or an order of curves. "undecided": the interval contains both answers; "not
tested": the runs do not meet the conditions under which the claim can be tested."""

DERIVATION_VERDICTS = (
    *("holds", "loose", "vacuous", "misprint", "gap", "false"),
    *(PENDING, NOT_APPLICABLE),
)
"""Verdicts on a numbered derivation."""

OPEN = (UNATTAINABLE, PENDING, NOT_APPLICABLE)
"""Verdicts that say that nothing was compared."""

KINDS = ("number", "order", "derivation")
MEANS = ("formula", "run", "measurement")
"""How a claim is decided: a formula is evaluated, training runs are made, or times are measured."""

NEED_CORRECTION = ("misprint", "false")
"""Verdicts that must come with the correct form, or the nearest statement that is true."""


class ClaimError(ValueError):
    """A claim is ill-formed, or is decided in a way its kind does not allow."""


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    Attributes:
        id: unique within its figure.
        figure: `<paper>/<figure>`, the notebook that decides it.
        kind: "number", "order" or "derivation".
        where: the place in the paper.
        statement: the claim in one line.
        paper: the paper's value (kind "number" only): a number, or a list of numbers.
        rtol, atol: the tolerance on |ours - paper|: atol + rtol |paper|.
        unit: printed after the values.
        quote: the paper's own words or number that the claim tests; empty for a claim of ours.
        own: whether it is a statement of ours, which is counted apart.
        by: what decides it, one of `MEANS`.
        evidence: the id of the claim of the same figure whose evidence it shares; "" for its own.
        needs: ids of the figure's conditions without which it cannot be tested.
        runs: whether training runs decide it, which may nearly tie: then another machine may find
            otherwise (kind "order" only).
        free: parameters of the notebook whose change leaves the claim meaningful, those of the
            figure included; with any other change the claim is "not applicable".
    """

    id: str
    figure: str
    kind: str
    where: str
    statement: str
    paper: float | tuple[float, ...] | None = None
    rtol: float | None = None
    atol: float | None = None
    unit: str = ""
    quote: str = ""
    own: bool = False
    by: str = "formula"
    evidence: str = ""
    needs: tuple[str, ...] = ()
    runs: bool = False
    free: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        name = f"claim {self.full_id}"
        if self.by not in MEANS:
            raise ClaimError(f"{name}: by {self.by!r} is none of {', '.join(MEANS)}")
        if self.own not in (False, True) or (self.own and self.quote):
            raise ClaimError(f"{name}: `own` must be true or false, and false with a `quote`")
        if self.kind not in KINDS:
            raise ClaimError(f"{name}: kind {self.kind!r} is none of {', '.join(KINDS)}")
        if not self.where.strip() or not self.statement.strip():
            raise ClaimError(f"{name}: `where` and `statement` must not be empty")
        if self.runs not in (False, True) or (self.runs and self.kind != "order"):
            raise ClaimError(
                f"{name}: `runs` must be true or false, and false unless of kind 'order'"
            )
        numeric = {"paper": self.paper, "rtol": self.rtol, "atol": self.atol}
        given = [key for key, value in numeric.items() if value is not None]
        if self.kind != "number":
            if given:
                raise ClaimError(f"{name}: {', '.join(given)} belong to kind 'number' only")
            return
        if self.paper is None:
            raise ClaimError(f"{name}: kind 'number' needs `paper`, the paper's value")
        if self.rtol is None and self.atol is None:
            raise ClaimError(f"{name}: kind 'number' needs a tolerance, `rtol` or `atol`")
        for key in given:
            values = _numbers(f"{name}: {key}", numeric[key])
            if key != "paper" and (len(values) > 1 or values[0] < 0):
                raise ClaimError(f"{name}: {key} must be one number >= 0, got {numeric[key]!r}")

    @property
    def full_id(self) -> str:
        """`<paper>/<figure>/<claim>`."""
        return f"{self.figure}/{self.id}"

    @classmethod
    def from_table(cls, figure: str, table: Mapping[str, Any]) -> Claim:
        """Make a claim from its catalogue table; unknown or missing keys raise `ClaimError`."""
        known = {field.name for field in fields(cls)} - {"figure"}
        name = f"claim {figure}/{table.get('id', '?')}"
        if unknown := sorted(set(table) - known):
            raise ClaimError(
                f"{name}: unknown key {', '.join(unknown)}; known: {', '.join(sorted(known))}"
            )
        if missing := [key for key in ("id", "kind", "where", "statement") if key not in table]:
            raise ClaimError(f"{name}: missing key {', '.join(missing)}")
        values = dict(table)
        if isinstance(values.get("paper"), list):
            values["paper"] = tuple(values["paper"])
        for key in ("free", "needs"):
            values[key] = names_of(f"{name}: {key}", values.get(key, ()))
        return cls(figure=figure, **values)

    def touched(self, changed: Iterable[str]) -> list[str]:
        """Those of the `changed` parameters that the claim is about: all that are not free."""
        return [name for name in changed if name not in self.free]

    def allows(self, value: float, paper: float) -> bool:
        """Whether |value - paper| is within the tolerance (its boundary is inside)."""
        limit = (self.atol or 0.0) + (self.rtol or 0.0) * abs(paper)
        return abs(value - paper) <= limit + 4 * math.ulp(max(abs(value), abs(paper)))

    def digits(self) -> int:
        """Significant digits of our value: one more than the tolerance can tell, 2 to 6."""
        scale = max((abs(value) for value in _numbers("paper", self.paper)), default=0.0)
        width = (self.rtol or 0.0) + ((self.atol or 0.0) / scale if scale else 0.0)
        return 6 if width <= 0 else min(6, max(2, 1 + math.ceil(-math.log10(width))))

    def paper_text(self) -> str:
        """The paper's side of the comparison, as printed in tables."""
        return self.statement if self.paper is None else quantities.text(self.paper, self.unit)

    def tolerance_text(self) -> str:
        """The tolerance, as printed in tables; empty for claims that are no number."""
        parts = []
        if self.rtol is not None:
            parts.append(f"{100 * self.rtol:.3g} %")
        if self.atol is not None:
            parts.append(quantities.text(self.atol, self.unit))
        return " + ".join(parts)


def names_of(where: str, value: Any) -> tuple[str, ...]:
    """`value`, a list of names, as a tuple; anything else raises `ClaimError`."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ClaimError(f"{where} must be a list of names, got {value!r}")
    return tuple(value)


@dataclass(frozen=True)
class Condition:
    """What must hold of a figure's runs before they can test a claim of the paper.

    Attributes:
        id: unique within its figure.
        statement: the condition in one line.
    """

    id: str
    statement: str

    @classmethod
    def from_table(cls, figure: str, table: Mapping[str, Any]) -> Condition:
        """Make a condition from its catalogue table; anything but two texts raises `ClaimError`."""
        name = f"condition {figure}/{table.get('id', '?')}"
        if set(table) != {"id", "statement"}:
            raise ClaimError(f"{name}: the keys must be id and statement, got {sorted(table)}")
        if not all(isinstance(value, str) and value.strip() for value in table.values()):
            raise ClaimError(f"{name}: `id` and `statement` must be texts that are not empty")
        return cls(**table)


@dataclass(frozen=True)
class Met:
    """Whether the runs at hand meet a condition, and the numbers that say so."""

    holds: bool
    evidence: str


@dataclass(frozen=True)
class Decision:
    """What a notebook found about a claim.

    Attributes:
        claim: id of the claim within the figure.
        verdict: one of `RESULT_VERDICTS` or `DERIVATION_VERDICTS`, as the claim's kind has it.
        ours: our side of the comparison, as printed.
        reason: why it differs, what is missing, or a remark; for derivations the correct form.
        value: our number or numbers, for claims of kind "number".
        cell: id of the deciding cell ("" outside a notebook).
    """

    claim: str
    verdict: str
    ours: str
    reason: str = ""
    value: float | list[float] | None = None
    cell: str = ""

    def as_json(self, claim: Claim) -> dict[str, Any]:
        """The row of the figure's json: the catalogue's claim, and the decision."""
        row = asdict(self) | {"id": claim.id, "kind": claim.kind, "where": claim.where}
        row |= {"statement": claim.statement, "paper": claim.paper_text()}
        row["tolerance"] = claim.tolerance_text()
        del row["claim"]
        return row


def decide_number(
    claim: Claim,
    ours: Any,
    reason: str,
    cell: str = "",
    shown: str = "",
    interval: tuple[float, float] | None = None,
) -> Decision:
    """Compare `ours` (a number, or as many as the paper gives) with the paper's value.

    `shown`, where given, is printed in place of our numbers. With an `interval`, of one number that
    training runs estimate, the verdict is that of all its values: "undecided" where it holds both
    values within the tolerance and others.

    Raises:
        ClaimError: the claim is no number, the counts differ, a value is not finite, or the
            verdict is "differs" and there is no reason.
    """
    _kind(claim, "number")
    paper = _numbers(f"claim {claim.full_id}: paper", claim.paper)
    values = _numbers(f"claim {claim.full_id}: ours", ours)
    if len(values) != len(paper):
        raise ClaimError(
            f"claim {claim.full_id}: the paper gives {len(paper)} numbers, ours are {len(values)}"
        )
    agree = all(claim.allows(value, stated) for value, stated in zip(values, paper, strict=True))
    verdict = REPRODUCED if agree else DIFFERS
    text = shown.strip() or quantities.text(values, claim.unit, claim.digits())
    if interval is not None:
        verdict = _of_interval(claim, values, paper, interval)
        text = shown.strip() or quantities.with_interval(
            values[0], interval, claim.unit, claim.digits()
        )
    if verdict == DIFFERS and not reason.strip():
        raise ClaimError(
            f"claim {claim.full_id} differs (paper {claim.paper_text()}, ours {text}, tolerance "
            f"{claim.tolerance_text()}) and no reason is given: pass note=… saying why"
        )
    value = values if isinstance(claim.paper, tuple) else values[0]
    return Decision(claim.id, verdict, text, reason.strip(), value, cell)


def _of_interval(
    claim: Claim, values: list[float], paper: list[float], interval: tuple[float, float]
) -> str:
    """The verdict on one number that is only known to lie in an interval."""
    low, high = _numbers(f"claim {claim.full_id}: interval", interval)
    if len(values) != 1 or not low <= values[0] <= high:
        raise ClaimError(
            f"claim {claim.full_id}: interval must hold our one number, got {interval!r} for {values!r}"
        )
    if claim.allows(low, paper[0]) and claim.allows(high, paper[0]):
        return REPRODUCED
    near = min(max(paper[0], low), high)
    return UNDECIDED if claim.allows(near, paper[0]) else DIFFERS


def decide_order(claim: Claim, holds: Any, ours: str, reason: str, cell: str = "") -> Decision:
    """Record whether a statement about curves `holds`; None: the evidence contains both answers.

    A `reason` is needed unless it holds; then it is dropped.
    """
    _kind(claim, "order")
    if holds is not None and type(holds).__name__ not in ("bool", "bool_"):
        raise ClaimError(f"claim {claim.full_id}: holds must be True, False or None, got {holds!r}")
    _say(claim, "ours", ours)
    if not holds and not reason.strip():
        raise ClaimError(
            f"claim {claim.full_id} does not hold and no reason is given: pass reason=…"
        )
    if holds:
        return Decision(claim.id, REPRODUCED, ours.strip(), "", None, cell)
    verdict = UNDECIDED if holds is None else DIFFERS
    return Decision(claim.id, verdict, ours.strip(), reason.strip(), None, cell)


def untested(found: Decision, unmet: Mapping[str, Condition], why: str) -> Decision:
    """The decision on a claim whose conditions are not all met: "not tested", with the reason."""
    names = "; ".join(condition.statement for condition in unmet.values())
    return replace(found, verdict=NOT_TESTED, reason=f"condition not met: {names} ({why})")


def decide_derivation(
    claim: Claim, verdict: str, evidence: str, correct: str, cell: str = ""
) -> Decision:
    """Record the verdict on a derivation, its evidence, and the correct form if due."""
    _kind(claim, "derivation")
    if verdict not in DERIVATION_VERDICTS:
        raise ClaimError(
            f"claim {claim.full_id}: verdict {verdict!r} is none of "
            f"{', '.join(DERIVATION_VERDICTS)}"
        )
    _say(claim, "evidence", evidence)
    if verdict in NEED_CORRECTION and not correct.strip():
        raise ClaimError(
            f"claim {claim.full_id}: verdict {verdict!r} needs correct=…, the form that is true"
        )
    return Decision(claim.id, verdict, evidence.strip(), correct.strip(), None, cell)


def decide_check(claim: Claim, ok: Any, evidence: str, correct: str, cell: str = "") -> Decision:
    """The verdict that a check of a derivation yields: holds, false, or gap where it is inconclusive.

    Args:
        claim: of kind "derivation".
        ok: True; False, the check refutes the statement; None, it cannot tell.
        evidence: what was found.
        correct: the nearest statement that is true, needed where the statement is refuted.
        cell: the deciding cell.

    Raises:
        ClaimError: `ok` is something else, or a text is missing.
    """
    if ok is not None and type(ok).__name__ not in ("bool", "bool_"):
        raise ClaimError(f"claim {claim.full_id}: ok must be True, False or None, got {ok!r}")
    verdict = "gap" if ok is None else "holds" if ok else "false"
    return decide_derivation(claim, verdict, evidence, "" if verdict == "holds" else correct, cell)


def decide_open(claim: Claim, verdict: str, reason: str, cell: str = "") -> Decision:
    """Record why a claim is "not attainable" (no derivation can be), "not yet" or "not applicable"."""
    if verdict == UNATTAINABLE and claim.kind == "derivation":
        raise ClaimError(f"claim {claim.full_id}: a derivation cannot be {UNATTAINABLE!r}")
    _say(claim, "reason", reason)
    return Decision(claim.id, verdict, "-", reason.strip(), None, cell)


def _kind(claim: Claim, kind: str) -> None:
    if claim.kind != kind:
        raise ClaimError(f"claim {claim.full_id} is of kind {claim.kind!r}, not {kind!r}")


def _say(claim: Claim, name: str, text: str) -> None:
    if not isinstance(text, str) or not text.strip():
        raise ClaimError(
            f"claim {claim.full_id}: {name} must be a text that is not empty, got {text!r}"
        )


def _numbers(name: str, value: Any) -> list[float]:
    """`value`, a number or a flat sequence of numbers, as a list of finite floats."""
    items = value.tolist() if hasattr(value, "tolist") else value
    items = list(items) if isinstance(items, list | tuple) else [items]
    for item in items:
        number = isinstance(item, int | float) and not isinstance(item, bool)
        if not number and not hasattr(item, "__float__") or isinstance(item, str | bool):
            raise ClaimError(f"{name} must be a number, got {item!r}")
        if not math.isfinite(item):
            raise ClaimError(f"{name} must be finite, got {item!r}")
    if not items:
        raise ClaimError(f"{name} is empty")
    return [float(item) for item in items]
