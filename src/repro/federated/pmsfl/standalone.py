"""Standalone: bottom models are never aggregated (pmsfl, section 6.2)."""

from __future__ import annotations

from repro.federated.pmsfl.split_method import SplitMethod


class Standalone(SplitMethod):
    """Each client trains its own bottom model with the server's help; none is aggregated."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.personal.fill_(True)
