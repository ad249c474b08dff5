"""Parameters of a notebook: what its `parameters` cell declares, and whether given values fit it.

papermill accepts a misspelled name with a warning and any type in silence; here both are errors.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from reproduce import sources


class ParameterError(ValueError):
    """A parameter is misspelled, missing or of a wrong type; the message names it."""


def declared(notebook: Path) -> dict[str, Any]:
    """Return the names and values of the cell tagged `parameters`, in order.

    Raises:
        ParameterError: there is no such notebook, not exactly one such cell, or the cell holds
            something else than assignments of plain values (numbers, texts, truth values, lists,
            dicts, None).
    """
    try:
        status = notebook.stat()
    except OSError:
        raise ParameterError(f"no such notebook: {notebook}") from None
    return copy.deepcopy(_declared(notebook, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=1024)
def _declared(notebook: Path, size: int, changed: int) -> dict[str, Any]:
    """`declared`; read once per process as long as the file stays the same."""
    cells = [
        sources.text(cell)
        for cell in sources.read(notebook).get("cells", [])
        if "parameters" in cell.get("metadata", {}).get("tags", [])
    ]
    if len(cells) != 1:
        raise ParameterError(f"{notebook}: needs one cell tagged `parameters`, has {len(cells)}")
    try:
        statements = ast.parse(cells[0]).body
    except SyntaxError as problem:
        raise ParameterError(f"{notebook}, parameters cell: {problem.msg}") from None
    values: dict[str, Any] = {}
    for statement in statements:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        name, value = _assignment(statement)
        try:
            values[name] = ast.literal_eval(value)
        except (ValueError, TypeError):
            line = ast.unparse(statement)
            raise ParameterError(
                f"{notebook}, parameters cell: `{line}` is no assignment of a plain value"
            ) from None
    return values


def _assignment(statement: ast.stmt) -> tuple[str, ast.expr]:
    """The target and the value of `name = value`; a value that is no literal when it is no such."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    else:
        return "", ast.Name("none")
    return (target.id, value) if isinstance(target, ast.Name) else ("", ast.Name("none"))


def check(where: str, given: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """Raise `ParameterError` unless `given` has the names of `model`, and values of its types.

    Args:
        where: what the message starts with.
        given: the values to be used.
        model: names and values that show what is expected.
    """
    if unknown := sorted(set(given) - set(model)):
        known = ", ".join(sorted(model)) or "none"
        raise ParameterError(f"{where}: unknown parameter {', '.join(unknown)}; known: {known}")
    if missing := sorted(set(model) - set(given)):
        raise ParameterError(f"{where}: missing parameter {', '.join(missing)}")
    for name, value in given.items():
        if problem := type_problem(value, model[name]):
            raise ParameterError(f"{where}: parameter {name} {problem}")


def type_problem(value: Any, model: Any) -> str:
    """Say how the type of `value` departs from that of `model`, or return "".

    An int may stand for a float, nothing else for another type; the items of a list are compared
    with the model's first one.
    """
    if isinstance(model, list | tuple):
        if not isinstance(value, list | tuple):
            return f"must be a list, got {type(value).__name__} {value!r}"
        problems = (type_problem(item, model[0]) for item in value) if model else iter(())
        return next((f"has an item that {problem}" for problem in problems if problem), "")
    if isinstance(model, bool) or isinstance(value, bool):
        fits = isinstance(model, bool) and isinstance(value, bool)
    elif isinstance(model, float):
        fits = isinstance(value, int | float)
    else:
        fits = isinstance(value, type(model))
    if fits:
        return ""
    kind = type(model).__name__
    return f"must be of type {kind} (such as {model!r}), got {type(value).__name__} {value!r}"
