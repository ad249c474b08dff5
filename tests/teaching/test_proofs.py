"""Wrong proofs: one step is false at some numbers, all others are true everywhere; objections are judged by both."""

from __future__ import annotations

import numpy as np
import pytest

from reproduce.teaching import wrong_proofs
from reproduce.teaching.checks import Exercise

FALSE = {
    "BAD_OUTPUTS": 4,
    "EQUAL_GRADIENTS": 4,
    "EXACTLY_WINS": 4,
    "KEPT_STATE": 3,
    "SUMMED_NOISE": 4,
    "BATCH_OF_IMAGES": 3,
}
"""The false step of each proof, by hand."""

CORNERS = {"EXACTLY_WINS": 20}
"""How many random numbers are tried where one try takes a tenth of a second."""


def drawn(proof, count, seed):
    """Random numbers in range, the first ones at the ends of all ranges."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        numbers = {}
        for name, (low, high) in proof.numbers.items():
            value = (low, high)[k] if k < 2 else low + rng.random() * (high - low)
            numbers[name] = round(value) if isinstance(low, int) else float(value)
        yield numbers


@pytest.mark.parametrize("name", FALSE)
def test_exactly_one_step_is_false(name):
    proof = getattr(wrong_proofs, name)
    tried = [
        [step(**numbers) for step in proof.steps]
        for numbers in drawn(proof, CORNERS.get(name, 40), 16)
    ]
    false = {k + 1 for k, column in enumerate(zip(*tried, strict=True)) if not all(column)}
    assert false == {FALSE[name]}
    assert sum(not row[FALSE[name] - 1] for row in tried) >= 2


@pytest.mark.parametrize(
    ("objection", "said"),
    [
        (4, "must return two things"),
        ((True, {}), "must be a whole number from 1 to 4"),
        ((9, {}), "must be a whole number from 1 to 4"),
        (("4", {}), "must be a whole number from 1 to 4"),
        ((4, {"scale": 1.0}), "must have the names scale, clients"),
        ((4, [1.0, 4]), "must have the names scale, clients"),
        ((4, {"scale": 1.0, "clients": 2.5}), "clients must be a whole number"),
        ((4, {"scale": "1", "clients": 2}), "scale must be a number from 0.2 to 5"),
        ((4, {"scale": float("nan"), "clients": 2}), "scale must be a number from 0.2 to 5"),
        ((4, {"scale": 1.0, "clients": 51}), "clients must be a number from 1 to 50"),
        ((1, {"scale": 1.0, "clients": 4}), "sees no fault of step 1 at scale = 1, clients = 4"),
    ],
)
def test_a_wrong_objection_is_told_what_is_missing(objection, said):
    task = Exercise("9.9", "a wrong proof", wrong_proofs.SUMMED_NOISE.refuted())
    found = task.check(lambda: objection)
    assert found.passed is False and said in found.text
    assert "tep 4" not in found.text.split("from 1 to 4")[-1]  # the false step is not named


def test_an_objection_that_stops_is_named():
    task = Exercise("9.9", "a wrong proof", wrong_proofs.SUMMED_NOISE.refuted())
    assert "stopped: ZeroDivisionError" in task.check(lambda: 1 / 0).text
    assert "stopped: TypeError" in task.check(lambda scale: (4, {})).text


@pytest.mark.parametrize("nothing", [None, ...])
def test_no_objection_is_no_mistake(nothing):
    task = Exercise("9.9", "a wrong proof", wrong_proofs.SUMMED_NOISE.refuted())
    assert task.check(lambda: nothing).passed is None


def test_numbers_of_numpy_and_lists_are_taken():
    task = Exercise("9.9", "a wrong proof", wrong_proofs.SUMMED_NOISE.refuted())
    assert task.check(
        lambda: [np.int64(4), {"scale": np.float64(1), "clients": np.int64(4)}]
    ).passed
