"""Run the mutants of one notebook: `python -m reproduce.mutation.trial <paper>/<figure>` prints one JSON line each.

The statements that the claims of the notebook depend on (`slices`) run once, one after another. Before the first
statement that a mutant can touch the process forks: the copy takes the fault, runs the rest of what the claims
concerned need, and tells their verdicts. So a mutant costs what comes after it, and imports and data cost nothing.
A fault inside a function must be noticed by one of the claims that use the function: the cheapest are asked first, and
the others only as long as none has noticed. A claim that has caught a move in one direction is not asked about the
other: an inequality may ignore it.

What becomes of a mutant, claim by claim:

* "changed": the verdict is another one; "raised": a statement failed; "timeout": it took more than three times the
  processor time of the unchanged code, and 5 s. These are caught.
* "same": every comparison of the claim's statements, and of the functions of its paper that judge numbers, is between
  the same numbers as before, up to rounding. The mutant is equivalent (an unreachable constant), or changes what is
  only shown. Where a claim catches no other mutant, these survive: it tests nothing.
* "safer": every comparison comes out as before with at least the same margin, or the same number moved the other
  way is caught. An inequality reacts to one direction only.
* "spared": not run, because the same number moved the other way is caught.
* "survived": all else. The numbers moved against the claim, and the verdict did not.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from reproduce import catalogue
from reproduce.catalogue import Figure
from reproduce.claims import ClaimError
from reproduce.mutation import corrected
from reproduce.mutation.faults import (
    CELL,
    CORRECTED,
    SOURCE,
    Mutant,
    falling,
    has_correction,
    mutants,
)
from reproduce.mutation.observed import Bench, Run, Slices, forked, observe
from reproduce.mutation.reach import Reach

CAUGHT = ("changed", "raised", "timeout")
PATIENCE, LEAST = 3.0, 5.0
"""A mutant may take so many times the processor time of the unchanged code, and so many seconds more."""

ALONE = 3
"""So many claims are asked about a fault inside a function one by one; the rest together."""

MEMORY = 6 * 2**30
"""Bytes that a mutant may allocate."""


def _outcome(bench: Bench, done: Run, mutant: Mutant, asked: Sequence[str]) -> dict[str, str]:
    """In a copy of the process: make the fault, run what is needed, say what became of each claim that is asked."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    concerned = {name: bench.slices.places[name] for name in asked}
    told: dict[str, str] = {}
    try:
        other = mutant.apply() or {}
    except Exception:
        return {}  # no program: a default value that only its class knows, say
    bench.watch.margins = {k: v for k, v in bench.watch.margins.items() if k < mutant.place}
    reach = Reach(bench.slices.all, done.watch, mutant.place) if mutant.kind == CELL else None
    settled: dict[str, int] = {}
    for place in bench.slices.union:
        users = [
            name
            for name, places in concerned.items()
            if place in places and name not in told and name not in settled
        ]
        if place < mutant.place or not users:
            continue
        try:
            bench.run(place, other.get(place))
        except ClaimError:  # another verdict, for which the cell has no words
            told |= dict.fromkeys(users, "changed")
        except BaseException as problem:
            why = " ".join(f"{type(problem).__name__}: {problem}".split())[:200]
            told |= dict.fromkeys(users, f"raised {why}")
        else:
            if reach is not None:
                reach.ran(place, bench.namespace)
                settled |= {n: place for n in users if reach.ends(concerned[n], place)}
        for name in users:
            if place == concerned[name][-1] and name not in told:
                settled.pop(name, None)
                if bench.verdict(name) != done.verdicts[name]:
                    told[name] = "changed"
        if told and mutant.kind == SOURCE:
            return told  # one of the claims is enough
    for name, places in concerned.items():
        if name in told:
            continue
        if name in settled:
            if bench.verdict(name) not in ("", done.verdicts[name]):
                told[name] = "changed"
                continue
            bench.watch.take(done.watch, [k for k in places if k > settled[name]], name)
        else:
            bench.numbers(name)
        told[name] = "survived"
        if mutant.kind != CORRECTED:
            tested = bench.slices.tested[name]
            if done.watch.same(bench.watch, tested, name):
                told[name] = "same"
            elif done.watch.safer(bench.watch, tested, name):
                told[name] = "safer"
    return told


def examine(
    entry: Figure,
    wanted: Sequence[str] | None = None,
    *,
    seed: int = 0,
    budget: float | None = None,
    share: float | None = None,
) -> Iterator[dict[str, Any]]:
    """Run the mutants of a notebook; one row for each claim that a mutant concerns.

    Args:
        entry: the figure.
        wanted: ids of claims; None for all that are decided by formulas.
        seed: of a sample.
        budget: seconds; with it only moves in the order of a shuffle are run, as many as the seconds of the
            unchanged code let expect to fit into it. It holds more of the cheap ones.
        share: with it only a sample is run that does not look at costs: each move with this probability.

    Yields:
        Rows with `claim`, `verdict`, `mutant`, `move`, `kind` and `result`; `result` is "open" for a claim that
        falls and has no correction, "none" with the `reason` where there can be none, and "error" with a `reason`
        for one whose statements do not run by themselves. `judged` looks at them together.
    """
    begin = time.monotonic()
    found = Slices(entry, wanted)
    bench = Bench(found)
    bench.prepare()
    done = observe(bench)
    yield from _not_run(found, done)
    chosen = mutants(found, done)
    if share is not None:
        chosen = drawn(chosen, seed, share)
    elif budget is not None:
        chosen = sample(found, done, chosen, seed, budget - (time.monotonic() - begin))
    caught: set[tuple[str, str]] = set()
    for place in found.union:
        for mutant in [one for one in chosen if one.place == place]:
            if budget is not None and time.monotonic() - begin > 2 * budget:
                return
            groups = list(_asked(found, done, mutant, caught))
            told = {} if groups else dict.fromkeys(mutant.claims, "spared")
            for asked in groups:
                told |= _tried(bench, done, mutant, asked)
                if mutant.kind == SOURCE and any(one.startswith(CAUGHT) for one in told.values()):
                    break
            for name, result in told.items():
                row = {"claim": f"{entry.whole}/{name}", "verdict": done.verdicts[name]}
                kind, _, why = result.partition(" ")
                if kind in CAUGHT:
                    caught.add((name, mutant.move))
                row |= {"mutant": mutant.id, "move": mutant.move, "kind": mutant.kind}
                yield row | {"result": kind} | ({"reason": why} if why else {})
        if place not in done.errors:
            with suppress(Exception):
                bench.run(place)


def _asked(
    found: Slices, done: Run, mutant: Mutant, caught: set[tuple[str, str]]
) -> Iterator[list[str]]:
    """The claims to ask about a mutant, in groups: first who caught its move, then by their seconds."""
    fresh = [name for name in mutant.claims if (name, mutant.move) not in caught]
    if mutant.kind != SOURCE:
        yield from [fresh] if fresh else []
        return
    if not fresh:
        return
    order = sorted(
        mutant.claims, key=lambda name: (name in fresh, cost(found, done, mutant, [name]), name)
    )
    yield from ([name] for name in order[:ALONE])
    yield from [order[ALONE:]] if order[ALONE:] else []


def _tried(bench: Bench, done: Run, mutant: Mutant, asked: Sequence[str]) -> dict[str, str]:
    """What becomes of some claims under a mutant, found out in a copy of this process."""
    limit = LEAST + PATIENCE * cost(bench.slices, done, mutant, asked)
    told = forked(lambda: json.dumps(_outcome(bench, done, mutant, asked)).encode(), limit)
    dead = "timeout" if told is None else "raised the process died"
    return json.loads(told) if told else dict.fromkeys(asked, dead)


def judged(rows: Sequence[Mapping[str, Any]], *, whole: bool) -> list[dict[str, Any]]:
    """The rows of a paper in the light of each other.

    * A corrected form that does not run has shown nothing: it counts as a survivor.
    * A survivor whose move is caught in the other direction is "safer"; inside a function, by any claim.
    * A fault inside a function that several claims use must be noticed by one of them: it counts once.
    * Where a claim catches nothing but its own comparisons turned round, what its comparisons do not see has
      survived. That is said of a `whole` run only, and not of a sample.
    """
    rows = [dict(row) for row in rows]
    for row in rows:
        if row.get("kind") == CORRECTED and row["result"] in CAUGHT[1:]:
            row["result"] = "survived"
    caught = {_subject(row) for row in rows if row["result"] in CAUGHT}
    alive = {
        row["claim"]
        for row in rows
        if row["result"] in CAUGHT and not row["move"].endswith(f"{CELL} comparison")
    }
    found, inside = [], {}
    for row in rows:
        if row["result"] == "survived" and _subject(row) in caught:
            row["result"] = "safer"
        elif row["result"] == "same" and whole and row["claim"] not in alive:
            if row["kind"] != SOURCE:
                row |= {"result": "survived", "reason": "no mutant of this claim is caught"}
        if row.get("kind") != SOURCE:
            found.append(row)
        elif _rank(row) < _rank(inside.get(row["mutant"], {"result": ""})):
            inside[row["mutant"]] = row
    return found + list(inside.values())


def _subject(row: Mapping[str, Any]) -> tuple[str, str]:
    """What must notice a move: the claim, or for a fault inside a function any of them."""
    return "" if row.get("kind") == SOURCE else row["claim"], row.get("move", "")


def _rank(row: Mapping[str, Any]) -> int:
    """Which of a mutant's results counts: the first of these."""
    order = (*CAUGHT, "survived", "safer", "same", "spared", "")
    return order.index(row["result"])


def _not_run(found: Slices, done: Run) -> Iterator[dict[str, Any]]:
    """Rows for claims that nothing is tried on."""
    excuses = corrected.excused(found.entry.paper)
    claims = {one.id: one for one in found.entry.claims}
    for name, places in found.places.items():
        falls = falling(claims[name], done.verdicts.get(name, ""))
        row = {"claim": f"{found.entry.whole}/{name}", "verdict": done.verdicts.get(name, "")}
        if not row["verdict"]:
            why = [done.errors[place] for place in places if place in done.errors]
            yield row | {"mutant": "", "result": "error", "reason": (why or ["undecided"])[0]}
        elif falls and row["claim"] in excuses:
            yield row | {"mutant": "", "result": "none", "reason": excuses[row["claim"]]}
        elif falls and not has_correction(found, done, name):
            yield row | {"mutant": "", "result": "open"}


def cost(found: Slices, done: Run, mutant: Mutant, names: Sequence[str] | None = None) -> float:
    """The processor seconds of the unchanged code from a mutant's place on, for the claims it concerns or `names`."""
    names = mutant.claims if names is None else names
    places = {place for name in names for place in found.places[name]}
    return sum(done.seconds.get(place, 0.0) for place in places if place >= mutant.place)


def sample(
    found: Slices, done: Run, every: Sequence[Mutant], seed: int, budget: float
) -> list[Mutant]:
    """All corrections, then whole moves in the order of a seeded shuffle that still fit the budget.

    No move may take more than a quarter of it.
    """
    chosen = [one for one in every if one.kind == CORRECTED]
    order = _shuffled([one for one in every if one.kind != CORRECTED], seed)
    left = budget - sum(done.seconds.values()) - sum(cost(found, done, one) for one in chosen)
    for move in order:
        price = sum(cost(found, done, one) + 0.1 for one in move)
        if price <= min(left, budget / 4):
            left -= price
            chosen += move
    return chosen


def drawn(every: Sequence[Mutant], seed: int, share: float) -> list[Mutant]:
    """All corrections, and every other move with this probability, by a number that its name and the seed decide.

    What a move costs plays no part, nor how many others its notebook has: the share of survivors is that of all
    moves. A fault inside a function is drawn in all notebooks that use it or in none, so that it survives only where
    no claim of any of them notices it.
    """
    return [
        one
        for one in every
        if one.kind == CORRECTED or random.Random(f"{seed} {one.move}").random() < share
    ]


def _shuffled(every: Sequence[Mutant], seed: int) -> list[list[Mutant]]:
    """The moves, each with its directions, in the order of a seeded shuffle."""
    moves: dict[str, list[Mutant]] = {}
    for one in sorted(every, key=lambda one: one.id):
        moves.setdefault(one.move, []).append(one)
    order = list(moves.values())
    random.Random(seed).shuffle(order)
    return order


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of the process that runs one notebook."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.mutation.trial")
    parser.add_argument("figure")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float)
    parser.add_argument("--share", type=float)
    parser.add_argument("--claims", nargs="*")
    options = parser.parse_args(arguments)
    entry = catalogue.figure(options.figure)
    warnings.simplefilter("ignore")  # printed formulas are evaluated on purpose
    how = {name: getattr(options, name) for name in ("seed", "budget", "share")}
    for row in examine(entry, options.claims, **how):
        print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
