"""What a run needs of a cluster, and the plan of a profile."""

import sys

import pytest

import workbooks
from reproduce import catalogue, needs, plan, records
from reproduce.records import Task

MODULE = """
def run(config, seed):
    return {"value": seed}

def wanted(parameters):
    return [("toy/run", {"x": x, "device": d}, s) for x, d in ((1, "cpu"), (2, "auto")) for s in (0, 1)]
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    workbooks.build(tmp_path, monkeypatch)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/needed.py").write_text(MODULE)
    file = workbooks.catalogue_file()
    text = file.read_text().replace("data = []", 'data = []\nruns = "needed:wanted"', 1)
    file.write_text(text + '[tasks]\nrun = "needed:run"\n')
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.delitem(sys.modules, "needed", raising=False)
    needs._measured.cache_clear()
    yield tmp_path
    needs._measured.cache_clear()


def run(x, device="cpu", seed=0):
    return Task("toy/run", {"x": x, "device": device}, seed)


def test_a_run_needs_the_most_that_its_configuration_took_with_any_seed(toys):
    for seed, seconds, mib in ((0, 3.0, 200.0), (1, 7.0, 100.0)):
        records.store(run(1, seed=seed), {"value": 1}, {"seconds": seconds, "peak_mib": mib})
    assert needs.of(run(1, seed=9)) == needs.Need(7.0, 200.0, False, "measured")
    other = needs.of(run(2, "auto"))
    assert (other.source, other.seconds, other.gpu) == ("not measured", needs.UNKNOWN_SECONDS, True)


def test_the_plan_counts_what_is_to_do_and_guesses_nothing(toys):
    records.store(run(1), {"value": 1}, {"seconds": 30.0, "peak_mib": 200.0})
    told = plan.text([catalogue.figure("toy/fig1")], "desk").splitlines()
    assert told[1].split()[:4] == ["toy/fig1", "4", "3", "yes"]
    assert "30 s to 30 s" in told[1] and "200 MiB" in told[1] and "1 of 3 measured" in told[1]
    assert told[2] == "to do: 30 s of measured computing, and 2 runs that nobody has measured"


def test_measured_costs_of_the_quick_runs_are_stored_when_all_are_there(toys, capsys):
    assert needs.main() == 1 and "4 runs were not made" in capsys.readouterr().err
    for x, device in ((1, "cpu"), (2, "auto")):
        for seed in (0, 1):
            cost = {"seconds": float(x), "peak_mib": 10.0 * seed}
            records.store(run(x, device, seed), {"value": 1}, cost)
    (toys / "reproduce").mkdir(exist_ok=True)
    assert needs.main() == 0
    for path in (toys / "data/runs/toy").rglob("*.json"):
        path.unlink()
    needs._measured.cache_clear()
    assert needs.of(run(2, "auto")) == needs.Need(2.0, 10.0, True, "measured")
