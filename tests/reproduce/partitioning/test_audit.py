"""The audit of partitioned training: what the attacker sees, its scores, and that errors are found."""

from itertools import combinations

import numpy as np
import pytest

from repro.federated.partitioning import algorithms
from reproduce.papers.audit_cases import conclude
from reproduce.papers.partitioning import audit, audit_plan

BASE = {
    "sampling": "poisson",
    "rate": 0.5,
    "participations": 1,
    "submodels": 3,
    "sigma": 1.0,
    "iterations": 6,
    "trainings": 2000,
    "stacked": 200,
}
PRESENT = np.arange(BASE["stacked"]) % 2 == 0


def test_without_noise_a_record_moves_one_submodel_by_the_clip():
    found = audit._views(BASE | {"sigma": 0.0}, PRESENT, 0)
    assert not found[:, 1::2].any()
    total = found[:, ::2].sum(axis=2)
    assert set(np.unique(np.round(total, 3))) == {0.0, 1.0}
    assert total.mean() == pytest.approx(0.5, abs=0.08)
    share = found[:, ::2].sum(axis=(0, 1)) / total.sum()
    np.testing.assert_allclose(share, 1 / 3, atol=0.09)


@pytest.mark.parametrize("participations", [1, 2])
def test_balanced_records_take_part_as_often_as_they_should(participations):
    config = BASE | {"sampling": "balanced", "participations": participations, "sigma": 0.0}
    found = audit._views(config, PRESENT, 1)[:, ::2].sum(axis=(0, 2))
    np.testing.assert_allclose(found, participations, atol=1e-3)


def test_the_balanced_score_is_the_mean_over_all_choices():
    rng = np.random.default_rng(0)
    views = rng.normal(size=(5, 7, 1))
    for chosen in (1, 2):
        config = {"sampling": "balanced", "participations": chosen, "iterations": 5, "sigma": 1.3}
        ratio = np.exp((2 * views[..., 0] - 1) / (2 * 1.3**2))
        terms = [np.prod(ratio[list(some)], axis=0) for some in combinations(range(5), chosen)]
        np.testing.assert_allclose(audit._score(views, config), np.log(np.mean(terms, axis=0)))


@pytest.mark.parametrize("sampling", ["poisson", "balanced"])
def test_scores_are_likelihood_ratios(sampling):
    config = BASE | {"sampling": sampling, "sigma": 1.5}
    found = np.concatenate(
        [audit._score(audit._views(config, PRESENT, s), config) for s in range(40)]
    )
    for values, sign in ((found[1::2], 1), (found[0::2], -1)):
        ratio = np.exp(sign * values)
        assert ratio.mean() == pytest.approx(1, abs=5 * ratio.std() / np.sqrt(ratio.size))


@pytest.mark.parametrize("name", ["3 submodels, ε = 4", "balanced, ε = 4"])
def test_an_error_in_the_code_is_found(monkeypatch, name):
    (case,) = (one for one in audit_plan.cases() if one.name == name)

    def implied():
        config = {**case.config, "trainings": 10_000}
        runs = [audit.audit_run(config, seed) for seed in (0, 1)]
        return conclude([case], runs, 1e-5)[name].audit

    right = implied()
    assert 0.5 * right.upper < right.implied < right.upper
    gaussian = algorithms.gaussian
    monkeypatch.setattr(algorithms, "gaussian", lambda like, s, g: gaussian(like, s / 2, g))
    wrong = implied()
    assert wrong.implied > wrong.upper


def test_settings_are_within_their_nominal_epsilon():
    for case in audit_plan.cases():
        if "ε" in case.name:
            nominal = float(case.name.split("=")[1])
            assert 0.99 * nominal < case.family(case.sigma).epsilon(1e-5) <= nominal


def test_a_wrong_configuration_is_refused():
    with pytest.raises(ValueError, match="sampling must be one of 'poisson', 'balanced'"):
        audit.audit_run(BASE | {"sampling": "shuffled"}, 0)
    with pytest.raises(ValueError, match=r"participations must be an integer >= 1, got 0"):
        audit.audit_run(BASE | {"participations": 0}, 0)
    with pytest.raises(ValueError, match=r"participations must be an integer in \[1, 6\], got 7"):
        audit.audit_run(BASE | {"sampling": "balanced", "participations": 7}, 0)
