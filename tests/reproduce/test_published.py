"""Committed records of expensive runs: whole, small, and those that the profiles ask for."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from reproduce import catalogue, compare, paths, records, references
from reproduce.machine import python_path

OPENER = Path(__file__).parents[1] / "helpers/open_published.py"

RECORDS = sorted(paths.PUBLISHED.rglob("*.json"))
WITH_RUNS = [
    (figure.id, profile)
    for figure in catalogue.figures()
    if figure.runs
    for profile in catalogue.PROFILES
    if (paths.PUBLISHED / figure.id / profile).is_dir()
]


@cache
def keys(figure_id, profile):
    """The runs that a figure asks for, by key."""
    figure = catalogue.figure(figure_id)
    return {task.key: task for task in records.tasks_of(figure, profile)}


def test_every_published_record_is_whole_and_asked_for():
    """A record that no figure asks for is an orphan: nobody would see that it is out of date."""
    known = catalogue.tasks()
    assert RECORDS
    for path in RECORDS:
        table = json.loads(path.read_text())
        assert table["task"] in known, path
        task = records.Task(table["task"], table["config"], table["seed"])
        assert path.stem == task.key
        assert records.read_record(path, task) is not None, f"damaged: {path}"
        paper, name, profile = path.relative_to(paths.PUBLISHED).parent.parts
        assert task.key in keys(f"{paper}/{name}", profile), f"no figure asks for {path}"


@pytest.mark.parametrize(("figure_id", "profile"), WITH_RUNS)
def test_every_run_of_a_published_profile_is_there(figure_id, profile):
    """A change that asks for other configurations (another noise level, say) must not go unseen."""
    folder = paths.PUBLISHED / figure_id / profile
    for task in keys(figure_id, profile).values():
        path = folder / f"{task.key}.json"
        assert path.exists(), f"not published: {task}"
        record = json.loads(path.read_text())
        assert {"commit", "hardware", "versions", "seconds"} <= set(record["provenance"])
        images = "shown" in record["result"]  # attacked images in colour, 25 kB an attack
        assert path.stat().st_size < (700_000 if images else 50_000)


@pytest.mark.parametrize(
    ("figure_id", "profile"),
    [row for row in WITH_RUNS if row[0].startswith("random_participation/fig")],
)
def test_published_curves_are_complete(figure_id, profile):
    for path in (paths.PUBLISHED / figure_id / profile).glob("*.json"):
        result = json.loads(path.read_text())["result"]
        points = len(result["iteration"])
        assert points > 2 and result["iteration"] == sorted(set(result["iteration"]))
        for key in ("accuracy", "loss", "signal", "noise", "batch", "clipped"):
            assert len(result[key]) == points, (path.name, key)
        assert all(0 <= value <= 1 for value in result["accuracy"])


def test_there_are_published_desk_runs():
    figures = ("random_participation/fig6", "random_participation/fig7", "mspafl/fig2")
    assert {(figure, "desk") for figure in figures} <= set(WITH_RUNS)


@pytest.mark.parametrize(("figure_id", "profile"), WITH_RUNS)
def test_published_evidence_opens_from_its_records_alone(figure_id, profile, tmp_path):
    """No data set, no own run, nothing computed; and the committed numbers come out."""
    folders = {name: str(tmp_path / name) for name in ("FIGURES", "BUILD", "RUNS", "CACHE")}
    variables = {f"REPRO_{name}": place for name, place in folders.items()}
    variables |= {records.ONLY_PUBLISHED: "1", "PYTHONPATH": python_path()}
    variables |= dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")  # no download
    kept = {key: value for key, value in os.environ.items() if key != "REPRO_DATA_MIRROR"}
    subprocess.run(
        [sys.executable, str(OPENER), figure_id, profile],
        env={**kept, **variables},
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=600,
    )
    name = f"{figure_id}.{profile}.json"
    made, stored = (
        json.loads((folder / name).read_text()) for folder in (tmp_path / "FIGURES", paths.FIGURES)
    )
    tolerance = compare.Tolerance.of(catalogue.figure(figure_id))
    assert compare.record_differences(references.reference(stored), made, tolerance) == []
    assert {row["id"]: row["reason"] for row in made["claims"]} == {
        row["id"]: row["reason"] for row in stored["claims"]
    }
