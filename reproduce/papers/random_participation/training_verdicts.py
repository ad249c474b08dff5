"""Conditions and verdicts of figures 6 and 7, from the runs and the one rule of comparisons.

Final accuracy is the mean over the last quarter of the evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduce.catalogue import figure
from reproduce.notebook import Workbook
from reproduce.papers.random_participation.plans import COMPARED
from reproduce.papers.statistics import Answer, Comparisons, final

__all__ = ["PRIVATE", "Pairs", "conditions", "closeness", "gaps", "sixth_figure", "seventh_figure"]

Runs = Mapping[str, NDArray[np.float64]]
"""Curve -> accuracies in [0, 1], shape (seeds, evaluations)."""

Pairs = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
"""Name of a difference -> final accuracies of both sides, shape (seeds,)."""

PRIVATE = ("scheme_paper", "scheme", "wcs", "ols")

SLOWER = "the smaller learning rate of WCS and OLS"

_MUCH = 0.10
"""What counts as "much higher" accuracy."""


def gaps(runs: Runs, slower: bool) -> dict[str, Pairs]:
    """The differences of final accuracies that the claims and the picture are about, by subject.

    Args:
        runs: curve -> accuracies.
        slower: whether WCS and OLS have a smaller learning rate than the scheme.

    Returns:
        "order", "justified", "noise" (what the noise costs, where there are runs without noise at the
        same learning rate) and "clip" (what clipping alone costs).
    """
    end = {name: final(values) for name, values in runs.items()}
    control = "clipped_slow" if slower else "clipped"
    names = {
        "order": [
            ("not private - scheme", "non_private", "scheme_paper"),
            ("scheme - WCS", "scheme_paper", "wcs"),
            ("WCS - OLS", "wcs", "ols"),
        ],
        "justified": [
            ("not private - justified scheme", "non_private", "scheme"),
            ("justified scheme - WCS", "scheme", "wcs"),
        ],
        "noise": [
            ("noise of the scheme", "clipped", "scheme_paper"),
            ("noise of WCS", control, "wcs"),
            ("noise of OLS", control, "ols"),
        ],
        "clip": [("clipping", "non_private", "clipped")],
    }
    return {
        subject: {text: (end[first], end[second]) for text, first, second in rows if first in end}
        for subject, rows in names.items()
    }


def conditions(book: Workbook, runs: Runs, results: list[Mapping[str, Any]]) -> None:
    """Look at the five conditions under which figure 6 or 7 can be tested.

    Args:
        book: the notebook's workbook.
        runs: curve -> accuracies.
        results: of the runs; "majority" and "data" are read.
    """
    have, paper = book.parameters, figure(book.id).parameters("paper")
    book.condition(
        "data",
        have["data"] != "digits" and have["model"] == paper["model"],
        f"data {have['data']}, network {have['model']}",
    )
    keys = ("learning_rate", "learning_rate_baselines", "momentum", "clip", "sigma_paper")
    other = [
        f"{key} {have[key]:g} (paper {paper[key]:g})" for key in keys if have[key] != paper[key]
    ]
    batch, wanted = (
        math.prod(settings[key] for key in ("clients", "records", "p", "q"))
        for settings in (have, paper)
    )
    if abs(batch / wanted - 1) > 0.05:
        other.append(f"mean batch {batch:.1f} (paper {wanted:.1f})")
    federation = ", ".join(f"{key} {have[key]:g}" for key in ("clients", "records", "p", "q"))
    book.condition(
        "settings",
        not other,
        "; ".join(other) or f"as printed; mean batch {batch:.1f} from a federation of {federation}",
    )

    end = {name: float(final(values).mean()) for name, values in runs.items()}
    best, trivial = max(end[name] for name in PRIVATE), float(results[0]["majority"])
    margin = float(book.entry.margin)
    book.condition(
        "learns",
        best > trivial + margin and best >= end["non_private"] / 2,
        f"best private curve {100 * best:.1f} %, most frequent class {100 * trivial:.1f} %, not private "
        f"{100 * end['non_private']:.1f} %",
    )
    swap, gain = _exchange(runs), _gain(runs)
    book.condition(
        "settled",
        swap <= margin,
        f"largest exchange of two mean curves {100 * swap:.1f} points",
    )
    book.condition(
        "flat",
        gain <= margin,
        f"from the third to the last quarter a mean curve gains up to {100 * gain:.1f} points; "
        f"{100 * margin:g} allowed",
    )


def _exchange(runs: Runs) -> float:
    """By how much two mean curves of the claims stand the other way round than at the end."""
    means = {name: runs[name].mean(axis=0) for name in ("non_private", *PRIVATE)}
    worst = 0.0
    for first, second in combinations(means.values(), 2):
        apart = first - second
        late = apart[-max(1, len(apart) // 2) :]
        worst = max(worst, float(np.max(-np.sign(final(apart[None])[0]) * late)))
    return worst


def _gain(runs: Runs) -> float:
    """The largest rise of a mean curve from the third to the last quarter of its evaluations."""
    rises = []
    for values in runs.values():
        mean = values.mean(axis=0)
        part = max(1, len(mean) // 4)
        rises.append(mean[-part:].mean() - mean[-2 * part : -part].mean())
    return float(max(rises))


def sixth_figure(book: Workbook, runs: Runs) -> dict[str, Answer]:
    """Decide the claims of figure 6."""
    found, pairs = Comparisons(float(book.entry.margin)), gaps(runs, _slower(book))
    _orders(found, pairs)
    scheme, wcs, ols = (final(runs[name]) for name in COMPARED)
    much = {
        f"scheme - {name} - {100 * _MUCH:.0f} points": (scheme - _MUCH, other)
        for name, other in (("WCS", wcs), ("OLS", ols))
    }
    found.ahead("much-higher", much)
    half = final(runs["non_private"]) / 2
    found.ahead("ols-poor", {"half of not private - OLS": (half, ols)})
    costs = _costs(pairs)
    if "noise of OLS" in costs:
        found.ahead("noise-binds", {"noise of WCS": pairs["noise"]["noise of WCS"]})
        own = costs.pop("noise of OLS")
        others = {name: costs[name] for name in ("clipping", SLOWER) if name in costs}
        found.ahead(
            "ols-poor-noise", {f"{name} - noise of OLS": (v, own) for name, v in others.items()}
        )
    else:
        for claim in ("noise-binds", "ols-poor-noise"):
            book.pending(
                claim, "there are no clipped runs without noise at the learning rate of WCS and OLS"
            )
    return _decide(book, found, _hint(pairs))


def closeness(runs: Runs, sixth: Runs) -> str:
    """How far the scheme is ahead of OLS in figure 7 and in figure 6, as a sentence."""
    here, there = (
        100 * float(final(family["scheme_paper"]).mean() - final(family["ols"]).mean())
        for family in (runs, sixth)
    )
    return f"The scheme is {here:.1f} points ahead of OLS here, and {there:.1f} in Figure 6."


def seventh_figure(book: Workbook, runs: Runs, sixth: Runs) -> dict[str, Answer]:
    """Decide the claims of figure 7; `sixth` are the runs of figure 6 of the same profile."""
    found, pairs = Comparisons(float(book.entry.margin)), gaps(runs, _slower(book))
    _orders(found, pairs)
    spread = [final(family["scheme_paper"]) - final(family["ols"]) for family in (sixth, runs)]
    seeds = min(map(len, spread))
    there, here = (values[:seeds] for values in spread)
    found.ahead("closer", {"scheme - OLS in Figure 6 - the same here": (there, here)})
    found.ahead("noise-binds", {"noise of the scheme": pairs["noise"]["noise of the scheme"]})
    return _decide(book, found, _hint(pairs))


def _slower(book: Workbook) -> bool:
    """Whether WCS and OLS have a learning rate of their own."""
    return bool(book.parameters["learning_rate_baselines"] != book.parameters["learning_rate"])


def _orders(found: Comparisons, pairs: Mapping[str, Pairs]) -> None:
    found.ahead("order", pairs["order"])
    found.ahead("order-justified", pairs["justified"])


def _decide(book: Workbook, found: Comparisons, hint: str) -> dict[str, Answer]:
    answers = found.answers()
    for claim, answer in answers.items():
        book.order(claim, answer, hint)
    return answers


def _costs(pairs: Mapping[str, Pairs]) -> dict[str, NDArray[np.float64]]:
    """What clipping, noise on top of it, and a smaller learning rate cost, shape (seeds,)."""
    costs = {
        name: first - second
        for subject in ("clip", "noise")
        for name, (first, second) in pairs[subject].items()
    }
    free = [pairs["noise"].get(f"noise of {name}") for name in ("the scheme", "WCS")]
    if None not in free and np.any(slower := free[0][0] - free[1][0]):
        costs[SLOWER] = slower
    return costs


def _hint(pairs: Mapping[str, Pairs]) -> str:
    """What the controls say, as a sentence."""
    return "mean cost in points: " + ", ".join(
        f"{name} {100 * float(cost.mean()):.1f}" for name, cost in _costs(pairs).items()
    )
