"""Rows of small images, such as reconstructions below their originals."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from repro.report import style


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
