"""What a result depends on, as one hash: code that is really imported, parameters, data, versions.

The imports are read from the source, not executed. A notebook or module depends on every project
module that its import statements reach, those inside functions included, and on functions it
names as "module:function" or by the name of their task. A name imported from a package is followed
through the package's `__init__` to the module that defines it, and only there: a change in one
module of `repro.accounting` concerns those who use that module, not everyone who imports from
`repro.accounting`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from reproduce import catalogue, paths, provenance, sources
from reproduce.catalogue import Figure

_REFERENCE = re.compile(r"(repro(?:duce)?(?:\.\w+)+):\w+")
_OF = re.compile(r'\bof="(\w+/[\w-]+)"')
_TASK = re.compile(r"[A-Za-z]\w*/[A-Za-z]\w*")


def of_figure(entry: Figure, profile: str) -> dict[str, str]:
    """Everything the files of a figure depend on: name of the part -> hash.

    The catalogue entry counts where it can change the files; entries of other figures do not.
    """
    parts = {
        "notebook": sources.code_hash(entry.notebook),
        "parameters": digest(entry.parameters(profile)),
        "catalogue": digest(
            [
                [entry.id, entry.title, entry.margin],
                [_plain(claim) for claim in entry.claims],
                [vars(condition) for condition in entry.conditions],
            ]
        ),
        "versions": digest(versions()),
    }
    parts |= {f"code {name}": value for name, value in notebook_closure(entry).items()}
    parts |= {f"data {name}": digest(_registered(name)) for name in entry.data(profile)}
    parts |= {f"measured {name}": _file(path) for name, path in _measured(entry)}
    if entry.runs:
        folder = paths.PUBLISHED / entry.id / profile
        parts |= {f"record {path.name}": _file(path) for path in sorted(folder.glob("*.json"))}
    return parts


def digest(value: Any) -> str:
    """The sha256 of a JSON-able value; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def versions() -> dict[str, str]:
    """The versions that a result depends on: packages, and Python without the patch level."""
    found = provenance.versions()
    return found | {"python": found["python"].rpartition(".")[0]}


def notebook_closure(entry: Figure) -> dict[str, str]:
    """The project code a notebook depends on: module -> hash."""
    source = "\n".join(_python(cell) for cell in sources.cells(entry.notebook).values())
    references = [entry.runs] if entry.runs else []
    return closure(source, references)


def function_closure(function: str) -> dict[str, str]:
    """The project code that "module:function" depends on: module -> hash.

    Of its own module only those definitions count that the function uses, directly or not.
    """
    walk = _Walk()
    walk.function(*function.split(":"))
    walk.exhaust()
    return dict(sorted(walk.found.items()))


def closure(source: str, references: Iterable[str] = ()) -> dict[str, str]:
    """Return the project code that `source` depends on, directly or not: module -> hash.

    Args:
        source: Python code; code that cannot be parsed depends on nothing (it cannot run either).
        references: "module:function" texts it uses besides those that stand in it.
    """
    walk = _Walk()
    walk.follow(_examine(source), "")
    for reference in references:
        walk.module(reference.partition(":")[0])
    walk.exhaust()
    return dict(sorted(walk.found.items()))


def _python(cell: str) -> str:
    """A cell without IPython's magic lines."""
    if cell.lstrip().startswith("%%"):
        return ""
    return "\n".join(re.sub(r"^(\s*)[%!?].*", r"\1pass", line) for line in cell.splitlines())


def _plain(claim: Any) -> dict[str, Any]:
    """What of a claim a notebook's files depend on; the ledger reads the rest from the catalogue."""
    apart = {"quote", "own", "by", "evidence"}
    return {name: value for name, value in vars(claim).items() if name not in apart}


def _measured(entry: Figure) -> Iterator[tuple[str, Path]]:
    """The committed measured times that a notebook shows: its own, and those it names with `of=`."""
    code = "\n".join(sources.cells(entry.notebook).values())
    for name in sorted({entry.id, *_OF.findall(code)}):
        path = paths.MEASURED / f"{name}.json"
        if path.exists():
            yield name, path


def _registered(name: str) -> Any:
    """The entry of the data registry, or None where there is none (the run will say so)."""
    try:
        table = tomllib.loads((paths.DATA / "registry.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return table.get(name)


@lru_cache(maxsize=4096)
def _hash(path: Path, size: int, changed: int) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _file(path: Path) -> str:
    """The sha256 of a file; read once per process as long as it stays the same."""
    status = path.stat()
    return _hash(path, status.st_size, status.st_mtime_ns)


# Following imports --------------------------------------------------------------------------------


def _roots() -> dict[str, Path]:
    return {"repro": paths.ROOT / "src" / "repro", "reproduce": paths.ROOT / "reproduce"}


def _locate(name: str) -> Path | None:
    """The file of a project module; None when it is none."""
    first, *rest = name.split(".")
    root = _roots().get(first)
    if root is None:
        return None
    base = root.joinpath(*rest)
    package, module = base / "__init__.py", base.with_name(f"{base.name}.py")
    return package if package.is_file() else module if rest and module.is_file() else None


@dataclass(frozen=True)
class _Source:
    """What matters about one piece of code.

    Attributes:
        modules: modules imported as a whole, or named as "module:function".
        names: (level, module, name) of each `from module import name`, wherever it stands.
        texts: texts that may be the names of tasks.
        bindings: name -> (level, module, name there), of the top level.
        active: whether the top level does more than import, document and list names.
    """

    modules: tuple[str, ...] = ()
    names: tuple[tuple[int, str, str], ...] = ()
    texts: tuple[str, ...] = ()
    bindings: Mapping[str, tuple[int, str, str]] = field(default_factory=dict)
    active: bool = False


def _examine(code: str) -> _Source:
    """Find the imports of `code`; code that cannot be parsed has none."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return _Source(active=True)
    modules, names, texts, bindings = [], [], [], {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [(node.level, node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if match := _REFERENCE.fullmatch(node.value):
                modules.append(match[1])
            elif _TASK.fullmatch(node.value):
                texts.append(node.value)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                place = (node.level, node.module or "", alias.name)
                bindings[alias.asname or alias.name] = place
    active = not all(_passive(node) for node in tree.body)
    return _Source(tuple(modules), tuple(names), tuple(texts), bindings, active)


def _used(code: str, name: str) -> list[str] | None:
    """The top-level statements of `code` that `name` needs, as text; None when all may matter.

    These are its definition, the definitions and imports of the names it mentions, and so on, and
    every statement that defines nothing.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return None
    places: dict[str, list[int]] = {}
    waiting: list[int] = []
    for place, node in enumerate(tree.body):
        names = _defined(node)
        if "*" in names:
            return None
        for one in names:
            places.setdefault(one, []).append(place)
        if not names and not _passive(node):
            waiting.append(place)
    if name not in places:
        return None
    waiting += places[name]
    needed: set[int] = set()
    while waiting:
        place = waiting.pop()
        if place in needed:
            continue
        needed.add(place)
        for node in ast.walk(tree.body[place]):
            if isinstance(node, ast.Name):
                waiting += places.get(node.id, [])
    lines = code.splitlines()
    return [
        "\n".join(lines[_first(tree.body[k]) - 1 : tree.body[k].end_lineno]) for k in sorted(needed)
    ]


def _first(node: ast.stmt) -> int:
    """The line on which a statement begins, decorators included."""
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])


def _defined(node: ast.stmt) -> list[str]:
    """The names that a top-level statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    nodes = [node for target in targets if target is not None for node in ast.walk(target)]
    return [node.id for node in nodes if isinstance(node, ast.Name)]


def _passive(node: ast.stmt) -> bool:
    """Whether a statement of an `__init__` only imports, documents, or lists names."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


@lru_cache(maxsize=4096)
def _examined(path: Path, size: int, changed: int) -> _Source:
    return _examine(path.read_text(encoding="utf-8", errors="replace"))


def _source(path: Path) -> _Source:
    """`_examine` for a file; read once per process as long as it stays the same."""
    status = path.stat()
    return _examined(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1024)
def _piece(path: Path, name: str, size: int, changed: int) -> tuple[str, _Source] | None:
    """What `name` needs of a file: its hash and imports; None when all of the file may matter.

    Read once per process as long as the file stays the same.
    """
    used = _used(path.read_text(encoding="utf-8", errors="replace"), name)
    return None if used is None else (digest(used), _examine("\n".join(used)))


class _Walk:
    """One walk over the import graph."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._waiting: list[tuple[str, Path]] = []
        self._met: set[tuple[str, str]] = set()
        self._where: dict[str, Path | None] = {}
        self._tasks = catalogue.tasks()

    def exhaust(self) -> None:
        """Work through the modules that were met."""
        while self._waiting:
            name, path = self._waiting.pop()
            self.follow(_source(path), name)

    def follow(self, source: _Source, module: str) -> None:
        """Take up every import of `source`, the code of `module`."""
        for name in source.modules:
            self.module(name)
        for level, origin, name in source.names:
            self.name(self._absolute(level, origin, module), name)
        for text in source.texts:
            if text in self._tasks:
                self.module(self._tasks[text].partition(":")[0])

    def module(self, name: str) -> None:
        """The whole of a module or of a package's `__init__`, and what it imports."""
        path = self._locate(name)
        if path is None:
            if "." in name and name.partition(".")[0] in _roots():
                self.module(name.rpartition(".")[0])  # an attribute of a module
            return
        self._parents(name)
        if name not in self.found:
            self.found[name] = _file(path)
            self._waiting.append((name, path))

    def function(self, module: str, name: str) -> None:
        """One definition of a module, and those it uses there."""
        path = self._locate(module)
        if path is None:
            return
        status = path.stat()
        piece = _piece(path, name, status.st_size, status.st_mtime_ns)
        if piece is None:
            self.module(module)
            return
        self._parents(module)
        self.found[f"{module}:{name}"] = piece[0]
        self.follow(piece[1], module)

    def name(self, origin: str, name: str) -> None:
        """`from origin import name`."""
        path = self._locate(origin)
        if path is None or (origin, name) in self._met:
            return
        self._met.add((origin, name))
        if path.name != "__init__.py" or name == "*":
            self.module(origin)
            return
        self._parents(f"{origin}.{name}")
        level, there, original = _source(path).bindings.get(name, (0, origin, name))
        target = self._absolute(level, there, origin), original
        if target != (origin, name):
            self.name(*target)
        elif self._locate(f"{origin}.{name}") is not None:
            self.module(f"{origin}.{name}")
        else:
            self.module(origin)

    def _parents(self, name: str) -> None:
        """The packages around a module, where their `__init__` does more than import."""
        while "." in name:
            name = name.rpartition(".")[0]
            path = self._locate(name)
            if path is not None and name not in self.found and _source(path).active:
                self.module(name)

    def _absolute(self, level: int, origin: str, module: str) -> str:
        """The full name of what stands after `from` in the code of `module`."""
        if not level:
            return origin
        path = self._locate(module)
        package = path is not None and path.name == "__init__.py"
        parts = module.split(".")
        base = parts[: len(parts) - level + package]
        return ".".join([*base, *filter(None, [origin])])

    def _locate(self, name: str) -> Path | None:
        if name not in self._where:
            self._where[name] = _locate(name)
        return self._where[name]


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """The names of the parts that are not the same in both."""
    yield from sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
