"""SplitFed: split federated learning of weights (Thapa et al., AAAI 2022)."""

from __future__ import annotations

from repro.federated.pmsfl.split_method import SplitMethod


class SplitFed(SplitMethod):
    """Weights, averaged over the clients that hold them (Thapa et al., AAAI 2022)."""
