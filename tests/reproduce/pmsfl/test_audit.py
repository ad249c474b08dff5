"""The audit of PM-SFL and SplitFed-DP: what the attacker sees, its scores, and that errors are found."""

import numpy as np
import pytest

from reproduce.papers.audit_cases import conclude
from reproduce.papers.pmsfl import audit, audit_plan

COMMON = {key: value for key, value in audit_plan._COMMON.items() if key != "stacked"}
PRESENT = np.arange(2000) % 2 == 0


def scores(config, seed=0):
    return audit._SCORES[config["canary"]](audit._round(config, PRESENT, seed), config)


@pytest.mark.parametrize("canary", ["masks", "smashed"])
def test_scores_are_log_likelihood_ratios(canary):
    config = COMMON | {"canary": canary, "coordinates": 8, "iterations": 2, "rate": 0.1}
    found = scores(config)
    for own, sign in ((PRESENT, -1), (~PRESENT, 1)):
        ratio = np.exp(sign * found[own])
        assert ratio.std() > 0.05
        assert ratio.mean() == pytest.approx(1, abs=4 * ratio.std() / np.sqrt(ratio.size))


def test_a_mask_tells_the_record_only_where_scores_move():
    config = COMMON | {"canary": "masks", "rate": 0.001}
    assert np.corrcoef(scores(config | {"rate": 1e-9}), PRESENT)[0, 1] == pytest.approx(0, abs=0.1)
    found = np.corrcoef(scores(config | {"rate": 0.1}), PRESENT)[0, 1]
    assert found == pytest.approx(0.85, abs=0.02)  # means 3.2 deviations apart


def test_smashed_data_without_noise_tell_the_record():
    found = scores(COMMON | {"canary": "unnoised", "iterations": 1})
    np.testing.assert_array_equal(found > 0, PRESENT)


@pytest.mark.parametrize("name", ["masks, ε = 4", "smashed, ε = 4"])
def test_an_error_in_the_code_is_found(monkeypatch, name):
    """Scores that move twice as far, or half of the Laplace noise, lift the implied epsilon above the bound."""
    (case,) = (one for one in audit_plan.cases() if one.name == name)

    def implied(config):
        runs = [audit.audit_run({**config, "trainings": 20_000}, seed) for seed in (0, 1)]
        return conclude([case], runs, 1e-5)[name].audit

    right = implied(case.config)
    assert 0.5 * right.upper < right.implied < right.upper
    key = {"masks": "rate", "smashed": "smashed_epsilon"}[case.config["canary"]]
    wrong = implied({**case.config, key: 2 * case.config[key]})
    assert wrong.implied > wrong.upper


def test_settings_are_within_their_nominal_epsilon():
    for case in audit_plan.cases():
        if "ε" in case.name:
            nominal = float(case.name.split("=")[1])
            assert 0.95 * nominal < case.family(case.sigma).epsilon(1e-5) <= nominal


def test_one_round_with_many_canaries_counts_both_groups():
    (single, *_) = audit_plan.singles()
    result = audit.one_run({**single.config, "canaries": 300}, 0)
    assert result["with"]["number"] + result["without"]["number"] == 300
    assert result["with"]["mean"] > result["without"]["mean"]


def test_a_wrong_configuration_is_refused():
    with pytest.raises(ValueError, match="canary must be one of 'masks', 'unnoised', 'smashed'"):
        audit.audit_run({**audit_plan.cases()[0].config, "canary": "x", "trainings": 2000}, 0)
