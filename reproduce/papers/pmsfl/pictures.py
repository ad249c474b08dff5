"""The pictures of pmsfl: rows of reconstructed images, accuracies with their intervals, bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from repro.report import style
from reproduce.papers.pmsfl import compare
from reproduce.papers.pmsfl.tables import CONTROL
from reproduce.papers.statistics import final, interval
from reproduce.papers.ticks import percent

PAGE = 7.0
"""Width of a picture in inches."""

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
    images = compare.drawn(first, rows)
    return image_grid(
        {
            title: {
                label: (
                    images[name],
                    compare.note(attacks[name]) if name else "PSNR,\nlikeness",
                )
                for label, name in panel.items()
            }
            for title, panel in rows.items()
        }
    )


LABEL, NOTE, GAP = 0.78, 0.52, 0.12
"""Inches left of a row of images, right of it, and between panels."""


def image_grid(
    panels: Mapping[str, Mapping[str, tuple[ArrayLike, str]]], *, width: float = PAGE
) -> Figure:
    """Draw panels side by side, each with rows of images.

    Args:
        panels: title -> row label -> (images, note). Images are bytes, shape (n, channels, h, w)
            with one channel (grey) or three; all rows of a picture have equally many. The note
            stands to the right of its row.
        width: of the picture in inches.

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
    column = (width - GAP * (len(panels) - 1)) / len(panels)
    strip = column - LABEL - NOTE
    step = strip / wide + 0.06
    top = 0.26
    height = rows * step + top
    # Not layout="none": after each saving Matplotlib puts back what the settings ask for in place of no engine.
    fig = plt.figure(figsize=(width, height), layout=PlaceHolderLayoutEngine(True, True))
    for k, (title, panel) in enumerate(strips.items()):
        left = k * (column + GAP) + LABEL
        for row, (label, (image, note)) in enumerate(panel.items()):
            low = height - top - (row + 1) * step
            place = (left / width, low / height, strip / width, (step - 0.06) / height)
            ax = fig.add_axes(place)
            ax.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest", aspect="auto")
            ax.set_axis_off()
            beside = {"va": "center", "fontsize": 7.5, "transform": ax.transAxes}
            ax.text(-0.06 / strip, 0.5, label, ha="right", **beside)
            ax.text(1 + 0.06 / strip, 0.5, note, color=style.MUTED, **beside)
            if not row:
                ax.set_title(title, fontsize=9, loc="left")
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


def training_and_bytes(
    evaluated: Sequence[int],
    accuracy: Mapping[str, NDArray],
    frozen: Mapping[str, NDArray],
    drift: NDArray,
    uploads: Mapping[str, float],
    labels: Mapping[str, str],
    trivial: float,
    papers: Mapping[str, float],
) -> Figure:
    """Figure 4: the paper's two panels, then frozen masks and the final accuracy of all runs.

    Args:
        evaluated: rounds of the curves.
        accuracy: name -> shape (seeds, evaluated rounds), in [0, 1].
        frozen: name -> shares of the probabilities at 0 or 1, likewise.
        drift: the share without training, after 0, 1, ... rounds.
        uploads: name -> bytes of the model that a client of the paper's network uploads in a round.
        labels: name -> legend; every run of panel (d).
        trivial: accuracy of each client's most frequent label.
        papers: name -> the paper's final accuracy, in [0, 1].
    """
    fig = plt.figure(figsize=(PAGE, 7.6))
    above, middle, below = fig.subfigures(3, 1, height_ratios=[1.15, 1, 1.1])
    curves, rows = above.add_subplot(), below.add_subplot()
    stuck, bars = middle.subplots(1, 2, gridspec_kw={"width_ratios": [1.4, 1]})
    _accuracy_curves(curves, evaluated, accuracy, labels, trivial, papers)
    size = np.array(list(uploads.values())) / 1e6
    places = np.arange(len(size))
    bars.barh(places, size, color=[style.PALETTE[k] for k in range(len(size))], height=0.6)
    for y, value in zip(places, size, strict=True):
        bars.text(value + 0.03 * size.max(), y, f"{value:.2f} MB", va="center", fontsize=8)
    bars.set_yticks(places, list(uploads), fontsize=8)
    bars.invert_yaxis()
    bars.set(xlabel="upload of the model, MB", xlim=(0, 1.5 * size.max()))
    bars.set_title("(c) uploads, paper's network", fontsize=9.5)
    for k, name in enumerate(("shared, not kept", "not kept", "pmsfl")):
        style.mean_and_spread(stuck, evaluated, frozen[name], k, label=labels[name])
    stuck.plot(drift, color="black", linewidth=0.9, linestyle=":", label="drift without training")
    stuck.set(xlabel="round", ylabel="probabilities at 0 or 1", ylim=(-0.03, 1.03))
    stuck.set_title("(b) masks that are random no more", fontsize=9.5)
    stuck.yaxis.set_major_formatter(percent())
    stuck.legend(fontsize=7, loc="center right", bbox_to_anchor=(1.0, 0.38))
    for row, name in enumerate(labels):
        _interval_row(rows, final(accuracy[name][:, 1:]), row)
    rows.set_yticks(range(len(labels)), list(labels.values()), fontsize=7)
    rows.invert_yaxis()
    rows.set(xlabel="accuracy, 95 % interval", xlim=(0, 1))
    rows.set_title("(d) all runs, mean of the last quarter", fontsize=9.5)
    rows.xaxis.set_major_formatter(percent())
    for ax in (curves, stuck, bars, rows):
        ax.xaxis.label.set_fontsize(9)
        ax.yaxis.label.set_fontsize(9)
        ax.tick_params(axis="x", labelsize=8)
    for ax in (curves, stuck):
        ax.tick_params(axis="y", labelsize=8)
    return fig


def _accuracy_curves(
    ax: Axes,
    evaluated: Sequence[int],
    accuracy: Mapping[str, NDArray],
    labels: Mapping[str, str],
    trivial: float,
    papers: Mapping[str, float],
) -> None:
    """Panel (a) of figure 4: curves with their names at the right, the paper's final accuracies hollow."""
    named = [*papers, *(["fitted"] if "fitted" in accuracy else [])]
    ends = {}
    for k, name in enumerate(named):
        style.mean_and_spread(ax, evaluated, accuracy[name], k)
        last, colour = float(accuracy[name][:, -1].mean()), style.PALETTE[k]
        words = f"{labels[name]}: {100 * last:.0f} %"
        if name in papers:
            ring = {"markerfacecolor": "none", "markeredgecolor": colour, "markersize": 7}
            mark = style.line(k)["marker"]
            ax.plot(1.02 * evaluated[-1], papers[name], mark, clip_on=False, **ring)
            words += f" (paper: {100 * papers[name]:.0f} %)"
        ends[words] = last, colour
    alone = float(accuracy[CONTROL][:, -1].mean())
    for words, height, colour, dash in (
        ("local only", alone, style.PALETTE[4], style.DASHES[4]),
        ("own majority", trivial, style.MUTED, style.DASHES[2]),
    ):
        ax.axhline(height, color=colour, linestyle=dash)
        ends[f"{words}: {100 * height:.0f} %"] = height, colour
    top = max(c.max() for c in (*accuracy.values(), np.array([*papers.values()])))
    ax.set(xlabel="round", ylabel="test accuracy", xlim=(0, 1.04 * evaluated[-1]))
    ax.set_ylim(0, 1.08 * top)
    ax.set_title("(a) accuracy; hollow: the paper, at its end", fontsize=9.5)
    ax.yaxis.set_major_formatter(percent())
    heights = [height / (1.08 * top) for height, _ in ends.values()]
    for place, (words, (_, colour)) in zip(_apart(heights, 0.075), ends.items(), strict=True):
        ax.text(1.02, place, words, transform=ax.transAxes, color=colour, fontsize=8, va="center")


def _apart(heights: Sequence[float], gap: float) -> NDArray:
    """The heights in their order, moved as little as it takes until neighbours are `gap` apart."""
    order = np.argsort(heights, kind="stable")
    steps = gap * np.arange(len(order))
    wanted = np.asarray(heights)[order] - steps
    blocks: list[list[float]] = []
    for one in wanted:  # pooled neighbours share the mean of what they wanted
        blocks.append([one])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    placed = np.empty(len(order))
    placed[order] = np.concatenate([np.full(len(b), np.mean(b)) for b in blocks]) + steps
    return placed


def agreement_and_ratio(
    finals: Mapping[str, NDArray],
    agreements: Sequence[int],
    ratios: Sequence[float],
    *,
    rounds: int,
    best: int,
    paper: float,
) -> Figure:
    """Figure 6: final accuracy against the agreement rounds, and against the personal share.

    Args:
        finals: "agreement A", "ratio R" and the control -> final accuracies, shape (seeds,).
        agreements: rounds of panel (a).
        ratios: personal shares of panel (b), in [0, 1].
        rounds: of the training.
        best: agreement rounds that the paper finds best.
        paper: its accuracy at its best choice, in [0, 1].
    """
    fig, axes = plt.subplots(1, 2, figsize=(PAGE, 3.2), sharey=True)
    alone = float(finals[CONTROL].mean())
    shown = [paper]
    for ax, kind, values, title, choice in zip(
        axes,
        ("agreement", "ratio"),
        (agreements, ratios),
        (f"(a) agreement rounds, of {rounds}", "(b) final share of personal masks"),
        (best, 0.5),
        strict=True,
    ):
        runs = np.array([finals[f"{kind} {value:g}"] for value in values])
        places = np.arange(len(values))
        ax.plot(places, runs, ".", color=style.MUTED, markersize=4)
        for x, row in zip(places, runs, strict=True):
            one = interval(row)
            reach = [[one.mean - one.low], [one.high - one.mean]]
            ax.errorbar(x, one.mean, yerr=reach, color=style.PALETTE[0], marker="o", capsize=2)
            shown += [one.low, one.high]
        if choice in values:
            at = list(values).index(choice)
            ring = {"markerfacecolor": "none", "markeredgecolor": style.PALETTE[1]}
            ax.plot(at, paper, "o", markersize=7, **ring)
            if ax is axes[0]:
                words = f"paper's best: {100 * paper:.1f} %"
                above = {"textcoords": "offset points", "ha": "center", "fontsize": 7.5}
                ax.annotate(words, (at, paper), (0, 6), color=style.PALETTE[1], **above)
        ax.set_xticks(places, [f"{value:g}" for value in values])
        ax.set(xlabel=title, xlim=(-0.4, len(values) - 0.3))
    axes[0].set_ylabel("test accuracy at the end")
    low = 0.05 * np.floor(20 * (min(shown) - 0.01))
    axes[0].set_ylim(max(0.0, low), min(1.0, max(shown) + 0.03))
    words = f"local only: {100 * alone:.0f} %"
    if alone >= low:
        axes[1].axhline(alone, color=style.PALETTE[2], linestyle=style.DASHES[1])
        axes[1].text(-0.35, alone, words, fontsize=7.5, va="bottom", color=style.PALETTE[2])
    else:
        axes[1].text(
            0.02, 0.02, f"{words} (below the axis)", fontsize=7.5, transform=axes[1].transAxes,
            color=style.PALETTE[2],
        )  # fmt: skip
    axes[0].yaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))  # no half per cents
    axes[0].yaxis.set_major_formatter(percent())
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
