"""Marks at the edge of an axes are drawn whole, those beyond it not at all, and nothing is left behind."""

from __future__ import annotations

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from repro.report import style


@pytest.fixture
def drawn():
    """A curve with marks at both ends, in the middle, and beyond the axes."""
    fig, ax = plt.subplots()
    (line,) = ax.plot([0, 1, 2, 3], [0.5, 0.5, 0.5, 0.5], "o-", markevery=(0, 1))
    ax.set(xlim=(0, 2), ylim=(0, 1))
    yield fig, ax, line
    plt.close(fig)


def test_marks_at_the_edge_are_freed_and_those_beyond_are_left_out(drawn):
    fig, ax, line = drawn
    with style.whole_marks(fig):
        (extra,) = [one for one in ax.lines if one is not line]
        assert extra.get_xdata().tolist() == [0, 2]
        assert not extra.get_clip_on() and extra.get_linestyle() == "None"
        assert line.get_markevery() == [1]
    assert ax.lines[:] == [line]
    assert line.get_markevery() == (0, 1)


def test_more_ink_is_drawn_beside_the_axes(drawn):
    fig, ax, _ = drawn

    def beside() -> int:
        fig.canvas.draw()
        pixels = np.asarray(fig.canvas.buffer_rgba())[..., :3]
        middle = pixels.shape[0] - int((ax.bbox.y0 + ax.bbox.y1) / 2)
        edge = int(ax.bbox.x0)
        return int((pixels[middle - 4 : middle + 4, edge - 4 : edge - 2] < 200).sum())

    cut = beside()
    with style.whole_marks(fig):
        whole = beside()
    assert whole > cut


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_curves_without_marks_and_marks_inside_stay_as_they_are(scale):
    fig, ax = plt.subplots()
    ax.plot([1, 2, 3], [1, 2, 3], "-")
    ax.plot([2], [2], "s")
    ax.set(xlim=(1, 3), ylim=(0.5, 4), yscale=scale)
    with style.whole_marks(fig):
        assert len(ax.lines) == 2
    plt.close(fig)
