"""Training runs of partitioning, tables 1 and 2 and section 4.2, as functions of (config, seed)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from repro._validate import choice, integer
from repro.datasets import Dataset, load_cifar10, load_digits, load_emnist_byclass
from repro.datasets.cifar import load_cifar100
from repro.federated.participation import BalancedIterations, PoissonIterations
from repro.federated.partitioning.algorithms import (
    NoisyDescent,
    Sampling,
    Splitting,
    Step,
    train_federated,
    train_on_submodels,
)
from repro.federated.partitioning.local_training import Local
from repro.federated.partitioning.submodels import middle_blocks, split_parameters
from repro.models import count_parameters, evaluate
from repro.models.residual import build_residual
from reproduce.papers.partitioning.letters import as_private, as_public
from reproduce.papers.partitioning.pretraining import Data, Pretraining, halves, pretrained
from reproduce.papers.partitioning.public_start import public_start, split
from reproduce.papers.training_input import check_keys, tensors

#: What no profile of tables 1 and 2 and section 4.2 varies, unless its parameters say so. Eight
#: classes, 70 % and three local iterations are the paper's; the paper gives no learning rate.
FIXED: dict[str, Any] = {
    "start": "pretrained",
    "pretrain_classes": 8,
    "pretrain_target": 0.7,
    "pretrain_rate": 0.1,
    "sampling": "poisson",
    "samples_per_user": 1,
    "local_iterations": 3,
    "local_rate": 0.1,
}

_RUN = "partitioning/training"


def partitioning_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """One training run of Algorithm 1, central or federated: test accuracy against iterations.

    Args:
        config: JSON-able, all keys required. "data" ("digits", "letters", "cifar_subset",
            "cifar_public": `public_start`, or "cifar"), "model" (a name for `build_residual`),
            "device" ("cpu", or "auto": a GPU where there is one),
            "memory" (MiB that a chunk may take); "start" ("pretrained": on one half of the data, by
            "pretrain_classes", "pretrain_target", "pretrain_epochs", "pretrain_batch",
            "pretrain_rate", "pretrain_drop" and "augment", the private training being on the other half; "scratch":
            the private training is on all data, and the pretraining is ignored), "records" (of the
            data to train on privately; 0: all); "submodels", "first" and "last" (blocks not split);
            "sampling" ("poisson" or "balanced"), "iterations" (T), "participations" (k; the Poisson
            rate is k / T); "samples_per_user" (1: central training, `train_on_submodels`; more:
            `train_federated` with "local_iterations" and "local_rate"); "clip" and "unsplit_clip"
            (None: not clipped), "sigma", "learning_rate", "momentum"; "evaluate_every".
        seed: >= 0; decides halves, start, every draw and the noise. Two configurations that differ
            in clip, sigma or learning rate only see the same batches and submodels.

    Returns:
        JSON-able curves over the evaluated iterations (0 is the start): "iteration", "accuracy" and
        "loss" on the test images, "batch", "signal", "noise", "clipped" and "unsplit_clipped" (see
        `Step`); and "parameters" (the dimension of the noise), "split_parameters", "majority"
        (accuracy of always answering the most frequent class), "mean_batch", "epochs" and
        "pretrained" (what pretraining took and the accuracy it reached; 0 from scratch), "data".

    Raises:
        ValueError: a key missing, unknown or out of range.
        repro.datasets.DataError: the data are missing or damaged.
        FloatingPointError: training diverged.
    """
    check_keys(config, _KEYS)
    training, test, public = _load(config["data"])
    for_halves, for_start, for_training = (
        np.random.SeedSequence(integer("seed", seed, 0)).generate_state(3).tolist()
    )
    gpu = (
        choice("device", config["device"], ("cpu", "auto")) == "auto" and torch.cuda.is_available()
    )
    device = torch.device("cuda" if gpu else "cpu")
    test_images, test_labels = tensors(test, np.arange(len(test)), device)

    rng = np.random.default_rng(for_halves)
    reached = {"epochs": 0, "accuracy": 0.0}
    private = np.arange(len(training))
    if choice("start", config["start"], ("pretrained", "scratch")) == "pretrained":
        if public is None:
            public = training
            seen, private = halves(training.labels, rng)
        else:
            seen = np.arange(len(public))
        data = Data(
            *tensors(public, seen, device),
            test_images,
            test_labels,
            len(training.classes),
            training.sha256,
        )
        settings = _pretraining(config)
        if config["data"] == "cifar_public":
            wide = load_cifar100("train", "subset")
            first = tensors(wide, np.arange(len(wide)), device)
            net, reached = public_start(config["model"], data, first, settings)
        else:
            net, reached = pretrained(config["model"], data, settings, for_start)
    else:
        net = build_residual(config["model"], classes=len(training.classes), seed=for_start)
        net = net.to(device)
    private = rng.permutation(private)[: _held(config["records"], len(private))]
    images, labels = tensors(training, private, device)

    splitting = Splitting(config["submodels"], config["first"], config["last"])
    limits = [math.inf if config[k] is None else config[k] for k in ("clip", "unsplit_clip")]
    optimiser = (config["sigma"], config["learning_rate"], config["momentum"])
    descent = NoisyDescent(*limits, *optimiser)
    held_each = integer("samples_per_user", config["samples_per_user"], 1)
    sampling = _sampling(config, len(private) // held_each)
    curves: dict[str, list[float]] = {}

    def note(step: Step) -> None:
        accuracy, loss = evaluate(net, test_images, test_labels)
        for key, value in {**vars(step), "accuracy": accuracy, "loss": loss}.items():
            curves.setdefault(key, []).append(value)

    note(Step(iteration=0, batch=0, signal=0.0, noise=0.0, clipped=0.0, unsplit_clipped=0.0))
    options = {
        "memory": integer("memory", config["memory"], 1) * 2.0**20,
        "watch": note,
        "watch_every": config["evaluate_every"],
    }
    if held_each == 1:
        train_on_submodels(
            net, images, labels, sampling, splitting, descent, for_training, **options
        )
    else:
        held = sampling.records * held_each
        train_federated(
            net,
            images[:held].unflatten(0, (-1, held_each)),
            labels[:held].unflatten(0, (-1, held_each)),
            sampling,
            splitting,
            Local(config["local_iterations"], config["local_rate"]),
            descent,
            for_training,
            **options,
        )
    split = split_parameters(net, middle_blocks(net, splitting.first, splitting.last))
    favourite = np.bincount(training.labels).argmax()
    return {
        **curves,
        "parameters": count_parameters(net),
        "split_parameters": sum(p.numel() for p in split),
        "majority": float((test.labels == favourite).mean()),
        "mean_batch": sampling.mean_batch,
        "epochs": reached["epochs"],
        "pretrained": reached["accuracy"],
        "data": {"source": training.source, "sha256": training.sha256, "subset": training.subset},
    }


def table_curves(parameters: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What tells the rows of tables 1 and 2 apart, with the controls that the paper leaves out.

    Not private (neither clipped nor noised, with a learning rate of its own, as its steps are not
    bounded by the clip), clipped without noise for every number of submodels, then the paper's
    rows: relaxation (one submodel), amplification and baseline, from the expected best to the
    worst.

    Raises:
        ValueError: "sigma_amplified" does not hold one noise level for each of "submodels".
    """
    if len(parameters["sigma_amplified"]) != len(parameters["submodels"]):
        raise ValueError(
            "sigma_amplified must hold one noise level for each of submodels, got "
            f"{parameters['sigma_amplified']!r} for {parameters['submodels']!r}"
        )
    clip = {"clip": parameters["clip"], "unsplit_clip": parameters["unsplit_clip"]}
    several = list(parameters["submodels"])
    curves: dict[str, dict[str, Any]] = {
        "not_private": {
            "submodels": 1,
            "clip": None,
            "unsplit_clip": None,
            "sigma": 0.0,
            "learning_rate": parameters["learning_rate_unclipped"],
        }
    }
    for d in [1, *several]:
        curves[f"clipped_{d}"] = {"submodels": d, **clip, "sigma": 0.0}
    curves["relaxation"] = {"submodels": 1, **clip, "sigma": parameters["sigma_baseline"]}
    for d, sigma in zip(several, parameters["sigma_amplified"], strict=True):
        curves[f"amplification_{d}"] = {"submodels": d, **clip, "sigma": sigma}
    for d in several:
        curves[f"baseline_{d}"] = {"submodels": d, **clip, "sigma": parameters["sigma_baseline"]}
    return curves


def table_tasks(parameters: Mapping[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """Every run of table 1 or 2 as (task, configuration, seed), row after row."""
    return _tasks(parameters, table_curves(parameters))


def sampling_curves(parameters: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What tells the runs of section 4.2 apart.

    "scratch_…": from scratch, on all data; "tuned_…": fine-tuning of the pretrained model. Each
    with Poisson and balanced sampling, and clipped without noise. Nothing is split, but the two
    clips of section 4.1 stay, so that the sensitivity is that of tables 1 and 2.
    """
    scratch = {
        "start": "scratch",
        "model": parameters["scratch_model"],
        "records": parameters["scratch_records"],
        "iterations": parameters["scratch_iterations"],
        "participations": parameters["scratch_participations"],
        "learning_rate": parameters["scratch_rate"],
        "evaluate_every": parameters["scratch_evaluate_every"],
    }
    curves: dict[str, dict[str, Any]] = {}
    for name, changes in (("scratch", scratch), ("tuned", {})):
        poisson, balanced = parameters[f"{name}_sigma"]
        for kind, sampling, sigma in (
            ("clipped", "poisson", 0.0),
            ("poisson", "poisson", poisson),
            ("balanced", "balanced", balanced),
        ):
            curves[f"{name}_{kind}"] = {**changes, "sampling": sampling, "sigma": sigma}
    return curves


def sampling_tasks(parameters: Mapping[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """Every run of section 4.2 as (task, configuration, seed), curve after curve."""
    return _tasks({**parameters, "submodels": 1}, sampling_curves(parameters))


def _tasks(
    parameters: Mapping[str, Any], curves: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, dict[str, Any], int]]:
    given = {**FIXED, **parameters}
    shared = {key: given[key] for key in _KEYS if key in given}
    return [
        (_RUN, {**shared, **curve}, seed)
        for curve in curves.values()
        for seed in range(integer("seeds", parameters["seeds"], 1))
    ]


_KEYS = {
    "data", "model", "device", "memory", "start", "pretrain_classes", "pretrain_target",
    "pretrain_epochs", "pretrain_batch", "pretrain_rate", "pretrain_drop", "augment", "records", "submodels",
    "first", "last", "sampling", "iterations", "participations", "samples_per_user",
    "local_iterations", "local_rate", "clip", "unsplit_clip", "sigma", "learning_rate", "momentum",
    "evaluate_every",
}  # fmt: skip


def _pretraining(config: Mapping[str, Any]) -> Pretraining:
    return Pretraining(
        classes=config["pretrain_classes"],
        target=config["pretrain_target"],
        epochs=config["pretrain_epochs"],
        batch=config["pretrain_batch"],
        learning_rate=config["pretrain_rate"],
        drop=config["pretrain_drop"],
        augment=config["augment"],
    )


def _sampling(config: Mapping[str, Any], records: int) -> Sampling:
    balanced = BalancedIterations(records, config["iterations"], config["participations"])
    if choice("sampling", config["sampling"], ("poisson", "balanced")) == "balanced":
        return balanced
    rate = balanced.participations / balanced.iterations
    return PoissonIterations(records, balanced.iterations, rate)


def _held(records: int, available: int) -> int:
    """How many records are trained on: `records`, or all that there are for 0."""
    return integer("records", records, 0, available) or available


def _load(data: str) -> tuple[Dataset, Dataset, Dataset | None]:
    """Data to train on, to test on, and public data where they are not a half of the former."""
    names = ("digits", "letters", "cifar_subset", "cifar_public", "cifar")
    if choice("data", data, names) == "digits":
        return load_digits("train"), load_digits("test"), None
    if data == "letters":
        characters, test = (load_emnist_byclass(part, "embedded") for part in ("train", "test"))
        return as_private(characters), as_private(test), as_public(characters)
    if data == "cifar_public":
        public, private = split(load_cifar10("train", "subset"))
        return private, load_cifar10("test", "subset"), public
    version = "subset" if data == "cifar_subset" else "official"
    return load_cifar10("train", version), load_cifar10("test", version), None
