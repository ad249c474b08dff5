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
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from repro.atomic import write_json
from repro.report import figure, style
from repro.report.numbers import DataError, plain
from reproduce import catalogue, changes, fingerprint, measured, provenance, records, sources, state
from reproduce.claims import Met
from reproduce.destination import Destination
from reproduce.parameters import ParameterError, check
from reproduce.shown import ClaimTable, Headline, Story, headline
from reproduce.verdicts import Verdicts, WorkbookError

ORIGIN = ("id", "profile", "parameters", "data_source", "seeds")
"""The keys of a figure's record that also stand in the metadata of its picture."""


class Workbook(Verdicts):
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
        entry = catalogue.figure(figure_id)
        catalogue.check_free(entry)
        self.profile = str(parameters.get("profile", "quick"))
        if self.profile not in catalogue.PROFILES:
            known = ", ".join(catalogue.PROFILES)
            raise WorkbookError(f"{figure_id}: profile {self.profile!r} is none of {known}")
        own = entry.parameters(self.profile)
        given = {name: parameters[name] for name in own if name in parameters}
        try:
            self.parameters: dict[str, Any] = plain(given, "parameter")
            check(figure_id, self.parameters, own)
        except (DataError, ParameterError) as problem:
            raise WorkbookError(str(problem)) from None
        changed = changes.departures(self.parameters, own)
        super().__init__(entry, changed, changes.told(changed, own))
        published = bool(os.environ.get(records.ONLY_PUBLISHED))
        self._files = Destination(figure_id, self.profile, bool(self.changed), published)
        self._story: dict[str, str] = {}
        self._measured: dict[str, dict[str, Any]] = {}
        self._saved: dict[str, Any] | None = None
        self._pictures: dict[str, bytes] = {}
        style.use()

    # Words -----------------------------------------------------------------------------------

    def headline(self) -> Headline:
        """The picture of the highest profile that decides a claim, and its verdicts.

        It is the first output of a notebook. It shows files that are there, those of the last run.
        """
        return headline(self.entry)

    def story(self, claimed: str, found: str, why: str) -> Story:
        """Three sentences below the picture, made from the numbers: claimed, found, why.

        They are kept with the numbers. Call it after `save`.

        Raises:
            WorkbookError: a sentence is empty, or nothing was saved.
        """
        told = {"claimed": claimed.strip(), "found": found.strip(), "why": why.strip()}
        if lacking := [name for name, text in told.items() if not text]:
            raise WorkbookError(f"{self.id}: story needs a sentence for {', '.join(lacking)}")
        if self._saved is None:
            raise WorkbookError(f"{self.id}: call book.save(…) before book.story(…)")
        self._story = told
        self._write()
        return Story(told)

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

    def measured(
        self, name: str, fresh: Any, factor: float = 3.0, per: str = "", of: str = ""
    ) -> Any:
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
            of: the figure whose committed measurement is shown, where two figures need one and the
                same; it alone renews it. "": this one.

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
        found = {"value": value, "factor": factor, "per": per, "load": measured.load()}
        self._measured[name] = found
        if of:
            self._measured[name]["of"] = of
        measured.keep(self._files.measured, self._measured)
        if not self._files.committed or (os.environ.get(measured.FRESH) and not of):
            return value
        stored = measured.committed(of or self.id, name)
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
        if lacking := [key for key in self._conditions if key not in self._met]:
            if not self.changed:
                raise WorkbookError(
                    f"{self.id}: no cell looks at the conditions {', '.join(lacking)}; call "
                    "book.condition(…) for each"
                )
            self._met |= {key: Met(False, f"not looked at {self._excuse}") for key in lacking}
        self._write()
        rows = []
        for key, claim in self._claims.items():
            found = self._final(key)
            row = {
                "claim": key,
                "where": claim.where,
                "paper": claim.paper_text(),
                "ours": found.ours,
            }
            rows.append(row | {"verdict": found.verdict, "reason": found.reason})
        return ClaimTable(rows, columns=["claim", "where", "paper", "ours", "verdict", "reason"])

    # Inner parts -----------------------------------------------------------------------------

    def _footer(self, reduced: str) -> str:
        parts = [f"reduced: {reduced.strip()}"] if reduced.strip() else []
        if self.changed:
            parts.append(f"parameters changed against profile {self.profile}: {self._told}")
        return "; ".join(parts)

    def _write(self) -> None:
        """Write what is known now; `complete` tells whether every claim is decided.

        A complete result of an earlier run stays until this one is complete as well: a full disk
        or a failing cell in the middle does not take it away.
        """
        assert self._saved is not None
        rows = [
            self._final(key).as_json(claim)
            for key, claim in self._claims.items()
            if key in self._decisions
        ]
        conditions = [
            {"id": key, "statement": self._conditions[key].statement, **asdict(found)}
            for key, found in self._met.items()
        ]
        all_met = len(conditions) == len(self._conditions)
        complete = len(rows) == len(self._claims) and all_met
        record = self._saved | {
            "story": self._story,
            "conditions": conditions,
            "claims": rows,
            "complete": complete,
        }
        seconds = time.perf_counter() - self._start
        origin = provenance.describe(code(self.entry), seconds) | {"complete": complete}
        if not complete and state.read_object(self._files.file("json")).get("complete"):
            write_json(self._files.provenance, origin)
            return
        beside = {self._files.provenance: origin}
        figure.write(self._files.stem, record, self._pictures, beside=beside)


def without_profile(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as the json files hold them: the profile stands beside them."""
    return {name: value for name, value in parameters.items() if name != "profile"}


def code(entry: catalogue.Figure) -> dict[str, str]:
    """The project code a notebook uses besides the machinery: module -> start of its hash."""
    found = fingerprint.notebook_closure(entry)
    rooms = ("repro.", "reproduce.papers.")
    return {name: value[:12] for name, value in found.items() if f"{name}.".startswith(rooms)}
