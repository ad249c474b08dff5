"""The ticks of one logarithmic axis have one notation."""

from __future__ import annotations

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import pytest

from reproduce.papers.ticks import Alike


@pytest.mark.parametrize(
    ("limits", "ticks", "seen"),
    [
        ((1e-3, 1e3), [1e-3, 0.1, 10, 1e3], ["0.001", "0.1", "10", "1,000"]),
        ((1e-4, 1e2), [1e-4, 0.01, 1, 100], ["10⁻⁴", "10⁻²", "1", "10²"]),
        ((1, 1e6), [1, 10, 1e3, 1e6], ["1", "10", "10³", "10⁶"]),
        ((0.01, 1), [1e-5, 0.01, 1], [None, "0.01", "1"]),  # a tick out of view asks for nothing
        ((1e-4, 1e-2), [2e-4, 1e-3], ["2·10⁻⁴", "10⁻³"]),
    ],
)
def test_one_tick_decides_for_all(limits, ticks, seen):
    fig, ax = plt.subplots()
    ax.set(xscale="log", xlim=limits)
    ax.xaxis.set_major_formatter(Alike())
    found = ax.xaxis.get_major_formatter().format_ticks(ticks)
    plt.close(fig)
    assert [a for a, b in zip(found, seen, strict=True) if b] == [b for b in seen if b]
