"""`pip install .` in an empty environment: the accountants, light, at both ends of the ranges."""

import json
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from reproduce import environment

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RANGES = [Requirement(text) for text in PROJECT["dependencies"]]

NUMBERS = """
import importlib, json, pkgutil, sys
import repro.accounting as accounting
for module in pkgutil.walk_packages(accounting.__path__, "repro.accounting."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
scheme = accounting.RandomParticipation(1.0, p=0.1, q=0.1, samples_per_client=10)
balanced = lambda sigma: accounting.BalancedIterationSubsampling(sigma, iterations=20, participations=2)
print(json.dumps({
    "heavy": sorted({"torch", "matplotlib", "jupyter_client", "cryptography", "reproduce"} & sys.modules.keys()),
    "numbers": [
        scheme.delta(0.5),
        scheme.delta(0.5, method="lower"),
        accounting.compose(scheme, 100).epsilon(1e-5),
        accounting.calibrate_sigma(balanced, epsilon=1, delta=1e-5, rtol=1e-10),
        accounting.ModelSplitting(2.0, submodels=4, rate=0.2).epsilon(1e-5),
    ],
}))
"""


def numbers(python: Path | str, **options) -> dict:
    call = [str(python), "-c", NUMBERS]
    done = subprocess.run(call, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pip(python: Path, *arguments: str) -> None:
    """Run pip; where no package index answers, or it lacks a version, the test is skipped and says so."""
    call = [str(python), "-m", "pip", "--retries", "1", "--timeout", "15", *arguments]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode and "No matching distribution found" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr[-2000:]


def least(requirement: Requirement) -> str:
    """The requirement at the lower end of its range."""
    (version,) = (one.version for one in requirement.specifier if one.operator == ">=")
    return f"{requirement.name}=={version}"


def test_ranges_are_closed_and_hold_the_pins():
    pins = environment.pins((ROOT / "requirements.lock").read_text())
    for requirement in RANGES:
        assert {one.operator for one in requirement.specifier} == {">=", "<"}, requirement
    extras = {
        name: list(map(Requirement, rows))
        for name, rows in PROJECT["optional-dependencies"].items()
    }
    for requirement in RANGES + [
        one for name in ("secagg", "training", "datasets", "report") for one in extras[name]
    ]:
        assert requirement.specifier.contains(pins[requirement.name]), requirement


@pytest.mark.slow
@pytest.mark.parametrize("end", ["least", "newest"])
def test_the_wheel_gives_the_same_numbers_in_an_empty_environment(end, tmp_path):
    for part in (
        "src",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    ):  # a build leaves files beside its sources
        (tmp_path / "project").mkdir(exist_ok=True)
        subprocess.run(["cp", "-r", str(ROOT / part), str(tmp_path / "project")], check=True)
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    chosen = [least(requirement) for requirement in RANGES] if end == "least" else []
    pip(python, "install", str(tmp_path / "project"), *chosen)
    found = numbers(python, cwd=tmp_path, env={"PATH": ""})
    here = numbers(sys.executable, cwd=tmp_path, env={"PATH": "", "PYTHONPATH": str(ROOT / "src")})
    assert found["heavy"] == []
    assert found["numbers"] == pytest.approx(here["numbers"], rel=1e-8)
