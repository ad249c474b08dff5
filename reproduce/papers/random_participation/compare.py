"""What the noise of training runs guarantees, and what was reduced against the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.accounting import RandomParticipation


def guarantees(
    parameters: Mapping[str, Any], curves: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, float]]:
    """What one iteration of Algorithm 1 gives at `epsilon` with the noise of each private curve.

    Returns: for every curve with noise, sigma and the bracket of delta: "lower" is reached by an
    explicit pair of data sets, "upper" is a bound. All of them for the scheme itself (participation
    and sampling unknown to the adversary) in the federation of the guarantee; the analyses of WCS
    and OLS leave that knowledge unused, which is why they ask for more noise.
    """
    found = {}
    for name, curve in curves.items():
        if not curve["sigma"]:
            continue
        mechanism = RandomParticipation(
            curve["sigma"],
            p=parameters["guarantee_p"],
            q=parameters["guarantee_q"],
            samples_per_client=parameters["guarantee_records"],
            clip=parameters["clip"],
        )
        bracket = {
            m: float(mechanism.delta(parameters["epsilon"], method=m)) for m in ("lower", "upper")
        }
        found[name] = {"sigma": float(curve["sigma"]), **bracket}
    return found


def promise(bracket: Mapping[str, float]) -> str:
    """The delta of a bracket from :func:`guarantees` in words: one number, or "lower to upper"."""
    low, high = f"{bracket['lower']:.1e}", f"{bracket['upper']:.1e}"
    return high if low == high else f"{low} to {high}"


def fulfils(bracket: Mapping[str, float], delta: float) -> str:
    """Whether a bracket from :func:`guarantees` keeps, misses or leaves open a target delta."""
    if bracket["upper"] <= delta:
        return "keeps δ"
    return "misses δ" if bracket["lower"] > delta else "δ undecided"


def reduction(parameters: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """What was reduced against the paper, for a picture's footer; empty when nothing was."""
    parts = []
    if parameters["data"] == "digits":
        parts.append(
            f"8x8 digits and a network of {result['parameters']:,} parameters "
            "in place of EMNIST and the CNN"
        )
    elif result["data"]["subset"]:
        parts.append(result["data"]["subset"])
    trained = tuple(parameters[k] for k in ("clients", "records", "p", "q"))
    paper = tuple(parameters[f"guarantee_{k}"] for k in ("clients", "records", "p", "q"))
    if trained != paper:
        told = "{:,} clients x {:,} records, p = {:g}, q = {:g}"
        parts.append(
            f"trained in a federation of {told.format(*trained)} with the paper's mean batch of "
            f"{result['mean_batch']:.0f}; noise and guarantee are those of the paper's federation "
            f"({told.format(*paper)})"
        )
    return "; ".join(parts)
