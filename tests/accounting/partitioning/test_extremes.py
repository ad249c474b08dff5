"""Model splitting, balanced and Poisson subsampling at the ends of every range."""

from __future__ import annotations

import itertools
import warnings

import mpmath as mp
import numpy as np
import pytest

from repro.accounting import (
    BalancedIterationSubsampling,
    GaussianMechanism,
    ModelSplitting,
    PoissonGaussian,
    compose,
)
from repro.accounting._gaussian import log_shift_divergence, log_sum
from repro.accounting._sampled_gaussian import sampled_gaussian
from repro.accounting.partitioning.moments import gauss_nodes, log_moments, work
from repro.accounting.partitioning.printed import poisson_rdp

DIRECTIONS = ("remove", "add")
EPSILON = np.array([0.0, 1e-300, 1e-9, 0.5, 5.0, 50.0, 700.0])
DELTA = np.array([1e-300, 1e-12, 1e-5, 0.5])
ORDERS = np.array([1 + 1e-7, 1.5, 2.0, 3.0, 64.0, 255.5, 256.0])
SPLITS = [
    *itertools.product((1e-3, 0.3, 1e3), (1, 3), (0.0, 1e-6, 1.0), (0.0, 0.5)),
    (0.3, 1000, 0.1, 0.0),
    (1e3, 1000, 1.0, 0.5),
    (1.0, 2, 0.1, 1e3),
    (1e-3, 8, 1.0, 1e3),
    (1e200, 2, 0.5, 0.5),
]
RUNS = [
    *itertools.product((1e-3, 0.3, 10.0, 1e3), ((1, 1), (3, 2), (8, 4))),
    (0.3, (1000, 100)),
    (1e3, (200, 199)),
    (1e200, (8, 3)),
]


def sane(mechanism, epsilons=EPSILON, deltas=DELTA):
    """No warning, nan, inf or negative number; the bracket in order; falling in the argument."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for direction in DIRECTIONS:
            for ask, at in (
                (mechanism.delta, epsilons),
                (mechanism.epsilon, deltas),
                (mechanism.rdp, ORDERS),
            ):
                low, high = (ask(at, method=m, direction=direction) for m in ("lower", "upper"))
                assert np.all(np.isfinite(low)) and np.all(np.isfinite(high))
                assert np.all(low >= 0) and np.all(low <= high * (1 + 1e-11))
                if ask == mechanism.delta:
                    assert np.all(high <= 1)
                if ask != mechanism.rdp:
                    assert np.all(np.diff(high) <= 1e-12 * high[1:])
        for ask, at in ((mechanism.delta, epsilons), (mechanism.epsilon, deltas)):
            printed, low = ask(at, method="paper"), ask(at, method="lower")
            assert np.all(np.isfinite(printed)) and np.all(low <= printed * (1 + 1e-9))


@pytest.mark.parametrize("sigma, d, rate, outside", SPLITS)
def test_splitting_anywhere(sigma, d, rate, outside):
    sane(ModelSplitting(sigma, submodels=d, rate=rate, unsplit_clip=outside))


@pytest.mark.parametrize("sigma, size", RUNS)
def test_balanced_subsampling_anywhere(sigma, size):
    run = BalancedIterationSubsampling(sigma, iterations=size[0], participations=size[1])
    sane(run, EPSILON[[0, 2, 3, 5, 6]], DELTA[[2, 3]])


@pytest.mark.parametrize("ratio", [1e-3, 1.0, 30.0, 1e5])
def test_limits_are_the_plain_gaussian(ratio):
    """One submodel or every iteration, rate 1: equal to the closed form, at any noise."""
    plain = GaussianMechanism(1 / ratio)
    limits = [
        ModelSplitting(1 / ratio, submodels=1),
        ModelSplitting(1 / ratio, submodels=1, clip=0.6, unsplit_clip=0.8),
        PoissonGaussian(1 / ratio, rate=1.0),
        BalancedIterationSubsampling(1 / ratio, iterations=1, participations=1),
        BalancedIterationSubsampling(2 / ratio, iterations=4, participations=4),
    ]
    for limit in limits:
        for direction in DIRECTIONS:
            options = {"direction": direction}
            for method in ("upper", "lower"):
                options["method"] = method
                np.testing.assert_allclose(
                    limit.delta(EPSILON, **options), plain.delta(EPSILON), rtol=1e-9
                )
                np.testing.assert_allclose(
                    limit.epsilon(DELTA, **options), plain.epsilon(DELTA), rtol=1e-9, atol=1e-12
                )
        np.testing.assert_allclose(limit.rdp(ORDERS), plain.rdp(ORDERS), rtol=1e-9)


@pytest.mark.parametrize("kind", ["split", "balanced"])
def test_more_noise_or_fewer_participations_never_hurt(kind):
    """Along each range: the next lower value stays below the one before's upper."""
    sigmas = np.geomspace(1e-3, 1e3, 13)

    def check(mechanisms):
        values = [
            (m.delta(EPSILON[[0, 3, 4]], method="lower"), m.delta(EPSILON[[0, 3, 4]]))
            for m in mechanisms
        ]
        for (_, high), (low, _) in itertools.pairwise(values):
            assert np.all(low <= high * (1 + 1e-9))

    if kind == "split":
        check([ModelSplitting(s, submodels=3, rate=0.4, unsplit_clip=0.5) for s in sigmas])
        check([ModelSplitting(0.7, submodels=3, rate=r) for r in (1, 0.9, 0.1, 1e-6, 0)])
        check([ModelSplitting(0.7, submodels=3, unsplit_clip=b) for b in (9.0, 0.5, 1e-3, 0)])
    else:
        check(
            [BalancedIterationSubsampling(s, iterations=6, participations=2) for s in sigmas[2:-2]]
        )
        check(
            [
                BalancedIterationSubsampling(1.5, iterations=6, participations=k)
                for k in range(6, 0, -1)
            ]
        )


@pytest.mark.parametrize("sigma", [1e-11, 1e-154, 5e-324])
def test_noise_beyond_the_reach_of_doubles_is_refused(sigma):
    for make in (
        GaussianMechanism,
        lambda s: PoissonGaussian(s, rate=0.1),
        lambda s: ModelSplitting(s, submodels=3),
        lambda s: ModelSplitting([1.0, s], submodels=3),
        lambda s: ModelSplitting(1.0, submodels=3, unsplit_clip=1 / s if s > 1e-300 else 1e300),
        lambda s: BalancedIterationSubsampling(s, iterations=6, participations=2),
    ):
        with pytest.raises(ValueError, match="sigma must be at least 1e-10 times .*, got"):
            make(sigma)


def test_compositions_at_the_smallest_targets():
    """Convolutions leave a trace in delta, which is charged; the bracket holds until it is refused."""
    for mechanism in (
        ModelSplitting(1.2, submodels=4, rate=0.1),
        ModelSplitting(3.0, submodels=2, rate=0.5, unsplit_clip=1.0),
        BalancedIterationSubsampling(2.0, iterations=10, participations=4),
    ):
        run = compose(mechanism, 40)
        plain = {
            "low": run.epsilon(1e-9, method="lower"),
            "high": run.epsilon(1e-9),
        }
        assert 0 < plain["low"] <= plain["high"]
        for delta in (1e-11, 1e-12, 1e-13, 1e-14):
            ends = []
            for method in ("lower", "upper"):
                try:
                    ends.append(run.epsilon(delta, method=method))
                except ValueError as error:
                    assert "delta must exceed" in str(error)
                    ends.append(np.inf)
            assert plain["low"] <= ends[0] * (1 + 1e-12) and ends[0] <= ends[1]
            assert plain["high"] <= ends[1]


# ---- Renyi divergence of the subsampled Gaussian ----------------------------------------------------


def sampled_by_quadrature(alpha, a, rate):
    with mp.workdps(40):
        alpha, a, rate = mp.mpf(alpha), mp.mpf(a), mp.mpf(rate)
        end = alpha * a + 20
        pieces = [-20 + (end + 20) * k / 60 for k in range(61)]
        total = mp.quad(
            lambda z: mp.npdf(z) * (1 - rate + rate * mp.exp(a * z - a * a / 2)) ** alpha, pieces
        )
        return float(mp.log(total) / (alpha - 1))


@pytest.mark.parametrize(
    "alpha, a, rate",
    [(1.5, 1 / 1.3, 0.3), (1.01, 0.2, 0.01), (2.5, 2.0, 0.01), (7.3, 0.1, 0.9)],
)
def test_orders_between_whole_numbers_by_quadrature(alpha, a, rate):
    got = PoissonGaussian(1 / a, rate=rate).rdp(alpha)
    assert got == pytest.approx(sampled_by_quadrature(alpha, a, rate), rel=1e-11)


@pytest.mark.parametrize("a", [1e-3, 0.1, 1.0, 3.0, 10.0, 1e5])
@pytest.mark.parametrize("rate", [1e-6, 0.1, 0.999])
def test_whole_orders_agree_with_the_finite_sum(a, rate):
    order = np.array([2, 3, 7, 64, 256])
    curve = PoissonGaussian(1 / a, rate=rate).rdp(order)
    np.testing.assert_allclose(curve, poisson_rdp(order, 1 / a, rate), rtol=1e-11)


@pytest.mark.parametrize("a", [1e-8, 1e-3, 1.0, 30.0, 1e4, 1e9])
@pytest.mark.parametrize("rate", [1e-12, 0.5, 1 - 1e-9, 1.0])
def test_renyi_curve_is_finite_and_increasing_everywhere(a, rate):
    order = [1 + 1e-12, 1.0001, 1.5, 2.0, 500.5, 5000.5, 1e6]
    curve = np.array([sampled_gaussian(x, a, rate) for x in order])
    assert np.all(np.isfinite(curve)) and np.all(curve >= 0)
    assert np.all(np.diff(curve) >= -1e-12 * curve[1:])


@pytest.mark.parametrize(
    ("mu", "depth"),
    [
        (mu, depth)
        for mu in (1.0, 20.0, 1e3, 1e6, 1e9)
        for depth in (-30, -1, 0, 2, 30)
        if mu / 2 >= depth  # epsilon is not negative
    ],
)
def test_gaussian_profile_where_the_weight_is_huge(mu, depth):
    log_weight = mu**2 / 2 - depth * mu
    with mp.workdps(60):
        m, w = mp.mpf(mu), mp.mpf(log_weight)
        low, high = m / 2 - w / m, -m / 2 - w / m
        exact = mp.log(mp.ncdf(low) - mp.exp(w + mp.log(mp.erfc(-high / mp.sqrt(2)) / 2)))
    got = float(log_shift_divergence(mu, log_weight))
    assert got == pytest.approx(float(exact), rel=1e-8, abs=1e-9)


# ---- moments of the balanced ratio ----------------------------------------------------------------


@pytest.mark.parametrize("a", [1e-2, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("m", [2, 7, 16])
def test_rule_has_the_moments_of_the_lognormal(a, m):
    if 2 * (m - 1) * a**2 > 300:
        assert work(a, 10, 3, m) == np.inf
        return
    nodes = gauss_nodes(a, m)
    order = np.arange(2 * m)[:, None]
    got = log_sum(nodes.log_weight + order * nodes.log_value, axis=1)
    want = a**2 * order[:, 0] * (order[:, 0] - 1) / 2
    np.testing.assert_allclose(got, want, atol=1e-11, rtol=1e-14)


@pytest.mark.parametrize(
    "a, size, k, m",
    [(0.5, 10, 4, 7), (1.0, 1000, 100, 2), (2.0, 1000, 100, 2), (3.3, 100, 30, 3), (5.0, 20, 3, 4)],
)
def test_stated_errors_of_moments_hold(a, size, k, m):
    """The second moment and two bounds on the others are known: errors must cover what is missed."""
    got, error = log_moments(a, size, k, m)
    order = np.arange(2 * m)
    shared = np.arange(max(0, 2 * k - size), k + 1)
    with mp.workdps(40):
        ways = [mp.binomial(k, int(x)) * mp.binomial(size - k, k - int(x)) for x in shared]
        second = mp.log(
            mp.fsum(w * mp.exp(a**2 * int(x)) for w, x in zip(ways, shared, strict=True))
        )
        second -= mp.log(mp.binomial(size, k))
        log_count = float(mp.log(mp.binomial(size, k)))
    assert abs(got[2] - float(second)) <= error[2] + 1e-11 * max(1.0, got[2])
    disclosed = order * (order - 1) / 2 * a**2 * k
    agreeing = disclosed - (order - 1) * log_count
    for bound in (got - disclosed, agreeing[2:] - got[2:]):
        # What rounding did to the first moment is taken out of all, once for every order.
        missed = error[-bound.size :] + order[-bound.size :] * error[1]
        assert np.all((bound <= np.log1p(missed) + 1e-9) | (missed > 1e-3))
    if max(error[2:]) > 1e-3:
        assert a * k > 50  # only little noise and many participations lose the digits


def test_hardly_any_noise():
    """Beyond the grid's reach the bracket stays one, and stays finite."""
    for sigma in (0.06, 0.04, 1e-3):
        mechanism = ModelSplitting(sigma, submodels=4)
        lower, upper = (mechanism.epsilon(1e-5, method=m) for m in ("lower", "upper"))
        assert 0 < lower <= upper <= PoissonGaussian(sigma, rate=1.0).epsilon(1e-5)
        assert mechanism.rdp(256, direction="remove") == pytest.approx(
            128 / sigma**2 - np.log(4), rel=1e-9
        )
        assert mechanism.delta(1.0, method="lower") <= mechanism.delta(1.0) + 1e-14 <= 1 + 1e-14


def test_tiny_targets_are_met():
    mechanism = ModelSplitting(1.0, submodels=4, rate=0.5)
    lower, upper = (mechanism.epsilon(1e-40, method=m) for m in ("lower", "upper"))
    assert lower <= upper <= PoissonGaussian(1.0, rate=0.5).epsilon(1e-40)
