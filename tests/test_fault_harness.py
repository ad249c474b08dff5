"""The fault harness finds the faults that it is there for, and none where there is none."""

import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from repro import paths
from repro.secagg import RoundError

sys.path.append(
    str(paths.ROOT / "bench")
)  # after the helpers, one of which has the name of a benchmark

import fault_calls
import fault_sums
import faults


def wrong_type():
    raise KeyError("sigma")


def nameless():
    raise ValueError("math range error")


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda: fault_calls.finite({"a": [1.0, float("nan")]}), "AssertionError: not finite"),
        (lambda: fault_calls.finite(float("inf")), "AssertionError: not finite"),
        (wrong_type, "uncaught KeyError"),
        (nameless, "nameless ValueError: math range error"),
        (lambda: np.log(np.zeros(1)), "uncaught RuntimeWarning: divide by zero"),
        (lambda: bytearray(1 << 60), "MemoryError"),
    ],
)
def test_a_fault_is_told(call, fault):
    assert fault_calls.attempt(call).startswith(fault)


def test_a_good_call_and_a_named_error_are_none():
    from repro.accounting import GaussianMechanism

    assert fault_calls.attempt(lambda: fault_calls.finite(GaussianMechanism(1.0).delta(1.0))) == ""
    assert fault_calls.attempt(lambda: GaussianMechanism(-1.0)) == ""


def test_public_functions_and_mechanisms_are_found():
    names = [name for name, _ in fault_calls.public()]
    assert len(names) > 10 and all("._" not in name for name in names)
    kinds = {kind.__name__ for kind in fault_calls._mechanisms()}
    assert {"GaussianMechanism", "SummedLaplace", "CarriedRun", "SampledMask"} <= kinds


def test_so_many_calls_are_made_and_no_more(capsys):
    assert fault_calls.run(seed=0, seconds=1e9, count=3) == []
    told = capsys.readouterr().out
    below, above = (
        int(part.split()[-1])
        for part in told.replace(" below", "|").replace(" above", "|").split("|")[:2]
    )
    assert below + above == 3


def test_a_wrong_sum_a_missing_one_and_a_late_one_are_told(monkeypatch):
    """The round of a cluster, played: what it returns and how long it takes are given."""

    class Played:
        processes = {}

        def __init__(self, end):
            self.end = end

        def round(self, numbers):
            return self.end(numbers)

    def refused(numbers):
        raise RoundError("a server has left")

    clock = iter([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e3])
    monkeypatch.setattr(fault_sums, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    right = lambda numbers: SimpleNamespace(total=numbers.sum(axis=0))  # noqa: E731
    wrong = lambda numbers: SimpleNamespace(total=numbers.sum(axis=0) + 1e-6)  # noqa: E731
    ends = (right, wrong, refused, right)
    told = [
        fault_sums._round(fault_sums.Attack(Played(end), random.Random(0)), "", {}) for end in ends
    ]
    assert told == ["", "a wrong sum", "no sum: a server has left", "no end for 1000 s"]


def test_a_changed_a_missing_and_a_new_file_are_told():
    old, new = {"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}
    assert faults._differences("x", old, new) == ["x: b differs", "x: c differs"]
    assert faults._differences("x", old, {"b": "2"}) == ["x: a differs"]
    assert faults._differences("x", old, dict(old)) == []
