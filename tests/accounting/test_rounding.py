"""Rounding: what many runs, small rates and fine grids lose is on the safe side."""

from __future__ import annotations

import numpy as np
import pytest

from repro.accounting import GaussianMechanism, compose
from repro.accounting._discretise import pessimistic
from repro.accounting._gaussian import log_shift_divergence
from repro.accounting._losses import joined
from repro.accounting.ddpsa.shares import LaplaceShares
from repro.accounting.laplace import SummedLaplace
from repro.accounting.mspafl.carried import CarriedRun
from repro.accounting.mspafl.round import AveragedUploads

EPSILON = np.linspace(0, 12, 121)


@pytest.mark.parametrize(
    ("mu", "rounds"), [(1.2, 1320), (0.1, 10_000), (1.2, 10_000), (1.2, 100_000)]
)
def test_small_deltas_of_many_rounds_hold_the_truth_between_both_ends(mu, rounds):
    """T Gaussian rounds are one: the rounding of Fourier transforms grows with their number."""
    run = compose(GaussianMechanism(np.sqrt(rounds) / mu), rounds)
    truth = np.exp(log_shift_divergence(mu, EPSILON))
    low, high = (
        run.delta(EPSILON, method=method, direction="remove") for method in ("lower", "upper")
    )
    assert np.all(low <= truth) and np.all(truth <= high)
    fpr = np.array([1e-16, 1e-14, 1e-12])
    low, high = (run.tpr_at_fpr(fpr, method=method) for method in ("lower", "upper"))
    assert np.all(low <= high)


@pytest.mark.parametrize("direction", ["remove", "add", "both"])
def test_false_positive_rates_next_to_rounding(direction):
    """A true-positive rate that comes from a false-negative rate next to 1 has lost its digits."""
    made = SummedLaplace(86.4)
    fpr = np.array([0.0, 1e-17, 1e-16, 3e-16, 1e-15])
    low, high = (
        made.tpr_at_fpr(fpr, method=method, direction=direction) for method in ("lower", "upper")
    )
    assert np.all(low <= high)


def test_differences_from_one_are_moved_to_the_safe_side():
    """Two bounds on one point that agree but for rounding."""
    tpr, minus_fnr = np.array([1.01e-16]), np.array([-(1 - 1.01e-16)])
    assert joined(tpr, minus_fnr, "lower")[0] == tpr
    tpr = np.array([1 - 1e-17])
    assert joined(tpr, np.array([-1e-17]), "upper")[1] == 1e-17
    assert joined(tpr, np.array([-1e-17]), "lower")[1] == 1e-17


def test_large_losses_on_a_fine_grid_are_a_profile_all_the_same():
    """Masses are second differences of delta, whose rounding adds up over the grid."""
    shares = LaplaceShares(1.2578012518638961, honest=2, planned=4, sensitivity=17)
    run = compose(shares, 108)
    assert 0 < run.epsilon(1e-5, method="lower") <= run.epsilon(1e-5)


def test_a_curve_that_is_no_profile_is_refused_on_any_grid():
    with pytest.raises(ValueError, match="not a hockey-stick curve"):
        pessimistic(lambda e: -3 * e, lambda e: -3 * e, 1e-3)


@pytest.mark.parametrize(
    "made",
    [
        AveragedUploads(1.3, p=0.6, q=0.01, clients=19),
        LaplaceShares(5.0, honest=2, planned=3),
        CarriedRun(1.3, rounds=45, p=0.1, q=0.3, clients=3),
    ],
    ids=lambda made: type(made).__name__,
)
def test_a_delta_below_what_an_upper_bound_leaves_out_ends_in_an_error_that_names_it(made):
    """Delta never falls below a constant there; the search for epsilon used to go on without end."""
    with pytest.raises(ValueError, match="delta must exceed the numerical error"):
        made.epsilon(1e-100)
    assert made.delta(800.0, method="lower") == 0.0  # an exponential that is no double
