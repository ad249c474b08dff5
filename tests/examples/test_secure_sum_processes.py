"""The example with every party in a process of its own: it learns, and says what is wrong."""

import importlib.util
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from reproduce import paths

FILE = paths.ROOT / "examples/secure_sum_processes.py"


def run(*arguments):
    source = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, FILE, *arguments], capture_output=True, text=True, env=source, timeout=120
    )


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("secure_sum_processes", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_clients_in_processes_of_their_own_fit_the_line(example):
    done = run("--clients", "3", "--servers", "2", "--rounds", "20")
    assert done.returncode == 0, done.stderr
    number, slope, value = map(float, re.findall(r"-?[0-9.]+", done.stdout.replace("at 0", "")))
    assert number == 20
    # Every round adds noise of RATE SIGMA / 600 = 0.003 to a number; clipping moves it by less.
    np.testing.assert_allclose([slope, value], example.TRUTH, atol=0.06)


def test_the_parts_of_the_noise_add_up_to_the_noise(example):
    rng = np.random.default_rng(0)
    sums = np.array(
        [sum(example.noise_part(4, rng) for _ in range(4)) for _ in range(2000)], dtype=float
    )
    deviation = sums.std() / example.ENCODING.scale
    assert deviation == pytest.approx(example.SIGMA, rel=5 / np.sqrt(2 * sums.size))
    assert abs(sums.mean()) / example.ENCODING.scale < 5 * example.SIGMA / np.sqrt(sums.size)


def test_no_record_contributes_more_than_the_clip(example):
    x, y = np.array([0.3, -1.0, 1e6]), np.array([5.0, 1e9, -3.0])
    for k in range(3):
        one = example.clipped_gradients(np.array([2.0, 1.0]), x[k : k + 1], y[k : k + 1])
        assert np.linalg.norm(one) <= example.CLIP * (1 + 1e-12)
    x, y = np.array([0.1, -0.2]), np.array([0.1, 0.0])
    rows = np.stack([x, np.ones(2)], axis=1)
    short = rows.T @ (rows @ np.zeros(2) - y)
    np.testing.assert_allclose(example.clipped_gradients(np.zeros(2), x, y), short)


def test_a_role_without_its_certificate_says_so(tmp_path):
    done = run("operator", "--folder", str(tmp_path), "--parameters", "127.0.0.1:1",
               "--clients", "2", "--rounds", "1")  # fmt: skip
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "operator" in done.stderr
