"""Random calls of `repro`: what `faults.py` runs as its part "calls"."""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import pkgutil
import random
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import fault_recipes
import fault_training
import numpy as np

import repro.accounting as accounting
from repro.accounting import InvalidBoundWarning, Mechanism, compose

LONGEST, MEMORY = 20, 2 << 30
"""Processor seconds and bytes that one call may take; the bytes on top of what is held when the part starts.

Seconds of the processor, so that a machine under load finds the same faults."""

COSTLY = 0.05
"""Processor seconds from which a call counts as costly."""

SCALE = [1e-300, 1e-6, 1e-3, 0.03, 0.3, 1.0, 3.0, 50.0, 1e6, 1e12]
RATE = [0.0, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.999, 1 - 1e-16, 1.0]
COUNT = [0, 1, 2, 3, 10, 100, 10**4]
JUNK = [
    None,
    "1",
    True,
    math.nan,
    math.inf,
    -1.0,
    2**2000,
    [],
    [True],
    1 + 2j,
    {},
    np.zeros((2, 0)),
]
LIKE = {
    **dict.fromkeys(("sigma", "scale", "clip", "sensitivity", "interval", "ratio"), SCALE),
    **dict.fromkeys(("p", "q", "rate", "fpr", "prior", "slack", "delta", "round_delta"), RATE),
    **dict.fromkeys(("first", "second", "theta", "floor", "keep", "compromised", "beta"), RATE),
    **dict.fromkeys(("local_delta", "decay", "distance"), RATE),
    **dict.fromkeys(("rounds", "clients", "submodels", "iterations", "participations"), COUNT),
    **dict.fromkeys(("honest", "planned", "d", "k", "n", "size"), COUNT),
    **dict.fromkeys(("dimension", "servers", "records", "draws", "steps", "batch"), COUNT),
    **dict.fromkeys(("releases", "decimals"), COUNT),
    "samples_per_client": [*COUNT, 10**7],
    **dict.fromkeys(
        (
            "epsilon",
            "round_epsilon",
            "epsilon0",
            "local_epsilon",
            "total",
            "rho",
            "smashed",
            "update",
        ),
        [0.0, 1e-12, 0.01, 1.0, 8.0, 1e3, 1e9],
    ),
    **dict.fromkeys(("constant", "limit", "scores"), SCALE),
    "replacement": [True, False],
    "average": [True, False],
    "modulus": [0, 2, 2**32, 2**61 - 1, 2**64],
    "relation": ["replace", "add", "no"],
    "form": ["printed", "meant", "no"],
    "rule": ["paper", "straight-through", "no"],
    **dict.fromkeys(("alpha", "order"), [1.0 + 1e-9, 1.5, 2, 3, 32, 256, 1e4]),
    "unsplit_clip": [0.0, 0.5, 3.0],
    "method": ["upper", "lower", "paper"],
    "direction": ["add", "remove", "both"],
}
"""Usual and extreme values of an argument, by its name."""

PLAIN = ("float", "int", "str", "bool", "ArrayLike")
"""The annotations of arguments that the harness can give."""

NAMED = (ValueError, TypeError)
"""The errors that a call may end in."""


class TooLong(Exception):
    """A call took more than `LONGEST` seconds."""


def run(
    seed: int,
    seconds: float,
    count: int | None = None,
    costly: int | None = None,
    each: bool = False,
) -> list[str]:
    """Call at random; the faults found, each with the call that shows it.

    Args:
        seed: of the calls.
        seconds: after so many the part ends in any case.
        count: how many calls; with `costly`, how many of them take less than `COSTLY`. As many as fit if left out.
        costly: how many more calls take longer than that. Sources of the kind that lacks are preferred.
        each: whether the calls of every source are printed, cheap and costly ones.
    """
    rng = random.Random(seed)
    every = sources()
    history = {name: [1, 1] for name in every}  # cheap and costly calls so far, and one each
    made, longest, found = [0, 0], 0.0, {}
    end = time.monotonic() + seconds
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_held() + MEMORY, before[1]))
    signal.signal(signal.SIGPROF, _ring)
    try:
        while time.monotonic() < end and (wanted := _wanted(made, count, costly)):
            weights = [1.0] * len(every)
            if len(wanted) == 1:
                weights = [one[wanted[0]] / sum(one) for one in history.values()]
            (name,) = rng.choices(list(every), weights)
            text, call = every[name](rng)
            start = time.process_time()
            fault = attempt(call)
            spent = time.process_time() - start
            history[name][spent >= COSTLY] += 1
            made[spent >= COSTLY] += 1
            longest = max(longest, spent)
            if fault:
                found.setdefault(
                    fault.split("(")[0] + text.split("(")[0], f"calls: {text}: {fault}"
                )
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    print(
        f"calls: {made[0]} below {COSTLY} s and {made[1]} above, from {len(every)} sources; "
        f"the longest took {longest:.1f} s",
        flush=True,
    )
    if each:
        for name, (cheap, dear) in history.items():
            print(f"  {name}: {cheap - 1} + {dear - 1}", flush=True)
    return list(found.values())


def _wanted(made: list[int], count: int | None, costly: int | None) -> list[int]:
    """Which kinds of calls are still to be made: 0 for cheap ones, 1 for costly ones."""
    if costly is None:
        return [0, 1] if count is None or sum(made) < count else []
    return [kind for kind, most in ((0, count), (1, costly)) if most is None or made[kind] < most]


def sources() -> dict[str, Callable[[random.Random], tuple[str, Callable[[], Any]]]]:
    """Everything that is called, by name: from a generator to a call as text, and the call."""
    functions = {name: partial(_of_function, name=name, function=one) for name, one in public()}
    kinds = sorted(_mechanisms(), key=lambda kind: kind.__name__)
    mechanisms = {kind.__name__: partial(_of_mechanism, kind=kind) for kind in kinds}
    return {**functions, **mechanisms, **fault_recipes.RECIPES, **fault_training.RECIPES}


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions of every module of `repro.accounting` that take numbers and words only."""
    for info in pkgutil.walk_packages(accounting.__path__, "repro.accounting."):
        if "._" in info.name or info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", [key for key in vars(module) if key[0] != "_"]):
            one = getattr(module, name)
            if inspect.isfunction(one) and one.__module__ == info.name and _known(one):
                yield f"{info.name}.{name}", one


def _known(function: Callable[..., Any]) -> bool:
    """Whether the harness has values for each argument without a default."""
    every = inspect.signature(function).parameters.values()
    needed = [one for one in every if one.default is one.empty]
    return all(one.name in LIKE and one.annotation in PLAIN for one in needed)


def _mechanisms() -> list[type[Mechanism]]:
    """Every public mechanism of the package's modules; `public` has imported them."""
    every, left = set(), [Mechanism]
    while left:
        every |= set(kinds := left.pop().__subclasses__())
        left += kinds
    return [
        kind for kind in every if kind.__module__.startswith("repro.") and kind.__name__[0] != "_"
    ]


def _arguments(rng: random.Random, function: Callable[..., Any]) -> dict[str, Any]:
    """Values for the arguments that the harness knows; one call in six has a senseless one."""
    names = [name for name in inspect.signature(function).parameters if name in LIKE]
    given = {name: rng.choice(LIKE[name]) for name in names}
    if names and rng.random() < 1 / 6:
        given[rng.choice(names)] = rng.choice(JUNK)
    return given


def _told(name: str, given: dict[str, Any]) -> str:
    """A call as text, short: numbers of thousands of digits are cut."""
    return f"{name}({', '.join(f'{k}={repr(v)[:40]}' for k, v in given.items())})"


def _of_function(
    rng: random.Random, name: str, function: Callable[..., Any]
) -> tuple[str, Callable[[], Any]]:
    given = _arguments(rng, function)
    return _told(name, given), lambda: finite(function(**given))


def _of_mechanism(rng: random.Random, kind: type[Mechanism]) -> tuple[str, Callable[[], Any]]:
    """A mechanism, or its composition, checked by the relations that hold between its answers."""
    given = _arguments(rng, kind)
    if isinstance(given.get("iterations"), int) and isinstance(given.get("participations"), int):
        given["participations"] = min(given["participations"], given["iterations"])
    rounds = rng.choice([1, 1, 2, 50])
    direction = rng.choice(LIKE["direction"])
    epsilon = sorted(rng.sample(LIKE["epsilon"], 3))

    def call() -> None:
        made = kind(**given)
        target = made if rounds == 1 else compose(made, rounds)
        low, high = (
            np.array([target.delta(e, method=m, direction=direction) for e in epsilon])
            for m in ("lower", "upper")
        )
        finite(low), finite(high)
        assert np.all(low <= high), f"lower {low} is above upper {high} at {epsilon}"
        for one in (low, high):
            assert np.all(np.diff(one) <= 1e-15), f"delta rises with epsilon: {one} at {epsilon}"
        assert np.all((low >= 0) & (high <= 1)), f"delta is outside [0, 1]: {low}, {high}"
        delta = rng.choice([1e-9, 1e-5, 0.1])
        both = [target.epsilon(delta, method=m, direction=direction) for m in ("lower", "upper")]
        finite(both)
        assert both[0] <= both[1] * (1 + 1e-9), f"lower epsilon {both} at {delta}"
        other = rng.choice(("rdp", "tpr_at_fpr", "advantage", "gdp_mu", "bayes_risk"))
        at = {"rdp": [2.5], "tpr_at_fpr": [0.01], "bayes_risk": [0.3]}.get(other, [])
        ask = partial(getattr(target, other), *at)
        try:
            both = [ask(method=m) for m in ("lower", "upper")]
        except NotImplementedError:
            return  # a mechanism without Renyi divergences says so
        finite(both)
        if other == "bayes_risk":  # a risk is the attacker's, so that its bounds change places
            both = both[::-1]
        assert other == "rdp" or both[0] <= both[1] + 1e-9, f"lower {other} {both}"

    return f"{_told(kind.__name__, given)} x {rounds}, {direction}", call


def finite(value: Any) -> None:
    """Fail where an answer holds a nan or an inf, wherever in it."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for one in value:
            finite(one)
    elif isinstance(value, (int, float, np.ndarray, np.number)) and not isinstance(value, bool):
        array = np.asarray(value)
        if array.dtype.kind in "fc":
            assert np.all(np.isfinite(array)), f"not finite: {array}"


def attempt(call: Callable[[], Any]) -> str:
    """What is wrong with a call, or ""."""
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # a warning that leaks is a fault
            warnings.simplefilter("ignore", InvalidBoundWarning)
            call()
    except NAMED as problem:
        return (
            "" if names_something(str(problem)) else f"nameless {type(problem).__name__}: {problem}"
        )
    except (TooLong, MemoryError, AssertionError) as problem:
        return f"{type(problem).__name__}: {str(problem)[:200]}"
    except Exception as problem:
        return f"uncaught {type(problem).__name__}: {str(problem)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def names_something(text: str) -> bool:
    """Whether a message says what must be what, as all of the package do, or is Python's own on a call."""
    words = (
        " must ",
        " needs ",
        " takes ",
        " has ",
        " have ",
        " argument",
        " meets ",
        " cannot ",
        "; use ",
    )
    return any(word in f" {text} " for word in words)


def _ring(*_: Any) -> None:
    raise TooLong(f"more than {LONGEST} s")


def _held() -> int:
    """Bytes of address space in use now."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(next(itertools.islice(stream.read().split(), 1))) * resource.getpagesize()
