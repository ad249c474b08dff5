"""Changed parameters: reading them from the command line, and saying what was changed.

make fig/random_participation/fig1 SET="p=0.2 samples=[1, 10]"
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from reproduce.parameters import ParameterError, type_problem

_ASSIGNMENT = re.compile(r"(?:^|(?<=\s))([A-Za-z_]\w*)\s*=")
"""The `name=` before each value; a value reaches to the next one."""


def parse(text: str, model: Mapping[str, Any]) -> dict[str, Any]:
    """Read `name=value name=value …`.

    Values are numbers, lists, True, False, None and texts, in Python's notation; a text needs no
    quotes. An int that stands where the model has a float becomes a float.

    Args:
        text: what the user gave.
        model: names and values of the notebook's parameters, `profile` among them.

    Returns:
        Name -> value, of the names given only.

    Raises:
        ParameterError: the text is no list of assignments, a name is unknown or given twice, or a
            value has another type than in the model.
    """
    places = list(_ASSIGNMENT.finditer(text))
    if not places or text[: places[0].start()].strip():
        raise ParameterError(f'SET must be "name=value name=value …", got {text!r}')
    found: dict[str, Any] = {}
    for place, following in zip(places, [*places[1:], None], strict=True):
        name = place[1]
        value = text[place.end() : following.start() if following else None].strip()
        found[name] = _value(name, value, found, model)
    return found


def _value(name: str, text: str, before: Mapping[str, Any], model: Mapping[str, Any]) -> Any:
    """The value that `text` stands for, of the type that the parameter `name` has."""
    allowed = ", ".join(sorted(set(model) - {"profile"})) or "none"
    if name == "profile":
        raise ParameterError("SET: profile is chosen by PROFILE=…")
    if name not in model:
        raise ParameterError(f"SET: unknown parameter {name} (= {text}); known: {allowed}")
    if name in before:
        raise ParameterError(f"SET: parameter {name} is given twice")
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        value = text
    if isinstance(model[name], str) and not isinstance(value, str):
        value = text
    if problem := type_problem(value, model[name]):
        raise ParameterError(f"SET: parameter {name} {problem}")
    return _converted(value, model[name])


def _converted(value: Any, model: Any) -> Any:
    """`value` with floats where the model has them, and lists for tuples."""
    if isinstance(value, list | tuple):
        inner = model[0] if isinstance(model, list | tuple) and model else None
        return [_converted(item, inner) for item in value]
    return float(value) if isinstance(model, float) else value


def departures(values: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `values` that are not equal to the profile's `own`."""
    return {name: value for name, value in values.items() if value != own[name]}


def told(changed: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """`p = 0.2 in place of 0.1, sigma = 2.0 in place of 3.0`."""
    return ", ".join(
        f"{name} = {value!r} in place of {own[name]!r}" for name, value in changed.items()
    )


def blamed(names: Sequence[str]) -> str:
    """`p was changed`, `p and q were changed`, `p, q and sigma were changed`."""
    *first, last = names
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"{listed} {'were' if first else 'was'} changed"
