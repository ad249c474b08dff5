"""Proofs of something false: the learner names the step that is false, and numbers at which it is.

No step is marked as the wrong one. Each step is a sentence that a computer can test at given numbers, by
counting or on a grid, and an objection is right where its step is false at its numbers. The proofs stand in
`wrong_proofs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduce.teaching.checks import Answer, Property, Unanswered

Step = Callable[..., bool]
"""Whether a step is true at the numbers of its proof, which it takes by name."""


@dataclass(frozen=True)
class Proof:
    """A proof of something false.

    Attributes:
        numbers: name -> smallest and largest value; whole numbers at both ends ask for a whole number.
        steps: in the order of the text, the first one is number 1.
    """

    numbers: Mapping[str, tuple[float, float]]
    steps: Sequence[Step]

    def refuted(self) -> tuple[Property, Property]:
        """What a right objection has; an objection takes nothing and gives a step and a dictionary."""
        names = ", ".join(self.numbers)
        return (
            Property(
                f"it names a step from 1 to {len(self.steps)} and a number in range for each of {names}",
                self._unreadable,
            ),
            Property(
                "the step is false at these numbers",
                self._faultless,
            ),
        )

    def _unreadable(self, answer: Answer, seed: int) -> str | None:
        try:
            objection = answer()
        except Exception as problem:
            return f"Your function stopped: {type(problem).__name__}: {problem}"
        if objection is None or objection is ...:
            raise Unanswered
        if not isinstance(objection, tuple | list) or len(objection) != 2:
            return "Your function must return two things: a step, and a dictionary of numbers"
        step, numbers = objection
        if not _whole(step) or not 1 <= step <= len(self.steps):
            return f"The step must be a whole number from 1 to {len(self.steps)}"
        if not isinstance(numbers, Mapping) or set(numbers) != set(self.numbers):
            return f"The dictionary must have the names {', '.join(self.numbers)}"
        for name, (low, high) in self.numbers.items():
            value = numbers[name]
            if isinstance(low, int) and isinstance(high, int) and not _whole(value):
                return f"{name} must be a whole number"
            if not isinstance(value, int | float | np.number) or not low <= value <= high:
                return f"{name} must be a number from {low:g} to {high:g}"
        return None

    def _faultless(self, answer: Answer, seed: int) -> str | None:
        step, numbers = answer()
        if not self.steps[int(step) - 1](**numbers):
            return None
        where = ", ".join(f"{name} = {numbers[name]:g}" for name in self.numbers)
        return f"A computer sees no fault of step {int(step)} at {where}"


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
