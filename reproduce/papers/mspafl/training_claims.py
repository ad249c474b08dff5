"""Figure 2 of MS-PAFL: its tables, its data, its conditions and its claims, on whatever runs are at hand.

All comparisons of the figure are decided together, by `reproduce.papers.statistics.Comparisons`. With
one seed there is no interval, and nothing is decided. The texts are built from the numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from repro.accounting.mspafl.printed import sampling_ratio
from reproduce.notebook import Workbook
from reproduce.papers.mspafl import compare
from reproduce.papers.mspafl.compare import Runs
from reproduce.papers.mspafl.runs import METHODS
from reproduce.papers.statistics import Answer, Comparisons, final

PAPERS = "one_label"
"""The way of spreading the labels that fits "each client holding only a subset of the labels"."""

SPLITS = {"one_label": "one label per client", "shuffled": "both labels at every client"}
NAMES = {
    "mspafl": "MS-PAFL",
    "noise_only": "uploads of pure noise",
    "alone": "alone, no communication",
    "split_clean": "MS-PAFL without noise",
    "dp_fedavg": "DP-FedAvg, no splitting",
    "fedavg": "FedAvg, no noise",
}
CLAIMS = (
    "grows-with-p",
    "wr-ends-higher",
    "wor-steadier",
    "beats-dp-fedavg",
    "highly-accurate",
    "utility-kept",
    "alone-with-both-labels",
    "uploads-inform",
)
_LEARNS = 0.02  # how far FedAvg must be above the most frequent class for the model to learn
_FLAT = 0.01  # how far accuracy without noise may move from the third quarter to the last
_NOISE_FREE = ("fedavg", "split_clean", "alone")
_PAIRS = {
    "beats-dp-fedavg": ("mspafl", "dp_fedavg", (PAPERS,)),
    "utility-kept": ("alone", "mspafl", (PAPERS,)),  # the opposite of the claim
    "alone-with-both-labels": ("alone", "mspafl", ("shuffled",)),
    "uploads-inform": ("mspafl", "noise_only", tuple(SPLITS)),
}
"""Claim -> the method that it puts ahead, the one behind, the splits."""

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


# Conditions and claims ----------------------------------------------------------------------------


def conditions(
    curves: Curves, p: Sequence[float], rate: float, majority: float
) -> dict[str, tuple[bool, str]]:
    """What must hold of the runs before they can test the paper: "learns" and "converged".

    Args:
        curves: runs by split and replacement.
        p: check-in probabilities. rate: the step size.
        majority: accuracy of always answering the most frequent class.

    Returns:
        Condition -> (holds, evidence).
    """  # fmt: skip
    best = float(final(curves["shuffled", False]["fedavg", max(p), rate]["accuracy"]).mean())
    moves = {
        f"{NAMES[method]}, {words}": float(
            np.mean(
                [compare.late_move(curves[split, False][method, x, rate]["accuracy"]) for x in p]
            )
        )
        for split, words in SPLITS.items()
        for method in _NOISE_FREE
    }
    most = max(moves, key=lambda name: abs(moves[name]))
    return {
        "learns": (
            best >= majority + _LEARNS,
            f"{NAMES['fedavg']}: {100 * best:.1f} %; most frequent class: {100 * majority:.1f} %",
        ),
        "converged": (
            abs(moves[most]) < _FLAT,
            f"the largest move without noise, mean over p, is {100 * moves[most]:+.2f} points ({most})",
        ),
    }


def decide(curves: Curves, margin: float, majority: float) -> dict[str, Answer]:
    """The answers to `CLAIMS`, decided together.

    The paper's claims are decided where each client holds "only a subset of the labels", of which
    there are two: `PAPERS`. Our own ones also look at the other way of spreading them. With one seed
    nothing is decided, with one p growth is not.

    Args:
        curves: runs by split and replacement, of one step size.
        margin: the largest difference in accuracy that counts as none.
        majority: accuracy of always answering the most frequent class.
    """
    first = next(iter(curves[PAPERS, False].values()))
    if len(first["accuracy"]) < 2:
        return dict.fromkeys(CLAIMS, Answer(None, "one seed", "one seed gives no interval"))
    found = Comparisons(margin)
    for again in (False, True):
        rows = compare.by_p(curves[PAPERS, again], "mspafl").items()
        for (low, less), (high, more) in itertools.pairwise(rows):
            name = f"p = {high:g} over {low:g}, {'WR' if again else 'WOR'}"
            found.ahead("grows-with-p", {name: (more, less)})
    wor, wr = (compare.averages(curves[PAPERS, again], "mspafl") for again in (False, True))
    found.ahead("wr-ends-higher", {"WR - WOR": (wr["final"], wor["final"])})
    found.ahead("wor-steadier", {"WR - WOR": (wr["wobble"], wor["wobble"])})
    for split, words in SPLITS.items():
        end = {m: compare.averages(curves[split, False], m)["final"] for m in METHODS}
        for claim, (one, other, where) in _PAIRS.items():
            if split in where:
                name = f"{NAMES[one]} - {NAMES[other]}, {words}"
                found.ahead(claim, {name: (end[one], end[other])})
    key = max((x, rate) for _, x, rate in curves[PAPERS, False])
    best = final(curves[PAPERS, False]["mspafl", *key]["accuracy"])
    found.ahead("highly-accurate", {f"MS-PAFL at p = {key[0]:g} - majority": (best, majority)})
    answers = found.answers()
    if answers["highly-accurate"].holds is False:
        hollow = compare.averages(curves[PAPERS, False], "noise_only")["final"].mean()
        beats = answers["beats-dp-fedavg"]
        text = (
            f"{beats.text}; both are below the most frequent class ({100 * majority:.1f} %), and "
            f"pure noise in place of the uploads ends at {100 * hollow:.1f} % (MS-PAFL "
            f"{100 * wor['final'].mean():.1f} %)"
        )
        answers["beats-dp-fedavg"] = replace(beats, text=text)
    answers.setdefault("grows-with-p", Answer(None, "one p", "growth needs two values of p"))
    answers["utility-kept"] = _opposite(answers["utility-kept"])
    return {claim: answers[claim] for claim in CLAIMS}


def _opposite(part: Answer) -> Answer:
    """The answer to the opposite claim."""
    if part.holds is None:
        return part
    return Answer(not part.holds, part.text, f"against it: {part.text}" if part.holds else "")


def hints(
    curves: Curves, readings: Readings, loud: Loudness, records: int, draws: int
) -> dict[str, str]:
    """Why a claim of Figure 2 may fail, by claim, with the numbers at hand.

    Args:
        curves: runs by split and replacement.
        readings: runs of the other readings.
        loud: what `loudness` returns.
        records: of a client. draws: of a client in a round, Q b.
    """  # fmt: skip
    q, less_q = (
        float(sampling_ratio(records, draws, replacement=again)) for again in (False, True)
    )
    louder = sorted(1 / power["signal to noise"] for power in loud["one_label"].values())
    further = [
        gap
        for runs in readings.values()
        for gap in compare.gaps(runs, "mspafl", "noise_only").values()
    ]
    gained = [gap.mean for gap in further if gap.sign > 0]
    p, rate = max((x, rate) for _, x, rate in curves["one_label", False])
    own, own_noise = (
        100 * final(curves["one_label", False][method, p, rate]["own"]).mean()
        for method in ("mspafl", "noise_only")
    )
    return {
        "wr-ends-higher": f"{draws} draws from {records} records with replacement give "
        f"{records * less_q:.1f} different ones on average, and the noise is the same in both panels; "
        f"by Remark 2 the smaller q would allow {100 * (1 - less_q / q):.1f} % less noise, which "
        "Figure 2 does not use",
        "wor-steadier": "root mean square change between evaluations; the noise moves the curves, and "
        "it is the same in both",
        "highly-accurate": "high numbers come out when each client is tested on its own single label "
        f"only: {own:.1f} %, and {own_noise:.1f} % with uploads of pure noise",
        "utility-kept": "the noisy public half is part of every client's model and is replaced in each "
        "round",
        "uploads-inform": f"the noise of the average has {louder[0]:.0f} to {louder[-1]:.0f} times the "
        f"power of its signal; of {len(further)} further readings (features, step size, labels, p) "
        f"{len(gained)} show a gain"
        + (f", the largest {100 * max(gained):.1f} points" if gained else ""),
    }


def record(book: Workbook, answers: Mapping[str, Answer], why: Mapping[str, str]) -> None:
    """Hand the answers to the workbook, each with its hint where the claim does not hold."""
    for claim, answer in answers.items():
        book.order(claim, answer, "" if answer.holds else why.get(claim, ""))
