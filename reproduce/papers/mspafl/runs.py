"""The runs behind figure 2 of mspafl, as pure functions of (configuration, seed) for a task pool."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from repro._validate import choice, integer
from repro.accounting.mspafl.printed import local_sigma
from repro.datasets.adult import Table, load_adult
from repro.federated.client_data import deal
from repro.federated.mspafl.algorithm import Array, LocalTraining, Round, Variant, train
from repro.models.logistic import recall, signed
from reproduce.papers.training_input import check_keys

_RUN = "mspafl/training"

METHODS = ("mspafl", "noise_only", "alone", "split_clean", "dp_fedavg", "fedavg")
"""The algorithm and its controls: MS-PAFL; the same with every upload replaced by noise of the same
variance; training alone, nothing sent; MS-PAFL without noise; DP-FedAvg, which clips, noises and
shares the whole model; FedAvg, which shares it as it is."""

_DIGITS = 5  # kept of an accuracy


def variant(
    method: str, size: int, *, p: float, learning_rate: float, clip: float, sigma: float
) -> Variant:
    """The variant of Algorithm 1 that a method of `METHODS` is, for models of `size` coordinates.

    Half of the coordinates, the last ones, are public (section V-A); of an odd number, the smaller
    half.
    """
    half = size // 2
    public, bound, noise, informative = {
        "mspafl": (half, clip, sigma, True),
        "noise_only": (half, clip, sigma, False),
        "alone": (0, clip, 0.0, True),
        "split_clean": (half, clip, 0.0, True),
        "dp_fedavg": (size, clip, sigma, True),
        "fedavg": (size, math.inf, 0.0, True),
    }[choice("method", method, METHODS)]
    return Variant(p, public, learning_rate, bound, noise, informative)


def mspafl_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """All variants of one federation: test accuracy against rounds.

    Args:
        config: JSON-able, all keys required: "data" ("adult"),
            "features" (as in `load_adult`), "test_records" (the first ones of the test part),
            "split" (as in `deal`), "clients" (N), "records" (|D_i|), "steps" (Q), "batch" (b),
            "replacement", "regularisation" (gamma), "clip" (C), "sigma", "rounds" (T),
            "evaluate_every"; and lists of "methods" (of `METHODS`), "p" and "learning_rates", every
            combination of which is a variant. "device" must be "cpu".
        seed: >= 0; decides which client holds which records, check-ins, draws and noise. Runs that
            differ in "replacement" or "features" share all of them.

    Returns:
        JSON-able. "variants": method, p and learning_rate of each, in the order of the lists that
        follow. "round": the evaluated rounds; 0 is the start. Per variant and evaluated round:
        "accuracy", of the client's recombined model (18) on all test records, averaged over all
        clients; "own", the same on the test records whose label the client holds; "averaged", of
        the mean of all clients' models, which nobody in the protocol can form. Per variant:
        "power", mean squared norms over the evaluated rounds of "signal" (average clipped public
        half), "data" (its part that the round's local steps made) and "noise" (average noise), and
        "checked_in", the mean number of participants. Further "majority" (accuracy of always
        answering the most frequent training class), "holders" (clients by the labels they hold),
        "size" (coordinates of a model), "data".

    Raises:
        ValueError: a key missing, unknown or out of range.
        repro.datasets.DataError: the data are missing or damaged.
    """
    check_keys(config, _KEYS)
    choice("device", config["device"], ("cpu",))
    training, test = _load(config["data"], config["features"], config["test_records"])
    size = training.features.shape[1]
    grid = [
        {"method": method, "p": p, "learning_rate": rate}
        for rate in config["learning_rates"]
        for method in config["methods"]
        for p in config["p"]
    ]
    variants = [
        variant(**row, size=size, clip=config["clip"], sigma=config["sigma"]) for row in grid
    ]
    local = LocalTraining(
        config["steps"], config["batch"], config["replacement"], config["regularisation"]
    )
    for_deal = np.random.SeedSequence(integer("seed", seed, 0), spawn_key=(3,))  # after `train`'s
    holdings = deal(
        training.labels,
        config["clients"],
        config["records"],
        config["split"],
        np.random.default_rng(for_deal),
    )
    evaluation = _Evaluation(variants, test, training.labels[holdings])
    evaluation.note(np.zeros((len(holdings), len(variants), size)), 0)

    def watch(happened: Round) -> None:
        evaluation.note(happened.models[0], happened.number)
        evaluation.listen(happened)

    vectors = signed(training.features, training.labels)
    rounds, every = config["rounds"], config["evaluate_every"]
    train(vectors, holdings[None], variants, local, rounds, [seed], watch, every)
    favourite = np.bincount(training.labels).argmax()
    return {
        "variants": grid,
        **evaluation.result(),
        "majority": round(float((test.labels == favourite).mean()), _DIGITS),
        "size": size,
        "data": {
            "source": training.source, "sha256": training.sha256,
        },
    }  # fmt: skip


class _Evaluation:
    """Accuracy of every variant, and how loud signal and noise of its aggregate are."""

    def __init__(self, variants: list[Variant], test: Table, held: np.ndarray) -> None:
        self._test = test
        size = test.features.shape[1]
        self._global = np.array([v.public == size for v in variants])
        shares = np.bincount(test.labels, minlength=2) / len(test)
        holds = np.stack([(held == label).any(axis=1) for label in (0, 1)], axis=1)
        self._shares = shares
        self._own = holds * shares / (holds * shares).sum(axis=1, keepdims=True)  # (N, 2)
        self._holders = {
            "only <=50K": int((~holds[:, 1]).sum()),
            "only >50K": int((~holds[:, 0]).sum()),
            "both": int(holds.all(axis=1).sum()),
        }
        self._rounds: list[int] = []
        self._curves: dict[str, list[Array]] = {"accuracy": [], "own": [], "averaged": []}
        self._powers: list[Array] = []

    def note(self, models: Array, number: int) -> None:
        """Evaluate models, shape (N, S, m), after round `number`."""
        found = np.empty((*models.shape[:2], 2))
        for part, rows in ((self._global, models[:1]), (~self._global, models)):
            # where all is shared, every client has the same model
            found[:, part] = recall(rows[:, part], self._test.features, self._test.labels)
        self._rounds.append(number)
        mean = recall(models.mean(axis=0), self._test.features, self._test.labels)
        self._curves["accuracy"].append((found @ self._shares).mean(axis=0))
        self._curves["own"].append(np.einsum("nsl,nl->s", found, self._own) / len(found))
        self._curves["averaged"].append(mean @ self._shares)

    def listen(self, happened: Round) -> None:
        """Add the powers of signal, data and noise in this round, each of shape (S,)."""
        parts = (happened.signal, happened.signal - happened.echo, happened.noise)
        powers = [np.square(part[0]).sum(axis=1) for part in parts]
        self._powers.append(np.stack([*powers, happened.checked_in[0].sum(axis=0)]))

    def result(self) -> dict[str, Any]:
        """The keys of `mspafl_run`'s result that belong to the evaluated rounds."""
        powers = np.mean(self._powers, axis=0)
        return {
            "round": self._rounds,
            **{
                name: np.round(np.transpose(rows), _DIGITS).tolist()
                for name, rows in self._curves.items()
            },
            "power": {
                name: [float(f"{value:.{_DIGITS}g}") for value in row]
                for name, row in zip(("signal", "data", "noise"), powers, strict=False)
            },
            "checked_in": [round(float(value), 2) for value in powers[3]],
            "holders": self._holders,
        }


def mspafl_tasks(parameters: Mapping[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """Every run of figure 2 as (task, configuration, seed).

    `parameters` are those of the figure's notebook. First the figure itself: both ways of sampling
    and both splits, all methods, curves of `rounds / evaluate_every` points; then the other
    readings of what the paper leaves open, which need MS-PAFL and two controls only, without
    replacement: all `readings` of the features with all `learning_rates`, at 8 points.
    """
    tasks = list(curve_tasks(parameters))
    for features in parameters["readings"]:
        for split in ("one_label", "shuffled"):
            changes = {
                "features": features,
                "split": split,
                "replacement": False,
                "methods": ["mspafl", "noise_only", "alone"],
                "learning_rates": parameters["learning_rates"],
                "evaluate_every": max(1, parameters["rounds"] // 8),
            }
            tasks += _seeds(parameters, changes, parameters["reading_seeds"])
    return tasks


def curve_tasks(parameters: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], int]]:
    """The runs of the picture's curves: split by split, without and with replacement."""
    for split in ("one_label", "shuffled"):
        for replacement in (False, True):
            changes = {
                "split": split,
                "replacement": replacement,
                "methods": list(METHODS),
                "learning_rates": [parameters["learning_rate"]],
            }
            yield from _seeds(parameters, changes, parameters["seeds"])


def noise_level(epsilon: float, delta: float, clip: float) -> float:
    """Standard deviation of the noise on a public half: Lemma 1 at the sensitivity 2 C of (C.3).

    Rounded to 6 digits, so that the configurations of runs do not hang on a last bit.
    """
    return float(f"{float(local_sigma(epsilon, delta, clip=clip)):.6g}")


def _seeds(
    parameters: Mapping[str, Any], changes: Mapping[str, Any], seeds: int
) -> list[tuple[str, dict[str, Any], int]]:
    sigma = noise_level(parameters["epsilon"], parameters["delta"], parameters["clip"])
    known = {key: parameters[key] for key in _KEYS & set(parameters)}
    config = {**known, "sigma": sigma, "device": "cpu", **changes}
    return [(_RUN, config, seed) for seed in range(integer("seeds", seeds, 1))]


_KEYS = {
    "data", "features", "test_records", "split", "clients", "records", "steps", "batch",
    "replacement", "regularisation", "clip", "sigma", "rounds", "evaluate_every", "methods", "p",
    "learning_rates", "device",
}  # fmt: skip


def _load(data: str, features: str, test_records: int) -> tuple[Table, Table]:
    """Training part and the first `test_records` of the test part."""
    choice("data", data, ("adult",))
    training, test = load_adult("train", features), load_adult("test", features)
    kept = slice(integer("test_records", test_records, 1, len(test)))
    if len(np.unique(test.labels[kept])) != 2:
        raise ValueError(f"test_records must reach records of both classes, got {test_records}")
    return training, replace(test, features=test.features[kept], labels=test.labels[kept])
