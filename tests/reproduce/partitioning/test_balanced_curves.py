"""Curves behind the balanced figures: brackets, and the orders of the schemes."""

import numpy as np
import pytest

from repro.accounting import BalancedIterationSubsampling
from repro.accounting.partitioning.printed import poisson_rdp
from reproduce.papers.partitioning.balanced_curves import (
    balanced_epsilon,
    renyi_curves,
    run_length_delta,
)


def test_renyi_curves_hold_poisson_and_a_bracket_below_the_printed_bound():
    alpha = np.arange(2, 9)
    curves = renyi_curves(alpha, iterations=10, participations=4, sigma=2.0)
    balanced = curves["balanced"]
    assert np.all(balanced["lower"] <= balanced["upper"] * (1 + 1e-12))
    assert np.all(balanced["upper"] <= balanced["paper"] * (1 + 1e-9))
    assert np.array_equal(curves["Poisson"]["upper"], 10 * poisson_rdp(alpha, 2.0, 0.4))
    assert np.all(balanced["upper"] < curves["Poisson"]["upper"])


def test_balanced_epsilon_brackets_both_schemes():
    curves = balanced_epsilon([2.0], iterations=10, participations=5, delta=1e-6)
    for methods in curves.values():
        assert methods["lower"][0] <= methods["upper"][0] <= methods["paper"][0]
    single = BalancedIterationSubsampling(2.0, iterations=10, participations=5)
    assert curves["balanced"]["upper"][0] == single.epsilon(1e-6)


def test_run_length_delta_orders_the_three_schemes():
    curves = run_length_delta([10, 20], rate=0.4, epsilon=4.0, sigma=2.0, epoch=10)
    whole, epochs, poisson = curves.values()
    for methods in curves.values():
        assert np.all(methods["lower"] <= methods["upper"])
        assert np.all(methods["upper"] <= methods["paper"])
        assert np.all(np.diff(methods["upper"]) > 0)
    assert whole["paper"][0] == pytest.approx(epochs["paper"][0])
    assert whole["paper"][1] < epochs["paper"][1] < poisson["paper"][1]


@pytest.mark.parametrize(
    "iterations, rate, epoch", [([10], 0.35, 10), ([15], 0.4, 10), ([10], 0.0, 10), ([10], 0.4, 0)]
)
def test_epochs_must_come_out_whole(iterations, rate, epoch):
    with pytest.raises(ValueError, match="epoch|rate"):
        run_length_delta(iterations, rate=rate, epsilon=1.0, sigma=2.0, epoch=epoch)
