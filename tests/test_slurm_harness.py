"""bench/slurm where there is no Slurm: what it says, how it ends, and what it calls a sweep without an end."""

import importlib.util
import os
import random
import subprocess
import sys

import pytest

from repro.paths import ROOT

HARNESS = ROOT / "bench/slurm"


def ended(path, *options):
    """Exit code and errors of the harness, with these programs."""
    search = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    done = subprocess.run(
        [sys.executable, HARNESS, *options],
        env=os.environ | {"PATH": str(path), "PYTHONPATH": search},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(("options", "code"), [([], 3), (["--ci"], 0)])
def test_without_slurm_one_line_says_what_to_install(tmp_path, options, code):
    returned, said = ended(tmp_path, *options)
    assert returned == code
    assert said.startswith("not tested on Slurm: no ") and said.count("\n") == 1
    assert said.endswith(
        "sbatch, srun, squeue, scontrol, scancel: apt-get install slurm-wlm munge\n"
    )


@pytest.mark.parametrize(("options", "code"), [([], 3), (["--ci"], 0)])
def test_daemons_that_cannot_start_are_no_fault_of_the_workbook(tmp_path, options, code):
    programs = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
    for name in programs:
        (tmp_path / name).write_text("#!/bin/sh\necho no rights here >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    returned, said = ended(tmp_path, "--part", "faults", *options)
    assert returned == code
    assert said == "not tested on Slurm: faults: munged does not work: no rights here\n"


@pytest.fixture
def faults(monkeypatch):
    monkeypatch.syspath_prepend(str(HARNESS))
    place = importlib.util.spec_from_file_location("slurm_faults", HARNESS / "faults.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


class Slurm:
    """Stands for the daemons: a queue."""

    environment: dict = {}

    def __init__(self, queue):
        self.queue = queue

    def ask(self, *_):
        return self.queue


class Sweep:
    """Stands for a submitter that ends at its n-th chance, or never (0)."""

    def __init__(self, chances):
        self.chances, self.asked, self.killed = chances, 0, False

    def ended(self, _):
        self.asked += 1
        return self.asked == self.chances

    def code(self):
        return 0

    def kill(self):
        self.killed = True


FILLERS = "7 PENDING JobHeldUser 0:00 filler\n"


@pytest.mark.parametrize(
    ("chances", "timed", "queue", "expected"),
    [
        (1, False, "", 0),
        (2, False, "", 0),  # it was only slow
        (0, False, "", None),  # nothing is left that it could wait for
        (0, False, FILLERS, None),
        (0, True, "", None),
        (0, True, "3 PENDING Resources 0:00 repro-1\n", None),
    ],
)
def test_a_sweep_that_goes_on_is_judged_by_what_it_can_wait_for(
    tmp_path, faults, chances, timed, queue, expected
):
    sweep = Sweep(chances)
    play = faults._Round(Slurm(queue), tmp_path, random.Random(0), ["drain"], timed)
    assert play._code(sweep) == expected
    assert sweep.killed == (expected is None)


def test_a_sweep_whose_job_waits_is_no_fault_where_nothing_is_timed(tmp_path, faults):
    sweep = Sweep(0)
    queue = Slurm("3 PENDING Resources 0:00 repro-1\n" + FILLERS)
    play = faults._Round(queue, tmp_path, random.Random(0), ["drain"], False)
    with pytest.raises(
        faults.SlurmError, match="had not ended .* 3 PENDING Resources 0:00 repro-1$"
    ):
        play._code(sweep)
    assert sweep.killed
