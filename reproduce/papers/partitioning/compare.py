"""Tables 1 and 2 and section 4.2: what their rows guarantee, which claims hold, what was reduced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.accounting import ModelSplitting, PoissonGaussian, compose
from reproduce.papers.partitioning.claims import Finding
from reproduce.papers.statistics import alike, order

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
    held = parameters["records"]
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


def table_findings(finals: Mapping[str, NDArray], submodels: Sequence[int]) -> dict[str, Finding]:
    """The orders that tables 1 and 2 claim, by claim; none with a single seed.

    Args:
        finals: final accuracies of every row, shape (seeds,), paired.
        submodels: numbers of submodels, d > 1.
    """
    if len(finals["relaxation"]) < 2:
        return {}
    hint = "reduced network, little data and few seeds; profile paper could tell"

    def reason(unclear: str) -> str:
        return f"gap not above twice its standard error: {unclear}; {hint}"

    decided = {}
    for d in submodels:
        ranked = order({name: finals[name] for name in (f"amplification_{d}", f"baseline_{d}")})
        decided[f"amplified-{d}"] = Finding(ranked.holds, ranked.text, reason(ranked.unclear))
    best_row = {"relaxation": finals["relaxation"]}
    rivals = {name: order({**best_row, name: finals[name]}) for name in table_rows(submodels)[1:]}
    if rivals:
        behind = "; ".join(ranked.unclear for ranked in rivals.values() if not ranked.holds)
        leads = ", ".join(
            f"{100 * (finals['relaxation'] - finals[name]).mean():.1f} ahead of {name}"
            for name in rivals
        )
        decided["relaxation-best"] = Finding(not behind, f"in points: {leads}", reason(behind))
    if len(submodels) > 1:
        pairs = [
            order({f"{kind}_{d}": finals[f"{kind}_{d}"] for d in sorted(submodels)})
            for kind in ("baseline", "amplification")
        ]
        behind = "; ".join(ranked.unclear for ranked in pairs if not ranked.holds)
        text = "; ".join(ranked.text for ranked in pairs)
        decided["fewer-better"] = Finding(not behind, text, reason(behind))
    return decided


def sampling_findings(finals: Mapping[str, NDArray]) -> dict[str, Finding]:
    """Whether balanced and Poisson sampling are about equally accurate; none with a single seed."""
    decided = {}
    for kind in ("scratch", "tuned"):
        balanced, poisson = finals[f"{kind}_balanced"], finals[f"{kind}_poisson"]
        if len(balanced) > 1:
            holds, text = alike(balanced, poisson)
            decided[f"{kind}-alike"] = Finding(
                holds,
                f"balanced - Poisson = {text}",
                "more than twice the standard error, and more than one point",
            )
    return decided
