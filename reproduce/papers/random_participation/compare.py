"""Figures 6 and 7: what the noise of the training runs guarantees, caption, footer and story."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from repro.accounting import RandomParticipation
from reproduce.papers.random_participation.noise_picture import ranged
from reproduce.papers.random_participation.words import decimal, listed
from reproduce.papers.statistics import WIDER, interval

__all__ = [
    "CLAIMED",
    "caption",
    "fulfils",
    "guarantees",
    "noise_table",
    "promise",
    "reduction",
    "story",
    "summary",
]

CLAIMED = {
    "fig6": "Without privacy training is best, then come the scheme, WCS and OLS; the scheme is much better than the "
    "two others, and OLS is quite poor.",
    "fig7": "Accuracy is inversely proportional to the noise: without privacy, scheme, WCS, OLS, as in Figure 6 but "
    "closer to each other.",
}
"""What the paper says of each figure, in our words."""

Guarantees = Mapping[str, Mapping[str, float]]
"""Curve -> "sigma" and the ends "lower" and "upper" of delta, as `guarantees` returns them."""


def guarantees(
    parameters: Mapping[str, Any], curves: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, float]]:
    """What one iteration of Algorithm 1 gives at `epsilon` with the noise of each private curve.

    All of them are guarantees of the scheme itself (participation and sampling unknown to the
    adversary) in the federation of the guarantee. The analyses of WCS and OLS do not use that
    knowledge, which is why they ask for more noise.

    Args:
        parameters: those of the notebook: "epsilon", "clip" and "guarantee_p", "guarantee_q",
            "guarantee_records".
        curves: curve -> settings, "sigma" among them.

    Returns:
        For every curve with noise, sigma and the bracket of delta: "lower" is reached by an explicit
        pair of data sets, "upper" is a bound.
    """
    brackets = {}
    for name, curve in curves.items():
        if not curve["sigma"]:
            continue
        mechanism = RandomParticipation(
            curve["sigma"],
            p=parameters["guarantee_p"],
            q=parameters["guarantee_q"],
            samples_per_client=parameters["guarantee_records"],
            clip=parameters["clip"],
        )
        ends = {
            m: float(mechanism.delta(parameters["epsilon"], method=m)) for m in ("lower", "upper")
        }
        brackets[name] = {"sigma": float(curve["sigma"]), **ends}
    return brackets


def promise(bracket: Mapping[str, float]) -> str:
    """The delta of a bracket from `guarantees` in words: one number, or "1.6 to 2.1·10⁻⁵"."""
    return ranged(bracket["lower"], bracket["upper"], 2)


def fulfils(bracket: Mapping[str, float], delta: float) -> str:
    """Whether a bracket from `guarantees` keeps, misses or leaves open a target delta."""
    if bracket["upper"] <= delta:
        return "keeps δ"
    return "misses δ" if bracket["lower"] > delta else "δ undecided"


def noise_table(
    parameters: Mapping[str, Any], curves: Mapping[str, Mapping[str, Any]], guarantee: Guarantees
) -> pd.DataFrame:
    """Sigma, delta at the target epsilon and learning rate of every curve with noise."""
    at = f"delta at epsilon = {parameters['epsilon']:g}"
    return pd.DataFrame(
        {
            "sigma": {name: f"{row['sigma']:g}" for name, row in guarantee.items()},
            at: {name: promise(row) for name, row in guarantee.items()},
            "learning rate": {name: f"{curves[name]['learning_rate']:g}" for name in guarantee},
        }
    )


# The picture --------------------------------------------------------------------------------------


def caption(
    parameters: Mapping[str, Any],
    curves: Mapping[str, Mapping[str, Any]],
    guarantee: Guarantees,
    margin: float,
    commits: Sequence[str] = (),
) -> str:
    """The caption: what is drawn, which noise each curve has and what it gives.

    Args:
        parameters: those of the notebook.
        curves: curve -> its settings.
        guarantee: from `guarantees`.
        margin: the largest difference that counts as none, as a fraction.
        commits: of the runs, where they are not made here.
    """
    slow = (
        f" clipped, slow: clipped at the learning rate of WCS and OLS, "
        f"{curves['clipped_slow']['learning_rate']:g}."
        if "clipped_slow" in curves
        else ""
    )
    kept = fulfils(guarantee["scheme_paper"], parameters["delta"])
    return (
        "DP-DSGD with random participation. scheme: the paper's noise, "
        f"σ = {parameters['sigma_paper']:g}, which gives δ = {promise(guarantee['scheme_paper'])} in place of "
        f"{decimal(parameters['delta'])} at ε = {parameters['epsilon']:g} ({kept}); scheme*: the noise that the "
        f"repaired theorem asks for, σ = {curves['scheme']['sigma']:g}; WCS: σ = {curves['wcs']['sigma']:g}; OLS: "
        f"σ = {curves['ols']['sigma']:g}; clipped: no noise.{slow} Right: paired differences of the mean over the "
        f"last quarter, with 95 % intervals; grey: at most {100 * margin:g} points, which count as none; an arrow "
        f"points off the scale. {WIDER} The paper prints no accuracies."
        + (f" Runs of commit {', '.join(commits)}." if commits else "")
    )


def story(
    parameters: Mapping[str, Any],
    gaps: Mapping[str, Mapping[str, tuple[ArrayLike, ArrayLike]]],
    iterations: int,
    claimed: str,
    beside: str = "",
) -> tuple[str, str, str]:
    """Claimed, found, why: the three sentences below figures 6 and 7.

    Args:
        parameters: those of the notebook.
        gaps: differences of final accuracies by subject, from `training_verdicts.gaps`.
        iterations: of the runs.
        claimed: what the paper says.
        beside: a sentence to be added to what was found.
    """
    found = {
        name: interval(np.asarray(pair[0]) - np.asarray(pair[1])).text()
        for rows in gaps.values()
        for name, pair in rows.items()
    }
    cost = {
        name: 100 * float(np.mean(pair[0]) - np.mean(pair[1]))
        for rows in gaps.values()
        for name, pair in rows.items()
    }
    seeds = len(next(iter(gaps["order"].values()))[0])
    noise = {
        name.removeprefix("noise of ").removeprefix("the "): cost[name] for name in gaps["noise"]
    }
    adds = listed([f"{value:.1f} ({name})" for name, value in noise.items()])
    why = (
        f"Clipping to {parameters['clip']:g} without any noise already costs {cost['clipping']:.1f} points; the "
        f"noise adds {adds}, against clipped training at the same learning rate."
    )
    if parameters["learning_rate_baselines"] != parameters["learning_rate"]:
        rates = (
            f"{parameters['learning_rate_baselines']:g} in place of {parameters['learning_rate']:g}"
        )
        if "WCS" in noise:
            share = cost["scheme - WCS"] + noise["scheme"] - noise["WCS"]
            why += (
                f" The smaller learning rate of WCS and OLS, {rates}, costs {share:.1f} points without any "
                f"noise; the scheme and WCS are {cost['scheme - WCS']:.1f} points apart."
            )
        else:
            why += (
                f" WCS and OLS also have a smaller learning rate, {rates}; without runs that are clipped but "
                "not noisy at this rate, its share of their loss is not known."
            )
    return (
        claimed,
        f"After {iterations:,} iterations and over {seeds} seeds (points, 95 % interval): "
        + "; ".join(f"{name.replace(' - ', ' − ')} {found[name]}" for name in gaps["order"])
        + "."
        + f" {beside}".rstrip(),
        why,
    )


def reduction(parameters: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """What was reduced against the paper, for a picture's footer; empty when nothing was.

    Args:
        parameters: those of the notebook.
        result: of one of its runs.
    """
    parts = []
    if parameters["data"] == "digits":
        parts.append(
            f"8x8 digits and a network of {result['parameters']:,} parameters "
            "in place of EMNIST and the CNN"
        )
    elif result["data"]["subset"]:
        parts.append(result["data"]["subset"])
    keys = ("clients", "records", "p", "q")
    trained = [parameters[key] for key in keys]
    paper = [parameters[f"guarantee_{key}"] for key in keys]
    if trained != paper:
        federation = "{:,} clients x {:,} records, p = {:g}, q = {:g}"
        batch, wanted = round(result["mean_batch"]), round(math.prod(paper))
        mean = (
            "the paper's mean batch of" if batch == wanted else "a mean batch (not the paper's) of"
        )
        parts.append(
            f"trained in a federation of {federation.format(*trained)} with {mean} {batch}; noise and "
            f"guarantee are those of the paper's federation ({federation.format(*paper)})"
        )
    return "; ".join(parts)


def summary(curves: Mapping[str, NDArray[np.float64]]) -> dict[str, dict[str, Any]]:
    """Runs, mean and standard deviation over seeds (axis 0) of each curve; one seed has no deviation."""
    return {
        name: {"runs": runs, "mean": runs.mean(0)}
        | ({"deviation": runs.std(0, ddof=1)} if len(runs) > 1 else {})
        for name, runs in curves.items()
    }
