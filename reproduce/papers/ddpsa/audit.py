"""Audit of Algorithm 2 as it runs: many trainings, stacked along the runs.

The attacker is the parameter server, which sees the decoded sum of every round, alone ("server") or together
with one of two clients, whose upload it subtracts ("colluding"). The canary is one record of the other
client, whose gradient has l1 norm Delta in one coordinate; without it the record's gradient is zero. With
"client" all records of that client pull one way, or the other with the canary. With "count" the client
holds one record without a gradient, and one more with the canary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro._validate import choice, integer
from repro.datasets.plane import Plane, plane
from repro.federated.ddpsa.algorithm import Training, mechanism
from repro.federated.ddpsa.servers import shared_sum
from reproduce.papers.auditing import counted
from reproduce.papers.one_run import coins, summary
from reproduce.papers.training_input import check_keys

_KEYS = {"canary", "clients", "records", "epsilon", "rounds", "trainings"}

_STACKED = 2000
"""Trainings at a time."""

_FAR = 1e6
"""Target of a record whose gradient is to be longer than Delta = 1 at every model that occurs."""


def audit_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Many trainings of one setting, half of them with the canary: histograms of the attacker's scores.

    Args:
        config: JSON-able, all keys required: "canary" ("server", "colluding", "client" or "count"),
            "clients", "records" (of each client; with "count" 1), "epsilon" (of a client and round; Delta
            is 1), "rounds" and "trainings" (in all).
        seed: >= 0.

    Returns:
        "without" and "with", see `reproduce.papers.auditing.counted`.

    Raises:
        ValueError: a key missing, unknown or out of range.
    """
    check_keys(config, _KEYS)
    choice("canary", config["canary"], tuple(_SCORES))
    trainings = integer("trainings", config["trainings"], 2)
    seeds = np.random.SeedSequence(integer("seed", seed, 0)).generate_state(trainings)
    halves = seeds[0::2], seeds[1::2]
    score = _SCORES[config["canary"]]
    found = [
        np.concatenate(
            [
                score(_totals(config, present, own[first : first + _STACKED]), config)
                for first in range(0, len(own), _STACKED)
            ]
        )
        for present, own in zip((False, True), halves, strict=True)
    ]
    return counted(*found)


def one_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """One training on the plane of the figures with many canaries: right guesses, and scores of both groups.

    The model has a coordinate more for each canary, a record whose only feature is that coordinate.

    Args:
        config: JSON-able, all keys required: "clients" (at most as many as records), "records" (of the plane,
            of all three parts), "epsilon" (of a client and round; Delta is 1), "rounds" and "canaries".
        seed: >= 0.

    Returns:
        See `reproduce.papers.one_run.summary`; the attacker sees the sum of all clients.

    Raises:
        ValueError: a key missing, unknown or out of range.
    """
    check_keys(config, {"clients", "records", "epsilon", "rounds", "canaries"})
    present = coins(config["canaries"], seed)
    clients, canaries = integer("clients", config["clients"], 1), len(present)
    task, _, _ = plane([integer("seed", seed, 0)], config["records"])
    records = len(task.targets[0])
    inputs = np.zeros((records + canaries, 3 + canaries))
    inputs[:records, :3] = task.inputs[0]
    place = np.where(present, 3 + np.arange(canaries), 2)  # without the canary: the point (0, 0)
    inputs[records + np.arange(canaries), place] = 1.0
    targets = np.concatenate([task.targets[0], np.where(present, -_FAR, 1.0)])
    seen: list[NDArray] = []

    def listen(uploads: NDArray) -> NDArray:
        seen.append(shared_sum(uploads))
        return seen[-1]

    variant = mechanism("DDP-SA", clients=clients, clip=1.0, epsilon=config["epsilon"])
    start = np.zeros((1, 3 + canaries))
    run = Training(Plane(inputs[None], targets[None]), [variant], [seed], start, secure_sum=listen)
    for _ in range(integer("rounds", config["rounds"], 1)):
        run.round()
    totals = np.reshape(seen, (config["rounds"], -1, 1))[:, 3:]
    held = {"records": len(inputs) // clients, "epsilon": config["epsilon"]}
    return summary(_server(totals, held), present)


def _totals(config: dict[str, Any], present: bool, seeds: NDArray) -> NDArray:
    """What the attacker sees: (rounds, runs, 3), less the colluding client's upload."""
    clients, rounds = integer("clients", config["clients"], 1), config["rounds"]
    training = _records(config, present, len(seeds))
    variant = mechanism("DDP-SA", clients=clients, clip=1.0, epsilon=config["epsilon"])
    seen: list[NDArray] = []

    def listen(uploads: NDArray) -> NDArray:
        total = shared_sum(uploads)
        own = uploads[1:].sum(axis=0) if config["canary"] == "colluding" else 0.0
        seen.append(total - own)
        return total

    start = np.zeros((len(seeds), 3))
    run = Training(training, [variant], seeds.tolist(), start, secure_sum=listen)
    for _ in range(integer("rounds", rounds, 1)):
        run.round()
    return np.array(seen).reshape(rounds, len(seeds), 3)


def _records(config: dict[str, Any], present: bool, runs: int) -> Plane:
    """The records of all clients, client 0 first, the same in every run."""
    each = integer("records", config["records"], 1)
    if config["canary"] == "count":
        each = 1 + present
    idle, far = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    inputs = np.tile(idle, (config["clients"] * each, 1))
    targets = np.zeros(len(inputs))
    if config["canary"] == "client":
        inputs[:each], targets[:each] = far, -_FAR if present else _FAR
    elif config["canary"] != "count" and present:
        inputs[0], targets[0] = far, -_FAR
    return Plane(np.tile(inputs, (runs, 1, 1)), np.tile(targets, (runs, 1)))


def _noise(totals: NDArray, config: dict[str, Any]) -> NDArray:
    """Noise plus gradient of the first coordinate, in units of the noise's scale."""
    return totals[..., 0] * config["records"] * config["epsilon"]


def _server(totals: NDArray, config: dict[str, Any]) -> NDArray:
    """Log likelihood ratio for a gradient of +1 against 0 under two clients' noise."""
    x = np.abs(_noise(totals, config))
    moved = np.abs(_noise(totals, config) - config["epsilon"])
    return (np.log1p(moved) - moved - np.log1p(x) + x).sum(axis=0)


def _alone(totals: NDArray, config: dict[str, Any]) -> NDArray:
    """The same under one client's noise."""
    seen = _noise(totals, config)
    return (np.abs(seen) - np.abs(seen - config["epsilon"])).sum(axis=0)


def _direction(totals: NDArray, config: dict[str, Any]) -> NDArray:
    """The sum over rounds."""
    return _noise(totals, config).sum(axis=0)


def _scale(totals: NDArray, config: dict[str, Any]) -> NDArray:
    """How small all noise is: a divisor of two halves it."""
    return -8 * np.log(np.abs(totals * config["epsilon"]).mean(axis=(0, 2)))


_SCORES: dict[str, Callable[[NDArray, dict[str, Any]], NDArray]] = {
    "server": _server,
    "colluding": _alone,
    "client": _direction,
    "count": _scale,
}
