"""The printed formulas of MS-PAFL: against the paper's algebra, at their limits, and on bad input."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.accounting.mspafl import printed as mspafl

UNIT = st.floats(0.0, 1.0)
COMMON = dict(clients=100, beta=0.25)


def test_noise_meets_equation_6():
    sigma = mspafl.local_sigma(0.5, 1e-5, clip=3.0)
    assert sigma**2 == pytest.approx(2 * 6.0**2 * np.log(1.25e5) / 0.25)
    assert mspafl.noise_ratio(0.5, 1e-5) == pytest.approx(6.0 / sigma)
    assert mspafl.noise_ratio(0.0, 1e-5) == 0


@pytest.mark.parametrize("replacement", [False, True])
def test_sampling_ratio_at_its_ends(replacement):
    assert mspafl.sampling_ratio(7, 0, replacement=replacement) == 0
    assert mspafl.sampling_ratio(1, 1, replacement=replacement) == 1
    assert mspafl.sampling_ratio(9, 1, replacement=replacement) == pytest.approx(1 / 9)
    assert mspafl.sampling_ratio(5, 5, replacement=False) == 1
    assert mspafl.sampling_ratio(1, 30, replacement=True) == 1


@given(records=st.integers(2, 400), share=UNIT)
def test_with_replacement_fewer_different_records(records, share):
    draws = int(share * records)
    again = mspafl.sampling_ratio(records, draws, replacement=True)
    assert again <= mspafl.sampling_ratio(records, draws, replacement=False) + 1e-15
    assert again == pytest.approx(1 - (1 - 1 / records) ** draws, abs=1e-14)


@settings(deadline=None)
@given(local=UNIT, p=UNIT, q=UNIT)
def test_theorem_2_by_high_precision(local, p, q):
    with mp.workdps(40):
        spill = 2 * mp.exp(-2 * mp.mpf(0.25) ** 2 * 100)
        epsilon = mp.log1p(mp.mpf(p) / (1 - spill) * mp.expm1(2 * mp.mpf(q) * mp.mpf(local)))
        delta = spill + mp.mpf(p) * mp.mpf(q) * mp.mpf("1e-4") / (1 - spill)
    got = mspafl.per_round_epsilon(local, p=p, q=q, **COMMON)
    assert got == pytest.approx(float(epsilon), rel=1e-12, abs=1e-300)
    assert mspafl.per_round_delta(1e-4, p=p, q=q, **COMMON) == pytest.approx(float(delta))


@given(
    local=st.floats(0.01, 1.0),
    p=st.floats(0.01, 0.9),
    q=st.floats(0.01, 0.9),
    by=st.floats(0.01, 0.1),
)
def test_theorem_2_grows_with_everything_but_beta(local, p, q, by):
    at = mspafl.per_round_epsilon(local, p=p, q=q, **COMMON)
    assert mspafl.per_round_epsilon(local, p=p + by, q=q, **COMMON) > at
    assert mspafl.per_round_epsilon(local, p=p, q=q + by, **COMMON) > at
    assert mspafl.per_round_epsilon(local, p=p, q=q, clients=100, beta=0.25 + by) <= at
    assert mspafl.per_round_delta(1e-4, p=p, q=q, clients=100, beta=0.25 + by) < (
        mspafl.per_round_delta(1e-4, p=p, q=q, **COMMON)
    )


def test_different_clients_take_the_worst():
    p, q = np.array([0.1, 0.9, 0.5]), np.array([0.2, 0.1, 0.3])
    each = mspafl.per_round_epsilon(1.0, p=p, q=q, **COMMON)
    assert each.shape == (3,)
    assert np.argmax(each) == 2


def test_limits_of_one_round():
    assert mspafl.per_round_epsilon(1.0, p=0.0, q=0.5, **COMMON) == 0
    assert mspafl.per_round_epsilon(1.0, p=0.5, q=0.0, **COMMON) == 0
    sure = mspafl.per_round_epsilon(1.0, p=1.0, q=0.3, clients=100, beta=2.0)
    assert sure == pytest.approx(mspafl.subsampled(1.0, 0.1, q=0.3)[0])
    assert mspafl.first_order_epsilon(1.0, p=0.5, q=0.5, **COMMON) == pytest.approx(0.5, rel=1e-5)


def test_theorem_3_and_its_proof_agree():
    """(C.8) is where the quadratic of (C.5) has the discriminant ln(1 / delta)."""
    p, q, rounds, local, delta, clip = 0.4, 0.1, 50, 0.7, 1e-5, 1.7
    factor = mspafl.composed_log_moment(1.0, local, delta, rounds, p=p, q=q, clip=clip) / 2
    from_moments = 2 * np.sqrt(factor * np.log(1 / delta))
    constant = mspafl.local_constant(delta, clip=clip)
    got = mspafl.total_local_epsilon(local, rounds, p=p, q=q, constant=constant)
    assert got == pytest.approx(from_moments)
    assert factor == pytest.approx(
        p * rounds * q**2 * local**2 / (16 * clip**2 * (1 - q) * np.log(1.25 / delta))
    )


@given(order=st.floats(0.1, 50), rounds=st.integers(0, 1000), p=UNIT)
def test_log_moments_add_up_as_printed(order, rounds, p):
    single = mspafl.log_moment(order, 0.5, 1e-4, q=0.2)
    total = mspafl.composed_log_moment(order, 0.5, 1e-4, rounds, p=p, q=0.2)
    assert total == pytest.approx(p * rounds * single)


def test_theorem_4_limits():
    assert mspafl.total_epsilon(0.3, 0, slack=1e-4) == 0
    assert mspafl.total_epsilon(0.0, 10, slack=1e-4) == 0
    assert mspafl.total_epsilon(0.3, 5, slack=1.0) == pytest.approx(5 * 0.3 * np.expm1(0.3))
    assert mspafl.total_delta(1e-5, np.array([0, 10]), slack=1e-4) == pytest.approx([1e-4, 2e-4])


def test_arrays_broadcast():
    rounds = np.arange(1, 5)
    got = mspafl.total_epsilon(np.array([0.1, 0.2])[:, None], rounds, slack=1e-4)
    assert got.shape == (2, 4)
    assert np.all(np.diff(got, axis=1) > 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mspafl.per_round_epsilon(1.0, p=1.1, q=0.5, **COMMON), r"p must be in \[0, 1\], got 1.1"),
        (lambda: mspafl.per_round_epsilon(1.0, p=0.5, q=-0.1, **COMMON), r"q must be in \[0, 1\], got -0.1"),
        (lambda: mspafl.per_round_epsilon(1.5, p=0.5, q=0.5, **COMMON), "local_epsilon must be in"),
        (lambda: mspafl.hoeffding_delta(100, 0.05), "beta must exceed 0.05887"),
        (lambda: mspafl.hoeffding_delta(100, 0.0), "beta must be positive"),
        (lambda: mspafl.hoeffding_delta(0, 1.0), "clients must be whole numbers >= 1"),
        (lambda: mspafl.hoeffding_delta(2.5, 1.0), "clients must be whole numbers"),
        (lambda: mspafl.sampling_ratio(10, 11, replacement=False), "draws .* at most the 10 records .* got 11"),
        (lambda: mspafl.sampling_ratio(0, 1, replacement=True), "records must be whole numbers >= 1"),
        (lambda: mspafl.local_sigma(0.0, 1e-4), "local_epsilon must be positive"),
        (lambda: mspafl.local_sigma(1.0, 1.0), r"local_delta must be in \(0, 1\)"),
        (lambda: mspafl.local_sigma(1.0, 1e-4, clip=0.0), "clip must be positive"),
        (lambda: mspafl.total_local_epsilon(1.0, 5, p=0.5, q=1.0, constant=1.0), "q must be below 1"),
        (lambda: mspafl.total_local_epsilon(1.0, 5, p=0.5, q=0.5, constant=0.0), "constant must be positive"),
        (lambda: mspafl.log_moment(1.0, 1.0, 1e-4, q=1.0), "q must be below 1"),
        (lambda: mspafl.total_epsilon(0.1, 5, slack=0.0), r"slack must be in \(0, 1\]"),
        (lambda: mspafl.total_epsilon(-0.1, 5, slack=0.1), "round_epsilon must be non-negative"),
        (lambda: mspafl.total_epsilon(0.1, 5.5, slack=0.1), "rounds must be whole numbers"),
        (lambda: mspafl.total_delta(2.0, 5, slack=0.1), "round_delta must be in"),
        (lambda: mspafl.per_round_epsilon(np.ones(2), p=np.ones(3), q=0.1, **COMMON), "must broadcast"),
    ],
)  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
