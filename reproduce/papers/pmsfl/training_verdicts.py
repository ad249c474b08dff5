"""What accuracies decide in Table 1, figure 4 and figure 6: conditions of the runs, orders, masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reproduce.papers.pmsfl.tables import COLUMNS, LABELS, SETTINGS, TableRow, full_size
from reproduce.papers.statistics import Answer, Comparisons, final, interval

Condition = tuple[bool, str]
"""Whether it holds, and the numbers that say so."""

Curves = Mapping[str, NDArray]
"""Method -> accuracies in [0, 1], shape (seeds, evaluated rounds), round 0 first."""

REAL = ("cifar100_subset", "cifar100", "femnist", "radhar")
"""The federations of data like the paper's; the others are small stand-ins, or `OTHER_SENSOR`."""

OTHER_SENSOR = {"ucihar": "a phone's motion sensors where the paper has ultrasound"}
"""Federations of recordings by a sensor that the paper does not use -> what differs."""

_PRIVATE = ("splitfed_dp", "splitfed_pm", "lg_fedavg", "depthfl", "pmsfl")
_PERSONAL = ("femnist", "mmhar", "sonichar")
_NOT_RUN = (False, "not run in this profile")

_STAND_INS = {"mmhar": "RadHAR", "sonichar": "UCI HAR"}
"""Setting -> the public data in the place of recordings that were never published."""


# Conditions ---------------------------------------------------------------------------------------


def real(data: str, described: str) -> Condition:
    """Whether the records are recorded data of the kind that the paper uses."""
    differs = f", {OTHER_SENSOR[data]}" if data in OTHER_SENSOR else ""
    return data in REAL, described + differs


def learns(
    curves: Curves, trivial: float, papers: float, splitfed: float | None = None
) -> Condition:
    """The best private method is above trivial answers and half of the paper's accuracy, SplitFed above its half.

    Args:
        curves: method -> accuracies.
        trivial: accuracy of each client's most frequent label.
        papers: PM-SFL's accuracy in the paper, in [0, 1].
        splitfed: SplitFed's accuracy in the paper, in [0, 1]; None where SplitFed is not run.
    """
    ends = {m: final(curves[m][:, 1:]) for m in _PRIVATE if m in curves}
    best = max(ends, key=lambda m: ends[m].mean())
    found = interval(ends[best])
    holds = found.low > trivial and found.mean >= papers / 2
    told = f"{COLUMNS[best]} {found.text()} %, own majority {100 * trivial:.1f} %, half of the paper's "
    told += f"{50 * papers:.1f} %"
    if splitfed is not None:
        rival = interval(final(curves["splitfed"][:, 1:]))
        holds &= rival.mean >= splitfed / 2
        told += f"; SplitFed {rival.text()} %, half of the paper's {50 * splitfed:.1f} %"
    return holds, told


def converged(curves: Curves, margin: float) -> Condition:
    """The mean of the last quarter of the evaluations is that of the quarter before, to `margin`."""
    moved = {}
    for method in ("pmsfl", "splitfed"):
        if method in curves:
            runs = curves[method][:, 1:]
            quarter = max(1, runs.shape[1] // 4)
            before = runs[:, -2 * quarter : -quarter] if runs.shape[1] > quarter else runs * 0
            moved[method] = float(runs[:, -quarter:].mean() - before.mean())
    told = ", ".join(f"{COLUMNS[m]} {100 * move:+.1f}" for m, move in moved.items())
    return (
        all(abs(move) <= margin for move in moved.values()),
        f"last quarter minus the one before: {told} points; {100 * margin:g} allowed",
    )


def baseline(
    curves: Curves, papers_drop: float, margin: float, noise: str = "the noise as printed"
) -> Condition:
    """SplitFed-DP, with the noise that `noise` names, loses what the paper says, to `margin`."""
    drop = interval(final(curves["splitfed"][:, 1:]) - final(curves["splitfed_dp"][:, 1:]))
    return (
        abs(drop.mean - papers_drop) <= margin,
        f"SplitFed-DP with {noise} loses {drop.text()} points, {100 * papers_drop:.1f} in the "
        "paper, which gives no clip of an activation",
    )


def figure4_conditions(
    parameters: Mapping[str, object],
    accuracy: Curves,
    trivial: float,
    name: str,
    papers: Mapping[str, float],
    margin: float,
) -> dict[str, Condition]:
    """Figure 4's conditions, on its one data set.

    Args:
        parameters: of the notebook.
        accuracy: name of `tables.FIGURE4` -> accuracies.
        trivial: accuracy of each client's most frequent label.
        name: our data in words.
        papers: method -> the paper's accuracy in [0, 1].
        margin: the largest difference that counts as none.
    """
    data = str(parameters["data"])
    noisy, noise = (
        ("fitted", "less noise than printed")
        if "fitted" in accuracy
        else ("splitfed_dp", "the noise as printed")
    )
    drop = papers["splitfed"] - papers["splitfed_dp"]
    own = {key: [parameters[key]] for key in ("data", "rounds", "width", "clients")}
    return {
        "real": real(data, name),
        "cifar": (data in ("cifar100", "cifar100_subset"), name),
        "learns": learns(accuracy, trivial, papers["pmsfl"], papers["splitfed"]),
        "converged": converged(accuracy, margin),
        "baseline": baseline({**accuracy, "splitfed_dp": accuracy[noisy]}, drop, margin, noise),
        "full": full_size(own, SETTINGS["cifar100"]),
    }


def table_conditions(
    parameters: Mapping[str, object],
    curves: Mapping[str, Curves],
    trivial: Mapping[str, float],
    names: Mapping[str, str],
    paper: Mapping[tuple[str, str], float],
    margin: float,
) -> dict[str, Condition]:
    """Table 1's conditions: `<kind>-<setting>`; a setting that was not run meets none.

    Args:
        parameters: of the notebook.
        curves: setting -> method -> accuracies.
        trivial: setting -> accuracy of each client's most frequent label.
        names: setting -> our data in words.
        paper: (setting, method) -> the paper's accuracy in [0, 1].
        margin: the largest difference that counts as none.
    """
    found: dict[str, Condition] = {}
    for key, setting in SETTINGS.items():
        if key not in curves:
            kinds = ("real", "learns", "converged", "baseline", "full")
            found |= {f"{kind}-{key}": _NOT_RUN for kind in kinds}
            continue
        drop = paper[key, "splitfed"] - paper[key, "splitfed_dp"]
        found[f"real-{key}"] = real(_own(parameters, "data", setting), names[key])
        stated = paper[key, "pmsfl"], paper[key, "splitfed"]
        found[f"learns-{key}"] = learns(curves[key], trivial[key], *stated)
        found[f"converged-{key}"] = converged(curves[key], margin)
        noisy = "splitfed_dp" in curves[key]
        found[f"baseline-{key}"] = baseline(curves[key], drop, margin) if noisy else _NOT_RUN
        found[f"full-{key}"] = full_size(parameters, setting)
    return found


def _own(parameters: Mapping[str, object], key: str, setting: TableRow) -> str:
    values = parameters[key]
    assert isinstance(values, Sequence)
    return values[setting.data]


# Orders -------------------------------------------------------------------------------------------


def table_orders(
    finals: Mapping[str, Mapping[str, NDArray]],
    printed: Mapping[str, Sequence[str]],
    margin: float,
) -> dict[str, Answer]:
    """Table 1's orders in the settings that were run.

    Args:
        finals: setting -> method -> final accuracies, shape (seeds,), in [0, 1].
        printed: setting -> methods of which the paper gives the accuracy.
        margin: the largest difference that counts as none.
    """
    found = Comparisons(margin)
    for key, ends in finals.items():
        pm = ends["pmsfl"]
        if key == "cifar100":
            found.alike("near-splitfed", {"PM-SFL - SplitFed": (pm, ends["splitfed"])})
        else:
            rivals = [m for m in printed[key] if m in ends and m not in ("pmsfl", "splitfed_dp")]
            pairs = {f"PM-SFL - {COLUMNS[m]}": (pm, ends[m]) for m in rivals}
            found.ahead(f"best-{key}", pairs)
        if key in _PERSONAL:
            pair = (ends["standalone"], ends["splitfed_pm"])
            found.ahead(f"pm-below-standalone-{key}", {"Standalone - SplitFed-PM": pair})
            pair = (pm, ends["lg_fedavg"])
            found.ahead(f"beats-layerwise-{key}", {"PM-SFL - LG-FedAvg": pair})
        if "splitfed_dp" in ends:
            pair = (ends["splitfed"], ends["splitfed_dp"])
            found.ahead(f"noise-costs-{key}", {"SplitFed - SplitFed-DP": pair})
        pair = (ends["splitfed"], ends["standalone"])
        found.ahead(f"help-of-others-{key}", {"SplitFed - Standalone": pair})
        if SETTINGS[key].heterogeneous:
            pair = (ends["depthfl"], ends["splitfed_pm"])
            found.ahead(f"depthfl-helps-{key}", {"DepthFL - SplitFed-PM": pair})
            plain = key.removesuffix("-mixed")
            if plain in finals:
                pairs = {
                    f"{COLUMNS[m]}, one depth - mixed": (finals[plain][m], ends[m])
                    for m in printed[key]
                    if m in printed[plain] and m in ends and m in finals[plain]
                }
                found.ahead(f"mixed-hurts-{plain}", pairs)
    return {claim: _on_which_data(claim, answer) for claim, answer in found.answers().items()}


def _on_which_data(claim: str, answer: Answer) -> Answer:
    """The answer, which names its data where they are not those of the paper."""
    for key, name in _STAND_INS.items():
        if claim.endswith(f"-{key}"):
            return replace(answer, text=f"on {name}: {answer.text}")
    return answer


def left_out(claims: Iterable[str], decided: Iterable[str]) -> list[str]:
    """The ids of orders that the settings of this run leave out."""
    return sorted(set(claims) - set(decided))


def curve_orders(accuracy: Curves, slower_than: str, margin: float) -> dict[str, Answer]:
    """Figure 4, what its accuracies decide.

    Args:
        accuracy: name of `tables.FIGURE4` -> accuracies.
        slower_than: the run that stands for SplitFed-DP where speeds are compared.
        margin: the largest difference that counts as none.
    """
    ends = {name: final(curve[:, 1:]) for name, curve in accuracy.items()}
    mean = {name: curve[:, 1:].mean(axis=1) for name, curve in accuracy.items()}
    found = Comparisons(margin)
    found.alike("near-splitfed", {"PM-SFL - SplitFed": (ends["pmsfl"], ends["splitfed"])})
    slow, slow_name = mean[slower_than], LABELS[slower_than]
    found.ahead(
        "noise-slower",
        {
            f"mean over the rounds, SplitFed - {slow_name}": (mean["splitfed"], slow),
            f"PM-SFL - {slow_name}": (mean["pmsfl"], slow),
        },
    )
    found.alike("gradient-4", {"(4) - straight-through": (ends["paper's gradient"], ends["pmsfl"])})
    # three ways to train: our clip and rate, no clip as in Algorithm 1, the rate of section 6.3
    trained = (
        ("shared", "untrained"),
        ("shared, not kept", "untrained, not kept"),
        ("paper's rate", "untrained"),
    )
    found.ahead(
        "masks-learn", {f"{LABELS[a]} - {LABELS[b]}": (ends[a], ends[b]) for a, b in trained}
    )
    return found.answers()


def masks_frozen(
    accuracy: Curves, frozen: Curves, drift: Sequence[float], papers_drift: float, floor: float
) -> tuple[bool, str, str]:
    """Figure 4, whether probabilities reach 0 and 1 unless clients clip: (holds, numbers, reason).

    Args:
        accuracy: name of `tables.FIGURE4` -> accuracies.
        frozen: name -> shares of the probabilities at 0 or 1, likewise.
        drift: the share without training after 0, 1, ... rounds.
        papers_drift: that of the paper's 10 participants after 50 rounds.
        floor: c.
    """
    ends = {name: final(curve[:, 1:]) for name, curve in accuracy.items()}
    stuck = float(frozen["shared, not kept"][:, -1].mean())
    return (
        stuck > 0,
        f"nothing in Algorithm 1 keeps them there: after {len(drift) - 1} rounds {100 * stuck:.0f} % of the "
        f"probabilities are exactly 0 or 1 without personal masks (drift alone: {100 * drift[-1]:.0f} %; "
        f"with the paper's 10 participants {100 * papers_drift:.0f} % after 50 of its 1,000 rounds), "
        f"{100 * frozen['not kept'][:, -1].mean():.0f} % with; clipped at c = {floor:g}: "
        f"{100 * frozen['pmsfl'][:, -1].max():.0f} %; accuracy without clipping minus with: "
        f"{interval(ends['shared, not kept'] - ends['shared']).text()} points (none personal)",
        "averages of bits reach 0 and 1, where the score is infinite and its gradient zero; "
        "clients have to clip",
    )


def personal_orders(
    finals: Mapping[str, NDArray],
    agreements: Sequence[int],
    ratios: Sequence[float],
    *,
    best: int,
    margin: float,
) -> dict[str, Answer]:
    """Figure 6.

    Args:
        finals: "agreement A" and "ratio R" -> final accuracies, shape (seeds,).
        agreements: rounds of panel (a).
        ratios: personal shares of panel (b), in [0, 1].
        best: rounds that the paper finds best; without them in `agreements` nothing is decided
            about panel (a), without 1/2 in `ratios` nothing about panel (b).
        margin: the largest difference that counts as none.
    """
    found = Comparisons(margin)
    others = {
        a: (finals[f"agreement {best}"], finals[f"agreement {a}"])
        for a in agreements
        if a != best and best in agreements
    }
    if others:
        found.ahead("agreement-10", {f"{best} - {a} rounds": pair for a, pair in others.items()})
    ends = {min(agreements), max(agreements)}
    if ends <= set(others):
        pairs = {f"{best} - {a} rounds": others[a] for a in sorted(ends)}
        found.ahead("agreement-extremes", pairs)
    if 0.5 in ratios and len(ratios) > 1:
        half = finals["ratio 0.5"]
        pairs = {f"0.5 - {r:g}": (half, finals[f"ratio {r:g}"]) for r in ratios if r != 0.5}
        found.ahead("ratio-half", pairs)
    return found.answers()


def range_of(finals: Mapping[str, NDArray], names: Sequence[str]) -> tuple[float, float]:
    """The least and the largest mean accuracy of some runs, in [0, 1]."""
    means = [float(np.mean(finals[name])) for name in names]
    return min(means), max(means)
