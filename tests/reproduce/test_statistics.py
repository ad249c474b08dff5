"""Intervals over seeds, and the results of runs sorted by curve."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from reproduce.papers.statistics import (
    by_curve,
    final,
    interval,
)


def test_an_interval_is_student_s():
    values = np.random.default_rng(0).normal(0.3, 1.0, 12)
    found = interval(values)
    low, high = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert interval(values, 0.5).high - interval(values, 0.5).low < high - low
    covered = sum(
        (one := interval(np.random.default_rng(k).normal(0.3, 1.0, 5))).low <= 0.3 <= one.high
        for k in range(2000)
    )
    assert abs(covered / 2000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)
    for bad in ([0.1], [[0.1, 0.2]], []):
        with pytest.raises(ValueError, match="2 or more seeds"):
            interval(bad)
    with pytest.raises(ValueError, match="confidence"):
        interval([0.0, 1.0], 1.0)


def test_an_interval_in_words():
    assert interval([0.1, 0.1]).text() == "10.0 [10.0, 10.0]"
    assert interval([-1e-6, 0.0]).text() == "0.0 [0.0, 0.0]"
    assert interval([0.5, 0.7]).sign == 0 and interval([0.5, 0.51]).sign == 1
    assert interval([-0.5, -0.51]).sign == -1


def test_results_are_sorted_by_curve_and_seed():
    results = [{"accuracy": [10 * c + s, 0]} for c in range(3) for s in range(2)]
    curves = by_curve(results, ("a", "b", "c"), "accuracy")
    assert curves["b"].tolist() == [[10, 0], [11, 0]] and list(curves) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="equally many seeds"):
        by_curve(results[:-1], ("a", "b", "c"), "accuracy")


def test_final_is_the_mean_over_the_last_quarter():
    runs = np.arange(16.0).reshape(2, 8)
    assert final(runs).tolist() == [6.5, 14.5]
    assert final([[1.0], [3.0]]).tolist() == [1.0, 3.0]
