"""The smallest noise that meets a privacy target."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import elementwise

from repro._validate import choice, nonnegative, positive, probability_open
from repro.accounting.mechanism import METHODS

__all__ = ["calibrate_sigma"]


def calibrate_sigma(
    mechanism: Callable[[float], object],
    *,
    epsilon: float,
    delta: float,
    method: str = "upper",
    bounds: tuple[float, float] = (1e-2, 1e4),
    rtol: float = 1e-7,
    guess: float | None = None,
) -> float:
    """Smallest sigma in `bounds` at which `mechanism(sigma)` is (epsilon, delta)-private.

    The search is by bisection in log sigma and assumes that more noise means more privacy. That
    holds for "upper" and "lower"; a printed formula may break it, and then the answer is an error.

    Args:
        mechanism: sigma -> mechanism or composition, e.g.
            `lambda sigma: RandomParticipation(sigma, p=0.1, q=0.01, samples_per_client=100)`.
        epsilon: target, >= 0.
        delta: target, in (0, 1).
        method: "upper", "lower" or "paper".
        bounds: range to search, positive.
        rtol: relative width of the final bracket.
        guess: where the search starts, > 0. A good one saves evaluations; the answer does not depend on it
            but within `rtol`.

    Returns:
        the upper end of the final bracket: the target is met there.

    Raises:
        ValueError: an argument out of range; the target is missed at the largest sigma; or it is met
            already at the smallest one, so that no sigma is the smallest.
    """
    epsilon = float(nonnegative("epsilon", epsilon))
    delta = float(probability_open("delta", delta))
    choice("method", method, METHODS)
    ends = positive("bounds", bounds)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise ValueError(f"bounds must be two increasing positive numbers, got {bounds!r}")
    low, high = map(float, ends)
    rtol = float(positive("rtol", rtol))

    @cache  # the search asks for its ends several times
    def excess(log_sigma: float) -> float:
        value = mechanism(float(np.exp(log_sigma))).delta(epsilon, method=method)
        return np.log(max(value, 1e-300)) - np.log(delta)

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
            raise ValueError(
                f"bounds must start below the smallest sigma, but method={method!r} meets "
                f"epsilon={epsilon}, delta={delta} already at sigma={low}"
            )
        left, right = max(left - down, np.log(low)), left
    found = elementwise.find_root(
        np.vectorize(excess), (left, right), tolerances={"xatol": rtol, "xrtol": 0.0}
    )
    return float(np.exp(found.x if found.f_x <= 0 else found.bracket[1]))
