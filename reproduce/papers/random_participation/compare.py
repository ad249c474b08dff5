"""Figures 6 and 7: what the noise of the training runs guarantees, labels, footers and verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from repro.accounting import RandomParticipation
from reproduce.notebook import Workbook
from reproduce.papers.statistics import order

__all__ = [
    "caption",
    "closer",
    "fulfils",
    "guarantees",
    "labels",
    "much_higher",
    "noise_table",
    "ols_poor",
    "ordered",
    "promise",
    "reduction",
    "summary",
]

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
    """The delta of a bracket from `guarantees` in words: one number, or "lower to upper"."""
    low, high = f"{bracket['lower']:.1e}", f"{bracket['upper']:.1e}"
    return high if low == high else f"{low} to {high}"


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


def labels(
    parameters: Mapping[str, Any], curves: Mapping[str, Mapping[str, Any]], guarantee: Guarantees
) -> dict[str, str]:
    """The legend's entry of each curve: its noise, and for the scheme whether delta is kept."""
    paper, ours = (fulfils(guarantee[k], parameters["delta"]) for k in ("scheme_paper", "scheme"))
    return {
        "non_private": "not private",
        "clipped": f"clipped to {parameters['clip']:g}, no noise",
        "scheme_paper": f"scheme, paper's σ = {parameters['sigma_paper']:g} ({paper})",
        "scheme": f"scheme, justified σ = {curves['scheme']['sigma']:g} ({ours})",
        "wcs": f"WCS, σ = {curves['wcs']['sigma']:g}",
        "ols": f"OLS, σ = {curves['ols']['sigma']:g}",
    }


def caption(parameters: Mapping[str, Any], guarantee: Guarantees, commits: list[str]) -> str:
    """The caption: the paper's federation, what the noise gives, and the commits of published runs.

    Args:
        parameters: those of the notebook.
        guarantee: from `guarantees`.
        commits: of the runs, where they are not made here; else empty.
    """
    return (
        f"{parameters['guarantee_clients']:,} clients with {parameters['guarantee_records']} "
        "records, DP-DSGD with random participation. "
        f"Noise for ({parameters['epsilon']:g}, {parameters['delta']:g})-DP of one iteration; the "
        f"paper's σ for the scheme really gives δ = {promise(guarantee['scheme_paper'])}, ours "
        f"{promise(guarantee['scheme'])}."
        + (f" Runs of commit {', '.join(commits)}." if commits else "")
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


# Verdicts -----------------------------------------------------------------------------------------

Finals = Mapping[str, NDArray[np.float64]]
"""Curve -> final accuracy in [0, 1] of each seed, shape (seeds,)."""


def ordered(book: Workbook, finals: Finals) -> None:
    """Decide "order" and "order-justified": not private > scheme > WCS > OLS.

    The scheme has the paper's noise in "order", and the noise that our bound justifies in the other.
    """
    for claim, scheme in (("order", "scheme_paper"), ("order-justified", "scheme")):
        if len(finals[scheme]) < 2:
            book.pending(claim, "an order takes two or more seeds")
            continue
        ranked = order({name: finals[name] for name in ("non_private", scheme, "wcs", "ols")})
        reason = f"gap not above twice its standard error: {ranked.unclear}; more seeds could tell"
        book.statement(claim, ranked.holds, ranked.text, reason)


def much_higher(book: Workbook, finals: Finals) -> None:
    """Decide "much-higher": the scheme is 10 points or more ahead of WCS and OLS."""
    mean = {name: 100 * runs.mean() for name, runs in finals.items()}
    lead = float(mean["scheme_paper"] - max(mean["wcs"], mean["ols"]))
    book.statement(
        "much-higher",
        lead >= 10,
        f"{lead:.0f} points ahead of the next analysis (with the justified noise "
        f"{mean['scheme'] - mean['wcs']:.0f})",
        "less than 10 points ahead",
    )


def ols_poor(book: Workbook, finals: Finals) -> None:
    """Decide "ols-poor": OLS reaches at most half of the accuracy without privacy."""
    share = float(finals["ols"].mean() / finals["non_private"].mean())
    book.statement(
        "ols-poor",
        share <= 0.5,
        f"OLS reaches {100 * share:.0f} % of the accuracy without privacy",
        "more than half of the accuracy without privacy",
    )


def closer(book: Workbook, finals: Finals, sixth: Finals) -> None:
    """Decide "closer": scheme and OLS are closer to each other here than in figure 6, `sixth`."""
    here, there = (100 * float((f["scheme_paper"] - f["ols"]).mean()) for f in (finals, sixth))
    book.statement(
        "closer",
        here < there,
        f"scheme ahead of OLS by {here:.1f} points, in Figure 6 by {there:.1f}",
        "the schemes are not closer together than in Figure 6",
    )
