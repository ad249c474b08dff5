"""Whole runs with a kept private half as mechanisms: against the functions they are built on, and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from repro.accounting import compose
from repro.accounting.mspafl.carried import CarriedRun
from repro.accounting.mspafl.round import AveragedUploads
from repro.accounting.mspafl.run import (
    average_epsilon_lower,
    run_delta,
    run_epsilon,
    server_delta_lower,
    server_laws,
)

EPSILON = np.array([0.0, 0.5, 1.0, 3.0])
ALPHA = np.linspace(0.001, 0.999, 51)
SERVER = CarriedRun(4.0, rounds=50, p=0.3, q=0.1)
AVERAGE = CarriedRun(4.0, rounds=200, p=0.3, q=0.2, clients=20)


@pytest.mark.parametrize("made", [SERVER, AVERAGE], ids=["server", "average"])
def test_agrees_with_the_functions(made):
    setting = {"ratio": 2 / made.sigma, "p": made.p, "q": made.q}
    want = run_delta(EPSILON, made.rounds, clients=made.clients, **setting)
    np.testing.assert_allclose(made.delta(EPSILON), want, rtol=1e-12)

    def profile(epsilon, rounds):
        return run_delta(epsilon, rounds, clients=made.clients, **setting)

    (epsilon,) = run_epsilon(1e-5, made.rounds, profile)
    assert made.epsilon(1e-5) == pytest.approx(epsilon, rel=1e-4)
    if made.clients == 1:
        low = server_delta_lower(EPSILON, made.rounds, **setting)
        assert np.all(made.delta(EPSILON, method="lower") >= low * (1 - 1e-3))
    else:
        (low,) = average_epsilon_lower(1e-5, made.rounds, clients=made.clients, **setting)
        # ln(h) is rounded to the grid of losses.
        assert low - 1e-4 <= made.epsilon(1e-5, method="lower") <= low * (1 + 1e-6)
    assert np.all(made.delta(EPSILON, method="lower") <= made.delta(EPSILON))


@pytest.mark.parametrize("made", [SERVER, AVERAGE], ids=["server", "average"])
def test_losses_compose_between_both_ends(made):
    once, twice = compose(made), compose(made, 2)
    for method in ("lower", "upper"):
        np.testing.assert_allclose(
            once.tpr_at_fpr(ALPHA, method=method), made.tpr_at_fpr(ALPHA, method=method), rtol=5e-3
        )
    low, high = (twice.tpr_at_fpr(ALPHA, method=m) for m in ("lower", "upper"))
    assert np.all(low <= high)
    assert np.all(made.tpr_at_fpr(ALPHA, method="lower") <= low * (1 + 1e-2))
    assert np.all(made.delta(EPSILON) <= twice.delta(EPSILON))


def test_one_round_is_that_of_the_averaged_uploads():
    made = CarriedRun(1.5, rounds=1, p=0.4, q=0.3)
    one = AveragedUploads(1.5, p=0.4, q=0.3)
    low, high = (made.delta(EPSILON, method=m) for m in ("lower", "upper"))
    exact = one.delta(EPSILON)
    assert np.all(low <= exact * (1 + 1e-12)) and np.all(exact <= high)
    np.testing.assert_allclose(low, exact, rtol=1e-9)


@pytest.mark.parametrize("uploads, q", [(1, 1.0), (3, 0.4)])
def test_server_against_the_exact_likelihood(uploads, q):
    """With p = 1 the server sees every upload; brute force over the draw and a grid of uploads."""
    ratio = 1.2
    edge = np.linspace(-6, 7, 2001 if uploads == 1 else 66)
    rest, moved = (np.diff(np.hstack([0, norm.cdf(edge - m), 1])) for m in (0.0, ratio))
    law = [[rest] * j + [moved] * (uploads - j) for j in range(uploads + 1)]
    chance = [q * (1 - q) ** j for j in range(uploads)] + [(1 - q) ** uploads]

    def product(factors):
        value = np.ones(1)
        for factor in factors:
            value = np.multiply.outer(value, factor).ravel()
        return value

    without = product([rest] * uploads)
    with_record = sum(c * product(factors) for c, factors in zip(chance, law, strict=True))
    made = CarriedRun(2 / ratio, rounds=uploads, p=1.0, q=q)
    for first, second in ((with_record, without), (without, with_record)):
        order = np.argsort(-first / second)
        exact = np.interp(ALPHA, np.cumsum(second[order]), np.cumsum(first[order]))
        # The cells of the brute force are coarse: its attacker is a little weaker than the best one.
        assert np.all(exact <= made.tpr_at_fpr(ALPHA) + 1e-12)
    delta = [np.maximum(with_record - np.exp(e) * without, 0).sum() for e in EPSILON]
    low, high = (made.delta(EPSILON, method=m) for m in ("lower", "upper"))
    assert np.all(delta <= high * (1 + 1e-9))
    if uploads == 1:
        np.testing.assert_allclose(low, high, rtol=1e-6)
        np.testing.assert_allclose(low, delta, rtol=1e-3)


def test_cells_of_the_server_are_probabilities_of_a_weaker_attacker():
    with_record, without = server_laws(50, 0.5, 0.3, 0.1)
    assert with_record.sum() == pytest.approx(1, abs=1e-9)
    assert without.sum() == pytest.approx(1, abs=1e-9)
    assert without[0] == pytest.approx(binom.pmf(0, 50, 0.3))
    delta = [np.maximum(with_record - np.exp(e) * without, 0).sum() for e in EPSILON]
    assert np.all(delta <= SERVER.delta(EPSILON))
    threshold = server_delta_lower(EPSILON, 50, ratio=0.5, p=0.3, q=0.1)
    assert np.all(delta >= threshold * (1 - 1e-3))
    np.testing.assert_allclose(delta, threshold, rtol=0.15)


def test_limits():
    for made in (CarriedRun(1.0, rounds=10, p=0.0), CarriedRun(1.0, rounds=10, p=0.5, q=0.0)):
        for method in ("lower", "upper"):
            assert made.delta(0.0, method=method) <= 1e-12
            assert made.tpr_at_fpr(0.1, method=method) == pytest.approx(0.1)
            assert compose(made, 3).tpr_at_fpr(0.1, method=method) == pytest.approx(0.1)
    quiet = CarriedRun(1e5, rounds=10, p=0.5, q=0.5)
    assert quiet.gdp_mu() < 1e-4
    every = CarriedRun(10.0, rounds=4, p=1.0)
    assert every.delta(0.0) == pytest.approx(2 * norm.cdf(0.2) - 1, rel=1e-6)
    for method in ("lower", "upper"):
        assert every.delta(0.0, method=method) == pytest.approx(every.delta(0.0), rel=1e-2)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"rounds": 0}, "rounds must be an integer >= 1, got 0"),
        ({"clients": 1.5}, "clients must be an integer >= 1, got 1.5"),
        ({"p": 1.2}, r"p must be in \[0, 1\], got 1.2"),
        ({"q": [0.1, 0.2]}, "CarriedRun needs scalar fields"),
        ({"clip": 0.0}, "clip must be positive and finite, got 0.0"),
    ],
)
def test_bad_input(changed, message):
    with pytest.raises(ValueError, match=message):
        CarriedRun(1.0, **({"rounds": 5, "p": 0.5} | changed))


def test_no_printed_formula():
    with pytest.raises(ValueError, match="method must be 'upper' or 'lower' for CarriedRun"):
        SERVER.delta(1.0, method="paper")


def test_a_record_that_is_hardly_ever_drawn_has_small_losses_all_the_same():
    """A delta of 1e-10 at every small loss was taken for a constant: a grid of 10^-12, and 4.6 TiB."""
    run = CarriedRun(0.03, rounds=10_000, p=1e-12, q=0.999, clip=1e-3)
    # One upload uses the record, if any: total variation of two Gaussians 1 / 15 apart.
    expected = 1e4 * 1e-12 * 0.999 * (2 * norm.cdf(1 / 30) - 1)
    low, high = (run.advantage(method=m) for m in ("lower", "upper"))
    assert 0.999 * expected < low <= expected <= high < 1.001 * expected
    low, high = (run.tpr_at_fpr(0.01, method=m) for m in ("lower", "upper"))
    assert 0.98 * expected < low - 0.01 <= high - 0.01 < 1.01 * expected
    assert 0 < run.gdp_mu(method="lower") <= run.gdp_mu()
