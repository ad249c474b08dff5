"""An altered number is caught and named; tolerances end where they say."""

from __future__ import annotations

import copy
import json

import pytest

import workbooks
from reproduce import compare, paths, references
from reproduce.compare import Tolerance, differences

STORED = {
    "curves": {"scheme": [1.0, 2.0, 4.0], "wcs": [0.0, 1e-12]},
    "name": "x",
    "count": 3,
    "flag": True,
}


def altered(change) -> dict:
    value = copy.deepcopy(STORED)
    change(value)
    return value


def test_equal_data_agree():
    assert differences(STORED, copy.deepcopy(STORED), Tolerance(rtol=0.0)) == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda v: v["curves"]["scheme"].__setitem__(2, 4.1), "curves.scheme[2]"),
        (lambda v: v["curves"]["wcs"].__setitem__(0, 1e-30), "curves.wcs[0]"),
        (lambda v: v["curves"]["scheme"].append(5.0), "curves.scheme"),
        (lambda v: v.pop("name"), "name"),
        (lambda v: v.update(extra=1), "extra"),
        (lambda v: v.update(name="y"), "name"),
        (lambda v: v.update(flag=1), "flag"),
        (lambda v: v.update(count="3"), "count"),
        (lambda v: v.update(count=None), "count"),
        (lambda v: v.update(curves=[1.0]), "curves"),
    ],
)
def test_every_alteration_is_named_by_its_key_path(change, path):
    found = differences(STORED, altered(change), Tolerance(rtol=1e-6))
    assert [difference.path for difference in found] == [path]


def test_the_boundary_of_rtol():
    tolerance = Tolerance(rtol=0.25)
    assert differences({"a": 4.0}, {"a": 5.0}, tolerance) == []
    (found,) = differences({"a": 4.0}, {"a": 5.0000001}, tolerance)
    assert str(found) == "a: stored 4.0, got 5.0000001 (tolerance rtol 0.25)"


def test_nan_never_agrees():
    assert differences({"a": 1.0}, {"a": float("nan")}, Tolerance(rtol=1.0))
    assert differences({"a": float("nan")}, {"a": float("nan")}, Tolerance(rtol=1.0))


def test_a_pattern_overrides_the_figures_rtol():
    tolerance = Tolerance(rtol=0.0, patterns={"curves.*": 0.1, "b": {"rtol": 0.0, "atol": 0.5}})
    stored = {"curves": {"x": [[10.0]]}, "b": 1.0, "c": 1.0}
    assert differences(stored, {"curves": {"x": [[10.9]]}, "b": 1.5, "c": 1.0}, tolerance) == []
    found = differences(stored, {"curves": {"x": [[11.1]]}, "b": 1.6, "c": 1.0001}, tolerance)
    assert [difference.path for difference in found] == ["b", "c", "curves.x[0][0]"]


def test_measured_times_may_be_anything_but_must_be_there():
    tolerance = Tolerance(rtol=0.0, patterns={"measured.*": {"atol": float("inf")}})
    stored = {"measured": {"seconds": [0.0, 1.0], "name": "x"}, "count": 1}
    seen = {"measured": {"seconds": [7.0, 1e-9], "name": "x"}, "count": 1}
    assert differences(stored, seen, tolerance) == []
    other = {"measured": {"seconds": [7.0], "name": "y"}, "count": 2}
    found = differences(stored, other, tolerance)
    assert [one.path for one in found] == ["count", "measured.name", "measured.seconds"]


RUNS = {
    "dsgd": {"runs": [[0.2, 0.5], [0.3, 0.6], [0.4, 0.7]], "mean": [0.3, 0.6]},
    "rounds": [1, 2],
}


def shifted(by: float) -> dict:
    value = copy.deepcopy(RUNS)
    value["dsgd"]["runs"] = [[item + by for item in run] for run in value["dsgd"]["runs"]]
    value["dsgd"]["mean"] = [item + by for item in value["dsgd"]["mean"]]
    return value


@pytest.mark.parametrize(
    ("by", "count"), [(0.0, 0), (0.299, 0), (-0.299, 0), (0.301, 2), (-0.301, 2)]
)
def test_seed_band_is_counted_in_deviations_of_the_stored_seeds(by, count):
    found = differences(RUNS, shifted(by), Tolerance(seed_band=3.0))  # the deviation is 0.1
    assert len(found) == count
    assert all(difference.path.startswith("dsgd.runs[:]") for difference in found)


def test_seed_floor_helps_where_the_seeds_agree_by_chance():
    stored, got = {"a": {"runs": [[0.5], [0.5]]}}, {"a": {"runs": [[0.51], [0.51]]}}
    assert differences(stored, got, Tolerance(seed_band=3.0))
    assert differences(stored, got, Tolerance(seed_band=3.0, seed_floor=0.02)) == []


def test_outside_runs_the_rtol_still_counts_and_shapes_must_match():
    value = shifted(0.0)
    value["rounds"] = [1, 3]
    assert [item.path for item in differences(RUNS, value, Tolerance(seed_band=3.0))] == [
        "rounds[1]"
    ]
    value = shifted(0.0)
    value["dsgd"]["runs"].pop()
    value["dsgd"]["mean"].pop()
    found = differences(RUNS, value, Tolerance(seed_band=3.0))
    assert [item.path for item in found] == ["dsgd.mean", "dsgd.runs"]


@pytest.mark.parametrize(
    ("was", "now", "allowed"),
    [
        ("reproduced", "differs", True),
        ("differs", "reproduced", True),
        ("differs", "undecided", True),
        ("undecided", "reproduced", True),
        ("undecided", "not tested", False),
        ("differs", "not yet", False),
        ("not yet", "reproduced", False),
    ],
)
def test_near_ties_may_fall_the_other_way_and_nothing_else(was, now, allowed):
    stored = {"profile": "quick", "verdicts": {"order": was, "other": "differs"}}
    got = {
        "complete": True,
        "profile": "quick",
        "claims": [{"id": "order", "verdict": now}, {"id": "other", "verdict": "differs"}],
    }
    near = Tolerance(near_ties=frozenset({"order"}))
    assert (compare.record_differences(stored, got, near) == []) == allowed
    strict = compare.record_differences(stored, got, Tolerance())
    assert [item.path for item in strict] == ["verdicts.order"]
    got["claims"][1]["verdict"] = "reproduced"
    assert "verdicts.other" in [x.path for x in compare.record_differences(stored, got, near)]


# Files --------------------------------------------------------------------------------------


@pytest.fixture
def toy(tmp_path, monkeypatch):
    workbooks.build(tmp_path, monkeypatch)
    workbooks.run_toy()
    references.store("toy/fig1", "quick", list)
    return tmp_path


def test_a_run_agrees_with_its_own_numbers(toy):
    assert str(compare.compare("toy/fig1", "quick")) == "toy/fig1: identical"
    assert compare.main(["toy/fig1"]) == 0


def alter(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_what_moved_within_tolerance_is_told_and_passes(toy, capsys):
    alter(paths.FIGURES / "toy/fig1.json", "[0.0, 2.0, 4.0]", "[0.0, 2.0, 4.000001]")
    assert compare.main(["toy/fig1"]) == 0
    told = "toy/fig1: within tolerance; 1 value moved, by at most 2.5e-07 (relative, y[2])"
    assert capsys.readouterr().out.strip() == told


def test_what_moved_is_told_beside_what_differs(toy, capsys):
    alter(paths.FIGURES / "toy/fig1.json", "[0.0, 2.0, 4.0]", "[0.0, 2.5, 4.000001]")
    assert compare.main(["toy/fig1"]) == 1
    told = "toy/fig1: 1 difference; 2 values moved, by at most 2.0e-01 (relative, y[1])"
    assert capsys.readouterr().out.splitlines()[0] == told


@pytest.mark.parametrize("content", ["[]", "{", "5", "{}"])
def test_files_of_the_wrong_shape_are_one_clear_line(toy, capsys, content):
    for path in (paths.FIGURES / "toy/fig1.json", compare.reference_path("toy/fig1", "quick")):
        kept = path.read_bytes()
        path.write_text(content)
        assert compare.main(["toy/fig1"]) == 1
        assert f"{path} is no JSON object, or cannot be read" in capsys.readouterr().out
        path.write_bytes(kept)


def test_an_altered_stored_number_is_caught(toy, capsys):
    path = compare.reference_path("toy/fig1", "quick")
    stored = json.loads(path.read_text())
    stored["data"]["y"][1] = 2.1
    path.write_text(json.dumps(stored))
    assert compare.main(["toy/fig1"]) == 1
    assert "y[1]: stored 2.1, got 2.0 (tolerance rtol 1e-06)" in capsys.readouterr().out


def test_other_verdicts_and_parameters_are_caught(toy):
    alter(paths.FIGURES / "toy/fig1.json", '"sigma": 2.0', '"sigma": 1.0')
    alter(paths.FIGURES / "toy/fig1.json", '"verdict": "reproduced"', '"verdict": "differs"')
    found = {item.path for item in compare.compare("toy/fig1", "quick").differences}
    assert {"parameters.sigma", "verdicts.double"} <= found


def test_a_run_of_another_profile_is_looked_for_where_it_writes(toy):
    workbooks.run_toy(profile="desk", rounds=30)
    assert references.main(["toy/fig1", "--profile", "desk"]) == 0
    assert compare.main(["toy/fig1", "--profile", "desk"]) == 0
    alter(paths.BUILD / "figures/toy/fig1.desk.json", "[0.0, 2.0, 4.0]", "[0.0, 2.0, 5.0]")
    assert compare.main(["toy/fig1", "--profile", "desk"]) == 1
    assert compare.main(["toy/fig1"]) == 0


def test_an_unfinished_run_does_not_agree(toy):
    workbooks.run_toy(finish=False)
    path = paths.FIGURES / "toy/fig1.json"
    record = json.loads(path.read_text())
    assert record["complete"] is True  # every claim was decided before it was saved
    path.write_text(json.dumps(record | {"complete": False}))
    assert [item.path for item in compare.compare("toy/fig1", "quick").differences] == ["complete"]


def test_missing_files_are_failures(toy, capsys):
    assert compare.main(["toy/derivations"]) == 1
    assert "run the notebook first" in capsys.readouterr().out
    compare.reference_path("toy/fig1", "quick").unlink()
    assert compare.main(["toy/fig1"]) == 1
    assert "make references" in capsys.readouterr().out


def test_stored_numbers_of_no_figure_are_a_failure(toy, capsys):
    workbooks.run_derivations()
    references.store("toy/derivations", "quick", list)
    assert compare.main([]) == 0
    (paths.REFERENCE / "quick/toy/old.json").write_text("{}")
    assert compare.main([]) == 1
    assert (
        "old.json: stored numbers of a figure that the catalogue does not know"
        in capsys.readouterr().out
    )


def test_unknown_figure_is_a_wrong_call(toy):
    assert compare.main(["toy/fig9"]) == 2
