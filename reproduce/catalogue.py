"""The catalogue: every figure and table, its notebook, the parameters of each profile, its claims.

One file per paper, `reproduce/papers/<paper>/catalogue.toml`. Whatever is wrong in it is one
`CatalogueError` that names the file and the key. The quick values of a figure stand in its
notebook only, in the cell tagged `parameters`; the catalogue holds what the other profiles change.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from reproduce import entries, paths
from reproduce.entries import FILE, FUNCTION, PROFILES, CatalogueError, Figure, path_of

__all__ = [
    "FILE", "PROFILES", "CatalogueError", "Figure", "check_free", "figure", "figures", "paper_title",
    "papers", "parts", "path_of", "published", "select", "task_function", "tasks",
    "work_functions",
]  # fmt: skip


def published(entry: Figure) -> tuple[str, ...]:
    """The profiles of which runs of a figure are published, from the lowest to the highest."""
    folder = paths.PUBLISHED / entry.id
    return tuple(name for name in PROFILES[1:] if any((folder / name).glob("*.json")))


def papers() -> list[str]:
    """The keys of the papers, sorted."""
    return sorted(path.parent.name for path in paths.PAPERS.glob(f"*/{FILE}"))


def paper_title(paper: str) -> str:
    """The title of a paper."""
    return _load(paper)["title"]


def figures(paper: str | None = None) -> list[Figure]:
    """Every figure (of one paper), sorted by paper and by number: fig2 comes before fig10.

    The parts of a figure follow it in the order of the catalogue.

    Raises:
        CatalogueError: a file is ill-formed; the message names file and key.
    """
    found = [entry for name in ([paper] if paper else papers()) for entry in _figures(name)]
    return sorted(
        found,
        key=lambda entry: (entry.paper, _natural(entry.part_of or entry.name), bool(entry.part_of)),
    )


def parts(entry: Figure) -> list[Figure]:
    """The notebooks whose claims carry the id of `entry`: itself, and those that continue it."""
    return [one for one in figures(entry.paper) if one.whole == entry.id]


def figure(figure_id: str) -> Figure:
    """The figure `<paper>/<name>`.

    Raises:
        CatalogueError: there is none; the message lists what there is.
    """
    paper, _, name = figure_id.partition("/")
    if paper not in papers():
        raise CatalogueError(
            f"unknown figure {figure_id!r}; papers: {', '.join(papers()) or 'none'}"
        )
    entries = figures(paper)
    for entry in entries:
        if entry.name == name:
            return entry
    known = ", ".join(entry.id for entry in entries) or "none"
    raise CatalogueError(f"unknown figure {figure_id!r}; known: {known}")


def select(ids: list[str]) -> list[Figure]:
    """The figures named, each `<paper>/<name>` or a whole `<paper>`, each once; all for []."""
    if not ids:
        return figures()
    chosen: dict[str, Figure] = {}
    for name in ids:
        for entry in figures(name) if name in papers() else [figure(name)]:
            chosen[entry.id] = entry
    return list(chosen.values())


def tasks() -> dict[str, str]:
    """Every kind of training run: its name `<paper>/<name>` -> "module:function".

    Raises:
        CatalogueError: a file is ill-formed; the message names file and key.
    """
    return {
        f"{paper}/{name}": function
        for paper in papers()
        for name, function in _load(paper).get("tasks", {}).items()
    }


def task_function(name: str) -> str:
    """The "module:function" that computes one run of the task `<paper>/<name>`.

    Raises:
        CatalogueError: there is no such task; the message lists what there is.
    """
    known = tasks()
    if name not in known:
        raise CatalogueError(f"unknown task {name!r}; known: {', '.join(known) or 'none'}")
    return known[name]


def work_functions() -> dict[str, str]:
    """What tells how much computing a kind of run takes: `<paper>/<name>` -> "module:function".

    Raises:
        CatalogueError: a file is ill-formed; the message names file and key.
    """
    return {
        f"{paper}/{name}": function
        for paper in papers()
        for name, function in _load(paper).get("work", {}).items()
    }


def check_free(entry: Figure) -> None:
    """Raise `CatalogueError` unless every name under `free` is a parameter of the notebook."""
    known = entry.parameters("quick")
    for claim in entry.claims:
        if unknown := [name for name in claim.free if name not in known]:
            raise CatalogueError(
                f"claim {claim.full_id}: free: unknown parameter {', '.join(unknown)}; "
                f"known: {', '.join(known)}"
            )


def _natural(name: str) -> list[tuple[str, int]]:
    """A sort key that puts fig2 before fig10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def _load(paper: str) -> dict[str, Any]:
    """The checked outer part of a paper's file; not to be changed by the caller."""
    return _read(path_of(paper), *_state(paper))


def _state(paper: str) -> tuple[int, int]:
    """Size and time of the last change of a paper's file."""
    path = path_of(paper)
    try:
        status = path.stat()
    except FileNotFoundError:
        raise CatalogueError(f"no such paper: {paper} (no file {path})") from None
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=64)
def _read(path: Path, size: int, changed: int) -> dict[str, Any]:
    """`_load`; read once per process as long as the file stays the same."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise CatalogueError(f"{path}: {problem}") from None
    if unknown := sorted(set(table) - {"title", "tasks", "work", "figures"}):
        raise CatalogueError(
            f"{path}: unknown key {', '.join(unknown)}; known: figures, tasks, title, work"
        )
    if not isinstance(table.get("title"), str) or not table["title"].strip():
        raise CatalogueError(f"{path}: `title` must be a text that is not empty")
    for key in ("figures", "tasks", "work"):
        if not isinstance(table.get(key, {}), dict):
            raise CatalogueError(f"{path}: `{key}` must be a table")
    for key in ("tasks", "work"):
        for name, function in table.get(key, {}).items():
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
                raise CatalogueError(
                    f"{path}: {key}.{name}: the name must be letters, digits and _"
                )
            if not isinstance(function, str) or not FUNCTION.fullmatch(function):
                raise CatalogueError(
                    f"{path}: {key}.{name} must be 'module:function', got {function!r}"
                )
    if strangers := sorted(set(table.get("work", {})) - set(table.get("tasks", {}))):
        raise CatalogueError(f"{path}: work.{strangers[0]}: there is no task of this name")
    return table


def _figures(paper: str) -> tuple[Figure, ...]:
    return _built(paper, path_of(paper), paths.ROOT, *_state(paper))


@lru_cache(maxsize=64)
def _built(paper: str, path: Path, root: Path, size: int, changed: int) -> tuple[Figure, ...]:
    """`_figures`; checked once per process as long as the file and the project's folder stay the same."""
    tables = _read(path, size, changed).get("figures", {})
    found = tuple(entries.read(paper, name, table) for name, table in tables.items())
    _check_wholes({entry.name: entry for entry in found})
    return found


def _check_wholes(found: Mapping[str, Figure]) -> None:
    """Raise `CatalogueError` unless parts fit together.

    A part continues a figure that is no part; no claim is there twice in a whole; evidence is shared within it.
    """
    seen: dict[str, Figure] = {}
    for entry in sorted(found.values(), key=lambda entry: bool(entry.part_of)):
        where = f"{path_of(entry.paper)}: figures.{entry.name}"
        if entry.part_of and (entry.part_of not in found or found[entry.part_of].part_of):
            raise CatalogueError(
                f"{where}.part_of must be a figure that is no part itself, got {entry.part_of!r}"
            )
        for claim in entry.claims:
            if claim.full_id in seen:
                other = seen[claim.full_id].name
                raise CatalogueError(f"{where}: claim {claim.id!r} is there twice, in {other} too")
            seen[claim.full_id] = entry
    for entry in found.values():
        for claim in entry.claims:
            if claim.evidence and f"{entry.whole}/{claim.evidence}" not in seen:
                where = f"{path_of(entry.paper)}: figures.{entry.name}"
                raise CatalogueError(
                    f"{where}: claim {claim.id}: unknown evidence {claim.evidence!r}"
                )
