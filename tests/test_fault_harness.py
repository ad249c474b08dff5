"""The fault harness finds the faults that it is there for, and none where there is none."""

import sys

import pytest

from repro import paths

sys.path.insert(0, str(paths.ROOT / "bench"))

import fault_calls
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


def test_a_changed_a_missing_and_a_new_file_are_told():
    old, new = {"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}
    assert faults._differences("x", old, new) == ["x: b differs", "x: c differs"]
    assert faults._differences("x", old, {"b": "2"}) == ["x: a differs"]
    assert faults._differences("x", old, dict(old)) == []
