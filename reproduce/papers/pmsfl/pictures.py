"""The pictures of pmsfl: rows of reconstructed images, accuracies with their intervals, bounds."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray

from repro.accounting.pmsfl import printed, releases
from repro.report import style
from reproduce.papers.pmsfl import compare
from reproduce.papers.pmsfl.tables import COLUMNS, CONTROL, SETTINGS
from reproduce.papers.statistics import interval

# Reconstructions ----------------------------------------------------------------------------------


def reconstructions(
    first: Mapping[str, Any], attacks: Mapping[str, compare.Measures], rows: compare.Rows
) -> Figure:
    """Figures 2 and 5: the reconstructions of one run, beside each row the means over all runs.

    Args:
        first: result of the run whose images are drawn.
        attacks: of `compare.pooled`.
        rows: panel -> label -> attack.
    """
    return image_grid(
        {
            title: {
                label: (
                    first["attacks"][name]["shown"] if name else first["shown"],
                    compare.told(attacks[name]) if name else "",
                )
                for label, name in panel.items()
            }
            for title, panel in rows.items()
        }
    )


def image_grid(
    panels: Mapping[str, Mapping[str, tuple[ArrayLike, str]]], *, size: float = 0.44
) -> Figure:
    """Draw panels side by side, each with rows of images.

    Args:
        panels: title -> row label -> (images, note). Images are bytes, shape (n, channels, h, w)
            with one channel (grey) or three; all rows of a picture have equally many. The note
            stands to the right of its row.
        size: side of one image in inches.

    Raises:
        ValueError: nothing to draw, or images of another shape.
    """
    rows = max((len(panel) for panel in panels.values()), default=0)
    if not rows:
        raise ValueError("panels must hold at least one row of images")
    strips = {
        title: {label: (_strip(images), note) for label, (images, note) in panel.items()}
        for title, panel in panels.items()
    }
    wide = max(s.shape[1] / s.shape[0] for panel in strips.values() for s, _ in panel.values())
    width = len(panels) * (wide * size + 3.6)
    fig, axes = plt.subplots(
        rows, len(panels), figsize=(width, rows * size * 1.16 + 0.7), squeeze=False
    )
    for column, (title, panel) in zip(axes.T, strips.items(), strict=True):
        for ax in column[len(panel) :]:
            ax.set_axis_off()
        for ax, (label, (strip, note)) in zip(column, panel.items(), strict=False):
            ax.imshow(strip, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
            ax.grid(False)
            for spine in ax.spines.values():
                spine.set_visible(False)
            ax.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8)
            ax.yaxis.set_label_coords(-0.02, 0.5)
            beside = {"transform": ax.transAxes, "ha": "left", "va": "center", "fontsize": 7.5}
            ax.text(1.02, 0.5, note, color=style.MUTED, **beside)
        column[0].set_title(title, fontsize=9.5)
    return fig


def _strip(images: ArrayLike) -> np.ndarray:
    """Images in a row with a white gap: (h, width) for grey ones, (h, width, 3) in colour."""
    stack = np.asarray(images)
    if stack.ndim != 4 or stack.shape[1] not in (1, 3) or not stack.size:
        raise ValueError(
            f"images must have shape (n, channels, h, w) with 1 or 3 channels, got {stack.shape}"
        )
    gap = max(1, stack.shape[3] // 8)
    padded = np.pad(stack, ((0, 0), (0, 0), (0, 0), (0, gap)), constant_values=255)
    strip = np.concatenate(list(padded.transpose(0, 2, 3, 1)), axis=1)[:, :-gap]
    return strip[:, :, 0] if stack.shape[1] == 1 else strip


# Accuracies ---------------------------------------------------------------------------------------


def method_rows(
    finals: Mapping[str, Mapping[str, NDArray]],
    alone: Mapping[str, NDArray],
    trivial: Mapping[str, float],
    names: Mapping[str, str],
    paper: Mapping[tuple[str, str], float],
) -> Figure:
    """Table 1 as six panels, one for each of `SETTINGS`: a row for each of `COLUMNS`.

    Args:
        finals: setting -> method -> final accuracies, shape (seeds,), in [0, 1].
        alone: setting -> those of clients without a server.
        trivial: setting -> accuracy of each client's most frequent label.
        names: setting -> our data.
        paper: (setting, method) -> the paper's accuracy, in [0, 1], where it gives one.
    """
    fig, axes = plt.subplots(3, 2, figsize=(1.35 * style.WIDTH, 2.1 * style.HEIGHT), sharey=True)
    for ax, (key, setting) in zip(axes.T.flat, SETTINGS.items(), strict=True):
        for row, method in enumerate(COLUMNS):
            label = None if row else "ours: mean, 95 % interval"
            _interval_row(ax, finals[key][method], row, label)
            if (key, method) in paper:
                label = None if row else "paper"
                ax.plot(paper[key, method], row, "x", color=style.PALETTE[1], label=label)
        ax.axvline(
            alone[key].mean(), color=style.PALETTE[2], linestyle=style.DASHES[1], label="local only"
        )
        ax.axvline(trivial[key], color=style.MUTED, linestyle=style.DASHES[2], label="own majority")
        ax.set_yticks(range(len(COLUMNS)), list(COLUMNS.values()))
        ax.set_title(f"{setting.title}\n{textwrap.fill(names[key], 48)}", fontsize=8.5)
        ax.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        ax.set_xlim(0, 1)
    axes[0, 0].invert_yaxis()
    for ax in axes[-1]:
        ax.set_xlabel("test accuracy, mean over clients")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=4)
    return fig


def training_and_bytes(
    evaluated: Sequence[int],
    accuracy: Mapping[str, NDArray],
    frozen: Mapping[str, NDArray],
    drift: NDArray,
    counted: Mapping[str, Mapping[str, float]],
    labels: Mapping[str, str],
    trivial: float,
) -> Figure:
    """Figure 4: accuracy and bytes, and beside them the frozen masks and all variants.

    Args:
        evaluated: rounds of the curves.
        accuracy: name -> shape (seeds, evaluated rounds), in [0, 1].
        frozen: name -> shares of the probabilities at 0 or 1, likewise.
        drift: the share without training, after 0, 1, ... rounds.
        counted: name -> kind -> bytes of one participant and round.
        labels: name -> legend; every run of panel (d).
        trivial: accuracy of each client's most frequent label.
    """
    fig, axes = plt.subplots(2, 2, figsize=(1.35 * style.WIDTH, 1.75 * style.HEIGHT))
    under = {"ncols": 2, "loc": "upper center", "bbox_to_anchor": (0.5, -0.2)}
    curves, bars, stuck, rows = axes.ravel()
    for k, name in enumerate(("splitfed", "splitfed_dp", "pmsfl")):
        style.mean_and_spread(curves, evaluated, accuracy[name], k, label=labels[name])
    curves.axhline(trivial, color=style.MUTED, linestyle=style.DASHES[2], label="own majority")
    alone = accuracy[CONTROL][:, -1].mean()
    curves.axhline(alone, color=style.PALETTE[3], linestyle=style.DASHES[1], label="local only")
    curves.set(xlabel="round", ylabel="test accuracy", ylim=(0, 1), title="(a) accuracy")
    curves.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    curves.legend(fontsize=7.5, **under)

    left = np.zeros(len(counted))
    places = range(len(counted))
    kinds = ("model up", "indicator up", "model down", "smashed up", "smashed down")
    for k, kind in enumerate(kinds):
        share = np.array([row[kind] for row in counted.values()]) / 1e3
        bars.barh(places, share, left=left, color=style.PALETTE[k], label=kind, height=0.6)
        left = left + share
    bars.set_yticks(places, [labels[name] for name in counted], fontsize=8)
    bars.invert_yaxis()
    bars.set(xlabel="kB per participant and round", title="(b) what is sent (counted)")
    bars.set_xlim(0, 1.05 * left.max())
    bars.legend(fontsize=7, **(under | {"bbox_to_anchor": (0.3, -0.2)}))

    for k, name in enumerate(("shared, not kept", "not kept", "pmsfl")):
        style.mean_and_spread(stuck, evaluated, frozen[name], k, label=labels[name])
    stuck.plot(drift, color="black", linewidth=0.9, linestyle=":", label="drift without training")
    stuck.set(
        xlabel="round", ylabel="probabilities at 0 or 1", ylim=(-0.03, 1.03), title="(c) frozen"
    )
    stuck.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    stuck.legend(fontsize=7.5, **under)

    for row, name in enumerate(labels):
        _interval_row(rows, accuracy[name][:, -1], row)
    rows.set_yticks(range(len(labels)), list(labels.values()), fontsize=8)
    rows.invert_yaxis()
    rows.set(xlabel="final test accuracy, 95 % interval", xlim=(0, 1), title="(d) all runs")
    rows.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    return fig


def agreement_and_ratio(
    finals: Mapping[str, NDArray],
    agreements: Sequence[int],
    ratios: Sequence[float],
    trivial: float,
    *,
    rounds: int,
    best: int,
) -> Figure:
    """Figure 6: final accuracy against the agreement rounds, and against the personal share.

    Args:
        finals: "agreement A", "ratio R" and the control -> final accuracies, shape (seeds,).
        agreements: rounds of panel (a).
        ratios: personal shares of panel (b), in [0, 1].
        trivial: accuracy of each client's most frequent label.
        rounds: of the training.
        best: agreement rounds that the paper finds best.
    """
    fig, axes = plt.subplots(1, 2, figsize=(1.3 * style.WIDTH, 1.05 * style.HEIGHT), sharey=True)
    for ax, kind, values, title in zip(
        axes,
        ("agreement", "ratio"),
        (agreements, ratios),
        (f"(a) agreement rounds, of {rounds}", "(b) final share of personal masks"),
        strict=True,
    ):
        runs = np.array([finals[f"{kind} {value:g}"] for value in values])
        centre = [interval(row) for row in runs]
        ax.plot(values, runs, ".", color=style.MUTED, markersize=5)
        ax.errorbar(
            values,
            [one.mean for one in centre],
            yerr=np.array([[one.mean - one.low, one.high - one.mean] for one in centre]).T,
            color=style.PALETTE[0],
            marker="D",
            label=f"mean and 95 % interval of {runs.shape[1]} seeds",
        )
        alone = finals[CONTROL].mean()
        ax.axhline(alone, color=style.PALETTE[2], linestyle=style.DASHES[1], label="local only")
        ax.axhline(trivial, color=style.MUTED, linestyle=style.DASHES[2], label="own majority")
        ax.set_xticks(values)
        ax.set_xlabel(title)
    look = {"color": style.PALETTE[4], "linewidth": 7, "alpha": 0.35, "linestyle": "-", "zorder": 0}
    axes[0].axvline(best, **look, label="best in the paper")
    axes[1].axvline(0.5, **look)
    axes[0].set_ylabel("final test accuracy")
    axes[0].yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=3)
    return fig


def _interval_row(ax: Axes, values: NDArray, row: int, label: str | None = None) -> None:
    """The seeds as dots in a row of a panel, and their mean with its 95 % interval."""
    one = interval(values)
    ax.plot(values, np.full(len(values), row), ".", color=style.MUTED, markersize=4)
    ax.errorbar(
        one.mean,
        row,
        xerr=[[one.mean - one.low], [one.high - one.mean]],
        color=style.PALETTE[0],
        marker="D",
        linestyle="none",
        label=label,
    )


# Bounds -------------------------------------------------------------------------------------------


def privacy_overview(
    averaged: tuple[Sequence[int], ArrayLike],
    guess: tuple[float, float],
    exact_masks: tuple[ArrayLike, Mapping[float, ArrayLike]],
    totals: tuple[ArrayLike, Mapping[str, ArrayLike]],
    *,
    resnet: int,
    budget: float,
) -> Figure:
    """The picture of the derivations: reconstruction, smashed data, noisy masks, whole runs.

    Args:
        averaged: views of one input, and the relative error of averaging them.
        guess: relative error of inverting a guess, and the bound (29).
        exact_masks: parameters d, and claimed epsilon -> exact epsilon at each d.
        totals: rounds with a client, and name -> total epsilon.
        resnet: parameters of its bottom.
        budget: stated epsilon of smashed data.
    """
    fig, axes = plt.subplots(2, 2, figsize=(9.2, 7.0))
    top, theorem, masks_panel, run_panel = axes.ravel()
    style.curve(top, *averaged, 0, label="averages its views", marks=9)
    inverted = {"color": style.PALETTE[1], "ls": style.DASHES[1]}
    top.axhline(guess[0], **inverted, label="inverts a guess (Theorem 1)")
    top.axhline(guess[1], color=style.MUTED, ls=style.DASHES[2], label="bound (29)")
    top.set(
        title="(a) reconstruction, 64 to 512", xlabel="views of one input", ylabel="error / |x|"
    )
    small = np.arange(1, 13)
    for k, c in enumerate((0.1, 0.3)):
        formula = printed.smashed_epsilon(1.0, dimension=small, floor=c)
        style.curve(theorem, small, formula, k, label=f"Theorem 2, c = {c:g}")
        attained = float(releases.masked_laplace_epsilon(1.0, keep=1 - c))
        proved = float(releases.masked_laplace_bound(1.0, keep=1 - c))
        look = {"color": style.PALETTE[k]}
        theorem.axhline(attained, **look, ls=(0, (1, 2)), lw=1.2, label=f"attained, c = {c:g}")
        theorem.axhline(proved, **look, ls=style.DASHES[3], lw=1, label=f"proved, c = {c:g}")
    theorem.set(
        title="(b) smashed data, epsilon = 1",
        xlabel="parameters d",
        ylabel="epsilon behind the mask",
    )
    for k, (claimed, values) in enumerate(exact_masks[1].items()):
        style.curve(masks_panel, exact_masks[0], values, k, label=f"exact, {claimed:g} claimed")
        masks_panel.axhline(claimed, color=style.PALETTE[k], ls=(0, (1, 2)), lw=1.2)
    masks_panel.axvline(resnet, color=style.MUTED, lw=0.8)
    masks_panel.annotate(
        "ResNet",
        (resnet, 0.2),
        (-3, 0),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color=style.MUTED,
    )
    masks_panel.set(title="(c) noisy masks, (70)", xlabel="parameters d", ylabel="epsilon")
    for k, (name, values) in enumerate(totals[1].items()):
        style.curve(run_panel, totals[0], values, k, label=name)
    run_panel.axhline(budget, color=style.MUTED, ls=(0, (1, 2)), label="stated budget")
    run_panel.set(
        title="(d) SplitFed-DP, CIFAR-100", xlabel="rounds with this client", ylabel="total epsilon"
    )
    for axis in (top, masks_panel, run_panel):
        axis.set(xscale="log", yscale="log")
    for axis in axes.ravel():
        axis.legend(fontsize=7.5)
    return fig
