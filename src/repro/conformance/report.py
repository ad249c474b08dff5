"""One examination of an engine, and its report in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer
from repro.conformance import (
    checks_epsilon,
    checks_noise,
    checks_sampling,
    checks_structure,
    scenes,
)
from repro.conformance.adapter import Array, Engine, Promise
from repro.conformance.findings import LEVEL, Finding, alarms, exact, skipped
from repro.conformance.scenes import Sight

Look = Callable[..., Sight]
"""Runs the engine on vectors; see `examine`."""

_NEIGHBOURS = {
    "add_remove": "added or removed",
    "zero_out": "contributing or not, the number being public",
    "replace": "replaced",
}
_WITHOUT_NOISE = ("sampling", "sensitivity", "divisor is public", "kept state carries no record")


@dataclass(frozen=True)
class Report:
    """All findings about one engine.

    Attributes:
        name: of the engine, with its version.
        promise: what it says about itself.
        repetitions: of each run.
        seed: of the examination.
        findings: in the order in which they were made.
    """

    name: str
    promise: Promise
    repetitions: int
    seed: int
    findings: tuple[Finding, ...]

    @property
    def alarms(self) -> tuple[str, ...]:
        """The checks that failed, all of them judged together at level 1 %."""
        wrong = alarms(self.findings)
        return tuple(f.check for f, bad in zip(self.findings, wrong, strict=True) if bad)

    def text(self) -> str:
        """The report in Markdown; a function of code, adapter, repetitions and seed."""
        tests = sum(f.p_value is not None for f in self.findings)
        level = LEVEL / max(1, tests)
        wrong = alarms(self.findings)
        lines = [f"# {self.name}", "", _summary(self.alarms), "", "## Promise", ""]
        lines += [f"* {name}: {value}" for name, value in _promised(self.promise)]
        lines += [
            "",
            "## Findings",
            "",
            "| check | verdict | evidence | p-value | what it can see |",
            "|---|---|---|---|---|",
        ]
        for finding, bad in zip(self.findings, wrong, strict=True):
            checked = finding.p_value is not None or finding.broken is not None
            verdict = "**alarm**" if bad else "as promised" if checked else "not checked"
            p_value = "exact" if finding.broken is not None else ""
            if finding.p_value is not None:
                p_value = f"{finding.p_value:.2g}"
            detects = finding.detects(level) if checked else ""
            lines.append(
                f"| {finding.check} | {verdict} | {finding.evidence.removeprefix('not checked: ')} | {p_value} | "
                f"{detects} |"
            )
        lines += [
            "",
            f"{self.repetitions} repetitions of {self.promise.rounds} rounds, seed {self.seed}. {tests} statistical "
            f"checks are judged together by Holm's procedure: an engine that keeps its promise gives an alarm in at "
            f'most {LEVEL:.0%} of the examinations. "What it can see" is, for a statistical check, the smallest '
            "deviation that 4 of 5 examinations find (of the kind that the check looks for); a smaller one, or one "
            "that shows only in other data, with other parameters or in another number of rounds, is beyond it. For "
            "an exact check it is the relative tolerance. A report without alarm is evidence, not a proof.",
            "",
        ]
        return "\n".join(lines)


def _summary(wrong: tuple[str, ...]) -> str:
    if not wrong:
        return "No check found a deviation from the promise."
    return f"{len(wrong)} of the checks found a deviation from the promise: {'; '.join(wrong)}."


def _promised(promise: Promise) -> list[tuple[str, object]]:
    """The fields, for the report."""
    rows = {
        "clients, records of each": f"{promise.clients}, {promise.records}",
        "neighbours": f"one {promise.unit} {_NEIGHBOURS[promise.adjacency]}",
        "sampling": f"{promise.sampling}, participation {promise.participation:g}, local rate {promise.local_rate:g}",
        "rounds": promise.rounds,
        "clip": f"{promise.clip:g} ({'l1' if promise.order == 1 else 'Euclidean'} norm)",
        "noise": f"{promise.law}, multiplier {promise.noise_multiplier:g}",
        "divisor": f"{promise.divisor:g}",
        "observer": "every upload" if promise.uploads else "the sum",
        "printed": "no epsilon"
        if promise.epsilon is None
        else f"epsilon {promise.epsilon:.4g} at delta {promise.delta:g}",
    }
    if promise.sampling == "balanced":
        rows["sampling"] = f"balanced, {promise.participations} of {promise.rounds} rounds"
    return list(rows.items())


def examine(engine: Engine, *, seed: int = 0, repetitions: int = 2000) -> Report:
    """Check an engine against its promise.

    Args:
        engine: see `Engine`.
        seed: >= 0; the report is a function of engine, seed and repetitions.
        repetitions: of the longest runs, at least 200.

    Raises:
        ValueError: an argument out of range, or the engine returns arrays of the wrong shape, nan or inf, or noise
            where it is asked for none.
    """
    integer("repetitions", repetitions, 200)
    stream = iter(np.random.SeedSequence(integer("seed", seed, 0)).generate_state(32))

    def look(
        vectors: Array,
        *,
        noise: bool,
        share: float = 1.0,
        less: bool = False,
        owner: NDArray[np.int64] = engine.promise.owner,
    ) -> Sight:
        if less:
            vectors, owner = scenes.without_last(engine.promise, vectors)
        count = max(100, int(repetitions * share))
        return scenes.look(
            engine, vectors, owner, repetitions=count, noise=noise, seed=int(next(stream))
        )

    promise = engine.promise
    quiet = look(scenes.silent(promise), noise=True)
    found = [
        exact(
            "number of rounds",
            quiet.rounds != promise.rounds,
            f"{quiet.rounds} rounds were released, promised {promise.rounds}",
            0.0,
        )
    ]
    if engine.can_silence:
        found += _without_noise(promise, look, seed)
    else:
        found += [
            skipped(name, "the engine cannot switch its noise off") for name in _WITHOUT_NOISE
        ]
    loud = look(scenes.orthogonal(promise), noise=True)
    rate = checks_sampling.scheme(promise).rate
    found.append(checks_noise.mean_contribution(promise, rate, loud))
    found += checks_noise.check(promise, quiet, loud)
    found.append(checks_epsilon.check_account(promise))
    found.append(_attack(promise, look, quiet, rate))
    if engine.can_silence and promise.unit == "client" and promise.records > 1:
        vectors, owner = scenes.uneven(promise)
        sight = look(vectors, noise=False, share=0.25, owner=owner)
        found.append(checks_structure.uneven(promise, sight))
    return Report(engine.name, promise, repetitions, seed, tuple(found))


def _without_noise(promise: Promise, look: Look, seed: int) -> list[Finding]:
    def absent(vectors: Array) -> Sight | None:
        """Without the last unit; where sampling shows who is absent, data sets of one size need no second look."""
        if promise.adjacency == "add_remove":
            return look(vectors, noise=False, share=0.25, less=True)
        if promise.adjacency == "zero_out" and promise.everybody:
            return look(scenes.silenced(promise, vectors), noise=False, share=0.25)
        return None

    data = {"long": scenes.orthogonal(promise)}
    if (
        promise.unit == "record" or promise.local_rate == 1
    ):  # else the drawn records decide, not the clients
        data |= {
            "opposed": scenes.opposed(promise),
            "huge": scenes.opposed(promise, last=scenes.HUGE),
            "mixed": scenes.mixed(promise, seed),
        }
    seen = {
        name: (
            look(vectors, noise=False, share=1.0 if name == "long" else 0.5),
            absent(vectors),
        )
        for name, vectors in data.items()
    }
    flipped = None
    if promise.adjacency == "replace" and "opposed" in data:
        flipped = (
            seen["opposed"][0],
            look(scenes.opposed(promise, last=50.0), noise=False, share=0.5),
        )
    found = checks_sampling.check(promise, seen["long"][0].present(promise), "long contributions")
    if "mixed" in seen:
        present = seen["mixed"][0].present(promise)
        found += checks_sampling.check(promise, present, "contributions of all lengths")
    return found + checks_structure.check(promise, seen, flipped)


def _attack(promise: Promise, look: Look, quiet: Sight, rate: float) -> Finding:
    present = look(scenes.single(promise), noise=True)
    absent = quiet
    if promise.adjacency == "replace":
        absent = look(scenes.single(promise, -1.0), noise=True)
    values = [checks_epsilon.scores(promise, sight, rate) for sight in (present, absent)]
    return checks_epsilon.check_attack(promise, *values)
