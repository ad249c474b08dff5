"""Figures 2 to 6 with parameters that a reader may set: every claim gets an answer, none raises."""

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from reproduce import catalogue
from reproduce.notebook import Workbook
from reproduce.papers.mspafl import (
    claims,
    curves,
    local_claims,
    pictures,
    run_claims,
    stories,
    training_claims,
    training_pictures,
)
from reproduce.papers.mspafl.runs import METHODS

AT = np.array([1, 3])
X = curves.many_rounds(3)


def setting(p=0.5, q=0.2, clients=20, beta=0.5):
    return curves.Setting(p, q, clients, beta, 1.0, 1e-4, 1e-4)


def workbook(figure, **changes):
    """The workbook of a figure with the quick values and these changes."""
    own = catalogue.figure(f"mspafl/{figure}").parameters("quick")
    return Workbook(f"mspafl/{figure}", own | {"profile": "quick"} | changes)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


# Figure 3 -----------------------------------------------------------------------------------------


def one_round(p, q):
    """The findings of Figure 3, and its picture, for some p and q."""
    local = np.array([0.5, 1.0])
    panels = curves.panels_by_rate(setting(), p, q)
    printed = curves.each(panels, lambda s: s.round_epsilon(local))
    views = curves.each(panels, lambda s: curves.round_views(s, local))
    deltas = curves.each(panels, lambda s: float(s.round_delta()))
    small = curves.small_batch(setting())
    small_views = {"small": curves.round_views(small, local[-1:])}
    rows = {
        key: row
        for some, found in (
            *((panels[part], views[part]) for part in panels),
            ({"small": small}, small_views),
        )
        for key, row in curves.last_round(some, found, 1.0).items()
    }
    pictures.one_round(local, printed, {part: part for part in panels}, rows)
    assert all(stories.one_round(panels, printed, views, local, rows[list(rows)[-1]]))
    return {
        "order-p": claims.increases(panels["(a)"], printed["(a)"], "p", "at the end"),
        "order-q": claims.increases(panels["(b)"], printed["(b)"], "q", "at the end"),
        "baseline-p1": claims.baseline(panels["(a)"], printed["(a)"], 1.0),
        "joint-tighter": claims.joint_tighter(panels, local),
        "delta-target": claims.round_within_target(deltas, 1e-4),
        **claims.printed_round_pairs(panels, views, local, small),
    }


def test_four_p_and_two_q_in_any_order():
    p = [1.0, 0.2, 0.4, 0.1]
    found = one_round(p, [0.4, 0.1])
    assert found["order-p"].holds and found["order-q"].holds and found["baseline-p1"].holds
    assert found["order-p"].ours.endswith("for p = 0.1, 0.2, 0.4, 1.0")
    assert "p = 1 is" in found["baseline-p1"].ours
    book = workbook("fig3", p_values=p, q_values=[0.4, 0.1])
    assert book.applies(*found)
    claims.record(book, found)
    assert book.statement("order-p", *found["order-p"]) == "reproduced"


def test_one_p_has_no_order_and_no_baseline():
    found = one_round([1.0], [1.0])
    assert found["order-p"].holds is None and found["baseline-p1"].holds is None
    assert found["order-p"].ours == "an order needs two values of p"
    assert found["joint-tighter"].holds is False  # q = 1, from the panel with p = 0.5
    claims.record(workbook("fig3", p_values=[1.0], q_values=[1.0]), found)


def test_without_p_below_1_nothing_is_joint():
    panels = {"(a)": {"p = 1": setting(p=1.0)}}
    assert claims.joint_tighter(panels, np.array([1.0])).holds is None
    without_one = curves.panels_by_rate(setting(), [0.1, 0.2], [0.5])["(a)"]
    row = {label: np.array([0.1]) for label in without_one}
    assert claims.baseline(without_one, row, 1.0).holds is None


@pytest.mark.parametrize(("name", "value"), [("p", 0.0), ("q", 0.0), ("p", 1.5)])
def test_rates_that_make_no_curve(name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        setting(**{name: value})


# Figures 4 and 6 ----------------------------------------------------------------------------------


def whole_runs(panels):
    """What Figures 4 and 6 compute for some panels."""
    printed = curves.each(panels, lambda s: s.total_epsilon(X))
    deltas = curves.each(panels, lambda s: s.total_delta(X))
    views = curves.each(panels, lambda s: curves.run_views(s, AT, 1e-4))
    truth = curves.each(panels, lambda s: curves.at_printed_delta(s, AT))
    assert deltas.keys() == panels.keys()
    ratios = curves.over_printed(panels, truth, AT)
    titles = {part: part for part in panels}
    words = {"titles": titles, "pair": "pair", "target": "target", "target y": "true ε"}
    pictures.totals(X, printed, AT, ratios, views, words)
    return printed, views, truth


def test_few_rounds_and_curves_of_other_rates():
    panels = curves.panels_by_rate(setting(), [1.0, 0.3], [1.0])
    printed, views, truth = whole_runs(panels)
    found = {
        "order-p": claims.increases(panels["(a)"], printed["(a)"], "p", "", claims.SUBSTANTIAL),
        "order-q": claims.increases(panels["(b)"], printed["(b)"], "q", "", claims.SUBSTANTIAL),
        "scaling": run_claims.scaling(panels, printed, setting(), 3),
        "delta-target": run_claims.run_within_target(panels, AT, 1e-4),
        "pair-average": run_claims.pair_average(panels, truth, AT),
        "pair-server": run_claims.pair_server(panels, truth, AT),
        "target-server": run_claims.target_server(panels, views, AT),
    }
    assert all(stories.rates(panels, printed, found, 3))
    assert found["order-p"].holds and found["order-q"].holds is None
    assert found["scaling"].holds is None
    assert "delta~ = 0.0001 uses the target up" in found["delta-target"].reason
    book = workbook("fig4", p_values=[1.0, 0.3], q_values=[1.0], rounds=[1, 3], rounds_max=3)
    assert book.applies(*found)
    claims.record(book, found)
    answers = run_claims.holds_against_server(panels, truth, AT)
    assert set(answers) == {"p = 1", "p = 0.3", "q = 1"}
    assert {answer for row in answers.values() for answer in row} <= {"yes", "no", "open"}


def test_a_smaller_slack_is_not_said_to_use_the_target_up():
    panels = {"(a)": {"p = 0.5": curves.Setting(0.5, 0.2, 100, 0.6, 1.0, 1e-6, 1e-5)}}
    found = run_claims.run_within_target(panels, AT, 1e-4)
    assert found.holds and "within it at T = 1" in found.ours and "already" not in found.reason


def test_exponents_take_the_lower_two_curves_in_any_order():
    def found(p, q):
        panels = curves.panels_by_rate(setting(), p, q)
        printed = curves.each(panels, lambda s: s.total_epsilon(X))
        return run_claims.scaling(panels, printed, setting(), 3)

    assert found([0.1, 0.5], [0.1, 0.3]) == found([0.5, 0.1], [0.3, 0.1])


def test_a_delta_of_1_or_more_needs_no_epsilon():
    low_beta = curves.Setting(0.5, 0.2, 20, 0.2, 1.0, 1e-4, 1e-4)  # delta' = 0.4
    found = curves.at_printed_delta(low_beta, AT)
    assert low_beta.total_delta(AT)[1] > 1 > low_beta.total_delta(AT)[0]
    assert found["server"]["upper"][1] == found["average"]["upper"][1] == 0


def test_one_batch_size():
    panels = curves.panels_by_batch(setting(), 10, 2, [1])
    printed, views, truth = whole_runs(panels)
    found = {
        "grows-with-b": run_claims.grows_with_batch(panels, printed, 3),
        "wr-below-wor": run_claims.replacement_lowers(panels, printed, 3),
        "crucial-role": run_claims.crucial_role(panels, views, printed, AT),
        "pair-server": run_claims.pair_server(panels, truth, AT),
    }
    assert all(stories.batches(panels, printed, found, 3))
    assert found["grows-with-b"].holds is None and found["crucial-role"].holds is None
    assert found["wr-below-wor"].holds
    claims.record(workbook("fig6", batches=[1]), found)
    single_draw = curves.panels_by_batch(setting(), 10, 1, [1])  # q is the same in both
    totals = curves.each(single_draw, lambda s: s.total_epsilon(X))
    assert run_claims.replacement_lowers(single_draw, totals, 3).ours.endswith("1.000")


# Figure 5 -----------------------------------------------------------------------------------------

LOCAL = {
    "p": 1.0, "records": 10, "steps": 2, "batch": 2, "local_delta": 1e-4, "target_delta": 1e-4,
    "clip": 1.0,
}  # fmt: skip


@pytest.mark.parametrize("epsilons", [[1.0], [1.0, 0.2, 0.5]])
def test_other_numbers_of_local_epsilons(epsilons):
    found = curves.local_totals(LOCAL | {"local_epsilons": epsilons}, X, AT)
    figure = pictures.local_totals(found, X, AT)
    assert len(figure.axes) == 2 * len(epsilons)
    assert all(stories.local(found, 3, AT))
    decided = local_claims.true_local(found, AT, 1e-4)
    decided["strengthens"] = local_claims.strengthens(found)
    assert (decided["strengthens"].holds is None) == (len(epsilons) == 1)
    assert decided["true-order-fedavg"].ours.count(" and ") == len(epsilons) - 1
    assert local_claims.printed_order(found["printed"]["1"], 3).ours.startswith("at T = 3: ")
    book = workbook("fig5", local_epsilons=epsilons)
    assert not book.applies("order-small") and book.applies("strengthens")
    claims.record(book, decided)


# Figure 2 -----------------------------------------------------------------------------------------


def invented(p, seeds, methods=METHODS, rate=0.1, rise=0.2):
    """Runs of every method whose accuracy rises with p and differs between seeds."""
    rng = np.random.default_rng(1)

    def run(k, x):
        accuracy = 0.5 + rise * x - 0.01 * k + 0.01 * rng.random((seeds, 9))
        powers = {name: np.full(seeds, size) for name, size in (("signal", 1.0), ("data", 0.1))}
        power = powers | {"noise": np.full(seeds, 5.0 / x)}
        return {"accuracy": accuracy, "own": accuracy, "averaged": accuracy} | power

    return {(m, x, rate): run(k, x) for k, m in enumerate(methods) for x in p}


@pytest.mark.parametrize(
    ("p", "seeds"), [([0.3], 5), ([0.7, 0.1, 0.3, 0.2], 8), ([0.1, 0.3], 1), ([1.0], 4)]
)
def test_other_p_and_fewer_seeds(p, seeds):
    runs = {
        (split, again): invented(p, seeds)
        for split in ("one_label", "shuffled")
        for again in (False, True)
    }
    readings = {("scaled", "shuffled"): invented(p, seeds, ("mspafl", "noise_only", "alone"))}
    loud = training_claims.loudness(runs, p, 0.1)
    assert len(training_claims.loudness_table(loud)) == 2 * len(p)
    assert len(training_claims.accuracies(runs, p, 0.1)) == 2 * len(METHODS)
    assert len(training_claims.readings_table(readings, max(p), [0.1])) == 2
    training_claims.numbers(runs, readings, p, 0.1)
    training_pictures.accuracy_panels(runs, range(0, 18, 2), p, 0.1, 0.76).canvas.draw()
    met = training_claims.conditions(runs, p, 0.1, 0.76)
    assert set(met) == {"learns", "converged"}
    found = training_claims.decide(runs, 0.001, 0.76)
    assert tuple(found) == training_claims.CLAIMS
    assert found["grows-with-p"].holds is (True if len(p) > 1 and seeds > 4 else None)
    assert all((answer.holds is None) == (seeds < 5) for k, answer in found.items() if k[0] != "g")
    assert all(stories.training(found, 8.7, loud, p))
    for others in (readings, {}):
        why = training_claims.hints(runs, others, loud, 30, 4)
        training_claims.record(workbook("fig2", p=p, seeds=seeds), found, why)


def test_the_paper_s_claims_are_decided_where_a_client_holds_one_label():
    runs = {
        (split, again): invented([0.1, 0.3], 6)
        for split in ("one_label", "shuffled")
        for again in (False, True)
    }
    before = training_claims.decide(runs, 0.001, 0.76)
    for key, one in runs["shuffled", False].items():
        one["accuracy"] = one["accuracy"] + (0.3 if key[0] in ("alone", "dp_fedavg") else 0.0)
    after = training_claims.decide(runs, 0.001, 0.76)
    own = ("alone-with-both-labels", "uploads-inform")
    assert before["alone-with-both-labels"].holds is False
    assert after["alone-with-both-labels"].holds is True
    assert all(before[k].holds == after[k].holds for k in training_claims.CLAIMS if k not in own)


def test_training_alone_ahead_refutes_that_utility_is_kept():
    runs = {
        (split, again): invented([0.1, 0.3], 6)
        for split in ("one_label", "shuffled")
        for again in (False, True)
    }
    found = training_claims.decide(runs, 0.001, 0.9)
    assert found["utility-kept"].holds is True  # the invented accuracies fall from method to method
    for runs_of in runs.values():
        for key, one in runs_of.items():
            one["accuracy"] = one["accuracy"] + (0.2 if key[0] == "alone" else 0.0)
    found = training_claims.decide(runs, 0.001, 0.9)
    assert found["utility-kept"].holds is False and "against it" in found["utility-kept"].reason
    assert found["highly-accurate"].holds is False
    assert "both are below the most frequent class" in found["beats-dp-fedavg"].text


def test_hints_are_built_from_the_numbers():
    runs = {
        (split, again): invented([0.1, 0.3], 4)
        for split in ("one_label", "shuffled")
        for again in (False, True)
    }
    loud = training_claims.loudness(runs, [0.1, 0.3], 0.1)
    why = training_claims.hints(runs, {}, loud, 10, 2)["wr-ends-higher"]
    assert "2 draws from 10 records with replacement give 1.9 different ones" in why
    assert "5.0 % less noise" in why
