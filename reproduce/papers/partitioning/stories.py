"""The three sentences below Figures 1 to 8: what is claimed, what we found, and why.

All numbers come from the curves at hand, so that the sentences stay true for other parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from reproduce.papers.partitioning import claims
from reproduce.papers.partitioning.claims import Curves
from reproduce.papers.partitioning.pictures import power

Story = tuple[str, str, str]


def _range(values: NDArray, digits: int = 0) -> str:
    """`31 to 39 %`, of shares."""
    low, high = 100 * float(np.min(values)), 100 * float(np.max(values))
    ends = [f"{value:.{digits}f}" for value in (low, high)]
    return f"{ends[0]} %" if ends[0] == ends[1] else f"{' to '.join(ends)} %"


def _falls(panels: Sequence[Curves], method: str) -> str:
    """By how much the curves of the fewest and the most submodels fall, over all panels."""
    found: dict[str, list[NDArray]] = {}
    for curves in panels:
        for label, fall in claims.falls(curves, method).items():
            found.setdefault(label, []).append(fall)
    ends = list(dict.fromkeys([*list(found)[:1], *list(found)[-1:]]))
    return ", ".join(f"{_range(np.concatenate(found[label]))} ({label})" for label in ends)


def _slack(panels: Sequence[Curves]) -> str:
    """How far the paper's accounting lies above the truth, over all curves."""
    shares = [
        np.asarray(methods["paper"]) / np.asarray(methods["upper"]) - 1
        for curves in panels
        for methods in curves.values()
    ]
    return _range(np.concatenate(shares))


def less_epsilon(panels: Sequence[Curves]) -> Story:
    """Figures 1 and 5."""
    if not any(claims.falls(curves, "paper") for curves in panels):
        return ("Splitting lowers ε.", "Nothing is split here.", "No number of submodels is given.")
    return (
        "Splitting the model lowers ε significantly against an analysis that ignores the splitting.",
        f"As the paper accounts, ε falls by {_falls(panels, 'paper')}; in truth by at least "
        f"{_falls(panels, 'upper')}.",
        "Which submodel a record trains is secret, so that its contribution hides among d places. "
        f"The gain is the mechanism's: Rényi accounting lies {_slack(panels)} above the truth with "
        "and without splitting.",
    )


def less_noise(rounds: Sequence[int], panels: Sequence[Curves]) -> Story:
    """Figure 6."""
    gains = [claims.more_rounds(rounds, curves) for curves in panels]
    if not any(gains):
        return (
            "Splitting saves noise.",
            "Nothing is split here.",
            "No number of submodels is given.",
        )
    last = list(gains[0])[-1]
    times = ", ".join(gain[last] for gain in gains)
    return (
        "With the amplification a run takes less noise, or lasts for more iterations.",
        f"At equal rounds the noise falls by {_falls(panels, 'paper')} as the paper accounts, by at "
        f"least {_falls(panels, 'upper')} in truth. At the noise of the shortest run without "
        f"splitting, {last} lasts {times} times as long in the {len(gains)} settings.",
        "A contribution that hides among d places costs about 1/d of a visible one, so that about d "
        "times as many rounds fit. "
        f"The paper's noise lies {_slack(panels)} above what is needed.",
    )


def same_noise(noise: Mapping[str, float], alpha: NDArray, curves: Curves) -> Story:
    """Figure 2."""
    ratio = claims.beside_poisson(curves)
    apart = noise["balanced"] / noise["Poisson"] - 1
    return (
        "For a large T the noise for the same guarantee is almost identical.",
        f"For (8, 10⁻⁵) balanced subsampling needs σ = {noise['balanced']:.3f} and Poisson subsampling "
        f"{noise['Poisson']:.3f}, {100 * abs(apart):.2f} % apart. The curves themselves are not identical: "
        f"bound (3) is {ratio['paper'].min():.2f} to {ratio['paper'].max():.2f} of Poisson's, the "
        f"divergence itself {ratio['lower'].min():.2f} to {ratio['upper'].max():.2f}.",
        "Small orders decide the noise at such a guarantee, and there the curves are close "
        f"({ratio['paper'][0]:.2f} at α = {alpha[0]}); "
        f"at α = {alpha[-1]} the slack of bound (3) is a factor of "
        f"{ratio['paper'][-1] / ratio['upper'][-1]:.2f}.",
    )


def much_better(alpha: NDArray, curves: Curves) -> Story:
    """Figure 3."""
    ratio = claims.beside_poisson(curves)
    balanced, poisson = (curves["balanced"]["paper"], curves["Poisson"]["upper"])
    return (
        "For large α balanced subsampling is much better, because Poisson subsampling sometimes draws "
        "a record far more often than expected.",
        f"At α = {alpha[-1]} bound (3) is {balanced[-1]:.1f} and Poisson's divergence "
        f"{poisson[-1]:.1f}; the ratio falls from {ratio['paper'][0]:.2f} to {ratio['paper'][-1]:.2f}, "
        f"in truth to at most {ratio['upper'][-1]:.2f}.",
        "The sharp rise is there. That a small T causes it, as section 3.3 says, is refuted in the "
        "derivations (poisson-spike): the curve of T iterations is T times that of one, so its bend "
        "lies at the same order for every T. It depends on σ and on the rate.",
    )


def run_lengths(iterations: Sequence[int], curves: Curves, delta: float) -> Story:
    """Figure 4."""
    balanced, epochs, poisson = claims.crossings(iterations, curves, delta).values()
    return (
        "Either balanced method runs for 10 more iterations out of 60.",
        f"By Rényi accounting δ = {power(delta)} is reached after {poisson['paper']:.1f} iterations of "
        f"Poisson subsampling, {balanced['paper']:.1f} of balanced subsampling and "
        f"{epochs['paper']:.1f} in epochs. Poisson subsampling by loss distributions, which the paper "
        f"draws as well, reaches {poisson['upper']:.1f}.",
        f"Most of the distance is accounting: with loss distributions for all three, the runs last "
        f"{poisson['upper']:.1f}, {balanced['upper']:.1f} and {epochs['upper']:.1f} iterations, "
        f"so that {balanced['upper'] - poisson['upper']:.1f} iterations belong to the mechanism.",
    )


def longest(iterations: Sequence[int], curves: Curves, delta: float) -> str:
    """What Figure 4's left panel says about accounting, as a sentence for its caption."""
    balanced, _, poisson = claims.crossings(iterations, curves, delta).values()
    return (
        f"δ = {power(delta)} is reached after {poisson['upper']:.0f} iterations of Poisson subsampling by "
        f"PLD, {balanced['paper']:.0f} of balanced subsampling by RDP."
    )


def two_settings(panels: Mapping[str, tuple[NDArray, Curves]]) -> Story:
    """Figure 7."""
    told = []
    for title, (_, curves) in panels.items():
        ratio = claims.beside_poisson(curves)
        told.append(
            f"{title}: bound (3) is {ratio['paper'].min():.2f} to {ratio['paper'].max():.2f} of "
            f"Poisson's curve, the divergence itself at most {ratio['upper'].max():.2f}"
        )
    return (
        "With (2) balanced subsampling is always better than Poisson; with (3) it is where k/T is at "
        "least about 0.2. The paper claims nothing for bound (3) below that, as at k/T = 0.1.",
        "; ".join(told) + ".",
        "Bound (3) replaces order α by order 2 with less noise, which costs most where a record "
        "seldom takes part.",
    )


def two_lengths(panels: Mapping[str, Curves]) -> Story:
    """Figure 8."""
    told = []
    for title, curves in panels.items():
        found = claims.saved(curves)
        paper, low = found["paper"][1], found["lower"][1]
        told.append(
            f"{title}: ε falls by {100 * paper.min():.1f} to {100 * paper.max():.1f} % as accounted, by at "
            f"least {100 * low.min():.1f} to {100 * low.max():.1f} % in truth"
        )
    return (
        "For a small T balanced subsampling reaches the same guarantee with less noise; for a large T "
        "the two curves are nearly identical.",
        "; ".join(told) + ".",
        "The fewer participations there are, the more their number varies under Poisson subsampling. "
        "In a long run bound (3) can lie above Poisson's curve although the mechanism lies below it.",
    )
