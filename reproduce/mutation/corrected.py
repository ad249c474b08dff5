"""Corrected statements to put in the place of printed ones: `reproduce/papers/<paper>/corrected.toml`.

    [[corrected]]
    claim = "<paper>/<figure>/<claim>"
    old = 'scheme.delta(e, method="paper")'      # an expression of the claim's cells
    new = "scheme.delta(e)"                      # what stands there in the corrected statement
    # or, where several places change together
    old = ["…", "…"]
    new = ["…", "…"]
    # or
    replace = "package.module:function"          # a function that the cells call
    by = "package.module:other"                  # the one that states the correct form
    # or
    none = "why no corrected form can take the place of the printed one"

A verdict "false" or "misprint" that stays the same with the corrected statement rests on something else than the error
that it names.
"""

from __future__ import annotations

import ast
import copy
import importlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproduce import paths
from reproduce.entries import CatalogueError
from reproduce.mutation import intercept

FILE = "corrected.toml"

_FORMS = ({"old", "new"}, {"replace", "by"}, {"none"})


@dataclass(frozen=True)
class Corrected:
    """What replaces what, for one claim: `old` and `new`, or `replace` and `by`; or the reason why nothing does."""

    claim: str
    old: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    replace: str = ""
    by: str = ""
    none: str = ""

    def __str__(self) -> str:
        if self.replace:
            return f"{self.replace} by {self.by}"
        return "; ".join(f"{a} -> {b}" for a, b in zip(self.old, self.new, strict=True))


def path_of(paper: str) -> Path:
    """The file of a paper, which need not be there."""
    return paths.PAPERS / paper / FILE


def read(paper: str) -> list[Corrected]:
    """The corrections of a paper; [] without a file.

    Raises:
        CatalogueError: the file is ill-formed, or an expression is no Python.
    """
    path = path_of(paper)
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["corrected"]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError) as problem:
        raise CatalogueError(f"{path}: {problem}") from None
    return [_corrected(f"{path}, entry {n}", entry) for n, entry in enumerate(entries, 1)]


def excused(paper: str) -> dict[str, str]:
    """The refuted claims of a paper that have no corrected form to put in, and why: full id -> reason."""
    return {one.claim: one.none for one in read(paper) if one.none}


def _corrected(where: str, entry: Any) -> Corrected:
    if not isinstance(entry, dict) or set(entry) - {"claim"} not in _FORMS or "claim" not in entry:
        raise CatalogueError(
            f"{where}: the keys must be claim, and old and new, or replace and by, or none"
        )
    lists = {
        key: [value] if isinstance(value, str) else value
        for key, value in entry.items()
        if key in ("old", "new")
    }
    texts = [text for key in entry for text in _listed(lists.get(key, [entry[key]]))]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise CatalogueError(f"{where}: every value must be a text that is not empty")
    if lists and len(lists["old"]) != len(lists["new"]):
        raise CatalogueError(f"{where}: old and new must have equally many expressions")
    for key, several in lists.items():
        for text in several:
            try:
                ast.parse(text, mode="eval")
            except SyntaxError:
                raise CatalogueError(f"{where}: {key} is no expression: {text!r}") from None
    return Corrected(**entry | {key: tuple(several) for key, several in lists.items()})


def _listed(value: Any) -> list[Any]:
    """A list that is not empty, or a value that no check accepts."""
    return value if isinstance(value, list) and value else [None]


def changed(statement: ast.stmt, one: Corrected) -> tuple[ast.stmt, set[int]]:
    """The statement with the correct expressions in place of the printed ones, and which of them were found."""
    wanted = [ast.dump(ast.parse(text, mode="eval").body) for text in one.old]
    news = [ast.parse(text, mode="eval").body for text in one.new]
    hits: set[int] = set()

    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            if isinstance(node, ast.expr) and (told := ast.dump(node)) in wanted:
                hits.add(wanted.index(told))
                return copy.deepcopy(news[wanted.index(told)])
            return self.generic_visit(node)

    return Put().visit(copy.deepcopy(statement)), hits


def exchange(one: Corrected) -> None:
    """Let the correct function answer the calls of the printed one, in this process."""
    module, _, name = one.replace.partition(":")
    other, _, by = one.by.partition(":")
    answer = getattr(importlib.import_module(other), by)
    importlib.import_module(module)
    function = intercept.functions((f"{module}.",))[module, name]
    intercept.intercept(function, lambda _, args, kwargs: answer(*args, **kwargs))
