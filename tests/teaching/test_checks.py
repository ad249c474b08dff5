"""Checks by properties: the right answer passes, each property can fail, a message gives nothing away."""

from __future__ import annotations

import re

import numpy as np
import pytest

from reproduce.teaching.checks import (
    RANDOM_CASES,
    Cases,
    Exercise,
    Lesson,
    between,
    holds,
    limit,
    moves,
    near,
    reveal,
    sorts,
)

SQUARE = Exercise(
    "9.1",
    "square",
    (
        between("between", Cases(x=(0.5, 3.0)), lambda x: 0.99 * x * x, lambda x: 1.01 * x * x),
        limit("nothing", 0.0, x=0.0),
        moves("rises", Cases(x=(0.5, 3.0)), "x", 2, True),
        holds("even", Cases(x=(0.5, 3.0)), lambda answer, at: answer(-at["x"]) == answer(at["x"])),
    ),
)


def test_a_right_answer_passes_every_property():
    found = SQUARE.check(lambda x: x * x)
    assert found.passed is True
    assert repr(found) == "Exercise 9.1 (square): right. 4 of 4 properties hold."


@pytest.mark.parametrize(
    ("answer", "place", "words"),
    [
        (lambda x: 2 * x * x, 1, "too large at x = "),
        (lambda x: x * x / 2, 1, "too small at x = "),
        (lambda x: x * x if x else 1.0, 2, "does not hold at x = 0"),
        (lambda x: x * x if x > 0 else 0.0, 4, "It fails at x = "),
        (lambda x: x * x if x >= 0 else 1 / 0, 4, "stopped near x = .*ZeroDivisionError"),
        (lambda x: 1 / 0, 1, "stopped at x = .*ZeroDivisionError"),
        (lambda x: "two", 1, "must return a number, not str"),
        (lambda x: [x, x], 1, "must return one number, not 2 numbers"),
        (lambda x: float("nan"), 1, "not finite at x = "),
        (lambda y: y, 1, "TypeError"),
    ],
)
def test_the_message_names_property_and_place(answer, place, words):
    found = SQUARE.check(answer)
    assert found.passed is False
    assert f"Property {place} of 4" in found.text
    assert re.search(words, found.text), found.text


def test_the_direction_is_a_property_of_its_own():
    rises = Exercise("9.2", "t", (moves("rises", Cases(x=(1.0, 3.0)), "x", 2, True),))
    assert rises.check(lambda x: x).passed
    assert "other way between x = " in rises.check(lambda x: -x).text
    assert "never changes" in rises.check(lambda x: 3.0).text


def test_lists_are_compared_entry_by_entry():
    pair = Exercise("9.3", "t", (near("near", Cases(x=(1.0, 2.0)), lambda x: [x, 2 * x]),))
    assert pair.check(lambda x: (x, 2 * x)).passed
    assert pair.check(lambda x: np.array([x, x])).passed is False
    assert "must return 2 numbers, not one number" in pair.check(lambda x: x).text


def test_no_message_shows_a_value_or_a_limit():
    shown = {float(x) for x in re.findall(r"\d+\.\d+", SQUARE.check(lambda x: 7 * x * x).text)}
    places = {case["x"] for case in Cases(x=(0.5, 3.0)).draw(0)}
    assert len(shown) <= 2  # the exercise's number and the place
    assert not any(
        abs(value - k * x * x) < 1e-3 for value in shown for x in places for k in (0.99, 1.01, 7)
    )


@pytest.mark.parametrize("nothing", [None, ...])
def test_no_answer_is_no_mistake(nothing):
    found = SQUARE.check(lambda x: nothing)
    assert found.passed is None
    assert "no answer yet" in found.text


def test_a_test_is_tested():
    task = Exercise("9.4", "t", (sorts("sorts", [1, 2], [-1]),))
    assert task.check(lambda x: x > 0).passed
    assert "lets a wrong one pass" in task.check(lambda x: True).text
    assert "rejects a right one" in task.check(lambda x: x > 1).text
    assert "True or False, not float" in task.check(lambda x: 0.5).text
    assert "stopped: TypeError" in task.check(lambda: True).text
    assert task.check(lambda x: None).passed is None


def test_cases_are_the_same_every_time_and_in_their_ranges():
    cases = Cases(x=(0.1, 100.0), k=(1, 4), fixed=(2.5,))
    drawn = cases.draw(1)
    assert drawn == cases.draw(1) != cases.draw(2)
    assert len(drawn) == RANDOM_CASES >= 20
    assert all(0.1 <= one["x"] <= 100 and one["k"] in (1, 2, 3, 4) for one in drawn)
    assert {one["fixed"] for one in drawn} == {2.5}
    assert all(isinstance(one["k"], int) for one in drawn)
    with pytest.raises(ValueError, match=r"x must be .* got \(2, 1\)"):
        Cases(x=(2, 1))


def test_a_lesson_knows_its_exercises():
    lesson = Lesson([SQUARE])
    assert lesson.check("9.1", lambda x: x * x).passed
    with pytest.raises(ValueError, match=r"number must be one of 9\.1, got '9\.7'"):
        lesson.check("9.7", lambda x: x)
    with pytest.raises(ValueError, match="answer must be a function, got 3"):
        lesson.check("9.1", 3)
    with pytest.raises(ValueError, match="numbers of their own"):
        Lesson([SQUARE, SQUARE])


def test_nothing_is_revealed_before_a_guess():
    assert "41" not in reveal(None, "41 %")
    assert reveal(0.5, "41 %") == "your guess: 0.5\nfound: 41 %"
