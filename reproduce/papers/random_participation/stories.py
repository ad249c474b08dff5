"""Captions' facts and the three sentences below figures 1 to 5: claimed, found, why."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reproduce.papers.random_participation.curves import Curves, departure, position, studied
from reproduce.papers.random_participation.words import listed, power, times

__all__ = ["below_cs", "checkins_story", "corridor_story", "division_story", "formula_below"]

Story = tuple[str, str, str]

_SLACK = 1e-6
"""Relative slack for rounding where two curves are compared."""

_RARE = 0.05
"""Share of a curve's points below which it can hardly be seen in a picture where it falls below another."""


def below_cs(curves: Curves) -> str:
    """For which d the printed theorem promises less than CS has, in words for a caption."""
    low = curves["CS"]["upper"]
    shares = {
        label.removeprefix("d = "): float(np.mean(curves[label]["paper"] < low * (1 - _SLACK)))
        for label in studied(curves)
    }
    under = [d for d, share in shares.items() if share]
    if not under:
        return "it stays above central sampling (CS)"
    rare = [f"d = {d} at {100 * shares[d]:.0f} % of the points" for d in under if shares[d] < _RARE]
    seldom = f" ({listed(rare)} only)" if rare else ""
    return (
        f"for d = {listed(under)} it falls below central sampling (CS){seldom}, which is impossible"
    )


def formula_below(curves: Curves, q: NDArray[np.float64]) -> str:
    """Where along q the printed theorem lies below the certified lower bound, in words."""
    parts = []
    for label in studied(curves):
        low, printed = curves[label]["lower"], curves[label]["paper"]
        under = np.flatnonzero(printed < low * (1 - 1e-3))
        if under.size:
            d = int(label.removeprefix("d = "))
            ranges = [
                " to ".join(dict.fromkeys(power(d * float(q[k])) for k in (part[0], part[-1])))
                for part in np.split(under, np.flatnonzero(np.diff(under) > 1) + 1)
            ]
            parts.append(f"{label}: at d q = {listed(ranges)}")
    if not parts:
        return "it stays above the certified lower bound"
    return f"it falls below the certified lower bound ({'; '.join(parts)})"


def corridor_story(curves: Curves, quantity: str) -> Story:
    """The story of figures 1 to 3.

    Args:
        curves: from `evaluate`.
        quantity: what is compared, "δ" or "ε".
    """
    labels = studied(curves)
    truth, printed = departure(curves), departure(curves, "paper")
    if truth <= 1 + _SLACK:
        found = f"The truth keeps this order for every d, at every point drawn, in {quantity}"
    else:
        found = f"Our bracket leaves the corridor between CS and WCS by up to {times(truth)}"
    places = [
        (label, float(np.nanmin(share)), float(np.nanmax(top)))
        for label in labels
        for share, top in [(position(curves, label, "lower"), position(curves, label, "upper"))]
        if not np.isnan(share).all() and not np.isnan(top).all()
    ]
    if places:
        ways = [
            f"{label} lies {100 * low:.0f} % to {100 * high:.0f} %" for label, low, high in places
        ]
        found += f"; of the way from CS to WCS (logarithmic), {listed(ways)}"
        found += (
            ", where d counts the other records of the client; its only record (d = 0) lies on CS"
        )
    found += (
        f". Theorem 4.1 as printed leaves the corridor by up to {times(printed)}, so that the paper's "
        "own curves, which its text places between CS and WCS, are not those of this formula"
        if printed > 1 + _SLACK
        else ". Theorem 4.1 as printed keeps the order too"
    )
    return (
        "The scheme's guarantee lies between CS and WCS, on CS for d = 1, close to it for d = 10, and on "
        "WCS for d = 100.",
        found + ".",
        "A client that takes part sends d q other records on average; the more it sends, the easier it is to "
        "tell that it takes part, and the less its random participation hides. The printed theorem takes "
        "collinear gradients as the worst case, but many collinear records hide the differing one.",
    )


def checkins_story(
    readings: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]], zero: float
) -> Story:
    """The story of figure 4.

    Args:
        readings: reading of the earlier bound -> delta and epsilon where it says anything.
        zero: the largest delta at which a scheme has an epsilon above 0.
    """
    speaking = {name: pair for name, pair in readings.items() if pair[0].size}
    if speaking:
        first = min(float(delta[0]) for delta, _ in speaking.values())
        least = min(float(epsilon.min()) for _, epsilon in speaking.values())
        found = (
            f"Random check-ins certify nothing below δ = {power(first)} in any of our "
            f"{len(readings)} readings, and at least ε = {least:.2g} above; the scheme has ε = 0 from "
            f"δ = {power(zero)} on."
        )
    else:
        found = f"Random check-ins certify nothing at any δ drawn, in any of our {len(readings)} readings."
    return (
        "The scheme significantly improves upon the random check-ins of Balle et al. (2020), in a region where "
        "these give meaningful guarantees.",
        found,
        "The earlier theorem needs a pure local guarantee. Its version for Gaussian noise replaces the local ε "
        "by 8 ε and adds to δ. The paper prints neither its reading nor its region, so that the curve drawn is "
        "our reading and not the paper's.",
    )


def division_story(curves: Curves, q: NDArray[np.float64]) -> Story:
    """The story of figure 5."""
    wcs, cs = curves["WCS"]["upper"], curves["CS"]["upper"]
    largest = studied(curves)[-1]
    return (
        "At a fixed batch (p q fixed) the guarantees of all schemes degrade as q grows; at p = 1 all are equal "
        "and best; for larger q a smaller d is favourable.",
        f"From q = {power(float(q[0]))} to {power(float(q[-1]))} the ε of WCS grows {times(float(wcs[-1] / wcs[0]))} "
        f"and that of {largest} {times(float(curves[largest]['upper'][-1] / curves[largest]['upper'][0]))}; that "
        f"of CS stays at {power(float(cs[0]), 3)}, which the sentence on all schemes overlooks. Theorem 4.1 as "
        f"printed is no help here: {formula_below(curves, q)}.",
        "CS depends on p q alone. A larger q means fewer clients that send more records each, so that "
        "participation is easier to see; d q decides from where on nothing is left to hide.",
    )
