"""Tables 1 and 2 and section 4.2: what their rows guarantee, which claims hold, what was reduced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.accounting import ModelSplitting, PoissonGaussian, compose
from reproduce.papers.partitioning.public_start import PRIVATE
from reproduce.papers.statistics import Answer, Comparisons

PAPER_MODELS = ("resnet101", "wrn_40_4")


def spent(
    parameters: Mapping[str, Any], curves: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, float]]:
    """Epsilon at "delta" of a whole run, for every row with noise.

    Args:
        parameters: "participations", "iterations" and "delta" of the run.
        curves: of `table_curves`.

    Returns:
        name -> "sigma"; "known": the bound without amplification by splitting (an adversary who
        knows every sample's submodel); "lower" and "upper": the bracket of what the adversary of
        the paper, who does not, can tell apart.
    """
    cost = {}
    rate = parameters["participations"] / parameters["iterations"]
    for name, curve in curves.items():
        if not curve["sigma"]:
            continue
        run = {
            d: compose(
                ModelSplitting(
                    curve["sigma"],
                    submodels=d,
                    rate=rate,
                    clip=curve["clip"],
                    unsplit_clip=curve["unsplit_clip"],
                ),
                parameters["iterations"],
            )
            for d in {1, curve["submodels"]}
        }
        own = run[curve["submodels"]]
        cost[name] = {
            "sigma": float(curve["sigma"]),
            "known": float(run[1].epsilon(parameters["delta"])),
            **{m: float(own.epsilon(parameters["delta"], method=m)) for m in ("lower", "upper")},
        }
    return cost


def sampling_spent(
    parameters: Mapping[str, Any], curves: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, float]]:
    """An upper bound on epsilon at "delta" of a whole run of section 4.2, for every one with noise.

    Nothing is split, so both clips together are one, of norm |(clip, unsplit_clip)|. k
    participations in T iterations, balanced, are bounded by k blocks of floor(T / k) iterations
    with one participation each: a uniform choice of k of T is a mixture of such choices (cut a
    random permutation of the iterations into blocks), and one of n iterations, hidden, is model
    splitting with n submodels.

    Args:
        parameters: of the figure.
        curves: of `sampling_curves`.

    Returns:
        name -> "sigma" and "upper".
    """
    norm = float(np.hypot(parameters["clip"], parameters["unsplit_clip"]))
    cost = {}
    for name, curve in curves.items():
        if not curve["sigma"]:
            continue
        run = {**parameters, **curve}
        sigma, rounds, k = (run[key] for key in ("sigma", "iterations", "participations"))
        if run["sampling"] == "poisson":
            spent_by = compose(PoissonGaussian(sigma, rate=k / rounds, sensitivity=norm), rounds)
        else:
            spent_by = compose(ModelSplitting(sigma, submodels=rounds // k, clip=norm), k)
        cost[name] = {
            "sigma": float(sigma),
            "upper": float(spent_by.epsilon(parameters["delta"])),
        }
    return cost


def is_full(parameters: Mapping[str, Any]) -> bool:
    """Whether a parameter set trains the paper's network on all of its data."""
    return parameters["data"] == "cifar" and parameters["model"] in PAPER_MODELS


def reduction(parameters: Mapping[str, Any], results: list[Mapping[str, Any]]) -> str:
    """What was reduced against the paper, for a picture's footer; empty when nothing was."""
    if is_full(parameters):
        return ""
    sizes = sorted({result["parameters"] for result in results})
    data = results[0]["data"]["subset"] or "8x8 digits in place of CIFAR-10"
    if parameters["data"] == "letters":
        data = (
            "handwritten letters (public) and digits (private, 14x14) in place of CIFAR-10; "
            f"{data}; every seed pretrains a model of its own"
        )
    held = parameters["records"]
    if parameters["data"] == "cifar_public":
        held = PRIVATE
        data += "; CIFAR-100 and the other images are public; one pretrained model for all seeds"
    return (
        f"{data}; networks of {' and '.join(f'{size:,}' for size in sizes)} parameters in place of "
        f"ResNet-101 and WideResNet-40-4; {parameters['iterations']} iterations"
        + (f" on {held:,} private records" if held else "")
        + "; noise calibrated to these runs"
    )


def best(finals: NDArray) -> float:
    """The paper's way to report seeds: the best of them."""
    return float(np.max(finals))


def commits(profile: str, records: Sequence[Mapping[str, Any]]) -> str:
    """The commits with which published runs were made, for a caption; "" in the quick profile."""
    if profile == "quick":
        return ""
    made = sorted({str(record["provenance"].get("commit"))[:10] for record in records})
    return f" Runs of commit {', '.join(made)}."


def summary(runs: NDArray) -> dict[str, Any]:
    """Runs (seeds, …) with their mean, and the deviation of final values from 2 seeds on."""
    runs = np.asarray(runs, dtype=float)
    kept: dict[str, Any] = {"runs": runs, "mean": runs.mean(axis=0)}
    if runs.ndim == 1 and len(runs) > 1:
        kept["deviation"] = runs.std(ddof=1)
    return kept


def accuracies(finals: NDArray) -> dict[str, str]:
    """Mean and deviation over the seeds, and the best of them, in per cent, for a table."""
    spread = f" ± {100 * finals.std(ddof=1):.1f}" if len(finals) > 1 else ""
    return {
        "accuracy in %": f"{100 * finals.mean():.1f}{spread}",
        "best seed in %": f"{100 * best(finals):.1f}",
    }


def table_rows(submodels: Sequence[int]) -> list[str]:
    """The rows of tables 1 and 2, for each number of submodels d > 1."""
    kinds = ("amplification", "baseline")
    return ["relaxation"] + [f"{kind}_{d}" for d in submodels for kind in kinds]


def table_answers(
    finals: Mapping[str, NDArray], submodels: Sequence[int], margin: float
) -> dict[str, Answer]:
    """What the runs say about the orders of tables 1 and 2, by claim; none with a single seed.

    Args:
        finals: final accuracies of every row, shape (seeds,), paired.
        submodels: numbers of submodels, d > 1.
        margin: the largest difference that counts as none.
    """
    if len(finals["relaxation"]) < 2:
        return {}
    found = Comparisons(margin)
    for d in submodels:
        sides = finals[f"amplification_{d}"], finals[f"baseline_{d}"]
        found.ahead(f"amplified-{d}", {f"amplification - baseline, d = {d}": sides})
    rivals = table_rows(submodels)[1:]
    if rivals:
        full = finals["relaxation"]
        pairs = {f"relaxation - {name.replace('_', ' ')}": (full, finals[name]) for name in rivals}
        found.ahead("relaxation-best", pairs)
    if len(submodels) > 1:
        few, many = min(submodels), max(submodels)
        pairs = {
            f"{kind}, d = {few} - d = {many}": (finals[f"{kind}_{few}"], finals[f"{kind}_{many}"])
            for kind in ("amplification", "baseline")
        }
        found.ahead("fewer-better", pairs)
    return found.answers()


def sampling_answers(finals: Mapping[str, NDArray], margin: float) -> dict[str, Answer]:
    """Whether balanced and Poisson sampling are equally accurate; none with a single seed."""
    found = Comparisons(margin)
    for kind in ("scratch", "tuned"):
        sides = finals[f"{kind}_balanced"], finals[f"{kind}_poisson"]
        if len(sides[0]) > 1:
            found.alike(f"{kind}-alike", {"balanced - Poisson": sides})
    return found.answers()
