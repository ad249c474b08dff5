"""What a notebook needs of the machinery: its catalogue entry, its verdicts, its files.

    book = Workbook("random_participation/fig1", globals())
    …
    book.statement("order", holds=bool(…), ours="largest violation 0")
    book.save(fig, data={…}, caption="…")
    book.table()

The order is free; a second call for the same thing replaces the first, so that cells can be run
again.

A reader may change a parameter. Then no verdict raises: a claim that the change touches is
"not applicable", and `if book.applies("order"):` lets a cell skip what it needs for that claim.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from repro.report import figure, style
from repro.report.numbers import DataError, plain
from reproduce import catalogue, changes, claims, fingerprint, measured, provenance, sources
from reproduce.claims import Claim, ClaimError, Decision
from reproduce.destination import Destination
from reproduce.parameters import ParameterError, check

ORIGIN = ("id", "profile", "parameters", "data_source", "seeds")
"""The keys of a figure's record that also stand in the metadata of its picture."""


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
        parameters: a mapping that holds at least every name that the notebook's parameters cell
            declares, `profile` among them; other names are ignored. A notebook passes `globals()`.

    Attributes:
        entry: the figure in the catalogue.
        profile: the parameter set.
        parameters: the values of the parameters cell by name, `profile` included, as the functions
            take them that list a figure's training runs.
        changed: those of them that depart from the profile's own values.

    Raises:
        WorkbookError: a parameter is missing or of another type than in the catalogue, or the
            profile is unknown. An unknown figure raises the catalogue's own error.
    """

    def __init__(self, figure_id: str, parameters: Mapping[str, Any]) -> None:
        self._start = time.perf_counter()
        self.entry = catalogue.figure(figure_id)
        catalogue.check_free(self.entry)
        self.id = figure_id
        self.profile = str(parameters.get("profile", "quick"))
        if self.profile not in catalogue.PROFILES:
            known = ", ".join(catalogue.PROFILES)
            raise WorkbookError(f"{figure_id}: profile {self.profile!r} is none of {known}")
        own = self.entry.parameters(self.profile)
        given = {name: parameters[name] for name in own if name in parameters}
        try:
            self.parameters: dict[str, Any] = plain(given, "parameter")
            check(figure_id, self.parameters, own)
        except (DataError, ParameterError) as problem:
            raise WorkbookError(str(problem)) from None
        self.changed = changes.departures(self.parameters, own)
        self._told = changes.told(self.changed, own)
        self._files = Destination(figure_id, self.profile, bool(self.changed))
        self._claims: dict[str, Claim] = {claim.id: claim for claim in self.entry.claims}
        self._decisions: dict[str, Decision] = {}
        self._measured: dict[str, dict[str, Any]] = {}
        self._saved: dict[str, Any] | None = None
        self._pictures: dict[str, bytes] = {}
        style.use()

    # Verdicts --------------------------------------------------------------------------------

    def number(self, claim_id: str, ours: Any, note: str = "", shown: str = "") -> str:
        """Compare our number with the paper's, to the catalogue's tolerance; return the verdict.

        `note` is the reason, and may not be missing when the verdict is "differs". `shown` stands
        for our numbers in the table. Measured times come from `measured`.
        """
        return self._decide(
            claim_id,
            lambda claim, cell: claims.decide_number(
                claim, ours, note or self._excuse, cell, shown
            ),
        )

    def statement(self, claim_id: str, holds: bool, ours: str, reason: str = "") -> str:
        """Record whether an order of curves holds on ours; return the verdict.

        `ours` says what we found, in rounded numbers; `reason` may not be missing when it does not
        hold.
        """
        return self._decide(
            claim_id,
            lambda claim, cell: claims.decide_order(
                claim, holds, ours, reason or self._excuse, cell
            ),
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

        `Destination` says where to; with changed parameters, or in another profile than quick, the
        committed files stay as they are.

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
        self._saved = {
            "id": self.id,
            "profile": self.profile,
            "parameters": without_profile(self.parameters),
            "changed": self.changed,
            "data_source": data_source,
            "seeds": [int(seed) for seed in seeds],
            "notebook": sources.code_hash(self.entry.notebook),
            "reduced": reduced,
            "caption": caption.strip(),
            "footer": self._footer(reduced),
            "data": numbers,
        }
        title = f"{self.id}: {self.entry.title}"
        self._pictures = (
            {} if fig is None else figure.render(fig, self._saved, title=title, origin=ORIGIN)
        )
        self._write()

    def measured(self, name: str, fresh: Any, factor: float = 3.0, per: str = "") -> Any:
        """Keep a fresh measurement of times, and return the committed one, which the figure shows.

            times = book.measured("seconds", {"clipping": [0.5, 0.6], "noise": [0.1, 0.1]})

        The figure is then the same in every run. The fresh values go to `build/measured/`, and
        `make verify` compares the two by ratios (see `reproduce.measured`). With changed
        parameters, in another profile than quick, and as long as nothing is committed, the fresh
        values are returned. `make references IDS=<paper>/<figure>` commits them.

        Args:
            name: of the measurement, unique in the notebook.
            fresh: non-negative numbers in nested mappings and lists; a list of numbers holds the
                repeats of one measurement.
            factor: how far (> 1) a proportion may depart from the committed one, either way.
            per: the key path of the entry that the others are divided by; "": their total.

        Returns:
            The committed measurement, or `fresh`, with arrays as lists.

        Raises:
            WorkbookError: the factor is not above 1, or the entries cannot be divided so.
            DataError: a value is no finite number.
        """
        value = plain(fresh, f"measured.{name}")
        try:
            measured.quotients(value, per)
        except (ValueError, TypeError) as problem:
            raise WorkbookError(f"{self.id}: measured {name!r}: {problem}") from None
        if not factor > 1:
            raise WorkbookError(f"{self.id}: measured {name!r}: factor must be > 1, got {factor!r}")
        self._measured[name] = {"value": value, "factor": factor, "per": per}
        measured.keep(self._files.measured, self._measured)
        if not self._files.committed or os.environ.get(measured.FRESH):
            return value
        stored = measured.committed(self.id, name)
        return value if stored is None else stored

    def table(self) -> ClaimTable:
        """Return the verdicts, one row a claim in catalogue order, and store them in the json.

        Raises:
            WorkbookError: a claim has no verdict, or nothing was saved.
        """
        open_claims = [key for key in self._claims if key not in self._decisions]
        if self.changed:
            for key in open_claims:
                self.pending(key, f"no cell decides it {self._excuse}")
        elif open_claims:
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

    def _cell(self) -> str:
        return sources.running_cell(self.entry.notebook)

    def _cell_exists(self, cell: str) -> bool:
        return bool(cell) and cell in sources.cells(self.entry.notebook)

    def _footer(self, reduced: str) -> str:
        parts = [f"reduced: {reduced.strip()}"] if reduced.strip() else []
        if self.changed:
            parts.append(f"parameters changed against profile {self.profile}: {self._told}")
        return "; ".join(parts)

    def _write(self) -> None:
        """Write what is known now; `complete` tells whether every claim is decided."""
        assert self._saved is not None
        rows = [
            self._decisions[key].as_json(claim)
            for key, claim in self._claims.items()
            if key in self._decisions
        ]
        record = self._saved | {
            "claims": rows,
            "complete": len(rows) == len(self._claims),
        }
        seconds = time.perf_counter() - self._start
        figure.write(
            self._files.stem,
            record,
            self._pictures,
            beside={self._files.provenance: provenance.describe(code(self.entry), seconds)},
        )


def without_profile(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as the json files hold them: the profile stands beside them."""
    return {name: value for name, value in parameters.items() if name != "profile"}


def code(entry: catalogue.Figure) -> dict[str, str]:
    """The project code a notebook uses besides the machinery: module -> start of its hash."""
    found = fingerprint.notebook_closure(entry)
    rooms = ("repro.", "reproduce.papers.")
    return {name: value[:12] for name, value in found.items() if f"{name}.".startswith(rooms)}
