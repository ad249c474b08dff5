"""Test accuracy of every client, by plain modules and by what may not change it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from federations import CPU, config, make, plan
from repro.federated.client_data import ClientData
from repro.federated.pmsfl.rivals import (
    SplitFed,
)
from repro.federated.pmsfl.split_method import DivergedError
from repro.models.split import resnet18, split, statistics_from
from reproduce.papers.pmsfl.evaluation import client_accuracies
from reproduce.papers.pmsfl.runs import pmsfl_run


def uneven(seed=0, loud=False):
    """Three clients with 3, 9 and 15 test records; `loud`: the last one's are replaced."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 57)
    inputs = rng.standard_normal((57, 1, 8, 8)).astype(np.float32)
    inputs += labels[:, None, None, None]
    test = (np.arange(3), np.arange(3, 12), np.arange(12, 27))
    if loud:
        inputs[test[2]] = 1000 * rng.standard_normal((15, 1, 8, 8))
    train = tuple(np.split(np.arange(27, 57), 3))
    return ClientData(inputs, labels, 3, train, test, "made up", "generated", "0")


def trained(federation):
    network = resnet18(classes=3, channels=1, width=2, layers=1)
    schedule = plan(participation=1.0)
    method = SplitFed(federation, network, np.full(3, 2), schedule, 0, CPU)
    method.round(0)
    return method


def test_accuracies_by_plain_modules():
    federation = uneven()
    method = trained(federation)
    found = client_accuracies(method, 0, reference=10, chunk=2)
    whole = torch.cat([method.shared, method.server.values.detach()[len(method.shared) :]])
    with torch.no_grad():
        start = 0
        for p in (p for block in method.network.blocks for p in block.parameters()):
            p.copy_(whole[start : start + p.numel()].view(p.shape))
            start += p.numel()
        bottom, top = split(method.network, 2)
        inputs = torch.from_numpy(federation.inputs)
        references, tests = [], []
        for train, test in zip(federation.train, federation.test, strict=True):
            with statistics_from(bottom, 10):
                smashed = bottom(inputs[np.concatenate([train, test])])
            references.append(smashed[:10])
            tests.append(smashed[10:])
        with statistics_from(top, 30):
            logits = top(torch.cat([*references, *tests]))[30:]
    right = logits.argmax(dim=1).numpy() == federation.labels[np.concatenate(federation.test)]
    assert found.tolist() == [part.mean() for part in np.split(right, [3, 12])]


def test_nobodys_test_records_change_the_accuracy_of_another():
    quiet, loud = (client_accuracies(trained(uneven(loud=loud)), 0, reference=10, chunk=2)
                   for loud in (False, True))  # fmt: skip
    assert quiet[:2].tolist() == loud[:2].tolist()


def test_every_client_counts_the_same_whatever_it_tests():
    found = pmsfl_run(config("splitfed"), 0)
    assert found["accuracy"][-1] == pytest.approx(np.mean(found["clients"]), abs=2e-5)


def test_a_model_that_broke_in_the_last_step_has_no_accuracy():
    method = make()
    with torch.no_grad():
        method.network.head[-1].bias.fill_(float("nan"))
    with pytest.raises(DivergedError, match="not finite in evaluation 7"):
        client_accuracies(method, 7, reference=4, chunk=4)
