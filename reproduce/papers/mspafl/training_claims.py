"""Figure 2 of MS-PAFL: its tables, its data and its claims, on whatever runs are at hand.

Differences are taken within each seed and count when their 95 % interval over the seeds excludes
zero. With one seed there is no interval, and nothing is decided. The texts are built from the
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from repro.accounting.mspafl.printed import sampling_ratio
from reproduce.papers.mspafl import compare
from reproduce.papers.mspafl.claims import Finding
from reproduce.papers.mspafl.compare import Runs
from reproduce.papers.mspafl.runs import METHODS
from reproduce.papers.statistics import Interval, final

SPLITS = {"one_label": "one label per client", "shuffled": "both labels at every client"}
NAMES = {
    "mspafl": "MS-PAFL",
    "noise_only": "uploads of pure noise",
    "alone": "alone, no communication",
    "split_clean": "MS-PAFL without noise",
    "dp_fedavg": "DP-FedAvg, no splitting",
    "fedavg": "FedAvg, no noise",
}
_SLIGHTLY = 0.001  # the smallest gain in accuracy that we call "slightly higher"
_STEADIER = 0.01  # the smallest share of its size by which a change must be smaller to be steadier

Curves = Mapping[tuple[str, bool], Runs]
Readings = Mapping[tuple[str, str], Runs]
Loudness = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Split -> p as text -> what `compare.loudness` returns."""


def accuracies(curves: Curves, p: Sequence[float], rate: float) -> pd.DataFrame:
    """Final accuracy of every method in per cent, WOR, with its interval over the seeds."""
    rows = {}
    for split, words in SPLITS.items():
        runs = curves[split, False]
        for method in METHODS:
            row = {
                f"p = {x:g}": compare.estimate(final(runs[method, x, rate]["accuracy"])).text()
                for x in p
            }
            for measure in ("own", "averaged"):
                mean = 100 * final(runs[method, max(p), rate][measure]).mean()
                row[f"{measure}, p = {max(p):g}"] = f"{mean:.1f}"
            rows[words, NAMES[method]] = row
    return pd.DataFrame.from_dict(rows, orient="index")


def loudness(curves: Curves, p: Sequence[float], rate: float) -> dict[str, dict[str, Any]]:
    """How loud signal, data and noise are in the average of MS-PAFL, WOR, as `Loudness`."""
    return {
        split: {f"{x:g}": compare.loudness(curves[split, False]["mspafl", x, rate]) for x in p}
        for split in SPLITS
    }


def loudness_table(loud: Loudness) -> pd.DataFrame:
    """Mean squared norms in the server's average."""
    table = {
        (SPLITS[split], f"p = {x}"): {
            "signal": f"{power['signal']:.2f}",
            "of it data": f"{power['data']:.1e}",
            "noise": f"{power['noise']:.1f}",
            "signal / noise": f"{power['signal to noise']:.3f}",
            "in dB": f"{10 * np.log10(power['signal to noise']):.0f}",
            "data / noise": f"{power['data to noise']:.0e}",
        }
        for split, by_p in loud.items()
        for x, power in by_p.items()
    }
    return pd.DataFrame.from_dict(table, orient="index")


def readings_table(readings: Readings, p: float, rates: Sequence[float]) -> pd.DataFrame:
    """MS-PAFL minus each of two controls at one p, in percentage points, for every reading."""
    table = {}
    for (kind, split), runs in readings.items():
        for control in ("noise_only", "alone"):
            gaps = compare.gaps(runs, "mspafl", control)
            table[kind, SPLITS[split], f"minus {NAMES[control]}"] = {
                f"step size {rate:g}": gaps[p, rate].text() for rate in rates
            }
    return pd.DataFrame.from_dict(table, orient="index")


def numbers(
    curves: Curves, readings: Readings, p: Sequence[float], rate: float
) -> dict[str, dict[str, Any]]:
    """The accuracies behind the picture and the tables, for the figure's json."""

    def entry(runs: NDArray) -> dict[str, Any]:
        return {"runs": runs, "mean": runs.mean(axis=0)}

    titles = {key: f"{key[0]}, {'WR' if key[1] else 'WOR'}" for key in curves}
    return {
        "accuracy": {
            titles[key]: {
                f"{m}, p = {x:g}": entry(runs[m, x, rate]["accuracy"])
                for m in ("mspafl", "noise_only")
                for x in p
            }
            for key, runs in curves.items()
        },
        "final": {
            titles[key]: {
                f"{m}, p = {x:g}, {measure}": entry(final(runs[m, x, rate][measure]))
                for m in METHODS
                for x in p
                for measure in ("accuracy", "own", "averaged")
            }
            for key, runs in curves.items()
        },
        "other readings, final accuracy": {
            f"{kind}, {split}": {
                f"{m}, p = {x:g}, step size {step:g}": {"runs": final(runs[m, x, step]["accuracy"])}
                for m, x, step in runs
            }
            for (kind, split), runs in readings.items()
        },
    }


# Claims -------------------------------------------------------------------------------------------


def _by_split(intervals: Mapping[str, Interval], after: str, digits: int = 1) -> str:
    return ", ".join(f"{SPLITS[s]} {one.text(digits)} {after}" for s, one in intervals.items())


def _one_seed(curves: Curves) -> Finding | None:
    """The answer to every question where there is a single seed."""
    runs = next(iter(curves["one_label", False].values()))
    if len(runs["accuracy"]) > 1:
        return None
    return Finding(None, "one seed gives no interval")


def grows_with_p(curves: Curves) -> Finding:
    """Whether accuracy, averaged over all rounds, grows with p in all panels."""
    if one := _one_seed(curves):
        return one
    rates = sorted({p for _, p, _ in curves["one_label", False]})
    if len(rates) < 2:
        return Finding(None, "growth needs two values of p")
    grown, texts = [], []
    for (split, replacement), runs in curves.items():
        means, gain = compare.growth(runs, "mspafl")
        grown.append(bool(np.all(np.diff(means) > 0) and gain.sign > 0))
        if not replacement:
            _, hollow = compare.growth(runs, "noise_only")
            texts.append(
                f"{SPLITS[split]}: {', '.join(f'{100 * x:.1f}' for x in means)} %, gain "
                f"{gain.text()} points, with uploads of pure noise {hollow.text()}"
            )
    return Finding(
        all(grown),
        f"p = {', '.join(f'{x:g}' for x in rates)}, mean over all rounds, WOR"
        + (" (WR alike): " if len(set(grown)) == 1 else ": ")
        + "; ".join(texts),
        "the accuracies do not increase in all panels, or the gain is within the noise of the seeds",
    )


def replacement(curves: Curves, records: int, draws: int) -> dict[str, Finding]:
    """With replacement against without.

    Args:
        curves: runs by split and replacement.
        records: of a client.
        draws: of a client in a round, Q b.

    Returns:
        "wr-ends-higher" and "wor-steadier".
    """
    if one := _one_seed(curves):
        return {"wr-ends-higher": one, "wor-steadier": one}
    ends = {s: compare.with_minus_without(curves, s, "mspafl", final) for s in SPLITS}
    calm = {s: compare.with_minus_without(curves, s, "mspafl", compare.wobble) for s in SPLITS}
    size = {
        s: np.mean(
            [compare.wobble(one["accuracy"]) for (m, *_), one in curves[s, False].items()
             if m == "mspafl"]
        )
        for s in SPLITS
    }  # fmt: skip
    q, less_q = (
        float(sampling_ratio(records, draws, replacement=again)) for again in (False, True)
    )
    return {
        "wr-ends-higher": Finding(
            all(one.sign > 0 and one.mean >= _SLIGHTLY for one in ends.values()),
            "WR minus WOR, mean over p: " + _by_split(ends, "points", 2),
            f"no such difference: {draws} draws from {records} records give {records * less_q:.1f} "
            "different ones on average, and the noise is the same in both panels, so nothing "
            f"favours WR; by Remark 2 the smaller q of WR would allow {100 * (1 - less_q / q):.1f} % "
            "less noise, which figure 2 does not use",
        ),
        "wor-steadier": Finding(
            all(one.sign > 0 and one.mean >= _STEADIER * size[s] for s, one in calm.items()),
            "root mean square change between evaluations, WR minus WOR: "
            + ", ".join(
                f"{SPLITS[s]} {one.text(2)} of {100 * size[s]:.1f} points"
                for s, one in calm.items()
            ),
            "equally unsteady: the noise moves the curves, and it is the same in both",
        ),
    }


def against_controls(
    curves: Curves, readings: Readings, majority: float, loud: Loudness
) -> dict[str, Finding]:
    """MS-PAFL against its controls, WOR, mean over p.

    Args:
        curves: runs by split and replacement, of one learning rate.
        readings: runs of the other readings.
        majority: accuracy of always answering the most frequent class.
        loud: what `loudness` returns.

    Returns:
        "beats-dp-fedavg", "highly-accurate", "utility-kept" and "uploads-inform".
    """
    claims = ("beats-dp-fedavg", "highly-accurate", "utility-kept", "uploads-inform")
    if one := _one_seed(curves):
        return dict.fromkeys(claims, one)
    without = {s: curves[s, False] for s in SPLITS}
    lead = {s: compare.pooled(runs, "mspafl", "dp_fedavg") for s, runs in without.items()}
    alone = [compare.pooled(runs, "alone", "dp_fedavg").text() for runs in without.values()]
    cost = {s: compare.pooled(runs, "mspafl", "alone") for s, runs in without.items()}
    return {
        "beats-dp-fedavg": Finding(
            all(one.sign > 0 for one in lead.values()),
            "final accuracy, mean over p: "
            + _by_split(lead, "points ahead")
            + f"; training alone is ahead of DP-FedAvg by {', '.join(alone)}",
            "the lead is within the noise of the seeds",
        ),
        "highly-accurate": _highly_accurate(without, majority),
        "utility-kept": Finding(
            all(one.sign >= 0 for one in cost.values()),
            "MS-PAFL minus training alone, mean over p: " + _by_split(cost, "points"),
            "the noisy public half is part of every client's model and is replaced each round: it "
            "lowers the accuracy of the whole",
        ),
        "uploads-inform": _uploads_inform(without, readings, loud),
    }


def _highly_accurate(without: Mapping[str, Runs], majority: float) -> Finding:
    """Whether MS-PAFL at the largest p beats the most frequent class, in one split at least."""
    p, rate = max((p, rate) for _, p, rate in without["one_label"])
    best = {
        s: compare.estimate(final(runs["mspafl", p, rate]["accuracy"]))
        for s, runs in without.items()
    }
    own, own_noise = (
        100 * final(without["one_label"][method, p, rate]["own"]).mean()
        for method in ("mspafl", "noise_only")
    )
    return Finding(
        any(one.low > majority for one in best.values()),
        f"p = {p:g}: {_by_split(best, '%')}; most frequent class {100 * majority:.1f} %",
        "always answering the most frequent class is better. High numbers come out when each client "
        f"is tested on its own single label only: {own:.1f} %, but {own_noise:.1f} % with uploads of "
        "pure noise",
    )


def _uploads_inform(without: Mapping[str, Runs], readings: Readings, loud: Loudness) -> Finding:
    """Whether the uploads are worth more than pure noise, in both splits."""
    use = {s: compare.pooled(runs, "mspafl", "noise_only") for s, runs in without.items()}
    further = [
        gap
        for runs in readings.values()
        for gap in compare.gaps(runs, "mspafl", "noise_only").values()
    ]
    gained = [gap.mean for gap in further if gap.sign > 0]
    louder = sorted(1 / power["signal to noise"] for power in loud["one_label"].values())
    return Finding(
        all(one.sign > 0 and one.mean >= _SLIGHTLY for one in use.values()),
        "MS-PAFL minus uploads of pure noise, mean over p: " + _by_split(use, "points"),
        f"no difference: the noise of the average has {louder[0]:.0f} to {louder[-1]:.0f} times the "
        f"power of its signal. Of the {len(further)} further readings (features, step size, labels, "
        f"p) {len(gained)} show a gain that counts"
        + (f", the largest {100 * max(gained):.1f} points" if gained else ""),
    )
