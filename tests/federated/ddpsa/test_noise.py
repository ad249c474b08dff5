"""The noise of ddpsa's clients: its law, its shares and its streams."""

import math

import numpy as np
import pytest
from scipy import stats

from repro.federated.ddpsa import noise
from repro.federated.ddpsa.noise import NoiseStreams


def test_noise_is_laplace_and_shares_of_it_add_up_to_it():
    streams = NoiseStreams(range(40), [(0, 1), (0, 3), None], clients=3, size=3)
    drawn = np.array([streams.draw() for _ in range(60)])
    assert drawn.shape == (60, 40, 3, 3, 3) and not drawn[:, :, 2].any()
    own, shares = drawn[:, :, 0], drawn[:, :, 1].sum(axis=2)
    for values in (own.ravel(), shares.ravel()):
        assert stats.kstest(values, stats.laplace.cdf).pvalue > 1e-3
    # a share has a third of the variance of the whole, and is no Laplace variable
    assert drawn[:, :, 1].var() == pytest.approx(2 / 3, rel=0.1)
    assert stats.kstest(drawn[:, :, 1].ravel() * math.sqrt(3), stats.laplace.cdf).pvalue < 1e-9


def test_a_stream_is_the_same_for_all_who_use_it():
    """Same stream, same numbers, whoever else is there; other streams and seeds are independent."""
    wide = NoiseStreams([5, 6], [(0, 1), (1, 1), (0, 1), (0, 4)], clients=4, size=3)
    narrow = NoiseStreams([6], [(0, 1)], clients=2, size=3)
    first = [wide.draw() for _ in range(300)]
    second = [narrow.draw() for _ in range(300)]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a[:, 0], a[:, 2])
        np.testing.assert_array_equal(a[1, 0, :2], b[0, 0])
    series = np.array(first)[:, :, [0, 1, 3]].transpose(1, 2, 0, 3, 4).reshape(6, -1)
    correlation = np.corrcoef(series) - np.eye(6)
    assert np.abs(correlation).max() < 5 / math.sqrt(series.shape[1])


def test_many_clients_draw_fewer_rounds_at_a_time(monkeypatch):
    """Laplace noise is the same however many rounds are drawn together."""
    usual = NoiseStreams([3], [(0, 1), None], clients=5, size=2)
    rounds = [usual.draw() for _ in range(10)]
    monkeypatch.setattr(noise, "_MOST", 17)
    sparing = NoiseStreams([3], [(0, 1), None], clients=5, size=2)
    assert sparing._ahead == 3
    for one in rounds:
        np.testing.assert_array_equal(sparing.draw(), one)
    assert NoiseStreams([3], [None], clients=18, size=2)._ahead == 1
