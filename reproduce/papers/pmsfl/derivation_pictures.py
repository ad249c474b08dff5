"""Pictures that explain single steps of the derivations of PM-SFL; small, seven inches wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from repro.report import style
from reproduce.papers.ticks import Alike

SIZE = (7.0, 2.5)
"""Width and height of a picture in inches."""

DOTS = (0, (1, 2))
"""Reference lines: what is claimed or stated."""


def mask_training(scores: ArrayLike, slopes: Mapping[str, ArrayLike], frozen: ArrayLike) -> Figure:
    """Section 1: the slope of a mask in its score, and how many coordinates stop at 0 or 1.

    Args:
        scores: s, shape (k,).
        slopes: name of the rule -> d mask / d s, shape (k,).
        frozen: share of coordinates at 0 or 1 after 0, 1, ... rounds.
    """
    fig, (left, right) = _two()
    for k, (name, values) in enumerate(slopes.items()):
        style.curve(left, scores, values, k, label=name, marks=6)
    left.set(
        title="(a) slope of a sampled mask",
        xlabel="score s",
        ylabel="d mask / d s",
        ylim=(-0.01, 0.36),
    )
    style.curve(right, np.arange(len(frozen)), 100 * np.asarray(frozen), 0, marks=8)
    right.set(
        title="(b) averages of 10 bits, no training",
        xlabel="round",
        ylabel="stuck at 0 or 1, %",
        ylim=(0, 103),
    )
    _legends(left)
    _fonts(right)
    return fig


def guesses(names: Sequence[str], errors: ArrayLike, bounds: ArrayLike, total: int) -> Figure:
    """Section 5: the error of inverting each guess, beside the term of the bound.

    Args:
        names: labels of the guesses and, last, of their mean; shape (k,).
        errors, bounds: error and term over |x|, shape (k,).
        total: the bar that holds the mean.
    """
    fig, ax = plt.subplots(figsize=SIZE)
    place = np.arange(len(names))
    for k, (label, values) in enumerate({"error": errors, "bound (9)": bounds}.items()):
        bars = ax.bar(
            place + (k - 0.5) * 0.38,
            values,
            0.36,
            color=style.PALETTE[k],
            hatch=("", "///")[k],
            edgecolor="white",
            label=label,
        )
        ax.bar_label(bars, fmt="%.3f", fontsize=7.5, padding=1)
    ax.axvline(total - 0.5, color=style.MUTED, lw=0.8)
    ax.set(xticks=place, title="error of inverting each guess, and what (9) promises")
    ax.set_xticklabels(names, fontsize=8)
    ax.set_ylabel("over |x|", fontsize=8.5)
    ax.grid(axis="x", visible=False)
    ax.margins(y=0.15)
    _legends(ax)
    return fig


def broken_cancellation(outputs: Mapping[str, tuple[float, float]], scale: float) -> Figure:
    """Section 6: densities of the noisy output for two inputs, one panel a mask.

    Args:
        outputs: title -> the outputs of the two inputs before the noise.
        scale: of the Laplace noise, > 0.
    """
    fig, axes = _two()
    grid = np.linspace(-0.75, 1.75, 1001)
    for ax, (title, pair) in zip(axes, outputs.items(), strict=True):
        for k, (name, at) in enumerate(zip(("input (0, 0)", "input (1, 1)"), pair, strict=True)):
            density = np.exp(-np.abs(grid - at) / scale) / (2 * scale)
            style.curve(ax, grid, density, k, label=name, marks=0)
        ax.set(title=title, xlabel="what the server sees", yscale="log", ylim=(1e-7, 20))
        _legends(ax)
    axes[0].set_ylabel("density")
    return fig


def shared_mask(batches: ArrayLike, leaks: Mapping[float, ArrayLike], epsilon: float) -> Figure:
    """Section 6: what one record leaks when other records pass the same mask.

    Args:
        batches: records under one mask, shape (k,).
        leaks: c -> (epsilon of a record at each batch, shape (k,), Theorem 2, the bound of one record).
        epsilon: of the noise alone.
    """
    fig, ax = plt.subplots(figsize=SIZE)
    for k, (c, (found, claimed)) in enumerate(leaks.items()):
        style.curve(ax, batches, found, k, label=f"exact, c = {c:g}", marks=10)
        look = {"color": style.PALETTE[k], "ls": DOTS, "lw": 1.3}
        ax.axhline(claimed, **look, label=f"Theorem 2, c = {c:g}")
    ax.axhline(epsilon, color=style.MUTED, lw=0.9)
    ax.annotate("noise alone", (1.02, epsilon), (0, 2), textcoords="offset points", fontsize=8)
    ax.set(xlabel="records of the batch under one mask", ylabel="ε of one record", xscale="log")
    ax.set_xticks(batches, [f"{b:g}" for b in batches])
    ax.minorticks_off()
    _fonts(ax)
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return fig


def gaussian_steps(
    asked: ArrayLike, excess: ArrayLike, step: ArrayLike, ratio: ArrayLike, here: float
) -> Figure:
    """Section 7: where (60) and (61) stop being bounds.

    Args:
        asked: epsilon of one Gaussian release, shape (k,).
        excess: exact delta at the noise of (60) over the stated delta, shape (k,).
        step: epsilon of one of R steps, shape (m,).
        ratio: optimal total epsilon over (61), shape (m,).
        here: the step's epsilon in the experiments.
    """
    fig, (left, right) = _two()
    style.curve(left, asked, excess, 0, marks=8)
    left.set(title="(a) noise of (60)", xlabel="ε stated", ylabel="exact δ / stated δ")
    style.curve(right, step, ratio, 1, marks=8)
    right.axvline(here, color=style.MUTED, lw=0.9)
    right.annotate(
        "experiments",
        (here, np.max(ratio)),
        (3, -4),
        textcoords="offset points",
        va="top",
        fontsize=8,
    )
    right.set(
        title="(b) composition by (61)",
        xlabel="ε of one step",
        ylabel="optimal / (61)",
        xscale="log",
    )
    for ax in (left, right):
        ax.axhline(1, color=style.MUTED, ls=DOTS)
    left.set_yscale("log")
    _fonts(left, right)
    return fig


def sampled_bit(scores: ArrayLike, shares: Mapping[float, ArrayLike], exact: ArrayLike) -> Figure:
    """Section 7: the divergence of one sampled bit against the theorem's bound.

    Args:
        scores: middle of the two scores, shape (k,).
        shares: distance of the two scores -> divergence of order 2 over its bound, shape (k,).
        exact: rows (distance, epsilon of the theorem), shape (m, 2).
    """
    fig, (left, right) = _two()
    for k, (distance, values) in enumerate(shares.items()):
        style.curve(left, scores, values, k, label=f"|s - s'| = {distance:g}", marks=6)
    left.axhline(1, color=style.MUTED, ls=DOTS)
    left.set(
        title="(a) one bit, order 2",
        xlabel="(s + s') / 2",
        ylabel="divergence / bound",
        ylim=(0, 1.5),
    )
    style.curve(right, *np.asarray(exact).T, 0, marks=7)
    right.set(title="(b) a whole mask", xlabel="|s - s'|, all scores", ylabel="ε at δ = 10⁻⁵")
    _legends(left)
    _fonts(right)
    return fig


def averaged_views(views: Sequence[int], errors: ArrayLike, guess: tuple[float, float]) -> Figure:
    """Section 5: an attacker who averages over masks, against one who inverts a guess.

    Args:
        views: smashed vectors of one input that are averaged, shape (k,).
        errors: relative error of the reconstruction, shape (k,).
        guess: relative error of inverting a guess, and the bound (29).
    """
    fig, ax = plt.subplots(figsize=SIZE)
    style.curve(ax, views, errors, 0, label="averages its views", marks=9)
    inverted = {"color": style.PALETTE[1], "ls": style.DASHES[1]}
    ax.axhline(guess[0], **inverted, label="inverts a guess (Theorem 1)")
    ax.axhline(guess[1], color=style.MUTED, ls=style.DASHES[2], label="bound (29)")
    ax.set(
        title="a random layer, 64 inputs to 512 outputs, masks at 1/2",
        xlabel="views of one input",
        ylabel="error / |x|",
        xscale="log",
        yscale="log",
    )
    ax.minorticks_off()
    ax.set_xticks(views, [f"{v:g}" for v in views])
    shown = [v for v in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if np.min(errors) <= 1.5 * v]
    ax.set_yticks(shown, [f"{v:g}" for v in shown])
    _legends(ax)
    return fig


def amplified(dimension: ArrayLike, theorem: Mapping[float, ArrayLike], one: Mapping) -> Figure:
    """Section 6: what a mask takes off the epsilon of smashed data, by the number of its weights.

    Args:
        dimension: weights under the mask, shape (k,).
        theorem: margin c -> Theorem 2 at each dimension, shape (k,).
        one: margin c -> (what one weight attains, what is proved for every dimension).
    """
    fig, ax = plt.subplots(figsize=SIZE)
    for k, (c, values) in enumerate(theorem.items()):
        look = {"color": style.PALETTE[k]}
        style.curve(ax, dimension, values, k, label=f"Theorem 2, c = {c:g}")
        ax.axhline(one[c][0], **look, ls=DOTS, lw=1.2, label=f"attained, c = {c:g}")
        ax.axhline(one[c][1], **look, ls=style.DASHES[3], lw=1, label=f"proved, c = {c:g}")
    ax.set(title="smashed data, ε = 1", xlabel="weights d", ylabel="ε behind the mask")
    ax.set_xticks(np.asarray(dimension)[1::2])
    _fonts(ax)
    ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return fig


def uploads_and_runs(
    masks: tuple[ArrayLike, Mapping[float, ArrayLike]],
    totals: tuple[ArrayLike, Mapping[str, ArrayLike]],
    *,
    resnet: int,
    budget: float,
) -> Figure:
    """Sections 7 and 8: noisy masks by their size, and the total of a run.

    Args:
        masks: parameters d, and claimed epsilon -> exact epsilon at each d.
        totals: rounds with a client, and name -> total epsilon.
        resnet: parameters of its bottom.
        budget: stated epsilon of smashed data.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(SIZE[0], 3.0))
    for k, (claimed, values) in enumerate(masks[1].items()):
        style.curve(left, masks[0], values, k, label=f"exact, {claimed:g} claimed")
        left.axhline(claimed, color=style.PALETTE[k], ls=DOTS, lw=1.2)
    left.axvline(resnet, color=style.MUTED, lw=0.8)
    look = {"textcoords": "offset points", "ha": "right", "fontsize": 8, "color": style.MUTED}
    left.annotate("ResNet", (resnet, 0.2), (-3, 0), **look)
    left.set(title="(a) noisy masks, (70)", xlabel="parameters d", ylabel="ε")
    for k, (name, values) in enumerate(totals[1].items()):
        style.curve(right, totals[0], values, k, label=name)
    right.axhline(budget, color=style.MUTED, ls=DOTS, label="stated budget")
    right.set(
        title="(b) SplitFed-DP, CIFAR-100", xlabel="rounds with this client", ylabel="total ε"
    )
    for ax in (left, right):
        ax.set(xscale="log", yscale="log")
        for side in (ax.xaxis, ax.yaxis):
            side.set_major_formatter(Alike())
    right.set_ylim(top=3e3)  # room for the legend
    _legends(left, right)
    return fig


def _two() -> tuple[Figure, Sequence[Axes]]:
    return plt.subplots(1, 2, figsize=SIZE)


def _fonts(*axes: Axes) -> None:
    for ax in axes:
        ax.title.set_fontsize(9.5)
        ax.xaxis.label.set_fontsize(8.5)
        ax.yaxis.label.set_fontsize(8.5)
        ax.tick_params(labelsize=8)


def _legends(*axes: Axes) -> None:
    _fonts(*axes)
    for ax in axes:
        ax.legend(fontsize=7.5)
