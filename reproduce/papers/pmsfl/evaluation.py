"""Test accuracy of every client with the model that it would use, on its own test records."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repro._validate import integer
from repro.federated.pmsfl.split_method import Cohort, DivergedError, SplitMethod
from repro.models.split import statistics_from


@torch.no_grad()
def client_accuracies(
    method: SplitMethod, number: int, *, reference: int, chunk: int
) -> NDArray[np.float64]:
    """Share of each client's test records that are classified correctly, in [0, 1].

    A masked model is one fresh sample of its mask, as in training. Batch statistics are computed
    now: those of a bottom model over the client's first training records, those of the top model
    over the same records of all clients, as in training.

    Args:
        method: a method between two rounds.
        number: of the evaluation, >= 0; decides the sampled masks.
        reference: training records of each client for the statistics, >= 1; a client with fewer
            records repeats them.
        chunk: clients whose bottoms run at once, >= 1; limits memory.

    Returns:
        Shape (clients,).

    Raises:
        ValueError: an argument out of range.
        DivergedError: the model's answers are not finite.
    """
    reference, chunk = integer("reference", reference, 1), integer("chunk", chunk, 1)
    data = method.data
    width = max(len(part) for part in data.test)
    places = np.stack(
        [
            np.concatenate([np.resize(train, reference), np.resize(test, width)])
            for train, test in zip(data.train, data.test, strict=True)
        ]
    )
    generator = method.generator(number, 3)
    parts: dict[int, list[Tensor]] = {}
    owners: dict[int, list[int]] = {}
    with statistics_from(method.network, reference):
        for start in range(0, data.clients, chunk):
            cohort = method.cohort(np.arange(start, min(start + chunk, data.clients)))
            for depth, smashed in _smashed(method, cohort, places, generator).items():
                parts.setdefault(depth, []).append(smashed)
                owners.setdefault(depth, []).extend(cohort.clients[cohort.groups[depth]])
    smashed = {depth: torch.cat(chunks) for depth, chunks in sorted(parts.items())}
    logits = method.predict(
        {d: q[:, :reference] for d, q in smashed.items()},
        {d: q[:, reference:] for d, q in smashed.items()},
        generator,
    )
    accuracies = np.empty(data.clients)
    for depth, answers in logits.items():
        if not torch.isfinite(answers).all():
            raise DivergedError(
                f"the model's answers are not finite in evaluation {number}; lower the learning "
                "rates"
            )
        truth = data.labels[places[owners[depth], reference:]]
        right = answers.argmax(dim=-1).cpu().numpy() == truth
        for row, client in enumerate(owners[depth]):
            accuracies[client] = right[row, : len(data.test[client])].mean()
    return accuracies


def _smashed(
    method: SplitMethod, cohort: Cohort, places: NDArray[np.int64], generator: torch.Generator
) -> dict[int, Tensor]:
    """What some clients would send of the records at `places`, with the models they have."""
    values = method.kind.trainable(method.client_values(cohort.clients))
    effective = method.kind.effective(values, generator)
    inputs = method.inputs(places[cohort.clients])
    outputs = cohort.by_depth(method.blocks.run(effective, inputs, cohort.depths))
    return {depth: method.sent(blocks[-1], generator) for depth, blocks in outputs.items()}
