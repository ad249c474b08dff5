"""The artifact appendix of a report, in the form of the PoPETs 2026 template.

Compute minutes are those of the reference runs (`costs.json`) and of the published training runs. Human minutes
follow one rule: one minute for the command and the picture, half a minute for each claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from reproduce import catalogue, claims, findings, paths, state
from reproduce.results import ORDER, Result

HUMAN = (1.0, 0.5)
"""Minutes of a person for one experiment, and for each of its claims."""


def lines(paper: str, items: Sequence[Result]) -> list[str]:
    """The appendix as lines of Markdown."""
    first = next((one for one in items if not one.entry.whole.endswith("/derivations")), items[0])
    human, compute = sum(map(_human, items)), sum(_seconds(item) or 0.0 for item in items) / 60
    memory = max(
        (state.cost(item.entry.id, "quick").get("peak_mib", 0.0) for item in items), default=0
    )
    return [
        "## Artifact appendix",
        "",
        "In the form of the PoPETs 2026 artifact appendix; badges: available, functional, reproduced.",
        "",
        "### Description and requirements",
        "",
        "* *Security, privacy, ethics:* the attacks run on public data and on models trained here; nothing leaves the "
        "machine. Terms of the data: [data/embedded](../../data/embedded/README.md), "
        "[registry](../../data/registry.toml).",
        "* *Hardware:* 2 cores and 4 GiB of memory "
        f"(this paper's notebooks take at most {50 * math.ceil(memory / 50)} MiB each); no GPU for the quick profile.",
        "* *Software:* Python 3.11 to 3.13 and make; `make` installs the pinned packages into `.venv`.",
        f"* *Time and storage:* {human} human-minutes and {compute:.0f} compute-minutes on one core for this paper; "
        "2 GB for the environment.",
        "",
        "### Environment",
        "",
        f"    make all            # every paper; make fig/{paper} runs this one",
        "    make verify         # stored numbers, ledger, reports and gallery are those of these files",
        "",
        f"`make fig/{first.entry.id}` tests the environment: it ends with a table of verdicts.",
        "",
        "### Main results and claims",
        "",
        "The central claims stand in the table at the top of this report, with their verdicts; each experiment "
        "below decides the claims of one figure or table.",
        "",
        "### Experiments",
        "",
        "Compute minutes are measured (`reproduce/costs.json`, one core); human minutes count one minute for an "
        "experiment and half a minute for each claim. The tolerance of each claim stands in "
        "[the ledger](../CLAIMS.md).",
        "",
        *(line for number, item in enumerate(items, 1) for line in _experiment(number, item)),
        "### Limitations and reuse",
        "",
        "Measured times depend on the machine; their verdicts compare proportions. Training results may move within "
        "their seed bands on another processor. Claims that are not tested, not attainable or not yet decided are "
        "listed above with their reasons. To reuse the accountants: `src/repro/accounting`; "
        f'`make fig/{first.entry.id} SET="name=value"` changes parameters.',
    ]


def _experiment(number: int, item: Result) -> list[str]:
    """One experiment: command, claims, minutes, expected result, tolerance, limitations."""
    entry, counts = item.entry, item.counts()
    told = ", ".join(f"{counts[word]} {word}" for word in ORDER if counts[word]) or "no claims"
    found = _limitations(item)
    return [
        f"#### Experiment {number}: {entry.name}, {findings.plain(entry.title)}",
        "",
        f"* *Command:* `make fig/{entry.id}`",
        f"* *Claims:* {len(item.rows)}, [{entry.notebook.name}]"
        f"(../../{entry.notebook.relative_to(paths.ROOT).as_posix()})",
        f"* *Time:* {_human(item)} human-minutes, {_compute(item)}",
        f"* *Expected result:* {told}; headline profile {item.headline or 'none'}",
        f"* *Tolerance:* {_tolerance(entry)}",
        f"* *Limitations:* {'; '.join(found) if found else 'none'}",
        "",
    ]


def _human(item: Result) -> int:
    return math.ceil(HUMAN[0] + HUMAN[1] * len(item.rows))


def _seconds(item: Result) -> float | None:
    return state.cost(item.entry.id, "quick").get("seconds")


def _compute(item: Result) -> str:
    """The minutes of the quick profile, and those that the published runs took."""
    told = _measured(_seconds(item))
    for profile in catalogue.published(item.entry):
        files = sorted((paths.PUBLISHED / item.entry.id / profile).glob("*.json"))
        spent = sum(_spent(path) for path in files)
        told += (
            f"; profile {profile}: {len(files)} training runs of {_duration(spent)} in all, "
            "opened from their records in seconds"
        )
    return told


def _measured(seconds: float | None) -> str:
    """A measured time; in minutes only where one decimal place is nearly exact."""
    if seconds is None:
        return "compute-minutes unknown"
    return (
        f"{seconds / 60:.1f} compute-minutes" if seconds >= 60 else f"{seconds:.0f} compute-seconds"
    )


@lru_cache(maxsize=4096)
def _spent(path: Path) -> float:
    """The seconds that a published training run took."""
    found = state.read_object(path).get("provenance", {}).get("seconds", 0.0)
    return float(found) if isinstance(found, int | float) else 0.0


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _tolerance(entry: Any) -> str:
    """How near our numbers must be to the paper's, and a rerun's to the stored ones."""
    own = sorted({one.tolerance_text() for one in entry.claims if one.kind == "number"})
    parts = [f"paper's numbers {' or '.join(own)}"] if own else []
    if entry.margin is not None:
        parts.append(f"margin of equal accuracy {entry.margin:g}")
    band = f"stored numbers {entry.rtol:g} relative"
    if entry.seed_band is not None:
        band = f"stored numbers within {entry.seed_band:g} standard deviations of the seeds"
    return findings.in_symbols("; ".join([*parts, band]))


def _limitations(item: Result) -> list[str]:
    """What was reduced, which conditions failed, and how many claims stay open."""
    found = []
    for profile, record in item.records.items():
        if record.get("reduced"):
            found.append(f"profile {profile}: {record['reduced']}")
        unmet = [one["statement"] for one in record.get("conditions", []) if not one["holds"]]
        if unmet:
            found.append(f"profile {profile}: conditions not met: {', '.join(unmet)}")
    open_ones = sum(row["verdict"] in (claims.NOT_TESTED, *claims.OPEN) for row in item.rows)
    if open_ones:
        found.append(f"{open_ones} claims are not decided")
    return [findings.plain(one) for one in found]
