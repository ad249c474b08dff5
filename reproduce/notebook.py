"""What a notebook needs of the machinery: its catalogue entry, its verdicts, its files.

    book = Workbook("random_participation/fig1", parameters=dict(profile=profile, sigma=sigma))
    …
    book.statement("order", holds=bool(…), ours="largest violation 0")
    book.save(fig, data={…}, caption="…")
    book.table()

The order is free; a second call for the same thing replaces the first, so that cells can be run
again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from repro import paths
from repro.report import figure, provenance, style
from repro.report.numbers import DataError, plain
from reproduce import catalogue, claims, fingerprint, sources
from reproduce.claims import Claim, Decision
from reproduce.parameters import ParameterError, check


class WorkbookError(ValueError):
    """A notebook uses its workbook wrongly; the message says what to change."""


class ClaimTable(pd.DataFrame):
    """The verdicts of one notebook; a data frame that prints every row in full."""

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th style="text-align:left">{escape(str(name))}</th>' for name in self.columns
        )
        rows = (
            "".join(f'<td style="text-align:left">{escape(str(cell))}</td>' for cell in row)
            for row in self.itertuples(index=False)
        )
        body = "\n".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table>\n<tr>{head}</tr>\n{body}\n</table>"

    def __repr__(self) -> str:
        blocks = []
        for row in self.to_dict("records"):
            blocks.append(f"{row.pop('claim')}: {row.pop('verdict')}")
            blocks += [f"  {name}: {cell}" for name, cell in row.items() if cell]
        return "\n".join(blocks)


class Workbook:
    """One figure or table: checks its parameters, decides its claims, writes its files.

    Args:
        figure_id: `<paper>/<figure>` as in the catalogue.
        parameters: every parameter of the notebook by name, `profile` among them.

    Raises:
        WorkbookError: a parameter is missing, misspelled or of another type than in the catalogue,
            or the profile is unknown. An unknown figure raises the catalogue's own error.
    """

    def __init__(self, figure_id: str, parameters: Mapping[str, Any]) -> None:
        self._start = time.perf_counter()
        self.entry = catalogue.figure(figure_id)
        self.id = figure_id
        given = dict(parameters)
        self.profile = str(given.pop("profile", "quick"))
        if self.profile not in catalogue.PROFILES:
            known = ", ".join(catalogue.PROFILES)
            raise WorkbookError(f"{figure_id}: profile {self.profile!r} is none of {known}")
        expected = self.entry.parameters(self.profile)
        expected.pop("profile", None)
        try:
            self.parameters = plain(given, "parameter")
            check(figure_id, self.parameters, expected)
        except (DataError, ParameterError) as problem:
            raise WorkbookError(str(problem)) from None
        self.changed = {
            key: value for key, value in self.parameters.items() if value != expected[key]
        }
        self._claims: dict[str, Claim] = {claim.id: claim for claim in self.entry.claims}
        self._decisions: dict[str, Decision] = {}
        self._saved: dict[str, Any] | None = None
        style.use()

    # Verdicts --------------------------------------------------------------------------------

    def number(self, claim_id: str, ours: Any, note: str = "", shown: str = "") -> str:
        """Compare our number with the paper's, to the catalogue's tolerance; return the verdict.

        `note` is the reason, and may not be missing when the verdict is "differs". `shown` stands
        for our numbers in the table where they are measured times, which no two runs share: say
        there what holds in every run. The json has the numbers; keep them out of `data`, or give
        their keys the tolerance `{ atol = inf }` in the catalogue.
        """
        claim = self._claim(claim_id)
        return self._keep(claims.decide_number(claim, ours, note, self._cell(), shown))

    def statement(self, claim_id: str, holds: bool, ours: str, reason: str = "") -> str:
        """Record whether an order of curves holds on ours; return the verdict.

        `ours` says what we found, in rounded numbers; `reason` may not be missing when it does not
        hold.
        """
        return self._keep(
            claims.decide_order(self._claim(claim_id), holds, ours, reason, self._cell())
        )

    def derivation(self, claim_id: str, verdict: str, evidence: str, correct: str = "") -> str:
        """Record the verdict on a derivation: holds, loose, vacuous, misprint, gap or false.

        `evidence` is what was found (the factor, the counterexample); "misprint" and "false" need
        `correct`, the form or the nearest statement that is true.
        """
        claim = self._claim(claim_id)
        return self._keep(claims.decide_derivation(claim, verdict, evidence, correct, self._cell()))

    def unattainable(self, claim_id: str, reason: str) -> str:
        """Record that nobody can reproduce this number (data never published, say), and why."""
        claim = self._claim(claim_id)
        return self._keep(claims.decide_open(claim, claims.UNATTAINABLE, reason, self._cell()))

    def pending(self, claim_id: str, reason: str) -> str:
        """Record that this claim is not decided yet, and what it waits for."""
        claim = self._claim(claim_id)
        return self._keep(claims.decide_open(claim, claims.PENDING, reason, self._cell()))

    # Files -----------------------------------------------------------------------------------

    def save(
        self,
        fig: Figure | None,
        data: Mapping[str, Any],
        caption: str,
        seeds: Sequence[int] = (),
        data_source: str = "none (analytic)",
        reduced: str = "",
    ) -> None:
        """Write the picture (png and pdf) and every number behind it (json).

        Args:
            fig: the picture, or None for a notebook without one.
            data: nested mapping of numbers, texts, lists and arrays; NaN and infinity are refused.
            caption: one or two sentences, printed below the picture.
            seeds: the seeds of the runs shown.
            data_source: the data set and its sha256, or how it was generated.
            reduced: what was reduced against the paper; printed in the footer.

        Raises:
            WorkbookError: there is no data or no caption.
            DataError: a value cannot be stored; the message gives its key path.
            WriteError: a file cannot be written; the old files are untouched.
        """
        if not data:
            raise WorkbookError(f"{self.id}: save needs data, every number behind the picture")
        if not caption.strip():
            raise WorkbookError(f"{self.id}: save needs a caption")
        numbers = plain(dict(data), "data")
        origin = provenance.describe(
            parameters=self.parameters,
            profile=self.profile,
            data_source=data_source,
            seeds=seeds,
            notebook=sources.code_hash(self.entry.notebook),
            code=code(self.entry),
        )
        self._saved = {
            "fig": fig,
            "caption": caption.strip(),
            "footer": self._footer(reduced),
            "record": {"id": self.id, "reduced": reduced, "data": numbers, "provenance": origin},
        }
        self._write()

    def table(self) -> ClaimTable:
        """Return the verdicts, one row a claim in catalogue order, and store them in the json.

        Raises:
            WorkbookError: a claim has no verdict, or nothing was saved.
        """
        if open_claims := [key for key in self._claims if key not in self._decisions]:
            raise WorkbookError(
                f"{self.id}: no cell decides {', '.join(open_claims)}; every claim of the "
                "catalogue needs a verdict (book.pending says why one is missing)"
            )
        if self._saved is None:
            raise WorkbookError(f"{self.id}: call book.save(…) before book.table()")
        self._write()
        rows = []
        for key, claim in self._claims.items():
            found = self._decisions[key]
            row = {
                "claim": key,
                "where": claim.where,
                "paper": claim.paper_text(),
                "ours": found.ours,
            }
            rows.append(row | {"verdict": found.verdict, "reason": found.reason})
        return ClaimTable(rows, columns=["claim", "where", "paper", "ours", "verdict", "reason"])

    # Inner parts -----------------------------------------------------------------------------

    @property
    def stem(self) -> Path:
        """Where this notebook's files go, without their endings."""
        return paths.FIGURES / self.id

    def _claim(self, claim_id: str) -> Claim:
        try:
            return self._claims[claim_id]
        except KeyError:
            known = ", ".join(self._claims) or "none"
            message = f"{self.id}: the catalogue has no claim {claim_id!r}; it has: {known}"
            raise WorkbookError(message) from None

    def _keep(self, decision: Decision) -> str:
        before = self._decisions.get(decision.claim)
        if before is not None and before.cell != decision.cell and self._cell_exists(before.cell):
            raise WorkbookError(
                f"{self.id}: claim {decision.claim!r} is decided twice, by the cells "
                f"{before.cell} and {decision.cell or '(unknown)'}"
            )
        self._decisions[decision.claim] = decision
        return decision.verdict

    def _cell(self) -> str:
        return sources.running_cell(self.entry.notebook)

    def _cell_exists(self, cell: str) -> bool:
        return bool(cell) and cell in sources.cells(self.entry.notebook)

    def _footer(self, reduced: str) -> str:
        parts = [f"reduced: {reduced.strip()}"] if reduced.strip() else []
        if self.changed:
            values = ", ".join(f"{key} = {value!r}" for key, value in self.changed.items())
            parts.append(f"parameters changed against profile {self.profile}: {values}")
        return "; ".join(parts)

    def _write(self) -> None:
        """Write what is known now; `complete` tells whether every claim is decided."""
        assert self._saved is not None
        rows = [
            self._decisions[key].as_json(claim)
            for key, claim in self._claims.items()
            if key in self._decisions
        ]
        record = self._saved["record"] | {
            "claims": rows,
            "complete": len(rows) == len(self._claims),
            "changed": self.changed,
            "cost": {
                "seconds": round(time.perf_counter() - self._start, 1),
                "peak_mib": provenance.peak_mib(),
            },
        }
        figure.save(
            self.stem,
            self._saved["fig"],
            record,
            title=f"{self.id}: {self.entry.title}",
            caption=self._saved["caption"],
            footer=self._saved["footer"],
        )


def code(entry: catalogue.Figure) -> dict[str, str]:
    """The project code a notebook uses besides the machinery: module -> start of its hash."""
    found = fingerprint.notebook_closure(entry)
    rooms = ("repro.", "reproduce.papers.")
    return {name: value[:12] for name, value in found.items() if f"{name}.".startswith(rooms)}
