"""Mutants of code: one small fault each, made from the syntax tree by rule and never picked by hand.

A number is moved by 5 % up and down (an integer that counts is moved by one), a sign is changed, a comparison is
turned round, an index is shifted by one, "add" and "remove" are exchanged. What is not moved:

* texts, annotations, and what a function raises;
* the yardstick of a test: constants that something is compared with in a cell, a little room given to one side (such as
  1.01 times it), and tolerances (`rtol`, `atol`);
* which axis of an array is meant: another one is hardly ever a program that runs;
* in a cell, the points at which a statement is tested and what is drawn at random: a statement must hold at the
  moved points, too. Only constants that take part in arithmetic are moved there.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

STEP = 0.05
"""How far a constant is moved, as a share of its value."""

SLACK = 0.1
"""The largest share by which a test gives room to a side of a comparison."""

_SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_TURNED = {
    **{ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
}
_WAYS = {"add": "remove", "remove": "add"}
_DRAWS = {
    *("normal", "standard_normal", "uniform", "dirichlet", "integers", "choice", "exponential"),
    *("laplace", "random", "permutation", "beta", "gamma", "binomial", "poisson", "default_rng"),
}
_LEFT = {"rtol", "atol", "rel_tol", "abs_tol", "axis", "ndmin", "digits", "decimals"}
_BOOK = "book"
_WHOLE = (ast.Mod, ast.FloorDiv, ast.LShift, ast.RShift)
"""Operators between whole numbers."""


@dataclass(frozen=True)
class Edit:
    """One change of a syntax tree.

    Attributes:
        kind: "constant", "sign", "comparison", "index" or "direction".
        text: the code around the change, before and after; unique in its tree.
        move: the same number for the two directions of one move.
        node: the place of the changed node in `ast.walk`.
        part: which of a comparison's operators is changed.
        value: the new constant, or the class of the new operator.
    """

    kind: str
    text: str
    move: int
    node: int
    part: int
    value: Any


def edits(tree: ast.AST, *, cell: bool) -> list[Edit]:
    """Every change of a function's definition, or of a statement of a cell, in the order of the code."""
    nodes = list(ast.walk(tree))
    parents = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
    fixed = _fixed(tree, nodes, cell)
    found: list[Edit] = []
    texts: Counter[str] = Counter()
    for place, node in enumerate(nodes):
        if id(node) in fixed:
            continue
        sides = (getattr(node, "left", None), getattr(node, "right", None))
        room = isinstance(node, ast.BinOp) and any(id(side) in fixed for side in sides)
        for kind, part, value in () if room else _changes(node, parents, cell):
            edit = Edit(kind, "", place, place, part, value)
            text = _shown(node, parents, tree, edit)
            texts[text] += 1
            number = f" ({texts[text]})" if texts[text] > 1 else ""
            found.append(Edit(kind, f"{kind} {text}{number}", place, place, part, value))
    return found


def edited(tree: ast.AST, edit: Edit) -> ast.AST:
    """A copy of the tree with one change."""
    changed = copy.deepcopy(tree)
    node: Any = list(ast.walk(changed))[edit.node]
    if edit.kind == "comparison":
        node.ops[edit.part] = edit.value()
    elif edit.kind == "sign":
        node.op = edit.value()
    else:
        node.value = edit.value
    return changed


# Inner parts --------------------------------------------------------------------------------------


def _changes(
    node: ast.AST, parents: dict[int, ast.AST], cell: bool
) -> Iterator[tuple[str, int, Any]]:
    """The changes of one node: kind, part and new value."""
    if isinstance(node, ast.Constant):
        if type(node.value) in (int, float):
            yield from _moved(node.value, node, parents, cell)
        elif type(node.value) is str and node.value in _WAYS:
            points = isinstance(parents.get(id(node)), ast.Tuple | ast.List | ast.Set)
            if not (cell and points):
                yield "direction", 0, _WAYS[node.value]
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _SIGNS:
        if not _joins(node) and not (cell and (_draws(node) or not _named(node))):
            yield "sign", 0, _SIGNS[type(node.op)]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        if not _index(node, parents) and not (cell and isinstance(node.operand, ast.Constant)):
            yield "sign", 0, ast.UAdd
    elif isinstance(node, ast.Compare) and not (cell and _draws(node)):
        for part, operator in enumerate(node.ops):
            if type(operator) in _TURNED:
                yield "comparison", part, _TURNED[type(operator)]


def _moved(
    value: float, node: ast.AST, parents: dict[int, ast.AST], cell: bool
) -> Iterator[tuple[str, int, Any]]:
    """The new values of a constant: an index shifted, a number moved both ways."""
    if _index(node, parents):
        if isinstance(value, int):
            yield "index", 0, value + 1
        return
    above = parents.get(id(node))
    if isinstance(above, ast.UnaryOp):
        above = parents.get(id(above))
    arithmetic = isinstance(above, ast.BinOp | ast.AugAssign)
    counts = not arithmetic or isinstance(above.op, _WHOLE)
    if cell and isinstance(above, ast.BinOp) and not _named(above):
        return  # such as 1 + 1e-9: a yardstick, or a point
    if cell and (not arithmetic or _draws(above)):
        return
    if isinstance(value, int) and counts:
        steps: tuple[float, ...] = (value + 1, value - 1)
    elif value == 0:
        steps = (STEP, -STEP)
    else:
        steps = (round(value * (1 + STEP), 15), round(value * (1 - STEP), 15))
        if value in steps:  # a number that rounding to 15 decimals would lose
            steps = (value * (1 + STEP), value * (1 - STEP))
    for step in steps:
        yield "constant", 0, step


def _fixed(tree: ast.AST, nodes: list[ast.AST], cell: bool) -> set[int]:
    """The nodes that no mutant touches."""
    roots: list[ast.AST] = []
    for node in nodes:
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
            roots.append(node)
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            roots.append(node.annotation)
        elif isinstance(node, ast.keyword) and node.arg in _LEFT:
            roots.append(node)
        elif isinstance(node, ast.Compare) and cell:
            sides = [node.left, *node.comparators]
            roots += [side for side in sides if not _named(side)]
            roots += [slack for side in sides for slack in _slack(side)]
        elif isinstance(node, ast.Call) and cell and _of_book(node):
            roots += [arg for k, arg in enumerate(node.args) if k != 1]
            roots += [one for one in node.keywords if one.arg not in ("ours", "holds", "ok")]
        elif isinstance(node, ast.FunctionDef):
            roots += [*node.decorator_list, *filter(None, [node.returns])]
    return {id(node) for root in roots for node in ast.walk(root)} - {id(tree)}


def _of_book(node: ast.Call) -> bool:
    """Whether it is a call of the workbook, which records a verdict and the words beside it."""
    at = node.func
    return isinstance(at, ast.Attribute) and isinstance(at.value, ast.Name) and at.value.id == _BOOK


def _slack(side: ast.AST) -> Iterator[ast.Constant]:
    """The constants that give a side of a comparison a little more room: 1.01 * x, x + 1e-9."""
    for node in ast.walk(side):
        if isinstance(node, ast.BinOp):
            factor = isinstance(node.op, ast.Mult | ast.Div)
            for part in (node.left, node.right):
                if isinstance(part, ast.Constant) and type(part.value) in (int, float):
                    room = abs(part.value - 1) if factor else abs(part.value)
                    if 0 < room <= SLACK:
                        yield part


def _named(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Name) for one in ast.walk(node))


def _draws(node: ast.AST) -> bool:
    """Whether something in it is drawn at random."""
    return any(isinstance(one, ast.Attribute) and one.attr in _DRAWS for one in ast.walk(node))


def _joins(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether it joins texts or lists."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    kinds = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple, ast.Dict)
    return any(
        isinstance(side, kinds)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        or (isinstance(side, ast.BinOp) and _joins(side))
        or (
            isinstance(side, ast.Call)
            and isinstance(side.func, ast.Attribute)
            and side.func.attr in ("join", "format")
        )
        for side in sides
    )


def _index(node: ast.AST, parents: dict[int, ast.AST]) -> bool:
    """Whether a constant is an index, or the bound of a slice."""
    above = parents.get(id(node))
    while isinstance(above, ast.UnaryOp | ast.Slice | ast.Tuple):
        node, above = above, parents.get(id(above))
    return isinstance(above, ast.Subscript) and above.slice is node


def _shown(node: ast.AST, parents: dict[int, ast.AST], tree: ast.AST, edit: Edit) -> str:
    """The expression around a change, before and after it."""
    around = node
    above = parents.get(id(node))
    small = (ast.Constant, ast.UnaryOp, ast.Slice)
    if _index(node, parents):
        small += (ast.Tuple,)
    while isinstance(around, small) and isinstance(
        above, ast.expr | ast.keyword | ast.Assign | ast.Return
    ):
        around, above = above, parents.get(id(above))
    before = " ".join(ast.unparse(around).split())
    place = list(ast.walk(tree)).index(around)
    after = " ".join(ast.unparse(list(ast.walk(edited(tree, edit)))[place]).split())
    return f"{_cut(before, before, after)} -> {_cut(after, before, after)}"


def _cut(text: str, before: str, after: str, most: int = 60) -> str:
    """A text near the first character in which `before` and `after` differ."""
    if len(text) <= most:
        return text
    pairs = zip(before, after, strict=False)
    first = next((k for k, (a, b) in enumerate(pairs) if a != b), 0)
    start = max(0, min(first - most // 2, len(text) - most))
    return text[start : start + most].strip()
