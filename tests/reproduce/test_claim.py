"""One claim decided anew: the same verdict as in the ledger, no file written, clear errors."""

import json
import sys

import pytest

import workbooks
from reproduce import catalogue, claim, ledger, paths, results, slices, sources


@pytest.fixture
def toy(tmp_path, monkeypatch):
    root = workbooks.build(tmp_path, monkeypatch)
    workbooks.run_toy()
    ledger.main([])
    return root


def files(root):
    return {p: p.stat().st_mtime_ns for p in (root / "figures").rglob("*") if p.is_file()}


def test_the_verdict_is_the_ledger_s_and_nothing_is_written(toy, capsys):
    before = files(toy)
    capsys.readouterr()
    assert claim.main(["toy/fig1/double"]) == 0
    told = capsys.readouterr().out
    lines = dict(line.split(None, 1) for line in told.splitlines())
    assert (lines["verdict"], lines["ledger"], lines["ours"]) == ("reproduced",) * 2 + ("4",)
    assert lines["paper"] == "4" and lines["cell"] == "c04, in notebooks/toy/fig1.ipynb#A-line"
    assert "plt" not in told and float(lines["seconds"]) > 0
    assert files(toy) == before and not list((toy / "build").glob("claim-*"))


def test_a_ledger_that_says_something_else_is_told(toy, capsys):
    path = paths.FIGURES / "toy" / "fig1.json"
    record = json.loads(path.read_text())
    record["claims"][0]["verdict"] = "differs"
    path.write_text(json.dumps(record))
    assert claim.main(["toy/fig1/double"]) == 1
    assert "the ledger is not the same" in capsys.readouterr().out


def test_what_the_slice_misses_is_found_in_the_whole_notebook(toy, capsys):
    workbooks.edit_notebook(
        toy / "notebooks/toy/fig1.ipynb", "y = [sigma", 'globals()["hidden"] = 1\ny = [sigma'
    )
    workbooks.edit_notebook(
        toy / "notebooks/toy/fig1.ipynb",
        'book.number("double", y[2])',
        "book.number('double', y[2] * hidden)",
    )
    assert claim.main(["toy/fig1/double"]) == 0
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert lines["verdict"] == "reproduced" and lines["executed"].startswith("14 of 14")


def test_a_failing_cell_is_one_line(toy, capsys):
    workbooks.edit_notebook(
        toy / "notebooks/toy/fig1.ipynb", 'book.number("double"', 'unknown\nbook.number("double"'
    )
    workbooks.edit_notebook(toy / "notebooks/toy/fig1.ipynb", "y[2]", "y[20]")
    assert claim.main(["toy/fig1/double"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("toy/fig1/double: NameError") and told.count("\n") == 1


@pytest.mark.parametrize("name", ["toy/fig1/duoble", "double", "toy/fig1", ""])
def test_an_unknown_id_lists_near_ones(toy, capsys, name):
    assert claim.main([name]) == 2
    told = capsys.readouterr().err
    assert "<paper>/<figure>/<claim>" in told and told.count("\n") == 1
    assert "toy/fig1/double" in told or "CLAIMS.md" in told


def decided():
    """Every claim of the committed ledger that a cell decides."""
    return [
        (entry, known, row)
        for entry in catalogue.figures()
        for known, row in zip(entry.claims, results.result(entry).rows, strict=True)
        if row["profile"]
    ]


def test_the_deciding_cell_of_every_claim_is_found_and_starts_a_slice():
    found = {}
    for entry, known, row in decided():
        cells = sources.cells(entry.notebook)
        if entry.id not in found:
            found[entry.id] = slices.statements(cells)
        statements = found[entry.id]
        assert claim.find(known.full_id) == (entry, known)
        assert row["cell"] in cells, known.full_id
        wanted = slices.deciding(statements, known.id, row["cell"], known.needs)
        own = [statements[k] for k in wanted if statements[k].cell == row["cell"]]
        assert own, known.full_id
        if known.kind == "derivation":  # elsewhere ids may be computed
            assert any(known.id in one.texts for one in own), known.full_id
        assert set(wanted) <= set(slices.backwards(statements, wanted))
    assert len(found) > 40


@pytest.mark.slow
def test_claims_of_every_paper_are_decided_as_in_the_ledger():
    sys.path.insert(0, str(paths.ROOT / "bench"))
    import claim_times

    chosen = claim_times.sample(6, seed=1)
    problems = {name: claim_times.decide(name, 300)[-1] for name in chosen}
    assert problems == dict.fromkeys(chosen, "")
