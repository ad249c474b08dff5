"""With changed parameters no verdict of pmsfl raises, whatever sensible value is set."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt

from reproduce import catalogue
from reproduce.papers.pmsfl import compare, pictures, tables, verdicts
from reproduce.papers.pmsfl.attack_runs import MEASURES, STAGES

rng = np.random.default_rng(0)


def runs(seeds=3):
    return 0.5 + 0.1 * rng.random(seeds)


def curves(seeds=3, points=4):
    return 0.5 + 0.1 * rng.random((seeds, points))


def measures(images=6):
    return {m: rng.random(images) for m in MEASURES}


def noise_attacks(epsilons, *, gradients=True, smooth=True):
    names = ["splitfed", compare.NOTHING, f"dp {max(epsilons):g}, whole record"]
    for e in epsilons:
        names += [f"dp {e:g}{kind}" for kind in ("", ", many rounds", ", median of many rounds")]
    if gradients:
        ends = {max(epsilons), min(epsilons)}
        names += ["splitfed, gradients", *(f"dp {e:g}, gradients" for e in ends)]
    return {name: measures() for name in names + ["splitfed, no public images"] * smooth}


def decided(verdicts_):
    for holds, ours, reason in verdicts_.values():
        assert isinstance(bool(holds), bool) and ours and reason
    return set(verdicts_)


# Figures 2 and 5 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilons", [[1.0], [4.0, 2.0], [5.0, 2.0, 1.0, 0.5, 0.1]])
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("smooth", [True, False])
def test_budgets_and_attackers_of_figure_2_are_free(epsilons, gradients, smooth):
    attacks = noise_attacks(epsilons, gradients=gradients, smooth=smooth)
    claims = decided(
        verdicts.noise_orders(
            attacks, batch=3, budgets=epsilons, copies=7, record=64, densities=(1.0, 2.0)
        )
    )
    assert ("gradients" in claims) == gradients
    assert {"complete", "limited-at-5", "only-0-1", "still-0-1", "record"} <= claims
    rows = compare.noise_rows(attacks, epsilons, 7)
    drawn = {name for panel in rows.values() for name in panel.values() if name}
    assert drawn <= set(attacks) and {f"dp {e:g}" for e in epsilons} <= drawn
    assert len(compare.table(attacks, rows, 3)) == sum(len(panel) - 1 for panel in rows.values())


def test_the_reasons_of_figure_2_speak_of_the_numbers_at_hand():
    attacks = noise_attacks([3.0, 0.2])
    found = verdicts.noise_orders(
        attacks, batch=3, budgets=[3.0, 0.2], copies=50, record=99, densities=(1.5, 2.0)
    )
    assert "ε = 3:" in found["limited-at-5"][1] and "50 copies" in found["still-0-1"][1]
    assert "ε = 0.2:" in found["still-0-1"][1] and "99 activations" in found["record"][2]
    assert "1.5 activations" in found["only-0-1"][2]


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("masks", [True, False])
def test_figure_5_without_masks_or_with_few_rounds(rounds, masks):
    attacks = noise_attacks([0.3, 2.0])
    config = {"seen": 9, "guesses": 2, "versions": 3, "copies": 4, "rounds": rounds}
    every = compare.mask_rows(dict.fromkeys(everything(), measures()), 0.3, config)
    if masks:
        attacks |= {name: measures() for panel in every.values() for name in panel.values() if name}
    entropy = rng.random((2, rounds + 1)) if masks else np.empty((2, 0))
    found = verdicts.mask_protection(
        attacks, entropy, batch=3, budget=0.3, inferred=4, participants=5
    )
    assert decided(found) == (
        {"mitigates", "like-0-1-first", "like-0-1", "like-0-1-informed", "bits", "random"}
        if masks
        else set()
    )
    assert len(compare.mask_rows(attacks, 0.3, config)) == (3 if masks else 1)


def everything():
    attackers = (
        "mean mask", "masks averaged", "likeliest of several masks", "mask inferred",
        "score gradients", "mask uploaded, sampled anew", "many rounds, masks averaged",
        "many rounds, more masks averaged", "several copies, each mask inferred",
        "mask uploaded, the one used",
    )  # fmt: skip
    return [f"pmsfl, {stage}, {name}" for stage in STAGES for name in attackers]


# Table 1, figures 4 and 6 -------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [2, 5])
def test_table_1_with_other_seeds(seeds):
    finals = {k: {m: runs(seeds) for m in tables.COLUMNS} for k in tables.SETTINGS}
    printed = dict.fromkeys(tables.SETTINGS, list(tables.COLUMNS))
    assert len(decided(verdicts.method_orders(finals, printed, "small"))) == 9


@pytest.mark.parametrize(("seeds", "points"), [(2, 2), (4, 7)])
def test_figure_4_with_other_seeds_and_rounds(seeds, points):
    accuracy = {name: curves(seeds, points) for name in tables.FIGURE4}
    labels = {name: name for name in tables.FIGURE4}
    decided(verdicts.curve_orders(accuracy, labels, "small"))
    drift = np.linspace(0, 1, points)
    decided(verdicts.mask_orders(accuracy, accuracy, drift, 0.9, 0.0))


@pytest.mark.parametrize(
    ("agreements", "ratios", "expected"),
    [
        (
            [0, 1, 3, 10],
            [0.0, 0.25, 0.5, 1.0],
            {"agreement-10", "agreement-extremes", "ratio-half"},
        ),
        ([0, 2], [0.0, 1.0], set()),
        ([1], [0.5], set()),
        ([1, 4], [0.5, 0.6], {"agreement-10", "ratio-half"}),
        ([0, 1, 2, 3, 4], [0.1, 0.2, 0.3], {"agreement-10", "agreement-extremes"}),
    ],
)
def test_figure_6_decides_what_its_values_allow(agreements, ratios, expected):
    names = [f"agreement {a}" for a in agreements] + [f"ratio {r:g}" for r in ratios]
    finals = {name: runs() for name in [*names, tables.CONTROL]}
    found = verdicts.personal_orders(finals, agreements, ratios, rounds=12, best=1, hint="small")
    assert decided(found) == expected
    fig = pictures.agreement_and_ratio(finals, agreements, ratios, 0.2, rounds=12, best=1)
    assert len(fig.axes) == 2
    plt.close(fig)


def test_lists_of_another_length_and_a_single_seed_are_one_clear_error():
    parameters = catalogue.figure("pmsfl/table1").parameters("quick")
    with pytest.raises(
        ValueError, match="rounds must hold one value for each of CIFAR-100, FEMNIST"
    ):
        tables.table_tasks(parameters | {"rounds": [10, 10]})
    with pytest.raises(ValueError, match="seeds must be"):
        tables.table_tasks(parameters | {"seeds": 1})


def test_budgets_of_noise_are_not_free_for_what_the_paper_says_of_0_1():
    claims = {claim.id: claim for claim in catalogue.figure("pmsfl/fig5").claims}
    assert all("epsilons" in claim.touched({"epsilons": [1.0]}) for claim in claims.values())
    assert not any(claim.touched({"seeds": 3, "steps": 9}) for claim in claims.values())
