"""The printed noise columns, and that a reading that fails says so."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from repro.accounting import ModelSplitting, PoissonGaussian, calibrate_sigma, compose
from reproduce.papers.partitioning.noise import (
    READINGS,
    TABLE_1,
    TABLE_2,
    balanced_sigma,
    fitted_unsplit_clip,
    noise_column,
    poisson_sigma,
    really_spent,
)

ONE_COIN = "one coin for both parts, bound (3)"


def half_digit(printed: float) -> float:
    """Half a unit of the last printed digit of numbers such as 5.44e-4."""
    return 0.5 * 10.0 ** (np.floor(np.log10(printed)) - 2)


def test_section_42_comes_out_to_the_printed_digits():
    assert balanced_sigma(2000, 655) == pytest.approx(10.17, abs=0.005)
    assert poisson_sigma(2000, 655 / 2000) == pytest.approx(10.20, abs=0.005)
    assert balanced_sigma(1000, 100) == pytest.approx(2.36, abs=0.005)
    assert poisson_sigma(1000, 0.1) == pytest.approx(2.34, abs=0.005)


def test_table_1_comes_out_but_for_eight_submodels():
    column = noise_column(TABLE_1, 0.1, reading=ONE_COIN)
    for submodels in (1, 3):
        printed = TABLE_1.printed[submodels]
        assert abs(column[submodels] - printed) <= half_digit(printed)
    assert abs(column[8] - TABLE_1.printed[8]) > half_digit(TABLE_1.printed[8])


def test_table_2_comes_out_with_full_participation_and_a_larger_unsplit_clip():
    clip = fitted_unsplit_clip(TABLE_2, 1.0, reading=ONE_COIN)
    column = noise_column(TABLE_2, 1.0, reading=ONE_COIN, unsplit_clip=clip)
    for submodels, printed in TABLE_2.printed.items():
        assert abs(column[submodels] - printed) <= half_digit(printed)


@pytest.mark.parametrize("reading", READINGS)
def test_no_rate_alone_explains_table_2(reading):
    """What the notebook of table 2 says: the rate that fits the first row misses another one."""
    baseline = replace(TABLE_2, printed={1: TABLE_2.printed[1]})

    def excess(rate):
        return noise_column(baseline, rate, reading=reading)[1] / TABLE_2.printed[1] - 1

    column = noise_column(TABLE_2, brentq(excess, 0.02, 1.0, xtol=1e-7), reading=reading)
    assert column[1] == pytest.approx(TABLE_2.printed[1], rel=1e-5)
    assert any(abs(column[d] - TABLE_2.printed[d]) > half_digit(TABLE_2.printed[d]) for d in (3, 8))


def test_the_baseline_is_the_poisson_gaussian_of_both_clips_together():
    column = noise_column(replace(TABLE_1, printed={1: 1.0}), 0.1, reading=ONE_COIN)
    norm = np.hypot(0.5, 0.5)
    assert column[1] * 0.1 * TABLE_1.population == pytest.approx(
        norm * poisson_sigma(1000, 0.1), rel=1e-6
    )


def test_the_reading_with_one_coin_is_the_paper_method_of_the_mechanism():
    column = noise_column(TABLE_1, 0.1, reading=ONE_COIN)
    sigma = calibrate_sigma(
        lambda s: compose(
            ModelSplitting(s, submodels=3, rate=0.1, clip=0.5, unsplit_clip=0.5), 1000
        ),
        epsilon=8.0,
        delta=1e-5,
        method="paper",
    )
    assert sigma == pytest.approx(column[3] * 2500, rel=1e-6)


def test_printed_noise_spends_less_than_eight_in_truth():
    for spent in really_spent(TABLE_1, 0.1).values():
        assert 6 < spent["lower"] <= spent["upper"] < 8
        assert spent["upper"] / spent["lower"] < 1.01


def test_spent_by_the_baseline_agrees_with_the_poisson_gaussian():
    sigma = TABLE_1.printed[1] * 2500
    other = compose(PoissonGaussian(sigma, rate=0.1, sensitivity=np.hypot(0.5, 0.5)), 1000)
    spent = really_spent(replace(TABLE_1, printed={1: TABLE_1.printed[1]}), 0.1)[1]
    assert spent["lower"] <= other.epsilon(1e-5) * 1.001
    assert spent["upper"] >= other.epsilon(1e-5, method="lower") * 0.999


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: noise_column(TABLE_1, 0.1, reading="guess"), "reading"),
        (lambda: noise_column(TABLE_1, 1.5, reading=ONE_COIN), "rate"),
        (lambda: noise_column(TABLE_1, 0.1, reading=ONE_COIN, unsplit_clip=0.0), "unsplit_clip"),
        (
            lambda: fitted_unsplit_clip(replace(TABLE_1, printed={1: 1e-6}), 0.1, reading=ONE_COIN),
            "no unsplit clip",
        ),
        (lambda: balanced_sigma(10, 11), "k"),
        (lambda: poisson_sigma(0, 0.1), "iterations"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
