"""dp-accounting's events, and the accountant for Opacus."""

from __future__ import annotations

import abc
import importlib.util

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.accounting import (
    GaussianMechanism,
    OpacusAccountant,
    PoissonGaussian,
    RandomParticipation,
    compose,
    from_dp_event,
)
from repro.accounting.laplace import SummedLaplace

EPSILON = np.array([0.0, 0.2, 1.0, 3.0])
GAUSSIAN = st.floats(1.0, 20.0).map(dp.GaussianDpEvent)
SAMPLED = st.builds(dp.PoissonSampledDpEvent, st.floats(0.01, 0.5), GAUSSIAN)
LEAF = st.one_of(GAUSSIAN, SAMPLED, st.floats(2.0, 40.0).map(dp.LaplaceDpEvent))
REPEATED = st.builds(dp.SelfComposedDpEvent, LEAF, st.integers(1, 20))
JOINT = st.lists(st.one_of(LEAF, REPEATED), min_size=1, max_size=3).map(dp.ComposedDpEvent)


@settings(derandomize=True, deadline=None, max_examples=12)
@given(st.one_of(LEAF, REPEATED, JOINT))
def test_events_cost_what_dp_accounting_says(event):
    accountant = PLDAccountant().compose(event)
    ours = from_dp_event(event)
    want = np.array([accountant.get_delta(e) for e in EPSILON])
    np.testing.assert_allclose(ours.delta(EPSILON), want, rtol=5e-3, atol=1e-9)
    assert ours.epsilon(1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3, abs=1e-3)


def test_every_covered_event_has_its_mechanism():
    assert from_dp_event(dp.GaussianDpEvent(2.0)) == GaussianMechanism(2.0)
    assert from_dp_event(dp.LaplaceDpEvent(2.0)) == SummedLaplace(2.0)
    sampled = dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(2.0))
    assert from_dp_event(sampled) == PoissonGaussian(2.0, rate=0.1)
    assert from_dp_event(dp.SelfComposedDpEvent(sampled, 7)) == compose(
        PoissonGaussian(2.0, rate=0.1), 7
    )
    assert from_dp_event(dp.NoOpDpEvent()).delta(0.0) == 0
    joint = dp.ComposedDpEvent([dp.NoOpDpEvent(), dp.GaussianDpEvent(2.0)])
    assert from_dp_event(joint).delta(1.0) == pytest.approx(GaussianMechanism(2.0).delta(1.0))


@pytest.mark.parametrize(
    ("event", "match"),
    [
        (dp.NonPrivateDpEvent(), "event must be .*NonPrivateDpEvent"),
        (dp.UnsupportedDpEvent(), "event must be .*UnsupportedDpEvent"),
        (dp.ZCDpEvent(0.1), "event must be .*ZCDpEvent"),
        (dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(1.0)), "only Gaussian noise"),
        (
            dp.PoissonSampledDpEvent(0.1, dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0))),
            "for clients and their records use Federation",
        ),
        (dp.SampledWithoutReplacementDpEvent(10, 2, dp.GaussianDpEvent(1.0)), "event must be"),
        (dp.ComposedDpEvent([dp.GaussianDpEvent(1.0), dp.NonPrivateDpEvent()]), "NonPrivate"),
        (dp.ComposedDpEvent([]), "at least one"),
        (dp.GaussianDpEvent(0.0), "sigma must be positive"),
        (dp.PoissonSampledDpEvent(1.5, dp.GaussianDpEvent(1.0)), "rate must be in"),
        (dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 0), "count must be an integer >= 1"),
        ("gaussian", "event must be .*got 'gaussian'"),
    ],
)
def test_events_without_a_mechanism_are_named(event, match):
    with pytest.raises(ValueError, match=match):
        from_dp_event(event)


# ---- Opacus ------------------------------------------------------------------------------------


class StandIn(abc.ABC):
    """The abstract methods of Opacus 1.6's IAccountant."""

    @abc.abstractmethod
    def __init__(self): ...

    @abc.abstractmethod
    def step(self, *, noise_multiplier, sample_rate): ...

    @abc.abstractmethod
    def get_epsilon(self, delta, *args, **kwargs): ...

    @abc.abstractmethod
    def __len__(self): ...

    @classmethod
    @abc.abstractmethod
    def mechanism(cls): ...


OPACUS = importlib.util.find_spec("opacus") is not None
"""Opacus is no dependency; its own classes are tried where it is installed."""


def interfaces():
    if not OPACUS:
        return [StandIn]
    from opacus.accountants.accountant import IAccountant

    return [StandIn, IAccountant]


@pytest.mark.parametrize("interface", interfaces())
def test_the_accountant_has_all_that_opacus_asks_for(interface):
    public = {name for name in vars(interface) if not name.startswith("_")}
    assert interface.__abstractmethods__ | public <= set(dir(OpacusAccountant))

    class Accountant(OpacusAccountant, interface):
        """Fails to be made while an abstract method is missing."""

    accountant = Accountant()
    for _ in range(3):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    accountant.step(noise_multiplier=2.0, sample_rate=0.02)
    assert accountant.history == [(1.0, 0.01, 3), (2.0, 0.02, 1)]
    assert len(accountant) == 4
    want = compose([compose(PoissonGaussian(1.0, rate=0.01), 3), PoissonGaussian(2.0, rate=0.02)])
    assert accountant.get_epsilon(1e-5) == want.epsilon(1e-5)
    assert accountant.get_epsilon(delta=1e-5, method="lower") <= accountant.get_epsilon(1e-5)


class Optimizer:
    """What the hook reads of an optimiser of Opacus."""

    noise_multiplier, accumulated_iterations = 1.5, 2


def test_the_hook_counts_steps_and_checkpoints_keep_them():
    accountant = OpacusAccountant()
    assert accountant.get_epsilon(1e-5) == 0.0 and len(accountant) == 0
    hook = accountant.get_optimizer_hook_fn(0.01)
    hook(Optimizer())
    hook(Optimizer())
    assert accountant.history == [(1.5, 0.02, 2)]
    into = {"other": 1}
    saved = accountant.state_dict(into)
    assert saved is into and saved["mechanism"] == "repro" and saved["other"] == 1
    again = OpacusAccountant()
    again.load_state_dict(saved)
    again.step(noise_multiplier=1.5, sample_rate=0.02)
    assert again.history == [(1.5, 0.02, 3)] and accountant.history == [(1.5, 0.02, 2)]
    for bad in ({}, None, {"history": []}, saved | {"mechanism": "rdp"}):
        with pytest.raises(ValueError, match="state_dict must be of an accountant 'repro'"):
            again.load_state_dict(bad)
    with pytest.raises(ValueError, match=r"history must hold noise multiplier.*got \[\(1, 2\)\]"):
        again.load_state_dict(saved | {"history": [[1, 2]]})
    assert len(again) == 3  # a refused history leaves the accountant as it was


@pytest.mark.parametrize(("delta", "method"), [(1.0, "upper"), (1e-5, "best")])
def test_before_the_first_step_arguments_are_checked_as_after_it(delta, method):
    with pytest.raises(ValueError, match="must be"):
        OpacusAccountant().get_epsilon(delta, method=method)


def test_the_steps_of_a_federation_are_its_rounds():
    def step(noise_multiplier, sample_rate):
        return RandomParticipation(noise_multiplier, p=0.3, q=sample_rate, samples_per_client=2)

    accountant = OpacusAccountant(step)
    for _ in range(4):
        accountant.step(noise_multiplier=2.0, sample_rate=0.2)
    assert accountant.run() == compose(step(2.0, 0.2), 4)


@pytest.mark.parametrize(
    ("sigma", "rate", "match"),
    [(0.0, 0.1, "noise_multiplier must be positive"), (1.0, 1.5, r"rate must be in \[0, 1\]")],
)
def test_steps_without_a_guarantee_are_named(sigma, rate, match):
    accountant = OpacusAccountant()
    accountant.step(noise_multiplier=sigma, sample_rate=rate)
    with pytest.raises(ValueError, match=match):
        accountant.get_epsilon(1e-5)


@pytest.mark.skipif(
    not OPACUS, reason="Opacus is not installed; the stand-in above covers the rest"
)
def test_opacus_trains_with_the_accountant_and_agrees_with_its_own():
    import torch
    from opacus import PrivacyEngine
    from opacus.accountants import PRVAccountant
    from torch.utils.data import DataLoader, TensorDataset

    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(40, 3, generator=generator), torch.randn(40, 1))
    model = torch.nn.Linear(3, 1)
    engine = PrivacyEngine()
    engine.accountant = OpacusAccountant()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=10),
        noise_multiplier=1.1,
        max_grad_norm=1.0,
    )
    for inputs, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    assert len(engine.accountant) > 0
    theirs = PRVAccountant()
    theirs.history = engine.accountant.history
    assert engine.get_epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), abs=0.02)
    assert engine.get_epsilon(1e-5) <= theirs.get_epsilon(1e-5)
