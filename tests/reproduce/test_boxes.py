"""What derivations show: the boxes of verdicts, the table on top, and where its links lead."""

import json

import pytest

import workbooks
from reproduce import boxes, catalogue, sources
from reproduce.notebook import Workbook


@pytest.fixture
def toy(tmp_path, monkeypatch):
    root = workbooks.build(tmp_path, monkeypatch)
    return Workbook("toy/fig1", catalogue.figure("toy/fig1").parameters("quick")), root


def test_a_box_shows_verdict_evidence_and_what_is_true_instead(toy):
    book, _ = toy
    book.statement("order", False, "falls at 3 of 4 points", "c_d * 2 would rise")
    text = boxes.verdicts(book, "double", "order")._repr_markdown_()
    assert text.startswith("> **toy/fig1/order: differs.** falls at 3 of 4 points")
    assert "*Instead:* c\\_d \\* 2 would rise" in text
    assert "double" not in text  # still open
    assert "falls at 3 of 4 points" in repr(boxes.verdicts(book, "order"))


def test_the_table_links_to_the_heading_before_the_deciding_cell(toy):
    book, root = toy
    notebook = root / "notebooks/toy/fig1.ipynb"
    content = json.loads(notebook.read_text())
    decides = next(c["id"] for c in content["cells"] if "order" in sources.text(c))
    place = next(k for k, c in enumerate(content["cells"]) if c["id"] == decides)
    heading = {"cell_type": "markdown", "id": "h", "metadata": {}, "source": "## A\n\n### B 2 c\n"}
    content["cells"].insert(place, heading)
    notebook.write_text(json.dumps(content))
    assert boxes.headings(notebook)[decides] == "B 2 c"
    assert boxes.anchor("B 2 c") == "B-2-c"
    record = {"profile": "quick", "complete": True, "claims": [
        {"id": "order", "verdict": "differs", "ours": "long " * 60, "cell": decides}]}  # fmt: skip
    path = root / "figures/toy/fig1.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
    lines = boxes.overview(book)._repr_markdown_().splitlines()
    row = next(line for line in lines if "order" in line)
    assert row.startswith("| [order](#B-2-c): ") and "| differs |" in row
    assert len(row) < 300 and row.rstrip(" |").endswith("…")
    assert "| - |" in next(line for line in lines if "double" in line)


def test_every_heading_with_a_verdict_is_unique():
    for entry in catalogue.figures():
        if entry.name == "derivations" and "boxes" in entry.notebook.read_text():
            texts = [
                line.lstrip("#").strip()
                for cell in sources.read(entry.notebook)["cells"]
                if cell["cell_type"] == "markdown"
                for line in sources.text(cell).splitlines()
                if line.startswith("#")
            ]
            assert len(set(texts)) == len(texts)
            assert all(boxes.headings(entry.notebook).values())
