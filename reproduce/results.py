"""What the files of a run say of the catalogue's claims: one row a claim, decided or not.

What a notebook decided is read from its json, in every profile that has one; the verdict that counts is
that of the highest profile which tests the claim. A claim whose notebook has no finished result is "not yet".
Nothing that git ignores enters it, and no value is rounded.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproduce import catalogue, claims, paths, shown, sources, state
from reproduce.destination import Destination

_LAST = (claims.PENDING, claims.NOT_APPLICABLE)
ORDER = (
    *(v for v in claims.RESULT_VERDICTS + claims.DERIVATION_VERDICTS if v not in _LAST),
    *_LAST,
)
"""The verdicts in the order in which they are counted."""

_KEYS = {"profile", "parameters", "data_source", "claims", "notebook"}
"""What the json of a finished run must hold for the ledger."""


@dataclass(frozen=True)
class Result:
    """What the files of one figure say.

    Attributes:
        entry: the figure in the catalogue.
        records: the contents of its json files by profile; no unfinished ones.
        headline: the profile whose picture is shown first; "" without a finished result.
        rows: one per claim of the catalogue, decided or not.
        stale: why the files do not belong to the notebook and catalogue at hand; empty when they
            do.
    """

    entry: Any
    records: dict[str, dict[str, Any]]
    headline: str
    rows: list[dict[str, Any]]
    stale: list[str]

    def counts(self) -> Counter[str]:
        """How many claims have which verdict."""
        return Counter(row["verdict"] for row in self.rows)


def result(entry: Any) -> Result:
    """Read the files of one figure."""
    found = shown.results(entry, paths.FIGURES)
    missing = "" if "quick" in found else _missing(paths.FIGURES / f"{entry.id}.json", entry.id)
    found = {profile: record for profile, record in found.items() if record.keys() >= _KEYS}
    rows = [_row(entry, claim, found, missing) for claim in entry.claims]
    stale = [why for profile, record in found.items() for why in _stale(entry, profile, record)]
    return Result(entry, found, shown.headline_profile(entry, found), rows, stale)


def _missing(path: Path, figure_id: str) -> str:
    """Why there is no finished result in `path`."""
    if not path.exists():
        return f"not run: make fig/{figure_id}"
    record = state.read_object(path)
    if record.get("complete") is False:
        return "the notebook stopped before its table"
    fault = f"is of profile {record['profile']!r}" if "profile" in record else "cannot be read"
    return f"{path.name} {fault}: make fig/{figure_id} writes it anew"


def results() -> list[Result]:
    """Read the files of every figure of the catalogue, in its order."""
    return [result(entry) for entry in catalogue.figures()]


def _row(
    entry: Any, claim: claims.Claim, records: dict[str, dict[str, Any]], missing: str
) -> dict[str, Any]:
    """One row of the ledger; without a decision the verdict is "not yet", with the reason."""
    rows = {
        profile: row
        for profile, record in records.items()
        for row in record["claims"]
        if row["id"] == claim.id
    }
    used = shown.deciding(records, claim.id)
    found = rows.get(used)
    if found is None:
        reason = missing or "the notebook that made these files did not know this claim"
        found = claims.Decision(claim.id, claims.PENDING, "-", reason).as_json(claim)
    notebook = entry.notebook.relative_to(paths.ROOT).as_posix()
    cell = found["cell"] or _mentions(entry.notebook, claim.id)
    return found | {
        "id": claim.full_id,
        "figure": entry.id,
        "link": notebook + sources.link(entry.notebook, cell),
        "cell": cell,
        **{key: getattr(claim, key) for key in ("quote", "own", "by", "evidence")},
        "profile": used,
        "verdicts": {profile: row["verdict"] for profile, row in rows.items()},
    }


def _mentions(notebook: Path, claim_id: str) -> str:
    """The last code cell that names a claim: it will decide it, while nothing was run."""
    found = ""
    for cell, source in sources.cells(notebook).items():
        if f'"{claim_id}"' in source or f"'{claim_id}'" in source:
            found = cell
    return found


def _stale(entry: Any, profile: str, record: dict[str, Any]) -> list[str]:
    """Why the files of a figure no longer belong to its notebook and catalogue entry."""
    why = []
    if record.get("notebook") != sources.code_hash(entry.notebook):
        why.append("the notebook's code has changed")
    if record.get("parameters") != {
        key: value for key, value in entry.parameters(profile).items() if key != "profile"
    }:
        why.append("made with other parameters than the notebook and the catalogue have")
    told = {
        row["id"]: (row["statement"], row["paper"], row["tolerance"]) for row in record["claims"]
    }
    now = {
        claim.id: (claim.statement, claim.paper_text(), claim.tolerance_text())
        for claim in entry.claims
    }
    if told != now:
        why.append("the catalogue's claims have changed")
    digest = record.get("files", {}).get("png")
    if digest is not None:
        picture = Destination(entry.id, profile, published=True).file("png")
        if not picture.is_file():
            why.append("the png is missing")
        elif hashlib.sha256(picture.read_bytes()).hexdigest() != digest:
            why.append("the png is not the one written with the numbers")
    return [one if profile == "quick" else f"profile {profile}: {one}" for one in why]
