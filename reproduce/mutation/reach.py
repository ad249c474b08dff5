"""How far a changed statement of a cell reaches: names that hold other values than in the unchanged run.

Slices are wide (a loop that binds a name may end without binding it), so that a change seems to concern claims whose
numbers it leaves alone. Here the values are compared while the statements run: a claim none of whose later
statements reads another value is settled, and its statements need not run.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from reproduce import slices
from reproduce.mutation.watched import MOST, ROUNDING, Watch, numbers
from reproduce.slices import Statement


class Reach:
    """The names that hold other values than before, from a changed statement on.

    Args:
        found: the statements of the notebook.
        unchanged: what they left without the change.
        start: the place of the changed statement.
    """

    def __init__(self, found: Sequence[Statement], unchanged: Watch, start: int) -> None:
        self._found = found
        self._unchanged = unchanged
        self._start = start
        self._inside = {
            one.node.name: one.uses for one in found if isinstance(one.node, ast.FunctionDef)
        }
        self.names: set[str] = set()

    def reads(self, place: int) -> frozenset[str]:
        """The names that a statement reads, also through the functions of cells that it calls."""
        seen: set[str] = set()
        more = set(self._found[place].uses)
        while more:
            seen |= more
            more = set().union(*(self._inside.get(name, ()) for name in more)) - seen
        return frozenset(seen - {slices.BOOK})

    def ran(self, place: int, namespace: Mapping[str, Any]) -> None:
        """Look at what a statement left."""
        touched = place == self._start or bool(self.reads(place) & self.names)
        one = self._found[place]
        for name in one.changes - {slices.BOOK}:
            if touched and not self._as_before(place, name, namespace):
                self.names.add(name)
            elif touched or name in one.binds:
                self.names.discard(name)

    def ends(self, places: Sequence[int], now: int) -> bool:
        """Whether no statement at these places after `now` reads another value."""
        return not any(place > now and self.reads(place) & self.names for place in places)

    def _as_before(self, place: int, name: str, namespace: Mapping[str, Any]) -> bool:
        before = self._unchanged.values.get((place, name))
        if before is None or name not in namespace or not plain(namespace[name]):
            return False
        now = numbers(namespace[name])
        if now.shape != before.shape or now.size > MOST:
            return False
        return bool(np.allclose(now, before, equal_nan=True, **ROUNDING))


def plain(value: Any, depth: int = 5) -> bool:
    """Whether a value holds numbers and nothing else that `numbers` would miss, texts as keys excepted."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    if isinstance(value, Number | np.bool_):
        return not isinstance(value, complex)
    if depth and isinstance(value, Mapping):
        return all(plain(one, depth - 1) for one in value.values())
    return (
        bool(depth)
        and isinstance(value, list | tuple)
        and all(plain(one, depth - 1) for one in value)
    )
