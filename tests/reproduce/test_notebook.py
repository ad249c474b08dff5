"""What notebooks call: parameters are checked, claims decided once, files written."""

from __future__ import annotations

import hashlib
import json

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import pytest

import workbooks
from repro.report.numbers import DataError
from reproduce import catalogue, paths, provenance, references, sources, state
from reproduce.claims import ClaimError
from reproduce.destination import Destination
from reproduce.notebook import Workbook, WorkbookError

QUICK = {"profile": "quick", "sigma": 2.0, "rounds": 3}


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    yield workbooks.build(tmp_path, monkeypatch)
    plt.close("all")


def book(**changes) -> Workbook:
    return Workbook("toy/fig1", QUICK | changes)


def record(path=None) -> dict:
    return json.loads((path or paths.FIGURES / "toy/fig1.json").read_text())


# Parameters ---------------------------------------------------------------------------------


def test_other_names_of_the_mapping_are_ignored():
    some = book(np=matplotlib, helper=lambda: 0)
    assert some.parameters == QUICK
    assert some.changed == {}


def test_missing_parameters_are_named():
    with pytest.raises(WorkbookError, match="missing parameter rounds"):
        Workbook("toy/fig1", {"profile": "quick", "sigma": 2.0, "round": 3})
    with pytest.raises(WorkbookError, match="missing parameter profile"):
        Workbook("toy/fig1", {"sigma": 2.0, "rounds": 3})


@pytest.mark.parametrize(
    "change",
    [{"sigma": "1e-5"}, {"sigma": True}, {"rounds": 3.0}, {"rounds": "3"}, {"sigma": float("nan")}],
)
def test_wrong_types_are_named(change):
    with pytest.raises(WorkbookError, match=rf"parameter[ .]{next(iter(change))} "):
        book(**change)


def test_an_integer_may_stand_for_a_float():
    assert book(sigma=2).parameters["sigma"] == 2


def test_unknown_figure_and_profile():
    with pytest.raises(catalogue.CatalogueError, match="toy/fig9"):
        Workbook("toy/fig9", QUICK)
    with pytest.raises(WorkbookError, match="profile 'fast' is none of quick, desk, "):
        book(profile="fast")


def test_the_profile_decides_what_counts_as_changed():
    assert book().changed == {}
    assert book(profile="desk", rounds=30).changed == {}
    assert book(profile="desk").changed == {"rounds": 3}


def test_changed_parameters_are_told_in_the_footer():
    workbooks.run_toy(sigma=1.5)
    assert not paths.FIGURES.exists()
    found = record(paths.BUILD / "figures/toy/fig1.changed.json")
    told = "parameters changed against profile quick: sigma = 1.5 in place of 2.0"
    assert found["footer"] == told
    assert found["changed"] == {"sigma": 1.5}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"profile": "desk", "rounds": 30}, "fig1.desk"),
        ({"profile": "desk", "rounds": 31}, "fig1.desk.changed"),
        ({"rounds": 4}, "fig1.changed"),
    ],
)
def test_other_profiles_and_parameters_leave_the_committed_files_alone(changes, name):
    workbooks.run_toy(picture=True)
    before = {path: path.read_bytes() for path in paths.FIGURES.rglob("*.*")}
    workbooks.run_toy(picture=True, **changes)
    assert {path: path.read_bytes() for path in paths.FIGURES.rglob("*.*")} == before
    found = record(paths.BUILD / f"figures/toy/{name}.json")
    assert found["parameters"]["rounds"] == changes["rounds"]
    assert (paths.BUILD / f"figures/toy/{name}.png").exists()
    assert (paths.BUILD / f"provenance/toy/{name}.json").exists()


# Verdicts -----------------------------------------------------------------------------------


def test_a_measured_number_is_in_the_json_and_described_in_the_table():
    some = book()
    assert some.number("double", 400.0, "slow machine", shown="too slow") == "differs"
    some.statement("order", True, "rises")
    some.save(None, {"y": 1}, caption="c")
    assert list(some.table()["ours"]) == ["too slow", "rises"]
    assert record()["claims"][0]["value"] == 400.0


def test_unknown_claims_are_refused_and_the_known_listed():
    with pytest.raises(WorkbookError, match="no claim 'dubble'; it has: double, order"):
        book().number("dubble", 4.0)


def test_undecided_claims_are_named_by_the_table():
    unfinished = book()
    unfinished.number("double", 4.0)
    unfinished.save(None, {"y": 1}, caption="c")
    with pytest.raises(WorkbookError, match="no cell decides order"):
        unfinished.table()
    assert record()["complete"] is False


def test_a_complete_result_stays_until_the_next_one_is_complete():
    """A full disk, a failing cell or a kill in the middle of a run takes nothing away."""
    workbooks.run_toy(picture=True)
    before = {path: path.read_bytes() for path in paths.FIGURES.rglob("*.*")}
    unfinished = book()
    unfinished.save(None, {"y": 2}, caption="another")
    assert {path: path.read_bytes() for path in paths.FIGURES.rglob("*.*")} == before
    with pytest.raises(state.ResultError, match="ended before its table"):
        state.result(Destination("toy/fig1"))
    unfinished.number("double", 4.0)
    unfinished.statement("order", True, "rises")
    unfinished.table()
    assert record()["caption"] == "another" and state.result(Destination("toy/fig1"))


def test_a_pending_claim_is_decided():
    some = book()
    some.number("double", 4.0)
    assert some.pending("order", "needs a GPU") == "not yet"
    some.save(None, {"y": 1}, caption="c")
    assert list(some.table()["verdict"]) == ["reproduced", "not yet"]


def test_a_wrong_word_is_refused():
    derivations = Workbook("toy/derivations", {"profile": "quick"})
    with pytest.raises(ClaimError, match="none of"):
        derivations.derivation("lemma", "proved", "evidence")


def test_table_before_save_is_refused():
    some = book()
    some.number("double", 4.0)
    some.statement("order", True, "rises")
    with pytest.raises(WorkbookError, match=r"book\.save"):
        some.table()


def test_the_table_has_one_row_a_claim_and_prints_in_full():
    table = workbooks.run_toy().table()
    assert list(table.columns) == ["claim", "where", "paper", "ours", "verdict", "reason"]
    assert list(table["claim"]) == ["double", "order"]
    assert list(table["paper"]) == ["4", "the line | rises"]
    html = table._repr_html_()
    assert html.count("<tr>") == 3
    assert "order: reproduced\n  where: Figure 1" in repr(table)


def test_the_table_escapes_what_would_be_html():
    some = book()
    some.number("double", 4.0)
    some.statement("order", False, "a < b & c", reason="<b>")
    some.save(None, {"y": 1}, caption="c")
    html = some.table()._repr_html_()
    assert "a &lt; b &amp; c" in html
    assert "<b>" not in html


# Files --------------------------------------------------------------------------------------


def test_the_json_holds_what_the_figure_is_a_function_of():
    workbooks.run_toy(picture=True)
    found = record()
    assert set(found) == {
        *("id", "profile", "parameters", "changed", "data_source", "seeds", "notebook", "reduced"),
        *("data", "claims", "complete", "caption", "footer", "files", "story", "conditions"),
    }
    assert found["data"] == {"y": [0.0, 2.0, 4.0]}
    assert found["complete"] is True
    assert found["parameters"] == {"sigma": 2.0, "rounds": 3}
    assert found["notebook"] == sources.code_hash(paths.NOTEBOOKS / "toy/fig1.ipynb")
    first = found["claims"][0]
    assert (first["id"], first["verdict"], first["value"]) == ("double", "reproduced", 4.0)
    assert first["tolerance"] == "1 %"
    data = (paths.FIGURES / "toy/fig1.png").read_bytes()
    assert found["files"] == {"png": hashlib.sha256(data).hexdigest()}
    assert (paths.FIGURES / "toy/fig1.pdf").exists()


def test_what_varies_is_kept_apart():
    workbooks.run_toy(picture=True)
    found = record(paths.BUILD / "provenance/toy/fig1.json")
    assert set(found) == {*"commit versions code host seconds peak_mib complete".split()}
    assert found["versions"]["python"].startswith("3.")


def test_two_runs_give_the_same_committed_bytes(monkeypatch):
    def files():
        return {path.name: path.read_bytes() for path in paths.FIGURES.rglob("*.*")}

    workbooks.run_toy(picture=True)
    first = files()
    monkeypatch.setattr(provenance, "commit", lambda: "another")
    monkeypatch.setattr(provenance, "versions", lambda: {"python": "4.0"})
    workbooks.run_toy(picture=True)
    assert set(first) == {"fig1.json", "fig1.png", "fig1.pdf"}
    assert files() == first
    assert record(paths.BUILD / "provenance/toy/fig1.json")["commit"] == "another"


def test_nan_is_refused_with_its_key_path():
    with pytest.raises(DataError, match=r"data\.curves\.upper\[1\] is nan"):
        book().save(None, {"curves": {"upper": [1.0, float("nan")]}}, caption="c")
    assert not paths.FIGURES.exists()


def test_data_and_caption_are_needed():
    with pytest.raises(WorkbookError, match="data"):
        book().save(None, {}, caption="c")
    with pytest.raises(WorkbookError, match="caption"):
        book().save(None, {"y": 1}, caption=" ")


# In a kernel --------------------------------------------------------------------------------


def test_a_kernel_names_the_deciding_cells(toy):
    references.execute(paths.NOTEBOOKS / "toy/fig1.ipynb", toy)
    cells = {row["id"]: row["cell"] for row in record()["claims"]}
    assert cells == {"double": "c04", "order": "c05"}


def test_two_cells_must_not_decide_the_same_claim(monkeypatch):
    some = book()
    for cell in ("c04", "c04", "c05"):  # the second time the cell is run again
        monkeypatch.setattr(sources, "running_cell", lambda _, cell=cell: cell)
        if cell == "c04":
            some.number("double", 4.0)
    with pytest.raises(WorkbookError, match="decided twice, by the cells c04 and c05"):
        some.number("double", 4.0)


def test_outside_a_kernel_there_is_no_cell():
    assert sources.running_cell(paths.NOTEBOOKS / "toy/fig1.ipynb") == ""
