"""The six noise levels of section 6 as a table with a dot plot, and the story below it."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from repro.report import style
from reproduce.papers.random_participation.noise_levels import PRINTED
from reproduce.papers.random_participation.pictures import WIDTH
from reproduce.papers.random_participation.words import decimal, listed, power
from reproduce.papers.ticks import percent

__all__ = ["noise_picture", "noise_story", "ranged"]

Numbers = Mapping[str, Mapping[str, float]]

_ROWS = ("scheme", "WCS", "OLS")
_THEOREM = {"scheme": "4.1", "WCS": "5.2", "OLS": "5.1"}
_COLUMNS = (
    # heading, place of its right end in inches
    ("printed σ", 1.5),
    ("theorem\nasks", 2.1),
    ("really needed", 3.1),
    ("δ at ε = {epsilon}\nwith printed σ", 4.12),
    ("ε at δ = {delta}\nwith printed σ", 5.05),
    ("verdict", 5.75),
)
_TABLE = 5.78  # inches


def ranged(low: float, high: float, digits: int = 0) -> str:
    """An interval as short as its ends allow: "2.37", "0.742 to 0.809", "1.6 to 2.1·10⁻⁵".

    Without `digits` a wide interval has 2 and a narrow one 3.
    """
    digits = digits or (2 if high > 1.05 * low else 3)
    first, last = power(low, digits), power(high, digits)
    if first == last:
        return last
    if "·" in first and first.partition("·")[2] == last.partition("·")[2]:
        first = first.partition("·")[0]
    return f"{first} to {last}"


def noise_picture(
    levels: Numbers,
    printed: Numbers,
    given: Mapping[str, Numbers],
    verdicts: Mapping[str, Mapping[str, str]],
    target: Mapping[str, float],
) -> Figure:
    """One row a printed sigma: what its theorem asks for, what is needed, what the printed one costs.

    Args:
        levels: experiment -> level name -> sigma in units of the clip, from `needed_noise`.
        printed: experiment -> scheme -> sigma printed in section 6.
        given: experiment -> scheme -> brackets of delta and epsilon, from `guarantees`.
        verdicts: experiment -> scheme -> verdict on the printed sigma.
        target: "epsilon" and "delta" of one iteration.
    """
    figure, (table, axis) = plt.subplots(
        1, 2, figsize=(WIDTH, 2.7), sharey=True, width_ratios=(_TABLE, WIDTH - _TABLE)
    )
    table.set(xlim=(0, _TABLE), ylim=(-8.6, 0.6))
    table.axis("off")
    bold = {"fontweight": "bold", "fontsize": 7}
    words = {name: decimal(value) for name, value in target.items()}
    for heading, right in _COLUMNS:
        table.text(right, 0, heading.format(**words), ha="right", va="center", **bold)
    row, paper = 1.0, style.PALETTE[1]
    for name, level in levels.items():
        table.text(0, -row, name, va="center", **bold)
        for scheme in _ROWS:
            row += 1
            keys = [
                f"scheme, {end}" if scheme == "scheme" else scheme for end in ("lower", "upper")
            ]
            sigma, cost, (low, high) = (
                printed[name][scheme],
                given[name][scheme],
                (level[key] for key in keys),
            )
            asked = level[PRINTED if scheme == "scheme" else scheme]
            texts = (
                f"{sigma:g}",
                f"{asked:.4g}" if asked else "no noise",
                ranged(low, high, 4),
                ranged(cost["delta, lower"], cost["delta, upper"]),
                ranged(cost["epsilon, lower"], cost["epsilon, upper"]),
                verdicts[name][scheme],
            )
            title = f"{scheme}, Thm {_THEOREM[scheme]}"
            table.text(0.06, -row, title, va="center", fontsize=7)
            for text, (_, right) in zip(texts, _COLUMNS, strict=True):
                table.text(right, -row, text, ha="right", va="center", fontsize=7)
            if low > 0:
                _share(axis, sigma / high, sigma / low, -row, paper)
        row += 1
    axis.axvline(1, color=style.PALETTE[0], lw=1.2)
    axis.set_xlim(-0.05, 1.12)
    axis.set_xticks([0, 0.5, 1])
    axis.yaxis.set_visible(False)
    axis.spines["left"].set_visible(False)
    axis.grid(False, axis="y")
    axis.xaxis.set_major_formatter(percent())
    axis.tick_params(labelsize=7)
    axis.set_xlabel("printed / needed σ", fontsize=7.5)
    return figure


def _share(axis: Axes, short: float, long: float, y: float, color: str) -> None:
    """The printed sigma as a share of the one needed, which lies between two values."""
    axis.plot([short, long], [y, y], color=color, lw=3, solid_capstyle="butt")
    axis.plot([(short + long) / 2], [y], "o", mfc="white", mec=color, ms=5.5, zorder=3)
    text = ranged(100 * short, 100 * long, 2 if long < 0.99 else 3)
    look = {"fontsize": 7, "va": "center", "ha": "right", "textcoords": "offset points"}
    axis.annotate(f"{text} %", (short, y), xytext=(-6, 0), **look)


def noise_story(
    levels: Numbers,
    printed: Numbers,
    given: Mapping[str, Numbers],
    verdicts: Mapping[str, Mapping[str, str]],
    target: Mapping[str, float],
) -> tuple[str, str, str]:
    """Claimed, found, why; the arguments are those of `noise_picture`."""
    stated = [f"{row['scheme']:g} ({name})" for name, row in printed.items()]
    ratios = [
        printed[name][row] / levels[name][row]
        for name in levels
        for row in ("WCS", "OLS")
        if verdicts[name][row] == "reproduced"
    ]
    apart = max((abs(ratio - 1) for ratio in ratios), default=0.0)
    low = ", each a little too small" if ratios and max(ratios) < 1 else ""
    parts = []
    for name, level in levels.items():
        cost, sigma = given[name]["scheme"], printed[name]["scheme"]
        needed = ranged(level["scheme, lower"], level["scheme, upper"], 4)
        spent = ranged(cost["delta, lower"], cost["delta, upper"])
        parts.append(f"{sigma:g} gives δ = {spent}, and {needed} is needed ({name})")
    asked = [
        f"{level[PRINTED]:.4g}" if level[PRINTED] else "no noise at all"
        for level in levels.values()
    ]
    return (
        f"With σ = {listed(stated)} the scheme is ({decimal(target['epsilon'])}, "
        f"{decimal(target['delta'])})-DP in each iteration; WCS and OLS need more.",
        f"Of the four levels of WCS and OLS, {len(ratios)} come out within {100 * apart:.1f} %{low}. Of the scheme, "
        f"{'; '.join(parts)}.",
        f"The printed Theorem 4.1 does not give these levels either: it asks for {listed(asked)}. None of the "
        "readings tried below gives them. For large clients the theorem cannot be right, because many collinear "
        "gradients hide the differing one in its formula.",
    )
