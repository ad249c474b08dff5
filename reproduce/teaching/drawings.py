"""Diagrams of mechanisms and adversaries, drawn by code: who holds what, what is sent, who looks on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from repro.report import style

SLIDE = (13.33, 7.5)
"""Size of a slide in inches, 16 to 9."""

_SLIDE_FONT = 18

_FILL = {
    "data": "#e8f1f8",
    "secret": "#fff1dc",
    "noise": "#e6f4ee",
    "seen": "#ffffff",
    "adversary": "#fbe4d8",
}
_EDGE = {
    "data": "#0072B2",
    "secret": "#E69F00",
    "noise": "#009E73",
    "seen": "#333333",
    "adversary": "#D55E00",
}
_LINE = {
    "data": "-",
    "secret": (0, (4, 2)),
    "noise": "-",
    "seen": "-",
    "adversary": (0, (1.2, 1.2)),
}


class Box(NamedTuple):
    """One part of a diagram.

    Attributes:
        x, y: centre, both in [0, 1].
        text: what stands in it.
        kind: "data", "secret" (a coin nobody sees), "noise", "seen" (what is published) or "adversary".
    """

    x: float
    y: float
    text: str
    kind: str


def diagram(
    boxes: Mapping[str, Box],
    arrows: Sequence[tuple[str, str, str]],
    size: tuple[float, float] = (8.6, 3.4),
) -> Figure:
    """Draw boxes and labelled arrows between them.

    Args:
        boxes: name -> box.
        arrows: (from, to, label) by the names of boxes.
        size: in inches.
    """
    style.use()
    fig, ax = plt.subplots(figsize=size)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.axis("off")
    drawn = {name: _box(ax, box) for name, box in boxes.items()}
    for start, end, label in arrows:
        arrow = FancyArrowPatch(
            (boxes[start].x, boxes[start].y),
            (boxes[end].x, boxes[end].y),
            patchA=drawn[start],
            patchB=drawn[end],
            arrowstyle="-|>",
            mutation_scale=13,
            shrinkA=3,
            shrinkB=3,
            color="#333333",
            linewidth=1.2,
        )
        ax.add_patch(arrow)
        middle = (boxes[start].x + boxes[end].x) / 2, (boxes[start].y + boxes[end].y) / 2
        if label:
            white = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            ax.text(*middle, label, ha="center", va="center", fontsize=8.5, bbox=white)
    return fig


def _box(ax: Axes, box: Box) -> FancyBboxPatch:
    lines = box.text.split("\n")
    width, height = 0.0108 * max(map(len, lines)) + 0.03, 0.085 * len(lines) + 0.06
    patch = FancyBboxPatch(
        (box.x - width / 2, box.y - height / 2),
        width,
        height,
        boxstyle="round,pad=0.005,rounding_size=0.02",
        facecolor=_FILL[box.kind],
        edgecolor=_EDGE[box.kind],
        linestyle=_LINE[box.kind],
        linewidth=1.4,
    )
    ax.add_patch(patch)
    ax.text(box.x, box.y, box.text, ha="center", va="center", fontsize=9)
    return patch


@contextmanager
def slide(title: str) -> Iterator[Axes]:
    """An empty picture at the size of a slide, with letters that can be read from the last row.

    What is drawn inside the `with` block gets the large letters and thick lines.
    """
    style.use()
    large = {
        "font.size": _SLIDE_FONT,
        "axes.titlesize": _SLIDE_FONT + 4,
        "axes.labelsize": _SLIDE_FONT,
        "xtick.labelsize": _SLIDE_FONT - 2,
        "ytick.labelsize": _SLIDE_FONT - 2,
        "legend.fontsize": _SLIDE_FONT - 3,
        "lines.linewidth": 3,
    }
    with plt.rc_context(large):
        fig, ax = plt.subplots(figsize=SLIDE)
        ax.set_title(title)
        # Notebooks cut off margins; a frame that nobody sees keeps the proportions of a slide.
        whole = Rectangle((0, 0), 1, 1, transform=fig.transFigure, fill=False, edgecolor="none")
        fig.add_artist(whole)
        yield ax


def noisy_number() -> Figure:
    """Lesson 0: two data sets, one noisy number, one attacker."""
    boxes = {
        "with": Box(0.12, 0.78, "data set\nwith Ada", "data"),
        "without": Box(0.12, 0.22, "data set\nwithout Ada", "data"),
        "sum": Box(0.36, 0.5, "clip each value,\nadd up", "seen"),
        "noise": Box(0.58, 0.85, "noise N(0, σ²)", "noise"),
        "number": Box(0.6, 0.5, "one noisy\nnumber", "seen"),
        "attacker": Box(
            0.86, 0.5, "attacker: knows all\nbut Ada's value,\nsays in or out", "adversary"
        ),
    }
    arrows = [
        ("with", "sum", ""),
        ("without", "sum", ""),
        ("sum", "number", ""),
        ("noise", "number", ""),
        ("number", "attacker", ""),
    ]
    return diagram(boxes, arrows)


def random_participation() -> Figure:
    """Lesson 1: coins of client and records, the sum, and two adversaries that see different things."""
    boxes = {
        "client": Box(0.1, 0.58, "Ada's client:\nAda's record,\nd others", "data"),
        "others": Box(0.1, 0.2, "other clients", "data"),
        "coin": Box(0.36, 0.85, "coin p: takes part?\ncoin q: each record?", "secret"),
        "sum": Box(0.38, 0.4, "sum of the\nclipped gradients", "seen"),
        "noise": Box(0.61, 0.85, "noise N(0, σ²)", "noise"),
        "result": Box(0.61, 0.4, "noisy sum", "seen"),
        "eve": Box(0.87, 0.65, "Eve sees the\nnoisy sum", "adversary"),
        "mallory": Box(0.87, 0.2, "Mallory also sees\nwho takes part", "adversary"),
    }
    arrows = [
        ("client", "coin", ""),
        ("coin", "sum", ""),
        ("others", "sum", ""),
        ("sum", "result", ""),
        ("noise", "result", ""),
        ("result", "eve", ""),
        ("result", "mallory", ""),
    ]
    return diagram(boxes, arrows)


def secret_submodel() -> Figure:
    """Lesson 2: a record trains one of several submodels, or some of several iterations."""
    boxes = {
        "record": Box(0.08, 0.5, "Ada's\nrecord", "data"),
        "coin": Box(0.25, 0.85, "coin: which\nsubmodel?", "secret"),
        "one": Box(0.4, 0.65, "submodel 1", "seen"),
        "two": Box(0.4, 0.42, "submodel 2", "seen"),
        "more": Box(0.4, 0.19, "submodel d", "seen"),
        "noise": Box(0.63, 0.85, "noise N(0, σ²)\non every submodel", "noise"),
        "sum": Box(0.63, 0.42, "noisy sums of\nall submodels", "seen"),
        "attacker": Box(0.88, 0.42, "Eve sees all sums,\nnot the coin", "adversary"),
    }
    arrows = [
        ("record", "one", ""),
        ("record", "two", ""),
        ("record", "more", ""),
        ("coin", "one", ""),
        ("one", "sum", ""),
        ("two", "sum", ""),
        ("more", "sum", ""),
        ("noise", "sum", ""),
        ("sum", "attacker", ""),
    ]
    return diagram(boxes, arrows)


def split_model() -> Figure:
    """Lesson 3: one half of the model travels with noise, the other half stays and remembers."""
    boxes = {
        "records": Box(0.09, 0.5, "client's\nrecords", "data"),
        "coin": Box(0.15, 0.88, "coin q: which\nrecords today?", "secret"),
        "public": Box(0.35, 0.7, "public half", "seen"),
        "private": Box(0.35, 0.25, "private half,\nkept for ever", "secret"),
        "noise": Box(0.6, 0.9, "noise N(0, σ²)", "noise"),
        "server": Box(0.63, 0.55, "server: sees each\nupload, and who came", "adversary"),
        "average": Box(0.9, 0.55, "average", "seen"),
        "reader": Box(0.86, 0.15, "reader: sees\naverages only", "adversary"),
    }
    arrows = [
        ("coin", "records", ""),
        ("records", "public", ""),
        ("records", "private", ""),
        ("private", "public", ""),
        ("public", "server", ""),
        ("noise", "server", ""),
        ("server", "average", ""),
        ("average", "reader", ""),
    ]
    return diagram(boxes, arrows)


def shares_and_servers() -> Figure:
    """Lesson 4: a client's noise, its shares over three servers, and who sees what."""
    boxes = {
        "client": Box(0.08, 0.5, "client:\ngradient", "data"),
        "noise": Box(0.12, 0.88, "own Laplace noise", "noise"),
        "one": Box(0.4, 0.8, "share for server 1", "secret"),
        "two": Box(0.4, 0.5, "share for server 2", "secret"),
        "three": Box(0.4, 0.2, "share for server 3", "secret"),
        "spy": Box(0.66, 0.85, "spy in two servers:\nsees two shares", "adversary"),
        "sum": Box(0.66, 0.4, "sum over all\nclients", "seen"),
        "reader": Box(0.9, 0.4, "reader: sees\nthe sum", "adversary"),
    }
    arrows = [
        ("noise", "client", ""),
        ("client", "one", ""),
        ("client", "two", ""),
        ("client", "three", ""),
        ("one", "sum", ""),
        ("two", "sum", ""),
        ("three", "sum", ""),
        ("one", "spy", ""),
        ("two", "spy", ""),
        ("sum", "reader", ""),
    ]
    return diagram(boxes, arrows)


def masked_activations() -> Figure:
    """Lesson 5: images pass a masked half of a network, and who knows what of it."""
    boxes = {
        "images": Box(0.11, 0.5, "client's images,\nlabels", "data"),
        "mask": Box(0.32, 0.86, "coin for each weight:\na fresh mask", "secret"),
        "bottom": Box(0.33, 0.5, "bottom half:\nweights × mask", "secret"),
        "sent": Box(0.55, 0.5, "activations\nof a batch", "seen"),
        "upload": Box(0.55, 0.15, "one sampled mask\na round", "seen"),
        "server": Box(
            0.87, 0.65, "server: knows the\nweights, the design,\nother images", "adversary"
        ),
        "views": Box(0.87, 0.2, "patient server: has\nseen each image\nmany times", "adversary"),
    }
    arrows = [
        ("images", "bottom", ""),
        ("mask", "bottom", ""),
        ("bottom", "sent", ""),
        ("sent", "server", ""),
        ("sent", "views", ""),
        ("bottom", "upload", ""),
        ("upload", "views", ""),
    ]
    return diagram(boxes, arrows)
