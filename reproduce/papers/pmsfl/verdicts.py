"""How the orders that pmsfl claims are decided: training runs over seeds, attacks within images.

Every function returns claim -> (whether it holds, our numbers in words, the reason where it does not
hold). A claim that the parameters at hand leave without a meaning is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numpy.typing import NDArray

from reproduce.papers.pmsfl import compare
from reproduce.papers.pmsfl.attack_runs import STAGES
from reproduce.papers.pmsfl.tables import COLUMNS, SETTINGS
from reproduce.papers.statistics import Interval, Lead, interval, lead, why

Verdicts = dict[str, tuple[bool, str, str]]

CLOSE = 0.02
"""Accuracies that differ by no more than 2 points are as high as each other; set beforehand."""

_PERSONAL = ("femnist", "mmhar", "sonichar")
_MIXED = ("cifar100-mixed", "femnist-mixed")


# Training -----------------------------------------------------------------------------------------


def method_orders(
    finals: Mapping[str, Mapping[str, NDArray]], printed: Mapping[str, Sequence[str]], hint: str
) -> Verdicts:
    """Table 1.

    Args:
        finals: setting -> method -> final accuracies, shape (seeds,), in [0, 1].
        printed: setting -> methods of which the paper gives the accuracy.
        hint: what was reduced, for the reasons.
    """
    rivals = {
        k: {
            f"{k}: PM-SFL - {COLUMNS[m]}": (finals[k]["pmsfl"], finals[k][m])
            for m in printed[k]
            if m != "pmsfl"
        }
        for k in SETTINGS
    }
    leads = {
        "best-personalized": ("", {n: pair for k in _PERSONAL for n, pair in rivals[k].items()}),
        "best-mixed": ("", {n: pair for k in _MIXED for n, pair in rivals[k].items()}),
        "pm-below-standalone": (
            "Standalone - SplitFed-PM: ",
            {k: (finals[k]["standalone"], finals[k]["splitfed_pm"]) for k in _PERSONAL},
        ),
        "beats-layerwise": (
            "PM-SFL - LG-FedAvg: ",
            {k: (finals[k]["pmsfl"], finals[k]["lg_fedavg"]) for k in _PERSONAL},
        ),
        "noise-costs": (
            "SplitFed - SplitFed-DP: ",
            {k: (finals[k]["splitfed"], finals[k]["splitfed_dp"]) for k in SETTINGS},
        ),
        "mixed-hurts": (
            "one depth - mixed depths: ",
            {
                f"{k}, {COLUMNS[m]}": (finals[k.removesuffix("-mixed")][m], finals[k][m])
                for k in _MIXED
                for m in printed[k]
                if m in printed[k.removesuffix("-mixed")]
            },
        ),
        "depthfl-helps": (
            "DepthFL - SplitFed-PM: ",
            {k: (finals[k]["depthfl"], finals[k]["splitfed_pm"]) for k in _MIXED},
        ),
        "help-of-others": (
            "SplitFed - Standalone: ",
            {k: (finals[k]["splitfed"], finals[k]["standalone"]) for k in SETTINGS},
        ),
    }
    verdicts = {claim: _led(lead(pairs), title, hint) for claim, (title, pairs) in leads.items()}
    near = interval(finals["cifar100"]["pmsfl"] - finals["cifar100"]["splitfed"])
    verdicts["near-splitfed"] = _near(near, "points; the paper's -0.37; decided at 2 points", hint)
    return verdicts


def curve_orders(accuracy: Mapping[str, NDArray], labels: Mapping[str, str], hint: str) -> Verdicts:
    """Figure 4, what its accuracies decide.

    Args:
        accuracy: name of `tables.FIGURE4` -> shape (seeds, evaluated rounds), round 0 first.
        labels: name -> legend.
        hint: what was reduced, for the reasons.
    """
    finals = {name: curve[:, -1] for name, curve in accuracy.items()}
    near = interval(finals["pmsfl"] - finals["splitfed"])
    mean = {m: accuracy[m][:, 1:].mean(axis=1) for m in ("splitfed", "pmsfl", "splitfed_dp")}
    slower = lead({labels[m]: (mean[m], mean["splitfed_dp"]) for m in ("splitfed", "pmsfl")})
    slope = interval(finals["paper's gradient"] - finals["pmsfl"])
    return {
        "near-splitfed": _near(near, "points at the end; decided at 2 points", hint),
        "noise-slower": _led(slower, "mean accuracy over the rounds minus SplitFed-DP's: ", hint),
        "gradient-4": (
            max(abs(slope.low), abs(slope.high)) <= CLOSE,
            f"(4) as printed minus straight-through: {slope.text()} points; decided at 2 points",
            "the additional factor sigma(s) slows down scores below zero"
            if slope.sign < 0
            else f"the interval reaches further; {hint}",
        ),
    }


def mask_orders(
    accuracy: Mapping[str, NDArray],
    frozen: Mapping[str, NDArray],
    drift: Sequence[float],
    papers_drift: float,
    floor: float,
) -> Verdicts:
    """Figure 4, what becomes of the masks: whether they stay off 0 and 1, and whether they learn.

    Args:
        accuracy: name of `tables.FIGURE4` -> shape (seeds, evaluated rounds).
        frozen: name -> shares of the probabilities at 0 or 1, likewise.
        drift: the share without training after 0, 1, ... rounds.
        papers_drift: that of the paper's 10 participants after 50 rounds.
        floor: c.
    """
    finals = {name: curve[:, -1] for name, curve in accuracy.items()}
    stuck = float(frozen["shared, not kept"][:, -1].mean())
    learned = {
        f"c = {floor:g}": lead({"trained - not trained": (finals["shared"], finals["untrained"])}),
        "c = 0": lead(
            {"trained - not trained": (finals["shared, not kept"], finals["untrained, not kept"])}
        ),
    }
    papers_rate = interval(finals["paper's rate"] - finals["untrained"])
    return {
        "kept-inside": (
            stuck == 0,
            f"nothing in Algorithm 1 keeps them there: after {len(drift) - 1} rounds {stuck:.0%} of the "
            f"probabilities are exactly 0 or 1 without personal masks (drift alone: {drift[-1]:.0%}; "
            f"with the paper's 10 participants {papers_drift:.0%} after 50 of its 1,000 rounds), "
            f"{frozen['not kept'][:, -1].mean():.0%} with; clipped at c = {floor:g}: "
            f"{frozen['pmsfl'][:, -1].max():.0%}; accuracy without clipping minus with: "
            f"{interval(finals['shared, not kept'] - finals['shared']).text()} points (none "
            f"personal), {interval(finals['not kept'] - finals['pmsfl']).text()} points (PM-SFL)",
            "averages of bits reach 0 and 1, where the score is infinite and its gradient zero; "
            "clients have to clip",
        ),
        "masks-learn": (
            any(one.holds for one in learned.values()),
            "none personal, "
            + ", ".join(f"{k}: {one.text} points" for k, one in learned.items())
            + f"; at the paper's rate for scores, c = {floor:g}: {papers_rate.text()} points",
            "no clear gain over masks that are never learned: much of what is learned is the "
            "server's half",
        ),
    }


def personal_orders(
    finals: Mapping[str, NDArray],
    agreements: Sequence[int],
    ratios: Sequence[float],
    *,
    rounds: int,
    best: int,
    hint: str,
) -> Verdicts:
    """Figure 6.

    Args:
        finals: "agreement A" and "ratio R" -> final accuracies, shape (seeds,).
        agreements: rounds of panel (a).
        ratios: personal shares of panel (b), in [0, 1].
        rounds: of the training.
        best: rounds that the paper finds best; without them in `agreements` nothing is decided
            about panel (a), without 1/2 in `ratios` nothing about panel (b).
        hint: what was reduced, for the reasons.
    """
    verdicts: Verdicts = {}
    others = {
        a: (finals[f"agreement {best}"], finals[f"agreement {a}"])
        for a in agreements
        if a != best and best in agreements
    }
    if others:
        ahead = lead({f"{best} - {a} rounds": pair for a, pair in others.items()})
        highest = max(agreements, key=lambda a: finals[f"agreement {a}"].mean())
        title = f"highest mean at {highest} of {rounds} rounds; "
        verdicts["agreement-10"] = _led(ahead, title, hint)
    ends = {min(agreements), max(agreements)}
    if ends <= set(others):
        both = lead({f"{best} - {a} rounds": others[a] for a in sorted(ends)})
        verdicts["agreement-extremes"] = _led(both, "", hint)
    if 0.5 in ratios and len(ratios) > 1:
        half = finals["ratio 0.5"]
        ahead = lead({f"0.5 - {r:g}": (half, finals[f"ratio {r:g}"]) for r in ratios if r != 0.5})
        highest = max(ratios, key=lambda r: finals[f"ratio {r:g}"].mean())
        verdicts["ratio-half"] = _led(ahead, f"highest mean at {highest:g}; ", hint)
    return verdicts


def _led(one: Lead, title: str, hint: str) -> tuple[bool, str, str]:
    return one.holds, f"{title}{one.text}", why(one, hint)


def _near(near: Interval, unit: str, hint: str) -> tuple[bool, str, str]:
    reason = "masks over frozen weights learn more slowly than weights"
    reason = reason if near.mean < 0 else "PM-SFL is ahead"
    return abs(near.mean) <= CLOSE, f"PM-SFL - SplitFed = {near.text()} {unit}", f"{reason}; {hint}"


# Attacks ------------------------------------------------------------------------------------------


def noise_orders(
    attacks: Mapping[str, compare.Measures],
    *,
    batch: int,
    budgets: Sequence[float],
    copies: int,
    record: int,
    densities: tuple[float, float],
) -> Verdicts:
    """Figure 2.

    Args:
        attacks: of `compare.pooled`.
        batch: images attacked together.
        budgets: of SplitFed-DP, > 0.
        copies: seen by an attacker of many rounds.
        record: activations of a record.
        densities: activations for each pixel, here and in the paper's network.
    """
    high, low = max(budgets), min(budgets)
    nothing, told = attacks[compare.NOTHING], compare.told
    gains = {name: compare.over_nothing(one, nothing, batch) for name, one in attacks.items()}
    best = attacks["splitfed"]
    surely = interval(best["psnr"], compare.CONFIDENCE)
    smooth = attacks.get("splitfed, no public images")
    whole = f"dp {high:g}, whole record"
    open_at = [e for e in budgets if compare.reveals(gains[f"dp {e:g}"])]
    late = [e for e in budgets if compare.reveals(gains[f"dp {e:g}, median of many rounds"])]
    more = {
        name: compare.excess(attacks[f"{name}, gradients"], attacks[name])
        for name in ("splitfed", f"dp {high:g}", f"dp {low:g}")
        if f"{name}, gradients" in attacks
    }
    verdicts = {
        "complete": (
            surely.low > 20 and bool(best["linked"].all()),
            told(best) + (f"; without public images {told(smooth)}" if smooth else ""),
            "the network is not wide enough for the attack to be exact",
        ),
        "limited-at-5": (
            compare.reveals(gains[f"dp {high:g}"]),
            f"ε = {high:g}: {told(attacks[f'dp {high:g}'])}; no observation: {told(nothing)}",
            "not told apart from no observation at all",
        ),
        "only-0-1": (
            open_at == [e for e in budgets if e > low],
            "one copy; revealing: ε = " + (", ".join(f"{e:g}" for e in open_at) or "none"),
            "where noise starts to hide an image from one copy depends on clip and network: per "
            f"pixel, {densities[0]:.1f} activations tell of it here, "
            f"{densities[1]:.1f} in the paper's network",
        ),
        "still-0-1": (
            low not in late,
            f"median of {copies} copies; revealing: ε = {', '.join(f'{e:g}' for e in late) or 'none'}; "
            f"ε = {low:g}: {told(attacks[f'dp {low:g}, median of many rounds'])}",
            f"{copies} copies with fresh noise have the variance of a budget of {low * copies**0.5:.2g} "
            f"on their average, that of {low * (2 * copies) ** 0.5:.2g} on their median, and cost "
            f"{low * copies:g} per activation by basic composition",
        ),
        "record": (
            compare.reveals(gains[whole]),
            f"{told(attacks[whole])}; no observation: {told(nothing)}",
            f"a record has {record} activations here: noise for all of them at once is "
            f"{record} times as large and leaves nothing; the paper's budgets can only be those "
            "of single activations",
        ),
    }
    if more:
        verdicts["gradients"] = (
            compare.reveals(more["splitfed"]) or compare.reveals(more[f"dp {high:g}"]),
            "; ".join(f"{name}: {gain['psnr'].mean:+.1f} dB" for name, gain in more.items()),
            "the smashed data already determine the images, or the noise on the update hides what it "
            "would add; no measure is certainly higher",
        )
    return verdicts


def mask_protection(
    attacks: Mapping[str, compare.Measures],
    entropy: NDArray,
    *,
    batch: int,
    budget: float,
    inferred: int,
    participants: int,
) -> Verdicts:
    """Figure 5; nothing is decided where PM-SFL was not attacked.

    Args:
        attacks: of `compare.pooled`.
        entropy: of the masks after every round, bits per weight, shape (seeds, rounds + 1).
        batch: images attacked together.
        budget: epsilon of the noise that masks are held against.
        inferred: copies of which each mask is inferred.
        participants: whose bits are averaged in a round.
    """
    start, end = STAGES
    naive = {stage: f"pmsfl, {stage}, mean mask" for stage in STAGES}
    if naive[start] not in attacks:
        return {}
    told, reveals, excess = compare.told, compare.reveals, compare.excess
    nothing = attacks[compare.NOTHING]
    gains = {name: compare.over_nothing(one, nothing, batch) for name, one in attacks.items()}
    noisy, noisy_late = f"dp {budget:g}", f"dp {budget:g}, median of many rounds"
    verdicts: Verdicts = {
        "mitigates": (
            reveals(excess(attacks["splitfed"], attacks[naive[end]])),
            f"SplitFed {told(attacks['splitfed'])}; PM-SFL, mean mask, trained "
            f"{told(attacks[naive[end]])}",
            "no measure tells them apart",
        )
    }
    for claim, stage in (("like-0-1-first", start), ("like-0-1", end)):
        name = naive[stage]
        verdicts[claim] = (
            not reveals(gains[name]) and not reveals(excess(attacks[name], attacks[noisy])),
            f"mean mask, {stage}: {told(attacks[name])}; ε = {budget:g}: {told(attacks[noisy])}",
            f"the masks have {entropy[:, -1].mean():.2f} bits per weight left, so that the mean mask "
            "is a good guess",
        )
    rivals = {
        "masks averaged": noisy,
        "likeliest of several masks": noisy,
        "mask inferred": noisy,
        "many rounds, masks averaged": noisy_late,
        "many rounds, more masks averaged": noisy_late,
        "several copies, each mask inferred": noisy_late,
    }
    above = {
        stage: [
            name
            for name, other in rivals.items()
            if reveals(gains[f"pmsfl, {stage}, {name}"])
            and reveals(excess(attacks[f"pmsfl, {stage}, {name}"], attacks[other]))
        ]
        for stage in STAGES
    }
    several = told(attacks[f"pmsfl, {end}, several copies, each mask inferred"])
    verdicts["like-0-1-informed"] = (
        not any(above.values()),
        "revealing more than the budget: "
        + "; ".join(f"{stage}: {', '.join(names) or 'none'}" for stage, names in above.items())
        + f"; trained, mask inferred: {told(attacks[f'pmsfl, {end}, mask inferred'])}"
        f"; {inferred} copies: {several}",
        "the server knows the probabilities, can infer the rest of the mask from one batch, and sees "
        "many masks of the same images",
    )
    helped = {
        stage: excess(
            attacks[f"pmsfl, {stage}, score gradients"], attacks[f"pmsfl, {stage}, mask inferred"]
        )
        for stage in STAGES
    }
    verdicts["bits"] = (
        any(reveals(gain) for gain in helped.values()),
        "; ".join(
            f"{stage}: {gain['psnr'].mean:+.1f} dB, margin {gain['margin'].mean:+.2f} with score "
            "gradients"
            for stage, gain in helped.items()
        ),
        "with a batch of images, the gradients of the scores add nothing that is certain to what "
        "smashed data reveal; the closed form of appendix B is for dense layers and one image",
    )
    verdicts["random"] = (
        bool((entropy[:, -1] > entropy[:, 0] / 2).all()),
        f"{entropy[:, 0].mean():.2f} bits per weight at the start, {entropy[:, -1].mean():.2f} after "
        f"{entropy.shape[1] - 1} rounds",
        f"the average of {participants} sampled bits drifts to 0 or 1 in about as many rounds",
    )
    return verdicts
