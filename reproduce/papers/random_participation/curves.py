"""The schemes of the random-participation figures, evaluated together on one grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from repro._validate import choice
from repro.accounting.mechanism import Mechanism
from repro.accounting.random_participation.mechanisms import (
    CentralizedShuffling,
    OnlyLocalSampling,
    RandomParticipation,
    WeakClientSampling,
)

__all__ = ["bracket_order", "evaluate", "position", "schemes", "sigma_width"]


def schemes(*, sigma, p, q, clip: float, samples: Sequence[int]) -> dict[str, Mechanism]:
    """CS, the scheme for each number of records ("d = 10", …), WCS and OLS, in this order.

    Args:
      sigma, p, q: scalars or arrays that broadcast against each other.
      clip: largest norm of one record's gradient.
      samples: numbers d of other records at the differing record's client.
    """
    found: dict[str, Mechanism] = {"CS": CentralizedShuffling(sigma, p=p, q=q, clip=clip)}
    for d in samples:
        found[f"d = {d}"] = RandomParticipation(sigma, p=p, q=q, samples_per_client=d, clip=clip)
    found["WCS"] = WeakClientSampling(sigma, p=p, q=q, clip=clip)
    found["OLS"] = OnlyLocalSampling(sigma, q=q, clip=clip)
    return found


def evaluate(
    mechanisms: Mapping[str, Mechanism], quantity: str, argument
) -> dict[str, dict[str, np.ndarray]]:
    """``delta(argument)`` or ``epsilon(argument)`` of every scheme.

    Returns:
      label -> {"upper", "lower", "paper"} -> array for the scheme under study, and
      label -> {"upper"} -> array for the exact baselines.
    """
    choice("quantity", quantity, ("delta", "epsilon"))
    curves = {}
    for label, mechanism in mechanisms.items():
        studied = isinstance(mechanism, RandomParticipation)
        methods = ("upper", "lower", "paper") if studied else ("upper",)
        curves[label] = {
            m: np.asarray(getattr(mechanism, quantity)(argument, method=m)) for m in methods
        }
    return curves


def bracket_order(
    curves: Mapping[str, Mapping[str, np.ndarray]], method: str | None = None
) -> float:
    """How far the scheme leaves the corridor between CS and WCS, as a factor (1.0: never).

    Args:
      curves: from :func:`evaluate`.
      method: None checks the bracket (lower against CS, upper against WCS), "paper" the formula.

    Returns:
      the largest of CS / scheme and scheme / WCS over all d and grid points, at least 1.
    """
    low, high = curves["CS"]["upper"], curves["WCS"]["upper"]
    worst = 1.0
    for label, values in curves.items():
        if label.startswith("d = "):
            bottom, top = values[method or "lower"], values[method or "upper"]
            with np.errstate(divide="ignore", invalid="ignore"):
                factors = np.fmax(low / bottom, top / high)
            worst = max(worst, float(np.nanmax(np.where((low == 0) & (top == 0), 1.0, factors))))
    return worst


def position(curves: Mapping[str, Mapping[str, np.ndarray]], label: str, method: str) -> np.ndarray:
    """Where a curve lies between CS (0) and WCS (1) on a logarithmic scale, at every grid point.

    Points at which CS, WCS or the curve itself is zero, or CS and WCS are within 5 %, are nan and left
    to the caller's nan-aware reduction.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high, own = (
            np.log(v)
            for v in (curves["CS"]["upper"], curves["WCS"]["upper"], curves[label][method])
        )
        share = np.where(high - low > 0.05, (own - low) / (high - low), np.nan)
    return np.where(np.isfinite(share), share, np.nan)


def sigma_width(
    sigma: np.ndarray, curves: Mapping[str, Mapping[str, np.ndarray]]
) -> dict[str, float]:
    """Widest bracket of each studied scheme, read as a factor in sigma at equal guarantee.

    For every sigma the level of the lower bound is looked up on the upper bound's curve (log-log
    interpolation); levels that the upper curve does not reach on the grid are left out.

    Args:
      sigma: increasing grid, shape (n,).
      curves: from :func:`evaluate` on that grid, falling in sigma.

    Returns:
      label -> largest sigma_upper / sigma_lower, at least 1.
    """
    widths = {}
    for label, values in curves.items():
        if not label.startswith("d = "):
            continue
        keep = (values["lower"] > 0) & (values["upper"] > 0)
        x, low, high = (np.log(v[keep]) for v in (sigma, values["lower"], values["upper"]))
        reached = (low >= high[-1]) & (low <= high[0])
        needed = np.interp(low[reached], high[::-1], x[::-1])
        widths[label] = float(np.exp(np.max(needed - x[reached], initial=0.0)))
    return widths
