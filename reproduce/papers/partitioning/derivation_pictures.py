"""Small pictures of the derivations of partitioning: what fails, where, and by how much."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from repro.report import style
from reproduce.papers.partitioning.pictures import log_ticks
from reproduce.papers.partitioning.second_routes import Tracks

__all__ = [
    "along_rays", "both_directions", "little_noise", "one_coin", "poisson_bend", "spread_violation",
]  # fmt: skip

WIDTH, HEIGHT = 7.0, 2.5  # inches
_SMALL = 8.0  # points

Curves = Mapping[str, NDArray]


def _axes(count: int) -> tuple[Figure, list[Axes]]:
    """A row of axes with small type."""
    figure, axes = plt.subplots(1, count, figsize=(WIDTH, HEIGHT), squeeze=False)
    for axis in axes[0]:
        axis.tick_params(labelsize=_SMALL)
        axis.xaxis.label.set_size(_SMALL + 1)
        axis.yaxis.label.set_size(_SMALL + 1)
    return figure, list(axes[0])


def _named(axis: Axes, title: str, x: str, y: str) -> None:
    axis.set_title(title, fontsize=_SMALL + 1, loc="left")
    axis.set_xlabel(x)
    axis.set_ylabel(y)


def both_directions(
    epsilon: NDArray, delta: Curves, order: NDArray, divergence: Curves, shift: float
) -> Figure:
    """The privacy profile and the Rényi divergence of two blocks, forward and reverse.

    Args:
        epsilon: shape (n,); delta: "forward" and "reverse" -> shape (n,).
        order: Rényi orders, shape (m,); divergence: the same names -> shape (m,).
        shift: clip over sigma, for the title.
    """
    figure, (left, right) = _axes(2)
    for k, name in enumerate(("forward", "reverse")):
        style.curve(left, epsilon, delta[name], k, label=name, marks=5)
        style.curve(right, order, divergence[name], k, label=name, marks=5)
    left.set_yscale("log")
    left.legend(fontsize=_SMALL)
    _named(left, f"two blocks, c/σ = {shift:g}", "ε", "δ(ε)")
    _named(right, "the reverse divergence is the smaller one", "order α", "Rényi divergence")
    return figure


def spread_violation(shift: NDArray, factor: Curves, certified: Mapping[str, tuple]) -> Figure:
    """Lemma 3.18: the divergence over its printed bound; above 1 the lemma is false.

    Args:
        shift: clip over sigma, shape (n,).
        factor: label -> divergence over bound, shape (n,).
        certified: label -> (shift, factor) of a proven lower bound.
    """
    figure, (axis,) = _axes(1)
    for k, (label, values) in enumerate(factor.items()):
        style.curve(axis, shift, values, k, label=label, marks=6)
    for k, (label, (a, value)) in enumerate(certified.items(), start=len(factor)):
        look = style.line(k)
        axis.plot(a, value, look["marker"], color=look["color"], label=label, markersize=6)
    axis.axhline(1, color=style.MUTED, linewidth=1)
    axis.annotate("printed bound", (axis.get_xlim()[1], 1), (-4, 4), textcoords="offset points",
                  ha="right", fontsize=_SMALL, color=style.MUTED)  # fmt: skip
    axis.legend(fontsize=_SMALL, ncols=2)
    _named(axis, "Lemma 3.18, k = 1, α = 2", "c/σ", "divergence over bound")
    return figure


def along_rays(tracks: Tracks, names: tuple[str, ...]) -> Figure:
    """Appendix A.7 in the plane: mass per length along rays, mixture against wider Gaussian.

    Args:
        tracks: densities with the surface element along each ray.
        names: what each ray points to.
    """
    figure, axes = _axes(len(names))
    for axis, name, mixture in zip(axes, names, tracks.mixture, strict=True):
        style.curve(axis, tracks.radius, mixture, 0, label="mixture P''", marks=0)
        style.curve(axis, tracks.radius, tracks.gaussian, 1, label="Gaussian P'''", marks=0)
        axis.fill_between(tracks.radius, mixture, tracks.gaussian, color=style.MUTED, alpha=0.25)
        _named(axis, f"ray {name}", "distance from zero, in σ", "mass per length")
    limit = max(axis.get_ylim()[1] for axis in axes)
    for axis in axes:
        axis.set_ylim(0, limit)
    axes[-1].legend(fontsize=_SMALL)
    return figure


def one_coin(rate: NDArray, joint: NDArray, added: NDArray) -> Figure:
    """Section 3.2.2: the cost of both parts under one coin, against the sum of sampled costs.

    Args:
        rate: of Poisson sampling, shape (n,).
        joint, added: Rényi divergences of order 2, shape (n,).
    """
    figure, (left, right) = _axes(2)
    style.curve(left, rate, joint, 0, label="one coin for both parts", marks=5)
    style.curve(left, rate, added, 1, label="costs sampled apart, then added", marks=5)
    left.set_ylim(0, 1.35 * max(joint[-1], added[-1]))
    left.legend(fontsize=_SMALL, loc="upper left")
    _named(left, "order 2, c = σ on each part", "sampling rate γ", "Rényi divergence")
    style.curve(right, rate, joint / added, 0, marks=0)
    right.axhline(1, color=style.MUTED, linewidth=1)
    _named(right, "how much the sum misses", "sampling rate γ", "one coin over sum")
    return figure


def little_noise(sigma: NDArray, delta: Curves, epsilon: float) -> Figure:
    """Balanced against Poisson subsampling at one epsilon, T = 2, k = 1, as the noise falls.

    Args:
        sigma: noise over clip, shape (n,); delta: label -> shape (n,); epsilon: of the profile.
    """
    figure, (axis,) = _axes(1)
    for k, (label, values) in enumerate(delta.items()):
        style.curve(axis, sigma, values, k, label=label, marks=6)
    log_ticks(axis, "x")
    axis.set_ylim(0, 1.02)
    axis.legend(fontsize=_SMALL)
    _named(axis, f"T = 2, k = 1, ε = {epsilon:g}", "σ/c", "δ(ε)")
    return figure


def poisson_bend(order: NDArray, share: Mapping[str, NDArray], middle: float) -> Figure:
    """Poisson subsampling: the curve over its final line, for runs of several lengths and noises.

    Args:
        order: Rényi orders, shape (n,); share: label -> divergence / (T α c²/(2σ²)), shape (n,).
        middle: the share that counts as half way.
    """
    figure, (axis,) = _axes(1)
    for k, (label, values) in enumerate(share.items()):
        style.curve(axis, order, values, k, label=label, marks=7)
    axis.axhline(middle, color=style.MUTED, linewidth=1, linestyle=":")
    axis.legend(fontsize=_SMALL, ncols=2)
    _named(axis, "the bend depends on σ, not on T", "order α", "share of the final line")
    return figure
