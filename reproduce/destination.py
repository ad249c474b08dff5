"""Where the files of a run go.

A run of the quick profile with unchanged parameters writes the committed files,
`figures/<paper>/<id>.*`. Every other run writes beside them into `build/`, which git ignores, so
that it can neither overwrite a committed file nor make it stale:

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
    """

    figure_id: str
    profile: str = "quick"
    changed: bool = False

    @property
    def committed(self) -> bool:
        """Whether the picture and the numbers are the committed ones."""
        return self.profile == "quick" and not self.changed

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

    def file(self, ending: str) -> Path:
        """The picture ("png", "pdf") or the numbers ("json")."""
        return self.stem.with_name(f"{self.stem.name}.{ending}")

    @property
    def provenance(self) -> Path:
        """Commit, versions, hashes of modules, seconds, memory and host of the run."""
        return paths.BUILD / "provenance" / f"{self.name}.json"

    @property
    def measured(self) -> Path:
        """The times that the run measured, where measured times are its content."""
        return paths.BUILD / "measured" / f"{self.name}.json"

    @property
    def executed(self) -> Path:
        """The executed copy of the notebook."""
        return paths.BUILD / "executed" / f"{self.name}.ipynb"

    @property
    def state(self) -> Path:
        """The note on the last good run, by which the next one knows what is out of date."""
        return paths.BUILD / "state" / f"{self.name}.json"

    @property
    def running(self) -> Path:
        """The notebook while it runs; its log and its progress stand beside it."""
        return paths.BUILD / "running" / f"{self.name}.ipynb"

    @property
    def failed(self) -> Path:
        """What a failed run has left of the notebook."""
        return paths.BUILD / "failed" / f"{self.name}.ipynb"

    def __str__(self) -> str:
        """The files for a reader, such as `build/figures/toy/fig1.changed.*`."""
        stem = self.stem
        shown = stem.relative_to(paths.ROOT) if stem.is_relative_to(paths.ROOT) else stem
        return f"{shown.as_posix()}.*"
