"""What the statements behind a notebook's claims do: their slices, the calls they make, the numbers they leave."""

from __future__ import annotations

import ast
import importlib
import math
import os
import pickle
import resource
import select
import signal
import time
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from reproduce import claim, results, slices, sources
from reproduce.catalogue import Figure
from reproduce.mutation import intercept
from reproduce.mutation.intercept import Target
from reproduce.mutation.watched import Watch, attach, judgement, told, watching
from reproduce.slices import Statement
from reproduce.verdicts import Verdicts

YARDSTICKS = ("second_routes", "search")
"""Modules of a paper that hold the other side of a comparison. They are mutated where a claim calls nothing else."""


TRAINING = "run_tasks"
"""What a statement uses that runs tasks: claims that depend on it rest on runs, also where a formula decides them."""

IDLE = 10.0
"""How many times its processor time a copy of the process may take on the clock."""


@dataclass
class Run:
    """What the unchanged statements did: the calls, processor seconds and errors of each, and what they left.

    `judges` are the functions that return a truth value or are given the workbook to record a verdict.
    """

    calls: dict[Target, dict[int, set[str]]] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    judges: set[str] = field(default_factory=set)
    watch: Watch = field(default_factory=Watch)


class Slices:
    """The statements of a notebook, and those that each of its claims depends on.

    The opening cells of derivations hold the parameters, the workbook and symbols for all claims: the points at
    which statements are tested (`opening`). In a figure the cell of the workbook may compute. Of the statements
    that a claim depends on (`places`; claims that depend on runs have none) some only draw before it from the same
    generator; a fault in those gives it other draws and is none in what is `tested`.
    """

    def __init__(self, entry: Figure, wanted: Sequence[str] | None = None) -> None:
        cells = sources.cells(entry.notebook)
        first = claim.parameters_cell(entry.notebook)
        self.entry = entry
        self.all: list[Statement] = slices.statements(cells)
        start = [k for k, one in enumerate(self.all) if one.cell == first]
        self.places: dict[str, list[int]] = {}
        self.tested: dict[str, list[int]] = {}
        still = slices.without_draws(self.all)
        opening = {first}
        if any(one.kind == "derivation" for one in entry.claims):
            opening |= {one.cell for one in self.all if slices.BOOK in one.binds}
        self.opening = frozenset(k for k, one in enumerate(self.all) if one.cell in opening)
        rows = {row["id"]: row for row in results.result(entry).rows}
        for one in entry.claims:
            if one.by != "formula" or (wanted is not None and one.id not in wanted):
                continue
            chosen = slices.deciding(self.all, one.id, rows[one.full_id]["cell"], one.needs)
            found = slices.backwards(self.all, chosen)
            if chosen and not any(self._trains(place) for place in found):
                self.places[one.id] = sorted({*start, *found})
                self.tested[one.id] = slices.backwards(still, chosen)
        self.union = sorted({place for places in self.places.values() for place in places})

    def _trains(self, place: int) -> bool:
        """Whether a statement runs tasks or opens their records."""
        one = self.all[place]
        return TRAINING in one.uses - one.binds

    def mutable(self, place: int) -> bool:
        """Whether mutants are made of a statement: not of imports, the workbook's start and the opening cells."""
        one = self.all[place]
        return (
            place not in self.opening
            and slices.BOOK not in one.binds
            and not isinstance(one.node, ast.Import | ast.ImportFrom)
        )


class Bench:
    """A namespace in which the statements of a notebook run, watched."""

    def __init__(self, found: Slices) -> None:
        self.slices = found
        self.module = types.ModuleType("__main__")
        self.namespace = self.module.__dict__
        self.watch = Watch()
        attach(self.namespace, self.watch)
        self.code = {place: watching(found.all[place].node) for place in found.union}

    def prepare(self) -> None:
        """Import what the statements import, and let the functions that judge numbers tell their comparisons."""
        for place in self.slices.union:
            if isinstance(self.slices.all[place].node, ast.Import | ast.ImportFrom):
                self.run(place)
        own = f"reproduce.papers.{self.slices.entry.paper}."
        for (module, name), function in intercept.functions(("reproduce.papers.",)).items():
            if not module.startswith(own) and module.count(".") > 2:
                continue  # another paper
            tree = None if yardstick(module) else intercept.tree(function)
            if tree is not None and any(isinstance(one, ast.Compare) for one in ast.walk(tree)):
                attach(function.__globals__, self.watch)
                with suppress(Exception):  # a default value that only its class knows
                    intercept.rewrite(function, told(tree, f"{module}.{name}"))

    def run(self, place: int, code: Any = None) -> None:
        """Execute one statement and keep what it left."""
        self.watch.now = place
        exec(code or self.code[place], self.namespace)
        names = sorted(self.slices.all[place].changes - {slices.BOOK})
        self.watch.keep(place, names, self.namespace)

    def verdict(self, claim_id: str) -> str:
        """The verdict on a claim, "" while it is open."""
        book = self.namespace.get(slices.BOOK)
        found = book.decision(claim_id) if book is not None else {}
        return found.get("verdict", "")

    def numbers(self, claim_id: str) -> None:
        """Note how far our number is from the paper's, for a claim that has one."""
        own = next(one for one in self.slices.entry.claims if one.id == claim_id)
        decision = self.namespace[slices.BOOK]._decisions.get(claim_id)
        if own.paper is not None and decision is not None:
            tolerance = (own.rtol or 0.0, own.atol or 0.0)
            self.watch.number(claim_id, decision.value, own.paper, *tolerance)


# The unchanged run --------------------------------------------------------------------------------


def yardstick(module: str) -> bool:
    """Whether a module holds the other side of a comparison: a second route, or a search."""
    return module.rpartition(".")[2].startswith(YARDSTICKS)


def judging(module: str) -> bool:
    """Whether a module holds what a paper's verdicts are made with, and no statement under test."""
    return bool({"claims", "verdicts"} & set(module.rpartition(".")[2].split("_")))


def rooms(paper: str) -> tuple[str, ...]:
    """Where the functions are whose calls are seen."""
    return ("repro.accounting.", f"reproduce.papers.{paper}.")


def _observe(bench: Bench) -> Run:
    """Run everything once in this process, which is spoilt by it."""
    found, done, now = bench.slices, Run(), [-1]

    def see(key: tuple[str, str]) -> Callable[..., Any]:
        def handler(original: Any, args: tuple, kwargs: dict) -> Any:
            value = original(*args, **kwargs)
            target = intercept.target(key, original, args, kwargs)
            kinds = done.calls.setdefault(target, {}).setdefault(now[0], set())
            kinds.add(intercept.caller())
            if "scales" not in kinds and intercept.scales(value):
                kinds.add("scales")
            given = [*args, *kwargs.values()]
            if judgement(value) or any(isinstance(one, Verdicts) for one in given):
                done.judges.add(".".join(key))
            return value

        return handler

    for key, function in intercept.functions(rooms(found.entry.paper)).items():
        intercept.intercept(function, see(key))
    failed: set[int] = set()
    for place in found.union:
        now[0], start = place, time.process_time()
        if any(place in places and failed & set(places) for places in found.places.values()):
            continue
        try:
            bench.run(place)
        except Exception as problem:
            done.errors[place] = f"{type(problem).__name__}: {problem}"
            failed.add(place)
        done.seconds[place] = time.process_time() - start
    for name, places in found.places.items():
        if not failed & set(places):
            done.verdicts[name] = bench.verdict(name)
            bench.numbers(name)
    bench.watch.only(frozenset(done.judges))
    done.watch = bench.watch
    return done


def observe(bench: Bench) -> Run:
    """What the unchanged statements do, found out in a copy of this process; the bench must be prepared.

    Raises:
        claim.DecisionError: the copy died.
    """
    told = forked(lambda: pickle.dumps(_observe(bench)), limit=900.0)
    if not told:
        raise claim.DecisionError(f"{bench.slices.entry.id}: the unchanged statements do not run")
    done: Run = pickle.loads(told)
    for name in {target.module for target in done.calls}:
        importlib.import_module(name)  # what mutants are made of
    bench.watch.only(frozenset(done.judges))
    return done


def forked(work: Callable[[], bytes], limit: float) -> bytes | None:
    """What a copy of this process returns; b"" when it dies, None when it does not end in time.

    It has `limit` seconds of processor time, so that load on the machine changes nothing, and `IDLE` times as long
    on the clock.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(read)
            quiet = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(quiet, stream)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(
                resource.RLIMIT_CPU, (math.ceil(limit), resource.getrlimit(resource.RLIMIT_CPU)[1])
            )
            told = work()
            with os.fdopen(write, "wb") as pipe:
                pipe.write(told)
            code = 0
        except BaseException:
            pass
        finally:
            os._exit(code)
    os.close(write)
    told, end = b"", time.monotonic() + IDLE * limit
    with os.fdopen(read, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
            if not (part := pipe.read(1 << 16)):
                break
            told += part
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return None
    return told if status == 0 else b""
