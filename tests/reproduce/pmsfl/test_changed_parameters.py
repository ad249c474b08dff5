"""With changed parameters no verdict of pmsfl raises, whatever sensible value is set."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt

from reproduce import catalogue
from reproduce.papers.pmsfl import (
    attack_verdicts,
    compare,
    pictures,
    stories,
    table_picture,
    tables,
    training_verdicts,
)
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


def decided(answers):
    for answer in answers.values():
        assert answer.holds in (True, False, None) and answer.text
        assert answer.reason or answer.holds
    return set(answers)


# Figures 2 and 5 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilons", [[1.0], [4.0, 2.0], [5.0, 2.0, 1.0, 0.5, 0.1]])
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("smooth", [True, False])
def test_budgets_and_attackers_of_figure_2_are_free(epsilons, gradients, smooth):
    attacks = noise_attacks(epsilons, gradients=gradients, smooth=smooth)
    claims = decided(
        attack_verdicts.noise_answers(
            attacks, budgets=epsilons, copies=7, record=64, networks=1, margin=0.05
        )
    )
    assert ("gradients" in claims) == gradients
    assert ("only-0-1" in claims) == (len(epsilons) > 1)
    assert {"complete", "limited-at-5", "hidden-at-0-1", "still-0-1", "record"} <= claims
    rows = compare.noise_rows(attacks, epsilons, 7)
    drawn = {name for panel in rows.values() for name in panel.values() if name}
    assert drawn <= set(attacks) and {f"dp {e:g}" for e in epsilons} <= drawn
    assert len(compare.table(attacks, rows, 3)) == sum(len(panel) - 1 for panel in rows.values())


def test_the_reasons_of_figure_2_speak_of_the_numbers_at_hand():
    budgets = [3.0, 0.2]
    attacks = noise_attacks(budgets)
    found = attack_verdicts.noise_answers(
        attacks, budgets=budgets, copies=50, record=99, networks=1, margin=0.05
    )
    assert "ε = 3 " in found["limited-at-5"].text and "50 copies" in found["still-0-1"].text
    assert "ε = 0.2" in found["hidden-at-0-1"].text
    assert all("6 images, 1 network:" in found[claim].text for claim in ("complete", "gradients"))
    density = attack_verdicts.dense(4.0, 10.5)
    told = " ".join(stories.figure2(attacks, density, budgets, 50))
    assert "ε = 3 " in told and "0.2" in told and "50 times" in told
    assert "4.0 activations a pixel, 10.5 in the paper's network" in told


def test_a_budget_of_a_whole_record_hides_the_images_or_the_reason_counts_its_activations():
    attacks = noise_attacks([5.0])
    attacks["dp 5, whole record"] = attacks[compare.NOTHING]
    budgets = {"budgets": [5.0], "copies": 7, "record": 64, "networks": 6, "margin": 0.05}
    assert attack_verdicts.noise_answers(attacks, **budgets)["record"].holds is True
    few = attack_verdicts.noise_answers(attacks, **budgets | {"networks": 1})["record"]
    assert few.holds is None and "1 network attacked, 5 are needed" in few.reason
    attacks["dp 5, whole record"] = attacks["splitfed"]
    found = attack_verdicts.noise_answers(attacks, **budgets)["record"]
    assert found.holds is not True and "64 activations" in found.reason


def test_few_networks_leave_open_which_attack_reveals_more_and_still_show_what_one_reveals():
    attacks = noise_attacks([5.0], gradients=True)
    attacks["splitfed, gradients"] = {m: v + 0.5 for m, v in attacks["splitfed"].items()}
    attacks["dp 5"] = {m: v + 9.0 for m, v in attacks[compare.NOTHING].items()}
    attacks["dp 5, gradients"] = {m: v + 0.5 for m, v in attacks["dp 5"].items()}
    of = {"budgets": [5.0], "copies": 7, "record": 64, "margin": 0.05}
    few = attack_verdicts.noise_answers(attacks, **of, networks=2)
    assert few["gradients"].holds is None and few["limited-at-5"].holds is True
    assert few["hidden-at-0-1"].holds is False  # one network is enough to find a leak
    many = attack_verdicts.noise_answers(attacks, **of, networks=6)
    assert many["gradients"].holds is True and "6 networks" in many["gradients"].text


def test_a_network_with_fewer_activations_a_pixel_decides_nothing_about_noise_that_hides():
    assert not attack_verdicts.dense(4.0, 10.5)[0]
    assert attack_verdicts.dense(10.5, 10.5)[0]


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("masks", [True, False])
def test_figure_5_without_masks_or_with_few_rounds(rounds, masks):
    attacks = noise_attacks([0.3, 2.0])
    config = {"seen": 9, "guesses": 2, "versions": 3, "copies": 4, "rounds": rounds}
    if masks:
        attacks |= {name: measures() for name in everything()}
    entropy = rng.random((2, rounds + 1)) if masks else np.empty((2, 0))
    found = attack_verdicts.mask_answers(
        attacks, entropy, budget=0.3, participants=5, networks=2, margin=0.05
    )
    assert decided(found) == (
        {"mitigates", "like-0-1-first", "like-0-1", "like-0-1-informed", "bits", "random"}
        if masks
        else set()
    )
    rows = compare.mask_rows(attacks, 0.3, config)
    assert len(rows) == 2
    assert (f"PM-SFL,\n{rounds} rounds" in rows["one copy, public images known"]) == masks
    if masks:
        told = stories.figure5(attacks, entropy, 0.3, 4)
        assert "from 4 copies" in told[1]


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
@pytest.mark.parametrize("left_out", [[], ["mmhar", "cifar100-mixed", "femnist"]])
def test_table_1_with_other_seeds_and_settings(seeds, left_out):
    kept = [key for key in tables.SETTINGS if key not in left_out]
    papers = tables.accuracies(catalogue.figure("pmsfl/table1").claims)
    printed = {k: [m for m in tables.COLUMNS if (k, m) in papers] for k in tables.SETTINGS}
    found = {k: {m: curves(seeds) for m in (*tables.COLUMNS, tables.CONTROL)} for k in kept}
    ends = {k: {m: c[:, -1] for m, c in row.items()} for k, row in found.items()}
    orders = training_verdicts.table_orders(ends, printed, 0.02)
    claims = decided(orders)
    assert orders["best-sonichar"].text.startswith("on UCI HAR: ")  # in place of the paper's
    assert not any(" HAR:" in one.text for name, one in orders.items() if "femnist" in name)
    every = {c.id for c in catalogue.figure("pmsfl/table1").claims if c.kind == "order"}
    assert claims <= every and (claims == every) == (not left_out)
    names, trivial = dict.fromkeys(kept, "records"), dict.fromkeys(kept, 0.1)
    parameters = catalogue.figure("pmsfl/table1").parameters("desk")
    met = training_verdicts.table_conditions(parameters, found, trivial, names, papers, 0.02)
    assert set(met) == {c.id for c in catalogue.figure("pmsfl/table1").conditions}
    assert all("not run" in met[f"real-{key}"][1] for key in left_out)
    assert all(stories.table1(ends, papers, met))
    fig = table_picture.accuracy_table(table_picture.blocks(ends, papers, {}, names, trivial))
    assert len(fig.axes) == 2 * len(kept)
    plt.close(fig)


def test_table_1_without_noise_on_one_data_set_decides_nothing_about_noise_there():
    missing = ("splitfed_dp", "lg_fedavg", tables.CONTROL)
    papers = tables.accuracies(catalogue.figure("pmsfl/table1").claims)
    printed = {k: [m for m in tables.COLUMNS if (k, m) in papers] for k in tables.SETTINGS}
    found = {k: {m: curves(5) for m in tables.COLUMNS} for k in ("femnist", "mmhar")}
    found["cifar100"] = {m: curves(3) for m in tables.COLUMNS if m not in missing}
    ends = {k: {m: c[:, -1] for m, c in row.items()} for k, row in found.items()}
    orders = training_verdicts.table_orders(ends, printed, 0.02)
    assert {"near-splitfed", "help-of-others-cifar100", "noise-costs-femnist"} <= set(orders)
    assert "noise-costs-cifar100" not in orders
    names, trivial = dict.fromkeys(found, "records"), dict.fromkeys(found, 0.1)
    parameters = catalogue.figure("pmsfl/table1").parameters("long")
    met = training_verdicts.table_conditions(parameters, found, trivial, names, papers, 0.02)
    assert met["baseline-cifar100"] == (False, "not run in this profile")
    assert "splitfed" in met["converged-cifar100"][1].lower()
    told = " ".join(stories.table1({"cifar100": ends["cifar100"]}, papers, met))
    assert "SplitFed-DP was not run on these data" in told and "noise of SplitFed-DP" not in told
    assert tables.seeds_in_words(ends) == "3 to 5 seeds"
    assert tables.seeds_in_words({"mmhar": ends["mmhar"]}) == "5 seeds"


def test_less_noise_is_told_where_it_is_run():
    """Caption and story name the noise of the extra row, and what it costs beside the paper's."""
    figure = catalogue.figure("pmsfl/table1")
    told = tables.fitted_words(figure.parameters("long"))
    assert "ε = 3 for an activation and 500 for the updates" in told
    assert "in place of the printed 0.1 for an activation and 5 for the updates" in told
    assert tables.fitted_words(figure.parameters("desk")) == ""

    papers = {
        ("femnist", m): a for m, a in (("pmsfl", 0.8), ("splitfed", 0.7), ("splitfed_dp", 0.6))
    }
    met = {f"{kind}-femnist": (True, "") for kind in ("real", "learns", "converged", "baseline")}
    ends = {m: np.full(5, a) for m, a in (("pmsfl", 0.7), ("splitfed", 0.6), ("splitfed_dp", 0.1))}
    assert "less noise" not in stories.table1({"femnist": ends}, papers, met)[1]
    found = stories.table1({"femnist": {**ends, tables.FITTED: np.full(5, 0.55)}}, papers, met)[1]
    assert found.endswith(
        "with less noise it loses 5.0 [5.0, 5.0] points (the paper's loses 10.0)."
    )


def test_no_interval_of_an_accuracy_passes_0_or_100_per_cent():
    ends = {"femnist": {"pmsfl": np.array([0.2, 0.8]), "splitfed": np.array([0.44, 0.46])}}
    block = table_picture.blocks(ends, {}, {}, {"femnist": "records"}, {"femnist": 0.1})[0]
    wide, narrow = (row.ours for row in block.rows)
    assert (wide.low, wide.mean, wide.high) == (0.0, 0.5, 1.0)
    assert 0 < narrow.low < narrow.mean < narrow.high < 1


def test_conditions_say_why_runs_cannot_decide():
    flat, rising = np.full((5, 9), 0.5), np.tile(np.linspace(0, 0.5, 9), (5, 1))
    noise = 0.01 * rng.random((5, 9))
    assert training_verdicts.learns({"pmsfl": flat + noise}, 0.1, 0.8)[0]
    assert not training_verdicts.learns({"pmsfl": flat + noise}, 0.6, 0.8)[0]
    assert not training_verdicts.learns({"pmsfl": flat / 2 + noise}, 0.1, 0.8)[0]
    both = {"pmsfl": flat + noise, "splitfed": flat / 2 + noise}
    assert training_verdicts.learns(both, 0.1, 0.8)[0]
    assert training_verdicts.learns(both, 0.1, 0.8, 0.4)[0]
    assert not training_verdicts.learns(both, 0.1, 0.8, 0.8)[0]
    assert training_verdicts.converged({"pmsfl": flat, "splitfed": flat}, 0.02)[0]
    assert not training_verdicts.converged({"pmsfl": rising, "splitfed": flat}, 0.02)[0]
    chance = {"splitfed": flat + noise, "splitfed_dp": noise}
    assert not training_verdicts.baseline(chance, 0.12, 0.02)[0]
    assert training_verdicts.baseline(chance | {"splitfed_dp": flat - 0.12}, 0.12, 0.02)[0]


@pytest.mark.parametrize(("seeds", "points"), [(2, 2), (5, 7)])
def test_figure_4_with_other_seeds_and_rounds(seeds, points):
    accuracy = {name: curves(seeds, points) for name in tables.FIGURE4}
    for slower in ("splitfed_dp", "fitted"):
        found = training_verdicts.curve_orders(accuracy, slower, 0.02)
        decided(found)
        assert ("less noise" in found["noise-slower"].text) == (slower == "fitted")
    drift = np.linspace(0, 1, points)
    holds, ours, reason = training_verdicts.masks_frozen(accuracy, accuracy, drift, 0.9, 0.0)
    assert holds and ours and reason
    inside = {name: 0 * curve for name, curve in accuracy.items()}
    assert not training_verdicts.masks_frozen(accuracy, inside, drift, 0.9, 0.0)[0]


def test_masks_that_learn_only_under_our_clip_are_not_said_to_learn():
    spread = 0.002 * rng.random((5, 9))
    accuracy = {name: 0.6 + spread for name in tables.FIGURE4} | {"untrained": 0.5 + spread}
    claim = "masks-learn"
    assert training_verdicts.curve_orders(accuracy, "splitfed_dp", 0.02)[claim].holds is False
    accuracy["untrained, not kept"] = 0.5 + spread
    assert training_verdicts.curve_orders(accuracy, "splitfed_dp", 0.02)[claim].holds is True


def test_motion_of_a_phone_is_not_ultrasound():
    assert training_verdicts.real("radhar", "RadHAR")[0]
    holds, described = training_verdicts.real("ucihar", "UCI HAR")
    assert not holds and "ultrasound" in described


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
    found = training_verdicts.personal_orders(finals, agreements, ratios, best=1, margin=0.02)
    assert decided(found) == expected
    met = dict.fromkeys(("real", "learns", "converged"), (True, "numbers"))
    assert "3 seeds are fewer" in stories.figure6(finals, agreements, ratios, 1, met)[2]
    fig = pictures.agreement_and_ratio(finals, agreements, ratios, rounds=12, best=1, paper=0.8)
    assert len(fig.axes) == 2
    plt.close(fig)


def test_lists_of_another_length_and_a_single_seed_are_one_clear_error():
    parameters = catalogue.figure("pmsfl/table1").parameters("quick")
    with pytest.raises(
        ValueError, match="rounds must hold one value for each of CIFAR-100, FEMNIST"
    ):
        tables.table_tasks(parameters | {"rounds": [10, 10]})
    with pytest.raises(ValueError, match="seeds must be"):
        tables.table_tasks(parameters | {"seeds": [2, 1, 2, 2]})


def test_budgets_of_noise_are_not_free_for_what_the_paper_says_of_0_1():
    claims = {claim.id: claim for claim in catalogue.figure("pmsfl/fig5").claims}
    assert all("epsilons" in claim.touched({"epsilons": [1.0]}) for claim in claims.values())
    assert not any(claim.touched({"seeds": 3, "steps": 9}) for claim in claims.values())
