"""The pictures of the survey (Table I) and of the guarantees (derivations)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from repro.report import style
from reproduce.notation import symbols
from reproduce.papers.ddpsa import layouts
from reproduce.papers.ddpsa.pictures import delta_text
from reproduce.papers.ddpsa.survey import FAMILIES


def survey(articles: pd.DataFrame, ours: Mapping[str, float], clients: Sequence[int]) -> Figure:
    """Table I: how many articles use which noise, and epsilon against clients where both are given.

    Args:
        articles: rows of `load_survey` with their `family`.
        ours: epsilon of ddpsa's experiments after so many rounds, in words.
        clients: least and largest number of clients in ddpsa's experiments.
    """
    fig = plt.figure(figsize=(layouts.WIDTH, 5.8))
    table, ax = fig.subplots(2, 1, height_ratios=[1.15, 2.6])
    drawn = articles.dropna(subset=["clients_low", "epsilon_low"])
    drawn = drawn[drawn["epsilon_high"] > 0]
    drawn = drawn.assign(apart=_apart(drawn["clients_low"], drawn["clients_high"]))
    cells: dict[str, list[str]] = {"articles": [], "drawn": [], "ε, range": [], "median": []}
    for k, name in enumerate(FAMILIES):
        part = drawn[drawn["family"] == name]
        cells["articles"].append(str(int((articles["family"] == name).sum())))
        cells["drawn"].append(str(len(part)))
        low, high = part["epsilon_low"].min(), part["epsilon_high"].max()
        cells["ε, range"].append(f"{low:g} to {high:g}" if len(part) else "-")
        cells["median"].append(f"{part['epsilon_high'].median():.2g}" if len(part) else "-")
        table.plot([0.02], [k], **{**style.line(k), "linestyle": ""}, clip_on=False)
        look = style.line(k)
        low = part["epsilon_low"].clip(lower=_LEAST)
        middle = (part["clients_low"] * part["clients_high"]) ** 0.5
        centre = (low * part["epsilon_high"]) ** 0.5
        ax.errorbar(
            middle * part["apart"],
            centre,
            xerr=[middle - part["clients_low"], part["clients_high"] - middle],
            yerr=[centre - low, part["epsilon_high"] - centre],
            color=look["color"],
            marker=look["marker"],
            ms=4,
            linestyle="",
            alpha=0.75,
            elinewidth=0.8,
            capsize=0,
        )
    table.plot([0.005, 0.035], [len(FAMILIES)] * 2, color="black", lw=3, ls="-", clip_on=False)
    cells["articles"].append("")
    cells["drawn"].append("")
    cells["ε, range"].append(" and ".join(f"{value:.3g}" for value in ours.values()))
    cells["median"].append("")
    columns = {"noise": (0.05, "left", [*FAMILIES, f"ddpsa: {' and '.join(ours)}"])}
    for x, (head, texts) in zip((0.52, 0.62, 0.79, 0.99), cells.items(), strict=True):
        columns[head] = (x, "right", texts)
    columns["median largest ε"] = columns.pop("median")
    layouts.rows(table, columns)
    for value in ours.values():
        ax.plot([clients[0], clients[-1]], [value] * 2, color="black", lw=3, ls="-", zorder=4)
    ax.set(xscale="log", yscale="log", xlabel="clients", ylabel="ε")
    ax.set_xlim(1.5, 4e7)
    ax.set_ylim(_LEAST, 2000)
    layouts.powers(ax.yaxis, -3, 3)
    layouts.powers(ax.xaxis, 1, 7)
    return fig


_LEAST = 1e-3
"""Where an epsilon of 0 is drawn."""

_STEP = 0.03
"""Decades between articles with the same number of clients."""


def _apart(low: pd.Series, high: pd.Series) -> pd.Series:
    """Factors that set articles with one and the same number of clients side by side; 1 for ranges."""
    single = low[low == high]
    groups = single.groupby(single)
    place = groups.cumcount() - (groups.transform("size") - 1) / 2
    return (10 ** (_STEP * place)).reindex(low.index, fill_value=1.0)


def guarantees(
    grid: ArrayLike,
    profiles: Mapping[int, ArrayLike],
    counts: ArrayLike,
    totals: Mapping[str, ArrayLike],
    *,
    epsilon: float,
    delta: float,
) -> Figure:
    """Derivations: privacy profiles of one round, and the total epsilon of many.

    Args:
        grid: epsilon of one round.
        profiles: n -> delta at each epsilon of the grid, for the sum over n clients.
        counts: numbers of rounds.
        totals: total epsilon by its name in the legend, one for each number of rounds.
        epsilon: of a client's vector in one round.
        delta: of the whole run.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(layouts.WIDTH, 3.9))
    for k, (n, curve) in enumerate(profiles.items()):
        style.curve(left, grid, curve, k, label=f"sum of {n}" if n > 1 else "one client (local)")
    left.set(xlabel="ε", ylabel="δ", title=f"one round, ε = {epsilon:g} of a client")
    left.legend(fontsize=layouts.SMALL)
    for k, (name, curve) in enumerate(totals.items()):
        style.curve(right, counts, curve, k, label=symbols(name))
    label = f"total ε, δ = {delta_text(delta)}"
    right.set(xlabel="rounds", ylabel=label, xscale="log", yscale="log", title="many rounds")
    layouts.decades(right.xaxis, [1, 10, 100, 1000])
    layouts.powers(right.yaxis, -1, 3)
    right.legend(fontsize=7)
    for ax in (left, right):
        ax.tick_params(labelsize=8)
    return fig
