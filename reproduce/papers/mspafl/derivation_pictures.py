"""The explaining pictures of the derivations notebook of MS-PAFL: 7 inches wide, one idea each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import norm

from repro.report import style
from reproduce.papers.mspafl.pictures import WIDTH, log_axis
from reproduce.papers.mspafl.second_routes import CarriedUploads

_LEGEND = 7.5  # points


def _panels(count: int, height: float) -> tuple[Figure, NDArray]:
    """One row of panels."""
    figure, axes = plt.subplots(1, count, figsize=(WIDTH, height), squeeze=False)
    return figure, axes[0]


def memory(
    data: CarriedUploads, neighbour: CarriedUploads, forgotten: NDArray, p: float, q: float
) -> Figure:
    """Left: one client's uploads with the record and with its replacement. Right: how many are moved.

    Args:
        data, neighbour: runs of the attack on neighbouring data sets, shape (runs, rounds).
        forgotten: whether the upload is moved if nothing is kept, bool, shape (runs, rounds); only
            rounds in which the client is there count.
        p, q: check-in probability and share of the records that a round uses.
    """
    figure, (left, right) = _panels(2, 2.5)
    moved = np.abs(data.clipped - neighbour.clipped) > 1
    rounds = np.arange(1, moved.shape[1] + 1)
    first = np.where(moved.any(axis=1), moved.argmax(axis=1), 0)
    run = int(np.argsort(first)[3 * len(first) // 4])  # a run in which the first draw can be seen
    there = data.present[run]
    for k, (label, found) in enumerate((("with the record", data), ("replaced", neighbour))):
        left.plot(rounds[there], found.clipped[run, there], drawstyle="steps-post", label=label,
                  color=style.line(k)["color"], linestyle=style.line(k)["linestyle"])  # fmt: skip
    left.set(xlabel="round t", ylabel="clipped upload, in units of C", ylim=(-1.3, 1.3))
    left.set_title("one client, before noise")
    left.legend(fontsize=_LEGEND, loc="center right")
    checked = np.maximum(data.present.sum(axis=0), 1)
    shares = {
        "private half kept": (moved & data.present).sum(axis=0) / checked,
        "nothing kept": (forgotten & data.present).sum(axis=0) / checked,
        "1 - (1 - q)(1 - pq)ᵗ⁻¹": 1 - (1 - q) * (1 - p * q) ** (rounds - 1.0),
    }
    for k, (label, share) in enumerate(shares.items()):
        right.plot(rounds, share, label=label, color=style.line(k)["color"],
                   linestyle=style.line(k)["linestyle"], linewidth=1.2)  # fmt: skip
    right.axhline(q, color=style.MUTED, linewidth=0.8)
    right.text(
        rounds[-1], q + 0.06, f"q = {q:.3f}", ha="right", fontsize=_LEGEND, color=style.MUTED
    )
    right.set(xlabel="round t", ylabel="share of the uploads", ylim=(0, 1.08))
    right.set_title("uploads moved by 2C")
    right.legend(fontsize=_LEGEND, loc="center right")
    return figure


def broken_pairs(
    epsilon: NDArray, deltas: Mapping[str, NDArray], stated: Mapping[str, tuple[float, float]]
) -> Figure:
    """What is disclosed against what is promised: a promise below its curve is broken.

    Args:
        epsilon: shape (n,), > 0.
        deltas: case -> a lower bound on the true delta at each epsilon, shape (n,).
        stated: case -> the printed epsilon and delta.
    """
    figure, axes = _panels(len(deltas), 2.4)
    for k, (axis, (case, values)) in enumerate(zip(axes, deltas.items(), strict=True)):
        e, d = stated[case]
        colour = style.line(0)["color"]
        axis.plot(epsilon, values, color=colour, linestyle="-")
        axis.fill_between(epsilon, 1e-12, values, color=colour, alpha=0.12, linewidth=0)
        axis.plot([e], [d], "X", color=style.PALETTE[1], markersize=8)
        axis.annotate("printed pair", (e, d), xytext=(-6, -3), textcoords="offset points", ha="right",
                      fontsize=_LEGEND, color=style.PALETTE[1])  # fmt: skip
        log_axis(axis, "x", epsilon[0], epsilon[-1])
        log_axis(axis, "y", d / 30, max(float(values.max()) * 3, d * 3))
        axis.set_title(case, fontsize=8.5)
        axis.set_xlabel("ε")
        if k == 0:
            axis.set_ylabel("δ")
            axis.text(epsilon[0] * 1.1, values[0] * 1.25, "true δ, at least", fontsize=_LEGEND)
    return figure


def silent_uploads(few: int, many: int, sigma: float, alpha: float) -> Figure:
    """Two averages of pure noise, of fewer and of more uploads, and what tells them apart.

    Args:
        few, many: numbers of clients. sigma: noise of one upload. alpha: exp(epsilon) >= 1.
    """
    figure, (axis,) = _panels(1, 2.3)
    x = np.linspace(-3 * sigma / np.sqrt(few), 3 * sigma / np.sqrt(few), 801)
    narrow, wide = (norm.pdf(x, scale=sigma / np.sqrt(n)) for n in (many, few))
    for k, (n, values) in enumerate(((many, narrow), (few, wide))):
        axis.plot(x, values, color=style.line(k)["color"], linestyle=style.line(k)["linestyle"],
                  label=f"average of {n} noisy zeros")  # fmt: skip
    axis.fill_between(x, alpha * wide, narrow, where=narrow > alpha * wide,
                      color=style.PALETTE[0], alpha=0.2, linewidth=0, label="area = δ")  # fmt: skip
    axis.set(xlabel="averaged model (no data used at all)", ylabel="density", yticks=[])
    axis.legend(fontsize=_LEGEND)
    return figure


def constants(rounds: NDArray, curves: Mapping[str, NDArray]) -> Figure:
    """The factor c0 that Theorem 3 would need, against the number of rounds; constant if it were true.

    Args:
        rounds: T, shape (n,).
        curves: label -> epsilon over q epsilon_l sqrt(p T / (1 - q)), shape (n,); NaN is left out.
    """
    figure, (axis,) = _panels(1, 2.6)
    for k, (label, values) in enumerate(curves.items()):
        axis.plot(rounds, values, label=label, **style.line(k))
    every = np.concatenate(list(curves.values()))
    log_axis(axis, "x", rounds[0], rounds[-1])
    log_axis(axis, "y", np.nanmin(every) / 1.6, np.nanmax(every) * 1.6)
    axis.set(xlabel="rounds T", ylabel="c₀ that (22) would need")
    axis.legend(fontsize=_LEGEND)
    return figure


def whole_run(
    rounds: NDArray, bracket: Mapping[str, NDArray], curves: Mapping[str, Sequence[float]]
) -> Figure:
    """Epsilon of whole runs: the bracket with the private half kept, and further curves.

    Args:
        rounds: T, shape (n,).
        bracket: "lower" and "upper", shape (n,).
        curves: label -> epsilon, shape (n,); NaN is left out.
    """
    figure, (axis,) = _panels(1, 2.6)
    axis.fill_between(rounds, bracket["lower"], bracket["upper"], color=style.PALETTE[0], alpha=0.35,
                      label="true ε with the private half kept: bracket")  # fmt: skip
    for end in ("lower", "upper"):
        axis.plot(rounds, bracket[end], color=style.PALETTE[0], linestyle="-", linewidth=0.9)
    for k, (label, values) in enumerate(curves.items(), 1):
        axis.plot(rounds, values, label=label, **style.line(k))
    every = np.concatenate(
        [np.asarray(v, dtype=float) for v in (*bracket.values(), *curves.values())]
    )
    log_axis(axis, "x", rounds[0], rounds[-1])
    log_axis(axis, "y", np.nanmin(every) / 1.6, np.nanmax(every) * 1.6)
    axis.set(xlabel="rounds T", ylabel="ε of a client's run")
    axis.legend(fontsize=_LEGEND)
    return figure
