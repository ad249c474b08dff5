"""Kernels that begin with the libraries imported: fresh in all that a notebook can see, and never left behind."""

import json
import os
import signal
import sys
import threading

import psutil
import pytest

import workbooks
from reproduce import nursery
from reproduce.workers import Workers, environment

pytestmark = pytest.mark.skipif(not nursery.POSSIBLE, reason="the system forks no kernels")

LOOK = """
import json, os, random, sys, numpy
print("printed by", os.getpid())
os.system("echo to the log")
seen = dict(
    pid=os.getpid(), above=os.getppid(), folder=os.getcwd(), profile=profile,
    mine=os.environ["MINE"], backend=os.environ["MPLBACKEND"], argv=sys.argv[0],
    project=sorted(name for name in sys.modules if name.split(".")[0] in ("repro", "reproduce")),
    torch="torch" in sys.modules, draws=[random.random(), numpy.random.random()],
    input=os.readlink("/proc/self/fd/0"), path=sys.path, main=sys.modules["__main__"].__name__,
)
open(place, "w").write(json.dumps(seen))
"""
WAIT = """
import pathlib, time
LOOK
while True:
    time.sleep(0.05)
""".replace("LOOK", LOOK)


@pytest.fixture
def workers(tmp_path):
    """The workers of a run with many notebooks."""
    with open(tmp_path / "lock", "w") as lock:
        every = Workers(lock.fileno())
        every.nursery = True
        yield every
        every.stop()


def order(folder, cell, variable="x"):
    """What `Workers.work` takes for a notebook with one cell."""
    source = folder / "a.ipynb"
    rows = [("p", "params", 'profile = "quick"\nplace = ""'), ("c", "code", cell)]
    workbooks.write_notebook(source, rows)
    job = {
        "notebook": str(source),
        "output": str(folder / "out.ipynb"),
        "parameters": {"profile": "desk", "place": str(folder / "seen.json")},
    }
    variables = environment("desk", folder / "progress", 1) | {"MINE": variable}
    return job, folder / "log", variables


def seen(folder):
    return json.loads((folder / "seen.json").read_text())


def gone(*numbers):
    """Wait until the processes have ended; those that have not."""
    every = [psutil.Process(one) for one in numbers if psutil.pid_exists(one)]
    return psutil.wait_procs(every, timeout=60)[1]


def test_kernels_of_one_nursery_are_fresh_and_as_a_new_process(workers, tmp_path):
    found = []
    for variable in ("first", "second", "fresh"):
        if variable == "fresh":
            workers._dismiss(workers._idle.pop())
            workers.nursery = False
        job, log, variables = order(tmp_path, LOOK, variable)
        outcome = workers.work(job, log, variables)
        assert outcome["error"] == "" and outcome["peak_mib"] > 50
        assert log.read_text().splitlines()[-1] == "to the log"
        found.append(seen(tmp_path))
        assert found[-1]["mine"] == variable and found[-1]["profile"] == "desk"
    first, second, fresh = found
    assert first["above"] == second["above"] != fresh["above"] and first["pid"] != second["pid"]
    assert not gone(first["pid"], second["pid"], first["above"])
    assert first["torch"] and not fresh["torch"]
    assert set(first["draws"]).isdisjoint(second["draws"])
    assert first["input"] == os.devnull
    for name in ("path", "folder", "backend", "main", "project"):
        assert first[name] == second[name] == fresh[name], name
    assert first["argv"].endswith("ipykernel_launcher")


@pytest.mark.slow
def test_a_kernel_that_dies_takes_its_worker_along_and_nothing_else(workers, tmp_path):
    job, log, variables = order(tmp_path, LOOK + "os.kill(os.getpid(), 9)")
    assert "kernel died" in workers.work(job, log, variables)["error"]
    above = seen(tmp_path)["above"]
    assert not gone(above)
    job, log, variables = order(tmp_path, LOOK)
    assert workers.work(job, log, variables)["error"] == ""
    assert seen(tmp_path)["above"] != above


@pytest.mark.slow
@pytest.mark.parametrize("ended", ["worker", "nursery", "stop"])
def test_no_kernel_is_left_behind(workers, tmp_path, ended):
    job, log, variables = order(tmp_path, WAIT)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(workers.work(job, log, variables)))
    thread.start()
    place = tmp_path / "seen.json"
    while not (place.is_file() and place.read_text()):
        assert thread.is_alive(), answers
        thread.join(0.05)
    (worker,) = workers._alive
    kernel, above = seen(tmp_path)["pid"], seen(tmp_path)["above"]
    if ended == "stop":
        workers.stop()
    else:
        os.kill(worker.pid if ended == "worker" else above, signal.SIGKILL)
    thread.join(120)
    assert not thread.is_alive() and answers[0]["error"]
    assert not gone(kernel, above, worker.pid)


def test_a_kernel_of_another_python_is_a_process_of_its_own(monkeypatch):
    called = []

    async def launch(self, cmd, **arguments):
        called.append(cmd)
        return {}

    monkeypatch.setattr(nursery.LocalProvisioner, "launch_kernel", launch)
    provisioner = nursery._Entry(None).load()(kernel_id="1", kernel_spec=None, parent=None)
    for cmd in (["/other/python", "-m", "ipykernel_launcher"], [sys.executable, "-m", "other"]):
        with pytest.raises(StopIteration):
            provisioner.launch_kernel(cmd).send(None)
    assert len(called) == 2


def test_pictures_are_shown_as_in_a_new_process(workers, tmp_path):
    """Drawing is set up when its library is first used in a kernel: the nursery must not have done it."""
    plot = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])"
    shown = []
    for forked in (True, False):
        workers.nursery = forked
        job, log, variables = order(tmp_path, plot)
        assert workers.work(job, log, variables)["error"] == ""
        workers._dismiss(workers._idle.pop())
        cells = json.loads((tmp_path / "out.ipynb").read_text())["cells"]
        shown.append([sorted(one.get("data", {})) for one in cells[-1]["outputs"]])
    assert shown[0] == shown[1] == [["image/png", "text/plain"]]
