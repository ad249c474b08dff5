"""The training runs of pmsfl, as pure functions of (configuration, seed) for a task pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from repro._validate import choice, integer
from repro.federated.client_data import ClientData
from repro.federated.pmsfl import masks
from repro.federated.pmsfl.algorithm import PMSFL
from repro.federated.pmsfl.masks import MaskTraining
from repro.federated.pmsfl.rivals import (
    DepthFL,
    LGFedAvg,
    LocalOnly,
    SplitFed,
    SplitFedDP,
    SplitFedPM,
    Standalone,
)
from repro.federated.pmsfl.split_method import Plan, SplitMethod
from repro.models.split import DEPTH, SplitNetwork, resnet18, transformer
from reproduce.papers.pmsfl.checkpoint import Checkpoint
from reproduce.papers.pmsfl.evaluation import client_accuracies
from reproduce.papers.pmsfl.federations import load_clients

RUN = "pmsfl/training"

METHODS: dict[str, type[SplitMethod]] = {
    "standalone": Standalone,
    "splitfed": SplitFed,
    "splitfed_dp": SplitFedDP,
    "splitfed_pm": SplitFedPM,
    "lg_fedavg": LGFedAvg,
    "depthfl": DepthFL,
    "pmsfl": PMSFL,
    "local_only": LocalOnly,
}
"""The seven methods of Table 1, and training without a server as a control."""

OWN_KEYS = {
    "splitfed_dp": ("smashed_epsilon", "bound", "update_epsilon", "update_delta", "clip"),
    "lg_fedavg": ("local_blocks",),
    "pmsfl": ("agreement", "ratio"),
}
"""What a method takes beside the plan."""

COMMON_KEYS = (
    *("data", "clients", "heterogeneous", "width", "layers", "heads", "method"),
    *("rounds", "participation", "iterations", "batch", "rate"),
    *("evaluate_every", "reference", "chunk", "checkpoint", "device"),
)
MASK_KEYS = ("mask_rate", "floor", "gradient")

SPLIT_AFTER = 2
"""Blocks at every client where all have the same (pmsfl, section 6.2)."""

_DIGITS = 5  # kept of an accuracy


def keys_of(method: str) -> tuple[str, ...]:
    """The keys a configuration of `method` has: those that can change its result, no others."""
    kind = METHODS[choice("method", method, METHODS)]
    return COMMON_KEYS + (MASK_KEYS if kind.masks else ()) + OWN_KEYS.get(method, ())


def pmsfl_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """One federation trained by one method: test accuracy and bytes against rounds.

    Args:
        config: JSON-able, exactly the keys of `keys_of(method)`. "data" (of
            `federations.FEDERATIONS`), "clients"; "heterogeneous": clients hold 1, 2, 3, 4 blocks in
            turn, instead of two each; "width", "layers" (ResNet) and "heads" (Transformer) of the
            network; "method" (of `METHODS`); "rounds", "participation", "iterations", "batch",
            "rate", "mask_rate", "floor", "gradient" as in `Plan`; "evaluate_every"; "reference" and
            "chunk" as in `client_accuracies`; "checkpoint": rounds between two states on disk, 0
            for none; "device" ("cpu", "cuda", or "auto"); and what the method takes.
        seed: >= 0; decides who holds what, the network's start and every draw. Runs that differ
            in nothing but the method share data, depths, start, participants and batches.

    Returns:
        JSON-able. Per evaluated round ("round", 0 is the start): "accuracy", over all clients the
        mean of each one's test accuracy with the model it would use, and, for masks, "frozen", the
        share of the server's probabilities that are exactly 0 or 1 as the clients use them. Per
        evaluated round but the start: "loss", the server's, mean over the round's steps (0 for
        "local_only", which has no server), and the bytes of the round over all participants, "up"
        and "down", by kind as in `Traffic`. Further
        "clients", the final accuracy of each; "personal", the final share of personal coordinates;
        "trivial", the accuracy of always answering one's own most frequent label; "sizes",
        parameters of each block; "data".

    Raises:
        ValueError: a key missing, unknown or out of range.
        DivergedError: the loss is not finite.
        repro.datasets.DataError: the data are missing or damaged.
    """
    expected = set(keys_of(config.get("method")))
    for problem, keys in (
        ("misses", expected - set(config)),
        ("has the unknown", set(config) - expected),
    ):
        if keys:
            raise ValueError(f"config {problem} {', '.join(map(repr, sorted(keys)))}")
    data = load_clients(config["data"], clients=config["clients"], seed=seed)
    method = build(config, data, seed)
    rounds, every = config["rounds"], integer("evaluate_every", config["evaluate_every"], 1)
    checkpoint = Checkpoint(config, seed, integer("checkpoint", config["checkpoint"], 0))
    done, notes = checkpoint.resume(method)
    # on a GPU, too, the same run has the same bits
    with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        if not notes:
            notes = {"round": [], "accuracy": [], "frozen": [], "loss": [], "up": {}, "down": {}}
            _evaluate(method, config, 0, notes)
        for number in range(done, rounds):
            method.round(number)
            if (number + 1) % every == 0 or number + 1 == rounds:
                _evaluate(method, config, number + 1, notes)
            checkpoint.note(method, number + 1, notes)
    checkpoint.finish()
    return {
        **notes,
        "personal": round(float(_personal_share(method)), _DIGITS),
        "trivial": round(data.trivial(), _DIGITS),
        "sizes": list(method.blocks.sizes),
        "data": {
            "name": data.name, "source": data.source, "sha256": data.sha256,
            "stand_in": data.stand_in, "clients": data.clients, "classes": data.classes,
        },
    }  # fmt: skip


def build(config: Mapping[str, Any], data: ClientData, seed: int) -> SplitMethod:
    """The method of a configuration, before its first round."""
    plan = Plan(
        **{key: config[key] for key in ("rounds", "participation", "iterations", "batch", "rate")},
        mask_rate=config.get("mask_rate", 1.0),
        floor=config.get("floor", 0.0),
        gradient=config.get("gradient", masks.GRADIENTS[0]),
    )
    own = {key: config[key] for key in OWN_KEYS.get(config["method"], ())}
    return METHODS[config["method"]](
        data,
        network(config, data, seed),
        depths(data.clients, config["heterogeneous"]),
        plan,
        seed,
        device_of(config["device"]),
        **own,
    )


def network(config: Mapping[str, Any], data: ClientData, seed: int) -> SplitNetwork:
    """ResNet for images, Transformer for sequences."""
    if data.inputs.ndim == 4:
        return resnet18(
            classes=data.classes,
            channels=data.inputs.shape[1],
            width=config["width"],
            layers=config["layers"],
            seed=seed,
        )
    return transformer(
        classes=data.classes,
        features=data.inputs.shape[2],
        width=config["width"],
        heads=config["heads"],
        seed=seed,
    )


def depths(clients: int, heterogeneous: bool) -> np.ndarray:
    """Blocks that each client holds: two, or 1, 2, 3, 4 in turn (pmsfl, section 6.2).

    Raises:
        ValueError: heterogeneous is neither true nor false.
    """
    if not isinstance(heterogeneous, bool):
        raise ValueError(f"heterogeneous must be True or False, got {heterogeneous!r}")
    if heterogeneous:
        return np.arange(clients) % DEPTH + 1
    return np.full(clients, SPLIT_AFTER)


def device_of(name: str) -> torch.device:
    """Where to compute; "auto" is a GPU where there is one.

    Raises:
        ValueError: an unknown name, or "cuda" where there is no GPU.
    """
    choice("device", name, ("cpu", "cuda", "auto"))
    present = torch.cuda.is_available()
    if name == "cuda" and not present:
        raise ValueError("device must be 'cpu' or 'auto' on a machine without a GPU, got 'cuda'")
    return torch.device("cuda" if present and name != "cpu" else "cpu")


def _evaluate(
    method: SplitMethod, config: Mapping[str, Any], number: int, notes: dict[str, Any]
) -> None:
    """Note accuracy, loss and bytes after `number` rounds."""
    accuracies = client_accuracies(
        method, number, reference=config["reference"], chunk=config["chunk"]
    )
    notes["round"].append(number)
    notes["accuracy"].append(round(float(accuracies.mean()), _DIGITS))
    notes["clients"] = [round(float(value), _DIGITS) for value in accuracies]
    if isinstance(method.kind, MaskTraining):
        used = masks.kept_inside(method.shared, method.kind.floor)
        notes["frozen"].append(round(float(masks.frozen(used).float().mean()), _DIGITS))
    if number:
        notes["loss"].append(round(float(np.mean(method.losses)), _DIGITS))
        for way, sent in (("up", method.traffic.up), ("down", method.traffic.down)):
            for kind, count in sent.items():
                series = notes[way].setdefault(kind, [0] * (len(notes["loss"]) - 1))
                series.append(count)


def _personal_share(method: SplitMethod) -> float:
    holds = method.cohort(np.arange(method.data.clients))
    own = method.personal[holds.clients] & holds.holds
    return own.sum() / holds.holds.sum()
