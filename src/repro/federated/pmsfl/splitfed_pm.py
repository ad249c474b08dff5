"""SplitFed with probabilistic masks in place of weights (pmsfl, section 6.2)."""

from __future__ import annotations

from repro.federated.pmsfl.split_method import SplitMethod


class SplitFedPM(SplitMethod):
    """Probabilistic masks instead of weights; probabilities are sent and averaged."""

    masks = True
