"""Signs of life of a job: when it counts as dead, and that beats end with the process that gives them."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from reproduce import heartbeat, paths
from reproduce.heartbeat import Pulse, beating


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(heartbeat, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def looks(pulse, clock, number, seconds=10.0):
    for _ in range(number):
        clock[0] += seconds
        pulse.look()


def test_a_job_that_has_never_beaten_is_not_silent(tmp_path, clock):
    pulse = Pulse(tmp_path / "beats")
    looks(pulse, clock, 20)
    assert not pulse.silent


@pytest.mark.parametrize("ahead", [-1e6, 0, 1e6])
def test_silence_is_the_time_without_a_change_whatever_the_clock_of_the_job(tmp_path, clock, ahead):
    file = tmp_path / "beats"
    file.touch()
    os.utime(file, (1e9 + ahead, 1e9 + ahead))
    pulse = Pulse(file)
    assert not pulse.look()  # the first look knows no earlier one
    looks(pulse, clock, 3)
    assert not pulse.silent
    os.utime(file, (1e9 + ahead + 1, 1e9 + ahead + 1))
    clock[0] += 10
    assert pulse.look() and not pulse.look()
    looks(pulse, clock, 3)
    assert not pulse.silent
    looks(pulse, clock, 1)
    assert pulse.silent


def test_a_file_system_that_stood_still_is_no_silence(tmp_path, clock):
    (tmp_path / "beats").touch()
    pulse = Pulse(tmp_path / "beats")
    pulse.look()
    looks(pulse, clock, 1, seconds=3600)
    assert not pulse.silent


def test_beats_of_before_a_restart_do_not_count(tmp_path, clock):
    (tmp_path / "beats").touch()
    pulse = Pulse(tmp_path / "beats")
    looks(pulse, clock, 10)
    assert pulse.silent
    pulse.forget()
    looks(pulse, clock, 10)
    assert not pulse.silent and not (tmp_path / "beats").exists()


JOB = """
import sys
from pathlib import Path
from reproduce.heartbeat import beating
with beating(Path(sys.argv[1])):
    print("beating", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("killed", [True, False])
def test_the_beats_end_with_the_job(tmp_path, monkeypatch, killed):
    """The child holds the job's standard output open, so that the end of the output is the end of the child."""
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", JOB, tmp_path / "beats"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as job:
        assert job.stdout.readline() == b"beating\n"
        if killed:
            job.kill()
        else:
            job.stdin.close()
        assert job.stdout.read() == b""
    assert (tmp_path / "beats").exists()


def test_it_beats(tmp_path):
    """A look that finds a beat is waited for, whenever it comes."""
    with beating(tmp_path / "beats"):
        os.utime(tmp_path / "beats", (0, 0))
        pulse = Pulse(tmp_path / "beats")
        assert not pulse.look()
        while not pulse.look():
            heartbeat.time.sleep(0.05)
