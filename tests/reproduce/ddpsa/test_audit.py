"""The audit of DDP-SA: what the parameter server sees, its scores, and that errors are found."""

import numpy as np
import pytest

from repro.federated.ddpsa import algorithm
from reproduce.papers.audit_cases import conclude
from reproduce.papers.auditing import EDGES, Roc
from reproduce.papers.ddpsa import audit, audit_plan

BASE = {"clients": 2, "records": 1, "epsilon": 0.5, "rounds": 5, "trainings": 2000}


def totals(canary, present, *, seeds=400, **changes):
    """What the attacker sees of some runs: (rounds, runs, 3)."""
    config = BASE | {"canary": canary} | changes
    return audit._totals(config, present, np.arange(seeds))


@pytest.mark.parametrize(
    ("canary", "records", "expected"),
    [("server", 1, (0, 1)), ("colluding", 1, (0, 1)), ("client", 4, (-4, 4))],
)
def test_with_little_noise_the_sums_are_the_clipped_gradients(canary, records, expected):
    found = [
        totals(canary, present, records=records, epsilon=1e6, seeds=4)[..., 0]
        for present in (False, True)
    ]
    for values, mean in zip(found, expected, strict=True):
        np.testing.assert_allclose(values * records, mean, atol=1e-3)


def test_a_colluding_client_faces_one_noise_and_the_server_two():
    for canary, clients in (("server", 2), ("colluding", 1)):
        noise = totals(canary, False)[..., 0]
        assert noise.var() == pytest.approx(8 * clients, rel=0.25)


def test_one_record_more_halves_the_noise():
    spread = [np.abs(totals("count", present, clients=1)).mean() for present in (False, True)]
    assert spread[0] / spread[1] == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("canary", ["server", "colluding"])
def test_scores_are_likelihood_ratios(canary):
    result = audit.audit_run(BASE | {"canary": canary, "trainings": 8000}, 0)
    middle = (EDGES[:-1] + EDGES[1:]) / 2
    for name, sign in (("without", 1), ("with", -1)):
        weights = np.array(result[name].split(), dtype=float) / 4000
        ratio = np.exp(sign * middle)
        mean = weights @ ratio
        error = np.sqrt(weights @ ratio**2 - mean**2) / np.sqrt(4000)
        assert mean == pytest.approx(1, abs=5 * error + 0.005)


def test_an_error_in_the_code_is_found(monkeypatch):
    """Records clipped to twice Delta lift the implied epsilon above the bound."""
    (case,) = (one for one in audit_plan.cases() if one.name == "colluding, ε = 4")

    def implied():
        runs = [audit.audit_run({**case.config, "trainings": 6000}, seed) for seed in (0, 1)]
        return conclude([case], runs, 1e-5)[case.name].audit

    right = implied()
    assert 0.5 * right.upper < right.implied < right.upper
    sums = algorithm.clipped_sums
    monkeypatch.setattr(
        algorithm, "clipped_sums", lambda f, m, clip, k, part: sums(f, m, 2 * clip, k, part)
    )
    wrong = implied()
    assert wrong.implied > wrong.upper


def test_settings_are_within_their_nominal_epsilon():
    for case in audit_plan.cases():
        if "ε" in case.name:
            nominal = float(case.name.split("=")[1])
            assert 0.99 * nominal < case.family(case.sigma).epsilon(1e-5) <= nominal


def test_half_of_the_trainings_have_the_canary():
    assert Roc.of([audit.audit_run(BASE | {"canary": "count", "clients": 1}, 1)]).trainings == (
        1000,
        1000,
    )
    with pytest.raises(ValueError, match="canary must be one of"):
        audit.audit_run(BASE | {"canary": "open"}, 0)
