"""PM-SFL (Algorithm 1 of pmsfl), split learning with probabilistic masks, as a Flower app.

    draw the participants, broadcast the probabilities        `serve`
    R times: forward with a sampled mask, send                `respond`: activations and labels
             the server's gradient of what was sent           `serve`
             backward, update the scores                      `respond`
    choose personal coordinates, send a mask of the others    `respond`
    average over the clients that share a coordinate          `serve`

A round is R + 1 exchanges: the reply to a gradient holds the activations of the next iteration. All
clients hold the same number of blocks, so that the server trains weights, (3). A node keeps its
personal coordinates to itself. All draws follow from one seed, so that a run equals the
simulator's: every node replays the masks and batches of all participants and uses its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from flwr.app import Context, RecordDict
from flwr.app.user_config import UserConfig
from numpy.typing import NDArray
from torch import Tensor

from repro.datasets.emnist import characters, load_emnist_byclass
from repro.federated.client_data import ClientData
from repro.federated.pmsfl import masks
from repro.federated.pmsfl.algorithm import PMSFL
from repro.federated.pmsfl.blocks import FlatBlocks
from repro.federated.pmsfl.masks import MaskTraining, WeightTraining
from repro.federated.pmsfl.server import SplitServer
from repro.federated.pmsfl.split_method import Plan, batches, rng_of, training_seed
from repro.models.split import SplitNetwork, resnet18
from workbook_flower.exchange import ARRAYS, Nodes, arrays, packed, values

NEEDS_SERVERS = False
RECORDS, DEPTH, PIXELS = 60, 1, 14  # of each client, blocks of each client, side of an image
AGREEMENT, RATIO = 4, 0.4


def plan(config: UserConfig) -> Plan:
    """Few and short rounds, as every step is a message."""
    return Plan(
        rounds=int(config["rounds"]), participation=0.7, iterations=2, batch=16, rate=0.01,
        mask_rate=0.1, floor=0.01, gradient="straight_through",
    )  # fmt: skip


def network() -> SplitNetwork:
    """A small ResNet, in float64 so that stacked and single clients agree."""
    return resnet18(classes=10, channels=1, width=4, layers=1).double()


def records(first: int, last: int) -> tuple[Tensor, Tensor]:
    """Images and labels of the clients from `first` to before `last`; a node asks for its own."""
    data = characters(load_emnist_byclass("train", "embedded"), "digits")
    part = slice(first * RECORDS, last * RECORDS)
    images = torch.from_numpy(data.images[part, ::2, ::2].astype(np.float64) / data.brightest)
    return images[:, None], torch.from_numpy(data.labels[part].copy())


def generator(config: UserConfig, number: int) -> torch.Generator:
    """The masks of a round."""
    seed = training_seed(int(config["seed"]), number, 2)
    return torch.Generator().manual_seed(seed)


def serve(nodes: Nodes, config: UserConfig) -> Iterator[dict[str, NDArray]]:
    """The server's side: probabilities of the bottom, weights of the top, after every round."""
    told, net, clients = plan(config), network(), int(config["clients"])
    blocks = FlatBlocks(net)
    weights = WeightTraining(blocks.weights(), told.rate)
    server = SplitServer(net, blocks, weights, told.rate)
    shared = torch.full((blocks.size(DEPTH),), 0.5, dtype=torch.float64)
    count = max(int(told.participation * clients + 1e-9), 1)  # line 4
    for number in range(told.rounds):
        drawn = rng_of(int(config["seed"]), number, 0).permutation(clients)[:count]
        cohort = {int(c): row for row, c in enumerate(sorted(drawn))}
        start = {"start": shared.numpy()}
        place = {"round": number, "participants": count}
        sent = {c: packed(start, row=row, **place) for c, row in cohort.items()}  # line 5
        for _ in range(told.iterations):
            replies = nodes.ask("client", sent)
            smashed, labels = _stacked(replies, "smashed"), _stacked(replies, "labels")
            gradients, _ = server.answer({DEPTH: smashed}, {DEPTH: labels}, torch.Generator())
            answers = zip(cohort.items(), gradients[DEPTH], strict=True)
            sent = {c: packed({"gradient": g.numpy()}, row=row, **place) for (c, row), g in answers}
        replies = nodes.ask("client", sent)
        shared = aggregated(list(replies.values()), shared)
        yield whole_model(shared, server, net)


def whole_model(shared: Tensor, server: SplitServer, net: SplitNetwork) -> dict[str, NDArray]:
    """Probabilities of the bottom; weights of the blocks at the server, and of the head."""
    head = torch.cat([p.detach().flatten() for p in net.head.parameters()])
    weights = server.values.detach()
    return {"probabilities": shared.numpy(), "weights": weights.numpy(), "head": head.numpy()}


def aggregated(replies: list[RecordDict], shared: Tensor) -> Tensor:
    """Line 21, (7): the mean of each coordinate over those who share it."""
    sharing = torch.ones(len(replies), len(shared), dtype=torch.bool)
    uploads = torch.zeros(len(replies), len(shared), dtype=shared.dtype)
    for row, reply in enumerate(replies):
        told = values(reply)
        if told["indicator"]:
            sharing[row] = ~torch.from_numpy(masks.unpack(told["indicator"], len(shared)))
        bits = masks.unpack(told["mask"], int(sharing[row].sum()))
        uploads[row, sharing[row]] = torch.from_numpy(bits).to(uploads)
    return masks.over_sharers(uploads, sharing, shared)


def _stacked(replies: dict[int, RecordDict], name: str) -> Tensor:
    return torch.stack([torch.from_numpy(arrays(reply)[name]) for reply in replies.values()])


def respond(content: RecordDict, context: Context) -> RecordDict:
    """A client's side: activations of the next iteration, or the mask at the end of a round.

    Each message starts the round anew from what the node's state holds: the start, and the
    gradients that came so far.
    """
    config, own, told = context.run_config, int(context.node_config["number"]), values(content)
    number, row, participants = int(told["round"]), int(told["row"]), int(told["participants"])
    kept = {name: array.numpy() for name, array in context.state.get(ARRAYS, {}).items()}
    if "start" in (new := arrays(content)):
        kept = {k: v for k, v in kept.items() if k in ("own", "personal")} | new
    else:
        kept[f"gradient-{sum(name.startswith('gradient-') for name in kept)}"] = new["gradient"]
    told_plan, net = plan(config), network()
    blocks = FlatBlocks(net)
    size = blocks.size(DEPTH)
    frozen = (blocks.weights()[:size], told_plan.mask_rate, told_plan.floor, told_plan.gradient)
    kind = _OneOf(*frozen, row, participants)
    personal = torch.from_numpy(kept.get("personal", np.zeros(size, dtype=bool)))
    start = torch.from_numpy(kept["start"])
    theta = torch.where(personal, torch.from_numpy(kept["own"]), start) if "own" in kept else start
    scores = kind.trainable(theta[None]).requires_grad_()
    optimiser, draws = torch.optim.Adam([scores], lr=kind.rate), generator(config, number)
    images, labels = records(own, own + 1)
    rng = rng_of(int(config["seed"]), number, 1)
    places = batches([np.arange(RECORDS)] * participants, told_plan, rng)[row]
    for iteration, chosen in enumerate(torch.from_numpy(places)):
        smashed = blocks.run(kind.effective(scores, draws), images[chosen][None], [DEPTH])[-1]
        if f"gradient-{iteration}" not in kept:
            context.state[ARRAYS] = packed(kept)[ARRAYS]
            sent = {"smashed": smashed[0].detach().numpy(), "labels": labels[chosen].numpy()}
            return packed(sent)
        optimiser.zero_grad()
        (smashed[0] * torch.from_numpy(kept[f"gradient-{iteration}"])).sum().backward()
        optimiser.step()
    after = kind.public(scores)  # lines 14 to 17
    share = masks.personal_share(number, AGREEMENT, told_plan.rounds, RATIO)
    holds = torch.ones(1, size, dtype=torch.bool)
    before = masks.kept_inside(theta[None], told_plan.floor)
    personal = masks.select_personal(personal[None], before, after, holds, share)[0]
    sampled = draw_for(after, row, participants, draws)[0]
    context.state[ARRAYS] = packed({"own": after[0].numpy(), "personal": personal.numpy()})[ARRAYS]
    indicator = masks.pack(personal) if share > 0 else b""
    return packed({}, mask=masks.pack(sampled[~personal]), indicator=indicator)


@dataclass(frozen=True)
class _OneOf(MaskTraining):
    """Mask training of one participant, which draws the masks of all of them and uses its own."""

    row: int
    participants: int

    def effective(self, trainable: Tensor, generator: torch.Generator) -> Tensor:
        """See `MaskTraining.effective`."""
        mask = draw_for(self.public(trainable), self.row, self.participants, generator)
        return masks.masked(self.weights, trainable, mask, self.gradient)


def draw_for(theta: Tensor, row: int, participants: int, generator: torch.Generator) -> Tensor:
    """The mask of one participant (1, size), from a draw for all as the simulator makes it."""
    return masks.sample(theta.expand(participants, -1), generator)[row : row + 1]


def simulated(config: UserConfig) -> dict[str, NDArray]:
    """The same run in one process."""
    clients = int(config["clients"])
    images, labels = records(0, clients + 1)  # the last part is for tests, which nobody runs
    parts = tuple(np.arange(i * RECORDS, (i + 1) * RECORDS) for i in range(clients))
    tests = tuple(np.array([clients * RECORDS + i]) for i in range(clients))
    data = ClientData(images.numpy(), labels.numpy(), 10, parts, tests, "", "", "")
    depths, seed, device = np.full(clients, DEPTH), int(config["seed"]), torch.device("cpu")
    personal = {"agreement": AGREEMENT, "ratio": RATIO}
    run = PMSFL(data, network(), depths, plan(config), seed, device, **personal)
    for number in range(int(config["rounds"])):
        run.round(number)
    return whole_model(run.shared, run.server, run.network)
