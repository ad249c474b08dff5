"""Settings that account for themselves, against the accountant called by hand and against the algorithm."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from repro import federated
from repro.accounting import (
    BalancedIterationSubsampling,
    Federation,
    GaussianMechanism,
    ModelSplitting,
    PoissonGaussian,
    compose,
)
from repro.federated.ddpsa.algorithm import mechanism
from repro.federated.participation import BalancedIterations, PoissonIterations
from repro.federated.partitioning.algorithms import NoisyDescent, Splitting
from repro.federated.random_participation import Settings, train

DELTA = 1e-5


def rounds(**changes):
    base = {"iterations": 4, "p": 0.2, "q": 0.3, "learning_rate": 0.1, "clip": 1.0, "sigma": 1.5}
    return Settings(**{**base, **changes})


def test_random_participation_is_accounted_for_as_the_federation_is():
    """The accountant's own description of a federation, whose largest client counts."""
    federation = Federation(
        clients=1, records_per_client=9, participation=0.2, local_rate=0.3, rounds=4
    )
    run, found = federation.run(1.5), rounds().guarantee(DELTA, sizes=[5, 9, 1])
    assert found.upper == run.epsilon(DELTA)
    assert found.lower == run.epsilon(DELTA, method="lower")
    assert 0 < found.lower <= found.upper and found.neighbours == "record"
    assert found.runs[0].mechanism.samples_per_client == 8 and found.runs[0].rounds == 4
    # Without sizes, the guarantee covers this federation and all others.
    free = rounds().guarantee(DELTA)
    assert free.lower <= found.lower * 1.001 and found.upper <= free.upper
    alone = compose(PoissonGaussian(1.5, rate=0.06), 4)
    assert free.lower == pytest.approx(alone.epsilon(DELTA, method="lower"), rel=1e-3)


def test_sizes_are_those_of_the_larger_neighbour():
    """A second record makes a client's participation visible: the guarantee of one does not cover it."""
    chosen = rounds(p=0.05, q=1.0, sigma=1.0, iterations=20)
    one, two = (chosen.guarantee(DELTA, sizes=[n, 1]) for n in (1, 2))
    assert one.upper < two.lower <= two.upper <= chosen.guarantee(DELTA).upper


def test_everybody_and_everything_is_the_gaussian_mechanism():
    """p = q = 1: T rounds of noise sigma on sums that a record moves by the clip."""
    chosen = rounds(p=1.0, q=1.0, clip=0.5, sigma=4.0, iterations=16)
    exact = GaussianMechanism(4.0, sensitivity=0.5 * math.sqrt(16)).epsilon(DELTA)
    for found in (chosen.guarantee(DELTA), chosen.guarantee(DELTA, sizes=[3, 3])):
        assert found.lower <= exact <= found.upper
        assert found.upper == pytest.approx(exact, rel=5e-3)
        assert found.lower == pytest.approx(exact, rel=5e-3)


def test_noise_counts_in_units_of_the_clip_and_nothing_else_counts():
    known = rounds().guarantee(DELTA, sizes=[1])
    scaled = rounds(clip=10.0, sigma=15.0, learning_rate=7.0, momentum=0.0)
    assert scaled.guarantee(DELTA, sizes=[1]).upper == pytest.approx(known.upper, rel=1e-9)
    for worse in ({"sigma": 1.2}, {"iterations": 8}, {"p": 0.4}, {"q": 0.6}, {"clip": 1.5}):
        assert rounds(**worse).guarantee(DELTA, sizes=[1]).lower > known.upper


def descent(**changes):
    base = {"clip": 1.0, "unsplit_clip": 0.5, "sigma": 2.0, "learning_rate": 0.1}
    return NoisyDescent(**{**base, **changes})


@pytest.mark.parametrize("submodels", [1, 4])
def test_poisson_splitting_is_model_splitting(submodels):
    sampling = PoissonIterations(records=50, iterations=10, rate=0.2)
    found = descent().guarantee(DELTA, sampling, Splitting(submodels), neighbours="client")
    round_ = ModelSplitting(2.0, submodels=submodels, rate=0.2, clip=1.0, unsplit_clip=0.5)
    assert found.upper == compose(round_, 10).epsilon(DELTA)
    assert 0 < found.lower <= found.upper and found.neighbours == "client"


def test_one_submodel_that_everybody_trains_is_the_gaussian_mechanism():
    exact = GaussianMechanism(2.0, sensitivity=math.hypot(1.0, 0.5) * math.sqrt(6)).epsilon(DELTA)
    for sampling in (PoissonIterations(9, 6, 1.0), BalancedIterations(9, 6, 6)):
        found = descent().guarantee(DELTA, sampling, Splitting(1))
        assert found.lower <= exact <= found.upper
        assert found.upper == pytest.approx(exact, rel=5e-3)


def test_balanced_sampling_of_submodels_is_bracketed_by_what_is_simpler():
    """Above: the submodel is disclosed. Below: gradients on the unsplit part alone."""
    sampling = BalancedIterations(records=50, iterations=6, participations=1)
    found = descent().guarantee(DELTA, sampling, Splitting(4))
    both, unsplit = (
        BalancedIterationSubsampling(2.0, iterations=6, participations=1, clip=clip)
        for clip in (math.hypot(1.0, 0.5), 0.5)
    )
    assert found.upper == pytest.approx(both.epsilon(DELTA), rel=1e-3)
    assert found.lower == pytest.approx(unsplit.epsilon(DELTA, method="lower"), rel=1e-2)
    # What is in between: one of 6 rounds and 4 blocks in secret, with and without the unsplit part.
    secret = ModelSplitting(2.0, submodels=24, clip=1.0).epsilon(DELTA, method="lower")
    assert secret <= found.upper
    whole = descent().guarantee(DELTA, sampling, Splitting(1))
    assert whole.upper == found.upper and found.lower < whole.lower <= whole.upper


def laplace(epsilon, rounds, delta):
    """Epsilon of T rounds of Laplace noise at scale 1 / epsilon, by Monte Carlo over the losses."""
    noise = np.random.default_rng(0).laplace(size=(100_000, rounds)) / epsilon
    loss = epsilon * (np.abs(noise - 1) - np.abs(noise)).sum(axis=1)
    return brentq(
        lambda at: -np.minimum(0, np.expm1(at - loss)).mean() - delta, 0, rounds * epsilon
    )


@pytest.mark.parametrize("shared", [False, True])
def test_ddpsa_is_a_laplace_mechanism_in_every_round(shared):
    variant = mechanism("DDP-SA" if shared else "LDP", clients=5, clip=3.0, epsilon=0.5)
    found = variant.guarantee(0.05, 6)
    assert found.upper == pytest.approx(laplace(0.5, 6, 0.05), rel=0.03)
    assert found.upper < 6 * 0.5 and found.neighbours == "record"
    if shared:  # four other clients' noise may help, which is certified for one coordinate only
        assert 0 < found.lower < 0.7 * found.upper
        together = replace(variant, distributed=True).guarantee(0.05, 6)
        assert together.upper == found.upper and together.lower > found.lower
        found = together
    assert found.lower == pytest.approx(found.upper, rel=1e-2)
    assert variant.guarantee(0.05, 12, batches=2).upper == variant.guarantee(0.05, 6).upper
    assert variant.guarantee(0.05, 11, batches=2).upper == variant.guarantee(0.05, 6).upper


def test_variants_of_ddpsa_that_guarantee_nothing_are_refused():
    variant = mechanism("LDP", clients=5, clip=3.0, epsilon=0.5)
    for change, message in (
        ({"epsilon": math.inf}, "the noise must be positive"),
        ({"distributed": True}, "shared must be True"),
        ({"divided": False}, "divided must be True"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(variant, **change).guarantee(DELTA, 3)
    with pytest.raises(ValueError, match="rounds must"):
        variant.guarantee(DELTA, 0)


@pytest.mark.parametrize("delta", [0, 1.0, -1e-5, "1e-5", [1e-5, 1e-6]])
def test_a_delta_out_of_range_is_refused(delta):
    with pytest.raises(ValueError, match="delta must"):
        rounds().guarantee(delta)


def test_settings_without_noise_guarantee_nothing():
    with pytest.raises(ValueError, match="the noise must be positive for a guarantee"):
        rounds(sigma=0.0).guarantee(DELTA)
    with pytest.raises(ValueError, match="the noise must be positive for a guarantee"):
        descent(sigma=0.0).guarantee(DELTA, PoissonIterations(9, 6, 0.5), Splitting(1))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [([0, 0], "largest of sizes must be"), ([1.5], "sizes must"), (3, "sizes")],
)
def test_sizes_that_are_none_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        rounds().guarantee(DELTA, sizes=sizes)


def test_neighbours_are_records_or_clients():
    with pytest.raises(ValueError, match="neighbours must be one of"):
        descent().guarantee(DELTA, PoissonIterations(9, 6, 0.5), Splitting(1), neighbours="pixel")


def test_names_of_the_package_are_imported_when_asked_for():
    program = f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}; import repro.federated; "
    program += "sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert set(federated.__all__) <= set(dir(federated))
    for name in federated.__all__:
        assert callable(getattr(federated, name))
    assert federated.train_random_participation is train
    with pytest.raises(AttributeError, match="'repro.federated' has no attribute 'nothing'"):
        _ = federated.nothing
