"""The task pool: what is computed, what is kept, and what happens when a run fails."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import workbooks
from repro.report.numbers import DataError
from reproduce import catalogue, paths, pool, records
from reproduce.__main__ import main
from reproduce.machine import python_path
from reproduce.records import Task, TaskError
from reproduce.tasks import run_tasks

MODULE = '''
import os, pathlib, time

def note(config, name):
    """Leave a trace of every call."""
    with open(pathlib.Path(config["folder"]) / name, "a") as stream:
        stream.write(f"{os.getpid()}\\n")

def good(config, seed):
    note(config, "good")
    print("noise on the output")
    return {
        "value": config["x"] * seed,
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "gpu": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }

def mixed(config, seed):
    if seed == 1:
        raise ZeroDivisionError("no such luck")
    if seed == 2:
        return {"curve": [1.0, float("nan")]}
    if seed == 3:
        os._exit(7)
    return {"value": seed}

def slow(config, seed):
    note(config, "slow")
    while not (pathlib.Path(config["folder"]) / "go").exists():
        time.sleep(0.02)
    return {"value": seed}

def wanted(parameters):
    return [("toy/good", {**parameters, "device": "cpu"}, seed) for seed in (1, 2)]
'''


@pytest.fixture
def root(tmp_path, monkeypatch):
    workbooks.build(tmp_path, monkeypatch)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/toyruns.py").write_text(MODULE)
    with open(workbooks.catalogue_file(), "a") as stream:
        stream.write("[tasks]\n")
        for name in ("good", "mixed", "slow"):
            stream.write(f'{name} = "toyruns:{name}"\n')
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.delitem(sys.modules, "toyruns", raising=False)
    monkeypatch.delenv("REPRO_QUIET", raising=False)
    return tmp_path


def task(root, name="good", seed=1, **config):
    return Task(f"toy/{name}", {"folder": str(root), "x": 0.1, "device": "cpu", **config}, seed)


def calls(root, name="good"):
    path = root / name
    return path.read_text().split() if path.exists() else []


def test_computed_once_in_order_in_this_process(root):
    wanted = [task(root, seed=seed) for seed in (3, 1, 3)]
    made = run_tasks(wanted, jobs=1)
    assert [record["seed"] for record in made] == [3, 1, 3]
    assert made[0]["result"]["value"] == 0.1 * 3
    assert made[0]["task"] == "toy/good" and made[0]["config"] == wanted[0].config
    told = {"commit", "hardware", "versions", "seconds", "cpu_seconds", "threads"}
    assert told <= set(made[0]["provenance"])
    assert calls(root) == [str(os.getpid())] * 2
    assert run_tasks(wanted, jobs=1) == made
    assert len(calls(root)) == 2


def test_workers_give_the_same_records(root):
    wanted = [task(root, seed=seed) for seed in range(4)]
    there = run_tasks(wanted, jobs=2)
    pids = set(calls(root))
    assert 1 <= len(pids) <= 2 and str(os.getpid()) not in pids
    assert {record["result"]["threads"] for record in there} == {"1"}
    paths_there = [records.record_path(one) for one in wanted]
    here = [pool._perform(one)["result"]["value"] for one in wanted]
    assert here == [record["result"]["value"] for record in there]
    assert sorted(paths.RUNS.glob("toy/good/*.json")) == sorted(paths_there)


def test_one_worker_per_gpu_for_runs_that_may_use_one(root, monkeypatch):
    monkeypatch.setattr(pool, "visible_gpus", lambda: ["3", "5"])
    wanted = [task(root, seed=seed, device="auto") for seed in range(6)]
    made = run_tasks(wanted, jobs=1)
    assert {record["result"]["gpu"] for record in made} <= {"3", "5"}
    assert len(set(calls(root))) <= 2 and str(os.getpid()) not in calls(root)


def test_gpus_are_those_this_process_may_use(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 7")
    assert pool.visible_gpus() == ["2", "7"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert pool.visible_gpus() == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_failures_are_named_and_the_others_kept(root, jobs):
    seeds = (0, 1, 2, 4) if jobs == 1 else (0, 1, 2, 3, 4)  # seed 3 kills its process
    wanted = [task(root, "mixed", seed) for seed in seeds]
    with pytest.raises(TaskError) as caught:
        run_tasks(wanted, jobs=jobs)
    lines = str(caught.value).splitlines()
    count = f"{len(seeds) - 2} of {len(seeds)} runs failed, the others are kept:"
    reasons = [line.partition(": toy/mixed(config=")[0].strip() for line in lines[1:]]
    assert lines[0] == f"{reasons[0]}; {count}"
    text = "\n".join(sorted(lines[1:], key=lambda line: line.split("seed=")[1]))
    assert re.match(
        r'  ZeroDivisionError: no such luck \(toyruns.py:\d+\): toy/mixed\(config=.*"x": 0.1.*'
        r"seed=1\)\n  DataError: .*curve\[1\] is nan.*: toy/mixed\(config=.*seed=2\)",
        text,
    )
    died = r"  the worker ended with exit code 7: toy/mixed\(config=.*seed=3\)"
    assert bool(re.search(died, text)) == (jobs == 2)
    assert records.look_up(wanted[0]) and records.look_up(wanted[-1])
    assert len(list(paths.RUNS.rglob("*.json"))) == 2


@pytest.mark.parametrize("damage", ["truncate", "alter", "empty"])
def test_a_damaged_record_is_made_again_with_a_note(root, capsys, damage):
    one = task(root)
    (before,) = run_tasks([one])
    path = records.record_path(one)
    text = path.read_text()
    path.write_text(
        {"truncate": text[:40], "alter": text.replace("0.1", "0.2"), "empty": ""}[damage]
    )
    (after,) = run_tasks([one])
    assert after["result"] == before["result"]
    assert len(calls(root)) == 2
    assert f"note: {path} is damaged; the run is made again" in capsys.readouterr().err


def test_the_code_decides_which_record_but_not_which_published_one(root, monkeypatch):
    one = task(root)
    run_tasks([one])
    folder = paths.PUBLISHED / "toy/fig1/desk"
    assert records.publish([one], folder) == 1
    monkeypatch.setattr(
        records.fingerprint, "function_closure", lambda name: {"repro.x": "changed"}
    )
    assert not records.record_path(one).exists()
    (record,) = run_tasks([one])
    assert record["result"]["value"] == 0.1 and len(calls(root)) == 1
    assert records.look_up(task(root, x=0.2)) is None
    (folder / f"{one.key}.json").unlink()
    run_tasks([one])
    assert len(calls(root)) == 2


def test_a_function_may_move_and_its_published_records_stay(root):
    one = task(root)
    run_tasks([one])
    records.publish([one], paths.PUBLISHED / "toy/fig1/desk")
    records.record_path(one).unlink()
    (root / "modules/elsewhere.py").write_text(MODULE.replace("def good", "def renamed"))
    file = workbooks.catalogue_file()
    file.write_text(file.read_text().replace('"toyruns:good"', '"elsewhere:renamed"'))
    assert one.function == "elsewhere:renamed"
    (record,) = run_tasks([one])
    assert record["task"] == "toy/good" and len(calls(root)) == 1


def test_an_unknown_task_is_one_clear_error(root):
    with pytest.raises(catalogue.CatalogueError, match="unknown task 'toy/god'; known: toy/good, "):
        run_tasks([task(root, "god")])


def test_publish_needs_every_run(root):
    run_tasks([task(root)])
    with pytest.raises(TaskError, match="1 of 2 runs are missing, first toy/good.*seed=2"):
        records.publish([task(root), task(root, seed=2)], paths.PUBLISHED / "toy")
    assert not paths.PUBLISHED.exists()


def test_nothing_that_is_not_finite_is_stored(root):
    with pytest.raises(DataError, match=r"result.a\[1\] is inf"):
        records.store(task(root), {"a": [0.0, float("inf")]}, {})
    assert not records.record_path(task(root)).exists()


def test_two_pools_at_once_compute_a_run_once(root):
    one = task(root, "slow")
    threads = [threading.Thread(target=run_tasks, args=([one],)) for _ in range(2)]
    for thread in threads:
        thread.start()
    while not calls(root, "slow"):
        time.sleep(0.02)
    time.sleep(0.3)
    (root / "go").touch()
    for thread in threads:
        thread.join(30)
    assert len(calls(root, "slow")) == 1


def test_workers_end_with_the_process_that_started_them(root):
    code = (
        "from reproduce.tasks import Task, run_tasks\n"
        f"run_tasks([Task('toy/slow', {dict(task(root).config)!r}, s) for s in (1, 2)], jobs=2)"
    )
    search = os.pathsep.join([python_path(), str(root / "modules")])
    environment = {**os.environ, "REPRO_ROOT": str(root), "PYTHONPATH": search}
    parent = subprocess.Popen([sys.executable, "-c", code], env=environment)
    until = time.monotonic() + 30
    while len(calls(root, "slow")) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    pids = [int(pid) for pid in calls(root, "slow")]
    assert len(pids) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while any(alive(pid) for pid in pids) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in pids)
    assert not list(paths.RUNS.rglob("*.json"))


def alive(pid):
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_progress_is_quiet_without_a_terminal_and_told_to_the_runner(root, capsys, monkeypatch):
    monkeypatch.setenv("REPRO_PROGRESS", str(root / "progress"))
    said = []
    run_tasks([task(root, seed=seed) for seed in (1, 2)], jobs=1, report=said.append)
    assert capsys.readouterr().err == ""
    assert (root / "progress").read_text() == "2 of 2 runs"
    assert len(said) == 2 and said[0].startswith("1 of 2 runs, about ")


def test_sweep_and_publish_from_the_command_line(root, capsys):
    file = workbooks.catalogue_file()
    file.write_text(file.read_text().replace("data = []", 'data = []\nruns = "toyruns:wanted"', 1))
    notebook = paths.NOTEBOOKS / "toy/fig1.ipynb"
    workbooks.edit_notebook(notebook, "sigma = 2.0", f'sigma = 2.0\nfolder = "{root}"\nx = 0.5')
    assert main(["publish"]) == 1
    assert "toy/fig1: nothing published: 2 of 2 runs are missing" in capsys.readouterr().err
    assert main(["sweep", "--jobs", "1"]) == 0
    assert "2 runs, 2 to be computed" in capsys.readouterr().out
    assert main(["sweep", "--jobs", "1"]) == 0
    assert "2 runs, 0 to be computed" in capsys.readouterr().out
    assert main(["publish"]) == 0
    files = list((paths.PUBLISHED / "toy/fig1/quick").glob("*.json"))
    assert len(files) == 2
    record = json.loads(files[0].read_text())
    assert record["config"]["x"] == 0.5 and record["provenance"]["commit"]
