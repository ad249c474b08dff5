"""What the rows of partitioning's tables guarantee, and what was reduced against the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.accounting import ModelSplitting, PoissonGaussian, compose

PAPER_MODELS = ("resnet101", "wrn_40_4")


def spent(
    parameters: Mapping[str, Any], curves: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, float]]:
    """Epsilon at "delta" of a whole run, for every row with noise.

    Returns: name -> "sigma"; "known": the bound without amplification by splitting (an adversary
    who knows every sample's submodel); "lower" and "upper": the bracket of what the adversary of
    the paper, who does not, can tell apart.
    """
    found = {}
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
        found[name] = {
            "sigma": float(curve["sigma"]),
            "known": float(run[1].epsilon(parameters["delta"])),
            **{m: float(own.epsilon(parameters["delta"], method=m)) for m in ("lower", "upper")},
        }
    return found


def sampling_spent(
    parameters: Mapping[str, Any], curves: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, float]]:
    """An upper bound on epsilon at "delta" of a whole run of section 4.2, for every one with noise.

    Nothing is split, so both clips together are one, of norm |(clip, unsplit_clip)|. k
    participations in T iterations, balanced, are bounded by k blocks of floor(T / k) iterations
    with one participation each: a uniform choice of k of T is a mixture of such choices (cut a
    random permutation of the iterations into blocks), and one of n iterations, hidden, is model
    splitting with n submodels.

    Returns: name -> "sigma" and "upper".
    """
    norm = float(np.hypot(parameters["clip"], parameters["unsplit_clip"]))
    found = {}
    for name, curve in curves.items():
        if not curve["sigma"]:
            continue
        run = {**parameters, **curve}
        sigma, rounds, k = (run[key] for key in ("sigma", "iterations", "participations"))
        if run["sampling"] == "poisson":
            spent_by = compose(PoissonGaussian(sigma, rate=k / rounds, sensitivity=norm), rounds)
        else:
            spent_by = compose(ModelSplitting(sigma, submodels=rounds // k, clip=norm), k)
        found[name] = {
            "sigma": float(sigma),
            "upper": float(spent_by.epsilon(parameters["delta"])),
        }
    return found


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
