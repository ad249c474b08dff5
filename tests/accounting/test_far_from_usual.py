"""Noise and clients far from the usual: little memory, bounds on their side that fall, or one clear error."""

import warnings

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf

from repro.accounting import (
    GaussianMechanism,
    ModelSplitting,
    PoissonGaussian,
    RandomParticipation,
    compose,
)
from repro.accounting import _laplace_sums as sums
from repro.accounting._losses import profile
from repro.accounting._pld import losses, one_sided
from repro.accounting.ddpsa.printed import aggregate_epsilon, equal_scale
from repro.accounting.laplace import SummedLaplace
from repro.accounting.mspafl.carried import CarriedRun
from repro.accounting.mspafl.round import AveragedUploads
from repro.accounting.mspafl.run import server_delta_lower, server_laws
from repro.accounting.partitioning.printed import forward_bound, poisson_rdp, theorem_3_1

DELTA = 1e-9


# Noise that hides everything ----------------------------------------------------------------------


@pytest.mark.parametrize("submodels", [1, 4])
def test_much_noise_takes_few_losses(submodels):
    """A mass of 1e-20 at the loss log(1 - rate) once stretched the grid over 44 million losses."""
    made = ModelSplitting(1e6, submodels=submodels, rate=0.2)
    run = compose(made, 5)
    for side in one_sided(made.losses("upper", run._interval("upper", 5))):
        assert losses(side).mass.size < 10_000
    upper, lower = (run.epsilon(DELTA, method=m) for m in ("upper", "lower"))
    assert 0 < lower <= upper == pytest.approx(lower, rel=5e-3)


def test_much_noise_is_the_gaussian_limit():
    """Of T subsampled rounds with much noise: mu = rate sqrt(T) / sigma (Dong, Roth and Su 2022, section 5)."""
    run = compose(ModelSplitting(1e6, submodels=1, rate=0.2), 5)
    limit = GaussianMechanism(1e6 / (0.2 * np.sqrt(5))).epsilon(DELTA)
    assert run.epsilon(DELTA, method="lower") <= limit * 1.001
    assert run.epsilon(DELTA) == pytest.approx(limit, rel=5e-3)


@pytest.mark.parametrize(("sigma", "clip"), [(1e6, 1.0), (1e12, 1.0), (1.0, 1e-6), (3.0, 1e-300)])
def test_other_records_are_left_out_where_no_grid_shows_them(sigma, clip):
    """The plane of the explicit pairs has a cell per seventh of sigma and per clip: 10^8 and more of them."""
    made = RandomParticipation(sigma, p=0.1, q=0.5, samples_per_client=10, clip=clip)
    assert len(list(made.lower_pairs(1e-5))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0 <= made.delta(0.0, method="lower") <= made.delta(0.0) < 1e-3
    run = compose(made, 50)
    assert run.epsilon(1e-5, method="lower") == 0 <= run.epsilon(1e-5)
    assert 0 <= run.delta(0.0, method="lower") <= run.delta(0.0) < 1e-3
    alone = PoissonGaussian(sigma, rate=0.05, sensitivity=clip)
    same = (one_sided(one.losses("lower", 1e-5))[0] for one in (made, alone))
    first, second = (losses(side).mass for side in same)
    assert np.array_equal(first, second)
    assert (
        len(list(RandomParticipation(3.0, p=0.1, q=0.5, samples_per_client=10).lower_pairs(1e-3)))
        > 1
    )


def test_a_vanishing_clip_on_submodels_leaves_the_rest():
    """One unit of rounding once lifted the lower bound above the upper one."""
    made = ModelSplitting(0.3, submodels=100, rate=1 - 1e-16, clip=1e-300, unsplit_clip=0.5)
    epsilon = np.array([0.0, 1e-12, 0.5, 3.0])
    for way in ("add", "remove", "both"):
        low, high = (made.delta(epsilon, method=m, direction=way) for m in ("lower", "upper"))
        assert np.all(low <= high)
        assert low == pytest.approx(
            GaussianMechanism(0.3, sensitivity=0.5).delta(epsilon), rel=1e-9
        )


# Very many clients --------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [0.0, 1e-8, 0.3, 7.0, 150.0, 3e3, 1e5])
def test_the_heavy_terms_are_the_sum_of_all(monkeypatch, x):
    whole = [f(np.array([x]), 1500)[0] for f in (sums.log_density, sums.log_tail)]
    monkeypatch.setattr(sums, "FEW", 10)
    monkeypatch.setattr(sums, "_ROWS", 2)
    at = np.array([3e5, x, 0.0, 20.0])
    some = [f(at, 1500)[1] for f in (sums.log_density, sums.log_tail)]
    assert some == pytest.approx(whole, rel=1e-14)
    assert sums.log_tail(np.empty(0), 1500).shape == (0,)


def test_outputs_of_a_loss_are_the_same_by_both_searches(monkeypatch):
    epsilon, shift = np.array([0.0, 0.01, 0.7, 1.9]), np.full(4, 2.0)
    plain = sums.loss_point(epsilon, shift, 300)
    monkeypatch.setattr(sums, "FEW", 10)
    quick = sums.loss_point(epsilon, shift, 300)
    assert quick == pytest.approx(plain, rel=1e-10)
    assert sums.loss(quick, shift, 300) == pytest.approx(epsilon, abs=1e-10)


def test_thousands_of_clients_are_nearly_gaussian():
    """The sum of n Laplace variables has variance 2 n: the limit is the Gaussian mechanism with that much noise."""
    found = aggregate_epsilon(1.0, clients=4_000, rounds=100, delta=1e-5)
    limit = GaussianMechanism(np.sqrt(2 * 4_000), sensitivity=np.sqrt(100)).epsilon(1e-5)
    assert found == pytest.approx(limit, rel=2e-3)
    made = SummedLaplace(
        1e6, clients=4_000, sensitivity=3.0
    )  # losses far below the largest possible one
    for side in one_sided(made.losses("lower", 1e-11)):
        assert losses(side).mass.size < 250_000 < 2 * 3e-6 / 1e-11
    assert 0.01 <= made.tpr_at_fpr(0.01, method="lower") <= made.tpr_at_fpr(0.01)
    scale = equal_scale(1.0, clients=4_000, rounds=100, delta=1e-5)
    assert 0.99 * found <= aggregate_epsilon(1 / scale, clients=1, rounds=100, delta=1e-5) <= found


# Bounds that fall ---------------------------------------------------------------------------------


def test_masses_below_zero_make_no_profile_rise():
    """Fourier transforms leave such masses; a delta once rose from 4.49e-14 to 4.74e-14 between epsilon 0 and 1."""
    mass = np.array([0.7, -2e-15, 0.3, -3e-15, 1e-16])
    epsilon = np.linspace(0.0, 6.0, 601)
    for upwards in (True, False):
        found = profile(pld_pmf.DensePLDPmf(1.0, 0, mass, 0.0, upwards), epsilon)
        assert np.all(np.diff(found) <= 0) and np.all(found >= 0)
    run = compose(GaussianMechanism(1e12), 50)
    assert np.all(np.diff(run.delta([0.0, 1e-12, 1.0, 8.0, 1e9])) <= 0)


@pytest.mark.parametrize("epsilon", [60.0, 200.0, 1e3])
def test_a_lower_bound_has_no_floor(epsilon):
    """An upload of 2 C = 2 behind noise 4: the true delta at epsilon 60 is below 1e-3000."""
    first = AveragedUploads(4.0, p=0.3, q=0.1)
    run = CarriedRun(4.0, rounds=1, p=0.3, q=0.1)
    for made in (first, run):
        assert made.delta(epsilon, method="lower") <= GaussianMechanism(4.0, sensitivity=2.0).delta(
            epsilon
        )
        assert made.delta(epsilon) > 0  # from above the floor stays


@pytest.mark.parametrize("pure", [650.0, 1000.0])
def test_losses_beyond_the_largest_exponential_keep_their_mass(pure):
    """exp(loss) times a mass of 0 once was no number, and the cell's mass was lost from an upper bound."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = SummedLaplace(1 / pure, clients=3)
        (side,) = one_sided(made.losses("upper", 2.0), "remove")
    whole = losses(side)
    assert whole.mass.sum() + whole.infinite == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("method", ["lower", "upper"])
def test_next_to_no_noise_takes_little_memory_and_tells_all(method):
    """Cells reach to the shift, which was 2e9 standard deviations: 209 GiB. A shift of 60 tells as much."""
    for made in (
        CarriedRun(1e-3, rounds=10, p=0.5, q=0.1, clip=1e6),
        AveragedUploads(1e-6, p=0.5, q=0.1, clip=3.0),
    ):
        rounds = getattr(made, "rounds", 1)
        drawn = (
            1 - (1 - 0.5 * 0.1) ** rounds
        )  # what is told without any noise, if the record is drawn
        assert made.delta(1.0, method=method) <= drawn * (1 + 1e-9)
        assert made.delta(1.0, method=method) >= 0.9 * drawn
        assert 0 <= made.tpr_at_fpr(0.01, method=method) <= 1
    two = AveragedUploads(1e-6, p=0.999, clients=2, clip=3.0)
    assert two.delta(1.0, method="upper") == pytest.approx(two.delta(1.0, method="lower"), rel=1e-3)


def test_next_to_no_leak_composes():
    """Losses of 1e-300 once asked for a grid of as many points up to 0.25."""
    run = compose(CarriedRun(0.3, rounds=1, p=0.5, q=0.5, clients=10, clip=1e-300), 2)
    for way in ("add", "remove"):
        low, high = (run.delta(1e-3, method=m, direction=way) for m in ("lower", "upper"))
        assert 0 <= low <= high < 1e-11
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # lines of two epsilons whose exponentials are one double
        made = PoissonGaussian(50.0, rate=1e-6, sensitivity=1e-6)
        assert 0.01 <= made.tpr_at_fpr(0.01) <= 0.01 + 1e-12
        assert 0.3 - 1e-12 <= made.bayes_risk(0.3) <= 0.3


# Errors that name the argument --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SummedLaplace(1.0, clients=10**6), "^clients must be an integer in"),
        (
            lambda: aggregate_epsilon(1.0, clients=2, rounds=3, delta=np.zeros((2, 0))),
            "^delta must",
        ),
        (lambda: aggregate_epsilon(1.0, clients=2, rounds=[], delta=0.1), "^rounds must"),
        (lambda: aggregate_epsilon(1.0, clients=[], rounds=3, delta=0.1), "^clients must"),
        (
            lambda: aggregate_epsilon(1.0, clients=2, rounds=3, delta=[0.1, 0.2]),
            "^delta must be one",
        ),
        (lambda: equal_scale(0.01, clients=100, rounds=3, delta=0.999), "^delta must be so small"),
        (lambda: theorem_3_1(256, 10, 3, 1e-300, 50.0), "^sigma must be at least"),
        (lambda: poisson_rdp(1e4, 1e-300, 0.5, 0.03), "^sigma must be at least"),
        (lambda: forward_bound(3, 1, 1, [1.0, 1e-300]), "^sigma must be at least"),
        (lambda: server_laws(2, 1e-6, np.zeros((2, 0)), 0.001), "^p must be"),
        (lambda: server_laws(2, 0.3, 0.5, 0.0), "^q must be one number above 0"),
        (lambda: server_laws(2, [0.3, 1.0], 0.5, 0.5), "^ratio must be one number above 0"),
        (lambda: server_laws(0, 0.3, 0.5, 0.5), "^rounds must be"),
    ],
)
def test_one_error_that_names_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_epsilon_beyond_every_double_is_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert server_delta_lower(1e9, 2, ratio=1e-300, p=0.001, q=0.999) == [0.0]
