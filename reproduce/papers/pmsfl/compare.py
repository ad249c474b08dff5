"""Which attack reveals how much: images of all runs pooled, differences within each image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduce.papers.pmsfl.attack_runs import MEASURES
from reproduce.papers.statistics import Interval, interval

CONFIDENCE = 0.99
"""Of every interval: four measures are looked at, and any of them can tell."""

NOTHING = "mean of public images"
"""What an attacker makes of no observation: the control that a protected image must not beat."""

_TELLING = ("psnr", "ssim", "margin", "linked")
"""What an attack is judged by. The bare distance of features is not among them: a blurred mean is
far from every image, so that anything that is rougher comes nearer."""

Measures = Mapping[str, NDArray]


def pooled(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, NDArray]]:
    """Attack -> measure -> one number per image, runs after each other, shape (runs * images,).

    Raises:
        ValueError: no results, or results of different attacks.
    """
    if not results or len({tuple(one["attacks"]) for one in results}) != 1:
        raise ValueError("results must be those of one or more runs of the same attacks")
    return {
        name: {m: np.concatenate([one["attacks"][name][m] for one in results]) for m in MEASURES}
        for name in results[0]["attacks"]
    }


def by_run(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Attack -> measure -> "runs": the mean over the images of each run."""
    return {
        name: {
            m: {"runs": [float(np.mean(one["attacks"][name][m])) for one in results]}
            for m in MEASURES
        }
        for name in results[0]["attacks"]
    }


def excess(attack: Measures, other: Measures) -> dict[str, Interval]:
    """By how much `attack` reveals more than `other`, per measure, within each image."""
    return {m: interval(attack[m] - other[m], CONFIDENCE) for m in _TELLING}


def over_nothing(attack: Measures, nothing: Measures, batch: int) -> dict[str, Interval]:
    """By how much `attack` reveals more than no observation at all.

    Args:
        attack, nothing: of `pooled`.
        batch: images of a batch, n; guessing links one in n.

    PSNR and SSIM are compared with the control's; the margin of what reveals nothing is 0.
    """
    found = excess(attack, nothing) | {"margin": interval(attack["margin"], CONFIDENCE)}
    found["linked"] = interval(attack["linked"] - 1 / batch, CONFIDENCE)
    return found


def reveals(gains: Mapping[str, Interval]) -> bool:
    """Whether any measure is certainly above zero."""
    return any(one.sign > 0 for one in gains.values())


def told(attack: Measures) -> str:
    """The means, for a verdict: `31.2 dB, SSIM 0.97, linked 100 %`."""
    psnr, ssim, linked = (float(np.mean(attack[m])) for m in ("psnr", "ssim", "linked"))
    return f"{psnr:.1f} dB, SSIM {ssim:.2f}, linked {100 * linked:.0f} %"


def row(attack: Measures, nothing: Measures, batch: int) -> dict[str, str]:
    """One row of a table: mean and interval of each measure, and what gives the image away."""
    titles = {
        "psnr": "PSNR in dB", "ssim": "SSIM", "distance": "distance of features",
        "margin": "margin to others",
    }  # fmt: skip
    cells = {}
    for m, title in titles.items():
        one, digits = interval(attack[m], CONFIDENCE), 1 if m == "psnr" else 2
        cells[title] = f"{one.mean:.{digits}f} [{one.low:.{digits}f}, {one.high:.{digits}f}]"
    cells["linked"] = f"{100 * np.mean(attack['linked']):.0f} %"
    gains = over_nothing(attack, nothing, batch)
    cells["reveals, by"] = ", ".join(m for m, one in gains.items() if one.sign > 0) or "nothing"
    return cells
