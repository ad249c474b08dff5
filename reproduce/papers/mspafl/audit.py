"""Audit of Algorithm 1 as it runs: many short trainings of one client, stacked along the runs.

One record of the client is v without the canary, or its opposite with it; the attacker is the server, which
sees who checked in and every upload. All vectors are so long that a local step ends beyond the clip.

"shared": the whole model (one coordinate) is public, so nothing is kept. An upload is C in the direction of
the one record drawn: 2 C apart where the record was drawn, else the same.

"private": one private and one public coordinate. The record drives the private coordinate far to one side,
where half of the common records have no gradient left; the others push the public coordinate to the same
side in every later round. So uploads stay 2 C apart from the first draw on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro._validate import choice, integer
from repro.federated.mspafl.algorithm import LocalTraining, Round, Variant, train
from reproduce.papers.auditing import counted
from reproduce.papers.one_run import coins, summary
from reproduce.papers.training_input import check_keys

_KEYS = {"canary", "p", "records", "batch", "sigma", "rounds", "trainings"}

_STACKED = 2000
"""Trainings at a time."""

_RATES = {"shared": 1e6, "private": 40.0}
"""Learning rates for which one step goes beyond the clip C = 1."""


def audit_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """Many trainings of one setting, half of them with the canary: histograms of the server's scores.

    Args:
        config: JSON-able, all keys required: "canary" ("shared" or "private"), "p", "records" of the
            client, "batch" (of the one local step; 1 for "shared"), "sigma" (C is 1), "rounds" and
            "trainings" (in all).
        seed: >= 0.

    Returns:
        "without" and "with", see `reproduce.papers.auditing.counted`.

    Raises:
        ValueError: a key missing, unknown or out of range.
    """
    check_keys(config, _KEYS)
    name = choice("canary", config["canary"], tuple(_RATES))
    held, trainings = integer("records", config["records"], 1), config["trainings"]
    vectors, places = _RECORDS[name](held)
    score = _SCORES[name]
    seeds = np.random.SeedSequence(integer("seed", seed, 0)).generate_state(
        integer("trainings", trainings, 2)
    )
    variant = _variant(config)
    local = LocalTraining(steps=1, batch=config["batch"])
    scores: list[NDArray] = []
    for first in range(0, trainings, _STACKED):
        own = seeds[first : first + _STACKED]
        seen: list[tuple[NDArray, NDArray]] = []

        def look(found: Round, seen: list[tuple[NDArray, NDArray]] = seen) -> None:
            seen.append((found.uploads[:, 0, 0, -1], found.checked_in[:, 0, 0]))

        holdings = places[np.arange(len(own)) % 2][:, None]
        train(vectors, holdings, [variant], local, config["rounds"], own.tolist(), look)
        uploads, present = (np.stack(rows) for rows in zip(*seen, strict=True))
        scores.append(score(uploads, present, config))
    found = np.concatenate(scores)
    return counted(found[0::2], found[1::2])  # stacks are even


def one_run(config: dict[str, Any], seed: int) -> dict[str, Any]:
    """One federation in which every client may hold the canary: right guesses, and scores of both groups.

    Args:
        config: as for `audit_run`, with "canaries" (clients) in place of "trainings".
        seed: >= 0.

    Returns:
        See `reproduce.papers.one_run.summary`.

    Raises:
        ValueError: a key missing, unknown or out of range.
    """
    check_keys(config, _KEYS - {"trainings"} | {"canaries"})
    name = choice("canary", config["canary"], tuple(_RATES))
    present = coins(config["canaries"], seed)
    vectors, places = _RECORDS[name](integer("records", config["records"], 1))
    seen: list[tuple[NDArray, NDArray]] = []

    def look(found: Round) -> None:
        seen.append((found.uploads[0, :, 0, -1], found.checked_in[0, :, 0]))

    train(
        vectors,
        places[present.astype(int)][None],
        [_variant(config)],
        LocalTraining(steps=1, batch=config["batch"]),
        config["rounds"],
        [seed],
        look,
    )
    return summary(_SCORES[name](*map(np.stack, zip(*seen, strict=True)), config), present)


def _variant(config: dict[str, Any]) -> Variant:
    return Variant(
        p=config["p"],
        public=1,
        learning_rate=_RATES[config["canary"]],
        clip=1.0,
        sigma=config["sigma"],
    )


def _plain(held: int) -> tuple[NDArray, NDArray]:
    """Vectors, and the client's records without and with the canary, (2, held)."""
    places = np.ones((2, held), dtype=np.int64)
    places[1, 0] = 0
    return np.array([[0.01], [-0.01]]), places


def _switching(held: int) -> tuple[NDArray, NDArray]:
    """The same for "private"; an odd number of records, half of the common ones of each kind."""
    half = (held - 1) // 2
    vectors = np.array([[-2500.0, -1000.0], [2500.0, 1000.0], [0.01, -1.0], [-0.01, 1.0]])
    common = np.repeat([2, 3], half)
    return vectors, np.array([[0, *common], [1, *common]])


def _sampled(uploads: NDArray, present: NDArray, config: dict[str, Any]) -> NDArray:
    """Log likelihood ratio: an upload of mean C with chance q, else of mean -C, against -C."""
    q = config["batch"] / config["records"]
    shift = 2 * uploads / config["sigma"] ** 2  # log of N(C) over N(-C)
    return (present * np.log1p(q * np.expm1(shift))).sum(axis=0)


def _carried(uploads: NDArray, present: NDArray, config: dict[str, Any]) -> NDArray:
    """Uploads summed, each weighted with the chance that the record was drawn before it or for it."""
    q = config["batch"] / config["records"]
    number = np.cumsum(present, axis=0)
    weight = present * (1 - (1 - q) ** number)
    return (weight * 2 * uploads / config["sigma"] ** 2).sum(axis=0)


_RECORDS: dict[str, Callable[[int], tuple[NDArray, NDArray]]] = {
    "shared": _plain,
    "private": _switching,
}
_SCORES: dict[str, Callable[..., NDArray]] = {"shared": _sampled, "private": _carried}
