"""The README's gallery is generated, and fresh."""

from __future__ import annotations

import json

import matplotlib

matplotlib.use("agg")

import pytest

import workbooks
from reproduce import gallery, paths

README = f"# Title\n\nbefore\n\n{gallery.BEGIN}\nold\n{gallery.END}\n\nafter\n"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    workbooks.build(tmp_path, monkeypatch)
    (tmp_path / "README.md").write_text(README)
    return tmp_path


def text() -> str:
    return (paths.ROOT / "README.md").read_text()


def test_only_the_part_between_the_markers_is_replaced(toy):
    workbooks.run_toy(picture=True)
    assert gallery.main([]) == 0
    assert text().startswith("# Title\n\nbefore\n")
    assert text().endswith("\n\nafter\n")
    assert "old" not in text()
    assert '<img src="figures/toy/fig1.png"' in text()
    assert '<a href="notebooks/toy/fig1.ipynb">toy/fig1</a>' in text()
    assert "2 reproduced" in text()
    assert "1 not yet" in text()
    assert "A toy paper" in text()


def test_it_is_stable_and_check_sees_a_new_verdict(toy):
    workbooks.run_toy()
    gallery.main([])
    first = text()
    workbooks.run_toy()  # other seconds
    workbooks.run_toy(sigma=1.0)  # changed parameters
    assert gallery.main(["--check"]) == 0
    path = paths.FIGURES / "toy/fig1.json"
    path.write_text(path.read_text().replace('"verdict": "reproduced"', '"verdict": "differs"', 1))
    assert gallery.main(["--check"]) == 1
    assert text() == first


def test_cost_is_that_of_the_reference_run_and_of_no_other(toy):
    workbooks.run_toy()
    assert "<td>-</td>" in gallery.gallery()
    cost = {"toy/fig1": {"seconds": 61.0, "peak_mib": 201.0}}
    paths.COSTS.write_text(json.dumps({"quick": cost, "desk": {"toy/derivations": cost}}))
    assert gallery.gallery().count("<td>2 min<br>250 MiB</td>") == 1


@pytest.mark.parametrize("content", ["", "[]", '{"quick": []}', '{"quick": {"toy/fig1": 5}}'])
def test_costs_of_the_wrong_shape_count_as_none(toy, content):
    paths.COSTS.write_text(content)
    assert "<td>-</td>" in gallery.gallery()


def test_missing_markers_are_one_clear_error(toy, capsys):
    (toy / "README.md").write_text("# Title\n")
    assert gallery.main([]) == 1
    assert "must hold the two lines" in capsys.readouterr().err
    assert text() == "# Title\n"
