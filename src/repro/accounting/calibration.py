"""The smallest noise that meets a target: of privacy, or of what an attacker may reach."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import elementwise

from repro._validate import choice, nonnegative, positive, probability_open
from repro.accounting.mechanism import METHODS

__all__ = ["calibrate_sigma"]

_TARGETS = (("epsilon", "delta"), ("fpr", "tpr"), ("advantage",))


def calibrate_sigma(
    mechanism: Callable[[float], object],
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
) -> float:
    """Smallest sigma in `bounds` at which `mechanism(sigma)` meets one target.

    The target is `epsilon` and `delta`; or `fpr` and `tpr`, the largest true-positive rate of a membership test
    at that false-positive rate; or `advantage`, the largest difference of the two.

    The search is by bisection in log sigma and assumes that more noise means more privacy. That
    holds for "upper" and "lower"; a printed formula may break it, and then the answer is an error.

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

    Returns:
        the upper end of the final bracket: the target is met there.

    Raises:
        ValueError: an argument out of range; not exactly one whole target; the target is missed at the largest
            sigma; or it is met already at the smallest one, so that no sigma is the smallest.
    """
    given = {"epsilon": epsilon, "delta": delta, "fpr": fpr, "tpr": tpr, "advantage": advantage}
    target, reached = _target({k: v for k, v in given.items() if v is not None}, method)
    choice("method", method, METHODS)
    ends = positive("bounds", bounds)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise ValueError(f"bounds must be two increasing positive numbers, got {bounds!r}")
    low, high = map(float, ends)
    rtol = float(positive("rtol", rtol))

    @cache  # the search asks for its ends several times
    def excess(log_sigma: float) -> float:
        value = reached(mechanism(float(np.exp(log_sigma))))
        return np.log(max(value, 1e-300)) - np.log(target)

    # Walk outwards: from one, because small sigmas are costly to evaluate and rarely needed.
    if np.ndim(guess):
        raise ValueError(f"guess must be one number, got {guess!r}")
    start = 0.0 if guess is None else float(np.log(positive("guess", guess)))
    up, down = (1.0, 0.3) if guess is None else (0.1, 0.1)
    left = right = float(np.clip(start, np.log(low), np.log(high)))
    while excess(right) > 0:
        if right >= np.log(high):
            raise ValueError(f"bounds must reach a sigma that meets the target, got {bounds!r}")
        left, right = right, min(right + up, np.log(high))
    while left == right or excess(left) <= 0:
        if left <= np.log(low):
            named = ", ".join(
                f"{name}={value}" for name, value in given.items() if value is not None
            )
            raise ValueError(
                f"bounds must start below the smallest sigma, but method={method!r} meets "
                f"{named} already at sigma={low}"
            )
        left, right = max(left - down, np.log(low)), left
    found = elementwise.find_root(
        np.vectorize(excess), (left, right), tolerances={"xatol": rtol, "xrtol": 0.0}
    )
    return float(np.exp(found.x if found.f_x <= 0 else found.bracket[1]))


def _target(given: dict[str, float], method: str) -> tuple[float, Callable[[object], float]]:
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
