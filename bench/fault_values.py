"""What the recipes of random calls share: senseless values, a choice of arguments, a call as text."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Call = tuple[str, Callable[[], Any]]
JUNK = [None, "1", True, float("nan"), float("inf"), -1.0, 2**2000, [], [True], 1 + 2j, {}]


def picked(rng: random.Random, every: float = 1 / 8, **values: list) -> dict[str, Any]:
    """One of each argument's values; a share of `every` of the calls has a senseless one among them."""
    given = {name: rng.choice(each) for name, each in values.items()}
    if rng.random() < every:
        given[rng.choice(list(given))] = rng.choice(JUNK)
    return given


def told(name: str, given: dict[str, Any]) -> str:
    """A call as text, short: numbers of thousands of digits are cut."""
    return f"{name}({', '.join(f'{k}={repr(v)[:60]}' for k, v in given.items())})"
