"""The names that the README calls stable: there, callable as promised, and explained."""

import importlib
import inspect
import tomllib

import pytest

from repro import paths
from repro.accounting import Mechanism

ACCOUNTING = {
    "GaussianMechanism": "sigma, *, sensitivity=1.0",
    "PoissonGaussian": "sigma, *, rate, sensitivity=1.0",
    "RandomParticipation": "sigma, *, p, q, samples_per_client, clip=1.0",
    "WeakClientSampling": "sigma, *, p, q, clip=1.0",
    "OnlyLocalSampling": "sigma, *, q, clip=1.0",
    "CentralizedShuffling": "sigma, *, p, q, clip=1.0",
    "ModelSplitting": "sigma, *, submodels, rate=1.0, clip=1.0, unsplit_clip=0.0",
    "BalancedIterationSubsampling": "sigma, *, iterations, participations, clip=1.0",
    "compose": "parts, rounds=1",
    "calibrate_sigma": "mechanism, *, epsilon=None, delta=None, fpr=None, tpr=None, advantage=None, method='upper'",
}
"""The first arguments, in this order; more may follow that have defaults."""

SECAGG = ("Cluster", "FixedPoint", "reconstruct", "share")
METHODS = (
    "delta",
    "epsilon",
    "rdp",
    "pld",
    "tradeoff",
    "tpr_at_fpr",
    "advantage",
    "bayes_risk",
    "gdp_mu",
)


def shape(function):
    """The arguments as texts: names with their defaults, and a star before those by keyword only."""
    words = []
    for name, one in inspect.signature(function).parameters.items():
        if one.kind is one.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        words.append(name if one.default is one.empty else f"{name}={one.default!r}")
    return words


@pytest.mark.parametrize("name", ACCOUNTING)
def test_arguments_are_those_promised(name):
    found = shape(getattr(importlib.import_module("repro.accounting"), name))
    promised = ACCOUNTING[name].split(", ")
    assert found[: len(promised)] == promised
    assert all("=" in one for one in found[len(promised) :] if one != "*"), found


@pytest.mark.parametrize("name", METHODS)
def test_every_mechanism_has_the_methods(name):
    assert callable(getattr(Mechanism, name)) and getattr(Mechanism, name).__doc__


@pytest.mark.parametrize("name", SECAGG)
def test_secure_sums(name):
    module = importlib.import_module("repro.secagg")
    assert name in module.__all__ and inspect.getdoc(getattr(module, name))


def test_the_version_is_one():
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())["project"]
    assert f"\nversion: {project['version']}\n" in (paths.ROOT / "CITATION.cff").read_text()
    assert f"\n## {project['version']}\n" in (paths.ROOT / "CHANGELOG.md").read_text()
