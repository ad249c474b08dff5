"""Tables 1 and 2 and section 4.2: their rows in words, and the three sentences below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduce.papers.partitioning.conditions import Found
from reproduce.papers.partitioning.pictures import power
from reproduce.papers.partitioning.stories import Story
from reproduce.papers.partitioning.tables import Noise, Row

_PARTS = ("scratch", "tuned")
_PLACES = {"scratch": "from scratch", "tuned": "fine-tuned"}


def row_names(submodels: Sequence[int]) -> dict[str, str]:
    """The rows of tables 1 and 2 with our controls, from top to bottom: name -> words."""
    names = {"relaxation": "relaxation (full model)"}
    for d in submodels:
        names |= {
            f"amplification_{d}": f"amplification, d = {d}",
            f"baseline_{d}": f"baseline, d = {d}",
        }
    names |= {f"clipped_{d}": f"no noise, d = {d}" for d in submodels}
    return names | {"clipped_1": "no noise, full model", "not_private": "neither noise nor clip"}


def sampling_names() -> dict[str, str]:
    """The rows of section 4.2 with our control: name -> words."""
    kinds = {"balanced": "balanced", "poisson": "Poisson", "clipped": "no noise"}
    return {
        f"{part}_{kind}": f"{_PLACES[part]}, {words}"
        for part in _PARTS
        for kind, words in kinds.items()
    }


def accuracy_rows(
    names: Mapping[str, str],
    finals: Mapping[str, NDArray],
    printed: Mapping[str, float],
    verdicts: Mapping[str, str],
    setting: Found,
) -> list[Row]:
    """The rows of a table of accuracies; without the paper's setting no number is tested."""
    return [
        Row(
            words,
            finals[name],
            printed.get(name),
            "" if name not in printed else verdicts[name] if setting.holds else "not tested",
        )
        for name, words in names.items()
    ]


def noise_rows(
    labels: Mapping[str, str],
    printed: Mapping[str, str],
    computed: Mapping[str, str],
    verdicts: Mapping[str, str],
    spent: Mapping[str, Mapping[str, float]],
) -> list[Noise]:
    """The rows of a noise column; all arguments by the claims' ids."""
    return [
        Noise(
            words,
            printed[name],
            computed[name],
            verdicts[name],
            _bracket(spent[name]["lower"], spent[name]["upper"]),
        )
        for name, words in labels.items()
    ]


def by_submodels(columns: Mapping[str, Mapping[int, Any]]) -> dict[str, dict[str, Any]]:
    """Columns by the number of submodels, with names in place of the numbers."""
    return {
        name: {f"d = {d}": value for d, value in column.items()} for name, column in columns.items()
    }


def first_rate(profile: str) -> str:
    """For the caption of Table 1: what runs at the first learning rate showed, which are not drawn."""
    if profile != "long":
        return ""
    return (
        " Learning rate 0.2; at 0.25, tried first from a start of 62.6 %, the baseline of 8 submodels had not "
        "converged (it fell by 2.2 points in the last quarter, at most 2 are allowed), and amplification was above "
        "the baseline by 0.8 [0.3, 1.4] (d = 3) and 1.5 [0.7, 2.3] points (d = 8)."
    )


def table_story(
    finals: Mapping[str, NDArray],
    submodels: Sequence[int],
    printed: Mapping[str, float],
    sigma: Mapping[str, float],
    met: Mapping[str, Found],
    noise: Sequence[Noise],
) -> Story:
    """Tables 1 and 2.

    Args:
        finals: final accuracies of every row, shape (seeds,).
        submodels: numbers of submodels, d > 1.
        printed: row -> the paper's accuracy in per cent.
        sigma: row -> noise of the runs.
        met: the conditions.
        noise: the noise column.
    """
    several = [d for d in submodels if f"amplification_{d}" in printed]
    told = [
        f"{printed[f'amplification_{d}']:.2f} against {printed[f'baseline_{d}']:.2f} % with {d}"
        for d in several
    ]
    claimed = "Amplification is more accurate than the baseline at the same guarantee"
    claimed += f" ({', '.join(told)} submodels)" if told else ""
    claimed += f", and the full model is the best ({printed['relaxation']:.2f} %)."
    ours = [
        f"{_mean(finals, f'amplification_{d}')} against {_mean(finals, f'baseline_{d}')} % with {d}"
        for d in submodels
    ]
    found = (
        f"Before private training {met['start'].evidence}. Ours (mean of {len(finals['relaxation'])} seeds): full "
        f"model {_mean(finals, 'relaxation')} %"
        + (f", amplification against baseline {', '.join(ours)} submodels" if ours else "")
        + f". {_orders(met)} {_column(noise)}"
    )
    why = "Amplification and baseline are one algorithm with different noise."
    if submodels:
        d = max(submodels)
        share = 1 - sigma[f"amplification_{d}"] / sigma[f"baseline_{d}"]
        cost = 100 * float(np.mean(finals[f"clipped_{d}"] - finals[f"baseline_{d}"]))
        why += f" With {d} submodels amplification saves {100 * share:.0f} % of it"
        why += (
            f", which can win back only a part of the {cost:.1f} points that the noise costs the baseline "
            "here."
            if cost > 1
            else f"; here the noise costs the baseline {max(cost, 0.0):.1f} points, so that nearly "
            "nothing can be won back."
        )
    return claimed, found, f"{why} {_cost(noise)}"


def sampling_story(
    finals: Mapping[str, NDArray],
    printed: Mapping[str, float],
    met: Mapping[str, Found],
    noise: Sequence[Noise],
) -> Story:
    """Section 4.2."""
    claimed = "Balanced and Poisson subsampling are about equally accurate: " + ", ".join(
        f"{printed[f'{part}_balanced']:.2f} and {printed[f'{part}_poisson']:.2f} % {_PLACES[part]}"
        for part in _PARTS
    )
    ours = ", ".join(
        f"{_mean(finals, f'{part}_balanced')} and {_mean(finals, f'{part}_poisson')} % {_PLACES[part]}"
        for part in _PARTS
    )
    seeds = len(finals["tuned_balanced"])
    found = f"Ours (mean of {seeds} seeds): {ours}. {_orders(met)} {_column(noise)}"
    return (
        f"{claimed}.",
        found,
        "Both give every record the same expected number of participations, and in a long run nearly the "
        f"same noise. {_cost(noise)}",
    )


def _orders(met: Mapping[str, Found]) -> str:
    """Whether these runs can test an order, and if not why."""
    lacking = {
        "images": "the images are not CIFAR-10's",
        "learns-scratch": "the best private method from scratch does not learn enough",
        "learns": "the best private method does not learn enough",
        "start": "the start is far from the paper's 70 %",
        "gains": "training on the private images does not improve on the start, even without noise",
        "binds": "the noise does not bind",
        "converged": "the runs have not converged",
        "binds-scratch": "the noise does not bind from scratch",
        "converged-scratch": "the runs from scratch have not converged",
    }
    why = [words for name, words in lacking.items() if name in met and not met[name].holds]
    if why:
        return f"These runs decide no order: {', '.join(why)}."
    return "These runs meet the conditions under which the orders can be tested."


def _column(noise: Sequence[Noise]) -> str:
    out = [row.label for row in noise if row.verdict == "reproduced"]
    text = f"Of {len(noise)} printed noise levels, {len(out)} come out to the last digit"
    others = [f"{row.label} ({row.verdict})" for row in noise if row.verdict != "reproduced"]
    return text + (f"; not: {', '.join(others)}." if others else ".")


def _cost(noise: Sequence[Noise]) -> str:
    ends = [float(end) for row in noise for end in row.epsilon.split(" to ")]
    return (
        f"In truth the printed noise costs ε = {_bracket(min(ends), max(ends))} in place of 8: the "
        "guarantee holds, and Rényi accounting leaves the rest unused."
        if max(ends) <= 8
        else f"In truth the printed noise costs ε = {_bracket(min(ends), max(ends))}, more than 8."
    )


def scientific(value: float, digits: int) -> str:
    """`6.62 × 10⁻⁴`."""
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa} × {power(10.0 ** int(exponent))}"


def _bracket(low: float, high: float) -> str:
    """`6.70 to 6.75`, or one number where both ends look the same."""
    ends = [f"{low:.2f}", f"{high:.2f}"]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _mean(finals: Mapping[str, NDArray], name: str) -> str:
    return f"{100 * float(np.mean(finals[name])):.1f}"
