"""What derivations show: the boxes of verdicts, the table on top, and where its links lead."""

import json
import re

import pytest

import workbooks
from reproduce import boxes, catalogue, results, sources
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


def test_a_remark_is_no_correction():
    row = {"verdict": "loose", "ours": "2.9 times", "reason": "without the condition"}
    assert "*Note:* without the condition" in boxes.Boxes("p/f", {"one": row})._repr_markdown_()


PARTS = [entry for entry in catalogue.figures() if entry.whole.endswith("/derivations")]
WHOLES = [entry for entry in PARTS if not entry.part_of]

LONGEST = 60
"""Cells of a notebook of derivations."""


def code_cells(entry):
    return sources.cells(entry.notebook)


def pictures_in(entry):
    outputs = [
        output
        for cell in sources.read(entry.notebook)["cells"]
        for output in cell.get("outputs", [])
    ]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def boxed(text):
    return [
        claim
        for call in re.findall(r"verdicts\(book,([^)]*)\)", text)
        for claim in re.findall(r'"([^"]+)"', call)
    ]


@pytest.mark.parametrize("entry", PARTS, ids=lambda entry: entry.id)
def test_derivations_show_every_verdict_on_top_and_in_a_box_of_its_section(entry):
    code = code_cells(entry)
    assert any("overview(book)" in text for text in code.values())
    shown = [claim for text in code.values() for claim in boxed(text)]
    assert sorted(shown) == sorted(claim.id for claim in entry.claims)
    headings = [one.text for one in sources.headings(entry.notebook)]
    assert len(set(headings)) == len(headings)
    assert len(sources.read(entry.notebook)["cells"]) <= LONGEST


@pytest.mark.parametrize("entry", PARTS, ids=lambda entry: entry.id)
def test_a_cell_of_derivations_decides_one_claim_and_boxes_it(entry):
    code = code_cells(entry)
    decided = [(row["cell"], row["id"]) for row in results.result(entry).rows]
    assert len({cell for cell, _ in decided}) == len(decided)
    assert [(cell, boxed(code[cell])) for cell, _ in decided] == [
        (cell, [f"{claim.rpartition('/')[2]}"]) for cell, claim in decided
    ]


@pytest.mark.parametrize("entry", WHOLES, ids=lambda entry: entry.paper)
def test_derivations_explain_with_at_least_four_pictures_and_one_in_each_notebook(entry):
    counts = [pictures_in(part) for part in catalogue.parts(entry)]
    assert sum(counts) >= 4 and min(counts) >= 1


@pytest.mark.parametrize("entry", PARTS, ids=lambda entry: entry.id)
def test_links_inside_derivations_lead_to_headings(entry):
    cells = sources.read(entry.notebook)["cells"]
    text = "\n".join(sources.text(cell) for cell in cells if cell["cell_type"] == "markdown")
    for file, anchor in re.findall(r"\]\(([\w-]*(?:\.ipynb)?)(#[^\s)]+)?\)", text):
        notebook = entry.notebook.with_name(file) if file else entry.notebook
        assert notebook.is_file(), file
        anchors = {f"#{one.anchor}" for one in sources.headings(notebook)}
        assert not anchor or anchor in anchors, file + anchor


@pytest.mark.parametrize("entry", WHOLES, ids=lambda entry: entry.paper)
def test_the_first_notebook_lists_the_claims_and_sections_of_all(entry):
    parts = catalogue.parts(entry)
    shown = boxes.overview(Workbook(entry.id, entry.parameters("quick")))._repr_markdown_()
    first = sources.text(sources.read(entry.notebook)["cells"][0])
    for part in parts:
        assert all(f"[{claim.id}](" in shown for claim in part.claims)
        file = "" if part == entry else part.notebook.name
        assert f"]({file}#" in first and f"]({file}#" in shown
        if part != entry:
            own = sources.text(sources.read(part.notebook)["cells"][0])
            assert f"]({entry.notebook.name})" in own


@pytest.mark.parametrize("entry", PARTS, ids=lambda entry: entry.id)
def test_the_committed_table_is_that_of_the_committed_figures(entry):
    """A change in one notebook leaves the table of the first one behind: make references renews it."""
    cells = sources.read(entry.notebook)["cells"]
    texts = [
        "".join(output["data"]["text/markdown"])
        for cell in cells
        if "overview(book)" in sources.text(cell)
        for output in cell.get("outputs", [])
        if "text/markdown" in output.get("data", {})
    ]
    shown = boxes.overview(Workbook(entry.id, entry.parameters("quick")))._repr_markdown_()
    assert texts == [shown]
