"""Which attack reveals how much: images of all runs pooled, differences within each image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reproduce.papers.pmsfl.attack_runs import MEASURES, STAGES, unpacked
from reproduce.papers.statistics import Interval, interval

CONFIDENCE = 0.99
"""Of every interval: four measures are looked at, and any of them can tell."""

NOTHING = "mean of public images"
"""What an attacker makes of no observation: the control that a protected image must not beat."""

_TELLING = ("psnr", "ssim", "margin", "linked")
"""What an attack is judged by. The bare distance of features is not among them: a blurred mean is
far from every image, so that anything that is rougher comes nearer."""

Measures = Mapping[str, NDArray]
Rows = dict[str, dict[str, str]]
"""Panel -> label of a row -> name of the attack; "" for the originals."""


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


def drawn(first: Mapping[str, Any], rows: Rows) -> dict[str, NDArray[np.uint8]]:
    """Images of one run that a picture with these rows draws, by attack; "" for the originals."""
    names = {name for panel in rows.values() for name in panel.values()}
    return {
        name: unpacked((first["attacks"][name] if name else first)["shown"])
        for name in sorted(names)
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
    """The means, for a verdict: `31.2 dB, likeness 0.97, linked 100 %`."""
    psnr, like, linked = (float(np.mean(attack[m])) for m in ("psnr", "margin", "linked"))
    return f"{psnr:.1f} dB, likeness {like + 0.0:.2f}, linked {100 * linked:.0f} %"


def note(attack: Measures) -> str:
    """The means, beside a row of images: `31.2 dB` and `0.97` in two lines."""
    psnr, like = (float(np.mean(attack[m])) for m in ("psnr", "margin"))
    return f"{psnr:.1f} dB\n{max(like, 0.0):.2f}"


def row(attack: Measures, nothing: Measures, batch: int) -> dict[str, str]:
    """One row of a table: mean and interval of each measure, and what gives the image away."""
    titles = {
        "psnr": "PSNR in dB", "ssim": "SSIM", "distance": "distance of features",
        "margin": "likeness",
    }  # fmt: skip
    cells = {}
    for m, title in titles.items():
        one, digits = interval(attack[m], CONFIDENCE), 1 if m == "psnr" else 2
        cells[title] = f"{one.mean:.{digits}f} [{one.low:.{digits}f}, {one.high:.{digits}f}]"
    cells["linked"] = f"{100 * np.mean(attack['linked']):.0f} %"
    gains = over_nothing(attack, nothing, batch)
    cells["reveals, by"] = ", ".join(m for m, one in gains.items() if one.sign > 0) or "nothing"
    return cells


# Rows of the pictures and tables ------------------------------------------------------------------


def table(attacks: Mapping[str, Measures], rows: Rows, batch: int) -> pd.DataFrame:
    """Every attack of `rows` with its measures, see `row`; `batch` images are attacked together."""
    nothing = attacks[NOTHING]
    return pd.DataFrame(
        {
            (title, label): row(attacks[name], nothing, batch)
            for title, panel in rows.items()
            for label, name in panel.items()
            if name
        }
    ).T


def noise_rows(attacks: Mapping[str, Measures], epsilons: Sequence[float], seen: int) -> Rows:
    """Figure 2: every budget once, and the median of `seen` copies."""
    rows = {
        "one copy, public images known": {
            "no noise": "splitfed",
            **{f"ε = {e:g}": f"dp {e:g}" for e in epsilons},
        },
        f"the median of {seen} copies": {
            "no noise": "splitfed",
            **{f"ε = {e:g}": f"dp {e:g}, median of many rounds" for e in epsilons},
        },
    }
    return _made(attacks, rows)


def more_noise_rows(attacks: Mapping[str, Measures], epsilons: Sequence[float], seen: int) -> Rows:
    """Figure 2: the attacks that the picture leaves out."""
    largest = max(epsilons)
    rows = {
        "one copy, variants": {
            "SplitFed, no public images": "splitfed, no public images",
            "SplitFed, with gradients": "splitfed, gradients",
            **{f"ε = {e:g}, with gradients": f"dp {e:g}, gradients" for e in epsilons},
            f"ε = {largest:g} for the record": f"dp {largest:g}, whole record",
        },
        f"average of {seen} copies": {f"ε = {e:g}": f"dp {e:g}, many rounds" for e in epsilons},
        "no copy": {
            "mean of public images": NOTHING,
            "nearest public image": "nearest public image",
        },
    }
    return _made(attacks, rows)


def mask_rows(attacks: Mapping[str, Measures], epsilon: float, config: Mapping[str, Any]) -> Rows:
    """Figure 5: the paper's three under one attack, and PM-SFL under attackers who know of masks."""
    start, end = STAGES
    rows = {
        "one copy, public images known": {
            "SplitFed": "splitfed",
            f"SplitFed-DP,\nε = {epsilon:g}": f"dp {epsilon:g}",
            "PM-SFL,\nfirst round": f"pmsfl, {start}, mean mask",
            f"PM-SFL,\n{config['rounds']} rounds": f"pmsfl, {end}, mean mask",
        },
        f"who knows of masks, after {config['rounds']} rounds": {
            "infers the\nmask": f"pmsfl, {end}, mask inferred",
            f"infers {config['copies']}\nmasks": f"pmsfl, {end}, several copies, each mask inferred",
            f"averages {config['seen']}\ncopies": f"pmsfl, {end}, many rounds, more masks averaged",
            f"ε = {epsilon:g},\n{config['seen']} copies": f"dp {epsilon:g}, median of many rounds",
        },
    }
    return _made(attacks, rows)


def more_mask_rows(attacks: Mapping[str, Measures], config: Mapping[str, Any]) -> Rows:
    """Figure 5: every attack on PM-SFL, by stage."""
    attackers = {
        "mean mask": "mean mask",
        "masks averaged": "masks averaged",
        f"likeliest of {config['guesses']} masks": "likeliest of several masks",
        "mask inferred": "mask inferred",
        "mask inferred, scores seen": "score gradients",
        "uploaded mask, a new one": "mask uploaded, sampled anew",
        "many copies, masks averaged": "many rounds, masks averaged",
        f"many copies, {config['versions']} masks": "many rounds, more masks averaged",
        f"{config['copies']} copies, masks inferred": "several copies, each mask inferred",
        "uploaded mask, the one used": "mask uploaded, the one used",
    }
    rows = {
        stage: {label: f"pmsfl, {stage}, {name}" for label, name in attackers.items()}
        for stage in STAGES
    }
    rows["no copy"] = {
        "mean of public images": NOTHING,
        "nearest public image": "nearest public image",
    }
    return _made(attacks, rows)


def _made(attacks: Mapping[str, Measures], rows: Rows) -> Rows:
    """The rows whose attacks were made, the originals above them; no empty panel."""
    kept = {
        title: {label: name for label, name in panel.items() if name in attacks}
        for title, panel in rows.items()
    }
    return {title: {"original": ""} | panel for title, panel in kept.items() if panel}


def reduction(config: Mapping[str, Any], stand_in: str) -> str:
    """What the run of a configuration reduces against the paper, for a picture's footer."""
    parts = [stand_in]
    if config["width"] < 64:
        parts.append(f"ResNet of width {config['width']} in place of 64")
    if config["layers"] < 2:
        parts.append(f"{config['layers']} residual block in a stage in place of 2")
    if config["rounds"] < 1000:
        parts.append(f"{config['rounds']} rounds of training, {config['clients']} clients")
    return "; ".join(filter(None, parts))
