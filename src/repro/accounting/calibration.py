"""The smallest noise that meets a target: of privacy, or of what an attacker may reach."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import elementwise

from repro._validate import choice, nonnegative, positive, probability_open
from repro.accounting._composed import Composed
from repro.accounting.mechanism import METHODS, Mechanism

__all__ = ["calibrate_sigma"]

_NEAR = 1e-4
"""Relative width of the bracket that losses on a coarse grid give, and of the step that tells the slope."""

_TARGETS = (("epsilon", "delta"), ("fpr", "tpr"), ("advantage",))


def calibrate_sigma(
    mechanism: Callable[[float], Mechanism | Composed],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    fpr: float | None = None,
    tpr: float | None = None,
    advantage: float | None = None,
    method: str = "upper",
    bounds: tuple[float, float] = (1e-2, 1e4),
    rtol: float = 1e-7,
    guess: float | None = None,
    progress: Callable[[float], object] | None = None,
) -> float:
    """Smallest sigma in `bounds` at which `mechanism(sigma)` meets one target.

    The target is `epsilon` and `delta`; or `fpr` and `tpr`, the largest true-positive rate of a membership test
    at that false-positive rate; or `advantage`, the largest difference of the two.

    The search is by bracketing in log sigma and assumes that more noise means more privacy. That holds for
    "upper" and "lower"; a printed formula may break it, and then the answer is an error. Of compositions it
    first asks a rough answer, on coarser losses; the target is met on the fine ones.

    Args:
        mechanism: sigma -> mechanism or composition, e.g.
            `lambda sigma: RandomParticipation(sigma, p=0.1, q=0.01, samples_per_client=100)`.
        epsilon: >= 0.
        delta: in (0, 1).
        fpr: in (0, 1).
        tpr: in (fpr, 1).
        advantage: in (0, 1).
        method: "upper", "lower" or "paper". With "upper" no attacker exceeds the target.
        bounds: range to search, positive.
        rtol: relative width of the final bracket.
        guess: where the search starts, > 0. A good one saves evaluations; the answer does not depend on it
            but within `rtol`.
        progress: called with each sigma before it is tried; many rounds of a costly mechanism take seconds each.

    Returns:
        the upper end of the final bracket: the target is met there.

    Raises:
        ValueError: an argument out of range; not exactly one whole target; the target is missed at the largest
            sigma; or it is met already at the smallest one, so that no sigma is the smallest.
    """
    targets = {"epsilon": epsilon, "delta": delta, "fpr": fpr, "tpr": tpr, "advantage": advantage}
    given = {name: value for name, value in targets.items() if value is not None}
    target, reached = _target(given, method)
    choice("method", method, METHODS)
    ends = positive("bounds", bounds)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise ValueError(f"bounds must be two increasing positive numbers, got {bounds!r}")
    low, high = map(float, ends)
    rtol = float(positive("rtol", rtol))

    if np.ndim(guess):
        raise ValueError(f"guess must be one number, got {guess!r}")
    # Walk outwards: from one, because small sigmas are costly to evaluate and rarely needed.
    start = 0.0 if guess is None else float(np.log(positive("guess", guess)))
    start = float(np.clip(start, np.log(low), np.log(high)))
    up, down = (1.0, 0.3) if guess is None else (0.1, 0.1)
    ends = np.log(low), np.log(high)

    def at(log_sigma: float) -> Mechanism | Composed:
        sigma = float(np.exp(log_sigma))
        if progress is not None:
            progress(sigma)
        return mechanism(sigma)

    def log_excess(made: Mechanism | Composed) -> float:
        return np.log(max(reached(made), 1e-300)) - np.log(target)

    @cache  # the search asks for its ends several times
    def excess(log_sigma: float) -> float:
        return log_excess(at(log_sigma))

    @cache
    def rough(log_sigma: float) -> float:
        return log_excess(at(log_sigma).rough())

    growth = 1.0
    if isinstance(mechanism(float(np.exp(start))), Composed):
        left, right = _bracket(rough, start, up, down, ends)
        if rough(left) > 0 >= rough(right):
            # Coarse losses tell nearly where the answer lies and how steep the excess is there. One fine
            # value then predicts the answer so well that little more than its two sides is left to try.
            near = float(_root(rough, left, right, _NEAR).x)
            slope = (rough(near + _NEAR) - rough(near)) / _NEAR
            predicted = near - excess(near) / slope if slope < 0 else near
            up = down = max(0.8 * rtol, 1e-2 * abs(predicted - near))
            start, growth = float(np.clip(predicted + up / 2, *ends)), 8.0
    left, right = _bracket(excess, start, up, down, ends, growth)
    named = ", ".join(f"{name}={value}" for name, value in given.items())
    if excess(right) > 0:
        raise ValueError(
            f"bounds must reach a sigma that meets the target, got {bounds!r}: sigma={high:g} is too small for "
            f"{named}"
        )
    if excess(left) <= 0:
        raise ValueError(
            f"bounds must start below the smallest sigma, but method={method!r} meets {named} already at "
            f"sigma={low:g}: next to no noise is needed"
        )
    found = _root(excess, left, right, rtol)
    return float(np.exp(found.x if found.f_x <= 0 else found.bracket[1]))


def _bracket(
    excess: Callable[[float], float],
    start: float,
    up: float,
    down: float,
    ends: tuple[float, float],
    growth: float = 1.0,
) -> tuple[float, float]:
    """Two places around the zero of a decreasing function, or the same end twice where it has none.

    Args:
        start: where the walk begins, within `ends`.
        up, down: first steps to either side; each further one is `growth` times as long.
    """
    left = right = start
    while excess(right) > 0 and right < ends[1]:
        left, right, up = right, min(right + up, ends[1]), up * growth
    if excess(right) > 0:
        return right, right
    while excess(left) <= 0 and left > ends[0]:
        left, right, down = max(left - down, ends[0]), left, down * growth
    return left, right


def _root(excess: Callable[[float], float], left: float, right: float, width: float):
    """Where the function vanishes, in a bracket of this width."""
    tolerances = {"xatol": width, "xrtol": 0.0}
    return elementwise.find_root(np.vectorize(excess), (left, right), tolerances=tolerances)


def _target(
    given: dict[str, float], method: str
) -> tuple[float, Callable[[Mechanism | Composed], float]]:
    """What may at most be reached, > 0, and what a mechanism reaches."""
    if set(given) not in [set(names) for names in _TARGETS]:
        allowed = " or ".join(" and ".join(names) for names in _TARGETS)
        raise ValueError(f"targets must be {allowed}, got {', '.join(given) or 'none'}")
    check = {name: nonnegative if name == "epsilon" else probability_open for name in given}
    value = {name: float(check[name](name, number)) for name, number in given.items()}
    if "delta" in value:
        return value["delta"], lambda made: made.delta(value["epsilon"], method=method)
    if "advantage" in value:
        return value["advantage"], lambda made: made.advantage(method=method)
    if value["tpr"] <= value["fpr"]:
        raise ValueError(f"tpr must be above fpr = {value['fpr']}, got {value['tpr']!r}")
    # Guessing reaches fpr; what lies above it falls to 0 with more noise.
    fpr = value["fpr"]
    return value["tpr"] - fpr, lambda made: made.tpr_at_fpr(fpr, method=method) - fpr
