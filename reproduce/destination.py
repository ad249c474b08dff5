"""Where the files of a run go.

A run of the quick profile with unchanged parameters writes the committed files,
`figures/<paper>/<id>.*`; one that opens the published records of another profile writes
`figures/<paper>/<id>.<profile>.*`. Every other run writes into `build/`, which git ignores, so that
it can neither overwrite a committed file nor make it stale:

    build/figures/<paper>/<id>.<profile>.*           another profile
    build/figures/<paper>/<id>.changed.*             changed parameters
    build/figures/<paper>/<id>.<profile>.changed.*   both

What varies from run to run goes to `build/` in every case: provenance, measured times, the executed
notebook and the runner's note on the last good run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from reproduce import paths


@dataclass(frozen=True)
class Destination:
    """The files of one kind of run of one figure.

    Attributes:
        figure_id: `<paper>/<figure>`.
        profile: the parameter set.
        changed: whether a parameter departs from the profile's own value.
        published: whether published records alone are opened.
    """

    figure_id: str
    profile: str = "quick"
    changed: bool = False
    published: bool = False

    @property
    def committed(self) -> bool:
        """Whether the picture and the numbers are the committed ones."""
        return (self.published or self.profile == "quick") and not self.changed

    @property
    def name(self) -> str:
        """The id with its marks: `<paper>/<id>`, `<paper>/<id>.desk.changed` …"""
        mark = "" if self.profile == "quick" else f".{self.profile}"
        return f"{self.figure_id}{mark}{'.changed' if self.changed else ''}"

    @property
    def stem(self) -> Path:
        """The path of picture and numbers, without their endings."""
        folder = paths.FIGURES if self.committed else paths.BUILD / "figures"
        return folder / self.name

    @property
    def scratch(self) -> str:
        """The name of what stands in `build/`; a published profile has one of its own there."""
        return f"{self.name}.published" if self.published and self.profile != "quick" else self.name

    def file(self, ending: str) -> Path:
        """The picture ("png", "pdf") or the numbers ("json")."""
        return self.stem.with_name(f"{self.stem.name}.{ending}")

    @property
    def provenance(self) -> Path:
        """Commit, versions, hashes of modules, seconds, memory and host of the run."""
        return paths.BUILD / "provenance" / f"{self.scratch}.json"

    @property
    def measured(self) -> Path:
        """The times that the run measured, where measured times are its content."""
        return paths.BUILD / "measured" / f"{self.scratch}.json"

    @property
    def executed(self) -> Path:
        """The executed copy of the notebook."""
        return paths.BUILD / "executed" / f"{self.scratch}.ipynb"

    @property
    def state(self) -> Path:
        """The note on the last good run, by which the next one knows what is out of date."""
        return paths.BUILD / "state" / f"{self.scratch}.json"

    @property
    def running(self) -> Path:
        """The notebook while it runs; its log and its progress stand beside it."""
        return paths.BUILD / "running" / f"{self.scratch}.ipynb"

    @property
    def failed(self) -> Path:
        """What a failed run has left of the notebook."""
        return paths.BUILD / "failed" / f"{self.scratch}.ipynb"

    def __str__(self) -> str:
        """The files for a reader, such as `build/figures/toy/fig1.changed.*`."""
        stem = self.stem
        shown = stem.relative_to(paths.ROOT) if stem.is_relative_to(paths.ROOT) else stem
        return f"{shown.as_posix()}.*"
