"""PM-SFL: Algorithm 1 of pmsfl, split federated learning with probabilistic masks.

    split the model, give client i its bottom w_b,i        line 2     `SplitMethod.__init__`
    for each round t:                                      the paper's box, and where it is done
        K <- max(C N, 1), K_t <- a random set of K clients line 4     `SplitMethod.begin`
        broadcast the probabilities theta                  line 5     `SplitMethod.broadcast`
        for each client of K_t, all at once:               lines 6-12 `SplitMethod.local_updates`
            R times:
                forward with a sampled mask, send          line 9     `MaskTraining.effective`
                the server's gradient of what was sent     line 10    `SplitServer.answer`
                backward, update the scores                line 11
            |change of theta|, disagree and agree group    lines 14-15 `select_personal`
            the top r become personal, disagree first      line 16    `select_personal`
            send a binary mask of the other coordinates    line 17    `PMSFL.upload`
        for each layer (one vector holds all of them):     line 20
            average over the clients that share it, (7)    line 21    `over_sharers`
            mix with the server's own masks, (8)           line 22    `compensated`

Lines 1, 7, 13 and 19 are comments of the box. The box counts local epochs; here R counts batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repro._validate import integer
from repro.federated.checkpoint import Checkpoint, identity, load, store
from repro.federated.pmsfl import masks
from repro.federated.pmsfl.split_method import Cohort, SplitMethod
from repro.federated.ranks import ALONE, Ranks


class PMSFL(SplitMethod):
    """Algorithm 1.

    Args:
        *args: those of `SplitMethod`.
        agreement: rounds before personal masks are chosen, 0 to `plan.rounds`.
        ratio: share of a client's masks that are personal in the end, in [0, 1]; 0: none.

    Where clients differ in depth, the server also trains masks of its own blocks, and (8) mixes
    them with the clients'. Where all clients have one depth, no layer is on both sides, and the
    server trains weights as in (3).

    Raises:
        ValueError: an argument out of range.
    """

    masks = True

    def __init__(self, *args: Any, agreement: int, ratio: float) -> None:
        super().__init__(*args)
        self.agreement, self.ratio = agreement, ratio
        masks.personal_share(0, agreement, self.plan.rounds, ratio)  # checks both arguments

    def server_masks(self) -> bool:
        """Masks where layers are on both sides."""
        return len(np.unique(self.depths)) > 1

    def round(self, number: int) -> None:
        """Lines 4 to 23 for round `number` (0, 1, ...)."""
        cohort, generator = self.begin(number)  # line 4: K_t
        theta = self.broadcast(cohort)  # line 5
        scores = self.local_updates(cohort, theta, number, generator)  # lines 7 to 12

        # lines 14 to 16: the change since the start of training, which began inside [c, 1 - c]
        before, after = masks.kept_inside(theta, self.plan.floor), self.kind.public(scores)
        share = masks.personal_share(number, self.agreement, self.plan.rounds, self.ratio)
        own = self.personal[cohort.clients]
        personal = masks.select_personal(own, before, after, cohort.holds, share)
        self.personal[cohort.clients] = personal
        self.keep(cohort, after)

        uploads = self.upload(masks.sample(after, generator), personal, cohort, share)  # line 17
        sharing = cohort.holds & ~personal
        client = masks.over_sharers(uploads, sharing, self.shared)  # line 21: (7)
        if self.server_masks():  # line 22: (8)
            server = self.server.kind.public(self.server.values)[: len(client)]
            holders = cohort.holds.sum(dim=0)
            client = masks.compensated(client, server, holders, len(cohort.clients))
        self.shared = client
        self.server.begin_round(client)  # what the server runs between two rounds

    def upload(self, sampled: Tensor, personal: Tensor, cohort: Cohort, share: float) -> Tensor:
        """Line 17: pack each participant's bits, count them, and unpack them at the server.

        A participant sends one bit for every coordinate that it holds and shares. Once it has
        personal coordinates it also sends the indicator, one bit for every coordinate that it
        holds: without the indicator the server could not assign the mask bits to coordinates.

        Args:
            sampled: binary masks, zeros and ones, shape (K, size).
            personal: bool, (K, size), the coordinates that stay with the client.
            cohort: the K participants.
            share: of the coordinates that are personal; 0: no indicator is sent.

        Returns:
            What the server receives, shape (K, size); 0 where nothing was sent.
        """
        received = torch.zeros_like(sampled)
        for row, holds in enumerate(cohort.holds):
            shared = holds
            if share > 0:
                indicator = masks.pack(personal[row][holds])
                self.traffic.count(self.traffic.up, "indicator", indicator)
                kept = torch.from_numpy(masks.unpack(indicator, int(holds.sum())))
                shared = holds.clone()
                shared[holds] = ~kept.to(holds.device)
            payload = masks.pack(sampled[row][shared])
            self.traffic.count(self.traffic.up, "model", payload)
            bits = torch.from_numpy(masks.unpack(payload, int(shared.sum())))
            received[row, shared] = bits.to(received)
        return received


def train(
    method: SplitMethod,
    *,
    watch: Callable[[int, SplitMethod], None] | None = None,
    watch_every: int = 1,
    checkpoint: Checkpoint | None = None,
    ranks: Ranks = ALONE,
) -> None:
    """Run all rounds of the method's plan.

    Args:
        method: PM-SFL or one of its rivals, as it was made.
        watch: called with the number of the round, from 1, and the method after every `watch_every`-th round, and
            after the last.
        watch_every: rounds between two calls of `watch`, at least 1.
        checkpoint: where the run is saved, and resumed from if it is found there: the method then becomes what it
            would have been without the interruption, bit for bit. Random numbers of a round depend on the seed and
            the round only.
        ranks: the processes that share a run of PM-SFL, at most as many as clients take part in a round; each has made
            the same method, on its own device. A rank runs a part of the participants, and the server's model on what
            they send. Gradients, and the statistics of the server's batch, are summed over the ranks; participants and
            masks are drawn by all alike. Rank 0 alone saves and calls `watch`.

    Raises:
        ValueError: an argument out of range, the checkpoint is of another run, the ranks are too many, have other
            methods than each other, or share one of the rivals.
        LostRankError: another rank is gone.
        DivergedError: the loss is not finite.
    """
    integer("watch_every", watch_every, 1)
    rounds, done = method.plan.rounds, 0
    if ranks.count > 1 and not isinstance(method, PMSFL):
        raise ValueError(f"method must be PMSFL for several ranks, got {type(method).__name__}")
    if ranks.count > method.participants:
        raise ValueError(
            f"ranks must be at most the {method.participants} participants of a round, got {ranks.count}"
        )
    run = identity(checkpoint or ranks.count > 1, *method.decided_by())
    if checkpoint is not None and (found := load(checkpoint, run)) is not None:
        method.restore(found["state"])
        done = int(found["finished"])
    ranks.check_same(f"{run} {done}")
    method.ranks = ranks
    for number in range(done, rounds):
        method.round(number)
        finished = number + 1
        if ranks.first and checkpoint is not None and checkpoint.due(finished, rounds):
            store(checkpoint, {"run": run, "finished": finished, "state": method.state()})
        if (
            ranks.first
            and watch is not None
            and (finished % watch_every == 0 or finished == rounds)
        ):
            watch(finished, method)
