"""The verdicts on figures 1 to 5: each function decides claims of one notebook from its curves.

The first argument of every function is the notebook's `Workbook`. The reasons are built from the
numbers at hand, so that they stay true where a reader has changed a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reproduce.notebook import Workbook
from reproduce.papers.random_participation.curves import Curves, departure, position, studied
from reproduce.papers.random_participation.words import power

__all__ = [
    "best_at_p1",
    "formula_in_corridor",
    "grows_with_q",
    "improves",
    "in_corridor",
    "meets_at_p1",
    "monotone_in_d",
    "near_cs",
    "near_wcs",
    "small_d_favourable",
]

_ROUNDING = 1e-6
"""Relative slack for rounding where two bounds are compared."""

_COINCIDE = "CS and WCS are within 5 % of each other wherever both are above 0"


# Figures 1 to 3 -----------------------------------------------------------------------------------


def in_corridor(book: Workbook, curves: Curves) -> None:
    """Decide "order": the bracket of the scheme lies between CS and WCS."""
    factor = departure(curves)
    inside = factor <= 1 + _ROUNDING
    book.statement(
        "order",
        inside,
        "the bracket stays between CS and WCS"
        if inside
        else f"the bracket leaves the corridor between CS and WCS by a factor of {factor:.3g}",
        "the lower bound falls below CS, the upper bound exceeds WCS, or the two cross",
    )


def formula_in_corridor(book: Workbook, curves: Curves) -> None:
    """Decide "formula-order": Theorem 4.1 as printed lies between CS and WCS."""
    factor = departure(curves, "paper")
    inside = factor <= 1 + _ROUNDING
    outside = (
        f"the formula leaves the corridor by a factor of up to {factor:.2g}"
        if np.isfinite(factor)
        else "the formula falls to 0, where CS does not"
    )
    book.statement(
        "formula-order",
        inside,
        "the formula stays between CS and WCS" if inside else outside,
        "the formula takes collinear gradients as the worst case; with many other records these hide "
        "the record, while absent or orthogonal records do not (counterexamples: derivations.ipynb)",
    )


def near_cs(
    book: Workbook, claim: str, curves: Curves, own: Curves, d: int, near: float, drawn: float
) -> None:
    """Decide that the scheme with d records is almost CS, by either way of counting them.

    Theorem 4.1 counts the records besides the differing one. Section 5.2 speaks of "the sole
    element of each client" at d = 1, and so counts that record too. The claim holds if it holds by
    one of the two.

    Args:
        book: the notebook's workbook.
        claim: the claim's id.
        curves: from `evaluate`, with "d = <d>", where d counts other records.
        own: from `evaluate`, with "d = <d - 1>": the same if d counts the differing record.
        d: number of records.
        near: largest share of the way from CS to WCS that counts as almost CS, in (0, 1).
        drawn: d q, the mean number of other records that a participating client draws.
    """
    if not book.applies(claim):
        return
    ways = {"the differing record counted": (own, d - 1), "other records alone": (curves, d)}
    found, told = [], []
    for name, (family, others) in ways.items():
        lower, upper = (position(family, f"d = {others}", end) for end in ("lower", "upper"))
        if np.all(np.isnan(upper)):
            book.statement(claim, True, _COINCIDE)
            return
        found.append(bool(np.nanmax(upper) <= near))
        told.append(f"{name}: {100 * np.nanmin(lower):.0f} % to {100 * np.nanmax(upper):.0f} %")
    book.statement(
        claim,
        any(found),
        f"of the way from CS (0 %) to WCS (100 %), {'; '.join(told)}",
        f"a participating client sends d q = {drawn:g} other records on average, which help to tell "
        "that it takes part",
    )


def near_wcs(
    book: Workbook,
    claim: str,
    curves: Curves,
    d: int,
    near: float,
    *,
    axis: tuple[str, NDArray[np.float64]],
    drawn: float,
) -> None:
    """Decide that the scheme with d other records is almost WCS.

    Args:
        book: the notebook's workbook.
        claim: the claim's id.
        curves: from `evaluate`; it needs the label of `d` only if the claim applies.
        d: number of other records.
        near: largest share of the way from WCS to CS that counts as almost WCS, in (0, 1).
        axis: name and grid of the horizontal axis.
        drawn: d q, the mean number of other records that a participating client draws.
    """
    if not book.applies(claim):
        return
    share = position(curves, f"d = {d}", "lower")
    if np.all(np.isnan(share)):
        book.statement(claim, True, _COINCIDE)
        return
    name, grid = axis
    book.statement(
        claim,
        bool(np.nanmin(share) >= 1 - near),
        f"at least {100 * np.nanmin(share):.1f} % of the way from CS to WCS",
        f"at {name} = {grid[np.nanargmin(share)]:.3g} the {drawn:g} other records that a "
        "participating client draws on average do not disclose that it takes part",
    )


def monotone_in_d(book: Workbook, curves: Curves) -> None:
    """Decide "monotone-in-d": each end of the bracket grows with the number of records."""
    labels = studied(curves)
    if len(labels) < 2:
        book.pending("monotone-in-d", f"it takes two or more values of d, there is {len(labels)}")
        return
    falls = [
        f"{end} bound from {first} to {second}"
        for first, second in pairwise(labels)
        for end in ("lower", "upper")
        if np.any(curves[second][end] < curves[first][end] * (1 - 1e-9))
    ]
    steps = 2 * (len(labels) - 1)
    book.statement(
        "monotone-in-d",
        not falls,
        f"{steps - len(falls)} of {steps} steps in d raise a bound everywhere",
        f"a larger d lowers a bound: {'; '.join(falls)}",
    )


# Figure 5 -----------------------------------------------------------------------------------------


def grows_with_q(book: Workbook, curves: Curves, meet: float) -> None:
    """Decide "grows-with-q" (all schemes) and "grows-but-cs" (all but CS) along the axis of q.

    The bracket counts with both its ends. `meet` is the relative difference that counts as none.
    """
    falling, constant = [], []
    for label, methods in curves.items():
        for method, values in methods.items():
            if method == "paper":
                continue
            steps = np.diff(values)
            if np.any(steps < -meet * values[1:]):
                falling.append(f"{label} ({method})")
            elif not np.any(steps > meet * values[1:]):
                constant.append(label)
    fall = f"these fall somewhere: {', '.join(falling)}" if falling else ""
    still = f"{', '.join(constant)} stays constant" if constant else ""
    ours = "; ".join(filter(None, [fall, still])) or "every curve grows"
    rest = "" if falling else "both ends of every bracket, WCS and OLS grow; "
    book.statement(
        "grows-with-q",
        not falling and not constant,
        ours if falling else f"{rest}{ours}" if constant else ours,
        "CS depends on p q alone, which is fixed; what grows is the loss of every other scheme"
        if not falling
        else "an end of a bracket, CS, WCS or OLS falls as q grows",
    )
    book.statement(
        "grows-but-cs",
        not falling and set(constant) <= {"CS"},
        fall or "both ends of every bracket, WCS and OLS grow",
        "an end of a bracket, WCS or OLS falls or stays constant",
    )


def best_at_p1(book: Workbook, curves: Curves, meet: float) -> None:
    """Decide "best-at-p1": no epsilon is smaller than that at p = 1, the first point of the axis."""
    smaller = [
        f"{label} ({end})"
        for label in studied(curves)
        for end in ("lower", "upper")
        if np.min(curves[label][end]) < curves[label][end][0] * (1 - meet)
    ]
    book.statement(
        "best-at-p1",
        not smaller,
        f"smallest epsilon {curves['WCS']['upper'][0]:.4f} at p = 1",
        f"an epsilon is smaller elsewhere: {', '.join(smaller)}",
    )


def meets_at_p1(book: Workbook, curves: Curves, meet: float) -> None:
    """Decide "meet-at-p1" and "formula-meets-at-p1": at p = 1 all schemes are OLS."""
    reference = curves["OLS"]["upper"][0]

    def apart(label: str, method: str) -> float:
        gap = abs(curves[label][method][0] - reference)
        return float(gap / reference) if reference > 0 else float(gap > 0)

    ends = [(label, end) for label in studied(curves) for end in ("lower", "upper")]
    exact = max(apart(*curve) for curve in [*ends, ("WCS", "upper"), ("CS", "upper")])
    printed = max(apart(label, "paper") for label in studied(curves))
    book.statement(
        "meet-at-p1",
        exact <= meet,
        f"largest relative difference {exact:.1e}",
        "curves differ at p = 1",
    )
    book.statement(
        "formula-meets-at-p1",
        printed <= meet,
        f"largest relative difference {printed:.2g}",
        "at p = 1 the formula compares d sampled collinear records with and without one more, which is "
        "more private than the same without other records",
    )


def small_d_favourable(book: Workbook, curves: Curves, q: NDArray[np.float64]) -> None:
    """Decide "small-d-favourable": the smaller d, the larger the q from which on WCS is reached."""
    reach = {}
    for label in studied(curves):
        apart = np.flatnonzero(curves[label]["upper"] < 0.99 * curves["WCS"]["upper"])
        # Without a point apart the curve is WCS from the first point on; without one after, never.
        first = apart[-1] + 1 if apart.size else 0
        reach[label] = float(q[first]) if first < q.size else np.inf
    values = list(reach.values())
    if len(values) < 2:
        book.pending("small-d-favourable", f"it takes two or more values of d, got {len(values)}")
        return
    book.statement(
        "small-d-favourable",
        all(a >= b for a, b in pairwise(values)) and values[0] > values[-1],
        "within 1 % of WCS from "
        + ", ".join(
            f"q = {value:.2g} ({label})" if np.isfinite(value) else f"no q on ({label})"
            for label, value in reach.items()
        ),
        "a smaller d reaches WCS at a smaller q, or all reach it at the same q",
    )


# Figure 4 -----------------------------------------------------------------------------------------


def improves(
    book: Workbook,
    scheme: Callable[[NDArray[np.float64]], Curves],
    readings: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> None:
    """Decide "improves": the scheme has at most half of the epsilon of random check-ins.

    The paper does not say how it applies the earlier bound, so that it has to hold in every reading.

    Args:
        book: the notebook's workbook.
        scheme: deltas, increasing -> curves of epsilon as `evaluate` returns them.
        readings: reading of the earlier bound -> delta (n,), increasing, and epsilon (n,), where it
            says anything; n may be 0.
    """
    worse, told = [], []
    for name, (delta, epsilon) in readings.items():
        if not delta.size:
            told.append(f"{name}: random check-ins say nothing at any δ drawn")
            continue
        curves = scheme(delta[:1])  # epsilon falls with delta: the largest of the region
        ours = max(float(np.max(curves[label]["upper"])) for label in studied(curves))
        least = float(epsilon.min())
        told.append(
            f"{name}: random check-ins say nothing below δ = {power(float(delta[0]))} and ε ≥ "
            f"{least:.2g} above, where the scheme has ε ≤ {ours:.2g} for every d"
        )
        if 2 * ours > least:
            worse.append(name)
    book.statement(
        "improves",
        not worse,
        "; ".join(told),
        "; ".join(
            [f"more than half of the smallest ε of random check-ins: {name}" for name in worse]
            + [
                "the readings are ours: the paper prints neither how it applies the earlier bound "
                "nor the region of its figure"
            ]
        ),
    )
