"""Bad arguments, warnings, immutability, and calibration."""

from __future__ import annotations

import dataclasses
import inspect
import re
import warnings

import numpy as np
import pytest

from repro import accounting
from repro.accounting import (
    BalancedIterationSubsampling,
    CentralizedShuffling,
    GaussianMechanism,
    InvalidBoundWarning,
    ModelSplitting,
    OnlyLocalSampling,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
    calibrate_sigma,
    compose,
)

GOOD = {
    GaussianMechanism: {"sigma": 1.0, "sensitivity": 1.0},
    PoissonGaussian: {"sigma": 1.0, "rate": 0.1, "sensitivity": 1.0},
    ModelSplitting: {"sigma": 1.0, "submodels": 3, "rate": 0.2, "clip": 1.0, "unsplit_clip": 0.5},
    BalancedIterationSubsampling: {
        "sigma": 1.0,
        "iterations": 6,
        "participations": 2,
        "clip": 1.0,
    },
    RandomParticipation: {"sigma": 1.0, "p": 0.1, "q": 0.2, "samples_per_client": 5, "clip": 1.0},
    WeakClientSampling: {"sigma": 1.0, "p": 0.1, "q": 0.2, "clip": 1.0},
    OnlyLocalSampling: {"sigma": 1.0, "q": 0.2, "clip": 1.0},
    CentralizedShuffling: {"sigma": 1.0, "p": 0.1, "q": 0.2, "clip": 1.0},
}
SCALES, RATES = ("sigma", "clip", "sensitivity"), ("p", "q", "rate")
BAD = {
    **dict.fromkeys(SCALES, [0.0, -1.0, np.nan, np.inf, "1", None, True, [1.0, -2.0]]),
    **dict.fromkeys(RATES, [-0.1, 1.1, np.nan, "0.1", None, [0.5, 2.0]]),
    "unsplit_clip": [-1.0, np.nan, np.inf, "1", None, True, [1.0, -2.0]],
    "submodels": [0, -1, 1.5, 3.0, "3", None, True, np.nan],
    "iterations": [0, -1, 1.5, 6.0, "6", None, True, np.nan],
    "participations": [0, -1, 7, 1.5, 2.0, "2", None, True, np.nan],
    "samples_per_client": [-1, 1.5, 3.0, "3", None, True, np.nan],
}
WRONG = [
    (kind, name, value) for kind, fields in GOOD.items() for name in fields for value in BAD[name]
]


def make(kind, **changed):
    fields = GOOD[kind] | changed
    return kind(fields.pop("sigma"), **fields)


@pytest.mark.parametrize("kind, name, value", WRONG)
def test_bad_field_is_named_with_its_value(kind, name, value):
    shown = value[-1] if isinstance(value, list) else value
    with pytest.raises(ValueError, match=rf"{name} must be .*got {re.escape(repr(shown))}"):
        make(kind, **{name: value})


@pytest.mark.parametrize("kind", GOOD)
class TestEveryMechanism:
    """The common behaviour of all mechanisms."""

    def test_is_frozen_and_keyword_only(self, kind):
        mechanism = make(kind)
        with pytest.raises(dataclasses.FrozenInstanceError):
            mechanism.sigma = 2.0
        with pytest.raises(TypeError):
            kind(1.0, 0.1)
        array = make(kind, sigma=np.array([1.0, 2.0]))
        with pytest.raises(ValueError, match="read-only"):
            array.sigma[0] = 5.0

    def test_does_not_alias_the_callers_array(self, kind):
        sigma = np.array([1.0, 2.0])
        mechanism = make(kind, sigma=sigma)
        before = mechanism.delta(0.1)
        sigma[:] = 100.0
        np.testing.assert_array_equal(mechanism.delta(0.1), before)

    @pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf, "1", None, [0.1, -3.0]])
    def test_bad_epsilon(self, kind, value):
        for target in (make(kind), compose(make(kind), 2)):
            with pytest.raises(ValueError, match="epsilon must be"):
                target.delta(value)

    @pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 2.0, np.nan, "1", None, [0.1, 0.0]])
    def test_bad_delta(self, kind, value):
        for target in (make(kind), compose(make(kind), 2)):
            with pytest.raises(ValueError, match="delta must be"):
                target.epsilon(value)

    def test_bad_words(self, kind):
        for target in (make(kind), compose(make(kind), 2)):
            with pytest.raises(ValueError, match="method must be one of .*'best'"):
                target.delta(1.0, method="best")
            with pytest.raises(ValueError, match="direction must be one of .*'replace'"):
                target.epsilon(0.1, direction="replace")
            with pytest.raises(TypeError):
                target.delta(1.0, "upper")

    @pytest.mark.parametrize("value", [1.0, 0.5, -2.0, np.nan, np.inf])
    def test_bad_order(self, kind, value):
        with pytest.raises(ValueError, match="alpha must be"):
            make(kind).rdp(value)

    @pytest.mark.parametrize("value", [0, -1, 1.5, "2", None, True])
    def test_bad_rounds(self, kind, value):
        with pytest.raises(ValueError, match="rounds must be an integer >= 1"):
            compose(make(kind), value)

    def test_array_fields_have_no_single_loss_distribution(self, kind):
        arrays = make(kind, sigma=np.array([1.0, 2.0]))
        with pytest.raises(ValueError, match="scalar fields"):
            arrays.pld()
        with pytest.raises(ValueError, match="scalar fields"):
            compose(arrays, 2)
        with pytest.raises(ValueError, match="interval must be"):
            make(kind).pld(interval=0.0)

    def test_only_the_refuted_formula_warns(self, kind):
        mechanism = make(kind)
        with warnings.catch_warnings():
            warnings.simplefilter("error", InvalidBoundWarning)
            for method in ("upper", "lower"):
                mechanism.delta(0.1, method=method)
                mechanism.epsilon(0.001, method=method)
            if kind is not RandomParticipation:
                mechanism.delta(0.1, method="paper")
        if kind is RandomParticipation:
            for call in (mechanism.delta, mechanism.epsilon):
                with pytest.warns(InvalidBoundWarning, match="Theorem 4.1") as caught:
                    call(0.1, method="paper")
                assert caught[0].filename == __file__

    def test_default_is_the_upper_bound_in_both_directions(self, kind):
        mechanism = make(kind)
        assert mechanism.delta(0.1) == mechanism.delta(0.1, method="upper", direction="both")
        assert mechanism.epsilon(0.001) == mechanism.epsilon(0.001, method="upper")


def test_every_exported_mechanism_is_covered_here():
    found = {
        x
        for x in vars(accounting).values()
        if inspect.isclass(x)
        and issubclass(x, accounting.Mechanism)
        and x is not accounting.Mechanism
    }
    assert found == set(GOOD)


# ---- calibration -------------------------------------------------------------------------------

TARGETS = [(1.0, 1e-5), (0.1, 1e-3), (0.015, 1e-6)]


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("epsilon, delta", TARGETS)
def test_calibrated_sigma_is_the_smallest(kind, epsilon, delta):
    sigma = calibrate_sigma(lambda s: make(kind, sigma=s), epsilon=epsilon, delta=delta)
    assert make(kind, sigma=sigma).delta(epsilon) <= delta * (1 + 1e-14)
    assert make(kind, sigma=sigma * (1 - 1e-6)).delta(epsilon) > delta


def test_calibration_brackets_the_truth():
    low, high = (
        calibrate_sigma(
            lambda s: make(RandomParticipation, sigma=s), epsilon=0.1, delta=1e-5, method=m
        )
        for m in ("lower", "upper")
    )
    assert 0.85 * high < low <= high


def test_calibration_of_a_composition():
    sigma = calibrate_sigma(
        lambda s: compose(GaussianMechanism(s), 4), epsilon=1.0, delta=1e-5, rtol=1e-3
    )
    single = calibrate_sigma(GaussianMechanism, epsilon=1.0, delta=1e-5)
    assert sigma == pytest.approx(2 * single, rel=2e-3)


@pytest.mark.parametrize("guess", [0.02, 1.0, 4.0, 900.0, 1e9])
def test_calibration_finds_the_same_sigma_from_any_guess(guess):
    want = calibrate_sigma(GaussianMechanism, epsilon=1.0, delta=1e-5)
    found = calibrate_sigma(GaussianMechanism, epsilon=1.0, delta=1e-5, guess=guess)
    assert found == pytest.approx(want, rel=2e-7)
    assert GaussianMechanism(found).delta(1.0) <= 1e-5 * (1 + 1e-14)


def test_printed_theorem_is_met_without_noise():
    """Section 6.2: delta stays below 1e-6 however small sigma is, so no sigma is the smallest."""

    def scheme(sigma):
        return RandomParticipation(sigma, p=0.1, q=0.001, samples_per_client=1000)

    with (
        pytest.warns(InvalidBoundWarning),
        pytest.raises(ValueError, match="method='paper' meets epsilon=0.015, delta=1e-06 already"),
    ):
        calibrate_sigma(scheme, epsilon=0.015, delta=1e-6, method="paper")
    # Almost no noise releases whether the record was drawn: delta is p q at least.
    assert scheme(0.01).delta(0.015, method="lower") == pytest.approx(0.1 * 0.001, rel=0.01)


@pytest.mark.parametrize(
    "changed, match",
    [
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"method": "best"}, "method must be one of"),
        ({"guess": 0.0}, "guess must be positive"),
        ({"guess": [1.0, 2.0]}, "guess must be one number"),
        ({"bounds": (0.0, 1.0)}, "bounds must be"),
        ({"bounds": (1e-2, 0.5)}, "bounds must reach"),
        ({"bounds": (50.0, 100.0)}, "bounds must start below"),
    ],
)
def test_calibration_refuses_bad_targets(changed, match):
    arguments = {"epsilon": 1.0, "delta": 1e-5} | changed
    with pytest.raises(ValueError, match=match):
        calibrate_sigma(GaussianMechanism, **arguments)
