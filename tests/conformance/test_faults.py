"""Planted faults are found, by the checks that are meant for them, and engines that keep their promise pass."""

from collections import Counter

import pytest
from scipy.stats import binom

from correct_engines import CORRECT
from planted import BEYOND, FAULTS, SMALL
from repro.conformance import examine


@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in BEYOND], ids=lambda f: f.__name__)
def test_a_planted_fault_is_found_by_the_check_that_is_meant_for_it(fault):
    alarms = examine(fault(), seed=1).alarms
    assert any(alarm.startswith(fault.found_by) for alarm in alarms)


def test_nine_of_ten_faults_are_found_and_there_are_enough():
    assert len(FAULTS) >= 50
    assert len(BEYOND) <= 0.1 * len(FAULTS)
    assert len({small.fault for small in SMALL}) >= 10
    assert not {small.fault for small in SMALL} & set(BEYOND)


@pytest.mark.parametrize("small", SMALL, ids=lambda s: s.fault.__name__)
def test_a_small_fault_raises_the_true_epsilon_by_10_to_50_percent(small):
    promise = small.fault.promise
    least, most = (small.truth.epsilon(promise.delta, method=m) for m in ("lower", "upper"))
    assert 1.1 <= least / promise.epsilon
    assert most / promise.epsilon <= 1.5


@pytest.mark.parametrize("fault", BEYOND, ids=lambda f: f.__name__)
def test_the_report_says_what_lies_beyond_it(fault):
    """A fault that is missed is smaller than what the report names for its check, or named as unseen."""
    report = examine(fault(), seed=1)
    assert report.alarms == ()
    named = {
        "RateOffByOnePercent": "a relative change of 0.0",
        "TailsCutAtFive": "values beyond 3 scales of 0.",
        "BiasNotClippedAndAlwaysThere": "what a unit adds whatever its data are, such as a bias, could not be compared",
    }
    assert named[fault.__name__] in report.text()


def examinations(runs):
    """Of every engine that keeps its promise, each with seeds of its own."""
    for place, engine in enumerate(CORRECT):
        for seed in range(runs):
            yield examine(engine(), seed=1000 * place + seed)


def test_engines_that_keep_their_promise_pass():
    assert len(CORRECT) == 10
    assert sum(bool(report.alarms) for report in examinations(3)) <= 1  # 0.3 expected at most


@pytest.mark.slow
def test_a_thousand_examinations_raise_few_false_alarms():
    alarms, low = 0, Counter()
    for report in examinations(100):
        alarms += bool(report.alarms)
        low.update(f.check for f in report.findings if f.p_value is not None and f.p_value < 0.05)
    assert alarms <= 20  # 10 expected at most
    for check, count in low.items():  # every check by itself keeps its level, too
        assert count <= binom.isf(1e-5, 1000, 0.05), check
