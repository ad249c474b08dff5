"""The ledger: every claim is a row, links lead to cells, and stale files are told."""

from __future__ import annotations

import json

import matplotlib

matplotlib.use("agg")

import pytest

import workbooks
from repro import atomic
from reproduce import catalogue, ledger, paths, results


@pytest.fixture
def toy(tmp_path, monkeypatch):
    return workbooks.build(tmp_path, monkeypatch)


def claims() -> dict:
    return json.loads((paths.FIGURES / "claims.json").read_text())


def stale() -> list[str]:
    return results.result(catalogue.figure("toy/fig1")).stale


def test_without_results_every_claim_is_not_yet(toy, capsys):
    assert ledger.main([]) == 0
    assert claims()["counts"] == {"not yet": 3}
    reasons = [row["reason"] for row in claims()["claims"]]
    assert reasons == [f"not run: make fig/toy/{name}" for name in ("derivations", "fig1", "fig1")]
    assert "3 claims: 3 not yet" in capsys.readouterr().out


def test_verdicts_are_collected_and_counted(toy):
    workbooks.run_toy()
    workbooks.run_derivations()
    assert ledger.main([]) == 0
    found = claims()
    assert found["counts"] == {"reproduced": 2, "holds": 1}
    assert found["stale"] == {}
    assert {row["id"] for row in found["claims"]} == {
        "toy/fig1/double",
        "toy/fig1/order",
        "toy/derivations/lemma",
    }
    text = (paths.FIGURES / "CLAIMS.md").read_text()
    assert "| toy | 3 | 2 | 1 |" in text
    assert "the line \\| rises" in text


def test_links_lead_to_the_section_of_the_cell_that_names_the_claim(toy):
    workbooks.run_toy()
    ledger.main([])
    rows = {row["id"]: row for row in claims()["claims"]}
    assert rows["toy/fig1/double"]["link"] == "notebooks/toy/fig1.ipynb#A-line"
    text = (paths.FIGURES / "CLAIMS.md").read_text()
    assert "[reproduced](../notebooks/toy/fig1.ipynb#A-line)" in text


def test_the_same_files_give_the_same_ledger(toy):
    workbooks.run_toy()
    ledger.main([])
    first = [(paths.FIGURES / name).read_bytes() for name in ("CLAIMS.md", "claims.json")]
    workbooks.run_toy()  # other seconds
    ledger.main([])
    assert [(paths.FIGURES / name).read_bytes() for name in ("CLAIMS.md", "claims.json")] == first


def test_values_are_those_of_the_figures_digit_by_digit(toy):
    workbooks.run_toy()
    path = paths.FIGURES / "toy/fig1.json"
    path.write_text(path.read_text().replace('"value": 4.0', '"value": 4.000000000000001'))
    ledger.main([])
    assert {row["value"] for row in claims()["claims"]} == {None, 4.000000000000001}


def test_fresh_files_are_not_stale(toy):
    workbooks.run_toy()
    assert stale() == []


def test_a_changed_notebook_makes_its_figure_stale(toy, capsys):
    workbooks.run_toy()
    workbooks.edit_notebook(paths.NOTEBOOKS / "toy/fig1.ipynb", "sigma * k", "sigma * k * 1")
    assert stale() == ["the notebook's code has changed"]
    ledger.main([])
    assert "stale: toy/fig1" in capsys.readouterr().err
    assert claims()["stale"] == {"toy/fig1": ["the notebook's code has changed"]}
    assert ledger.main(["--check"]) == 1


def test_outputs_alone_make_nothing_stale(toy):
    workbooks.run_toy()
    path = paths.NOTEBOOKS / "toy/fig1.ipynb"
    book = json.loads(path.read_text())
    next(cell for cell in book["cells"] if cell["cell_type"] == "code")["execution_count"] = 7
    path.write_text(json.dumps(book))
    assert stale() == []


def test_a_changed_claim_makes_its_figure_stale(toy):
    workbooks.run_toy()
    changed = workbooks.TOML.replace("rtol = 0.01", "rtol = 0.5")
    workbooks.catalogue_file().write_text(changed)
    assert stale() == ["the catalogue's claims have changed"]


def test_runs_with_other_parameters_or_of_another_profile_leave_the_ledger_alone(toy):
    workbooks.run_toy()
    ledger.main([])
    before = (paths.FIGURES / "claims.json").read_bytes()
    workbooks.run_toy(sigma=1.0)
    workbooks.run_toy(profile="desk", rounds=30)
    assert stale() == []
    ledger.main([])
    assert (paths.FIGURES / "claims.json").read_bytes() == before


OTHER = "made with other parameters than the notebook and the catalogue have"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"rounds": 3', '"rounds": 4', OTHER),
        ('"sigma": 2.0', '"sigma": 3.0', OTHER),
    ],
)
def test_a_file_of_another_run_is_told(toy, old, new, why):
    workbooks.run_toy()
    path = paths.FIGURES / "toy/fig1.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert stale() == [why]


def test_a_file_of_another_profile_decides_nothing(toy):
    workbooks.run_toy()
    path = paths.FIGURES / "toy/fig1.json"
    path.write_text(path.read_text().replace('"profile": "quick"', '"profile": "desk"'))
    found = results.result(catalogue.figure("toy/fig1"))
    assert {row["verdict"] for row in found.rows} == {"not yet"}
    assert (
        found.rows[0]["reason"]
        == "fig1.json is of profile 'desk': make fig/toy/fig1 writes it anew"
    )


def test_a_picture_that_does_not_belong_is_told(toy):
    workbooks.run_toy(picture=True)
    (paths.FIGURES / "toy/fig1.pdf").unlink()  # not committed
    assert stale() == []
    (paths.FIGURES / "toy/fig1.png").write_bytes(b"another")
    assert stale() == ["the png is not the one written with the numbers"]
    (paths.FIGURES / "toy/fig1.png").unlink()
    assert stale() == ["the png is missing"]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "5", '{"complete": false}', '{"complete": true}', '{"claims": []}']
)
def test_half_a_result_counts_as_none(toy, content):
    paths.FIGURES.joinpath("toy").mkdir(parents=True)
    (paths.FIGURES / "toy/fig1.json").write_text(content)
    assert results.result(catalogue.figure("toy/fig1")).counts() == {"not yet": 2}


def test_a_full_disk_is_one_line_and_no_damage(toy, monkeypatch, capsys):
    ledger.main([])
    before = (paths.FIGURES / "claims.json").read_bytes()
    workbooks.run_toy()

    def fsync(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", fsync)
    assert ledger.main([]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert (paths.FIGURES / "claims.json").read_bytes() == before


def test_check_writes_nothing(toy):
    assert ledger.main(["--check"]) == 1
    assert not paths.FIGURES.exists()
    ledger.main([])
    assert ledger.main(["--check"]) == 0
