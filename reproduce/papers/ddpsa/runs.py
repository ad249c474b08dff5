"""The runs behind figures 3 and 7 to 10 of ddpsa, as pure functions of (configuration, seed)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from repro._validate import choice, integer
from repro.accounting.ddpsa.printed import median_norm
from repro.datasets.plane import Plane, plane
from repro.federated.ddpsa.algorithm import Array, Variant, train
from repro.federated.ddpsa.clients import Federation, signed_norms
from reproduce.papers.ddpsa import measures
from reproduce.papers.training_input import check_keys

STARTS = ("uniform", "zero")
"""The first models: uniform on [-1/sqrt(2), 1/sqrt(2)], as a layer with two inputs has them in
PyTorch unless told otherwise, or all zero."""

PILOT_SEEDS = range(1000, 1005)
"""Seeds of the runs without noise that the clip comes from: others than the seeds of the runs shown."""

Task = tuple[str, dict[str, Any], int]
"""Name in the catalogue, configuration, seed: the arguments of a task."""

_RUN, _MEDIANS = "ddpsa/training", "ddpsa/medians"
_DIGITS = 6  # significant ones, kept of a loss
_EVERY = 10  # rounds between those whose gradients count in a median over training

_CRITERIA = {
    "loss 1e-12": (measures.below, 1e-12),
    "loss 1e-6": (measures.below, 1e-6),
    "loss 0.0055": (measures.below, 0.0055),
    "loss 0.0106": (measures.below, 0.0106),
    "change 1e-4": (measures.flat, 1e-4),
    "change 1e-6": (measures.flat, 1e-6),
    "change 1e-14": (measures.flat, 1e-14),
    "no better for 10 rounds": (measures.patient, 10),
    "no better for 50 rounds": (measures.patient, 50),
    "within twice the last level": (measures.settled, 2.0),
}
CRITERIA = tuple(_CRITERIA)
"""Conventions for the round at which training has converged, all on the training loss: it falls to
a level (three of them are the losses of Figure 7); it changes by at most so much from one round to
the next; early stopping; from which round on it stays within twice its final level."""


def ddpsa_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train all variants in all runs at once, and measure them.

    Args:
        config: JSON-able, all keys required: "records" (of all parts), "share" (1 / share of the
            training records is used: a client's part of them, for clients that train alone),
            "runs" (R), "rounds" (T), "batch" (records that a client uses in a round, 0 for all),
            "start" (of `STARTS`), "points" (rounds at which losses are kept), "pairs" (pairs of
            places in "variants" whose models are compared) and "variants" (S of them, from
            `as_config`).
        seed: of the first run, >= 0; run r has seed + r, which decides its records, start and
            noise. What a run gives does not depend on the others.

    Returns:
        JSON-able. "train" and "test": losses at the points, shape (S, R, points). "averaged": test
        loss of the models averaged over the last quarter of the rounds, (S, R). "r2": of the test
        part at the points, (S, R, points). "converged": by criterion of `CRITERIA` the round on the
        training loss, (S, R), None where there is none. "apart": for each pair the largest
        Euclidean distance of the two models in any round, (pairs, R). "trivial": test loss of the
        mean training target, (R,).

    Raises:
        ValueError: a key missing or unknown, a value out of range, or an upload that cannot be
            encoded.
    """
    check_keys(config, _RUN_KEYS)
    variants = [_from_config(values) for values in config["variants"]]
    seeds = range(seed, seed + integer("runs", config["runs"], 1))
    training, _, test = plane(seeds, config["records"])
    kept = training.inputs.shape[1] // integer("share", config["share"], 1)
    training = Plane(training.inputs[:, :kept], training.targets[:, :kept])
    batches = _batches(variants, kept, config["batch"])
    path = train(
        training, variants, config["rounds"], seeds, start(seeds, config["start"]), batches=batches
    )
    points = [integer("points", point, 0, config["rounds"]) for point in config["points"]]
    loss, test_loss = measures.losses(path, training), measures.losses(path[points], test)
    tail = path[-max(1, len(path) // 4) :].mean(axis=0, keepdims=True)
    distances = [
        np.sqrt(np.square(path[:, :, i] - path[:, :, j]).sum(2)) for i, j in config["pairs"]
    ]
    return {
        "train": _rounded(loss[points].transpose(2, 1, 0)),
        "test": _rounded(test_loss.transpose(2, 1, 0)),
        "averaged": _rounded(measures.losses(tail, test)[0].T),
        "r2": np.round(measures.r_squared(test_loss, test), 8).transpose(2, 1, 0).tolist(),
        "converged": {
            name: [[None if math.isnan(t) else int(t) for t in row] for row in rule(loss, value).T]
            for name, (rule, value) in _CRITERIA.items()
        },
        "apart": _rounded(np.array([distance.max(axis=0) for distance in distances])),
        "trivial": _rounded(measures.trivial_loss(training, test)),
    }


def medians_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Medians of the l1 norms of the records' gradients, unclipped and without noise: Delta.

    Args:
        config: JSON-able, all keys required: "records", "runs", "start" (as in `ddpsa_run`),
            "adam", "learning_rate" (of a training with all records in every round), and "rounds": a
            list; for each the median is over all gradients up to that round (every 10th is looked
            at), all records and all runs. 0 is the start alone.
        seed: of the first run.

    Returns:
        JSON-able: "medians", one for each of the rounds, to 3 digits: runs that are configured with
        them should not hang on a last bit.

    Raises:
        ValueError: a key missing or unknown, or a value out of range.
    """
    check_keys(config, _MEDIANS_KEYS)
    seeds = range(seed, seed + integer("runs", config["runs"], 1))
    training, _, _ = plane(seeds, config["records"])
    plain = Variant(1, math.inf, math.inf, False, config["adam"], config["learning_rate"])
    rounds = [integer("rounds", last, 0) for last in config["rounds"]]
    path = train(training, [plain], max(1, *rounds), seeds, start(seeds, config["start"]))
    federation = Federation.deal(training, [1])
    norms = np.array([signed_norms(federation, models) for models in path[::_EVERY]])
    medians = [median_norm(norms[: last // _EVERY + 1].reshape(-1, 1)) for last in rounds]
    return {"medians": [float(f"{median:.3g}") for median in medians]}


def start(seeds: Sequence[int], kind: str) -> Array:
    """The first model of every run, shape (R, 3): see `STARTS`."""
    if choice("start", kind, STARTS) == "zero":
        return np.zeros((len(seeds), 3))
    keys = [np.random.SeedSequence(integer("seed", seed, 0), spawn_key=(1,)) for seed in seeds]
    reach = 1 / math.sqrt(2)
    return np.stack([np.random.default_rng(key).uniform(-reach, reach, 3) for key in keys])


def run_task(
    parameters: Mapping[str, Any], variants: Sequence[Variant], seed: int = 0, **changes: Any
) -> Task:
    """A call of `ddpsa_run` with a notebook's "records", "runs" and "rounds".

    Unless `changes` say otherwise, clients use all their records in every round, start from
    "uniform", and losses are kept at `points`.
    """
    known = {key: parameters[key] for key in ("records", "runs", "rounds")}
    others = {"share": 1, "batch": 0, "start": "uniform", "pairs": []}
    config = {**others, **known, "variants": [as_config(s) for s in variants], **changes}
    config.setdefault("points", points(config["rounds"]))
    return _RUN, config, seed


def medians_task(
    parameters: Mapping[str, Any], rounds: Sequence[int], seed: int, **changes: Any
) -> Task:
    """A call of `medians_run` with a notebook's "records", for Adam, or what `changes` say."""
    config = {
        "records": parameters["records"],
        "runs": len(PILOT_SEEDS),
        "start": "uniform",
        "adam": True,
        "learning_rate": 0.001,
        "rounds": list(rounds),
    }
    return _MEDIANS, {**config, **changes}, seed


def points(rounds: int, also: Sequence[int] = ()) -> list[int]:
    """Rounds at which curves are drawn: about 60, evenly spread, and those in `also`."""
    every = max(1, integer("rounds", rounds, 1) // 60)
    return sorted({*range(0, rounds + 1, every), rounds, *(t for t in also if t <= rounds)})


def as_config(variant: Variant) -> dict[str, Any]:
    """A variant as JSON has it: None in the place of infinity."""
    return {key: None if value == math.inf else value for key, value in asdict(variant).items()}


def _from_config(values: Mapping[str, Any]) -> Variant:
    return Variant(**{key: math.inf if value is None else value for key, value in values.items()})


def _batches(variants: Sequence[Variant], records: int, batch: int) -> int:
    """Into how many batches of `batch` the clients cut their records; 1 where batch is 0."""
    if not integer("batch", batch, 0):
        return 1
    counts = {records / (variant.clients * batch) for variant in variants}
    if len(counts) != 1 or not (count := counts.pop()).is_integer():
        raise ValueError(
            f"batch must cut the clients' records into equally many batches in all variants, "
            f"got {batch} for {records} records and {sorted({s.clients for s in variants})} clients"
        )
    return int(count)


_RUN_KEYS = {
    "records", "share", "runs", "rounds", "batch", "start", "points", "pairs", "variants",
}  # fmt: skip
_MEDIANS_KEYS = {"records", "runs", "start", "adam", "learning_rate", "rounds"}


def _rounded(values: Array) -> list[Any]:
    """Nested lists of numbers with `_DIGITS` significant digits."""
    values = np.asarray(values, dtype=float)
    return np.reshape([float(f"{x:.{_DIGITS}g}") for x in values.flat], values.shape).tolist()
