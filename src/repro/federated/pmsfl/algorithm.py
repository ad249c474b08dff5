"""PM-SFL: split federated learning with probabilistic masks (pmsfl, Algorithm 1)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from repro.federated.pmsfl import masks
from repro.federated.pmsfl.mask_aggregation import compensated, over_sharers
from repro.federated.pmsfl.personalisation import personal_share, select_personal
from repro.federated.pmsfl.split_method import Cohort, SplitMethod


class PMSFL(SplitMethod):
    """Algorithm 1.

    Args:
        agreement: rounds before personal masks are chosen.
        ratio: share of a client's masks that are personal in the end; 0: no personalisation.
        (others): as for `SplitMethod`.

    Where clients differ in depth, the server trains masks of its own blocks, too, and (8) mixes
    them with the clients'; where all have one depth, no layer is on both sides, and the server
    trains weights as in (3).
    """

    masks = True

    def __init__(self, *args, agreement: int, ratio: float) -> None:
        super().__init__(*args)
        self.agreement, self.ratio = agreement, ratio
        personal_share(0, agreement, self.plan.rounds, ratio)  # the checks of both

    def server_masks(self) -> bool:
        """Masks where layers are on both sides."""
        return len(np.unique(self.depths)) > 1

    def round(self, number: int) -> None:
        """Lines 4 to 23 for round `number` (0, 1, ...)."""
        cohort, generator = self.begin(number)  # line 4: K_t
        theta = self.broadcast(cohort)  # line 5
        scores = self.local_updates(cohort, theta, number, generator)  # lines 7 to 12

        # lines 13 to 16: personalised mask selection, by what training has changed, which began at
        # probabilities inside [c, 1 - c]
        before, after = masks.kept_inside(theta, self.plan.floor), self.kind.public(scores)
        share = personal_share(number, self.agreement, self.plan.rounds, self.ratio)
        own = self.personal[cohort.clients]
        personal = select_personal(own, before, after, cohort.holds, share)
        self.personal[cohort.clients] = personal
        self.keep(cohort, after)

        uploads = self.upload(masks.sample(after, generator), personal, cohort, share)  # line 17
        sharing = cohort.holds & ~personal
        client = over_sharers(uploads, sharing, self.shared)  # line 21: (7)
        if self.server_masks():  # line 22: (8)
            server = self.server.kind.public(self.server.values)[: len(client)]
            holders = cohort.holds.sum(dim=0)
            client = compensated(client, server, holders, len(cohort.clients))
        self.shared = client
        self.server.begin_round(client)  # what the server runs between two rounds

    def upload(self, sampled: Tensor, personal: Tensor, cohort: Cohort, share: float) -> Tensor:
        """Send bits and read them again: what the server gets, shape (K, size).

        Of each participant: one bit for every coordinate that it holds and shares; and, once
        there are personal ones, one bit for every coordinate it holds, the indicator without which
        the server could not tell what the others belong to. Coordinates not sent are 0.
        """
        received = torch.zeros_like(sampled)
        for row, holds in enumerate(cohort.holds):
            shared = holds
            if share > 0:
                indicator = masks.pack(personal[row][holds])
                self.traffic.count(self.traffic.up, "indicator", indicator)
                told = torch.from_numpy(masks.unpack(indicator, int(holds.sum())))
                shared = holds.clone()
                shared[holds] = ~told.to(holds.device)
            payload = masks.pack(sampled[row][shared])
            self.traffic.count(self.traffic.up, "model", payload)
            bits = torch.from_numpy(masks.unpack(payload, int(shared.sum())))
            received[row, shared] = bits.to(received)
        return received
