"""What the attacks of figures 2 and 5 decide: differences within each image, by the one rule.

The deciding measure is the likeness ("margin" of `image_quality`): how much nearer the features of a
reconstruction are to its own original than to the other images, 1 for the image itself, 0 for an
attack that reveals nothing. The units of the comparisons are images, those of all runs: intervals speak of
other images of the networks at hand. That decides whether an attack reveals something, for which one
network is enough. That noise hides, or that one attack or method reveals more than another, is said of all
networks: with fewer than `ENOUGH` it stays undecided, and from so many on a network's mean is the unit.
Every answer says how many images and networks there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reproduce.papers.pmsfl import compare
from reproduce.papers.pmsfl.attack_runs import STAGES
from reproduce.papers.statistics import ENOUGH, Answer, Comparisons, interval

Attacks = Mapping[str, compare.Measures]

VISIBLE = 20.0
"""PSNR in dB above which an image counts as reconstructed completely."""

_HIDING = ("hidden-at-0-1", "still-0-1", "record")
"""Claims that noise hides all: one network can refute them, and does not confirm them."""
_COMPARING = ("gradients", "mitigates", "like-0-1-first", "like-0-1", "like-0-1-informed", "bits")
"""Claims about two attacks or methods."""


def noise_answers(
    attacks: Attacks,
    *,
    budgets: Sequence[float],
    copies: int,
    record: int,
    networks: int,
    margin: float,
) -> dict[str, Answer]:
    """Figure 2: claim -> what the attacks say.

    Args:
        attacks: of `compare.pooled`.
        networks: attacked, each with as many images.
        budgets: of SplitFed-DP, > 0.
        copies: seen by an attacker of many rounds.
        record: activations of a record.
        margin: the largest likeness that counts as none.
    """
    high, low = max(budgets), min(budgets)
    like = {name: one["margin"] for name, one in attacks.items()}
    means = {name: _units_of_networks(one, networks) for name, one in like.items()}
    nothing = like[compare.NOTHING]
    found = Comparisons(margin)
    found.ahead("limited-at-5", _over({f"ε = {high:g}": like[f"dp {high:g}"]}, nothing))
    larger = {f"ε = {e:g}": like[f"dp {e:g}"] for e in budgets if e > low}
    if larger:
        found.ahead("only-0-1", _over(larger, nothing))
    unseen = means[compare.NOTHING]
    found.alike("hidden-at-0-1", _over({f"ε = {low:g}": means[f"dp {low:g}"]}, unseen))
    late = {f"ε = {low:g}, {copies} copies": means[f"dp {low:g}, median of many rounds"]}
    found.alike("still-0-1", _over(late, unseen))
    whole = {f"ε = {high:g} for the record": means[f"dp {high:g}, whole record"]}
    found.alike("record", _over(whole, unseen))
    # an attacker need not use the updates: where they do not help on average, they are left alone
    more = {
        f"{title}, gradients where they help - none": (
            max(means[f"{name}, gradients"], means[name], key=np.mean),
            means[name],
        )
        for title, name in (("SplitFed", "splitfed"), (f"ε = {high:g}", f"dp {high:g}"))
        if f"{name}, gradients" in like
    }
    if more:
        found.ahead("gradients", more)
    answers = _told_of_all(found.answers(), networks)
    units = _units(len(nothing), networks)
    hints = {
        "still-0-1": f"{copies} copies with fresh noise have the variance of a budget of "
        f"{low * (2 * copies) ** 0.5:.2g} on their median",
        "record": f"a record has {record} activations here, and the noise of each is {record} times as large",
        "gradients": "the smashed data already determine the images, or the noise hides what the update "
        "would add",
    }
    answers = {claim: _because(one, units, hints.get(claim, "")) for claim, one in answers.items()}
    return {"complete": _complete(attacks, units), **answers}


def dense(here: float, paper: float) -> tuple[bool, str]:
    """Whether noise hides an image as hardly as in the paper's network, and the evidence.

    Each activation has noise of its own, so the more of them tell of a pixel, the more noise hides it.

    Args:
        here, paper: activations for each pixel of an image, in this network and in the paper's.
    """
    return here >= paper, f"{here:.1f} activations a pixel, {paper:.1f} in the paper's network"


def mask_answers(
    attacks: Attacks,
    entropy: NDArray,
    *,
    budget: float,
    participants: int,
    networks: int,
    margin: float,
) -> dict[str, Answer]:
    """Figure 5: claim -> what the attacks say; nothing where PM-SFL was not attacked.

    Args:
        attacks: of `compare.pooled`.
        entropy: of the masks after every round, bits per weight, shape (seeds, rounds + 1).
        budget: epsilon of the noise that masks are held against.
        participants: whose bits are averaged in a round.
        networks: attacked, each with as many images.
        margin: the largest likeness that counts as none.
    """
    start, end = STAGES
    if f"pmsfl, {start}, mean mask" not in attacks:
        return {}
    like = {name: _units_of_networks(one["margin"], networks) for name, one in attacks.items()}
    noisy, trained = like[f"dp {budget:g}"], like[f"pmsfl, {end}, mean mask"]
    against = f"ε = {budget:g}"
    found = Comparisons(margin)
    found.ahead("mitigates", {"SplitFed - PM-SFL, mean mask": (like["splitfed"], trained)})
    pair = (like[f"pmsfl, {start}, mean mask"], noisy)
    found.alike("like-0-1-first", {f"mean mask, {start} - {against}": pair})
    found.alike("like-0-1", {f"mean mask, {end} - {against}": (trained, noisy)})
    pair = (like[f"pmsfl, {end}, mask inferred"], noisy)
    found.alike("like-0-1-informed", {f"mask inferred, {end} - {against}": pair})
    pair = (like[f"pmsfl, {start}, score gradients"], like[f"pmsfl, {start}, mask inferred"])
    found.ahead("bits", {"score gradients - bits, first round": pair})
    bits = float(entropy[:, -1].mean())
    hints = {
        "like-0-1": f"the masks have {bits:.2f} bits per weight left, so that the mean mask is a good guess",
        "like-0-1-informed": "the server knows the probabilities and can infer the rest of the mask from "
        "one batch",
    }
    units = _units(len(attacks["splitfed"]["margin"]), networks)
    answers = {
        claim: _because(one, units, hints.get(claim, ""))
        for claim, one in _told_of_all(found.answers(), networks).items()
    }
    kept = bool((entropy[:, -1] > entropy[:, 0] / 2).all())
    told = f"{entropy[:, 0].mean():.2f} bits per weight at the start, {bits:.2f} after "
    answers["random"] = Answer(
        kept,
        f"{told}{entropy.shape[1] - 1} rounds",
        ""
        if kept
        else f"the average of {participants} sampled bits drifts to 0 or 1 in about as many rounds",
    )
    return answers


def _over(ones: Mapping[str, NDArray], nothing: NDArray) -> dict[str, tuple[NDArray, NDArray]]:
    return {f"{name} - no observation": (one, nothing) for name, one in ones.items()}


def _units_of_networks(values: NDArray, networks: int) -> NDArray:
    """Means over the images of each network where there are enough networks, else the images."""
    return values.reshape(networks, -1).mean(axis=1) if networks >= ENOUGH else values


def _told_of_all(answers: Mapping[str, Answer], networks: int) -> dict[str, Answer]:
    """Leaves open what these networks cannot tell about others."""
    if networks >= ENOUGH:
        return dict(answers)
    few = f"{networks} network{'s' if networks > 1 else ''} attacked, {ENOUGH} are needed to tell of others"
    return {
        claim: Answer(None, one.text, few)
        if (claim in _COMPARING and one.holds is not None) or (claim in _HIDING and one.holds)
        else one
        for claim, one in answers.items()
    }


def _units(images: int, networks: int) -> str:
    """What the numbers are means of: `32 images, 2 networks`."""
    return f"{images} images, {networks} network{'s' if networks > 1 else ''}"


def _because(one: Answer, units: str, hint: str) -> Answer:
    """The answer in hundredths of the likeness, with the hint where it is not yes."""
    told = replace(one, text=f"likeness in per cent, {units}: {one.text.replace(' points', '')}")
    if one.holds:
        return told
    reason = "; ".join(filter(None, [one.reason.replace(" points", ""), hint]))
    return replace(told, reason=reason)


def _complete(attacks: Attacks, units: str) -> Answer:
    best = attacks["splitfed"]
    found = interval(best["psnr"])
    linked = bool(np.all(best["linked"]))
    holds = None if found.low <= VISIBLE <= found.high else bool(found.low > VISIBLE and linked)
    smooth = attacks.get("splitfed, no public images")
    text = f"{units}: {compare.told(best)}"
    text += f"; without public images {compare.told(smooth)}" if smooth else ""
    reason = "" if holds else f"PSNR {found.mean:.1f} [{found.low:.1f}, {found.high:.1f}] dB"
    return Answer(holds, text, reason)
