"""The second routes that stand behind Figures 1 to 8: they accept the accountant's curves and refuse wrong ones."""

from itertools import product

import numpy as np
import pytest

from repro.accounting import PoissonGaussian
from reproduce.papers.partitioning import balanced_curves, splitting_curves
from reproduce.papers.partitioning.second_routes import balanced_moment, occupancy_rdp
from reproduce.papers.partitioning.second_routes_figures import (
    bound_3,
    confirmed_lengths,
    confirmed_noise,
    confirmed_renyi,
    confirmed_runs,
    confirmed_splitting,
    split_delta,
)

OFF = (0.98, 1.02)


def test_at_order_2_bound_3_is_the_divergence_itself():
    assert bound_3(np.array([2]), 6, 2, 0.7)[0] == pytest.approx(balanced_moment(6, 2, 2, 0.7))
    assert bound_3(np.array([2]), 5, 1, 0.7)[0] == pytest.approx(occupancy_rdp(5, 2, 0.7))


def test_one_round_without_splitting_is_the_sampled_gaussian():
    epsilon = np.array([0.1, 0.5])
    expected = PoissonGaussian(1.25, rate=0.3).delta(epsilon, direction="remove")
    found = split_delta(epsilon, 1, submodels=1, rate=0.3, a=0.8)
    assert found == pytest.approx(expected, rel=1e-3)
    assert np.all(split_delta(epsilon, 1, submodels=4, rate=0.3, a=0.8) < found)


def test_splitting_two_percent_off_is_refused():
    sigma, settings = np.array([1.5, 2.0]), [[50.0, 1e-5, 0.1]]
    panel = splitting_curves.splitting_epsilon(sigma, [3], 50, 0.1, 1e-5)
    assert confirmed_splitting({"a": panel}, settings, sigma, 1.0) == {"a": panel}
    for wrong in changed(panel):
        with pytest.raises(ArithmeticError, match="^a, "):
            confirmed_splitting({"a": wrong}, settings, sigma, 1.0)


def test_noise_two_percent_off_is_refused():
    rounds, settings = [50, 100], [[2.0, 1e-5, 0.1]]
    panel = splitting_curves.splitting_noise(rounds, [3], 2.0, 1e-5, 0.1)
    assert confirmed_noise({"a": panel}, settings, rounds, 1.0) == {"a": panel}
    for wrong in changed(panel):
        with pytest.raises(ArithmeticError, match="^a, "):
            confirmed_noise({"a": wrong}, settings, rounds, 1.0)


def test_renyi_curves_two_percent_off_are_refused():
    alpha = balanced_curves.whole_orders_to(8)
    curves = balanced_curves.renyi_curves(alpha, 10, 4, 2.0)
    assert confirmed_renyi(alpha, curves, 10, 4, 2.0, 1.0) is curves
    for wrong in changed(curves):
        with pytest.raises(ArithmeticError, match="^T = 10, k = 4"):
            confirmed_renyi(alpha, wrong, 10, 4, 2.0, 1.0)


def test_run_lengths_that_are_off_are_refused():
    lengths, rest = [10, 20], (0.4, 4.0, 0.5, 10)
    curves = balanced_curves.run_length_delta(lengths, 0.4, 4.0, 2.0, 10)
    assert confirmed_lengths(curves, lengths, *rest) is curves
    for wrong in changed(curves, methods=("paper",)):
        with pytest.raises(ArithmeticError, match="Rényi"):
            confirmed_lengths(wrong, lengths, *rest)
    for wrong in changed(curves, labels=("Poisson",), methods=("lower", "upper")):
        with pytest.raises(ArithmeticError, match="Poisson"):
            confirmed_lengths(wrong, lengths, *rest)
    for end, factor in (("upper", 0.5), ("lower", 2.0)):
        for wrong in changed(curves, labels=("balanced",), methods=(end,), off=(factor,)):
            with pytest.raises(ArithmeticError, match="balanced"):
                confirmed_lengths(wrong, lengths, *rest)


def test_whole_runs_two_percent_off_are_refused():
    sigma, settings = np.array([2.0, 3.0]), [[10.0, 5.0, 1e-6]]
    panel = balanced_curves.balanced_epsilon(sigma, 10, 5, 1e-6)
    panels = {"a": (sigma, panel)}
    assert confirmed_runs(panels, settings, 1.0) is panels
    for wrong in [*changed(panel, methods=("paper",)), *changed(panel, labels=("Poisson",))]:
        with pytest.raises(ArithmeticError, match="^a, "):
            confirmed_runs({"a": (sigma, wrong)}, settings, 1.0)
    for end, factor in (("upper", 0.8), ("lower", 1.2)):
        for wrong in changed(panel, labels=("balanced",), methods=(end,), off=(factor,)):
            with pytest.raises(ArithmeticError, match="^a, balanced"):
                confirmed_runs({"a": (sigma, wrong)}, settings, 1.0)


def changed(curves, labels=None, methods=None, off=OFF):
    """The curves with one method of one label times a factor, each in turn."""
    for label, factor in product(labels or curves, off):
        for method in methods or curves[label]:
            row = curves[label]
            yield curves | {label: row | {method: factor * row[method]}}
