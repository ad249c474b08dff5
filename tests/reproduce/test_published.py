"""Committed records of expensive runs: whole, small, and those that the desk profile asks for."""

import importlib
import json

import pytest

from repro import paths
from reproduce import catalogue
from reproduce.tasks import Task, read_record

WITH_TASKS = [
    (figure.id, profile)
    for figure in catalogue.figures()
    if figure.tasks
    for profile in catalogue.PROFILES
    if (paths.PUBLISHED / figure.id / profile).is_dir()
]


@pytest.mark.parametrize(("figure_id", "profile"), WITH_TASKS)
def test_every_run_of_a_published_profile_is_there(figure_id, profile):
    """A change that asks for other configurations (another noise level, say) must not go unseen."""
    figure = catalogue.figure(figure_id)
    module, _, name = figure.tasks.partition(":")
    rows = getattr(importlib.import_module(module), name)(figure.parameters(profile))
    tasks = [Task(*row) for row in rows]
    folder = paths.PUBLISHED / figure_id / profile
    for task in tasks:
        path = folder / f"{task.key}.json"
        assert path.exists(), f"not published: {task}"
        record = read_record(path, task)
        assert record is not None, f"damaged: {path}"
        assert {"commit", "hardware", "versions", "seconds"} <= set(record["provenance"])
        assert path.stat().st_size < 50_000
    assert {p.stem for p in folder.glob("*.json")} == {task.key for task in tasks}


@pytest.mark.parametrize(
    ("figure_id", "profile"), [row for row in WITH_TASKS if row[0].startswith("random_")]
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
    assert {(figure, "desk") for figure in figures} <= set(WITH_TASKS)
