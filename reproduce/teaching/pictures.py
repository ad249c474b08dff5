"""Pictures that come before a formula of a lesson: each draws the numbers that the formula is about."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

from repro.report import style


def speaks_for_ada(
    place: np.ndarray, epsilon: float, sigma: float, p: float, q: float
) -> tuple[np.ndarray, np.ndarray]:
    """With Ada minus e^epsilon times without Ada, as densities at `place`, for one other record of equal gradient.

    Returns:
        the part in which the other record is not used, and the part in which it is used. Both add up to the
        difference of the two worlds.
    """
    grown = np.exp(epsilon)
    nothing, one, two = (norm.pdf(place, mean, sigma) for mean in (0, 1, 2))
    unused = (1 - p + p * (1 - q) ** 2 - grown * (1 - p * q)) * nothing + p * q * (1 - q) * one
    used = p * q * (1 - q - grown) * one + p * q**2 * two
    return unused, used


def told_how_many(epsilon: float, sigma: float, p: float, q: float) -> Figure:
    """Lesson 1: the same outcomes, for Eve who is told whether Bob's record is used, and for Eve who is not."""
    style.use()
    place = np.linspace(-4 * sigma, 2 + 4 * sigma, 2001)
    unused, used = speaks_for_ada(place, epsilon, sigma, p, q)
    sides = {
        "Eve is told": {"Bob's record is not used": (unused, 0), "Bob's record is used": (used, 1)},
        "Eve is not told": {"both cases added up": (unused + used, 2)},
    }
    fig, axes = plt.subplots(1, 2, figsize=(7, 3.1), sharey=True)
    for ax, (title, curves) in zip(axes, sides.items(), strict=True):
        areas = []
        for label, (height, k) in curves.items():
            above = np.maximum(height, 0)
            areas.append(float(np.trapezoid(above, place)))
            style.curve(ax, place, height, k, label=label)
            ax.fill_between(place, 0, above, color=style.line(k)["color"], alpha=0.25, linewidth=0)
        total = " + ".join(f"{area:.3f}" for area in areas)
        if len(areas) > 1:
            total += f" = {sum(areas):.3f}"
        ax.axhline(0, color="black", linewidth=0.8)
        ax.set(title=f"{title}\nshaded area: {total}", xlabel="noisy sum")
        ax.legend(loc="lower right")
    lowest = min(unused.min(), used.min(), (unused + used).min())
    axes[0].set_ylim(1.6 * lowest, None)
    axes[0].set_ylabel("with Ada − e$^ε$ · without Ada")
    return fig


def bit_divergence(alpha: float, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Rényi divergence of one bit from another; `first` and `second` are the scores of their chances."""
    ones = -alpha * np.logaddexp(0, -first) - (1 - alpha) * np.logaddexp(0, -second)
    zeros = -alpha * np.logaddexp(0, first) - (1 - alpha) * np.logaddexp(0, second)
    return np.logaddexp(ones, zeros) / (alpha - 1)


def score_and_leak(alpha: float = 2.0) -> Figure:
    """Lesson 5: how a chance and its slope depend on the score, and how far apart two bits are."""
    style.use()
    fig, axes = plt.subplots(1, 2, figsize=(7, 3.1))
    score = np.linspace(-6, 6, 241)
    chance = 1 / (1 + np.exp(-score))
    style.curve(axes[0], score, chance, 0, label="chance θ of a 1")
    style.curve(axes[0], score, chance * (1 - chance), 1, label="slope of θ")
    axes[0].axhline(0.25, color="black", linestyle=":", linewidth=1.2, label="one quarter")
    axes[0].set(xlabel="score s of a bit", ylabel="chance, slope", ylim=(-0.03, 1.03))
    axes[0].set_title("The slope is at most ¼")
    axes[0].legend(loc="upper left")
    apart = np.linspace(0, 4, 81)
    for k, (middle, name) in enumerate(((0.0, "0"), (2.0, "2"), (4.0, "4"))):
        leak = bit_divergence(alpha, middle + apart / 2, middle - apart / 2)
        style.curve(axes[1], apart, leak, k + 2, label=f"bit, scores around {name}")
    gauss = alpha * apart**2 / 8
    axes[1].plot(apart, gauss, color="black", linestyle="-", label="noise of deviation 2")
    axes[1].set(xlabel="distance of two scores", ylabel=f"Rényi divergence, order {alpha:g}")
    axes[1].set_title("A bit leaks less than the noise")
    axes[1].legend(loc="upper left")
    return fig
