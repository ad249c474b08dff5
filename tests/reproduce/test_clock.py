"""Measured times: turns, medians with their intervals, growth. Nothing here looks at a clock."""

import numpy as np
import pytest

from reproduce.papers.clock import Spread, growth, interleaved

COMMON = {"clients": 2, "servers": 3, "clip": 2.0, "epsilon": 0.1, "seed": 0}


def test_steps_take_turns_and_short_ones_are_called_several_times():
    """A clock that only the steps move: each call of `slow` takes 1 s, of `fast` 1/100 s."""
    now, called = [0.0], []

    def step(name, seconds):
        def run():
            called.append(name)
            now[0] += seconds

        return run

    steps = {"slow": step("slow", 1.0), "fast": step("fast", 0.01)}
    found = interleaved(steps, 3, shortest=0.5, clock=lambda: now[0])
    assert list(found) == ["slow", "fast"]
    np.testing.assert_allclose(found["slow"], [1.0] * 3)
    np.testing.assert_allclose(found["fast"], [0.01] * 3)
    warm_up = ["slow"] * 2 + ["fast"] * 2
    assert called == warm_up + (["slow"] + ["fast"] * 50) * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"repeats": 0}, "repeats must be an integer >= 1"),
        ({"repeats": 2, "shortest": 0.0}, "shortest must be positive"),
    ],
)
def test_interleaved_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        interleaved({}, **arguments)


def test_the_interval_covers_the_median_as_often_as_it_says():
    """Monte Carlo on a skewed law, 2000 samples of 15: at least 95 % up to 4 deviations."""
    rng = np.random.default_rng(0)
    spreads = [Spread.of(rng.exponential(size=15)) for _ in range(2000)]
    covered = np.mean([one.low <= np.log(2) <= one.high for one in spreads])
    assert covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 2000)
    assert all(one.least <= one.low <= one.median <= one.high for one in spreads)
    assert covered < 0.99  # and it is not simply the whole range


def test_few_values_have_no_interval():
    assert Spread.of(np.arange(1.0, 7.0)) == Spread(3.5, 1.0, 6.0, 1.0)
    for few in ([1.0], [1.0] * 5):
        with pytest.raises(ValueError, match="seconds must hold enough values"):
            Spread.of(few)
    for bad in ([], [1.0] * 9 + [-1.0]):
        with pytest.raises(ValueError, match="seconds must be non-negative"):
            Spread.of(bad)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_growth_is_the_exponent(power):
    sizes = np.array([1e2, 1e3, 1e5])
    noise = np.exp(np.random.default_rng(1).normal(scale=0.05, size=(3, 20)))
    found = growth(sizes, 3e-6 * sizes[:, None] ** power * noise)
    assert found.low < power < found.high and found.high - found.low < 0.05


def test_growth_refuses_bad_shapes():
    for sizes, seconds in (([1.0, 1.0], np.ones((2, 3))), ([1.0, 2.0], np.ones((3, 2)))):
        with pytest.raises(ValueError, match="seconds must have a row for each"):
            growth(sizes, seconds)
    with pytest.raises(ValueError, match="seconds must be positive"):
        growth([1.0, 2.0], np.zeros((2, 3)))
