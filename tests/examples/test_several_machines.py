"""The model behind the tables of docs/several-machines.md."""

import math
import sys

import pytest
import torch

from repro import paths
from repro.federated import Ranks

sys.path.append(
    str(paths.ROOT / "bench")
)  # after the helpers, one of which has the name of a benchmark

import several_machines as model


def test_a_sum_sends_what_the_model_counts(monkeypatch):
    """Shapes alone, at as many ranks as the tables have: no process is started and no number is computed."""
    sent = []

    def exchanged(into, own):
        assert into.shape == own.shape and into.device == own.device
        sent.append(len(own))

    monkeypatch.setattr(torch.distributed, "all_to_all_single", exchanged)
    for ranks in (2, 8, 100):
        vector = torch.empty(42_500_001, device="meta")
        total = Ranks(ranks - 1, ranks).sum(vector)
        assert (total.shape, total.device) == (vector.shape, vector.device)
        size = math.ceil(len(vector) / ranks)
        assert sent == [ranks * size] * 2
        # of both exchanges a rank keeps one piece of `ranks`
        rate = model.Link("", 1.0, 0.0, 0.0)
        told = model.sum_seconds(rate, ranks, model.FLOAT * sent[0])
        assert told == pytest.approx(model.FLOAT * 2 * (ranks - 1) * size)
        sent.clear()


def test_limits_of_the_model():
    run = model.resnet101()
    alone, all_alike = (model.step(run, model.A100, model.NVLINK, n) for n in (1, 10**6))
    assert alone.sum == 0 and all_alike.gradients * 2_500 == pytest.approx(alone.gradients)
    assert all_alike.repeated == alone.repeated and all_alike.evaluations == alone.evaluations
    link = model.Link("", 1e9, 1e-5, 0.0)
    large, small = (model.sum_seconds(link, 10**4, size) for size in (1e12, 1.0))
    assert large == pytest.approx(2 * 1e12 / 1e9, rel=1e-3)
    assert small == pytest.approx(2 * 10**4 * 1e-5, rel=1e-3)


def test_the_loopback_explains_the_sums_that_it_is_made_from():
    link = model.Link("", 2e9, 5e-5, 0.0)
    told = [model.sum_seconds(link, 2, model.FLOAT * size) for size in model.SIZES]
    found = model.loopback(told)
    assert (found.bandwidth, found.message) == pytest.approx((link.bandwidth, link.message))
