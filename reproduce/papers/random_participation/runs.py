"""Training runs as pure functions of (configuration, seed), ready for a task pool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from repro._validate import choice, integer
from repro.accounting import (
    OnlyLocalSampling,
    WeakClientSampling,
    calibrate_sigma,
)
from repro.accounting.random_participation.mechanisms import CountRevealed
from repro.datasets import Dataset, load_digits, load_emnist_byclass
from repro.datasets.emnist import PIXEL_DEVIATION, PIXEL_MEAN
from repro.federated.random_participation import Settings, Step, train
from repro.models import Pixels, build, count_parameters, evaluate
from reproduce.papers.training_input import check_keys, tensors

_RUN = "random_participation/training"


def training_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """One training run of Algorithm 1: test accuracy against iterations.

    Args:
        config: JSON-able, all keys required: "data" ("digits", "emnist_embedded", "emnist_subset" or
            "emnist"),
            "model" (a name for `repro.models.build`), "clients" (N) and "records" (d, per client; N
            d <= training images), "p", "q", "clip" (None: no clipping), "sigma", "learning_rate",
            "momentum", "iterations", "evaluate_every", "device" ("cpu", or "auto": a GPU where
            there is one).
        seed: >= 0; decides the start of the network, which image lies with which client, every draw
            and the noise. Two configurations that differ in "clip", "sigma" or "learning_rate" only
            see the same batches.

    Returns:
        JSON-able curves over the evaluated iterations (0 is the untrained network): "iteration",
        "accuracy" and "loss" on the test images, and from the iteration just made (0 at the start)
        "clients", "batch", "signal" (norm of the sum of clipped gradients), "noise" (norm of the
        noise), "clipped" (share of records over the clip); and "parameters" (the dimension of the
        noise), "majority" (accuracy of always answering the most frequent training class),
        "mean_batch", "data".

    Raises:
        ValueError: a key missing, unknown or out of range.
        repro.datasets.DataError: the data are missing or damaged.
        FloatingPointError: training diverged.
    """
    check_keys(config, _KEYS)
    training, test = _load(config["data"])
    clients, records = (
        integer("clients", config["clients"], 1),
        integer("records", config["records"], 1),
    )
    if clients * records > len(training):
        raise ValueError(
            f"clients * records must be at most {len(training):,}, got {clients} * {records}"
        )
    settings = Settings(
        **{
            key: config[key]
            for key in ("iterations", "p", "q", "learning_rate", "clip", "sigma", "momentum")
        }
    )
    gpu = (
        choice("device", config["device"], ("cpu", "auto")) == "auto" and torch.cuda.is_available()
    )
    device = torch.device("cuda" if gpu else "cpu")

    for_model, for_split, for_training = (
        int(child.generate_state(1)[0])
        for child in np.random.SeedSequence(integer("seed", seed, 0)).spawn(3)
    )
    mean, deviation = (0.0, 1.0) if config["data"] == "digits" else (PIXEL_MEAN, PIXEL_DEVIATION)
    network = build(config["model"], classes=len(training.classes), seed=for_model)
    model = nn.Sequential(Pixels(training.brightest, mean, deviation), network).to(device)
    held = np.random.default_rng(for_split).permutation(len(training))[: clients * records]
    images, labels = tensors(training, held, device)
    test_images, test_labels = tensors(test, np.arange(len(test)), device)

    curves: dict[str, list[float]] = {}

    def note(step: Step) -> None:
        accuracy, loss = evaluate(model, test_images, test_labels)
        row = {**vars(step), "accuracy": accuracy, "loss": loss}
        for key, value in row.items():
            curves.setdefault(key, []).append(value)

    note(Step(iteration=0, clients=0, batch=0, signal=0.0, noise=0.0, clipped=0.0))
    sizes = np.full(clients, records)
    train(
        model,
        images,
        labels,
        sizes,
        settings,
        for_training,
        watch=note,
        watch_every=config["evaluate_every"],
    )
    favourite = np.bincount(training.labels).argmax()
    return {
        **curves,
        "parameters": count_parameters(model),
        "majority": float((test.labels == favourite).mean()),
        "mean_batch": settings.p * settings.q * clients * records,
        "data": {"source": training.source, "sha256": training.sha256, "subset": training.subset},
    }


CURVES = ("non_private", "clipped", "clipped_slow", "scheme_paper", "scheme", "wcs", "ols")
"""The curves of figures 6 and 7, from no noise to most noise: training without privacy; clipping
without noise, at the learning rate of the scheme and at that of the baselines; the scheme with the
paper's noise, then with the noise that the repaired Theorem 4.1 asks for; weak client sampling; only local sampling."""


def justified_noise(
    epsilon: float, delta: float, *, p: float, q: float, samples_per_client: int, clip: float
) -> dict[str, float]:
    """Noise for which one iteration is (epsilon, delta)-DP by each analysis: scheme, wcs, ols.

    It is rounded up to 3 significant digits, so that the guarantee stays and the configurations of
    training runs do not depend on the last digits of a root finder. "scheme" is the repaired Theorem 4.1 alone
    (`CountRevealed`): the published runs were trained with that noise. The accountant's "upper" has become
    smaller since (partial revelation) and would ask for up to 6 % less.

    Args:
        epsilon: target of one iteration, >= 0.
        delta: target of one iteration, in (0, 1).
        p: participation rate, in (0, 1].
        q: sampling rate, in (0, 1].
        samples_per_client: d >= 0, the client's records besides the differing one.
        clip: largest norm of one record's gradient, > 0.

    Returns:
        Analysis -> sigma, in the unit of `clip`.

    Raises:
        ValueError: an argument out of range, or a target that is met without noise.
    """
    mechanisms = {
        "scheme": lambda s: CountRevealed(
            s, p=p, q=q, samples_per_client=samples_per_client, clip=clip
        ),
        "wcs": lambda s: WeakClientSampling(s, p=p, q=q, clip=clip),
        "ols": lambda s: OnlyLocalSampling(s, q=q, clip=clip),
    }
    return {
        name: _up(calibrate_sigma(m, epsilon=epsilon, delta=delta))
        for name, m in mechanisms.items()
    }


def curve_settings(parameters: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """The settings in which the `CURVES` of a figure differ: "clip", "sigma" and "learning_rate".

    Args:
        parameters: those of the notebook of figure 6 or 7. The guarantee is that of the federation
            described by "guarantee_p", "guarantee_q" and "guarantee_records"; a reduced training
            federation does not change it.

    Returns:
        Curve -> its settings, in the order of `CURVES`; "clipped_slow" only where the baselines
        have a learning rate of their own.
    """
    clip, rate, slow = (parameters[k] for k in ("clip", "learning_rate", "learning_rate_baselines"))
    sigma = justified_noise(
        parameters["epsilon"],
        parameters["delta"],
        p=parameters["guarantee_p"],
        q=parameters["guarantee_q"],
        samples_per_client=parameters["guarantee_records"],
        clip=clip,
    )
    settings: dict[str, dict[str, float | None]] = {
        "non_private": {"clip": None, "sigma": 0.0, "learning_rate": rate},
        "clipped": {"clip": clip, "sigma": 0.0, "learning_rate": rate},
        "clipped_slow": {"clip": clip, "sigma": 0.0, "learning_rate": slow},
        "scheme_paper": {"clip": clip, "sigma": parameters["sigma_paper"], "learning_rate": rate},
        "scheme": {"clip": clip, "sigma": sigma["scheme"], "learning_rate": rate},
        "wcs": {"clip": clip, "sigma": sigma["wcs"], "learning_rate": slow},
        "ols": {"clip": clip, "sigma": sigma["ols"], "learning_rate": slow},
    }
    if slow == rate:
        del settings["clipped_slow"]
    return settings


def training_tasks(
    parameters: dict[str, Any], curves: Sequence[str] = ()
) -> list[tuple[str, dict[str, Any], int]]:
    """Every run of figure 6 or 7 as (task, configuration, seed), curve after curve.

    Args:
        parameters: those of the figure's notebook.
        curves: names of the curves wanted, among those of `curve_settings`; default: all.
    """
    shared = {key: parameters[key] for key in _KEYS - {"clip", "sigma", "learning_rate"}}
    settings = curve_settings(parameters)
    return [
        (_RUN, {**shared, **settings[curve]}, seed)
        for curve in curves or settings
        for seed in range(integer("seeds", parameters["seeds"], 1))
    ]


def _up(sigma: float) -> float:
    """`sigma` rounded up to 3 significant digits."""
    step = 10.0 ** (math.floor(math.log10(sigma)) - 2)
    return round(math.ceil(sigma / step - 1e-9) * step, 12)


_KEYS = {
    "data", "model", "clients", "records", "p", "q", "clip", "sigma", "learning_rate", "momentum",
    "iterations", "evaluate_every", "device",
}  # fmt: skip


_VERSIONS = {"emnist_embedded": "embedded", "emnist_subset": "subset", "emnist": "official"}
"""The values of "data" that are EMNIST ByClass -> the version that the loader knows."""


def _load(data: str) -> tuple[Dataset, Dataset]:
    choice("data", data, ("digits", *_VERSIONS))
    if data == "digits":
        return load_digits("train"), load_digits("test")
    version = _VERSIONS[data]
    return load_emnist_byclass("train", version), load_emnist_byclass("test", version)
