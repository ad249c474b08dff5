"""The schemes of figures 1 to 5, evaluated together on one grid, and measures of their corridor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import choice
from repro.accounting import (
    CentralizedShuffling,
    OnlyLocalSampling,
    RandomParticipation,
    WeakClientSampling,
)
from repro.accounting.mechanism import Mechanism

__all__ = ["Curves", "departure", "evaluate", "position", "schemes", "sigma_width", "studied"]

Curves = Mapping[str, Mapping[str, NDArray[np.float64]]]
"""Label -> method -> values on the grid, as `evaluate` returns them."""

_CLOSED = 0.05
"""Where log WCS - log CS is smaller, a position between the two says nothing."""


def schemes(
    *, sigma: ArrayLike, p: ArrayLike, q: ArrayLike, clip: float, samples: Sequence[int]
) -> dict[str, Mechanism]:
    """CS, the scheme for each number of other records ("d = 10", …), WCS and OLS, in this order.

    Args:
        sigma: standard deviation of the noise on the sum, > 0; a scalar or an array.
        p: participation rate, in [0, 1]; a scalar or an array.
        q: sampling rate, in [0, 1]; sigma, p and q broadcast against each other.
        clip: largest norm of one record's gradient, > 0.
        samples: numbers d >= 0 of other records at the differing record's client.

    Raises:
        ValueError: an argument out of range.
    """
    mechanisms: dict[str, Mechanism] = {"CS": CentralizedShuffling(sigma, p=p, q=q, clip=clip)}
    for d in samples:
        mechanisms[f"d = {d}"] = RandomParticipation(
            sigma, p=p, q=q, samples_per_client=d, clip=clip
        )
    mechanisms["WCS"] = WeakClientSampling(sigma, p=p, q=q, clip=clip)
    mechanisms["OLS"] = OnlyLocalSampling(sigma, q=q, clip=clip)
    return mechanisms


def evaluate(
    mechanisms: Mapping[str, Mechanism], quantity: str, argument: ArrayLike
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """`delta(argument)` or `epsilon(argument)` of every scheme.

    Args:
        mechanisms: from `schemes`.
        quantity: "delta" or "epsilon".
        argument: epsilon >= 0 for "delta", delta in (0, 1) for "epsilon"; it broadcasts against the
            mechanisms' own fields to the shape of the grid.

    Returns:
        Label -> {"upper", "lower", "paper"} -> array for the scheme under study, and
        label -> {"upper"} -> array for the exact baselines.

    Raises:
        ValueError: an unknown quantity, or an argument out of range.
    """
    choice("quantity", quantity, ("delta", "epsilon"))
    curves = {}
    for label, mechanism in mechanisms.items():
        scheme = isinstance(mechanism, RandomParticipation)
        methods = ("upper", "lower", "paper") if scheme else ("upper",)
        curves[label] = {
            m: np.asarray(getattr(mechanism, quantity)(argument, method=m)) for m in methods
        }
    return curves


def studied(curves: Curves) -> list[str]:
    """The labels "d = …" in increasing order of d."""
    return sorted(
        (label for label in curves if label.startswith("d = ")),
        key=lambda label: int(label.removeprefix("d = ")),
    )


def departure(curves: Curves, method: str | None = None) -> float:
    """The largest factor by which the scheme leaves the corridor between CS and WCS; 1.0 if nowhere.

    Args:
        curves: from `evaluate`.
        method: None takes the bracket: its lower end must not fall below CS, its upper end not
            exceed WCS, and the lower end not exceed the upper one. "paper" takes the printed formula.

    Returns:
        The largest of these ratios over all d and grid points, at least 1.
    """
    low, high = curves["CS"]["upper"], curves["WCS"]["upper"]
    worst = 1.0
    for label in studied(curves):
        bottom, top = (curves[label][method or end] for end in ("lower", "upper"))
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = np.fmax(np.fmax(low / bottom, top / high), bottom / top)
        # 0 / 0 counts as agreement.
        worst = max(worst, float(np.nanmax(factors, initial=1.0)))
    return worst


def position(curves: Curves, label: str, method: str) -> NDArray[np.float64]:
    """Place of a curve between CS (0) and WCS (1) on a logarithmic scale, at every grid point.

    Args:
        curves: from `evaluate`.
        label: one of the curves.
        method: one of the methods that the curve has.

    Returns:
        Shape of the grid; nan where CS, WCS or the curve is zero, or where WCS exceeds CS by less
        than 5 %.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high, own = (
            np.log(values)
            for values in (curves["CS"]["upper"], curves["WCS"]["upper"], curves[label][method])
        )
        share = np.where(high - low > _CLOSED, (own - low) / (high - low), np.nan)
    return np.where(np.isfinite(share), share, np.nan)


def sigma_width(sigma: NDArray[np.float64], curves: Curves) -> dict[str, float]:
    """Widest bracket of each scheme, read as a factor in sigma at equal guarantee.

    For every sigma the level of the lower bound is looked up on the upper bound's curve (log-log
    interpolation). Levels that the upper curve does not reach on the grid are left out.

    Args:
        sigma: increasing grid, shape (n,).
        curves: from `evaluate` on that grid, falling in sigma.

    Returns:
        Label -> largest sigma_upper / sigma_lower, at least 1.
    """
    widths = {}
    for label in (name for name in curves if name.startswith("d = ")):
        values = curves[label]
        keep = (values["lower"] > 0) & (values["upper"] > 0)
        if not keep.any():
            widths[label] = 1.0
            continue
        x, low, high = (np.log(v[keep]) for v in (sigma, values["lower"], values["upper"]))
        reached = (low >= high[-1]) & (low <= high[0])
        needed = np.interp(low[reached], high[::-1], x[::-1])
        widths[label] = float(np.exp(np.max(needed - x[reached], initial=0.0)))
    return widths
