"""The audit of MS-PAFL: what the server sees, its scores, and that errors are found."""

import numpy as np
import pytest

from repro.federated.mspafl import algorithm
from reproduce.papers.audit_cases import conclude
from reproduce.papers.auditing import EDGES, Roc
from reproduce.papers.mspafl import audit, audit_plan

BASE = {"p": 0.5, "records": 5, "batch": 1, "sigma": 2.0, "rounds": 6, "trainings": 4000}
SHARED = BASE | {"canary": "shared"}
PRIVATE = BASE | {"canary": "private", "records": 21, "batch": 8, "rounds": 20, "trainings": 400}


def seen(config, monkeypatch):
    """Uploads and check-ins of all trainings, (rounds, trainings); odd ones have the canary."""
    kept = []
    for name in ("shared", "private"):
        monkeypatch.setitem(audit._SCORES, name, lambda u, h, c: kept.append((u, h)) or u[0])
    audit.audit_run(config, 0)
    return tuple(np.concatenate(rows, axis=1) for rows in zip(*kept, strict=True))


def test_all_shared_without_noise_an_upload_is_the_clip_in_the_records_direction(monkeypatch):
    uploads, present = seen(SHARED | {"sigma": 0.0, "rounds": 1}, monkeypatch)
    here = present.astype(bool)
    assert here.mean() == pytest.approx(0.5, abs=0.03)
    np.testing.assert_allclose(uploads[:, 0::2][here[:, 0::2]], -1.0)
    moved = uploads[:, 1::2][here[:, 1::2]]
    assert set(np.round(moved, 9)) == {-1.0, 1.0}
    assert np.mean(moved > 0) == pytest.approx(0.2, abs=0.03)


def test_a_private_half_remembers_the_record(monkeypatch):
    """In the last rounds nearly all uploads are 2 C apart, though a round draws 8 of 21 records."""
    uploads, present = seen(PRIVATE | {"sigma": 0.05}, monkeypatch)
    last = uploads[-5:], present[-5:].astype(bool)
    without, canary = (last[0][:, k::2][last[1][:, k::2]] for k in (0, 1))
    assert np.mean(without < -0.5) > 0.9 and np.mean(canary > 0.5) > 0.9


def test_the_score_is_a_likelihood_ratio():
    config = SHARED | {"sigma": 4.0, "rounds": 3, "trainings": 20_000}
    result = audit.audit_run(config, 0)
    middle = np.mean([EDGES[:-1], EDGES[1:]], axis=0)
    for name, sign in (("without", 1), ("with", -1)):
        weights = np.array(result[name].split(), dtype=float) / 10_000
        ratio = np.exp(sign * middle)
        mean = weights @ ratio
        error = np.sqrt(weights @ ratio**2 - mean**2) / 100
        assert mean == pytest.approx(1, abs=5 * error + 0.005)


def test_an_error_in_the_code_is_found(monkeypatch):
    """A clip of 2 in the place of 1 lifts the implied epsilon above the bound."""
    (case,) = (one for one in audit_plan.cases() if one.name == "all shared, ε = 4")

    def implied():
        runs = [audit.audit_run({**case.config, "trainings": 8000}, seed) for seed in (0, 1)]
        return conclude([case], runs, 1e-5)[case.name].audit

    right = implied()
    assert right.implied < right.upper
    clip = algorithm.clip_rows
    monkeypatch.setattr(algorithm, "clip_rows", lambda vectors, c: clip(vectors, 2 * c))
    wrong = implied()
    assert wrong.implied > wrong.upper


def test_settings_are_within_their_nominal_epsilon():
    for case in audit_plan.cases():
        if "ε" in case.name:
            nominal = float(case.name.split("=")[1])
            assert 0.95 * nominal < (case.bound or case.family)(case.sigma).epsilon(1e-5) <= nominal


@pytest.mark.parametrize("sigma", [2.035, 4.78])
def test_the_curve_of_the_canary_is_below_the_bound_of_replacing(sigma):
    canary, replaced = (
        bound(sigma).epsilon(1e-5) for bound in (audit_plan._nothing_kept, audit_plan._replaced)
    )
    assert 0.95 * replaced < canary <= replaced


def test_the_bound_of_a_run_falls_with_the_noise():
    epsilons = [audit_plan._kept(s).epsilon(1e-5) for s in (10.0, 20.0, 40.0)]
    assert epsilons == sorted(epsilons, reverse=True)
    assert audit_plan._kept(20.0).delta(epsilons[1]) <= 1e-5


def test_half_of_the_trainings_have_the_canary():
    roc = Roc.of([audit.audit_run(SHARED | {"trainings": 300}, 1)])
    assert roc.trainings == (150, 150)
    with pytest.raises(ValueError, match="canary must be one of 'shared', 'private'"):
        audit.audit_run(SHARED | {"canary": "open"}, 0)
