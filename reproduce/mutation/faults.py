"""The mutants of a notebook's claims: which faults are made where, and whom they concern."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from reproduce.claims import DIFFERS, Claim
from reproduce.mutation import corrected, edits, intercept
from reproduce.mutation.intercept import Target
from reproduce.mutation.observed import Run, Slices, judging, rooms, yardstick
from reproduce.mutation.watched import told, watching

FACTORS = (1.02, 0.98)
"""By what returned values are multiplied."""

COARSE = (2.0, 0.5)
"""The same for a claim that is `coarse`."""

VALUE, SOURCE, CELL, CORRECTED = "value", "source", "cell", "corrected"

STANDS = ("holds", "reproduced", "loose")
"""Verdicts that a mutant must change."""

FALLS = ("false", "misprint")
"""Verdicts that the corrected statement must change; `falling` adds the orders that differ."""


@dataclass(frozen=True)
class Mutant:
    """One fault, and whom it concerns.

    Attributes:
        id: where it is and what it changes, without line numbers.
        kind: `VALUE`, `SOURCE` (inside a function), `CELL` or `CORRECTED`.
        move: the same for the directions of one move.
        place: the first statement that it touches.
        claims: ids of the claims whose statements it can reach.
        apply: makes the fault in this process; may return other code for the statement at `place`.
    """

    id: str
    kind: str
    move: str
    place: int
    claims: tuple[str, ...]
    apply: Callable[[], dict[int, Any] | None]


def coarse(found: Slices, done: Run) -> frozenset[str]:
    """The claims that say nothing about 2 % by their meaning, so that only large faults concern them.

    An order of curves, and a bound that is "loose": what is said of it is that the truth is below it by the factor
    that the verdict tells. It is false as soon as half of it is too small. No constant is moved by 5 % there.
    """
    orders = {one.id for one in found.entry.claims if one.kind == "order"}
    return frozenset(
        orders | {name for name, verdict in done.verdicts.items() if verdict == "loose"}
    )


def falling(one: Claim, verdict: str) -> bool:
    """Whether the corrected statement must change a verdict: a refuted statement, or an order that differs.

    A number that differs has no other form: its correction is our number.
    """
    return verdict in FALLS or (one.kind == "order" and verdict == DIFFERS)


def mutants(found: Slices, done: Run) -> list[Mutant]:
    """Every mutant that a claim that stands must notice, and the corrections of those that fall."""
    standing = [name for name, verdict in done.verdicts.items() if verdict in STANDS]
    proofs = [one.id for one in found.entry.claims if one.kind == "derivation"]
    inner = [name for name in standing if name in proofs]
    made = [*_values(found, done, standing), *_sources(found, done, inner)]
    made += list(_cells(found, standing, coarse(found, done)))
    claims = {one.id: one for one in found.entry.claims}
    for name, verdict in done.verdicts.items():
        if falling(claims[name], verdict):
            made += list(_corrections(found, done, name))
    return made


def _concerned(found: Slices, places: set[int], standing: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in standing if places & set(found.tested[name]))


def _tested(found: Slices, done: Run, name: str) -> set[Target]:
    """The functions whose values are under test in a claim.

    Those of the paper, and shared ones that the notebook or a function of the paper calls; yardsticks, and what
    only they call, where there is nothing else. What only the opening cells call makes symbols: points like others.
    """
    paper, places = found.entry.paper, set(found.tested[name]) - found.opening
    own = (f"repro.accounting.{paper}", f"reproduce.papers.{paper}")
    called = {
        target: set().union(*(kinds for place, kinds in calls.items() if place in places))
        for target, calls in done.calls.items()
        if places & calls.keys()
    }
    near = {
        target
        for target, kinds in called.items()
        if target.module.startswith(own)
        or any(kind == "__main__" or kind.startswith(own) for kind in kinds if not yardstick(kind))
    }
    near = {one for one in near if not judging(one.module)}
    tested = {one for one in near if not yardstick(one.module)}
    return tested or near


def _values(found: Slices, done: Run, standing: Sequence[str]) -> Iterator[Mutant]:
    """Returned values times a factor, one function, class and method at a time.

    A value that only the library asks for counts like the code that it is made by (`SOURCE`).
    """
    tested = {name: _tested(found, done, name) for name in standing}
    kinds_of = {one.id: one.kind for one in found.entry.claims}
    rough = coarse(found, done)
    asking = ("__main__", f"reproduce.papers.{found.entry.paper}.")
    for target, calls in sorted(done.calls.items(), key=lambda pair: str(pair[0])):
        places = {k for k, kinds in calls.items() if "scales" in kinds} - found.opening
        names = [name for name in standing if target in tested[name]]
        asked = any(f"{kind}.".startswith(asking) for kinds in calls.values() for kind in kinds)
        for factors in (FACTORS, COARSE):
            own = [name for name in names if (name in rough) == (factors is COARSE)]
            if not asked:
                own = [name for name in own if kinds_of[name] == "derivation"]
            concerned = _concerned(found, places, own)
            for factor in factors if concerned else ():
                kind = VALUE if asked else SOURCE
                yield Mutant(  # before any call, whoever makes it: results may be cached
                    f"{target}: value * {factor}", kind, f"{target}: value", min(calls), concerned,
                    lambda target=target, factor=factor: _scale(target, factor),
                )  # fmt: skip


def _scale(target: Target, factor: float) -> None:
    def handler(original: Any, args: tuple, kwargs: dict) -> Any:
        value = original(*args, **kwargs)
        hit = intercept.target(key, original, args, kwargs) == target
        return intercept.scaled(value, factor) if hit else value

    key = (target.module, target.name)
    intercept.intercept(intercept.functions((f"{target.module}.",))[key], handler)


def _sources(found: Slices, done: Run, standing: Sequence[str]) -> Iterator[Mutant]:
    """Changes in the code of the paper's own functions, for derivations; a figure shows what they decide."""
    paper = found.entry.paper
    rooms = (f"repro.accounting.{paper}.", f"reproduce.papers.{paper}.")
    places: dict[tuple[str, str], dict[int, set[str]]] = {}
    for name in standing:
        for target in _tested(found, done, name):
            if f"{target.module}.".startswith(rooms):
                mine = (set(found.tested[name]) - found.opening) & done.calls[target].keys()
                for place in mine:
                    calls = places.setdefault((target.module, target.name), {})
                    calls.setdefault(place, set()).add(name)
    known, rough = intercept.functions(rooms), coarse(found, done)
    first: dict[tuple[str, str], int] = {}
    for target, where in done.calls.items():
        key = (target.module, target.name)
        first[key] = min([*where, first.get(key, len(found.all))])
    for key in sorted(places):
        tree = intercept.tree(known[key])
        every = tuple(sorted(set().union(*places[key].values())))
        for edit in edits.edits(tree, cell=False) if tree is not None else ():
            where, concerned = ".".join(key), _minding(edit, every, rough)
            if not concerned:
                continue
            yield Mutant(
                f"{where}: {edit.text}", SOURCE, f"{where}: {edit.move} {edit.kind}",
                first[key], concerned,
                lambda key=key, tree=tree, edit=edit: _rewrite(
                    known[key], edits.edited(tree, edit)
                ),
            )  # fmt: skip


def _minding(edit: edits.Edit, names: Sequence[str], rough: Set[str]) -> tuple[str, ...]:
    """The claims that must notice a change of code."""
    return tuple(name for name in names if not (edit.kind == "constant" and name in rough))


def _rewrite(function: FunctionType, tree: ast.AST) -> None:
    """Make the fault; the comparisons of functions that judge are told as before."""
    judges = function.__module__.startswith("reproduce.") and not yardstick(function.__module__)
    name = f"{function.__module__}.{function.__qualname__}"
    intercept.rewrite(function, told(tree, name) if judges else tree)


def _cells(found: Slices, standing: Sequence[str], rough: Set[str]) -> Iterator[Mutant]:
    """Changes in the statements of the notebook; `rough` are the claims that are `coarse`."""
    seen: Counter[str] = Counter()
    for place in found.union:
        one = found.all[place]
        for edit in edits.edits(one.node, cell=True) if found.mutable(place) else ():
            name = f"{one.cell}: {edit.text}"
            seen[name] += 1
            name += f" [{seen[name]}]" if seen[name] > 1 else ""
            if concerned := _minding(edit, _concerned(found, {place}, standing), rough):
                yield Mutant(
                    name, CELL, f"{place}: {edit.move} {CELL} {edit.kind}", place, concerned,
                    lambda place=place, node=one.node, edit=edit: {
                        place: watching(edits.edited(node, edit))
                    },
                )  # fmt: skip


def possible(found: Slices, name: str, wanted: Callable[[str], bool]) -> Iterator[str]:
    """The ids that mutants of a claim can have, found without running anything.

    A returned value stands without the class and the method that tell its calls apart. Only the functions
    whose full name is `wanted` are looked at.
    """
    yield from (one.id for one in _cells(found, [name], frozenset()))
    paper = found.entry.paper
    for room in rooms(paper):
        package = importlib.import_module(room.rstrip("."))
        for module in pkgutil.walk_packages(package.__path__, room):
            importlib.import_module(module.name)
    for key, function in intercept.functions(rooms(paper)).items():
        where = ".".join(key)
        if not wanted(where):
            continue
        yield from (f"{where}: value * {factor}" for factor in FACTORS + COARSE)
        own = key[0].startswith((f"repro.accounting.{paper}.", f"reproduce.papers.{paper}."))
        tree = intercept.tree(function) if own else None
        changes = edits.edits(tree, cell=False) if tree is not None else ()
        yield from (f"{where}: {edit.text}" for edit in changes)


def has_correction(found: Slices, done: Run, name: str) -> bool:
    """Whether the corrected statement of a claim that falls is known, and has a place in its cells."""
    return next(_corrections(found, done, name), None) is not None


def _corrections(found: Slices, done: Run, name: str) -> Iterator[Mutant]:
    """The corrected statement in place of the printed one."""
    places = found.places[name]
    for one in corrected.read(found.entry.paper):
        if one.claim != f"{found.entry.whole}/{name}":
            continue
        if one.replace:
            calls = [
                place
                for target, where in done.calls.items()
                if f"{target.module}:{target.name}" == one.replace
                for place in where
                if place in places
            ]
            if calls:
                yield Mutant(
                    f"corrected: {one}", CORRECTED, name, min(calls), (name,),
                    lambda one=one: corrected.exchange(one),
                )  # fmt: skip
        elif one.old:
            found_in = {p: corrected.changed(found.all[p].node, one) for p in places}
            codes = {p: watching(tree) for p, (tree, hits) in found_in.items() if hits}
            hits = set().union(*(hits for _, hits in found_in.values()))
            if len(hits) < len(one.old):
                continue
            yield Mutant(
                f"corrected: {one}", CORRECTED, name, min(codes), (name,), lambda codes=codes: codes
            )
