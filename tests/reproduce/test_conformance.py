"""The adapters of our systems and of Opacus: what they return, and the committed reports."""

import importlib
import importlib.util
import re

import numpy as np
import pytest

from repro.conformance import examine, scenes
from reproduce.conformance.__main__ import ELSEWHERE, FOLDER, NAMES, main
from reproduce.paths import ROOT

ALARMS = {
    "random_participation": [{"divisor is public"}, set()],
    "partitioning": [set(), set()],
    "mspafl": [set(), set(), set(), {"divisor is public", "kept state carries no record"}],
    "ddpsa": [set()],
    "pmsfl": [{"sensitivity, a unit more or less"}],
    "opacus": [
        {"divisor is public"},
        set(),
        {
            "sampling, number of units in a round, long contributions",
            "sampling, pairs of units in a round, long contributions",
            "sampling, the same unit in two rounds, long contributions",
        },
    ],
    "flower": [
        set(),
        set(),
        set(),
        {"divisor is public", "sensitivity, a unit more or less"},
        {"sensitivity, a unit more or less"},
        set(),
        {"printed epsilon, account of the promised parameters"},
        {"printed epsilon, account of the promised parameters"},
    ],
    "pfl": [
        {"sampling, number of units in a round, long contributions", "divisor is public"},
        {"sampling, number of units in a round, long contributions"},
        set(),
    ],
}
"""What each report must at least say, promise after promise; nothing else where this is empty."""


def engines(name):
    if name == "opacus" and not importlib.util.find_spec("opacus"):
        pytest.skip("Opacus is not installed")
    return importlib.import_module(f"reproduce.conformance.{name}").engines()


def rows(text):
    """The alarms of each examination in a report."""
    parts = re.split(r"^### Findings$", text, flags=re.M)[1:]
    return [set(re.findall(r"^\| ([^|]+) \| \*\*alarm\*\*", part, flags=re.M)) for part in parts]


@pytest.mark.parametrize("name", NAMES + ELSEWHERE)
def test_the_committed_reports_say_what_is_expected(name):
    found = rows((FOLDER / f"{name}.md").read_text(encoding="utf-8"))
    assert len(found) == len(ALARMS[name])
    for alarms, expected in zip(found, ALARMS[name], strict=True):
        assert alarms >= expected
        assert bool(alarms) == bool(expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_shows_one_long_contribution_clipped_and_all_noise(name):
    for engine in engines(name):
        promise = engine.promise
        common = dict(repetitions=40, rounds=promise.rounds, seed=5)
        one = engine.run(scenes.single(promise), promise.owner, noise=False, **common)
        part = np.nansum(one, axis=2)[..., 0]
        assert part.max() == pytest.approx(
            promise.step, rel=0.1
        )  # a bias takes a little of the clip
        assert np.minimum(np.abs(part), np.abs(part - part.max())).max() < 1e-4 * promise.step
        loud = engine.run(scenes.silent(promise), promise.owner, noise=True, **common)
        spare = loud[..., promise.units : promise.units + 1 + scenes.SPARE]
        scale = promise.scale * (np.sqrt(2) if promise.order == 1 else 1)
        assert np.nanstd(spare) == pytest.approx(scale, rel=0.15)


@pytest.mark.parametrize("name", ["mspafl", "ddpsa"])
def test_a_quick_examination_of_our_own_finds_what_the_report_says(name):
    """Of the two kinds of rounds of mspafl only the one with a private half raises an alarm."""
    found = [examine(engine, seed=7, repetitions=300) for engine in engines(name)]
    assert [set(report.alarms) for report in found] == ALARMS[name]


def test_the_page_of_samplers_links_to_every_report():
    text = (ROOT / "docs/samplers.md").read_text(encoding="utf-8")
    for name in NAMES + ELSEWHERE:
        assert f"(conformance/{name}.md)" in text


def test_an_unknown_adapter_is_named():
    with pytest.raises(ValueError, match="name must be one of .*'ddpsa'"):
        main(["nothing"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["random_participation", "partitioning", "pmsfl", "opacus"])
def test_a_fresh_examination_finds_what_the_report_says(name):
    for engine, expected in zip(engines(name), ALARMS[name], strict=True):
        alarms = examine(engine, seed=11, repetitions=300).alarms
        assert bool(alarms) == bool(expected)
        assert {a for a in expected if a == "divisor is public"} <= set(alarms)
