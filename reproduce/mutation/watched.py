"""What a verdict looks at: the numbers that statements leave behind, and the margins of their comparisons.

Two runs of a slice are compared by it. A mutant that leaves all of it as it was (up to rounding) is no fault, and
one that only widens the margins makes a bound safer.
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

ROUNDING = {"rtol": 1e-9, "atol": 1e-12}
"""Numbers nearer than this are the same up to rounding."""

MOST = 20_000
"""The numbers of a value that are compared, and the comparisons of a statement that are kept."""

FEW = 200
"""Of a comparison of more numbers only the least and the largest margin are kept."""

_OPERATORS: dict[type, str] = {
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
    **{ast.Eq: "==", ast.NotEq: "!="},
}
_APPLY: dict[str, Callable[[Any, Any], Any]] = {
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    **{"==": operator.eq, "!=": operator.ne},
}
_CLOSE = {"allclose", "isclose", "array_equal"}
_SEEN = "_compared"


@dataclass
class Watch:
    """What the statements of one run left behind.

    Attributes:
        values: (statement, name) -> the numbers of the value that it bound or changed.
        margins: statement -> for each comparison the function that makes it ("" for the statement itself), and how
            far it is from coming out the other way: positive where it is true.
        numbers: claim -> the margin of its number beside the paper's; several claims may be decided by one statement.
        now: the statement that runs; comparisons in the functions that it calls belong to it.
        judges: the functions whose comparisons are kept; None as long as they are not known.
    """

    values: dict[tuple[int, str], np.ndarray] = field(default_factory=dict)
    margins: dict[int, list[tuple[str, np.ndarray]]] = field(default_factory=dict)
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    now: int = -1
    judges: frozenset[str] | None = None

    def keep(self, place: int, names: Sequence[str], namespace: Mapping[str, Any]) -> None:
        """Keep the numbers of the values that a statement left."""
        for name in names:
            if name in namespace:
                self.values[place, name] = numbers(namespace[name])

    def compare(self, by: str, operators: Sequence[str], *sides: Any) -> Any:
        """Compare as Python does, and keep the margins; stands in a cell for each comparison."""
        result: Any = True
        for name, left, right in zip(operators, sides, sides[1:], strict=False):
            self._note(by, name, left, right)
            one = _APPLY[name](left, right)
            result = one if result is True else result and one
        return result

    def close(self, by: str, function: Callable[..., Any], *sides: Any, **options: Any) -> Any:
        """The same for `np.allclose` and its like."""
        if len(sides) >= 2:
            exact = function.__name__ == "array_equal"
            self._near(
                by,
                *sides[:2],
                0.0 if exact else options.get("rtol", 1e-5),
                0.0 if exact else options.get("atol", 1e-8),
            )
        return function(*sides, **options)

    def number(self, claim: str, ours: Any, paper: Any, rtol: float, atol: float) -> None:
        """Note how far a claim's number is from the paper's."""
        with suppress(TypeError, ValueError):
            gap = atol + rtol * abs(float(paper)) - abs(float(ours) - float(paper))
            self.numbers[claim] = np.array([gap])

    def take(self, other: Watch, places: Sequence[int], claim: str = "") -> None:
        """Take over from another run what these statements left, and the claim's own number."""
        self.numbers |= {key: kept for key, kept in other.numbers.items() if key == claim}
        for place in places:
            self.margins.pop(place, None)
            if place in other.margins:
                self.margins[place] = other.margins[place]
        inside = set(places)
        self.values |= {key: kept for key, kept in other.values.items() if key[0] in inside}

    def only(self, judges: frozenset[str]) -> None:
        """From now on keep the comparisons of statements and of these functions; forget the others."""
        self.judges = judges | {""}
        self.margins = {
            place: [one for one in kept if one[0] in self.judges]
            for place, kept in self.margins.items()
        }

    def _near(self, by: str, left: Any, right: Any, rtol: float, atol: float) -> None:
        with suppress(TypeError, ValueError, AttributeError):
            first, second = np.asarray(left, float), np.asarray(right, float)
            self._note(by, "<=", np.abs(first - second), atol + rtol * np.abs(second))

    def _note(self, by: str, name: str, left: Any, right: Any) -> None:
        if self.judges is not None and by not in self.judges:
            return
        kept = self.margins.setdefault(self.now, [])
        if len(kept) >= MOST:
            return
        try:
            gap = np.asarray(right, float) - np.asarray(left, float)
        except (TypeError, ValueError, AttributeError):
            return
        if name in ("==", "!="):
            gap = -np.abs(gap) if name == "==" else np.abs(gap)
        gap = np.ravel(gap if name in ("<", "<=", "==", "!=") else -gap)
        kept.append((by, gap if gap.size <= FEW else np.array([gap.min(), gap.max()])))

    def same(self, other: Watch, places: Sequence[int], claim: str = "") -> bool:
        """Whether in another run these statements, and the claim's own number, compared the same, up to rounding.

        Where they compare no numbers, whether they left the same numbers.
        """
        inside = set(places)
        pairs: list[tuple[np.ndarray, np.ndarray]] = []
        for place in inside:
            first, second = self.margins.get(place, []), other.margins.get(place, [])
            if len(first) != len(second):
                return False
            pairs += [(a, b) for (_, a), (_, b) in zip(first, second, strict=True)]
        if claim in self.numbers:
            pairs.append((self.numbers[claim], other.numbers.get(claim, np.zeros(0))))
        if not pairs:
            mine, others = (
                {key: value for key, value in one.values.items() if key[0] in inside}
                for one in (self, other)
            )
            if mine.keys() != others.keys():
                return False
            pairs = [(mine[key], others[key]) for key in mine]
        return all(
            a.shape == b.shape and np.allclose(a, b, equal_nan=True, **ROUNDING) for a, b in pairs
        )

    def safer(self, other: Watch, places: Sequence[int], claim: str = "") -> bool:
        """Whether in another run every comparison comes out as in this, with no smaller margin.

        At least one margin must have grown by more than rounding. A test without a comparison of numbers
        is never safer.
        """
        grown = False
        pairs = [
            (self.margins.get(place, []), other.margins.get(place, [])) for place in set(places)
        ]
        mine, others = (
            [("", one.numbers[claim])] if claim in one.numbers else [] for one in (self, other)
        )
        for first, second in [*pairs, (mine, others)]:
            if len(first) != len(second):
                return False
            for (_, a), (_, b) in zip(first, second, strict=True):
                if a.shape != b.shape or not np.all(np.isfinite(a) & np.isfinite(b)):
                    return False
                more = np.where(a >= 0, b - a, a - b)
                room = ROUNDING["rtol"] * np.abs(a) + ROUNDING["atol"]
                if np.any(more < -room):
                    return False
                grown = grown or bool(np.any(more > room))
        return grown


def numbers(value: Any, depth: int = 5) -> np.ndarray:
    """The numbers in a value as one flat array: arrays, frames, lists, mappings, dataclasses of them.

    What is no number leaves none. Of more than `MOST` numbers the sum is taken in place of the rest.
    """
    found = np.concatenate([np.zeros(0), *_parts(value, depth)])
    return found if found.size <= MOST else np.append(found[:MOST], found[MOST:].sum())


def _parts(value: Any, depth: int) -> list[np.ndarray]:
    if depth == 0 or value is None or isinstance(value, str | bytes | type) or callable(value):
        return []
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [np.ravel(value).astype(float)] if value.dtype.kind in "biuf" else []
    if isinstance(value, Mapping):
        value = list(value.values())
    elif is_dataclass(value):
        value = [getattr(value, one.name, None) for one in fields(value)]
    if isinstance(value, list | tuple | np.ndarray):
        return [part for one in value for part in _parts(one, depth - 1)]
    try:
        return [np.array([float(value)])]
    except (TypeError, ValueError, AttributeError, OverflowError):
        return []


def judgement(value: Any, depth: int = 3) -> bool:
    """Whether a returned value holds a truth value: the function that returned it judges."""
    if isinstance(value, bool | np.bool_):
        return True
    if depth == 0 or isinstance(value, type):
        return False
    if isinstance(value, Mapping):
        value = list(value.values())
    elif is_dataclass(value):
        value = [getattr(value, one.name, None) for one in fields(value)]
    return isinstance(value, list | tuple) and any(judgement(one, depth - 1) for one in value[:99])


class _Watching(ast.NodeTransformer):
    """Put the comparisons of a tree into the hands of `Watch`."""

    def __init__(self, by: str) -> None:
        self.by = by

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if not all(type(one) in _OPERATORS for one in node.ops):
            return node
        names = [ast.Constant(_OPERATORS[type(one)]) for one in node.ops]
        return self._call("compare", [ast.List(names, ast.Load()), node.left, *node.comparators])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Attribute) and node.func.attr in _CLOSE):
            return node
        call = self._call("close", [node.func, *node.args])
        call.keywords = node.keywords
        return call

    def _call(self, name: str, arguments: list[ast.expr]) -> ast.Call:
        function = ast.Attribute(ast.Name(_SEEN, ast.Load()), name, ast.Load())
        return ast.Call(function, [ast.Constant(self.by), *arguments], [])


def told(tree: Any, by: str = "") -> Any:
    """A copy of a tree whose comparisons are told to the `Watch` in its namespace.

    `by` is the function that the tree defines; "" for a statement of a notebook.
    """
    return ast.fix_missing_locations(_Watching(by).visit(copy.deepcopy(tree)))


def watching(statement: ast.stmt) -> Any:
    """The code of a statement that tells its comparisons."""
    return compile(ast.Module([told(statement)], type_ignores=[]), "<statement>", "exec")


def attach(namespace: dict[str, Any], watch: Watch) -> None:
    """Let the statements of a namespace tell this watch."""
    namespace[_SEEN] = watch
