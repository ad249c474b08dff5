"""The attacks behind Figures 2 and 5 of pmsfl, as a pure function of (configuration, seed)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repro._validate import integer, positive
from repro.federated.client_data import ClientData
from repro.models.split import DEPTH
from reproduce.papers.pmsfl.attackers import Attackers
from reproduce.papers.pmsfl.federations import load_clients
from reproduce.papers.pmsfl.image_quality import linked, margin, psnr, relative_distance, ssim
from reproduce.papers.pmsfl.persistent import PersistentAttackers
from reproduce.papers.pmsfl.victims import Batch, Noise, Victim, accelerator, batch_of, precise

RUN = "pmsfl/attack"

MEASURES = ("psnr", "ssim", "distance", "margin", "linked")
"""Peak signal-to-noise ratio in dB, structural similarity, relative distance of features, how much
larger that is from the other originals of the batch, and whether the reconstruction's pixels are
more like its own original than like any other."""

STAGES = ("first round", "trained")
"""When PM-SFL is attacked: all probabilities 1/2, and those after `rounds` rounds."""

_KEYS = {
    "data", "clients", "width", "layers", "depth", "rounds", "participation", "iterations", "batch",
    "rate", "mask_rate", "floor", "gradient", "images", "public", "window", "steps", "restarts",
    "seen", "shown", "masks",
}  # fmt: skip
_ON_WEIGHTS = {
    "bound", "update_epsilon", "update_delta", "clip", "variation", "epsilons", "gradients",
}  # fmt: skip
_ON_MASKS = {"seen_first", "samples", "averaged", "guesses", "copies", "versions"}

_COUNTS = (
    *("steps", "restarts", "seen", "seen_first", "samples", "averaged", "guesses", "copies"),
    *("versions", "shown"),
)


def attack_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train the federations, attack one batch of one client in every way, measure the outcome.

    Args:
        config: JSON-able. "masks": whether PM-SFL is attacked, or SplitFed and SplitFed-DP; those
            keys that belong to the other are left out, all others are required.
            Federation: "data" (of `federations.FEDERATIONS`, images), "clients"; "width", "layers",
            "depth" (blocks at the clients) of the ResNet; "rounds", "participation", "iterations",
            "batch", "rate", "mask_rate", "floor", "gradient" as in `Plan`; "bound",
            "update_epsilon", "update_delta", "clip" as in `SplitFedDP`.
            Batch: "images", how many are attacked, all in one batch; "public", how many images of
            other clients the attacker has; "window" of the SSIM, in pixels; "shown", images whose
            pixels are returned.
            Attackers: "steps" of a fit (twice as many where a mask is inferred, three times where
            several are) and "restarts"; "variation", weight of the total variation where no images
            are public, 0: this attack is left out; "seen", how often the batch has been sent in the
            whole training, "seen_first", in the first round; "samples", masks averaged by an
            attacker who has seen the batch once, "averaged", by one who has seen it often,
            "versions", by one who fits the mean of many copies closely; "guesses", masks tried;
            "copies", copies of which each mask is inferred. "epsilons": budgets of SplitFed-DP;
            "gradients": whether updates are attacked, too.
        seed: >= 0; decides data, training and attacks.

    Returns:
        JSON-able. "attacks": name -> each of `MEASURES`, a list over the images, and "shown", the
        first reconstructions, for `unpacked`. Names without "masks": "splitfed", and
        "splitfed, no public images"; "dp E" for epsilon = E, "dp E, many rounds", "dp E, median of many rounds",
        and "dp E, whole record" for the largest E as the budget of a record and not of each
        activation; "splitfed" and the largest and least budget with ", gradients" behind them;
        with "masks": "pmsfl, STAGE, ATTACKER" of `STAGES` and `Attackers.on_masks`,
        `PersistentAttackers.on_copies`; always the controls "mean of public images" (what the prior makes
        of no observation at all) and "nearest public image" (chosen with the truth in hand).
        "shown": the originals. "entropy": of the masks after every round, bits per weight.
        "counts": equations (numbers seen) and unknowns (pixels, mask bits) of a batch;
        "activations": of a record. "scales": Laplace scale by name. "data".

    Raises:
        ValueError: a key missing, unknown or out of range.
        repro.datasets.DataError: the data are missing or damaged.
    """
    _check(config)
    device = accelerator()
    with precise(device) as precision:
        data = load_clients(config["data"], clients=config["clients"], seed=seed)
        data = replace(data, inputs=data.inputs.astype(precision))
        return _attacked(config, data, seed, device)


def _attacked(
    config: dict[str, Any], data: ClientData, seed: int, device: torch.device
) -> dict[str, Any]:
    batch = batch_of(data, config["images"], device)
    victim = Victim(config, data, "splitfed", seed, device)
    entropy: list[float] = []
    scales: dict[str, float] = {}
    if config["masks"]:
        hidden = Victim(config, data, "pmsfl", seed, device)
        entropy = [round(bits, 4) for bits in hidden.entropy]
        images = _on_masks(hidden, batch, config, seed)
    else:
        images, scales = _on_weights(victim, batch, data, config, seed)
    images |= _controls(batch, config["public"])
    activations = victim.smashed(batch.images[:2], victim.weights[None])[0, 0].numel()
    return {
        "attacks": measured(images, victim, batch, config),
        "shown": _packed(batch.images[: config["shown"]], batch),
        "entropy": entropy,
        "activations": activations,
        "counts": {
            "equations": activations * len(batch.images),
            "pixels": batch.images.numel(),
            "mask bits": victim.size,
        },
        "scales": scales,
        "data": {
            "name": data.name, "source": data.source, "sha256": data.sha256,
            "stand_in": data.stand_in,
        },
    }  # fmt: skip


def _on_weights(
    victim: Victim, batch: Batch, data: ClientData, config: Mapping[str, Any], seed: int
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Attacks on SplitFed and SplitFed-DP by name, and the Laplace scale of each noise."""
    once = {f"dp {e:g}": Noise.of(config, data, e, seed) for e in config["epsilons"]}
    noises = {name: (noise, 1) for name, noise in once.items()}
    noises |= {f"{n}, many rounds": (noise, config["seen"]) for n, noise in once.items()}
    largest = max(config["epsilons"])
    # the budget of a record is that of each activation times their number
    per_activation = largest / victim.smashed(batch.images, victim.weights[None])[0, 0].numel()
    noises[f"dp {largest:g}, whole record"] = (Noise.of(config, data, per_activation, seed), 1)
    attackers = Attackers(victim, batch, config, seed)
    images = attackers.on_weights(noises)
    if config["variation"]:
        images |= attackers.without_public_images()
    if config["gradients"]:
        ends = {f"dp {e:g}" for e in (largest, min(config["epsilons"]))}
        images |= attackers.with_gradients({n: once[n] for n in once if n in ends})
    medians = PersistentAttackers(victim, batch, config, seed).on_noise(once, config["seen"])
    images |= {f"{name}, median of many rounds": found for name, found in medians.items()}
    return images, {name: round(noise.scale, 4) for name, (noise, _) in noises.items()}


def _on_masks(
    hidden: Victim, batch: Batch, config: Mapping[str, Any], seed: int
) -> dict[str, Tensor]:
    """Attacks on PM-SFL at both `STAGES`, by name."""
    thetas = torch.full_like(hidden.theta, 0.5), hidden.theta
    images = {}
    for stage, theta, often in zip(
        STAGES, thetas, (config["seen_first"], config["seen"]), strict=True
    ):
        attacks = Attackers(hidden, batch, config, seed).on_masks(theta, often)
        attacks |= PersistentAttackers(hidden, batch, config, seed).on_copies(theta, often)
        images |= {f"pmsfl, {stage}, {name}": found for name, found in attacks.items()}
    return images


def _controls(batch: Batch, public: int) -> dict[str, Tensor]:
    known = batch.public[:public]
    gaps = torch.cdist(batch.images.flatten(1), known.flatten(1))
    return {
        "mean of public images": known.mean(dim=0).expand_as(batch.images),
        "nearest public image": known[gaps.argmin(dim=1)],
    }


def measured(
    reconstructions: Mapping[str, Tensor], victim: Victim, batch: Batch, config: Mapping[str, Any]
) -> dict[str, dict[str, list]]:
    """Reconstructions by name -> each of `MEASURES` and "shown"; see `attack_run`.

    Features are those of `victim`'s network, with batch statistics of the public images.
    """
    names, images = list(reconstructions), torch.stack(list(reconstructions.values()))
    span, reference = batch.high - batch.low, batch.public[: config["public"]]
    features = victim.features(torch.cat([batch.images, images.flatten(0, 1)]), reference)
    features = features.unflatten(0, (-1, len(batch.images)))
    distances = relative_distance(features[1:], features[0])
    measured = {
        "psnr": psnr(images, batch.images, span=span),
        "ssim": ssim(images, batch.images, span=span, window=config["window"]),
        "distance": distances.diagonal(dim1=1, dim2=2),
        "margin": margin(distances),
        "linked": linked(images, batch.images),
    }
    return {
        name: {
            **{m: np.round(measured[m][k].tolist(), 3).tolist() for m in MEASURES},
            "shown": _packed(images[k, : config["shown"]], batch),
        }
        for k, name in enumerate(names)
    }


def _packed(images: Tensor, batch: Batch) -> dict[str, Any]:
    """Images as 8-bit values in base64 and their shape; a list of numbers takes three times the room."""
    scaled = (images - batch.low) / (batch.high - batch.low) * 255
    values = scaled.round().clamp(0, 255).to(torch.uint8).cpu().numpy()
    return {
        "shape": list(values.shape),
        "bytes": base64.b64encode(values.tobytes()).decode("ascii"),
    }


def unpacked(images: Mapping[str, Any]) -> NDArray[np.uint8]:
    """The images of a record's "shown", (n, channels, h, w), 255 the brightest.

    Raises:
        ValueError: the bytes do not have the stated shape.
    """
    values = np.frombuffer(base64.b64decode(images["bytes"], validate=True), dtype=np.uint8)
    return values.reshape(images["shape"])


def _check(config: Mapping[str, Any]) -> None:
    """Raise ValueError where a key is missing, unknown or out of range."""
    expected = _KEYS | (_ON_MASKS if config.get("masks") else _ON_WEIGHTS)
    for problem, names in (
        ("misses", expected - set(config)),
        ("has the unknown", set(config) - expected),
    ):
        if names:
            raise ValueError(f"config {problem} {', '.join(map(repr, sorted(names)))}")
    for key in sorted(expected & set(_COUNTS)):
        integer(key, config[key], 1)
    integer("depth", config["depth"], 1, DEPTH - 1)
    integer("public", config["public"], 2)
    if config["masks"]:
        return
    if not config["epsilons"]:
        raise ValueError("epsilons must hold at least one budget, got []")
    positive("epsilons", config["epsilons"])


def attack_tasks(parameters: Mapping[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """Every run of a figure as (task, configuration, seed), from its notebook's parameters.

    First the attacks on SplitFed and SplitFed-DP, which both figures have in common, then, with
    "masks", those on PM-SFL.
    """
    seeds = range(integer("seeds", parameters["seeds"], 1))
    made = []
    for masked in (False, True) if parameters["masks"] else (False,):
        keys = _KEYS | (_ON_MASKS if masked else _ON_WEIGHTS)
        config = {key: parameters[key] for key in sorted(keys)} | {"masks": masked}
        made += [(RUN, config, seed) for seed in seeds]
    return made


def by_seed(results: Sequence[Mapping[str, Any]], seeds: int) -> list[dict[str, Any]]:
    """The results of `attack_tasks` with all attacks of a seed in one, in the order of the seeds."""
    merged = []
    for seed in range(seeds):
        first, *others = results[seed::seeds]
        attacks = dict(first["attacks"])
        for other in others:
            attacks |= other["attacks"]
        entropy = others[0]["entropy"] if others else first["entropy"]
        merged.append({**first, "attacks": attacks, "entropy": entropy})
    return merged
