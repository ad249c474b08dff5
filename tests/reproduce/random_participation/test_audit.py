"""The audit of random participation: what a stack is, what the attacker sees, and that errors are found."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from repro.federated import random_participation as algorithm
from reproduce.papers.audit_cases import Case, conclude
from reproduce.papers.auditing import Roc
from reproduce.papers.random_participation import audit, audit_plan

BASE = {
    "canary": "alone",
    "p": 0.5,
    "q": 0.5,
    "others": 0,
    "sigma": 1.0,
    "momentum": 0.9,
    "iterations": 4,
    "average": "expected",
    "trainings": 4000,
    "stacked": 200,
    "width": 0,
}


def views(seed=0, **changes):
    """Views of one stack, whose even trainings have the canary: (iterations, stacked, 2)."""
    config = BASE | {"stacked": 6} | changes
    present = np.arange(config["stacked"]) % 2 == 0
    return np.stack(list(audit._views(config, present, seed)))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_without_noise_the_views_are_the_clipped_gradients(momentum):
    found = views(sigma=0.0, p=1.0, q=1.0, others=3, momentum=momentum)
    expected = np.tile([[1.0, 3.0], [0.0, 3.0]], (3, 1))
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), atol=2e-4)


def test_without_noise_coins_are_those_of_clients_and_records():
    found = views(sigma=0.0, others=40, stacked=100, iterations=30)
    assert not found[:, 1::2, 0].any()
    canary, crowd = found[:, ::2, 0], found[:, :, 1]
    assert set(np.unique(np.round(canary, 3))) == {0.0, 1.0}
    assert np.mean(np.round(crowd, 3) > 0) == pytest.approx(0.5, abs=0.03)
    assert (crowd[:, ::2][canary > 0.5] > 0.5).all()  # a record needs its client
    assert canary.mean() == pytest.approx(0.25, abs=0.04)


def test_a_stacked_training_has_the_law_of_a_single_one():
    """The same scores, whether 200 trainings or one is made in a call (Kolmogorov and Smirnov)."""
    many = [views(seed=s, stacked=200, others=1) for s in range(10)]
    single = [views(seed=1000 + s, stacked=2, others=1) for s in range(400)]
    for held in (0, 1):
        stacked, alone = (
            np.concatenate([audit._crowd(v, BASE | {"others": 1})[held::2] for v in rows])
            for rows in (many, single)
        )
        assert ks_2samp(stacked, alone).pvalue > 1e-3


def test_trainings_of_a_stack_are_independent():
    found = np.stack([views(seed=s, stacked=20)[..., 0].sum(axis=0) for s in range(400)])
    correlation = np.corrcoef(found.T)[np.triu_indices(20, 1)]
    assert abs(correlation.mean()) < 0.01 and np.abs(correlation).max() < 0.25


@pytest.mark.parametrize(("score", "others"), [(audit._alone, 0), (audit._crowd, 5)])
def test_scores_are_likelihood_ratios(score, others):
    """Without the canary the mean of e^score is 1, with it that of e^-score."""
    config = BASE | {"others": others, "sigma": 2.0}
    found = np.concatenate(
        [score(views(seed=s, stacked=200, others=others, sigma=2.0), config) for s in range(40)]
    )
    for values, sign in ((found[1::2], 1), (found[0::2], -1)):
        ratio = np.exp(sign * values)
        assert ratio.mean() == pytest.approx(1, abs=5 * ratio.std() / np.sqrt(ratio.size))


def outcome(config, trainings=20_000):
    """One case against its own bound, from fresh trainings."""
    case = Case("one", config, config["sigma"], audit_plan._alone)
    runs = [audit.audit_run(config | {"trainings": trainings}, seed) for seed in (0, 1)]
    return conclude([case], runs, 1e-5)["one"].audit


def test_an_error_in_the_code_is_found(monkeypatch):
    """Half of the noise, as a wrong scale would add it, lifts the implied epsilon above the bound."""
    (case,) = (one for one in audit_plan.cases() if one.name == "alone, ε = 2")
    right = outcome(case.config)
    assert 0.5 * right.upper < right.implied < right.upper
    gaussian = algorithm.gaussian
    monkeypatch.setattr(algorithm, "gaussian", lambda like, s, g: gaussian(like, s / 2, g))
    wrong = outcome(case.config)
    assert wrong.implied > wrong.upper


def test_a_realised_divisor_shows_the_canary():
    config = BASE | {"canary": "crowd", "others": 1, "sigma": 5.0, "stacked": 1, "width": 100}
    config |= {"average": "realised", "trainings": 200}
    roc = Roc.of([audit.audit_run(config, 0)])
    assert (roc.true[roc.false == 0] > 20).any()
    expected = 1 - (1 - 0.5 * 0.25) ** 4  # a batch of two in one of four iterations
    best = np.max(roc.true[roc.false == 0]) / roc.trainings[1]
    assert best == pytest.approx(expected, abs=0.15)


def test_settings_are_calibrated_and_within_their_nominal_epsilon():
    for case in audit_plan.cases():
        if "ε" in case.name:
            nominal = float(case.name.split("=")[1])
            assert 0.99 * nominal < case.family(case.sigma).epsilon(1e-5) <= nominal


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"canary": "cloud"}, "canary must be one of 'alone', 'crowd'"),
        ({"average": "realised"}, "stacked must be 1 where the divisor is realised"),
        ({"trainings": 10}, "trainings must be an integer >= 400"),
    ],
)
def test_a_wrong_configuration_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        audit.audit_run(BASE | changes, 0)
