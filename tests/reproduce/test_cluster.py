"""Runs as Slurm jobs: killed ones, a silent controller, a submitter that dies; on stand-ins for Slurm's programs."""

import os
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

import fake_slurm
import workbooks
from reproduce import arrays, cluster, heartbeat, needs, paths, records, slurm, status
from reproduce.__main__ import main
from reproduce.machine import python_path
from reproduce.records import Task

MODULE = """
import os, pathlib, time

def good(config, seed):
    return {"value": config["x"] * seed}

def bad(config, seed):
    raise ZeroDivisionError("no such luck")

def slow(config, seed):
    folder = pathlib.Path(config["folder"])
    (folder / "started").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    return {"value": seed}
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    workbooks.build(tmp_path, monkeypatch)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/clusterruns.py").write_text(MODULE)
    with open(workbooks.catalogue_file(), "a") as stream:
        stream.write("[tasks]\n")
        for name in ("good", "bad", "slow"):
            stream.write(f'{name} = "clusterruns:{name}"\n')
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.delitem(sys.modules, "clusterruns", raising=False)
    programs = fake_slurm.install(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    search = [python_path(), str(tmp_path / "modules")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(search))
    monkeypatch.setenv("REPRO_ROOT", str(paths.ROOT))
    monkeypatch.setenv("REPRO_RUNS", str(paths.RUNS))
    monkeypatch.setenv("SUBMITIT_LOG_LEVEL", "NOCONFIG")  # its import would close pytest's handlers
    monkeypatch.setattr(cluster, "_LOOK", 0.1)
    needs._measured.cache_clear()
    return tmp_path


def task(root, name="good", seed=1, **config):
    return Task(f"toy/{name}", {"folder": str(root), "x": 0.5, "device": "cpu", **config}, seed)


def sent(root):
    return said(root, "sent")


def said(root, to):
    """The lines in a file of the stand-ins, which is there once the first is."""
    file = root / "slurm" / to
    return file.read_text().splitlines() if file.exists() else []


def at_look(monkeypatch, condition, action):
    """Do something once, between two looks at the queue, as soon as a condition holds."""
    done, clock = [], cluster.time

    def pause(seconds):
        if not done and condition():
            done.append(action())
        clock.sleep(seconds)

    # not the function of the module `time`, which other threads call as well
    monkeypatch.setattr(cluster, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pause))


def test_jobs_write_records_and_report_errors(root, capsys):
    (root / "slurm/gpus").touch()
    wanted = [task(root, seed=seed) for seed in (1, 2)] + [
        task(root, "bad"),
        task(root, device="gpu"),
    ]
    errors = cluster.submit(wanted, "short --account=lab --qos=long")
    assert list(errors) == [wanted[2].key] and "no such luck" in errors[wanted[2].key]
    assert records.look_up(wanted[1])["result"] == {"value": 1.0}
    orders = sent(root)
    assert len(orders) == 2 and all("--partition=short" in one for one in orders)
    assert all("--account=lab" in one and "--qos=long" in one for one in orders)
    assert sorted("--gpus-per-node=1" in one for one in orders) == [False, True]
    assert "4 of 4 runs" in capsys.readouterr().out
    assert cluster.submit(wanted[:2], "short") == {} and len(sent(root)) == 2


def test_a_killed_job_is_an_error_and_the_next_call_computes_its_run(root, monkeypatch):
    wanted = [task(root, seed=1), task(root, "slow", 2)]
    at_look(monkeypatch, (root / "started").exists, lambda: fake_slurm.kill(root / "slurm", "1_1"))
    errors = cluster.submit(wanted, "any")
    (error,) = errors.values()
    assert list(errors) == [wanted[1].key]
    assert error.startswith("job 1_1 left the queue without a record; JobState=FAILED")
    (root / "go").touch()
    assert cluster.submit(wanted, "any") == {} and records.look_up(wanted[1])


def test_a_silent_controller_is_waited_for(root, monkeypatch, capsys):
    down = root / "slurm/down"
    wanted = [task(root, "slow")]
    looks = []

    def queue():
        looks.append(answer := ask())
        if looks.count(None) == 2 * cluster._GONE:
            down.unlink(missing_ok=True)
            (root / "go").touch()
        return answer

    ask = slurm.queue
    monkeypatch.setattr(slurm, "queue", queue)
    at_look(monkeypatch, (root / "started").exists, down.touch)
    assert cluster.submit(wanted, "any") == {}
    assert looks.count(None) > cluster._GONE and records.look_up(wanted[0])
    assert "squeue does not answer; waiting" in capsys.readouterr().out


def test_a_second_submitter_waits_for_the_jobs_of_one_that_died(root, monkeypatch):
    wanted = [task(root, "slow", seed) for seed in (1, 2)]

    def die():
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        at_look(dying, (root / "started").exists, die)
        with pytest.raises(KeyboardInterrupt):
            cluster.submit(wanted, "any")
    at_look(monkeypatch, (root / "started").exists, (root / "go").touch)
    assert cluster.submit([*wanted, task(root)], "any") == {}
    assert len(sent(root)) == 2 and "--array" in sent(root)[0] and "--array" not in sent(root)[1]
    assert all(records.look_up(one) for one in wanted)


def test_which_job_computes_which_run_is_noted_before_it_is_sent(root, monkeypatch):
    seen = []

    def send(function, bundles, folder, parameters):
        (note,) = arrays.notes().values()
        seen.append((note["job"], note["bundles"], parameters["job_name"] in arrays.notes()))
        return ask(function, bundles, folder, parameters)

    ask = slurm.send
    monkeypatch.setattr(slurm, "send", send)
    cluster.submit([task(root)], "any")
    assert seen == [("", [[task(root).key]], True)]
    assert [note["job"] for note in arrays.notes().values()] == ["1"]


def test_a_queue_that_is_full_at_first_gets_smaller_arrays_later(root, monkeypatch):
    sizes = []

    def send(function, bundles, folder, parameters):
        sizes.append(len(bundles))
        if len(bundles) > 2:
            raise slurm.RefusedError("Slurm temporarily unable to accept job")
        return ask(function, bundles, folder, parameters)

    ask = slurm.send
    monkeypatch.setattr(slurm, "send", send)
    monkeypatch.setattr(cluster, "_AGAIN", 0.1)
    wanted = [task(root, seed=seed) for seed in range(4)]
    assert cluster.submit(wanted, "any") == {} and sizes == [4, 2, 2]
    assert all(records.look_up(one) for one in wanted)


def test_a_refusal_for_good_is_an_error_at_once(root, monkeypatch):
    def send(*_):
        raise slurm.RefusedError("sbatch: error: Invalid account or account/partition combination")

    monkeypatch.setattr(slurm, "send", send)
    (error,) = cluster.submit([task(root)], "any").values()
    assert error.startswith("Slurm refused the job: sbatch: error: Invalid account")


def test_what_slurm_never_takes_does_not_keep_it_from_the_rest(root, monkeypatch):
    def send(function, orders, folder, parameters):
        if parameters["mem"] != "4G":
            raise slurm.RefusedError("sbatch: error: Requested node configuration is not available")
        return ask(function, orders, folder, parameters)

    ask = slurm.send
    monkeypatch.setattr(slurm, "send", send)
    large = task(root, x=2.0)
    monkeypatch.setattr(
        needs,
        "of",
        lambda one: needs.Need(1.0, 1.0, 9e3 if one.config["x"] == 2.0 else 9e2, False, ""),
    )
    errors = cluster.submit([large, task(root)], "any")
    assert list(errors) == [large.key] and "node configuration" in errors[large.key]
    assert records.look_up(task(root)) is not None


def altered(monkeypatch, looks, **fields):
    """Have some of the looks at the queue, counted from 0 when it holds a job, show other fields of its jobs."""
    ask, count = slurm.queue, iter(range(10_000))

    def queue():
        told = ask()
        if told and next(count) in looks:
            return {number: replace(job, **fields) for number, job in told.items()}
        return told

    monkeypatch.setattr(slurm, "queue", queue)


def test_a_job_that_cannot_start_is_cancelled(root, monkeypatch):
    altered(monkeypatch, range(1000), state="PENDING", reason="PartitionTimeLimit")
    (error,) = cluster.submit([task(root, "slow")], "any").values()
    assert "it cannot start: PartitionTimeLimit" in error
    (name,) = arrays.notes()
    assert said(root, "cancelled") == [f"--name={name} 1"]
    (root / "go").touch()


def test_a_dead_process_that_slurm_calls_running_is_not_waited_for(root, monkeypatch):
    (root / "slurm/ghosts").touch()

    def kill():
        fake_slurm.kill(root / "slurm", "1")
        monkeypatch.setattr(heartbeat, "SILENCE", 0.5)

    at_look(monkeypatch, (root / "started").exists, kill)
    (error,) = cluster.submit([task(root, "slow")], "any").values()
    assert error.startswith("job 1 gave no sign of life for") and "running; " in error
    (root / "slurm/jobs/1").write_text("0")  # its end is lost on Slurm, which goes on listing it
    monkeypatch.setattr(heartbeat, "SILENCE", 60)
    (root / "slurm/ghosts").unlink()
    (root / "go").touch()
    assert cluster.submit([task(root, "slow")], "any") == {} and len(sent(root)) == 2


def test_a_job_of_the_same_id_and_another_name_is_another_job(root, monkeypatch):
    altered(monkeypatch, range(1000), name="somebody-else")
    told = slurm._ask
    monkeypatch.setattr(
        slurm, "_ask", lambda *words: (told(*words) or "").replace("JobName=", "JobName=not-")
    )
    monkeypatch.setattr(cluster, "_GONE", 5)
    monkeypatch.setattr(heartbeat.Pulse, "look", lambda pulse: False)  # a beat tells that it lives
    (error,) = cluster.submit([task(root, "slow")], "any").values()
    assert error.startswith("job 1 left the queue without a record; ") and "State" not in error
    assert said(root, "cancelled") == []
    (root / "go").touch()


def test_a_job_that_its_node_refused_is_sent_anew(root, monkeypatch):
    altered(monkeypatch, [0], state="PENDING", reason="launch failed requeued held")
    monkeypatch.setattr(cluster, "_AGAIN", 0.1)
    at_look(monkeypatch, lambda: len(sent(root)) == 2, (root / "go").touch)
    assert cluster.submit([task(root, "slow")], "any") == {}
    (first, _) = arrays.notes()
    assert said(root, "cancelled") == [f"--name={first} 1"]


def test_a_job_that_nodes_refuse_again_and_again_is_an_error(root, monkeypatch):
    altered(monkeypatch, range(1000), state="PENDING", reason="launch failed requeued held")
    monkeypatch.setattr(cluster, "_AGAIN", 0.1)
    (error,) = cluster.submit([task(root, "slow")], "any").values()
    assert "refused by its node 3 times: launch failed requeued held" in error
    assert len(sent(root)) == 3
    (root / "go").touch()


def test_drained_nodes_are_waited_for_and_named(root, monkeypatch):
    why = "Nodes required for job are DOWN, DRAINED or reserved"
    told, line = [], f"0 of 1 runs; 1 jobs wait: {why}"
    altered(monkeypatch, range(5), state="PENDING", reason=why)
    monkeypatch.setattr(cluster, "_say", told.append)
    at_look(monkeypatch, lambda: line in told, (root / "go").touch)
    assert cluster.submit([task(root, "slow")], "any") == {}
    assert told.count(line) == 1


def test_the_state_and_the_log_of_each_run_are_told(root, monkeypatch):
    wanted = [task(root, seed=1), task(root, "bad", 2), task(root, "slow", 3), task(root, seed=4)]
    labelled = {one.key: ("toy/fig1", one) for one in wanted}
    told = []

    def ask():
        told.extend(status.report(labelled, seed) for seed in (None, 3))
        (root / "go").touch()

    at_look(monkeypatch, (root / "started").exists, ask)
    cluster.submit(wanted[:3], "any")
    home = arrays.folder() / next(iter(arrays.notes()))
    rows = told[0].splitlines()
    assert rows[0].split() == [*status.STATES, "left"]
    assert sum(map(int, rows[1].split()[1:6])) == 4 and rows[1].split()[1] == "1"
    line = f"toy/fig1 seed 3 running, job 1_2, {home}/1_2_0_log.err"
    assert line in rows and told[1].splitlines()[-1] == line
    after = status.report(labelled, None).splitlines()
    assert after[1].split()[1:6] == ["1", "0", "0", "2", "1"]
    assert after[-1].startswith("toy/fig1 seed 2 failed, job 1_1, ")
    (root / "slurm/down").touch()
    with pytest.raises(RuntimeError, match="squeue does not answer"):
        status.report(labelled, None)


def test_options_of_the_user_win(root):
    (array,) = arrays.arrays([task(root)], gpus=False, alone=set())
    asked = array.parameters("name", "any", {"time": "2-12", "mem": "3G", "cpus-per-task": "2"})
    assert asked["time"] == 3600 and asked["cpus_per_task"] == 1
    assert asked["additional_parameters"] == {"mem": "3G", "cpus_per_task": "2"}
    (array,) = arrays.arrays([task(root, device="auto")], gpus=True, alone=set())
    assert array.parameters("name", "any", {})["gpus_per_node"] == 1
    assert "gpus_per_node" not in array.parameters("name", "any", {"gres": "gpu:a100:1"})


def test_short_runs_share_a_job_and_lost_ones_do_not(root, monkeypatch):
    monkeypatch.setattr(needs, "of", lambda one: needs.Need(20.0, 20.0, 500.0, False, "measured"))
    wanted = [task(root, seed=seed) for seed in range(5)]
    (array,) = arrays.arrays(wanted, gpus=False, alone={wanted[0].key})
    assert sorted(len(bundle) for bundle in array.bundles) == [1, 1, 3]
    assert sorted(t.seed for bundle in array.bundles for t in bundle) == [0, 1, 2, 3, 4]
    assert (wanted[0],) in array.bundles and (array.minutes, array.gib) == (10, 4)


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("90", 90), ("1:30", 2), ("8:00:00", 480), ("2-12", 3600), ("2-12:30", 3630), ("0:30", 1)],
)
def test_time_limits(limit, minutes):
    assert slurm.minutes(limit) == minutes


@pytest.mark.parametrize("where", ["any --time=soon", "any --time=0"])
def test_a_time_limit_of_another_form_is_refused(root, where):
    with pytest.raises(ValueError, match="--time must be"):
        cluster.submit([task(root)], where)


@pytest.mark.parametrize("where", ["", "--account=lab", "any account=lab"])
def test_options_of_another_form_are_refused(root, where):
    with pytest.raises(ValueError, match="SLURM must be a partition"):
        cluster.submit([task(root)], where)


def test_without_slurm_it_says_so(root, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(root))
    with pytest.raises(RuntimeError, match="needs sbatch on PATH"):
        cluster.submit([task(root)], "any")
    file = workbooks.catalogue_file()
    file.write_text(
        file.read_text().replace("data = []", 'data = []\nruns = "clusterruns:wanted"', 1)
    )
    with open(root / "modules/clusterruns.py", "a") as stream:
        stream.write(
            'def wanted(parameters):\n    return [("toy/good", {"x": 1.0, "device": "cpu"}, 1)]\n'
        )
    assert main(["sweep", "--slurm", "any"]) == 1
    assert "needs sbatch on PATH" in capsys.readouterr().err
