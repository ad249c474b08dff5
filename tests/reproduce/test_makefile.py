"""The Makefile: every target explained, and each call as it should be."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from reproduce import __main__, catalogue, paths
from reproduce.machine import THREADS

ROOT = Path(__file__).resolve().parents[2]
MAKE = {
    name: value
    for name, value in os.environ.items()
    if name
    not in (
        "MAKEFLAGS",
        "MAKELEVEL",
        "MFLAGS",
        "PROFILE",
        "JOBS",
        "SLURM",
        "IDS",
        "SET",
        "SAMPLE",
        "SEED",
        "PAPER",
        "FIGURE",
        "LAB",
        "FULL",
        "SECONDS",
        "DRY",
        "CI",
    )
}


def make(*arguments: str, **environment: str) -> str:
    command = ["make", "--no-print-directory", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=MAKE | environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_help_explains_every_target():
    text = make("help")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets = (set(phony.split()) - {"FORCE"}) | {"fig/<paper>/<id>"}
    assert set(re.findall(r"^  (\S+) +\S", text, re.MULTILINE)) == targets
    assert make() == text


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["all", "JOBS=3"], "run --profile quick --jobs 3"),
        (["all", "PROFILE=desk", "JOBS=3"], "run --profile desk --jobs 3"),
        (["paper", "JOBS=1"], "run --profile paper --jobs 1"),
        (["paper", "JOBS=1", "IDS=pmsfl"], "run --profile paper --jobs 1 pmsfl"),
        (["paper", "DRY=1"], "plan --profile paper"),
        (["paper", "DRY=1", "SLURM=gpu", "IDS=pmsfl/fig6"], "plan --profile paper pmsfl/fig6"),
        (
            ["fig/random_participation/fig1", "JOBS=1"],
            "run --profile quick --jobs 1 random_participation/fig1",
        ),
        (["data"], "data --profile desk"),
        (["data", "PROFILE=paper"], "data --profile paper"),
        (
            ["sweep", "PROFILE=paper", "JOBS=1", "SLURM=gpu --qos=long"],
            'sweep --profile paper --jobs 1 --slurm "gpu --qos=long"',
        ),
        (
            ["sweep", "JOBS=1", "STATUS=1", "SEED=3", "IDS=ddpsa/fig7"],
            "sweep --profile quick --jobs 1 --status --seed 3 ddpsa/fig7",
        ),
        (["test", "JOBS=2"], "test --jobs 2"),
        (["test", "JOBS=2", "IDS=ddpsa"], "test --jobs 2 ddpsa"),
        (["test-all", "JOBS=2"], "test --slow --jobs 2"),
        (
            ["fig/toy/fig1", "JOBS=1", "SET=p=0.2 samples=[1, 10]"],
            'run --profile quick --jobs 1 --set "$SET" toy/fig1',
        ),
        (["verify"], "verify --profile quick"),
    ],
)
def test_calls(arguments, command):
    assert make("-n", *arguments).strip() == f"sh reproduce/python.sh -m reproduce {command}"


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], "--jobs 2"),
        (["IDS=ddpsa", "SAMPLE=60", "SEED=3"], "--jobs 2 --sample 60 --seed 3 ddpsa"),
        (["IDS=mspafl", "SHARE=0.2"], "--jobs 2 --share 0.2 mspafl"),
    ],
)
def test_mutants(arguments, options):
    told = make("-n", "mutants", "JOBS=2", *arguments).strip()
    assert told == f"sh reproduce/python.sh -m reproduce.mutants {options}"


def test_faults():
    told = make("-n", "faults", "FULL=1", "SECONDS=9", "SEED=3").strip()
    assert told.endswith("bench/faults.py --full --seconds 9 --seed 3")
    assert make("-n", "faults").strip().endswith("bench/faults.py")


def test_one_command_gets_the_paper_profile_from_a_cluster():
    told = make("-n", "paper", "JOBS=1", "SLURM=gpu --account=lab", "IDS=pmsfl").splitlines()
    assert [line.strip().removeprefix("sh reproduce/python.sh -m reproduce ") for line in told] == [
        "data --profile paper pmsfl",
        'sweep --profile paper --slurm "gpu --account=lab" pmsfl',
        "run --profile paper --jobs 1 pmsfl",
    ]


def test_slurm():
    told = make("-n", "test-slurm", "FULL=1", "SEED=3").strip()
    assert told == "sh reproduce/python.sh bench/slurm --full --seed 3"
    assert make("-n", "test-slurm").strip() == "sh reproduce/python.sh bench/slurm"
    assert make("-n", "test-slurm", CI="true").strip() == "sh reproduce/python.sh bench/slurm --ci"


def test_flower():
    told = make("-n", "flower", "IDS=ddpsa pmsfl").strip()
    assert told == "sh reproduce/python.sh apps/flower/federation.py ddpsa pmsfl"


def test_lessons():
    assert make("-n", "teach").strip() == "sh reproduce/python.sh -m reproduce.teaching"


def test_a_claim_needs_its_id():
    told = make("-n", "claim", "ID=toy/fig1/double").splitlines()[-1]
    assert told == 'sh reproduce/python.sh -m reproduce.claim "toy/fig1/double"'
    done = subprocess.run(["make", "claim"], cwd=ROOT, env=MAKE, capture_output=True, text=True)
    assert done.returncode == 2 and "name a claim" in done.stderr


def test_the_environment_can_set_the_profile():
    assert "--profile paper" in make("-n", "all", PROFILE="paper")
    assert "--profile paper" in make("-n", "data", PROFILE="paper")


def test_values_reach_the_program_as_they_were_given(tmp_path):
    (tmp_path / "reproduce").mkdir()
    shutil.copy(ROOT / "Makefile", tmp_path)
    program = 'shift 8; for word in "$@"; do echo "[$word]"; done\n'
    (tmp_path / "reproduce/python.sh").write_text(program)
    given = "name='it is \"x\"' samples=[1, 10] `echo no`"
    command = ["make", "-s", "fig/toy/fig1", "JOBS=1", f"SET={given}"]
    done = subprocess.run(command, cwd=tmp_path, env=MAKE, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"[{given}]", "[toy/fig1]"], done.stderr


@pytest.mark.parametrize("target", ["fig", "fig/"])
def test_a_figure_without_a_name_is_one_clear_line(target):
    done = subprocess.run(["make", target], cwd=ROOT, env=MAKE, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].startswith("name a figure or a paper, such as: make fig/")


def test_jupyterlab_has_one_thread_as_the_other_notebooks_have():
    assert {f"{name}=1" for name in THREADS} <= set(make("-n", "lab").split())


def test_jupyterlab_takes_options():
    assert (
        make("-n", "lab", "LAB=--allow-root --port=9999")
        .strip()
        .endswith("--notebook-dir=. --allow-root --port=9999")
    )


def test_a_new_figure_needs_both_names():
    told = make("-n", "new", "PAPER=sixth", "FIGURE=fig1").splitlines()[-1]
    assert told == 'sh reproduce/python.sh -m reproduce.skeleton "sixth" "fig1"'
    for given in ([], ["PAPER=sixth"], ["FIGURE=fig1"]):
        command = ["make", "new", *given]
        done = subprocess.run(command, cwd=ROOT, env=MAKE, capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("name both, such as: make new ")


def test_ci_calls_all_tests_and_ends_as_they_do():
    text = (ROOT / ".ci/run").read_text()
    assert re.search(r"^make test && make test-all && make test-slurm CI=1$", text, re.MULTILINE)
    assert os.access(ROOT / ".ci/run", os.X_OK)


class Calls(list):
    """Stands for `subprocess.run`: keeps the calls, returns the exit code that was set."""

    returncode = 0

    def __call__(self, command, **_):
        self.append(command[1:])
        return self


@pytest.fixture
def calls(monkeypatch):
    found = Calls()
    monkeypatch.setattr(__main__.subprocess, "run", found)
    return found


def test_the_fast_tests_leave_out_the_slow_ones(calls):
    assert __main__.main(["test", "--jobs", "3"]) == 0
    assert ["-m", "reproduce.replay", "--jobs", "3"] in calls
    assert calls[-1] == ["-m", "pytest", "-n", "3", "-q", "-m", "not slow"]
    calls.clear()
    assert __main__.main(["test", "--jobs", "3", "--slow"]) == 0
    assert calls == [["-m", "pytest", "-n", "3", "-q", "-m", "slow"]]
    assert (
        "slow"
        in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"][
            "markers"
        ][0]
    )


@pytest.mark.parametrize(("code", "result"), [(5, 0), (1, 1), (2, 1)])
def test_no_slow_test_is_no_failure(calls, code, result):
    calls.returncode = code
    assert __main__.main(["test", "--slow"]) == result


def test_the_tests_of_one_paper(calls, tmp_path, monkeypatch):
    names = ("test_ddpsa_timing.py", "test_mspafl_exact.py", "accounting/ddpsa/test_bounds.py")
    for name in (*names, "accounting/mspafl/test_bounds.py", "accounting/ddpsa/helper.py"):
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    entries = [entry for entry in catalogue.figures() if entry.paper == "ddpsa"]
    monkeypatch.setattr(catalogue, "select", lambda ids: entries)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    assert __main__.main(["test", "--jobs", "1", "ddpsa"]) == 0
    lint, replay, rules, tests = calls
    assert rules[4:] == ["-q", "-k", "ddpsa", "tests/reproduce/test_workbook.py"]
    assert replay[4:] == [entry.id for entry in entries]
    assert tests[7:] == ["tests/accounting/ddpsa/test_bounds.py", "tests/test_ddpsa_timing.py"]


@pytest.fixture
def launcher(tmp_path):
    """A copy of the launcher with a lock that the running environment meets."""
    (tmp_path / "reproduce").mkdir()
    for name in ("python.sh", "environment.py"):
        shutil.copy(ROOT / "reproduce" / name, tmp_path / "reproduce")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "requirements.lock").write_text("")
    return tmp_path


def launch(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(folder / "reproduce/python.sh"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_an_active_environment_that_fits_is_used(launcher):
    code = "import os, sys; print(sys.prefix); print(os.environ['PYTHONPATH']); sys.exit(5)"
    done = launch(launcher, "-c", code, VIRTUAL_ENV=sys.prefix, PATH=os.environ["PATH"])
    assert done.returncode == 5, done.stderr
    prefix, search = done.stdout.splitlines()
    assert Path(prefix).samefile(sys.prefix)
    assert search.split(":")[:2] == [str(launcher / "src"), str(launcher)]
    assert not (launcher / ".venv").exists()


def test_python_that_is_too_old_is_one_clear_line(launcher):
    programs = launcher / "bin"
    programs.mkdir()
    (programs / "dirname").symlink_to(shutil.which("dirname"))
    old = programs / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.8.1\n')
    old.chmod(0o755)
    done = launch(launcher, "-c", "print('ran')", PATH=str(programs))
    assert done.returncode == 1 and done.stdout == ""
    expected = "Python 3.11, 3.12 or 3.13 with its venv module is needed; found: Python 3.8.1\n"
    assert done.stderr == expected
