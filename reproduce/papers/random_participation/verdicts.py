"""The verdicts on figures 1 to 5: each function decides claims of one notebook from its curves.

The first argument of every function is the notebook's `Workbook`. The reasons are built from the
numbers at hand, so that they stay true where a reader has changed a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reproduce.notebook import Workbook
from reproduce.papers.random_participation.curves import Curves, departure, position, studied

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


def near_cs(book: Workbook, claim: str, curves: Curves, d: int, near: float, drawn: float) -> None:
    """Decide that the scheme with d other records is almost CS.

    Args:
        book: the notebook's workbook.
        claim: the claim's id.
        curves: from `evaluate`; it needs the label of `d` only if the claim applies.
        d: number of other records.
        near: largest share of the way from CS to WCS that counts as almost CS, in (0, 1).
        drawn: d q, the mean number of other records that a participating client draws.
    """
    if not book.applies(claim):
        return
    lower, upper = (position(curves, f"d = {d}", end) for end in ("lower", "upper"))
    if np.all(np.isnan(upper)):
        book.statement(claim, True, _COINCIDE)
        return
    sole = (
        "one other record helps to tell participation apart: both together lie two clips from "
        "silence. Read with d counting the differing record itself, d = 1 has no other record and "
        "the scheme is exactly CS"
    )
    book.statement(
        claim,
        bool(np.nanmax(upper) <= near),
        f"between {np.nanmin(lower):.0%} and {np.nanmax(upper):.0%} of the way from CS to WCS",
        sole
        if d == 1
        else f"a participating client sends d q = {drawn:g} other records on average, which help to "
        "tell that it takes part",
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
        f"at least {np.nanmin(share):.1%} of the way from CS to WCS",
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
    """Decide "grows-with-q": every end of a bracket, WCS and OLS grow along the axis of q.

    CS depends on p q alone and is left out. `meet` is the relative difference that counts as none.
    """
    falling = [
        f"{label} ({method})"
        for label, methods in curves.items()
        for method, values in methods.items()
        if method != "paper" and label != "CS" and np.any(np.diff(values) < -meet * values[1:])
    ]
    book.statement(
        "grows-with-q",
        not falling,
        f"these fall somewhere: {', '.join(falling)}"
        if falling
        else "both ends of every bracket, WCS and OLS grow",
        "an end of a bracket, WCS or OLS falls as q grows",
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
        reach[label] = float(q[first]) if first < q.size else 1.0
    values = list(reach.values())
    if len(values) < 2:
        book.pending("small-d-favourable", f"it takes two or more values of d, got {len(values)}")
        return
    book.statement(
        "small-d-favourable",
        all(a >= b for a, b in pairwise(values)) and values[0] > values[-1],
        "within 1 % of WCS from " + ", ".join(f"q = {v:.2g} ({k})" for k, v in reach.items()),
        "a smaller d reaches WCS at a smaller q, or all reach it at the same q",
    )


# Figure 4 -----------------------------------------------------------------------------------------


def improves(
    book: Workbook,
    curves: Curves,
    samples: Sequence[int],
    delta: NDArray[np.float64],
    checkins: NDArray[np.float64],
) -> None:
    """Decide "improves": the scheme has at most half of the epsilon of random check-ins.

    Args:
        book: the notebook's workbook.
        curves: from `evaluate`.
        samples: the values of d.
        delta: the grid, increasing, shape (n,).
        checkins: epsilon of random check-ins there, shape (n,); inf where they certify nothing.
    """
    finite = np.isfinite(checkins)
    if not np.any(finite):
        book.statement(
            "improves", True, "random check-ins certify no epsilon at any of these delta"
        )
        return
    ours = max(float(np.max(curves[f"d = {d}"]["upper"][finite])) for d in samples)
    theirs = float(np.min(checkins[finite]))
    book.statement(
        "improves",
        2 * ours <= theirs,
        f"random check-ins: no statement below delta = {delta[finite][0]:.2g}, epsilon at least "
        f"{theirs:.2f} above; the scheme there: epsilon at most {ours:.2g} for every d",
        "the scheme's largest epsilon is more than half of the smallest one of random check-ins",
    )
