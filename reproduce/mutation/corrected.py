"""Corrected statements to put in the place of printed ones: `reproduce/papers/<paper>/corrected.toml`.

    [[corrected]]
    claim = "<paper>/<figure>/<claim>"
    old = 'scheme.delta(e, method="paper")'      # an expression of the claim's cells
    new = "scheme.delta(e)"                      # what stands there in the corrected statement
    # or
    replace = "package.module:function"          # a function that the cells call
    by = "package.module:other"                  # the one that states the correct form

A verdict "false" or "misprint" that stays the same with the corrected statement rests on something else than the error
that it names.
"""

from __future__ import annotations

import ast
import copy
import importlib
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from reproduce import paths
from reproduce.entries import CatalogueError
from reproduce.mutation import intercept

FILE = "corrected.toml"


@dataclass(frozen=True)
class Corrected:
    """What replaces what, for one claim: `old` and `new`, or `replace` and `by`."""

    claim: str
    old: str = ""
    new: str = ""
    replace: str = ""
    by: str = ""


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


def _corrected(where: str, entry: Any) -> Corrected:
    known = {one.name for one in fields(Corrected)}
    if not isinstance(entry, dict) or set(entry) not in (
        known - {"old", "new"},
        known - {"replace", "by"},
    ):
        raise CatalogueError(f"{where}: the keys must be claim, and old and new or replace and by")
    if not all(isinstance(value, str) and value.strip() for value in entry.values()):
        raise CatalogueError(f"{where}: every value must be a text that is not empty")
    try:
        for key in ("old", "new"):
            ast.parse(entry.get(key, "x"), mode="eval")
    except SyntaxError:
        raise CatalogueError(f"{where}: {key} is no expression: {entry[key]!r}") from None
    return Corrected(**entry)


def changed(statement: ast.stmt, one: Corrected) -> ast.stmt | None:
    """The statement with the correct expression wherever the printed one stands; None where it does not."""
    wanted = ast.dump(ast.parse(one.old, mode="eval").body)
    new = ast.parse(one.new, mode="eval").body
    hit = False

    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            nonlocal hit
            if isinstance(node, ast.expr) and ast.dump(node) == wanted:
                hit = True
                return copy.deepcopy(new)
            return self.generic_visit(node)

    found = Put().visit(copy.deepcopy(statement))
    return found if hit else None


def exchange(one: Corrected) -> None:
    """Let the correct function answer the calls of the printed one, in this process."""
    module, _, name = one.replace.partition(":")
    other, _, by = one.by.partition(":")
    answer = getattr(importlib.import_module(other), by)
    importlib.import_module(module)
    function = intercept.functions((f"{module}.",))[module, name]
    intercept.intercept(function, lambda _, args, kwargs: answer(*args, **kwargs))
