"""The stronger attackers of Figures 2 and 5 of pmsfl, as a pure function of (configuration, seed).

The same federations, batches and measures as in `reconstruction_experiments`, whose records stay
valid: these runs stand beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from repro._validate import integer
from repro.attacks.persistent import PersistentAttackers
from repro.attacks.victims import Batch, Noise, Victim, accelerator, batch_of
from reproduce.papers.pmsfl.attack_runs import (
    STAGES,
    check_keys,
    check_sizes,
    measured,
    reconstruction_tasks,
)
from reproduce.papers.pmsfl.federations import load_clients

RUN = "pmsfl/repeated_attack"

_KEYS = {
    "data", "clients", "width", "layers", "depth", "rounds", "participation", "iterations", "batch",
    "rate", "mask_rate", "floor", "gradient", "bound", "update_epsilon", "update_delta", "clip",
    "images", "public", "window", "steps", "restarts", "seen", "seen_first", "epsilons", "masks", "shown",
    "copies", "versions",
}  # fmt: skip

_COUNTS = ("steps", "restarts", "seen", "seen_first", "copies", "versions", "shown")


def persistent_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train the federations of `reconstruction_run`, attack the same batch from several copies.

    Args:
        config: JSON-able, all keys required; as for `reconstruction_run`, of which it takes a part,
            and "copies": copies of which each mask is inferred; "versions": masks that are averaged
            to fit the mean of many copies. "steps" of a fit; three times as many for the masks.
        seed: >= 0; decides data, training and attacks.

    Returns:
        JSON-able. "attacks" as from `reconstruction_run`, names: "dp E, median of many rounds" for
        every budget E; with "masks", "pmsfl, STAGE, ATTACKER" as from
        `PersistentAttackers.on_copies`.

    Raises:
        ValueError: a key missing, unknown or out of range.
        repro.datasets.DataError: the data are missing or damaged.
    """
    check_keys(config, _KEYS)
    check_sizes(config, *_COUNTS)
    device = accelerator()
    data = load_clients(config["data"], clients=config["clients"], seed=seed)
    batch = batch_of(data, config["images"], device)
    victim = Victim(config, data, "splitfed", seed, device)
    noises = {f"dp {e:g}": Noise.of(config, data, e, seed) for e in config["epsilons"]}
    found = {
        f"{name}, median of many rounds": images
        for name, images in PersistentAttackers(victim, batch, config, seed)
        .on_noise(noises, config["seen"])
        .items()
    }
    if config["masks"]:
        found |= _on_masks(Victim(config, data, "pmsfl", seed, device), batch, config, seed)
    return {"attacks": measured(found, victim, batch, config)}


def _on_masks(
    hidden: Victim, batch: Batch, config: Mapping[str, Any], seed: int
) -> dict[str, Tensor]:
    thetas = torch.full_like(hidden.theta, 0.5), hidden.theta
    found = {}
    for stage, theta, often in zip(
        STAGES, thetas, (config["seen_first"], config["seen"]), strict=True
    ):
        attacks = PersistentAttackers(hidden, batch, config, seed).on_copies(theta, often)
        found |= {f"pmsfl, {stage}, {name}": images for name, images in attacks.items()}
    return found


def all_tasks(parameters: Mapping[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """Every run of a figure, those of `reconstruction_run` first, then those of this module."""
    config = {key: parameters[key] for key in sorted(_KEYS)}
    seeds = range(integer("seeds", parameters["seeds"], 1))
    return reconstruction_tasks(parameters) + [(RUN, config, seed) for seed in seeds]
