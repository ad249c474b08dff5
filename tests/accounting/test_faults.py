"""Calls that once ended in the wrong error, in none, or in memory without limit: one error that names the argument."""

import datetime
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from repro.accounting import (
    CentralizedShuffling,
    GaussianMechanism,
    ModelSplitting,
    OnlyLocalSampling,
    RandomParticipation,
    WeakClientSampling,
    compose,
)
from repro.accounting.ddpsa.printed import advanced_epsilon
from repro.accounting.ddpsa.shares import LaplaceShares
from repro.accounting.mspafl.carried import CarriedRun
from repro.accounting.mspafl.printed import total_epsilon
from repro.accounting.mspafl.round import AveragedUploads
from repro.accounting.mspafl.run import exposure, run_delta
from reproduce.papers.partitioning.noise import poisson_sigma

JUNK = [
    [True, True], np.array([True]), np.True_, 1 + 2j, np.array([1 + 2j]), ["1", "2"], np.array(["1"]),
    np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.array(["2020-01-01"], "datetime64[D]"),
    datetime.date(2020, 1, 1), np.array([1, "2", True], object), [[1.0], [1.0, 2.0]], 2**2000, {}, "1",
]  # fmt: skip


@pytest.mark.parametrize("value", JUNK, ids=lambda value: type(value).__name__)
def test_what_is_no_real_number_is_named(value):
    with pytest.raises(ValueError, match="^sigma must be positive and finite, got "):
        GaussianMechanism(value)
    with pytest.raises(ValueError, match="^epsilon must be non-negative and finite, got "):
        GaussianMechanism(1.0).delta(value)
    with pytest.raises(ValueError, match=r"^delta must be in \(0, 1\), got "):
        GaussianMechanism(1.0).epsilon(value)


@pytest.mark.parametrize("value", [Fraction(3, 2), Decimal("1.5"), np.float32(1.5), [1.5]])
def test_real_numbers_of_any_type_are_taken(value):
    assert np.all(GaussianMechanism(value).sigma == 1.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compose(GaussianMechanism(3.0), 10**14).delta(1.0), "^rounds must be fewer"),
        (lambda: compose(GaussianMechanism(3.0), 2**63).delta(1.0), "^rounds must be at most"),
        (lambda: compose(GaussianMechanism(3.0), 2**2000).epsilon(0.1), "^rounds must be at most"),
        (
            lambda: compose([compose(GaussianMechanism(3.0), 10**9)], 10**9).delta(1.0),
            "^rounds must be at most",
        ),
        (lambda: compose(GaussianMechanism(1e-6), 2).delta(0), "^mechanism must have more noise"),
        (lambda: GaussianMechanism(2**2000), "^sigma must be"),
        (
            lambda: RandomParticipation(1.0, p=0.1, q=0.1, samples_per_client=2**63 - 1),
            "^samples_per_client must be an integer in",
        ),
        (lambda: ModelSplitting(2.0, submodels=8).rdp(1e4), "^alpha must be in"),
        (lambda: LaplaceShares(0.001, honest=8, planned=10), "^scale must be at least"),
        (
            lambda: LaplaceShares(5.0, honest=5, planned=5).epsilon(1e-20),
            "^delta must exceed the numerical error",
        ),
        (lambda: total_epsilon(1000.0, 0, slack=0.001), "^round_epsilon must be in"),
        (lambda: advanced_epsilon(1e9, 10**4, slack=0.5), "^epsilon must be in"),
        (lambda: exposure(4, 0.0, 0.0, 100), "^p must be in"),
        (lambda: exposure(4, 0.5, 0.0, 100), "^q must be in"),
        (lambda: poisson_sigma(10, 1e-300), "^rate must be in"),
        (
            lambda: run_delta(0.0, 10**7, ratio=1.0, p=0.5, clients=10),
            "^rounds must be fewer for p = 0.5",
        ),
        (
            lambda: run_delta(0.0, 3, ratio=1.0, p=0.5, clients=2**2000),
            "^clients must be an integer in",
        ),
    ],
)
def test_one_error_that_names_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: WeakClientSampling(1e6, p=0.1, q=1e-12, clip=1e-300).delta(8.0, direction="remove"),
        lambda: compose(OnlyLocalSampling(1e-3, q=1e-12, clip=1e6), 2).delta(1.0, method="lower"),
        lambda: compose(CentralizedShuffling(0.3, p=1e-6, q=1e-6, clip=50.0), 2).delta(1.0, method="lower"),
        lambda: AveragedUploads(1e-300, p=0.5, q=0.1, clients=2, clip=1e12).delta(1.0),
        lambda: run_delta(1e9, 10, ratio=1e-300, p=1e-6, q=0.001)[0],
    ],
)  # fmt: skip
def test_extreme_settings_have_an_answer(call):
    """Once an overflow, or a distribution of which rounding downwards leaves next to nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert 0 <= call() <= 1


def test_a_record_that_is_drawn_in_every_round_has_a_lower_bound():
    """A hazard of 1: after any wait the record has been drawn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        run = CarriedRun(1.0, rounds=20, p=1.0, q=1.0, clients=30)
        lower, upper = (run.delta(1.0, method=method) for method in ("lower", "upper"))
    almost = CarriedRun(1.0, rounds=20, p=1.0, q=1 - 1e-9, clients=30)
    assert 0 < lower <= upper and lower == pytest.approx(
        almost.delta(1.0, method="lower"), rel=1e-6
    )


def test_the_printed_total_of_no_rounds_is_nothing():
    assert total_epsilon(600.0, 0, slack=0.001) == 0


def test_neighbours_of_shared_noise_at_the_least_scale():
    """Where the chances have a ratio at all, the loss is found; closer together they once had none."""
    noise = LaplaceShares(1 / 350, honest=10, planned=10)
    assert noise.delta(349.0) == pytest.approx(-np.expm1(-1.0), rel=1e-6)
    assert noise.delta(0.0) == pytest.approx(1.0)
    assert noise.delta(1e6) < 1e-17


@pytest.mark.slow
@pytest.mark.parametrize("method", ["upper", "lower"])
@pytest.mark.parametrize("rounds", [10**5, 10**6])
def test_very_many_rounds_take_a_coarser_grid_and_stay_on_their_side(rounds, method):
    mu = np.sqrt(rounds) / 3.0
    truth = GaussianMechanism(1 / mu).epsilon(1e-5)
    found = compose(GaussianMechanism(3.0), rounds).epsilon(1e-5, method=method)
    assert (found >= truth) if method == "upper" else (found <= truth)
    assert found == pytest.approx(truth, rel=0.05)
