"""The small pictures that explain steps of the derivations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import binom

from repro.report import style
from reproduce.papers.ddpsa import layouts

__all__ = ["adversaries", "data_dependent_noise", "last_share", "membership"]


def last_share(values: Mapping[str, Sequence[NDArray[np.int64]]]) -> Figure:
    """The law of the last share for each secret, for both readings of Algorithm 1.

    Args:
        values: reading -> for each secret, all outcomes of the last share, equally likely.
    """
    fig, axes = plt.subplots(1, 2, figsize=(layouts.WIDTH, 2.7), width_ratios=[7, 13])
    titles = {
        "reduced": "whole right side modulo p",
        "literal": "as printed: only the sum modulo p",
    }
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        outcomes = values[name]
        low, high = (f(int(f(x)) for x in outcomes) for f in (min, max))
        table = np.array(
            [np.bincount(x - low, minlength=high - low + 1) / len(x) for x in outcomes]
        )
        image = ax.imshow(table, cmap="Blues", vmin=0, vmax=1.4 * table.max(), aspect="auto")
        ax.set_xticks(range(high - low + 1), range(low, high + 1))
        ax.set_yticks(range(len(outcomes)), range(len(outcomes)))
        ax.set_xlabel("last share")
        ax.set_ylabel("secret S")
        ax.set_title(title, fontsize=9)
        ax.grid(visible=False)
        ax.tick_params(labelsize=layouts.SMALL, length=0)
    _smaller(*axes)
    bar = fig.colorbar(image, ax=axes, shrink=0.85)
    bar.set_label("probability", fontsize=layouts.SMALL)
    bar.ax.tick_params(labelsize=layouts.SMALL)
    return fig


def adversaries() -> Figure:
    """Three adversaries against m = 3 servers: all servers, all links, and some of both."""
    cases = (
        ("controls all servers", {0, 1, 2}, set(), "named by the paper"),
        ("observes all links", set(), {0, 1, 2}, "named by the paper"),
        ("controls 1, observes 2 and 3", {0}, {1, 2}, "allowed, and not named"),
        ("controls 1, observes 2", {0}, {1}, "one share is missing"),
    )
    fig, axes = plt.subplots(1, 4, figsize=(layouts.WIDTH, 2.3))
    for ax, (title, servers, links, note) in zip(axes, cases, strict=True):
        known = len(servers | links) == 3
        _paths(ax, servers, links)
        ax.set_title(title, fontsize=8)
        color = layouts.PAPER if known else layouts.OURS
        told = f"all shares known\n({note})" if known else f"nothing known\n({note})"
        ax.text(0.5, -0.32, told, ha="center", va="center", fontsize=layouts.SMALL, color=color)
    return fig


def _paths(ax: Axes, servers: set[int], links: set[int]) -> None:
    """A client, three servers and the links between; what the adversary has is filled and dashed."""
    heights = (0.95, 0.5, 0.05)
    for j, y in enumerate(heights):
        seen = j in links
        look = {"color": layouts.PAPER, "lw": 2.2, "ls": (0, (3, 1.2))}
        ax.plot(
            [0, 1],
            [0.5, y],
            **(look if seen else {"color": style.MUTED, "lw": 1, "ls": "-"}),
            zorder=1,
        )
        fill = layouts.PAPER if j in servers else "white"
        ax.plot([1], [y], marker="s", ms=15, mfc=fill, mec="black", mew=0.8, zorder=2)
        ink = "white" if j in servers else "black"
        ax.text(1, y, str(j + 1), ha="center", va="center", fontsize=8, color=ink)
    ax.plot([0], [0.5], marker="o", ms=15, mfc="white", mec="black", mew=0.8, zorder=2)
    ax.text(0, 0.5, "S", ha="center", va="center", fontsize=8)
    ax.set_xlim(-0.25, 1.25)
    ax.set_ylim(-0.5, 1.15)
    ax.set_axis_off()


def data_dependent_noise(scale: float) -> Figure:
    """Laws whose noise depends on the data: a division by N, and a median as clip.

    Args:
        scale: b = Delta / epsilon with Delta = 1.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(layouts.WIDTH, 2.7))
    x = np.linspace(-4 * scale, 4 * scale, 801)
    for k, (count, name) in enumerate(((1, "one record at Δ"), (2, "two records at Δ"))):
        density = _laplace(x - 1, scale / count)
        style.curve(left, x, density, k, label=name, marks=0)
    left.set(xlabel="published average, in units of Δ", ylabel="density")
    left.set_title("division by N: the noise shows N", fontsize=9)
    for k, (clip, centre, name) in enumerate(
        ((5.5, 3 + 3 * 5.5, "with the record: Δ = 5.5"), (1.0, 5.0, "without it: Δ = 1"))
    ):
        wide = np.linspace(-20 * scale, 20 * scale, 1601)
        style.curve(right, wide, _laplace(wide - centre, clip * scale), k, label=name, marks=0)
    right.set(xlabel="published sum", yscale="log", ylim=(1e-8, 3))
    layouts.powers(right.yaxis, -8, -1)
    right.set_title("median as clip, B = 10: it shows the record", fontsize=9)
    for ax in (left, right):
        ax.tick_params(labelsize=layouts.SMALL)
        ax.legend(fontsize=layouts.SMALL, loc="upper right")
    left.set_ylim(0, 1.25 * left.get_ylim()[1])
    _smaller(left, right)
    return fig


def _laplace(x: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    return np.exp(-np.abs(x) / scale) / (2 * scale)


def membership(epsilon: float, rounds: int) -> Figure:
    """How often an output is nearer to the record's gradient than to 0: one round, and a whole run.

    Args:
        epsilon: Delta over the scale of the noise.
        rounds: of the run.
    """
    fig, (one, run) = plt.subplots(1, 2, figsize=(layouts.WIDTH, 2.7), width_ratios=[1, 2.2])
    scale = 1 / epsilon
    x = np.linspace(-3 * scale, 3 * scale, 601)
    p = 1 - np.exp(-epsilon / 2) / 2
    counts = np.arange(round(rounds * (1 - p)) - 75, round(rounds * p) + 76)
    for k, (centre, chance, name) in enumerate(((0, 1 - p, "without"), (1, p, "with the record"))):
        style.curve(one, x, _laplace(x - centre, scale), k, label=name, marks=0)
        style.curve(run, counts, binom.pmf(counts, rounds, chance), k, label=name, marks=0)
        side = counts >= (rounds + 1) // 2 if chance < 0.5 else counts < (rounds + 1) // 2
        wrong = binom.pmf(counts, rounds, chance)
        run.fill_between(counts, 0, wrong, where=side, color=style.PALETTE[k], alpha=0.35, lw=0)
    one.set(xlabel="one round's output, in units of Δ", ylabel="density")
    one.set_title("one round", fontsize=9)
    run.axvline((rounds + 1) // 2 - 0.5, color=style.MUTED, lw=1, ls=":")
    run.set(xlabel=f"rounds of {rounds:,} with an output above Δ/2", ylabel="probability")
    run.set_title("a whole run (shaded: wrong guesses)", fontsize=9)
    for ax in (one, run):
        ax.tick_params(labelsize=layouts.SMALL)
    run.legend(fontsize=layouts.SMALL, loc="upper right")
    run.set_ylim(0, 1.2 * run.get_ylim()[1])
    _smaller(one, run)
    return fig


def _smaller(*axes: Axes) -> None:
    """Labels of a size that fits small pictures."""
    for ax in axes:
        ax.xaxis.label.set_size(9)
        ax.yaxis.label.set_size(9)
