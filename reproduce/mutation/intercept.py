"""Functions whose calls are seen, or whose returned values or code are changed, wherever they are bound.

A function's code object is exchanged, so that every name that is bound to the function obeys. There is no way
back: it is done in a process that ends afterwards.
"""

from __future__ import annotations

import ast
import functools
import inspect
import numbers
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

_HANDLER = 0xC0DE


def _template(*args: Any, **kwargs: Any) -> Any:
    handler: Any = 0xC0DE
    return handler(args, kwargs)


@dataclass(frozen=True)
class Target:
    """What a call of a function is told apart by.

    Attributes:
        module, name: where the function is defined.
        of: the class of the object that a method was called on; "" for a function.
        method: the value of its argument `method`; "" where it has none.
    """

    module: str
    name: str
    of: str = ""
    method: str = ""

    def __str__(self) -> str:
        own, _, last = self.name.rpartition(".")
        name = f"{own}[{self.of}].{last}" if self.of not in ("", own) else self.name
        return f"{self.module}.{name}" + (f"(method={self.method})" if self.method else "")


def functions(prefixes: tuple[str, ...]) -> dict[tuple[str, str], FunctionType]:
    """The functions and methods defined in the loaded modules below the prefixes: (module, name) -> it.

    Functions that use variables of an enclosing one are left out: their code cannot be exchanged.
    """
    found = {}
    for name, module in sorted(sys.modules.items()):
        if isinstance(module, ModuleType) and f"{name}.".startswith(prefixes):
            for qualified, function in _defined(module):
                if not function.__code__.co_freevars:
                    found[name, qualified] = function
    return found


def _defined(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    for name, value in vars(module).items():
        if isinstance(value, type) and value.__module__ == module.__name__:
            for inner, member in vars(value).items():
                function = _function(member)
                if function is not None and function.__code__.co_filename == module.__file__:
                    yield f"{name}.{inner}", function
        elif (function := _function(value)) and function.__module__ == module.__name__:
            yield name, function


def _function(value: Any) -> FunctionType | None:
    """The plain function inside a descriptor or a cache."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, FunctionType) else None


def intercept(function: FunctionType, handler: Callable[..., Any]) -> None:
    """Let `handler(original, args, kwargs)` answer every call of a function."""
    original = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    original.__kwdefaults__ = function.__kwdefaults__

    def answer(args: tuple, kwargs: dict) -> Any:
        return handler(original, args, kwargs)

    constants = _template.__code__.co_consts
    consts = tuple(answer if one == _HANDLER else one for one in constants)
    function.__code__ = _template.__code__.replace(co_consts=consts)
    function.__defaults__ = None
    function.__kwdefaults__ = None


def target(key: tuple[str, str], function: FunctionType, args: tuple, kwargs: Mapping) -> Target:
    """What a call of a function is told apart by; `function` has its own signature."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    of = method = ""
    if "." in key[1] and names and names[0] in ("self", "cls") and args:
        own = args[0] if isinstance(args[0], type) else type(args[0])
        of = own.__name__
    if "method" in names:
        place = names.index("method")
        if "method" in kwargs:
            method = kwargs["method"]
        elif place < min(len(args), code.co_argcount):
            method = args[place]
        else:
            method = _default(function, place)
    return Target(*key, of, method if isinstance(method, str) else "")


def _default(function: FunctionType, place: int) -> Any:
    code, defaults = function.__code__, function.__defaults__ or ()
    if place >= code.co_argcount:
        return (function.__kwdefaults__ or {}).get("method", "")
    back = place - code.co_argcount
    return defaults[back] if -back <= len(defaults) else ""


def caller() -> str:
    """The module that called an intercepted function; to be called in its handler."""
    return sys._getframe(4).f_globals.get("__name__", "")


def scaled(value: Any, factor: float) -> Any:
    """A returned value times a factor: numbers, arrays and frames of them, tuples, lists and mappings.

    Integers and truth values count and answer; they stay as they are, and so does all else.
    """
    if isinstance(value, bool | np.bool_ | numbers.Integral) or value is None:
        return value
    if isinstance(value, np.ndarray):
        return value * factor if value.dtype.kind in "fc" else value
    if isinstance(value, numbers.Real) or type(value).__name__ == "mpf":
        return value * factor
    if isinstance(value, tuple):
        parts = [scaled(one, factor) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [scaled(one, factor) for one in value]
    if isinstance(value, dict):
        return {key: scaled(one, factor) for key, one in value.items()}
    if hasattr(value, "select_dtypes"):
        floats = value.select_dtypes("float").columns
        return value.assign(**{name: value[name] * factor for name in floats})
    return value


def scales(value: Any) -> bool:
    """Whether `scaled` would change a value, 0 excepted."""
    if isinstance(value, bool | np.bool_ | numbers.Integral):
        return False
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fc" and value.size > 0
    if isinstance(value, numbers.Real) or type(value).__name__ == "mpf":
        return True
    if isinstance(value, tuple | list):
        return any(map(scales, value))
    if isinstance(value, dict):
        return any(map(scales, value.values()))
    return hasattr(value, "select_dtypes") and bool(len(value.select_dtypes("float").columns))


def tree(function: FunctionType) -> ast.FunctionDef | None:
    """The definition of a function as a syntax tree without its docstring; None where there is none."""
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.FunctionDef):
        return None
    ast.increment_lineno(node, function.__code__.co_firstlineno - 1)
    if ast.get_docstring(node) is not None:
        node.body = node.body[1:] or [ast.Pass()]
    return node


def rewrite(function: FunctionType, definition: ast.AST) -> None:
    """Let a function run another definition, which must have the same arguments.

    Default values change with it.
    """
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    definition.returns = None
    module = ast.Module(
        [ast.parse("from __future__ import annotations").body[0], definition], type_ignores=[]
    )
    made: dict[str, Any] = {}
    code = compile(ast.fix_missing_locations(module), function.__code__.co_filename, "exec")
    exec(code, function.__globals__ | made, made)
    other = made[definition.name]
    function.__code__ = other.__code__
    function.__defaults__, function.__kwdefaults__ = other.__defaults__, other.__kwdefaults__
