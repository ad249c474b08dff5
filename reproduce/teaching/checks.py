"""Exercises that are checked at once, by properties that every right answer has.

An exercise stores no right value. It draws parameters at random (always the same ones, so that a check can be
repeated) and tests sentences such as "lies between what an attacker reaches and what is proved". A failed check says
which sentence fails and where. It shows neither the limits nor a value.

    exercise = Exercise(
        "0.5", "delta of one noisy number",
        (
            between("lies between ...", Cases(sigma=(0.3, 3.0)), lower, upper),
            limit("without noise everything shows", 1.0, sigma=1e-3),
        ),
    )
    exercise.check(answer)

An answer is a function. Parameters are passed by name, so that a question fixes the names.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Answer = Callable[..., Any]
Case = Mapping[str, float]

RANDOM_CASES = 20
"""Random parameters at which a property is tested."""

_GRID = 3  # significant digits of random parameters, so that a message can be typed in again


class Unanswered(Exception):
    """The learner has not written an answer yet."""


class Cases:
    """Random parameters, each uniform on the scale that suits it.

    Args:
        ranges: name -> (low, high). Whole numbers at both ends give whole numbers; a positive low end with
            high / low >= 10 is drawn on a logarithmic scale. A one-element tuple fixes a parameter.

    Raises:
        ValueError: a range is empty.
    """

    def __init__(self, **ranges: tuple[float, ...]) -> None:
        for name, ends in ranges.items():
            if len(ends) not in (1, 2) or ends[0] > ends[-1]:
                raise ValueError(f"{name} must be (value,) or (low, high), got {ends!r}")
        self._ranges = ranges

    def draw(self, seed: int) -> list[dict[str, float]]:
        """`RANDOM_CASES` parameter sets, the same ones for the same seed."""
        rng = np.random.default_rng(seed)
        columns = {name: _column(ends, rng) for name, ends in self._ranges.items()}
        return [{name: values[k] for name, values in columns.items()} for k in range(RANDOM_CASES)]


def _column(ends: tuple[float, ...], rng: np.random.Generator) -> list[float]:
    low, high = ends[0], ends[-1]
    if isinstance(low, int) and isinstance(high, int):
        return rng.integers(low, high + 1, RANDOM_CASES).tolist()
    if low > 0 and high / low >= 10:
        values = np.exp(rng.uniform(np.log(low), np.log(high), RANDOM_CASES))
    else:
        values = rng.uniform(low, high, RANDOM_CASES)
    return [float(f"{value:.{_GRID}g}") for value in values]


@dataclass(frozen=True)
class Property:
    """One sentence about right answers.

    Attributes:
        sentence: what is true of every right answer.
        fault: of an answer, given a seed: where the sentence fails, or None.
    """

    sentence: str
    fault: Callable[[Answer, int], str | None]


@dataclass(frozen=True)
class Outcome:
    """What a check found; a notebook prints it."""

    exercise: str
    passed: bool | None
    text: str

    def __repr__(self) -> str:
        return f"{self.exercise}: {self.text}"


@dataclass(frozen=True)
class Exercise:
    """One question.

    Attributes:
        number: "<lesson>.<exercise>".
        title: a few words.
        properties: what the answer is tested for, in this order.
    """

    number: str
    title: str
    properties: tuple[Property, ...]

    def check(self, answer: Answer) -> Outcome:
        """Test the properties one after the other and stop at the first that fails.

        `passed` of the outcome is None where the answer returns None or `...`: no answer yet.
        """
        name = f"Exercise {self.number} ({self.title})"
        for place, one in enumerate(self.properties, 1):
            where = f"Property {place} of {len(self.properties)}: {one.sentence}."
            try:
                fault = one.fault(answer, zlib.crc32(f"{self.number}/{place}".encode()))
            except Unanswered:
                return Outcome(name, None, "no answer yet. Replace the three dots.")
            if fault:
                return Outcome(name, False, f"not yet. {where} {fault}.")
        count = len(self.properties)
        return Outcome(name, True, f"right. {count} of {count} properties hold.")


# Properties -------------------------------------------------------------------------------------


def between(
    sentence: str,
    cases: Cases,
    lower: Callable[..., Any],
    upper: Callable[..., Any],
    slack: float = 1e-9,
) -> Property:
    """At random parameters the answer lies between two routes that do not use the answer's formula.

    Args:
        sentence: what the two ends are.
        cases: random parameters of the answer.
        lower, upper: the ends, functions of the same parameters; arrays are compared entry by entry.
        slack: absolute rounding that is allowed beyond the ends.
    """

    def fault(answer: Answer, seed: int) -> str | None:
        for case in cases.draw(seed):
            low, high = np.asarray(lower(**case), float), np.asarray(upper(**case), float)
            value, problem = _value(answer, case, low.shape)
            if problem:
                return problem
            if np.any(value < low - slack):
                return f"Your value is too small at {_told(case)}"
            if np.any(value > high + slack):
                return f"Your value is too large at {_told(case)}"
        return None

    return Property(sentence, fault)


def near(
    sentence: str, cases: Cases, route: Callable[..., Any], relative: float = 1e-3
) -> Property:
    """As `between`, with the ends a relative distance below and above one other route."""

    def end(sign: int) -> Callable[..., Any]:
        def at(**case: float) -> Any:
            value = np.asarray(route(**case), float)
            return value + sign * relative * np.abs(value)

        return at

    return between(sentence, cases, end(-1), end(1))


def limit(sentence: str, value: float, tolerance: float = 1e-6, **case: float) -> Property:
    """At one extreme setting the answer is known without any formula."""

    def fault(answer: Answer, seed: int) -> str | None:
        found, problem = _value(answer, case, ())
        if problem:
            return problem
        wrong = not abs(float(found) - value) <= tolerance
        return f"It does not hold at {_told(case)}" if wrong else None

    return Property(sentence, fault)


def moves(sentence: str, cases: Cases, name: str, to: float, rises: bool) -> Property:
    """The answer rises (or falls), never the other way, when one parameter grows.

    Args:
        sentence: which way the answer goes.
        cases: random parameters.
        name: of the parameter that grows.
        to: the factor (> 1) by which it grows.
        rises: whether the answer then rises; equal is allowed, except everywhere.
    """

    def fault(answer: Answer, seed: int) -> str | None:
        seen = False
        for case in cases.draw(seed):
            grown = type(case[name])(case[name] * to)
            first, problem = _value(answer, case, ())
            second, other = _value(answer, {**case, name: grown}, ())
            if problem or other:
                return problem or other
            step = float(second - first) if rises else float(first - second)
            seen |= step > 0
            if step < -1e-9 * max(1.0, abs(float(first))):
                return f"It goes the other way between {name} = {case[name]:g} and {grown:g}, at {_told(case)}"
        return None if seen else "Your value never changes"

    return Property(sentence, fault)


def holds(
    sentence: str, cases: Cases, test: Callable[[Answer, dict[str, float]], bool]
) -> Property:
    """A relation of the answer with itself, such as a sum that must be 1, at random parameters."""

    def fault(answer: Answer, seed: int) -> str | None:
        for case in cases.draw(seed):
            _, problem = _value(answer, case, None)
            if problem:
                return problem
            try:
                good = test(answer, case)
            except Exception as stopped:
                return (
                    f"Your function stopped near {_told(case)}: {type(stopped).__name__}: {stopped}"
                )
            if not good:
                return f"It fails at {_told(case)}"
        return None

    return Property(sentence, fault)


def sorts(sentence: str, good: Sequence[Any], bad: Sequence[Any]) -> Property:
    """The answer is itself a test: True for every right subject, False for every wrong one.

    Subjects are shown by no name, so that the failed check does not say what is wrong with which.
    """

    def fault(answer: Answer, seed: int) -> str | None:
        for wanted, subjects in ((True, good), (False, bad)):
            for subject in subjects:
                try:
                    found = answer(subject)
                except Exception as problem:
                    return f"Your test stopped: {type(problem).__name__}: {problem}"
                if found is None or found is ...:
                    raise Unanswered
                if found not in (True, False):
                    return f"Your test must return True or False, not {type(found).__name__}"
                if bool(found) != wanted:
                    return (
                        "Your test rejects a right one"
                        if wanted
                        else "Your test lets a wrong one pass"
                    )
        return None

    return Property(sentence, fault)


def _value(
    answer: Answer, case: Case, shape: tuple[int, ...] | None
) -> tuple[np.ndarray, str | None]:
    """The answer at one case as an array, and what is wrong with it as a number; `shape` None: any shape."""
    nothing = np.zeros(())
    try:
        found = answer(**case)
    except Exception as problem:
        return (
            nothing,
            f"Your function stopped at {_told(case)}: {type(problem).__name__}: {problem}",
        )
    if found is None or found is ...:
        raise Unanswered
    try:
        value = np.asarray(found, dtype=float)
    except (TypeError, ValueError):
        return nothing, f"Your function must return a number, not {type(found).__name__}"
    if shape is not None and value.shape != shape:
        return nothing, f"Your function must return {_size(shape)}, not {_size(value.shape)}"
    if not np.all(np.isfinite(value)):
        return nothing, f"Your value is not finite at {_told(case)}"
    return value, None


def _size(shape: tuple[int, ...]) -> str:
    return "one number" if shape == () else f"{' x '.join(map(str, shape))} numbers"


def _told(case: Case) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in case.items())


class Lesson:
    """The exercises of one lesson, found by number.

    Args:
        exercises: in the order of the lesson.

    Raises:
        ValueError: two exercises have one number.
    """

    def __init__(self, exercises: Sequence[Exercise]) -> None:
        self.exercises = {one.number: one for one in exercises}
        if len(self.exercises) != len(exercises):
            raise ValueError("exercises must have numbers of their own")

    def check(self, number: str, answer: Answer) -> Outcome:
        """Check the answer to one exercise.

        Raises:
            ValueError: there is no such exercise, or the answer is no function.
        """
        if number not in self.exercises:
            known = ", ".join(self.exercises)
            raise ValueError(f"number must be one of {known}, got {number!r}")
        if not callable(answer):
            raise ValueError(f"answer must be a function, got {answer!r}")
        return self.exercises[number].check(answer)


def reveal(guess: Any, found: str) -> str:
    """What a predict section prints: the answer beside the guess, and nothing before a guess is made."""
    if guess is None or guess is ...:
        return "Write your guess first. Then run this cell again."
    return f"your guess: {guess}\nfound: {found}"
