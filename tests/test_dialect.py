"""One dialect of docstrings and signatures in all of src/repro and reproduce."""

import ast
import re

import pytest

from repro import paths

FILES = sorted(
    path for top in ("src/repro", "reproduce") for path in (paths.ROOT / top).rglob("*.py")
)
SECTION = re.compile(r"^( *)(Args|Returns|Raises|Yields|Attributes):$")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(tree):
    """Name of what is described, and its docstring as it stands in the file."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, *DEFINITIONS)):
            text = ast.get_docstring(node, clean=False)
            if text:
                yield getattr(node, "name", "module"), text


def badly_indented(text):
    """The sections of a docstring whose first line is not indented by four more than the title."""
    lines = text.split("\n")
    for at, line in enumerate(lines[:-1]):
        if title := SECTION.match(line):
            entry = lines[at + 1]
            if len(entry) - len(entry.lstrip()) != len(title[1]) + 4:
                yield title[2]


def unannotated(body, owner=""):
    """Arguments without a type of public functions, methods and constructors."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from unannotated(node.body, f"{node.name}.")
        elif isinstance(node, DEFINITIONS) and (
            not node.name.startswith("_") or node.name in ("__init__", "__call__")
        ):
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            for argument in filter(None, every):
                if argument.annotation is None and argument.arg not in ("self", "cls"):
                    yield f"{owner}{node.name}({argument.arg})"


def faults(source):
    """What a file says against the dialect, one line each."""
    tree = ast.parse(source)
    for name, text in docstrings(tree):
        if "``" in text:
            yield f"{name}: double backticks"
        for title in badly_indented(text):
            yield f"{name}: {title} not indented by four"
    yield from (f"{name}: no type" for name in unannotated(tree.body))


@pytest.mark.parametrize("top", ["src/repro", "reproduce"])
def test_all_files_speak_one_dialect(top):
    found = [
        f"{path.relative_to(paths.ROOT)}: {fault}"
        for path in FILES
        if path.is_relative_to(paths.ROOT / top)
        for fault in faults(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_each_fault_is_found():
    source = '''
"""Of ``code``."""
class Public:
    """A class.

    Args:
      x: two spaces.
    """
    def method(self, x, *rest, y: int = 1):
        """Nothing."""
    def _hidden(self, x):
        """Nothing."""
'''
    assert list(faults(source)) == [
        "module: double backticks",
        "Public: Args not indented by four",
        "Public.method(x): no type",
        "Public.method(rest): no type",
    ]
    assert not list(
        faults('def good(x: int):\n    """Well.\n\n    Args:\n        x: four.\n    """')
    )
