"""How a notebook decides claims: every verdict of the workbook is recorded here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reproduce import changes, claims, sources
from reproduce.catalogue import Figure
from reproduce.claims import Claim, ClaimError, Decision, Met


class WorkbookError(ValueError):
    """A notebook uses its workbook wrongly; the message says what to change."""


class Verdicts:
    """The claims and conditions of one figure, and what a notebook found about them.

    Args:
        entry: the figure in the catalogue.
        changed: parameters that depart from the profile's own values.
        told: the same in words.
    """

    def __init__(self, entry: Figure, changed: dict[str, Any], told: str) -> None:
        self.id = entry.id
        self.entry = entry
        self.changed = changed
        self._told = told
        self._claims: dict[str, Claim] = {claim.id: claim for claim in entry.claims}
        self._conditions = {one.id: one for one in entry.conditions}
        self._decisions: dict[str, Decision] = {}
        self._met: dict[str, Met] = {}

    def number(
        self,
        claim_id: str,
        ours: Any,
        note: str = "",
        shown: str = "",
        interval: tuple[float, float] | None = None,
    ) -> str:
        """Compare our number with the paper's, to the catalogue's tolerance; return the verdict.

        `note` is the reason, and may not be missing when the verdict is "differs". `shown` stands
        for our numbers in the table. With an `interval` (low, high) around one number that runs
        estimate, the verdict is "undecided" where it holds values within the tolerance and others.
        Measured times come from `measured`.
        """
        return self._decide(
            claim_id,
            lambda claim, cell: claims.decide_number(
                claim, ours, note or self._excuse, cell, shown, interval
            ),
        )

    def statement(self, claim_id: str, holds: bool | None, ours: str, reason: str = "") -> str:
        """Record whether a statement about curves holds on ours; return the verdict.

        `holds` is None where the evidence contains both answers ("undecided"). `ours` says what we
        found, in rounded numbers; `reason` may not be missing unless it holds. What training runs
        over seeds decide goes through `order`.
        """
        return self._decide(
            claim_id,
            lambda claim, cell: claims.decide_order(
                claim, holds, ours, reason or self._excuse, cell
            ),
        )

    def order(self, claim_id: str, answer: Any, hint: str = "") -> str:
        """Record what `reproduce.papers.statistics.Comparisons` answers; return the verdict.

        `hint` is added to the reason where the answer is not yes: what could explain or decide it.
        """
        reason = "; ".join(filter(None, [answer.reason, hint]))
        return self.statement(claim_id, answer.holds, answer.text, reason)

    def condition(self, condition_id: str, holds: bool, evidence: str) -> bool:
        """Record whether the runs at hand meet a condition of the catalogue; return `holds`.

        A claim that `needs` a condition which is not met is "not tested", whatever its numbers say.
        """
        if condition_id not in self._conditions:
            known = ", ".join(self._conditions) or "none"
            message = f"{self.id}: the catalogue has no condition {condition_id!r}; it has: {known}"
            raise WorkbookError(message)
        if type(holds).__name__ not in ("bool", "bool_") or not evidence.strip():
            raise WorkbookError(
                f"{self.id}: condition {condition_id!r} needs True or False and its evidence, got "
                f"{holds!r} and {evidence!r}"
            )
        self._met[condition_id] = Met(bool(holds), evidence.strip())
        return bool(holds)

    def check(self, claim_id: str, ok: bool | None, evidence: str, correct: str = "") -> str:
        """Record what a check of a derivation found; return the verdict.

        True: holds. False: false, and `correct` gives the nearest statement that is true. None: the
        check is inconclusive, a gap. A statement that nothing checks never holds.
        """
        excuse = self._excuse if ok is False else ""
        return self._decide(
            claim_id,
            lambda claim, cell: claims.decide_check(claim, ok, evidence, correct or excuse, cell),
        )

    def derivation(self, claim_id: str, verdict: str, evidence: str, correct: str = "") -> str:
        """Record the verdict on a derivation: holds, loose, vacuous, misprint, gap or false.

        `evidence` is what was found (the factor, the counterexample); "misprint" and "false" need
        `correct`, the form or the nearest statement that is true.
        """
        if verdict in claims.NEED_CORRECTION:
            correct = correct or self._excuse
        return self._decide(
            claim_id,
            lambda claim, cell: claims.decide_derivation(claim, verdict, evidence, correct, cell),
        )

    def unattainable(self, claim_id: str, reason: str) -> str:
        """Record that nobody can reproduce this number (data never published, say), and why."""
        return self._decide(
            claim_id,
            lambda claim, cell: claims.decide_open(claim, claims.UNATTAINABLE, reason, cell),
        )

    def pending(self, claim_id: str, reason: str) -> str:
        """Record that this claim is not decided yet, and what it waits for."""
        return self._decide(
            claim_id, lambda claim, cell: claims.decide_open(claim, claims.PENDING, reason, cell)
        )

    def applies(self, *claim_ids: str) -> bool:
        """Whether all these claims are meaningful with the parameters at hand.

        True with unchanged parameters. Else a claim applies when every changed parameter is `free`
        in the catalogue, for the figure or for the claim. A claim that does not apply needs no
        verdict before `table`.

            if book.applies("order"):
                book.statement("order", …)
        """
        return not any(self._claim(name).touched(self.changed) for name in claim_ids)

    def decision(self, claim_id: str) -> dict[str, str]:
        """What is decided of one claim: verdict, ours and reason; {} as long as anything is open.

        That is so before the cell that decides it, and those that look at the conditions it needs.
        """
        claim = self._claim(claim_id)
        if claim_id not in self._decisions or not set(claim.needs) <= set(self._met):
            return {}
        found = self._final(claim_id)
        return {"verdict": found.verdict, "ours": found.ours, "reason": found.reason}

    # Inner parts -----------------------------------------------------------------------------

    @property
    def _excuse(self) -> str:
        """The reason where a cell gives none, with changed parameters: they are not the paper's."""
        return f"with {self._told}" if self.changed else ""

    def _claim(self, claim_id: str) -> Claim:
        try:
            return self._claims[claim_id]
        except KeyError:
            known = ", ".join(self._claims) or "none"
            message = f"{self.id}: the catalogue has no claim {claim_id!r}; it has: {known}"
            raise WorkbookError(message) from None

    def _decide(self, claim_id: str, decide: Callable[[Claim, str], Decision]) -> str:
        """Keep what `decide` finds; with changed parameters nothing raises that is about values."""
        claim, cell = self._claim(claim_id), self._cell()
        reason = changes.blamed(touched) if (touched := claim.touched(self.changed)) else ""
        if not reason:
            try:
                return self._keep(decide(claim, cell))
            except ClaimError as problem:
                if not self.changed:
                    raise
                reason = f"{problem} ({self._excuse})"
        return self._keep(claims.decide_open(claim, claims.NOT_APPLICABLE, reason, cell))

    def _keep(self, decision: Decision) -> str:
        before = self._decisions.get(decision.claim)
        if before is not None and before.cell != decision.cell and self._cell_exists(before.cell):
            raise WorkbookError(
                f"{self.id}: claim {decision.claim!r} is decided twice, by the cells "
                f"{before.cell} and {decision.cell or '(unknown)'}"
            )
        self._decisions[decision.claim] = decision
        return decision.verdict

    def _final(self, key: str) -> Decision:
        """The decision on a claim, in the light of the conditions that it needs."""
        claim, found = self._claims[key], self._decisions[key]
        unmet = [one for one in claim.needs if one in self._met and not self._met[one].holds]
        if not unmet or found.verdict in claims.OPEN:
            return found
        why = "; ".join(self._met[one].evidence for one in unmet)
        return claims.untested(found, {one: self._conditions[one] for one in unmet}, why)

    def _cell(self) -> str:
        return sources.running_cell(self.entry.notebook)

    def _cell_exists(self, cell: str) -> bool:
        return bool(cell) and cell in sources.cells(self.entry.notebook)
