"""Measured times: the committed ones are shown, fresh ones compared by their proportions."""

from __future__ import annotations

import json

import matplotlib

matplotlib.use("agg")

import numpy as np
import pytest

import workbooks
from reproduce import catalogue, measured, paths, references, runner
from reproduce.notebook import Workbook, WorkbookError

SECONDS = {"clipping": [0.5, 0.7, 0.6], "noise": 0.2}

TIMES = """
book.statement("order", True, "timed")
ticks = book.measured("seconds", {"first": [SPEED, SPEED], "second": [2 * SPEED]}, factor=1.5)
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    monkeypatch.delenv(measured.FRESH, raising=False)
    monkeypatch.setattr(measured, "load", lambda: 1.0)
    return workbooks.build(tmp_path, monkeypatch)


def book(**values) -> Workbook:
    return Workbook("toy/fig1", {"profile": "quick", "sigma": 2.0, "rounds": 3} | values)


def commit(value) -> None:
    path = measured.committed_path("toy/fig1")
    measured.keep(path, {"seconds": {"value": value, "factor": 2.0, "per": ""}})


def fresh(name="fig1"):
    return json.loads((paths.BUILD / f"measured/toy/{name}.json").read_text())["seconds"]


def test_the_committed_measurement_is_shown_and_the_fresh_one_kept(toy):
    commit({"clipping": [5.0], "noise": 2.0})
    before = measured.committed_path("toy/fig1").read_bytes()
    assert book().measured("seconds", SECONDS, 2.0) == {"clipping": [5.0], "noise": 2.0}
    assert fresh() == {"value": SECONDS, "factor": 2.0, "per": "", "load": 1.0}
    assert measured.committed_path("toy/fig1").read_bytes() == before


@pytest.mark.parametrize("renewing", [False, True])
def test_a_figure_may_show_the_measurement_of_another(toy, monkeypatch, capsys, renewing):
    if renewing:
        monkeypatch.setenv(measured.FRESH, "1")
    own, other = measured.committed_path("toy/fig1"), measured.committed_path("toy/fig2")
    kept = {"clipping": [5.0], "noise": 2.0}
    measured.keep(other, {"seconds": {"value": kept, "factor": 2.0, "per": ""}})
    assert book().measured("seconds", SECONDS, 2.0, of="toy/fig2") == kept
    assert fresh() == {"value": SECONDS, "factor": 2.0, "per": "", "load": 1.0, "of": "toy/fig2"}
    assert not own.exists()
    measured.report("toy/fig1")
    assert "not committed" not in capsys.readouterr().out
    other.unlink()
    assert not measured.report("toy/fig1")
    assert "make references IDS=toy/fig2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "name"),
    [({"sigma": 1.0}, "fig1.changed"), ({"profile": "desk", "rounds": 30}, "fig1.desk")],
)
def test_other_runs_show_what_they_measure(toy, values, name):
    commit({"clipping": [5.0], "noise": 2.0})
    assert book(**values).measured("seconds", SECONDS) == SECONDS
    assert fresh(name)["value"] == SECONDS


def test_fresh_values_are_shown_while_nothing_is_committed(toy, capsys):
    assert book().measured("seconds", {"a": np.array([1.0, 2.0])}) == {"a": [1.0, 2.0]}
    assert measured.main() == 1
    told = "toy/fig1 seconds: not committed; make references IDS=toy/fig1 stores it"
    assert told in capsys.readouterr().out


def test_wrong_measurements_are_refused(toy):
    for value, options, message in (
        ({}, {}, "the total is 0, must be > 0"),
        (SECONDS, {"per": "nois"}, "no entry 'nois'; there are: clipping, noise"),
        (SECONDS, {"factor": 1.0}, "factor must be > 1, got 1.0"),
        ({"clipping": "slow"}, {}, "could not convert"),
    ):
        with pytest.raises(WorkbookError, match=message):
            book().measured("seconds", value, **options)


def test_quotients_are_those_of_the_medians_within_a_run():
    assert measured.quotients(SECONDS) == pytest.approx({"clipping": 0.75, "noise": 0.25})
    per = measured.quotients({"a": {"x": 1.0, "y": 4.0}, "b": [2.0, 2.0, 9.0]}, "b")
    assert per == pytest.approx({"a.x": 0.5, "a.y": 2.0, "b": 1.0})


def test_a_faster_machine_departs_by_nothing_and_another_proportion_by_its_factor():
    stored = {"a": 1.0, "b": 3.0}
    assert measured.departure(stored, {"a": 0.1, "b": 0.3})[0] == pytest.approx(1.0)
    factor, place = measured.departure(stored, {"a": 1.0, "b": 9.0}, per="a")
    assert (factor, place) == (pytest.approx(3.0), "b")
    with pytest.raises(ValueError, match="only one of the two measurements has the entries c"):
        measured.departure(stored, stored | {"c": 1.0})


@pytest.mark.parametrize(
    ("now", "code", "told"),
    [
        ({"clipping": 3.0, "noise": 1.0}, 0, "within a factor 2 of the committed ones (at most 1"),
        ({"clipping": 1.0, "noise": 0.9}, 0, "(at most 1.89 at noise)"),
        ({"clipping": 1.0, "noise": 1.1}, 1, "beyond a factor 2"),
        ({"clipping": 1.0}, 1, "cannot be compared: only one of the two"),
    ],
)
def test_verify_fails_only_beyond_the_factor(toy, capsys, now, code, told):
    commit({"clipping": 0.3, "noise": 0.1})
    book().measured("seconds", now, 2.0)
    assert measured.main() == code
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("load", "code", "told"),
    [(1.9, 1, "; make references"), (15.0, 0, "not counted, 15 processes")],
)
def test_times_of_a_busy_machine_are_not_judged(toy, capsys, monkeypatch, load, code, told):
    """A newcomer's `make verify` is not red because something else runs."""
    commit({"clipping": 0.3, "noise": 0.1})
    monkeypatch.setattr(measured, "load", lambda: load)
    book().measured("seconds", {"clipping": 1.0, "noise": 9.0}, 2.0)
    assert measured.main() == code
    assert told in capsys.readouterr().out


def test_nothing_is_asked_for_without_fresh_measurements(toy, capsys):
    commit({"clipping": 0.3, "noise": 0.1})
    assert measured.main() == 0
    assert capsys.readouterr().out == "no fresh measurements here\n"


def test_a_timed_notebook_shows_the_same_in_every_run(toy, capsys):
    path = paths.NOTEBOOKS / "toy/fig1.ipynb"
    workbooks.edit_notebook(
        path, 'book.statement("order", y == sorted(y), "smallest step 2")', TIMES
    )
    workbooks.edit_notebook(path, '{"y": y}', '{"y": y, "ticks": ticks}')

    def speed(old, new):
        workbooks.edit_notebook(path, old, new)

    speed("SPEED", "1.0")
    assert references.main(["toy/fig1"]) == 0
    stored = measured.committed_path("toy/fig1").read_bytes()
    assert json.loads(stored)["seconds"]["value"] == {"first": [1.0, 1.0], "second": [2.0]}
    assert runner.run(catalogue.select(["toy/fig1"]), "quick", 1) == 0
    before = json.loads((paths.FIGURES / "toy/fig1.json").read_text())

    speed("[1.0, 1.0]", "[1.1, 1.3]")
    assert runner.run(catalogue.select(["toy/fig1"]), "quick", 1) == 0
    after = json.loads((paths.FIGURES / "toy/fig1.json").read_text())
    assert after["data"] == before["data"]
    assert measured.main() == 0

    assert references.main([]) == 0  # all: committed times stay
    assert measured.committed_path("toy/fig1").read_bytes() == stored
    assert references.main(["toy/fig1"]) == 0  # named: renewed
    assert "measured times renewed" in capsys.readouterr().out
    value = json.loads(measured.committed_path("toy/fig1").read_text())["seconds"]["value"]
    assert value["first"] == [1.1, 1.3]
