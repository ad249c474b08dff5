"""The catalogue: every figure and table, its notebook, the parameters of each profile, its claims.

One file per paper, `reproduce/papers/<paper>/catalogue.toml`. Whatever is wrong in it is one
`CatalogueError` that names the file and the key. The quick values of a figure stand in its
notebook only, in the cell tagged `parameters`; the catalogue holds what the other profiles change.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from reproduce import paths
from reproduce.claims import Claim, ClaimError, parameter_names
from reproduce.parameters import ParameterError, check, declared

PROFILES = ("quick", "desk", "long", "paper")
"""The parameter sets, from seconds on any laptop to the paper's own in full."""

FILE = "catalogue.toml"
"""The name of a paper's file in its folder."""

_NUMBER = (int, float)
_KEYS: dict[str, tuple[type, ...]] = {
    "title": (str,),
    "notebook": (str,),
    "rtol": _NUMBER,
    "atol": _NUMBER,
    "seed_band": _NUMBER,
    "seed_floor": _NUMBER,
    "tolerances": (dict,),
    "data": (list, dict),
    "runs": (str,),
    "parameters": (dict,),
    "claims": (list,),
    "free": (list,),
}
"""The keys of a figure and their types."""

_FUNCTION = re.compile(r"[\w.]+:\w+")


class CatalogueError(ValueError):
    """The catalogue is ill-formed or does not know what was asked for."""


@dataclass(frozen=True)
class Figure:
    """One figure or table of a paper.

    Attributes:
        paper: the paper's key, such as "random_participation".
        name: the figure's key, such as "fig1".
        title: one line.
        notebook: absolute path.
        rtol, atol: how far the numbers behind the picture may depart from the stored ones.
        seed_band: for training, the departure allowed in standard deviations of the stored seeds;
            None where numbers are deterministic.
        seed_floor: the departure that is always allowed with `seed_band`.
        tolerances: key pattern -> tolerance, for single numbers.
        claims: what the paper states about it.
        runs: "module:function" that maps the parameters to the tasks needed, as rows (name,
            configuration, seed); may be empty.
        overrides: profile -> the parameters that differ from the quick ones.
        needs: profile -> names in the data registry.
    """

    paper: str
    name: str
    title: str
    notebook: Path
    rtol: float = 1e-6
    atol: float = 0.0
    seed_band: float | None = None
    seed_floor: float = 0.0
    tolerances: Mapping[str, Any] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    runs: str = ""
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """`<paper>/<figure>`."""
        return f"{self.paper}/{self.name}"

    def parameters(self, profile: str) -> dict[str, Any]:
        """The values of the notebook's parameters cell, overridden by those of `profile`.

        Raises:
            CatalogueError: there is no such profile, the cell cannot be read, or an override is
                misspelled or of another type than in the cell.
        """
        _known_profile(profile)
        own = self.overrides.get(profile, {})
        try:
            quick = declared(self.notebook)
            values = {**quick, "profile": profile, **own}
            check(f"{_place(self.paper, self.name)}.parameters.{profile}", values, quick)
        except ParameterError as problem:
            raise CatalogueError(str(problem)) from None
        return values

    def data(self, profile: str) -> tuple[str, ...]:
        """The data sets of the registry that a run of `profile` reads."""
        _known_profile(profile)
        return self.needs.get(profile, ())


def papers() -> list[str]:
    """The keys of the papers, sorted."""
    return sorted(path.parent.name for path in paths.PAPERS.glob(f"*/{FILE}"))


def path_of(paper: str) -> Path:
    """The file of a paper."""
    return paths.PAPERS / paper / FILE


def paper_title(paper: str) -> str:
    """The title of a paper."""
    return _load(paper)["title"]


def figures(paper: str | None = None) -> list[Figure]:
    """Every figure (of one paper), sorted by paper and by number: fig2 comes before fig10.

    Raises:
        CatalogueError: a file is ill-formed; the message names file and key.
    """
    found = [entry for name in ([paper] if paper else papers()) for entry in _figures(name)]
    return sorted(found, key=lambda entry: (entry.paper, _natural(entry.name)))


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


def _known_profile(profile: str) -> None:
    if profile not in PROFILES:
        raise CatalogueError(f"profile {profile!r} is none of {', '.join(PROFILES)}")


def _load(paper: str) -> dict[str, Any]:
    """The checked outer part of a paper's file; not to be changed by the caller."""
    path = path_of(paper)
    try:
        status = path.stat()
    except FileNotFoundError:
        raise CatalogueError(f"no such paper: {paper} (no file {path})") from None
    return _read(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _read(path: Path, size: int, changed: int) -> dict[str, Any]:
    """`_load`; read once per process as long as the file stays the same."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise CatalogueError(f"{path}: {problem}") from None
    if unknown := sorted(set(table) - {"title", "tasks", "figures"}):
        raise CatalogueError(
            f"{path}: unknown key {', '.join(unknown)}; known: figures, tasks, title"
        )
    if not isinstance(table.get("title"), str) or not table["title"].strip():
        raise CatalogueError(f"{path}: `title` must be a text that is not empty")
    for key in ("figures", "tasks"):
        if not isinstance(table.get(key, {}), dict):
            raise CatalogueError(f"{path}: `{key}` must be a table")
    for name, function in table.get("tasks", {}).items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
            raise CatalogueError(f"{path}: tasks.{name}: the name must be letters, digits and _")
        if not isinstance(function, str) or not _FUNCTION.fullmatch(function):
            raise CatalogueError(
                f"{path}: tasks.{name} must be 'module:function', got {function!r}"
            )
    return table


def _place(paper: str, name: str) -> str:
    """Where a figure stands, for messages."""
    return f"{path_of(paper)}: figures.{name}"


def _figures(paper: str) -> list[Figure]:
    tables = _load(paper).get("figures", {})
    return [_figure(paper, name, table) for name, table in tables.items()]


def _figure(paper: str, name: str, table: Any) -> Figure:
    """Check one `[figures.<name>]` table and make a `Figure` of it."""
    where = _place(paper, name)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise CatalogueError(f"{where}: the name must be letters, digits and _")
    if not isinstance(table, dict):
        raise CatalogueError(f"{where} must be a table")
    if unknown := sorted(set(table) - set(_KEYS)):
        raise CatalogueError(
            f"{where}: unknown key {', '.join(unknown)}; known: {', '.join(_KEYS)}"
        )
    for key, value in table.items():
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):
            kinds = " or ".join(kind.__name__ for kind in _KEYS[key])
            raise CatalogueError(f"{where}.{key} must be of type {kinds}, got {value!r}")
    for key in ("title", "notebook"):
        if not table.get(key, "").strip():
            raise CatalogueError(f"{where}: `{key}` is missing or empty")
    for key in ("rtol", "atol", "seed_band", "seed_floor"):
        if not 0 <= table.get(key, 0) < float("inf"):
            raise CatalogueError(f"{where}.{key} must be a number >= 0, got {table[key]!r}")
    if not _FUNCTION.fullmatch(table.get("runs", "a:b")):
        raise CatalogueError(f"{where}.runs must be 'module:function', got {table['runs']!r}")
    _check_tolerances(where, table.get("tolerances", {}))
    plain = {key: table[key] for key in ("rtol", "atol", "seed_band", "seed_floor") if key in table}
    return Figure(
        paper=paper,
        name=name,
        title=table["title"],
        notebook=_notebook(where, table["notebook"]),
        tolerances=table.get("tolerances", {}),
        claims=_claims(where, f"{paper}/{name}", table.get("claims", []), table.get("free", [])),
        runs=table.get("runs", ""),
        overrides=_overrides(where, table.get("parameters", {})),
        needs=_needs(where, table.get("data", [])),
        **plain,
    )


def _notebook(where: str, name: str) -> Path:
    path = paths.ROOT / name
    if path.suffix != ".ipynb" or not path.resolve().is_relative_to(paths.ROOT.resolve()):
        raise CatalogueError(
            f"{where}.notebook must be an .ipynb file of the project, got {name!r}"
        )
    return path


def _check_tolerances(where: str, table: dict[str, Any]) -> None:
    """Each tolerance is a number >= 0, or a table with `rtol` and `atol`."""
    for pattern, value in table.items():
        parts = value if isinstance(value, dict) else {"rtol": value}
        good = all(
            isinstance(x, _NUMBER) and not isinstance(x, bool) and x >= 0 for x in parts.values()
        )
        if not parts or not good or not set(parts) <= {"rtol", "atol"}:
            raise CatalogueError(
                f"{where}.tolerances.{pattern!r} must be a number >= 0 or "
                f"{{ rtol = …, atol = … }}, got {value!r}"
            )


def _claims(where: str, figure_id: str, tables: list[Any], free: list[Any]) -> tuple[Claim, ...]:
    """The claims of a figure; parameters that are `free` for the figure are so for each claim."""
    found: dict[str, Claim] = {}
    for number, table in enumerate(tables, start=1):
        place = f"{where}.claims, entry {number}"
        if not isinstance(table, dict):
            raise CatalogueError(f"{place} must be a table")
        try:
            claim = Claim.from_table(figure_id, table)
            claim = replace(claim, free=(*parameter_names(f"{where}.free", free), *claim.free))
        except (ClaimError, AttributeError, TypeError) as problem:
            raise CatalogueError(f"{place}: {problem}") from None
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", str(claim.id)):
            raise CatalogueError(f"{place}: id {claim.id!r} must be letters, digits and _ . -")
        if claim.id in found:
            raise CatalogueError(f"{place}: id {claim.id!r} is there twice")
        found[claim.id] = claim
    return tuple(found.values())


def _overrides(where: str, table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters that each profile changes; names and types are checked when they are used."""
    if "quick" in table:
        raise CatalogueError(
            f"{where}.parameters.quick: the quick values stand in the notebook's parameters cell"
        )
    if unknown := sorted(set(table) - set(PROFILES)):
        raise CatalogueError(
            f"{where}.parameters: unknown profile {', '.join(unknown)}; "
            f"known: {', '.join(PROFILES[1:])}"
        )
    for profile, values in table.items():
        place = f"{where}.parameters.{profile}"
        if not isinstance(values, dict):
            raise CatalogueError(f"{place} must be a table")
        if "profile" in values:
            raise CatalogueError(f"{place}: `profile` is set by the runner")
    return table


def _needs(where: str, value: Any) -> dict[str, tuple[str, ...]]:
    """`data`: a list that holds for every profile, or one list per profile."""
    table = value if isinstance(value, dict) else {profile: value for profile in PROFILES}
    if unknown := sorted(set(table) - set(PROFILES)):
        raise CatalogueError(
            f"{where}.data: unknown profile {', '.join(unknown)}; known: {', '.join(PROFILES)}"
        )
    for names in table.values():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise CatalogueError(
                f"{where}.data must hold lists of names in the registry, got {names!r}"
            )
    return {profile: tuple(names) for profile, names in table.items()}
