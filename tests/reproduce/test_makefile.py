"""The Makefile: every target explained, and each call as it should be."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAKE = {
    name: value
    for name, value in os.environ.items()
    if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PROFILE", "JOBS", "SLURM")
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
        (
            ["fig/random_participation/fig1", "JOBS=1"],
            "run --profile quick --jobs 1 random_participation/fig1",
        ),
        (["data"], "data --profile desk"),
        (["data", "PROFILE=paper"], "data --profile paper"),
        (
            ["sweep", "PROFILE=paper", "JOBS=1", "SLURM=gpu"],
            "sweep --profile paper --jobs 1 --slurm gpu",
        ),
        (["test", "JOBS=2"], "test --jobs 2"),
        (["verify"], "verify --profile quick"),
    ],
)
def test_calls(arguments, command):
    assert make("-n", *arguments).strip() == f"sh reproduce/python.sh -m reproduce {command}"


def test_the_environment_can_set_the_profile():
    assert "--profile paper" in make("-n", "all", PROFILE="paper")
    assert "--profile paper" in make("-n", "data", PROFILE="paper")


def test_ci_calls_make_test():
    text = (ROOT / ".ci/run").read_text()
    assert re.search(r"\bmake test\b", text) and os.access(ROOT / ".ci/run", os.X_OK)


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
