"""The second routes that stand behind Figures 3 to 6, against enumeration and against wrong curves."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from reproduce.papers.mspafl import curves
from reproduce.papers.mspafl.second_routes import exposures, upload_run_delta
from reproduce.papers.mspafl.second_routes_figures import (
    confirmed_local,
    confirmed_round,
    confirmed_runs,
    confirmed_shares,
    confirmed_totals,
    confirmed_views,
)
from reproduce.papers.mspafl.second_routes_runs import (
    ended_run_delta,
    kept_run_delta,
    kept_run_leak,
    shift_delta,
)

RATES = {"ratio": 0.8, "p": 0.4, "q": 0.3}
FIXED = curves.Setting(0.5, 0.2, 100, 0.25, 1.0, 1e-4, 1e-4)
PANELS = {"(a)": {"p = 0.5": FIXED}}
ROUNDS = np.array([1, 20, 100])
OFF = (0.98, 1.02)


@pytest.mark.parametrize("clients", [1, 3])
def test_a_run_with_memory_is_that_of_the_enumeration(clients):
    values, chance = exposures(4, clients, RATES["p"], RATES["q"])
    some = values > 0
    expected = chance[some] @ shift_delta(0.5, RATES["ratio"] * np.sqrt(values[some]))
    assert kept_run_delta(0.5, 4, **RATES, clients=clients) == pytest.approx(expected, rel=1e-4)


def test_a_run_against_a_server_is_the_sum_over_the_first_draw():
    found = kept_run_delta(0.5, 30, **RATES, clients=1)
    assert found == pytest.approx(upload_run_delta(0.5, 30, **RATES), rel=1e-9)
    assert 0.5 * found < kept_run_leak(0.5, 30, **RATES) < found


def test_one_round_without_memory_is_a_mixture_of_two_normals():
    """p q D(ratio, 1 + (exp(eps) - 1) / q) against a server."""
    ratio, p, q = RATES.values()
    weight = np.log1p(np.expm1(0.3) / q)
    found = ended_run_delta(0.3, 1, **RATES, clients=1, number=True)
    assert found == pytest.approx(p * q * shift_delta(weight, ratio), rel=1e-3)
    averages = [ended_run_delta(0.1, 5, **RATES, clients=9, number=known) for known in (0, 1)]
    assert 0 < averages[0] < averages[1] < ended_run_delta(0.1, 5, **RATES, clients=1, number=True)


def test_formulas_two_percent_off_are_refused():
    local = np.linspace(0, 1, 5)
    printed = curves.each(PANELS, lambda s: s.round_epsilon(local))
    deltas = curves.each(PANELS, lambda s: float(s.round_delta()))
    totals = curves.each(PANELS, lambda s: s.total_epsilon(ROUNDS))
    sums = curves.each(PANELS, lambda s: s.total_delta(ROUNDS))
    assert confirmed_round(PANELS, printed, deltas, local) is printed
    assert confirmed_totals(PANELS, totals, sums, ROUNDS) is totals
    for factor in OFF:
        with pytest.raises(ArithmeticError, match="20a"):
            confirmed_round(PANELS, scaled(printed, factor), deltas, local)
        with pytest.raises(ArithmeticError, match="20b"):
            confirmed_round(PANELS, printed, scaled(deltas, factor), local)
        with pytest.raises(ArithmeticError, match="23a"):
            confirmed_totals(PANELS, scaled(totals, factor), sums, ROUNDS)
        with pytest.raises(ArithmeticError, match="δ"):
            confirmed_totals(PANELS, totals, scaled(sums, factor), ROUNDS)
    with pytest.raises(ArithmeticError, match="values on an axis"):
        confirmed_round(PANELS, printed, deltas, local[1:])


def test_views_two_percent_off_are_refused():
    local = np.array([0.5, 1.0])
    views = curves.each(PANELS, lambda s: curves.round_views(s, local))
    assert confirmed_views(PANELS, views, local) is views
    for view in views["(a)"]["p = 0.5"]:
        for factor in OFF:
            with pytest.raises(ArithmeticError, match=f"p = 0.5, {view}"):
                confirmed_views(PANELS, changed(views, view, "upper", factor), local)


def test_whole_runs_that_are_off_are_refused():
    truth = curves.each(PANELS, lambda s: curves.at_printed_delta(s, ROUNDS))
    views = curves.each(PANELS, lambda s: curves.run_views(s, ROUNDS, 1e-4))
    assert confirmed_runs(PANELS, truth, ROUNDS) is truth
    assert confirmed_runs(PANELS, views, ROUNDS, 1e-4) is views
    for view in ("average", "server"):
        for factor in OFF:
            with pytest.raises(ArithmeticError, match=view):
                confirmed_runs(PANELS, changed(truth, view, "upper", factor), ROUNDS)
        for end, factor in (("upper", 0.8), ("upper", 1.2), ("lower", 0.8), ("lower", 1.2)):
            with pytest.raises(ArithmeticError, match="nothing kept"):
                wrong = changed(views, f"{view}, ended", end, factor)
                confirmed_runs(PANELS, wrong, ROUNDS, 1e-4)
    with pytest.raises(ArithmeticError, match="server"):
        confirmed_runs(PANELS, changed(truth, "server", "lower", 1.1), ROUNDS)
    with pytest.raises(ArithmeticError, match="in place of 0.0001"):
        confirmed_runs(PANELS, truth, ROUNDS, 1e-4)


def test_shares_two_percent_off_are_refused():
    panels = curves.panels_by_batch(FIXED, 325, 5, [1, 13])
    assert confirmed_shares(panels, 325, 5, [1, 13]) is panels
    for part, factor in product(panels, OFF):
        wrong = {k: replace(s, q=factor * s.q) for k, s in panels[part].items()}
        with pytest.raises(ArithmeticError, match="^q, b = 1, W"):
            confirmed_shares(panels | {part: wrong}, 325, 5, [1, 13])


def test_local_totals_two_percent_off_are_refused():
    parameters = {
        **{"records": 325, "steps": 5, "batch": 5, "p": 0.5, "local_epsilons": [1.0]},
        **{"local_delta": 1e-4, "target_delta": 1e-4, "clip": 1.0},
    }
    x = np.array([1.0, 50.0])
    found = curves.local_totals(parameters, x, ROUNDS)
    assert confirmed_local(parameters, found, x, ROUNDS) is found
    for method in ("WR", "WOR", "DP-FedAvg"):
        for factor in OFF:
            for name in ("printed", "truth"):
                row = found[name]["1"]
                wrong = found | {name: {"1": row | {method: scaled(row[method], factor)}}}
                with pytest.raises(ArithmeticError, match=method):
                    confirmed_local(parameters, wrong, x, ROUNDS)


def scaled(value, factor):
    if isinstance(value, dict):
        return {key: scaled(one, factor) for key, one in value.items()}
    return value * factor


def changed(views, view, end, factor):
    """The same views with one end of one view times a factor."""
    row = views["(a)"]["p = 0.5"]
    return {"(a)": {"p = 0.5": row | {view: row[view] | {end: factor * row[view][end]}}}}
