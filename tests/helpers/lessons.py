"""The answers of a lesson's teachers' edition, and ways to spoil an answer."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
import numpy as np

from reproduce.teaching.checks import Lesson
from reproduce.teaching.editions import FOLDER, tags

Answer = Callable[..., Any]

SPOILED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "a factor 2": lambda x: 2 * x,
    "half": lambda x: x / 2,
    "the other event": lambda x: 1 - x,
    "the other sign": lambda x: -x,
    "a square": lambda x: x**2,
    "a square root": lambda x: np.sqrt(np.abs(x)),
    "a tenth too much": lambda x: 1.1 * x,
    "a tenth too little": lambda x: 0.9 * x,
    "added twice": lambda x: x + 1,
    "base 2": lambda x: x / np.log(2),
    "base 10": lambda x: x / np.log(10),
    "rounded": lambda x: np.round(x, 1),
    "a logarithm forgotten": lambda x: np.exp(np.minimum(x, 700.0)),
    "a logarithm too many": lambda x: np.log(np.abs(x) + 1e-300),
}
"""Mistakes that can be made after every formula."""


def book(path: Path) -> nbformat.NotebookNode:
    """The teachers' edition."""
    return nbformat.read(path, as_version=4)


def answers(name: str) -> dict[str, Answer]:
    """Number of the exercise -> the function that the teachers' edition of lesson `name` hands in."""
    space: dict[str, Any] = {}
    found = {}
    for cell in book(FOLDER / f"{name}.ipynb").cells:
        if tags(cell) & {"setup", "answer"}:
            tree = ast.parse(cell["source"])
            handed = [node for node in tree.body if _check(node)]
            tree.body = [node for node in tree.body if node not in handed]
            exec(compile(tree, cell["id"], "exec"), space)
            for node in handed:
                number, function = (ast.unparse(one) for one in node.value.args)
                found[ast.literal_eval(number)] = space[function]
    return found


def _check(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("LESSON.check(")


def spoiled(answer: Answer, change: Callable[[np.ndarray], np.ndarray]) -> Answer:
    """The answer with a mistake made at the end."""
    return lambda **case: change(np.asarray(answer(**case), dtype=float))


def objections(*wrong: tuple[Any, Mapping[str, Any]]) -> dict[str, Answer]:
    """Objections to a proof that are none: steps that are true at these numbers, and numbers out of place."""
    return {
        f"step {step} at {', '.join(f'{name} {value}' for name, value in numbers.items())}": (
            lambda step=step, numbers=numbers: (step, numbers)
        )
        for step, numbers in wrong
    }


def planted(
    lesson: Lesson,
    right: Mapping[str, Answer],
    wrong: Mapping[str, Mapping[str, Answer]],
    whole: Sequence[str] = (),
) -> list[tuple[str, str, Answer]]:
    """Exercise, mistake and function: those written by hand, and the right answers spoiled.

    Exercises whose answer is itself a test have the mistakes by hand only. `whole` names those whose answer
    is a whole number, which rounding does not spoil.
    """
    by_hand = [(key, name, one) for key, group in wrong.items() for name, one in group.items()]
    tests = {key for key, one in lesson.exercises.items() if "find the bug" in one.title}
    made = [
        (key, name, spoiled(right[key], change))
        for key in lesson.exercises
        if key not in tests
        for name, change in SPOILED.items()
        if not (key in whole and name == "rounded")
    ]
    return by_hand + made


def mistakes(
    lesson: Lesson,
    right: Mapping[str, Answer],
    wrong: Mapping[str, Mapping[str, Answer]],
    whole: Sequence[str] = (),
) -> list[str]:
    """The planted wrong answers that a lesson's checks let pass; there are 200 or more, some for each exercise."""
    plants = planted(lesson, right, wrong, whole)
    assert set(wrong) == set(lesson.exercises) and len(plants) >= 200
    return [f"{key}: {name}" for key, name, one in plants if lesson.check(key, one).passed]
