"""One entry of the catalogue: a figure, its notebook, its parameters, conditions and claims.

Whatever is wrong in it is one `CatalogueError` that names the file and the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from reproduce import paths
from reproduce.claims import Claim, ClaimError, Condition, names_of
from reproduce.parameters import ParameterError, check, declared

_Entry = TypeVar("_Entry", Claim, Condition)

PROFILES = ("quick", "desk", "long", "paper")
"""The parameter sets, from seconds on any laptop to the paper's own in full."""

FILE = "catalogue.toml"
"""The name of a paper's file in its folder."""

_NUMBER = (int, float)
_KEYS: dict[str, tuple[type, ...]] = {
    "title": (str,),
    "notebook": (str,),
    "part_of": (str,),
    "rtol": _NUMBER,
    "atol": _NUMBER,
    "seed_band": _NUMBER,
    "seed_floor": _NUMBER,
    "tolerances": (dict,),
    "data": (list, dict),
    "runs": (str,),
    "parameters": (dict,),
    "claims": (list,),
    "conditions": (list,),
    "margin": _NUMBER,
    "free": (list,),
}
"""The keys of a figure and their types."""

FUNCTION = re.compile(r"[\w.]+:\w+")
"""A "module:function"."""


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
        part_of: the figure whose notebook this one continues, and whose id its claims carry; "" for
            a figure of its own.
        rtol, atol: how far the numbers behind the picture may depart from the stored ones.
        seed_band: for training, the departure allowed in standard deviations of the stored seeds;
            None where numbers are deterministic.
        seed_floor: the departure that is always allowed with `seed_band`.
        tolerances: key pattern -> tolerance, for single numbers.
        claims: what the paper states about it.
        conditions: what must hold of the runs before they can test the claims that need it.
        margin: the largest difference of two training results that counts as none, in their unit;
            None for figures without such claims.
        runs: "module:function" that maps the parameters to the tasks needed, as rows (name,
            configuration, seed); may be empty.
        overrides: profile -> the parameters that differ from the quick ones.
        needs: profile -> names in the data registry.
    """

    paper: str
    name: str
    title: str
    notebook: Path
    part_of: str = ""
    rtol: float = 1e-6
    atol: float = 0.0
    seed_band: float | None = None
    seed_floor: float = 0.0
    tolerances: Mapping[str, Any] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    conditions: tuple[Condition, ...] = ()
    margin: float | None = None
    runs: str = ""
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """`<paper>/<figure>`."""
        return f"{self.paper}/{self.name}"

    @property
    def whole(self) -> str:
        """The id that its claims carry: its own, or that of the figure whose part it is."""
        return f"{self.paper}/{self.part_of or self.name}"

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


def path_of(paper: str) -> Path:
    """The file of a paper."""
    return paths.PAPERS / paper / FILE


def _known_profile(profile: str) -> None:
    if profile not in PROFILES:
        raise CatalogueError(f"profile {profile!r} is none of {', '.join(PROFILES)}")


def _place(paper: str, name: str) -> str:
    """Where a figure stands, for messages."""
    return f"{path_of(paper)}: figures.{name}"


def read(paper: str, name: str, table: Any) -> Figure:
    """Check one `[figures.<name>]` table and make a `Figure` of it."""
    where = _place(paper, name)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise CatalogueError(f"{where}: the name must be letters, digits, _ and -")
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
    for key in ("rtol", "atol", "seed_band", "seed_floor", "margin"):
        if not 0 <= table.get(key, 0) < float("inf"):
            raise CatalogueError(f"{where}.{key} must be a number >= 0, got {table[key]!r}")
    if not FUNCTION.fullmatch(table.get("runs", "a:b")):
        raise CatalogueError(f"{where}.runs must be 'module:function', got {table['runs']!r}")
    _check_tolerances(where, table.get("tolerances", {}))
    plain = {
        key: table[key]
        for key in ("rtol", "atol", "seed_band", "seed_floor", "margin")
        if key in table
    }
    whole = f"{paper}/{table.get('part_of') or name}"
    conditions = _conditions(where, whole, table.get("conditions", []))
    claims = _claims(where, whole, table.get("claims", []), table.get("free", []))
    for claim in claims:
        if unknown := [one for one in claim.needs if one not in {two.id for two in conditions}]:
            raise CatalogueError(f"{where}: claim {claim.id}: unknown needs {unknown[0]!r}")
    return Figure(
        paper=paper,
        name=name,
        title=table["title"],
        notebook=_notebook(where, table["notebook"]),
        part_of=table.get("part_of", ""),
        tolerances=table.get("tolerances", {}),
        claims=claims,
        conditions=conditions,
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

    def build(table: dict[str, Any]) -> Claim:
        claim = Claim.from_table(figure_id, table)
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", str(claim.id)):
            raise ClaimError(f"id {claim.id!r} must be letters, digits and _ . -")
        return replace(claim, free=(*names_of(f"{where}.free", free), *claim.free))

    return _entries(f"{where}.claims", tables, build)


def _conditions(where: str, figure_id: str, tables: list[Any]) -> tuple[Condition, ...]:
    """The conditions of a figure."""
    return _entries(
        f"{where}.conditions", tables, lambda table: Condition.from_table(figure_id, table)
    )


def _entries(
    where: str, tables: list[Any], build: Callable[[dict[str, Any]], _Entry]
) -> tuple[_Entry, ...]:
    """What a list of tables describes, each with an id of its own."""
    found: dict[str, _Entry] = {}
    for number, table in enumerate(tables, start=1):
        place = f"{where}, entry {number}"
        if not isinstance(table, dict):
            raise CatalogueError(f"{place} must be a table")
        try:
            entry = build(table)
        except (ClaimError, AttributeError, TypeError) as problem:
            raise CatalogueError(f"{place}: {problem}") from None
        if entry.id in found:
            raise CatalogueError(f"{place}: id {entry.id!r} is there twice")
        found[entry.id] = entry
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
