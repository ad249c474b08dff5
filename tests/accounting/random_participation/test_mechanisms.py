"""RandomParticipation: second routes for its three methods, limits, and properties."""

from __future__ import annotations

import warnings

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accounting_reference as reference
from repro.accounting import (
    CentralizedShuffling,
    InvalidBoundWarning,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
    compose,
)
from repro.accounting.random_participation import mechanisms
from repro.accounting.random_participation.mechanisms import CountRevealed

DIRECTIONS = ("remove", "add")


def printed(mechanism, epsilon):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InvalidBoundWarning)
        return mechanism.delta(epsilon, method="paper")


# ---- second routes -----------------------------------------------------------------------------

CASES = [  # direction, epsilon, p, q, sigma, d
    ("remove", 0.1, 0.1, 0.1, 1.0, 5),
    ("remove", 1.0, 0.5, 0.5, 0.7, 3),
    ("remove", 3.0, 0.1, 0.1, 1.0, 4),  # delta near 1e-11
    ("remove", 0.5, 0.05, 0.2, 1.6, 6),  # delta near 1e-9
    ("add", 0.05, 0.1, 0.1, 1.0, 5),
    ("add", 0.3, 0.5, 0.5, 0.7, 3),
    ("add", 0.4, 0.5, 0.5, 2.0, 3),  # delta near 1e-7
]


@pytest.mark.parametrize("direction, epsilon, p, q, sigma, d", CASES)
def test_upper_by_quadrature_of_the_repaired_theorem(direction, epsilon, p, q, sigma, d):
    with mp.workdps(30):
        want = float(reference.repaired_theorem(direction, epsilon, p=p, q=q, sigma=sigma, d=d))
    mechanism = CountRevealed(sigma, p=p, q=q, samples_per_client=d)
    assert mechanism.delta(epsilon, direction=direction) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("epsilon, p, q, sigma, d", [c[1:] for c in CASES if c[0] == "remove"])
def test_paper_by_quadrature_of_the_printed_theorem(epsilon, p, q, sigma, d):
    with mp.workdps(30):
        want = float(reference.printed_theorem(epsilon, p=p, q=q, sigma=sigma, d=d))
    mechanism = RandomParticipation(sigma, p=p, q=q, samples_per_client=d)
    assert printed(mechanism, epsilon) == pytest.approx(want, rel=1e-9)


def test_paper_is_the_divergence_of_collinear_gradients():
    mechanism = RandomParticipation(0.9, p=0.3, q=0.4, samples_per_client=4)
    pair = reference.divergences(
        np.ones(1), np.ones((4, 1)), p=0.3, q=0.4, sigma=0.9, epsilon=0.4, step=1e-3
    )
    assert printed(mechanism, 0.4) == pytest.approx(pair[0], rel=1e-5)


@pytest.mark.parametrize("q", [1e-5, 1e-3, 0.5])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_upper_keeps_its_precision_with_100_000_records(q, direction):
    """Sum over counts with mpmath's binomial weights; threshold by bisection on the share of N."""
    d, p, sigma, epsilon = 100_000, 0.1, 0.8, 0.3 if direction == "remove" else 0.05 * q
    mechanism = CountRevealed(sigma, p=p, q=q, samples_per_client=d)
    mean, spread = d * q, np.sqrt(d * q * (1 - q))
    counts = range(max(0, int(mean - 7.5 * spread - 12)), int(mean + 7.5 * spread + 25))
    with mp.workdps(25):
        factor, w1, w0 = reference.weights(direction, epsilon, p, q)
        shift, s, rate = int(direction == "remove"), mp.mpf(sigma), mp.mpf(q)
        b = mp.binomial(d, counts[0]) * rate ** counts[0] * (1 - rate) ** (d - counts[0])
        weights = []
        for i in counts:
            weights.append(b)
            b *= rate / (1 - rate) * (d - i) / (i + 1)
        assert abs(mp.fsum(weights) - 1) < 1e-12

        def excess(z):
            """What the counts whose test says yes at z weigh against "client stays away"."""
            total = -w0 * reference.normal(z, 0, s)
            for i, b in zip(counts, weights, strict=True):
                if (z - i - shift + 0.5) > s**2 * mp.log(w1):
                    own, less = (reference.normal(z, i + shift - k, s) for k in (0, 1))
                    total += b * (own - w1 * less)
            return total

        low, high = mp.mpf(shift) - 0.5 + s**2 * mp.log(w1), mp.mpf(60)
        if mean > 1000:  # the threshold is far from both N and the counts: its place is irrelevant
            low = high = mp.mpf(mean / 2)
        for _ in range(45 if low < high else 0):
            middle = (low + high) / 2
            low, high = (low, middle) if excess(middle) > 0 else (middle, high)
        want = -w0 * mp.ncdf(-low / s)
        for i, b in zip(counts, weights, strict=True):
            own = max(low, i + shift - 0.5 + s**2 * mp.log(w1))
            want += b * (mp.ncdf((i + shift - own) / s) - w1 * mp.ncdf((i + shift - 1 - own) / s))
        want = float(factor * want)
    assert want > 0
    assert mechanism.delta(epsilon, direction=direction) == pytest.approx(want, rel=1e-8)


@pytest.mark.parametrize("d, q", [(10, 0.1), (3, 0.5)])
def test_lower_is_attained_by_gradients_at_one_angle(d, q):
    """The best of eleven angles by two-dimensional quadrature is what ``lower`` returns."""
    mechanism = RandomParticipation(1.0, p=0.1, q=q, samples_per_client=d)
    best = np.zeros(2)
    counts = np.arange(d + 1)
    for cosine in np.linspace(0, 1, 11):
        # The others share one gradient: enumerate counts instead of subsets.
        chance = np.array([float(mp.binomial(d, i)) * q**i * (1 - q) ** (d - i) for i in counts])
        for k, sign in enumerate((1, -1)):
            record = np.array([sign * cosine, np.sqrt(1 - cosine**2)])
            stay = counts[:, None] * np.array([1.0, 0.0])
            means = np.concatenate([np.zeros((1, 2)), stay, stay + record])
            with_record = np.concatenate([[0.9], 0.1 * (1 - q) * chance, 0.1 * q * chance])
            without = np.concatenate([[0.9], 0.1 * chance, 0 * chance])
            cells = reference.density_cells(means, np.stack([with_record, without], axis=1), 1.0)
            one, other = cells[..., k], cells[..., 1 - k]
            best[k] = max(best[k], np.maximum(one - np.exp(0.03) * other, 0).sum())
    for k, direction in enumerate(DIRECTIONS):
        lower = mechanism.delta(0.03, method="lower", direction=direction)
        assert lower == pytest.approx(best[k], rel=0.005)


# ---- limits ------------------------------------------------------------------------------------

EPSILON = np.array([0.0, 1e-3, 0.05, 0.5, 2.0])


@pytest.mark.parametrize("method", ["upper", "lower"])
@pytest.mark.parametrize("direction", DIRECTIONS)
class TestLimits:
    """Parameters at which the scheme is a known mechanism, for both ends of the bracket."""

    def value(self, method, direction, **setting):
        mechanism = RandomParticipation(setting.pop("sigma", 1.0), **setting)
        return mechanism.delta(EPSILON, method=method, direction=direction)

    def test_nothing_drawn_leaks_nothing(self, method, direction):
        for p, q in ((0.0, 0.4), (0.4, 0.0), (0.0, 0.0)):
            assert not np.any(self.value(method, direction, p=p, q=q, samples_per_client=9))

    def test_everyone_takes_part(self, method, direction):
        want = PoissonGaussian(1.0, rate=0.2).delta(EPSILON, direction=direction)
        got = self.value(method, direction, p=1.0, q=0.2, samples_per_client=9)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-18)

    def test_no_other_records(self, method, direction):
        want = PoissonGaussian(1.0, rate=0.06).delta(EPSILON, direction=direction)
        got = self.value(method, direction, p=0.3, q=0.2, samples_per_client=0)
        np.testing.assert_allclose(got, want, rtol=1e-12)

    def test_many_records_disclose_participation(self, method, direction):
        want = WeakClientSampling(1.0, p=0.3, q=0.2).delta(EPSILON, direction=direction)
        got = self.value(method, direction, p=0.3, q=0.2, samples_per_client=5000)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-18)

    def test_everything_drawn_is_a_gaussian_seen_with_rate_p(self, method, direction):
        """q = 1: M1 and M0 are single Gaussians d + 1 and d clips away from N."""
        got = self.value(method, direction, p=0.3, q=1.0, samples_per_client=40)
        want = WeakClientSampling(1.0, p=0.3, q=1.0).delta(EPSILON, direction=direction)
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_at_epsilon_zero_the_bracket_closes_on_total_variation():
    want = 0.3 * 0.2 * float(mp.erf(1 / (2 * mp.sqrt(2) * mp.mpf("0.7"))))
    mechanism = RandomParticipation(0.7, p=0.3, q=0.2, samples_per_client=7)
    for method in ("upper", "lower"):
        assert mechanism.delta(0.0, method=method) == pytest.approx(want, rel=1e-9)


# ---- properties --------------------------------------------------------------------------------

rates = st.floats(1e-4, 1.0)
counts = st.sampled_from([0, 1, 2, 3, 10, 40])


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    sigma=st.floats(0.1, 50), p=rates, q=rates, d=counts, x=st.floats(0, 6), factor=st.floats(1, 3)
)
def test_upper_is_monotone_in_everything(sigma, p, q, d, x, factor):
    epsilon = x / sigma
    for direction in DIRECTIONS:

        def delta(sigma=sigma, p=p, q=q, d=d, epsilon=epsilon, direction=direction):
            mechanism = RandomParticipation(sigma, p=p, q=q, samples_per_client=d)
            return mechanism.delta(epsilon, direction=direction)

        base = delta()
        most = base * (1 + 1e-8) + 1e-15
        assert delta(epsilon=epsilon * factor) <= most
        assert delta(sigma=sigma * factor) <= most
        assert delta(p=p / factor) <= most
        assert delta(q=q / factor) <= most
        assert delta(d=d // 2) <= most
        assert delta(sigma=sigma * 1.7, epsilon=epsilon) == pytest.approx(
            RandomParticipation(sigma * 5.1, p=p, q=q, samples_per_client=d, clip=3.0).delta(
                epsilon, direction=direction
            ),
            rel=1e-8,
            abs=1e-30,
        )


@settings(max_examples=25, derandomize=True, deadline=None)
@given(sigma=st.floats(0.2, 50), p=rates, q=rates, d=counts, x=st.floats(0, 6))
def test_order_of_the_schemes_and_of_the_methods(sigma, p, q, d, x):
    epsilon = x / sigma
    scheme = RandomParticipation(sigma, p=p, q=q, samples_per_client=d)
    for direction in DIRECTIONS:
        central = CentralizedShuffling(sigma, p=p, q=q).delta(epsilon, direction=direction)
        lower, upper = (
            scheme.delta(epsilon, method=m, direction=direction) for m in ("lower", "upper")
        )
        weak = WeakClientSampling(sigma, p=p, q=q).delta(epsilon, direction=direction)
        slack = 1e-8 * weak + 1e-15
        assert 0 <= central <= lower + slack
        assert lower <= upper + slack
        assert upper <= weak + slack <= 1 + slack


@settings(max_examples=15, derandomize=True, deadline=None)
@given(sigma=st.floats(0.3, 50), p=rates, q=rates, d=counts, exponent=st.floats(-12, -2))
def test_epsilon_inverts_delta(sigma, p, q, d, exponent):
    mechanism, delta = RandomParticipation(sigma, p=p, q=q, samples_per_client=d), 10.0**exponent
    epsilon = mechanism.epsilon(delta)
    assert epsilon >= 0
    assert mechanism.delta(epsilon) <= delta * (1 + 1e-14)
    if epsilon > 0:
        assert mechanism.delta(epsilon * (1 - 1e-5)) > delta * (1 - 1e-9)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("q", [1e-3, 0.05, 0.2, 0.9])
@pytest.mark.parametrize("d", [200, 5000, 100_000])
def test_large_clients_stay_between_the_two_baselines(d, q, direction):
    """Here the threshold lies hundreds of clips from zero: rounding must not swallow the bound."""
    sigma = np.array([0.3, 1.0, 3.0, 20.0])[:, None, None]
    p = np.array([0.001, 0.1, 0.9])[:, None]
    epsilon = np.array([1e-4, 0.01, 0.05, 0.2, 1.0])
    setting = {"p": p, "q": q}
    upper = RandomParticipation(sigma, samples_per_client=d, **setting).delta(
        epsilon / sigma, direction=direction
    )
    central = CentralizedShuffling(sigma, **setting).delta(epsilon / sigma, direction=direction)
    weak = WeakClientSampling(sigma, **setting).delta(epsilon / sigma, direction=direction)
    assert np.all(central <= upper * (1 + 1e-8) + 1e-18)
    assert np.all(upper <= weak * (1 + 1e-8) + 1e-18)


@pytest.mark.parametrize("method", ["upper", "lower"])
@pytest.mark.parametrize("sigma", [0.05, 1.0, 1000.0])
def test_nothing_leaves_its_range_in_extreme_settings(sigma, method):
    epsilon = np.array([0.0, 1e-9, 1e-3, 1.0, 10.0, 50.0])
    for p, q, d in [(1e-12, 0.1, 10), (0.1, 1e-12, 10), (1 - 1e-15, 0.9, 30), (0.1, 1 - 1e-15, 30)]:
        mechanism = RandomParticipation(sigma, p=p, q=q, samples_per_client=d)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            delta = mechanism.delta(epsilon, method=method)
            budget = mechanism.epsilon([1e-12], method=method)
        assert np.all((delta >= 0) & (delta <= p * q * (1 + 1e-12)))
        assert np.all(np.diff(delta) <= 1e-12 * delta[:-1])
        assert np.all(np.isfinite(budget) & (budget >= 0))


@pytest.mark.parametrize("method", ["upper", "lower", "paper"])
def test_arrays_equal_a_loop_over_scalars(method):
    sigma, p, q = np.array([[0.6], [1.0]]), np.array([0.1, 0.5, 0.0]), np.array([0.2, 0.1, 0.3])
    epsilon = np.array([0.1, 0.4, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InvalidBoundWarning)
        table = RandomParticipation(sigma, p=p, q=q, samples_per_client=6)
        delta = table.delta(epsilon, method=method)
        budget = table.epsilon(1e-4, method=method)
        assert delta.shape == budget.shape == (2, 3)
        for r, c in np.ndindex(2, 3):
            one = RandomParticipation(sigma[r, 0], p=p[c], q=q[c], samples_per_client=6)
            assert isinstance(one.delta(epsilon[c], method=method), float)
            assert delta[r, c] == pytest.approx(one.delta(epsilon[c], method=method), rel=1e-5)
            assert budget[r, c] == pytest.approx(one.epsilon(1e-4, method=method), rel=1e-5)


def test_both_directions_means_the_worse_one():
    mechanism = RandomParticipation(1.0, p=0.2, q=0.3, samples_per_client=4)
    for method in ("upper", "lower"):
        ways = [mechanism.delta(EPSILON, method=method, direction=w) for w in DIRECTIONS]
        np.testing.assert_array_equal(mechanism.delta(EPSILON, method=method), np.maximum(*ways))


@pytest.mark.parametrize(("d", "q"), [(100_000, 0.001), (10**8, 0.5), (10**8, 1e-6)])
def test_lower_survives_large_clients(d, q):
    """Memory and time: grid times counts must not be held at once, nor all counts of very many records used."""
    mechanism = RandomParticipation(1.0, p=0.1, q=q, samples_per_client=d)
    lower, upper = (mechanism.delta(0.1, method=m) for m in ("lower", "upper"))
    assert lower <= upper and lower == pytest.approx(upper, rel=1e-3)


def test_compositions_of_very_large_clients_use_as_few_records_as_tell(monkeypatch):
    """A silo of ten million records took minutes and gigabytes; participation is as good as disclosed."""
    silo = RandomParticipation(2.0, p=0.7, q=0.5, samples_per_client=10**7)
    used, real = [], mechanisms.pair_masses

    def noted(s, p, q, d, cosine):
        used.append(d)
        assert d <= 10_000
        return real(s, p, q, d, cosine)

    monkeypatch.setattr(mechanisms, "pair_masses", noted)
    lower = compose(silo, 6).epsilon(1e-5, method="lower")
    assert used
    disclosed = compose(WeakClientSampling(2.0, p=0.7, q=0.5), 6).epsilon(1e-5)
    assert lower <= compose(silo, 6).epsilon(1e-5) <= disclosed * (1 + 1e-9)
    assert lower == pytest.approx(disclosed, rel=2e-3)


@pytest.mark.parametrize("q", [0.9, 0.05, 1e-4])
@pytest.mark.parametrize("s", [0.03, 1.0, 300.0])
def test_records_beyond_those_that_tell_add_nothing_to_what_is_attained(monkeypatch, s, q):
    """The explicit pair with few records is as good as that with all of them."""
    every = RandomParticipation(s, p=0.3, q=q, samples_per_client=20_000)
    epsilon = 0.1 / s
    monkeypatch.setattr(mechanisms, "_ALWAYS", 20_000)
    whole = np.array([every.delta(epsilon, method="lower", direction=w) for w in DIRECTIONS])
    monkeypatch.setattr(mechanisms, "_ALWAYS", 1)
    few = np.array([every.delta(epsilon, method="lower", direction=w) for w in DIRECTIONS])
    np.testing.assert_allclose(few, whole, rtol=1e-3)
    assert (few <= every.delta(epsilon)).all()
