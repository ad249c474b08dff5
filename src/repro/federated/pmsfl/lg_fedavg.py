"""LG-FedAvg: the first blocks of every client stay its own (Liang et al., 2020)."""

from __future__ import annotations

from repro._validate import integer
from repro.federated.pmsfl.split_method import SplitMethod


class LGFedAvg(SplitMethod):
    """Masks; the first blocks stay with the client, the others are averaged (Liang et al., 2020).

    Table 1 lists it under mask training.

    Args:
        local_blocks: how many blocks stay, 0 to 4.
    """

    masks = True

    def __init__(self, *args, local_blocks: int) -> None:
        super().__init__(*args)
        self.personal[:, : self.blocks.size(integer("local_blocks", local_blocks, 0, 4))] = True
