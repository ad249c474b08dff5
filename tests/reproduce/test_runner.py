"""The runner: what it runs, what it leaves alone, and what happens when something goes wrong."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

import workbooks
from repro.atomic import WriteError
from reproduce import catalogue, paths, runner, state
from reproduce.destination import Destination
from reproduce.machine import THREADS, python_path

ENTRY = """
[figures.{name}]
title = "{name}"
notebook = "notebooks/toy/{name}.ipynb"
[figures.{name}.parameters.desk]
sigma = 3.0
"""

WRITE = """
import json, os, pathlib
from reproduce.destination import Destination
files = Destination("toy/{name}", profile, sigma != dict(quick=2.0, desk=3.0)[profile])
files.stem.parent.mkdir(parents=True, exist_ok=True)
claims = [{{"id": "a", "verdict": "reproduced"}}]
files.file("png").write_bytes(b"picture")
files.file("json").write_text(json.dumps(dict(
    complete=True, profile=profile, claims=claims, files=dict(png=""), x=sigma,
    environment=dict(os.environ))))
"""

SLOW = """
import os, pathlib, time
pathlib.Path("started").write_text(str(os.getpid()))
while not pathlib.Path("go").exists():
    time.sleep(0.02)
"""


def add(root, name, *cells):
    """Add a figure whose notebook runs `cells` and then writes its files."""
    with open(root / "reproduce/papers/toy/catalogue.toml", "a") as stream:
        stream.write(ENTRY.format(name=name))
    rows = [("c1", "md", "# Title"), ("c2", "params", 'profile = "quick"\nsigma = 2.0')]
    rows += [(f"x{k}", "code", cell) for k, cell in enumerate(cells)]
    rows.append(("last", "code", WRITE.format(name=name)))
    workbooks.write_notebook(root / f"notebooks/toy/{name}.ipynb", rows)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty workbook."""
    workbooks.build(tmp_path, monkeypatch)
    (tmp_path / "reproduce/papers/toy/catalogue.toml").write_text('title = "A toy"\n')
    return tmp_path


def run(jobs=2, ids=(), profile="quick", **changed):
    """Run in this process; return the exit code."""
    return runner.run(catalogue.select(list(ids)), profile, jobs, changed)


def start(root):
    """Start a run in a process of its own, as from a terminal.

    A background job of a shell ignores interrupts, and so would whatever it starts.
    """
    environment = {**os.environ, "REPRO_ROOT": str(root), "PYTHONPATH": python_path()}
    command = [sys.executable, "-m", "reproduce", "run", "--jobs", "2"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        env=environment,
        stdout=pipe,
        stderr=pipe,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(condition, seconds=300):
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)
    return value


def kernel(root):
    """The process of the kernel that runs the slow notebook."""
    marker = root / "notebooks/toy/started"
    return psutil.Process(int(wait_for(lambda: marker.exists() and marker.read_text())))


def test_a_workbook_from_first_run_to_nothing_to_do(root, capsys, monkeypatch):
    module = root / "src/repro/toy.py"
    module.parent.mkdir(parents=True)
    module.write_text("x = 1\n")
    add(root, "fig1")
    add(root, "fig2", "y = 1\n1 / 0")
    add(root, "fig3", 'used = "repro.toy:x"')
    scrap = paths.FIGURES / "toy/.fig1.json.1.2.partial"
    scrap.parent.mkdir(parents=True)
    scrap.touch()
    os.utime(scrap, (0, 0))
    (root / "build/running/toy").mkdir(parents=True)
    (root / "build/running/toy/left.ipynb").write_text("half of one")

    assert run() == 1
    out = capsys.readouterr().out
    assert re.search(r"FAILED toy/fig2: cell 3 \(x0\): ZeroDivisionError: division by zero", out)
    assert re.search(r"toy/fig1 +\| run +\| 1 reproduced", out)
    assert "2 run, 0 up to date, 1 failed" in out
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", out)
    assert (root / "build/executed/toy/fig1.ipynb").exists()
    assert not (root / "build/executed/toy/fig2.ipynb").exists()
    assert (root / "build/failed/toy/fig2.ipynb").exists()
    assert not (root / "build/running/toy/left.ipynb").exists()
    assert not scrap.exists()
    assert float(re.search(r"toy/fig1.*\| +([\d.]+) \| +(\d+) \|", out)[2]) > 30

    workbooks.edit_notebook(root / "notebooks/toy/fig2.ipynb", "1 / 0", "1 / 1")
    module.write_text("x = 2\n")
    assert run() == 0
    out = capsys.readouterr().out
    assert "toy/fig3: to be run (code repro.toy changed)" in out
    assert "2 run, 1 up to date, 0 failed" in out

    (paths.FIGURES / "toy/fig1.png").unlink()
    (paths.FIGURES / "toy/fig2.json").write_text("{}")
    assert run() == 0
    out = capsys.readouterr().out
    assert "toy/fig1: to be run (toy/fig1.png is missing)" in out
    assert "toy/fig2: to be run (toy/fig2.json is not the file that was written)" in out
    assert "2 run, 1 up to date" in out

    def forbidden(*_, **__):
        raise AssertionError("something was executed")

    monkeypatch.setattr(subprocess, "Popen", forbidden)
    monkeypatch.setattr(state, "write_json", forbidden)
    assert run() == 0
    assert "0 run, 3 up to date, 0 failed" in capsys.readouterr().out


def test_kill_in_the_middle_then_the_next_run_completes(root):
    add(root, "fig1")
    add(root, "fig2", SLOW)
    first = start(root)
    process = kernel(root)
    state = root / "build/state/toy/fig1.json"
    wait_for(state.exists)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    wait_for(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    assert not (root / "build/executed/toy/fig2.ipynb").exists()
    assert not (root / "figures/toy/fig2.json").exists()

    (root / "notebooks/toy/go").touch()
    second = start(root)
    out, err = second.communicate(timeout=300)
    assert second.returncode == 0, out + err
    assert "1 run, 1 up to date, 0 failed" in out
    assert (root / "build/executed/toy/fig2.ipynb").exists()


def test_ctrl_c_is_one_line_and_ends_the_kernel(root):
    add(root, "fig1", SLOW)
    first = start(root)
    process = kernel(root)
    os.kill(first.pid, signal.SIGINT)
    out, err = first.communicate(timeout=300)
    assert first.returncode == 130
    assert len(err.splitlines()) == 1 and err.startswith("interrupted"), err
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    assert not (root / "figures").exists() or not list((root / "figures").rglob("*.json"))


def test_two_runs_at_once(root):
    add(root, "fig1", SLOW)
    first = start(root)
    kernel(root)
    second = start(root)
    line = second.stdout.readline()
    assert re.search(rf"another run holds .*process {first.pid}, .*; waiting", line)
    (root / "notebooks/toy/go").touch()
    assert "1 run, 0 up to date" in first.communicate(timeout=300)[0]
    assert "0 run, 1 up to date" in second.communicate(timeout=300)[0]
    assert first.returncode == second.returncode == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sigma = 2.0", "sgima = 2.0", r"unknown parameter sigma; known: profile, sgima"),
        ("sigma = 2.0", 'sigma = "2.0"', r"parameter sigma must be of type str .* got float 3.0"),
        ("sigma = 2.0", "sigma = f()", r"`sigma = f\(\)` is no assignment of a plain value"),
        ('profile = "quick"', "", r"unknown parameter profile; known: sigma"),
    ],
)
def test_parameters_that_do_not_fit(root, capsys, old, new, message):
    add(root, "fig1")
    workbooks.edit_notebook(root / "notebooks/toy/fig1.ipynb", old, new)
    assert run(profile="desk") == 1
    out = capsys.readouterr().out
    assert re.search(rf"^FAILED toy/fig1\.desk: .*{message}$", out, re.MULTILINE), out
    assert not (root / "build/failed").exists()


def test_missing_notebook_and_unknown_figure(root, capsys):
    add(root, "fig1")
    (root / "notebooks/toy/fig1.ipynb").unlink()
    assert run() == 1
    assert "FAILED toy/fig1: no such notebook: " in capsys.readouterr().out
    with pytest.raises(
        catalogue.CatalogueError, match="unknown figure 'toy/fgi1'; known: toy/fig1"
    ):
        catalogue.select(["toy/fgi1"])


def test_figures_that_cannot_be_written_is_one_message(root, capsys):
    add(root, "fig1")
    add(root, "fig2")
    (root / "figures").write_text("a file in place of the folder")
    assert run() == 1
    found = capsys.readouterr()
    assert found.err.count("\n") == 1
    assert re.match(r"cannot write to .*figures: .*; nothing was run", found.err)


def test_full_disk_while_the_state_is_written(root, capsys, monkeypatch):
    add(root, "fig1")

    def full(path, value):
        raise WriteError(path, OSError(28, "No space left on device"))

    with monkeypatch.context() as patch:
        patch.setattr(state, "write_json", full)
        assert run() == 1
    assert "FAILED toy/fig1: cannot write " in (out := capsys.readouterr().out)
    assert "No space left on device" in out
    assert run() == 0
    assert "1 run, 0 up to date" in capsys.readouterr().out


def test_a_notebook_that_ends_without_its_table_counts_as_failed(root, capsys):
    add(root, "fig1")
    workbooks.edit_notebook(root / "notebooks/toy/fig1.ipynb", "complete=True", "complete=False")
    assert run() == 1
    assert "ended before its table" in capsys.readouterr().out
    assert json.loads((root / "figures/toy/fig1.json").read_text())["complete"] is False
    assert state.read(Destination("toy/fig1")) == {}


def test_a_kernel_that_dies_is_reported(root, capsys):
    add(root, "fig1", "import os\nos._exit(1)")
    assert run() == 1
    assert "FAILED toy/fig1: the kernel died" in capsys.readouterr().out


# Other profiles and parameters --------------------------------------------------------------


def test_other_profiles_and_parameters_leave_the_quick_run_up_to_date(root, capsys):
    add(root, "fig1")
    assert run() == 0
    names = ("figures/toy/fig1.json", "build/executed/toy/fig1.ipynb", "build/state/toy/fig1.json")
    before = {name: (root / name).read_bytes() for name in names}
    capsys.readouterr()

    assert run(sigma=1.5) == 0
    out = capsys.readouterr().out
    told = (
        "profile quick, sigma = 1.5 in place of 2.0; files go to build/figures/toy/fig1.changed.*"
    )
    assert f"toy/fig1: {told}" in out.splitlines()
    assert json.loads((root / "build/figures/toy/fig1.changed.json").read_text())["x"] == 1.5
    assert (root / "build/executed/toy/fig1.changed.ipynb").exists()

    assert run(profile="desk") == 0
    out = capsys.readouterr().out
    told = "toy/fig1.desk: profile desk; files go to build/figures/toy/fig1.desk.*"
    assert told in out.splitlines()
    assert json.loads((root / "build/figures/toy/fig1.desk.json").read_text())["x"] == 3.0

    assert {name: (root / name).read_bytes() for name in names} == before
    assert run(sigma=2.0) == 0  # the profile's own value changes nothing
    assert run(profile="desk") == 0
    assert capsys.readouterr().out.count("0 run, 1 up to date") == 2


# Ledger and gallery -------------------------------------------------------------------------


def test_ledger_and_gallery_are_written_at_the_end_and_when_missing(root, capsys):
    add(root, "fig1")
    ledger, readme = root / "figures/claims.json", root / "README.md"
    empty = readme.read_bytes()
    assert run() == 0
    before = ledger.read_bytes(), readme.read_bytes()
    assert readme.read_bytes() != empty
    ledger.unlink()
    readme.write_bytes(empty)
    assert run() == 0
    assert "0 run, 1 up to date" in capsys.readouterr().out
    assert (ledger.read_bytes(), readme.read_bytes()) == before
    times = ledger.stat().st_mtime_ns, readme.stat().st_mtime_ns
    assert run() == 0
    assert (ledger.stat().st_mtime_ns, readme.stat().st_mtime_ns) == times

    ledger.unlink()
    assert run(sigma=1.0) == 0
    assert not ledger.exists()
    readme.write_text("no markers")
    assert run() == 1
    assert "gallery: the README must hold the two lines" in capsys.readouterr().err
    assert ledger.read_bytes() == before[0]


# Threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_notebook_has_one_thread_whatever_the_jobs(root, monkeypatch, jobs):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("REPRO_JOBS", raising=False)
    monkeypatch.setattr(runner, "cores", lambda: 6)
    add(root, "fig1", "import torch\nassert torch.get_num_threads() == 1")
    add(root, "fig2")
    assert run(jobs) == 0
    found = json.loads((root / "figures/toy/fig1.json").read_text())["environment"]
    assert {name: found[name] for name in THREADS} == dict.fromkeys(THREADS, "1")
    assert found["REPRO_JOBS"] == str(6 // jobs)  # the pool of training runs may use the rest


# Files of the wrong shape -------------------------------------------------------------------


@pytest.mark.parametrize("content", ["[]", '{"cells": 5}', '{"cells": [1]}', "{", "5"])
def test_what_is_no_notebook_is_one_clear_line(root, capsys, content):
    add(root, "fig1")
    (root / "notebooks/toy/fig1.ipynb").write_text(content)
    assert run() == 1
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("FAILED")]
    assert re.match(r"FAILED toy/fig1: .*fig1\.ipynb (is no notebook|cannot be read as a )", line)


@pytest.mark.parametrize(
    "note",
    ['{"parts": 1, "outputs": 2, "verdicts": 3}', "[]", "{"]
    + ['{"parts": {}, "outputs": {}, "verdicts": {}}', '{"parts": {}, "outputs": []}'],
)
def test_a_note_of_the_wrong_shape_counts_as_none(root, note):
    add(root, "fig1")
    where = Destination("toy/fig1")
    where.state.parent.mkdir(parents=True)
    where.state.write_text(note)
    assert state.read(where) == {}
    assert state.reasons(where, {}) == ["no finished run"]
    assert state.seconds(where) == float("inf")


def leave_copy(where):
    """Leave an executed copy of the notebook, as a run does."""
    where.executed.parent.mkdir(parents=True)
    where.executed.write_text("{}")


def test_the_pdf_makes_nothing_stale(root):
    where = Destination("toy/fig1")
    record = {"complete": True, "profile": "quick", "files": {}, "claims": []}
    where.stem.parent.mkdir(parents=True)
    where.file("json").write_text(json.dumps(record))
    where.file("pdf").write_bytes(b"picture")
    found, verdicts = state.result(where)
    leave_copy(where)
    state.write(where, {"code": "a"}, found, verdicts, {"seconds": 2.0})
    where.file("pdf").unlink()
    assert state.reasons(where, {"code": "a"}) == []
    assert state.reasons(where, {"code": "b"}) == ["code changed"]


def test_the_expected_time_comes_from_the_last_run_or_the_stored_one(root):
    where = Destination("toy/fig1")
    assert state.seconds(where) == float("inf")
    paths.COSTS.write_text('{"quick": {"toy/fig1": {"seconds": 5.0, "peak_mib": 1.0}}}')
    assert state.seconds(where) == 5.0
    leave_copy(where)
    state.write(where, {}, {"json": ""}, {}, {"seconds": 2.0})
    assert state.seconds(where) == 2.0
