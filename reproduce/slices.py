"""What of a notebook one claim depends on: a static slice over the statements of its code cells.

From the statements that decide the claim the slice goes backwards and takes every statement that defines
or changes a name which a later one needs. Nothing is executed for that. What a statement changes is
judged by its form, on the safe side:

* assignments, loops, imports, definitions: the names they bind;
* `x[…] = …`, `x.a = …`, `x += …`, `x.append(…)` and the like: `x`;
* a call whose value is dropped: the names that it is called on or given, `print` and `display`
  excepted, and the last expression of a cell, which is shown;
* what a loop reads is needed from before it, except the names that each round binds first;
* any use of a random generator (`default_rng`): the generator.

The workbook's own calls (`book.save`, `book.table`, verdicts on other claims) change nothing that a verdict
depends on.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

BOOK = "book"
"""The name of the workbook in every notebook."""

_SHOWN = {"print", "display"}
_MUTATORS = {
    *("append", "extend", "insert", "update", "setdefault", "pop", "popitem", "add", "remove"),
    *("discard", "clear", "sort", "reverse", "shuffle", "fill", "put", "resize"),
}
_OUTPUTS = {"save", "story", "table", "headline"}


@dataclass(frozen=True)
class Statement:
    """One statement at the top level of a code cell.

    Attributes:
        cell: the id of its cell.
        node: its syntax tree.
        binds: names that it binds for certain, so that earlier bindings do not matter.
        changes: names that it binds or changes.
        uses: names that it reads.
        texts: the constant strings in it.
    """

    cell: str
    node: ast.stmt
    binds: frozenset[str]
    changes: frozenset[str]
    uses: frozenset[str]
    texts: frozenset[str]

    def decides(self) -> bool:
        """Whether it may record a verdict or a condition: it uses the workbook, not to write files."""
        if BOOK not in self.uses or BOOK in self.binds:
            return False
        return not (
            isinstance(self.node, ast.Expr)
            and isinstance(self.node.value, ast.Call)
            and _base(self.node.value.func) == BOOK
            and isinstance(self.node.value.func, ast.Attribute)
            and self.node.value.func.attr in _OUTPUTS
        )


def statements(cells: Mapping[str, str]) -> list[Statement]:
    """The statements of the code cells (id -> source) in order.

    Raises:
        SyntaxError: a cell is no Python, such as one with a magic command.
    """
    parsed = {cell: ast.parse(source).body for cell, source in cells.items()}
    generators = {
        name
        for body in parsed.values()
        for node in body
        if "default_rng" in _attributes(node)
        for name in _bound(node)
    }
    modules = {
        name
        for body in parsed.values()
        for node in body
        if isinstance(node, ast.Import)
        for name in _bound(node)
    }
    return [
        _statement(cell, node, generators, modules, last=node is body[-1])
        for cell, body in parsed.items()
        for node in body
    ]


def without_draws(found: Sequence[Statement]) -> list[Statement]:
    """The same statements as if a draw left its generator alone: slices of them have no draws but their own."""
    names = {
        name for one in found if "default_rng" in _attributes(one.node) for name in _bound(one.node)
    }
    return [replace(one, changes=one.changes - names, uses=one.uses - names) for one in found]


def deciding(found: Sequence[Statement], claim: str, cell: str, needs: Sequence[str]) -> set[int]:
    """The places of the statements that decide a claim and look at the conditions that it needs.

    They are those that use the workbook and name the claim, in its deciding cell; where none names
    it (its id is computed), all of that cell that use the workbook.
    """
    own = [k for k, one in enumerate(found) if one.decides() and (not cell or one.cell == cell)]
    named = [k for k in own if claim in found[k].texts]
    chosen = set(named or (own if cell else ()))
    if needs:
        chosen |= {
            k
            for k, one in enumerate(found)
            if one.decides() and (set(needs) & one.texts or "condition" in ast.unparse(one.node))
        }
    return chosen


def backwards(found: Sequence[Statement], wanted: set[int]) -> list[int]:
    """The places of the `wanted` statements and of all that they depend on, in order."""
    inside = {
        one.node.name: one.uses for one in found if isinstance(one.node, ast.FunctionDef)
    }  # what a function reads is needed where it is called, not where it is defined
    kept, needed = [], set()
    for place in range(len(found) - 1, -1, -1):
        one = found[place]
        if place not in wanted and not one.changes & needed:
            continue
        kept.append(place)
        needed -= one.binds
        needed |= one.uses.union(*(inside[name] for name in one.uses & inside.keys()))
    return kept[::-1]


def sources(found: Sequence[Statement], places: Sequence[int]) -> dict[str, str]:
    """The code of the statements at `places` by cell; imports only of names that are used."""
    used = frozenset().union(*(found[k].uses for k in places)) if places else frozenset()
    code: dict[str, list[str]] = {}
    for place in places:
        node = found[place].node
        if isinstance(node, ast.Import | ast.ImportFrom) and not _future(node):
            names = [a for a in node.names if (a.asname or a.name).split(".")[0] in used]
            if not names:
                continue
            kept = (
                ast.Import(names)
                if isinstance(node, ast.Import)
                else ast.ImportFrom(node.module, names, node.level)
            )
            code.setdefault(found[place].cell, []).append(ast.unparse(kept))
        else:
            code.setdefault(found[place].cell, []).append(ast.unparse(node))
    return {cell: "\n".join(lines) for cell, lines in code.items()}


# Inner parts --------------------------------------------------------------------------------------


def _future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _statement(
    cell: str, node: ast.stmt, generators: set[str], modules: set[str], *, last: bool
) -> Statement:
    bound, uses = _bound(node), _needed(node)
    changes = bound | (_changed(node) - modules) | (uses & generators)  # np.append changes no np
    if isinstance(node, ast.Expr) and not last:
        changes |= _given(node.value)
    certain = bound if isinstance(node, _CERTAIN) else set()
    texts = {
        n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and type(n.value) is str
    }
    return Statement(
        cell,
        node,
        binds=frozenset(certain - _own_use(node)),
        changes=frozenset(changes if BOOK in bound else changes - {BOOK}),
        uses=frozenset(uses | (changes - bound)),
        texts=frozenset(texts),
    )


_CERTAIN = (
    *(ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom),
    *(ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef),
)
"""Statements after which a name that they bind holds nothing of what it held before."""


def _needed(node: ast.stmt) -> set[str]:
    """Names whose value from before the statement it may read: not those that its own parts bind first."""
    match node:
        case ast.For():
            inner = _needed_by_all(node.body) - _bound(node.target)
            return _loaded(node.target) | _loaded(node.iter) | inner | _needed_by_all(node.orelse)
        case ast.While() | ast.If():
            return _loaded(node.test) | _needed_by_all(node.body) | _needed_by_all(node.orelse)
        case _:
            return _loaded(node)


def _needed_by_all(body: Sequence[ast.stmt]) -> set[str]:
    """The same for statements that run one after another."""
    needed, known = set(), set()
    for node in body:
        needed |= _needed(node) - known
        if isinstance(node, _CERTAIN):
            known |= _bound(node) - _own_use(node)
    return needed


def _own_use(node: ast.stmt) -> set[str]:
    """Names of an annotation without a value are not bound."""
    bare = isinstance(node, ast.AnnAssign) and node.value is None
    return {_base(node.target)} if bare else set()


@dataclass
class _Names(ast.NodeVisitor):
    """Names bound and read by a statement; those inside comprehensions and functions are their own."""

    bound: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)

    def visit_Name(self, node: ast.Name) -> None:
        (self.read if isinstance(node.ctx, ast.Load) else self.bound).add(node.id)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.bound |= {(a.asname or a.name).split(".")[0] for a in node.names}

    visit_ImportFrom = visit_Import

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.bound.add(node.name)
        inner = _Names()
        for child in ast.iter_child_nodes(node):
            inner.visit(child)
        arguments = set()
        if isinstance(node, ast.FunctionDef):
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            every += filter(None, [node.args.vararg, node.args.kwarg])
            arguments = {a.arg for a in every}
        self.read |= inner.read - arguments - (inner.bound - inner.read)

    visit_ClassDef = visit_FunctionDef
    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        inner = _Names()
        inner.visit(node.body)
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        self.read |= inner.read - {a.arg for a in [*node.args.args, *node.args.kwonlyargs]}

    def _comprehension(self, node: ast.AST) -> None:
        inner = _Names()
        for child in ast.iter_child_nodes(node):
            inner.visit(child)
        first = _Names()
        first.visit(node.generators[0].iter)
        self.read |= (inner.read - inner.bound) | first.read

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)


def _bound(node: ast.AST) -> set[str]:
    names = _Names()
    names.visit(node)
    return names.bound


def _loaded(node: ast.AST) -> set[str]:
    names = _Names()
    names.visit(node)
    kept = names.read
    for inner in ast.walk(node):
        if isinstance(inner, ast.AugAssign):
            kept |= {_base(inner.target)}
    return kept - {""}


def _changed(node: ast.stmt) -> set[str]:
    """Names whose object the statement changes in place, wherever in it."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Subscript | ast.Attribute) and not isinstance(inner.ctx, ast.Load):
            found.add(_base(inner))
        elif (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and inner.func.attr in _MUTATORS
        ):
            found.add(_base(inner.func))
        elif isinstance(inner, ast.Expr) and inner is not node and _is_call(inner.value):
            found |= _given(inner.value)  # inside a loop or a `with`
    return found - {"", BOOK}


def _is_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call)


def _given(node: ast.expr) -> set[str]:
    """What a call whose value is dropped may change: the names it is called on or given."""
    if not isinstance(node, ast.Call):
        return set()
    if isinstance(node.func, ast.Name) and node.func.id in _SHOWN:
        return set()
    if _base(node.func) == BOOK or any(_base(a) == BOOK for a in node.args):
        return set()  # it records a verdict, or writes files
    given = {_base(a) for a in [*node.args, *(k.value for k in node.keywords)]}
    called = _base(node.func) if isinstance(node.func, ast.Attribute) else ""
    return (given | {called}) - {"", BOOK}


def _base(node: ast.AST) -> str:
    """The name at the root of `x.a[0].b`; "" for anything else."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _attributes(node: ast.AST) -> set[str]:
    return {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)} | {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name)
    }
