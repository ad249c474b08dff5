"""The public interface of mechanisms: what subclasses have to say, and what all of them answer."""

import inspect
from dataclasses import dataclass

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld_lib

from repro._validate import positive
from repro.accounting import (
    BalancedIterationSubsampling,
    CentralizedShuffling,
    GaussianMechanism,
    Mechanism,
    ModelSplitting,
    OnlyLocalSampling,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
    calibrate_sigma,
    compose,
)
from repro.accounting.composition import Composition
from repro.accounting.ddpsa.shares import LaplaceShares
from repro.accounting.laplace import SummedLaplace
from repro.accounting.mechanism import DIRECTIONS, METHODS, frozen_fields
from repro.accounting.mspafl.carried import CarriedRun
from repro.accounting.mspafl.round import AveragedUploads
from repro.accounting.pmsfl.masks import SampledMask
from repro.accounting.random_participation.mechanisms import CountRevealed


@dataclass(frozen=True, eq=False)
class Laplace(Mechanism):
    """The Laplace mechanism by its privacy profile alone: the example of the module's docstring."""

    scale: float

    def __post_init__(self):
        frozen_fields(self, scale=positive)

    def log_delta(self, epsilon, direction, method):
        gap = np.minimum(epsilon - 1 / np.asarray(self.scale), 0.0) / 2
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(gap))


def reference(scale, rounds, *, pessimistic):
    """dp-accounting's own Laplace mechanism, composed."""
    single = pld_lib.from_laplace_mechanism(
        scale, value_discretization_interval=1e-4, pessimistic_estimate=pessimistic
    )
    return single.self_compose(rounds)


EPSILON = [0.0, 0.2, 0.5, 1.0, 2.0]


def test_own_mechanism_has_delta_and_epsilon():
    scale = np.array([0.5, 2.0, 8.0])
    one = Laplace(scale)
    want = [
        pld_lib.from_laplace_mechanism(s).get_delta_for_epsilon(0.1).item() for s in scale.tolist()
    ]
    np.testing.assert_allclose(one.delta(0.1), want, rtol=1e-4)
    np.testing.assert_allclose(one.delta(one.epsilon(1e-3)), 1e-3, rtol=1e-6)
    np.testing.assert_allclose(one.epsilon(1e-3), 1 / scale + 2 * np.log1p(-1e-3), rtol=1e-6)


def test_own_mechanism_composes_and_brackets_dp_accounting():
    run = compose(Laplace(4.0), 10)
    above = np.array(reference(4.0, 10, pessimistic=True).get_delta_for_epsilon(EPSILON))
    below = np.array(reference(4.0, 10, pessimistic=False).get_delta_for_epsilon(EPSILON))
    upper, lower = run.delta(EPSILON), run.delta(EPSILON, method="lower")
    assert np.all(lower < upper)
    # Each of our ends lies on its side of the other end of dp-accounting, and close to its own.
    assert np.all(lower <= above) and np.all(below <= upper)
    np.testing.assert_allclose(upper, above, rtol=2e-3, atol=1e-9)
    np.testing.assert_allclose(lower, below, rtol=2e-2, atol=1e-9)


def test_own_mechanism_is_calibrated():
    found = calibrate_sigma(lambda s: compose(Laplace(s), 10), epsilon=1.0, delta=1e-5)
    assert reference(found, 10, pessimistic=False).get_epsilon_for_delta(1e-5) <= 1.0
    at = reference(found, 10, pessimistic=True).get_epsilon_for_delta(1e-5)
    assert at == pytest.approx(1.0, rel=2e-3)


@pytest.mark.parametrize("method", ["upper", "lower"])
def test_own_mechanism_hands_out_its_losses(method):
    losses = Laplace(2.0).pld(method=method, interval=1e-3)
    truth = Laplace(2.0).delta(EPSILON)
    got = np.array(losses.get_delta_for_epsilon(EPSILON))
    if method == "upper":
        assert np.all(got >= truth - 1e-14)  # a sum of a thousand doubles
    else:
        assert np.all(got <= truth + 1e-15)
    np.testing.assert_allclose(got, truth, atol=2e-3)


def test_own_mechanism_without_renyi_divergences_says_so():
    with pytest.raises(NotImplementedError, match="Laplace has no Renyi divergences.*`renyi`"):
        Laplace(1.0).rdp(2)
    with pytest.raises(ValueError, match="must be an instance of Mechanism"):
        Composition(object(), 2)


ALL = {
    "GaussianMechanism": lambda x: GaussianMechanism(x),
    "PoissonGaussian": lambda x: PoissonGaussian(x, rate=0.2),
    "RandomParticipation": lambda x: RandomParticipation(x, p=0.5, q=0.2, samples_per_client=3),
    "CountRevealed": lambda x: CountRevealed(x, p=0.5, q=0.2, samples_per_client=3),
    "WeakClientSampling": lambda x: WeakClientSampling(x, p=0.5, q=0.2),
    "OnlyLocalSampling": lambda x: OnlyLocalSampling(x, q=0.2),
    "CentralizedShuffling": lambda x: CentralizedShuffling(x, p=0.5, q=0.2),
    "ModelSplitting": lambda x: ModelSplitting(x, submodels=4, rate=0.5),
    "BalancedIterationSubsampling": lambda x: BalancedIterationSubsampling(
        x, iterations=10, participations=3
    ),
    "SummedLaplace": lambda x: SummedLaplace(x, clients=2),
    "LaplaceShares": lambda x: LaplaceShares(x, honest=3, planned=4),
    "AveragedUploads": lambda x: AveragedUploads(x, p=0.5, q=0.5, clients=4),
}

WITHOUT_NOISE_LEVEL = {"SampledMask"}
"""No sigma comes first; tested in `pmsfl/test_masks.py`."""
WITHOUT_RENYI = {"CarriedRun"}

UNANSWERED = {
    "RandomParticipation": {("paper", way) for way in DIRECTIONS} | {("lower", "add")},
    "CountRevealed": {("paper", way) for way in DIRECTIONS} | {("lower", "add")},
    "AveragedUploads": {("paper", way) for way in DIRECTIONS},
    "PoissonGaussian": {("lower", "add")},
    "WeakClientSampling": {("lower", "add")},
    "OnlyLocalSampling": {("lower", "add")},
    "CentralizedShuffling": {("lower", "add")},
}
"""What has no Renyi divergence: a paper without one, and lower bounds on the smaller direction."""


def subclasses(base):
    for child in base.__subclasses__():
        yield child
        yield from subclasses(child)


def test_all_mechanisms_of_the_package_are_listed():
    own = {c.__name__ for c in subclasses(Mechanism) if c.__module__.startswith("repro.")}
    assert {name for name in own if not name.startswith("_")} == (
        set(ALL) | WITHOUT_NOISE_LEVEL | WITHOUT_RENYI
    )


def test_no_renyi_divergence_is_one_clear_error():
    with pytest.raises(NotImplementedError, match="CarriedRun has no Renyi divergences"):
        CarriedRun(2.0, rounds=3, p=0.5).rdp(2)


def test_renyi_divergence_of_sampled_bits_in_closed_form():
    bit = np.log(0.6**2 / 0.4 + 0.4**2 / 0.6)
    assert SampledMask(0.6, second=0.4, count=3).rdp(2) == pytest.approx(3 * bit, rel=1e-9)


def test_rdp_has_one_signature():
    want = inspect.signature(Mechanism.rdp)
    assert [p.name for p in want.parameters.values()] == ["self", "alpha", "method", "direction"]
    for make in [*ALL.values()]:
        kind = type(make(2.0))
        assert kind.rdp is Mechanism.rdp, f"{kind.__name__} has a `rdp` of its own"
    assert inspect.signature(Composition.rdp).parameters == want.parameters


@pytest.mark.parametrize("name", ALL)
def test_rdp_accepts_the_documented_arguments(name):
    mechanism = ALL[name](2.0)
    alpha = np.array([2, 3, 8])
    values = {}
    for method in METHODS:
        for direction in DIRECTIONS:
            if (method, direction) in UNANSWERED.get(name, ()):
                with pytest.raises(ValueError, match=r"must be .*got '(paper|add)'"):
                    mechanism.rdp(alpha, method=method, direction=direction)
                continue
            curve = mechanism.rdp(alpha, method=method, direction=direction)
            assert curve.shape == (3,) and np.all(curve > 0)
            assert isinstance(mechanism.rdp(2, method=method, direction=direction), float)
            np.testing.assert_array_equal(
                compose(mechanism, 3).rdp(alpha, method=method, direction=direction), 3 * curve
            )
            values[method, direction] = curve
    np.testing.assert_array_equal(mechanism.rdp(alpha), values["upper", "both"])
    for (method, direction), curve in values.items():
        if method == "lower":
            assert np.all(curve <= values["upper", direction] * (1 + 1e-9))
        assert np.all(curve <= values[method, "both"])
    with pytest.raises(ValueError, match="method must be"):
        mechanism.rdp(2, method="best")
    with pytest.raises(ValueError, match="direction must be"):
        mechanism.rdp(2, direction="replace")
    with pytest.raises(ValueError, match="alpha must be above 1"):
        mechanism.rdp(1.0)


@pytest.mark.parametrize("name", ALL)
def test_mechanisms_compare_by_value_and_hash(name):
    make = ALL[name]
    assert make(2.0) == make(2.0) and hash(make(2.0)) == hash(make(2.0))
    assert make(2.0) != make(3.0) and make(2.0) != 2.0
    assert len({make(2.0), make(2.0), make(3.0)}) == 2
    if name == "LaplaceShares":
        return  # its scale is one number
    arrays = make([2.0, 3.0])
    assert arrays == make([2.0, 3.0]) and hash(arrays) == hash(make([2.0, 3.0]))
    assert arrays != make([2.0, 4.0]) and arrays != make(2.0)


def test_mechanisms_of_two_classes_differ():
    assert OnlyLocalSampling(2.0, q=0.2) != PoissonGaussian(2.0, rate=0.2)


def test_averaged_uploads_say_which_methods_there_are():
    mechanism = ALL["AveragedUploads"](2.0)
    for answer in (
        lambda: mechanism.delta(0.1, method="paper"),
        lambda: mechanism.epsilon(0.1, method="paper"),
        lambda: mechanism.rdp(2, method="paper"),
        lambda: mechanism.pld(method="paper"),
        lambda: compose(mechanism, 2).delta(0.1, method="paper"),
    ):
        with pytest.raises(ValueError, match="method must be 'upper' or 'lower'.*got 'paper'"):
            answer()


def test_paper_of_summed_laplace_is_randomised_response():
    pure, alpha = 0.5, np.array([2.0, 3.5])
    heads = np.exp(pure) / (1 + np.exp(pure))
    moment = heads**alpha * (1 - heads) ** (1 - alpha) + (1 - heads) ** alpha * heads ** (1 - alpha)
    got = SummedLaplace(2.0, clients=3).rdp(alpha, method="paper")
    np.testing.assert_allclose(got, np.log(moment) / (alpha - 1), rtol=1e-12)
