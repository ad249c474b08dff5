"""Intervals over seeds, and the four rules by which a difference counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from reproduce.papers.statistics import (
    alike,
    by_curve,
    compare_losses,
    final,
    interval,
    lead,
    order,
    why,
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


def test_a_clear_order_holds_and_its_reverse_does_not():
    finals = {"a": [0.9, 0.92], "b": [0.5, 0.53], "c": [0.1, 0.11]}
    found = order(finals)
    assert found.holds and found.unclear == "" and "a 91.0 ± 1.4" in found.text
    turned = order(dict(reversed(finals.items())))
    assert not turned.holds and "c - b" in turned.unclear and "b - a" in turned.unclear


def test_a_gap_within_the_noise_does_not_count():
    rng = np.random.default_rng(0)
    base = rng.normal(0.5, 0.1, 5)
    clear = order({"a": base + 0.01, "b": base})  # paired: the common part of the seeds cancels
    noisy = order({"a": base + 0.01 + rng.normal(0, 0.02, 5), "b": base})
    assert clear.holds and not noisy.holds and "points" in noisy.unclear
    assert not order({"a": base, "b": base}).holds  # equal curves are in no order


@pytest.mark.parametrize("finals", [{"a": [1, 2]}, {"a": [1], "b": [1]}, {"a": [1, 2], "b": [1]}])
def test_too_little_to_compare(finals):
    with pytest.raises(ValueError, match="at least 2 curves"):
        order(finals)


def test_leads_need_whole_intervals():
    ahead = lead(
        {"a - b": ([0.5, 0.6, 0.7], [0.4, 0.5, 0.6]), "a - c": ([0.5, 0.6, 0.7], [0.3, 0.4, 0.5])}
    )
    assert ahead.holds and not ahead.unclear and "a - b 10.0" in ahead.text
    tied = lead({"a - b": ([0.5, 0.6, 0.7], [0.6, 0.5, 0.65])})
    assert not tied.holds and not tied.reversed and why(tied, "few").startswith("no clear")
    behind = lead({"a - b": ([0.4, 0.5, 0.6], [0.5, 0.6, 0.7])})
    assert not behind.holds and why(behind, "few").startswith("reversed: a - b -10.0")
    with pytest.raises(ValueError, match="2 or more seeds"):
        lead({"a - b": ([0.4], [0.5])})


def test_losses_that_differ_are_told_from_losses_that_do_not():
    rng = np.random.default_rng(0)
    spread = np.exp(rng.normal(0, 2, 20))  # runs differ much more than settings
    lower = compare_losses(0.9 * spread * np.exp(rng.normal(0, 0.05, 20)), spread)
    assert lower.sign == -1 and lower.p_value < 0.001 and lower.ratio.high < 1
    assert compare_losses(spread, 0.5 * spread).sign == 1
    same = compare_losses(spread, spread)
    assert same.sign == 0 and same.p_value == 1 and (same.ratio.low, same.ratio.high) == (1, 1)
    assert "lower in 0 of 20 runs" in same.text


def test_the_test_keeps_its_level():
    """Two settings that differ by chance only are told apart in about 5 % of the cases."""
    rng = np.random.default_rng(1)
    found = [compare_losses(*np.exp(rng.normal(0, 1, (2, 9)))).sign for _ in range(80)]
    assert np.count_nonzero(found) <= 11  # 4 expected at most, 3.5 deviations


def test_losses_that_cannot_be_compared_are_refused():
    for first, second in (([1.0, 0.0], [1.0, 1.0]), ([1.0], [1.0]), ([1.0, 2.0], [1.0, 2.0, 3.0])):
        with pytest.raises(ValueError, match="first|second"):
            compare_losses(first, second)


def test_alike_is_decided_by_paired_seeds():
    base = np.array([0.5, 0.6, 0.7])
    assert alike(base, base + np.array([0.03, -0.03, 0.0]))[0]
    assert alike(base, base - 0.005)[0]
    holds, text = alike(base, base - 0.05)
    assert not holds and text == "+5.0 ± 0.0 points"
