"""What the rows of tables 1 and 2 and section 4.2 spend, and what the footer says."""

import numpy as np
import pytest

from partitioning_parameters import SAMPLING, TABLE
from reproduce.papers.partitioning import conditions
from reproduce.papers.partitioning.compare import is_full, reduction, sampling_spent, spent
from reproduce.papers.partitioning.runs import sampling_curves, table_curves


def test_what_rows_spend():
    """Known submodels cost as much as no splitting; hiding them helps; less noise costs more."""
    found = spent({**TABLE, "iterations": 20, "participations": 2}, table_curves(TABLE))
    assert set(found) == {f"{m}_{d}" for m in ("amplification", "baseline") for d in (3, 8)} | {
        "relaxation"
    }
    for row in found.values():
        assert 0 < row["lower"] <= row["upper"] <= row["known"] * (1 + 1e-9)
    assert found["relaxation"]["upper"] == pytest.approx(found["relaxation"]["known"])
    assert found["baseline_3"]["known"] == pytest.approx(found["relaxation"]["known"])
    assert found["baseline_8"]["upper"] < found["baseline_3"]["upper"]
    assert found["amplification_8"]["known"] > found["baseline_8"]["known"]
    assert found["amplification_3"]["upper"] > found["baseline_3"]["upper"]


def test_what_sampling_spends():
    parameters = {**SAMPLING, "iterations": 20, "participations": 2}
    equal = {
        name: {**curve, "sigma": 0.6}
        for name, curve in sampling_curves(parameters).items()
        if name in ("tuned_poisson", "tuned_balanced")
    }
    found = sampling_spent(parameters, equal)
    assert 0 < found["tuned_balanced"]["upper"] < found["tuned_poisson"]["upper"]
    # taking part in every iteration hides nothing: both are the plain Gaussian mechanism
    always = {name: {**curve, "participations": 20} for name, curve in equal.items()}
    found = sampling_spent(parameters, always)
    one, other = found["tuned_balanced"]["upper"], found["tuned_poisson"]["upper"]
    assert one == pytest.approx(other, rel=2e-3)


def test_the_footer_says_what_was_reduced():
    result = {"parameters": 27_466, "data": {"subset": ""}}
    text = reduction(TABLE, [result, result])
    assert "8x8 digits" in text and "27,466 parameters" in text and "60 private" in text
    subset = {"parameters": 5, "data": {"subset": "real images, subset"}}
    assert "real images, subset" in reduction({**TABLE, "data": "cifar_subset"}, [subset])
    public = reduction({**TABLE, "data": "cifar_public", "records": 0}, [subset])
    assert "2,500 private records" in public and "one pretrained model for all seeds" in public
    full = {**TABLE, "data": "cifar", "model": "resnet101"}
    assert is_full(full) and reduction(full, [result]) == ""
    assert not is_full({**full, "model": "small_cifar"})


def test_runs_in_which_nothing_gains_on_the_start_meet_no_condition_of_gain():
    runs = np.full((5, 4), 0.6) + 0.001 * np.arange(5)[:, None]
    better, worse = runs.copy(), runs.copy()
    better[:, 1:] += 0.05 + 0.001 * np.arange(5)[:, None]
    worse[:, 1:] -= 0.05
    result = {"parameters": 5, "majority": 0.1, "data": {"source": "some images"}}

    def gains(clipped):
        accuracy = {"relaxation": worse, "clipped_1": clipped}
        last = {name: curve[:, -1] for name, curve in accuracy.items()}
        given = ({"data": "cifar_subset"}, [result], accuracy, last, {}, {"relaxation": 80.0})
        return conditions.look(*given)["gains"]

    assert gains(better).holds and "clipped 1" in gains(better).evidence
    assert not gains(worse).holds and not gains(runs).holds


def test_a_half_of_section_42_is_judged_by_its_own_runs():
    flat = np.full((5, 5), 0.6) + 0.001 * np.arange(5)[:, None]
    steep = flat + 0.05 * np.arange(5)
    names = [f"{part}_{kind}" for part in ("scratch", "tuned") for kind in ("clipped", "poisson")]
    accuracy = {name: steep if name.startswith("scratch") else flat for name in names}
    last = {name: runs[:, -1] for name, runs in accuracy.items()}
    last["tuned_clipped"] = last["tuned_clipped"] + 0.05 + 0.001 * np.arange(5)
    printed = {name: 70.0 for name in names if name.endswith("poisson")}
    bound = {name: (name.replace("poisson", "clipped"), name) for name in printed}
    result = {"parameters": 5, "majority": 0.1, "data": {"source": "some images"}}
    met = conditions.look({"data": "cifar_subset"}, [result], accuracy, last, bound, printed)
    assert met["binds"].holds and not met["binds-scratch"].holds
    assert met["converged"].holds and not met["converged-scratch"].holds
    assert "scratch" not in met["binds"].evidence + met["converged"].evidence
