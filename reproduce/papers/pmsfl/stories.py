"""Three sentences below each picture, made from the numbers: claimed, found, why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from reproduce.papers.pmsfl.compare import Measures
from reproduce.papers.pmsfl.tables import CONTROL, FITTED, SETTINGS
from reproduce.papers.pmsfl.training_verdicts import Condition, range_of
from reproduce.papers.statistics import ENOUGH, interval

Story = tuple[str, str, str]

_TABLE = ("real", "learns", "converged", "baseline")
"""Conditions of the accuracies; the last one where SplitFed-DP is concerned."""

_LACKING = {
    "real": "the data stand in for the paper's",
    "cifar": "the paper's figure is about CIFAR-100",
    "learns": "the network has learned too little",
    "converged": "the curves are not flat",
    "baseline": "the noise of SplitFed-DP is not the paper's",
}


def table1(
    finals: Mapping[str, Mapping[str, NDArray]],
    paper: Mapping[tuple[str, str], float],
    conditions: Mapping[str, Condition],
) -> Story:
    """Table 1: one setting in words, and what keeps it from deciding.

    It is the first one in which our network has learned on the paper's own data, else the first.
    """
    learned = [k for k in finals if conditions[f"learns-{k}"][0]]
    key = next((k for k in learned if "har" not in k), [*learned, *finals][0])
    ends, title = finals[key], SETTINGS[key].title
    gap = interval(ends["pmsfl"] - ends["splitfed"])
    claimed = (
        f"{title}: PM-SFL reaches {100 * paper[key, 'pmsfl']:.1f} %, SplitFed "
        f"{100 * paper[key, 'splitfed']:.1f} %, SplitFed-DP {100 * paper[key, 'splitfed_dp']:.1f} %."
    )
    found = (
        f"Here PM-SFL reaches {interval(ends['pmsfl']).text()} % and SplitFed "
        f"{interval(ends['splitfed']).text()} %; PM-SFL minus SplitFed is {gap.text()} points"
    )
    if CONTROL in ends:
        alone = interval(ends["pmsfl"] - ends[CONTROL]).text()
        found += f", and PM-SFL minus clients that train alone is {alone} points"
    if "splitfed_dp" in ends:
        reached = f"{100 * ends['splitfed_dp'].mean():.1f} %"
        found += f"; SplitFed-DP with the noise as printed reaches {reached}"
    if FITTED in ends:
        drop = 100 * (paper[key, "splitfed"] - paper[key, "splitfed_dp"])
        lost = interval(ends["splitfed"] - ends[FITTED]).text()
        found += f", and with less noise it loses {lost} points (the paper's loses {drop:.1f})"
    noisy = "splitfed_dp" in ends
    why = _unmet(conditions, f"-{key}", _TABLE if noisy else _TABLE[:-1], len(ends["pmsfl"]))
    return claimed, f"{found}.", why if noisy else f"{why} SplitFed-DP was not run on these data."


def figure4(
    finals: Mapping[str, NDArray],
    uploads: Mapping[str, float],
    totals: Mapping[str, float],
    conditions: Mapping[str, Condition],
) -> Story:
    """Figure 4: accuracy, uploads and all bytes."""
    gap = interval(finals["pmsfl"] - finals["splitfed"])
    saved = 1 - uploads["PM-SFL"] / uploads["SplitFed-PM"]
    whole = 1 - totals["PM-SFL"] / totals["SplitFed"]
    claimed = (
        "PM-SFL is as accurate as SplitFed, noise costs 12 points and speed, and binary masks cut the "
        "communication overhead significantly."
    )
    found = (
        f"On {conditions['cifar'][1]}, PM-SFL minus SplitFed is {gap.text()} points; binary masks save "
        f"{100 * saved:.0f} % of what a client uploads of the paper's network and {100 * whole:.1f} % of all bytes "
        "of its round."
    )
    why = (
        "The activations of a round are a hundred times larger than the weights, and no mask shrinks "
        "them. " + _unmet(conditions, "", ("cifar", *_TABLE), len(finals["pmsfl"]))
    )
    return claimed, found, why


def figure6(
    finals: Mapping[str, NDArray],
    agreements: Sequence[int],
    ratios: Sequence[float],
    best: int,
    conditions: Mapping[str, Condition],
) -> Story:
    """Figure 6: where the means lie."""
    a = range_of(finals, [f"agreement {x:g}" for x in agreements])
    r = range_of(finals, [f"ratio {x:g}" for x in ratios])
    top = max(agreements, key=lambda x: finals[f"agreement {x:g}"].mean())
    share = max(ratios, key=lambda x: finals[f"ratio {x:g}"].mean())
    claimed = (
        "10 % of the rounds for the initial agreement and one half of the masks personal are best."
    )
    found = (
        f"The means lie between {100 * a[0]:.1f} and {100 * a[1]:.1f} % over the agreement rounds (highest at {top}; "
        f"10 % of the rounds are {best}) and between {100 * r[0]:.1f} and {100 * r[1]:.1f} % over the ratios (highest "
        f"at {share:g})."
    )
    seeds = len(finals[f"agreement {top:g}"])
    return claimed, found, _unmet(conditions, "", _TABLE[:3], seeds)


def figure2(
    attacks: Mapping[str, Measures], density: Condition, budgets: Sequence[float], copies: int
) -> Story:
    """Figure 2: from one copy and from many; `density` of `attack_verdicts.dense`."""
    low, high = min(budgets), max(budgets)
    claimed = (
        "Without noise the images are reconstructed completely, and only a budget of 0.1 hides "
        "them."
    )
    found = (
        f"Without noise {_told(attacks['splitfed'])}; one copy at ε = {high:g} {_told(attacks[f'dp {high:g}'])}, at "
        f"{low:g} {_told(attacks[f'dp {low:g}'])}."
    )
    late = attacks[f"dp {low:g}, median of many rounds"]
    why = (
        f"The budget is that of one activation and one copy: a record is sent {copies} times in training, and the "
        f"median of its copies at ε = {low:g} gives {_told(late)}. How much noise hides an image depends on the "
        f"network: {density[1]}."
    )
    return claimed, found, why


def figure5(attacks: Mapping[str, Measures], entropy: NDArray, budget: float, copies: int) -> Story:
    """Figure 5: the attack of the paper, and one who knows of masks."""
    claimed = (
        "PM-SFL mitigates the reconstruction significantly and protects like noise of budget 0.1."
    )
    found = (
        f"The same attack gives {_told(attacks['splitfed'])} for SplitFed, {_told(attacks[f'dp {budget:g}'])} for "
        f"noise of budget {budget:g}, {_told(attacks['pmsfl, first round, mean mask'])} for PM-SFL in its first round "
        f"and {_told(attacks['pmsfl, trained, mean mask'])} after training; who infers the mask gets "
        f"{_told(attacks['pmsfl, trained, mask inferred'])}, from {copies} copies "
        f"{_told(attacks['pmsfl, trained, several copies, each mask inferred'])}."
    )
    why = (
        f"The masks keep {entropy[:, -1].mean():.2f} of {entropy[:, 0].mean():.2f} bits per weight: averages of bits "
        "drift to 0 and 1, the server broadcasts them, and a batch tells the rest."
    )
    return claimed, found, why


def _told(attack: Measures) -> str:
    return f"{np.mean(attack['psnr']):.1f} dB (likeness {max(0.0, float(np.mean(attack['margin']))):.2f})"


def _unmet(
    conditions: Mapping[str, Condition], suffix: str, kinds: Sequence[str], seeds: int
) -> str:
    """What keeps the runs from deciding an order, or that nothing does."""
    lacking = []
    if not conditions[f"real{suffix}"][0]:
        kinds = [kind for kind in kinds if kind != "cifar"]  # said already
    for kind in kinds:
        holds, evidence = conditions[f"{kind}{suffix}"]
        if not holds:
            lacking.append(f"{_LACKING[kind]} ({evidence})")
    if seeds < ENOUGH:
        lacking.append(f"{seeds} seeds are fewer than the {ENOUGH} that an order takes")
    if not lacking:
        return "The runs meet every condition; an order stays open only where its interval contains both answers."
    return f"These runs leave orders open: {'; '.join(lacking)}."
