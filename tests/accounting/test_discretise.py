"""Discretised losses are bounds of the side that they claim, whatever grid and steps they are made on."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting.pld.pld_pmf import DensePLDPmf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binom

from repro.accounting import (
    PoissonGaussian,
    RandomParticipation,
    compose,
)
from repro.accounting import _discretise as module
from repro.accounting._discretise import contracted, optimistic, pessimistic
from repro.accounting._gaussian import log_shift_divergence
from repro.accounting._losses import profile
from repro.accounting._pld import (
    composed_size,
    losses,
    one_sided,
    self_composition,
    self_compositions,
)
from repro.accounting.random_participation.mechanisms import CountRevealed

EPSILON = np.linspace(0, 6, 61)


def divergence(first, second, epsilon):
    """Hockey-stick divergence of two discrete distributions, by definition."""
    return np.maximum(first - np.exp(epsilon)[:, None] * second, 0.0).sum(axis=1)


@st.composite
def pairs(draw):
    """Two distributions on a few outcomes, some of which only one of them has."""
    size = draw(st.integers(1, 12))
    weight = st.floats(0, 1).map(lambda x: 0.0 if x < 0.05 else x)
    made = []
    for _ in range(2):
        values = np.array(draw(st.lists(weight, min_size=size, max_size=size))) + 1e-3
        values[draw(st.integers(0, size - 1))] += 1.0
        made.append(values / values.sum())
    return made


@settings(max_examples=30, deadline=None)
@given(pairs(), st.sampled_from([0.5, 0.05, 1e-3]))
def test_merged_cells_leak_no_more_than_the_outcomes_do(pair, interval):
    first, second = pair
    made = optimistic((first, second), (second, first), interval)
    both = np.multiply.outer(first, first).ravel(), np.multiply.outer(second, second).ravel()
    for side, (p, q) in zip(one_sided(made), ((0, 1), (1, 0)), strict=True):
        found = profile(side, EPSILON)
        truth = divergence(pair[p], pair[q], EPSILON)
        assert np.all(found <= truth + 1e-15)
        assert np.all(found >= divergence(pair[p], np.exp(interval) * pair[q], EPSILON) - 1e-9)
        twice = profile(self_composition(side, 2), EPSILON)
        assert np.all(twice <= divergence(both[p], both[q], EPSILON) + 1e-14)


def test_smooth_losses_lose_little_by_merging():
    """Rounding downwards lost up to an interval a round; merging loses variance, of second order."""
    mu, interval = 0.05, 1e-3
    edge = np.linspace(-9, 9, 40_001)
    cells = [np.diff(ndtr(edge - shift)) for shift in (mu, 0.0)]
    made = optimistic((cells[0], cells[1]), (cells[1], cells[0]), interval)
    for side in one_sided(made):
        once = profile(self_composition(side, 400), EPSILON)
        truth = np.exp(log_shift_divergence(20 * mu, EPSILON))
        assert np.all(once <= truth + 1e-13)
        near = EPSILON <= 3
        assert np.all(once[near] >= truth[near] * 0.99)  # 400 half intervals would halve it at 3


def test_a_cell_below_its_own_multiple_goes_to_the_one_below():
    """So does rounding: the ratio there is a trace less than what the multiple says."""
    made = losses(contracted(1.0, 0, np.array([0.5]), np.array([0.5 * (1 + 1e-9)])))
    assert made.first == -1 and made.mass.tolist() == [0.5]


def test_rounds_in_which_nothing_happens_lose_nothing():
    """Their loss is 0, a multiple; charged for rounding, it went down by an interval, 4 % of epsilon in all."""
    mu, interval, idle, rounds = 0.05, 1e-4, 0.9, 400
    edge = np.linspace(-9, 9, 201)
    busy = [(1 - idle) * np.diff(ndtr(edge - shift)) for shift in (mu, 0.0)]
    first, second = (np.append(cells, idle) for cells in busy)
    chance = binom.pmf(np.arange(rounds + 1), rounds, 1 - idle)
    shift = mu * np.sqrt(np.arange(1, rounds + 1))
    epsilon = np.linspace(0, 1, 11)
    truth = np.exp(log_shift_divergence(shift, epsilon[:, None])) @ chance[1:]
    for side in one_sided(optimistic((first, second), (second, first), interval)):
        found = losses(side)
        assert found.mass[-found.first] == pytest.approx(idle, rel=1e-6)
        once = profile(self_composition(side, rounds), epsilon)
        assert np.all(once <= truth + 1e-13)
        near = epsilon <= 0.5
        assert np.all(once[near] >= truth[near] * 0.98)


@settings(max_examples=30, deadline=None)
@given(pairs(), st.floats(0, 1), st.sampled_from([0.5, 0.05, 1e-3]))
def test_outcomes_at_a_multiple_leak_no_more_than_they_do(pair, idle, interval):
    first, second = (np.append((1 - idle) * side, idle) for side in pair)
    made = optimistic((first, second), (second, first), interval)
    for side, (p, q) in zip(one_sided(made), ((first, second), (second, first)), strict=True):
        assert np.all(profile(side, EPSILON) <= divergence(p, q, EPSILON) + 1e-15)
        both = np.multiply.outer(p, p).ravel(), np.multiply.outer(q, q).ravel()
        twice = profile(self_composition(side, 2), EPSILON)
        assert np.all(twice <= divergence(*both, EPSILON) + 1e-14)


@settings(max_examples=6, deadline=None)
@given(
    st.floats(0.6, 6.0),
    st.floats(0.05, 1.0),
    st.floats(0.05, 0.9),
    st.integers(0, 12),
    st.sampled_from([3, 300]),
)
def test_long_chords_bound_and_hardly_loosen(sigma, p, q, d, rounds):
    """Against a connection of every dot of the grid, and against the lower bound, in both directions."""
    made = CountRevealed(sigma, p=p, q=q, samples_per_client=d)
    interval = made.loss_reach(1.0, 1e-18) / 10_000
    chords = made.losses("upper", interval)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW_STEPS", 10**9)
        dots = made.losses("upper", interval)
    epsilon = np.linspace(0, 3, 16)
    for way, long, short in zip(("remove", "add"), one_sided(chords), one_sided(dots), strict=True):
        truth, once = made.delta(epsilon, direction=way), profile(long, epsilon)
        assert np.all(once >= truth * (1 - 1e-9) - 1e-16)
        composed = [profile(self_composition(side, rounds), epsilon) for side in (long, short)]
        slack = 2e-15 + 9e-16 * rounds
        assert np.all(composed[0] >= composed[1] * (1 - 1e-9) - slack)
        some = composed[1] > 1e-8
        assert np.all(composed[0][some] <= composed[1][some] * (1 + 1e-4))
        lower = compose(made, rounds).delta(epsilon, method="lower", direction=way)
        assert np.all(lower <= composed[0] + slack)


@settings(max_examples=4, deadline=None)
@given(st.floats(0.6, 6.0), st.floats(0.05, 1.0), st.floats(0.05, 0.9), st.integers(0, 12))
@example(
    1.0625, 0.125, 0.5, 2
)  # the bound at 0.8 lies 0.4 % above the chord between its neighbours
def test_losses_of_the_least_of_two_bounds_lie_above_the_lower_bound(sigma, p, q, d):
    """At a single epsilon the bound has shares of its own and need not be convex in exp(epsilon): chords between
    its values are upper bounds as well, and may lie below it. Their knots depend on the grid, so that two grids
    are not compared with each other."""
    made = RandomParticipation(sigma, p=p, q=q, samples_per_client=d)
    epsilon = np.linspace(0, 3, 16)
    sides = one_sided(made.losses("upper", made.loss_reach(1.0, 1e-18) / 10_000))
    for way, side in zip(("remove", "add"), sides, strict=True):
        once = profile(side, epsilon)
        least = made.delta(epsilon, method="lower", direction=way)
        assert np.all(once >= least * (1 - 1e-9) - 1e-16)
        for rounds in (3, 300):
            upper = profile(self_composition(side, rounds), epsilon)
            lower = compose(made, rounds).delta(epsilon, method="lower", direction=way)
            assert np.all(lower <= upper + 2e-15 + 9e-16 * rounds)


def test_chords_end_at_kinks():
    """Of a profile with an atom at its largest loss every dot around it is connected."""
    largest = 1.0
    interval = 1e-4

    def log_delta(epsilon):
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(np.minimum(epsilon - largest, 0.0) / 2))

    for side in one_sided(pessimistic(log_delta, log_delta, interval)):
        at = np.linspace(0, 1.2, 57)
        np.testing.assert_allclose(
            profile(side, at), np.exp(log_delta(at)), rtol=1e-5, atol=1.01 * interval / 2
        )
        assert losses(side).mass[-1] == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("sigma", "rate", "rounds", "width"),
    [
        (1.0, 0.01, 10_000, 1e-5),
        (5.0, 0.1, 1000, 1e-5),
        (0.8, 0.001, 100, 5e-3),
        (0.5, 0.018, 200, 1e-4),
    ],
)
def test_brackets_of_sampled_gaussians_are_narrow(sigma, rate, rounds, width):
    """Cells of one interval a round used to cost 1.6 % in the first setting.

    In the last one a quarter of the outputs lies between the least loss and the first multiple of a coarse interval.
    """
    run = compose(PoissonGaussian(sigma, rate=rate), rounds)
    low, high = (run.epsilon(1e-5, method=method) for method in ("lower", "upper"))
    assert low <= high <= low * (1 + width)


RARE = np.zeros(5000)
RARE[[0, 3, 4, 900, 4999]] = 0.3, 0.5, 0.2 - 1e-5, 1e-5, 1e-19
GEOMETRIC = 0.1 * 0.9 ** np.arange(400)


@pytest.mark.parametrize("mass", [RARE, RARE[::-1].copy(), GEOMETRIC, np.ones(7) / 7])
@pytest.mark.parametrize("count", [2, 5, 30])
def test_truncated_tails_are_no_heavier_than_what_is_charged_for_them(mass, count):
    exact = np.ones(1, dtype=np.longdouble)
    for _ in range(count):
        exact = sum(np.pad(mass[k] * exact, (k, mass.size - 1 - k)) for k in np.flatnonzero(mass))
    (composed,) = self_compositions(DensePLDPmf(1.0, 0, mass, 0.0, True), [count])
    kept = losses(composed)
    inside = slice(kept.first, kept.first + kept.mass.size)
    outside = exact[: inside.start].sum() + exact[inside.stop :].sum()
    assert outside <= kept.infinite == pytest.approx(1e-15)
    np.testing.assert_allclose(kept.mass, exact[inside].astype(float), atol=2e-15)


def test_windows_of_rare_losses_are_no_wider_than_their_sum():
    """The rest of 40,000 rounds lies within ten of its standard deviations; places beyond it cost time only."""
    side = one_sided(PoissonGaussian(2.0, rate=1e-3).losses("upper", 1e-5), "remove")[0]
    mass, count = losses(side).mass, 40_000
    place = np.arange(mass.size)
    deviation = np.sqrt(count * (mass @ place**2 - (mass @ place) ** 2))
    assert composed_size(side, count) < 20 * deviation


@pytest.mark.parametrize("mass", [[0.0], [0.0, 1e-9, 0.0], [1e-3, 1e-3], [0.2, 0.0, 0.3]])
def test_losses_of_which_rounding_downwards_has_left_next_to_nothing(mass):
    """All that is left of many rounds is less than what is truncated: no window is empty."""
    side = DensePLDPmf(1.0, -1, np.array(mass), 0.0, False)
    for composed in self_compositions(side, [100, 10**6]):
        kept = losses(composed)
        assert kept.mass.size == 1
        assert 0 <= kept.mass[0] <= 1e-15
