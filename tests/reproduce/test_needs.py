"""What a run needs of a cluster, and the plan of a profile."""

import sys

import pytest

import workbooks
from reproduce import arrays, catalogue, needs, plan, records
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
    forget()
    yield tmp_path
    forget()


def forget():
    for known in (needs._measured, needs._smaller, needs._below):
        known.cache_clear()


def run(x, device="cpu", seed=0):
    return Task("toy/run", {"x": x, "device": device}, seed)


def works(toys, least, most, mib="0.0"):
    """Have the paper say what its runs take."""
    text = "from reproduce.work import Work\ndef takes(config):\n    x = config['x']\n"
    (toys / "modules/amounts.py").write_text(text + f"    return Work({least}, {most}, {mib})\n")
    with open(workbooks.catalogue_file(), "a") as stream:
        stream.write('[work]\nrun = "amounts:takes"\n')
    sys.modules.pop("amounts", None)
    forget()


def measured(x, seconds, mib, seed=0):
    records.store(run(x, seed=seed), {"value": 1}, {"seconds": seconds, "peak_mib": mib})


def test_a_run_needs_the_most_that_its_configuration_took_with_any_seed(toys):
    for seed, seconds, mib in ((0, 3.0, 200.0), (1, 7.0, 100.0)):
        measured(1, seconds, mib, seed)
    assert needs.of(run(1, seed=9)) == needs.Need(7.0, 7.0, 200.0, False, "measured")
    other = needs.of(run(2, "auto"))
    assert (other.source, other.seconds, other.gpu) == ("not measured", needs.UNKNOWN_SECONDS, True)


def test_seconds_of_waiting_do_not_count_where_those_of_computing_are_known(toys):
    for seed, origin in enumerate(
        (
            {"seconds": 90.0},
            {"seconds": 60.0, "cpu_seconds": 4.0, "threads": 1},
            {"seconds": 70.0, "cpu_seconds": 5.0, "threads": 1},
            {"seconds": 80.0, "cpu_seconds": 700.0, "threads": 16},  # beside a GPU, say
        )
    ):
        records.store(run(1, seed=seed), {"value": 1}, origin)
    forget()
    assert needs.of(run(1)).seconds == 5.0
    for path in (toys / "data/runs/toy").rglob("*.json"):
        path.write_text(path.read_text().replace('"threads": 1\n', '"threads": 2\n'))
    forget()
    assert needs.of(run(1)).seconds == 90.0


def test_runs_on_a_gpu_tell_nothing_of_a_core(toys):
    origin = {"seconds": 0.1, "cpu_seconds": 0.1, "threads": 1}
    records.store(run(1), {"value": 1}, {**origin, "gpu": "a fast one"})
    forget()
    assert needs.of(run(1)).source == "not measured"
    records.store(run(1, seed=1), {"value": 1}, origin)
    forget()
    assert (needs.of(run(1)).source, needs.of(run(1)).seconds) == ("measured", 0.1)


def test_a_run_is_scaled_from_smaller_ones_of_its_kind(toys):
    """One second an operation, 100 MiB for the process, and 2 MiB for each x; half and twice for the error."""
    works(toys, "x", "x", "2.0 * x")
    measured(1, 1.0, 102.0)
    need = needs.of(run(50, "auto"))
    assert (need.least, need.seconds, need.mib, need.gpu) == (25.0, 100.0, 200.0, True)
    assert need.source == "scaled from 1 run of up to 1 s, 50 times their operations"


def test_what_the_configuration_leaves_open_widens_the_range(toys):
    works(toys, "x", "2 * x")
    measured(1, 1.0, 100.0)
    need = needs.of(run(50))
    assert (need.least, need.seconds) == (12.5, 200.0)


@pytest.mark.parametrize(("least", "most"), [("0", "1"), ("2", "1")])
def test_work_out_of_range_is_refused(toys, least, most):
    works(toys, least, most)
    with pytest.raises(ValueError, match="work must have 0 < least <= most"):
        needs.of(run(1))


def test_a_task_that_is_not_there_takes_no_work(toys):
    with open(workbooks.catalogue_file(), "a") as stream:
        stream.write('[work]\nother = "amounts:takes"\n')
    with pytest.raises(catalogue.CatalogueError, match="work.other: there is no task"):
        needs.of(run(1))


def test_a_gpu_is_not_asked_for_the_seconds_of_a_core(toys):
    works(toys, "x", "x")
    measured(1, 1.0, 100.0)
    (on_gpu,), (on_core,) = (
        arrays.arrays([run(10**6, "auto")], gpus=gpus, alone=set()) for gpus in (True, False)
    )
    assert (on_gpu.gpus, on_gpu.minutes, on_core.gpus, on_core.minutes) == (1, 1440, 0, 4320)


def test_the_plan_says_what_is_measured_and_what_is_not_known(toys):
    measured(1, 30.0, 200.0)
    told = plan.text([catalogue.figure("toy/fig1")], "desk").splitlines()
    assert told[1].split()[:4] == ["toy/fig1", "4", "3", "yes"]
    assert "  30 s  " in told[1] and "200 MiB" in told[1] and "1 of 3 measured" in told[1]
    assert told[2] == "to do: 30 s on one core, and 2 runs of which nothing is known"


def test_the_plan_gives_a_range_and_its_basis_for_what_is_scaled(toys):
    works(toys, "x", "2e9 * x")
    measured(1, 1.0, 100.0)
    told = plan.text([catalogue.figure("toy/fig1")], "desk").splitlines()
    assert "1 of 3 measured; scaled from 1 run of up to 1 s, 2 times their operations" in told[1]
    assert "  0 s to 2,200,000 h  " in told[1] and "not known" not in told[1]
    assert told[2] == "to do: 1 s to 4,400,000 h on one core, and 0 runs of which nothing is known"
    assert told[3].startswith(
        "of it for a GPU: 0 s to 4,400,000 h of a core, up to 8.0e+09 floating"
    )


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
    forget()
    assert needs.of(run(2, "auto")) == needs.Need(2.0, 2.0, 10.0, True, "measured")
