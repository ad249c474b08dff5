"""The project's own notebooks, catalogue, ledger and gallery: complete, clean and in step."""

from __future__ import annotations

import ast
import html
import json
import re
import tomllib

import pytest

from reproduce import catalogue, compare, gallery, ledger, paths, references, results, sources
from reproduce.parameters import declared

ENTRIES = catalogue.figures()
MACHINE = re.compile(
    r"/(?:home|root|work|tmp|Users|usr|opt|mnt|var)/|[A-Z]:\\\\|site-packages|0x[0-9a-f]{8,}"
)
"""What betrays a machine, or differs between runs."""


def name(entry) -> str:
    return entry.id


def cells(entry) -> list[dict]:
    return sources.read(entry.notebook).get("cells", [])


def outputs(entry) -> list[dict]:
    return [output for cell in cells(entry) for output in cell.get("outputs", [])]


def texts(output: dict) -> str:
    """What an output says, pictures left out."""
    data = {
        key: value for key, value in output.get("data", {}).items() if not key.startswith("image/")
    }
    parts = [*data.values(), output.get("text", ""), output.get("traceback", "")]
    return "\n".join(part if isinstance(part, str) else "".join(map(str, part)) for part in parts)


def test_there_is_something_to_test():
    assert len(ENTRIES) >= 9


def test_every_notebook_is_in_the_catalogue():
    known = {entry.notebook for entry in ENTRIES}
    folders = {entry.notebook.parent for entry in ENTRIES}
    found = {path for folder in folders for path in folder.glob("*.ipynb")}
    assert found <= known


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_catalogue_entry_has_claims_and_a_notebook(entry):
    assert entry.claims
    assert len({claim.id for claim in entry.claims}) == len(entry.claims)
    assert entry.notebook.is_file()
    assert entry.notebook.relative_to(paths.NOTEBOOKS).with_suffix("").as_posix() == entry.id


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_parameters_cell_is_that_of_the_quick_profile(entry):
    assert declared(entry.notebook)["profile"] == "quick"


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_first_cell_explains_and_ids_are_there(entry):
    first = cells(entry)[0]
    assert first["cell_type"] == "markdown"
    assert len(sources.text(first)) > 200, (
        "the first cell says what is shown, what is claimed and where"
    )
    ids = [cell.get("id", "") for cell in cells(entry)]
    assert all(ids) and len(set(ids)) == len(ids)


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_notebook_was_run_whole_and_in_order(entry):
    code = [
        cell for cell in cells(entry) if cell["cell_type"] == "code" and sources.text(cell).strip()
    ]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert outputs(entry)
    assert "book.table()" in sources.text(code[-1])
    assert code[-1]["outputs"]


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_outputs_hold_no_error_no_warning_and_no_machine(entry):
    for output in outputs(entry):
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr", texts(output)[:200]
        found = MACHINE.search(texts(output))
        assert found is None, f"{found.group()!r} in: {texts(output)[:200]}"


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_notebook_metadata_is_that_of_renewed_references(entry):
    book = sources.read(entry.notebook)
    assert book["metadata"] == references.METADATA
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_no_notebook_defines_logic_of_its_own(entry):
    for source in sources.cells(entry.notebook).values():
        tree = ast.parse(re.sub(r"^\s*%.*$", "", source, flags=re.M))
        assert not [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_claims_shown_in_the_notebook_are_those_of_the_catalogue(entry):
    shown = texts(cells(entry)[-1]["outputs"][0]) if cells(entry)[-1].get("outputs") else ""
    shown = shown or "\n".join(texts(output) for output in outputs(entry))
    assert [claim.id for claim in entry.claims if claim.id not in shown] == []


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_stored_numbers_are_there_and_of_the_catalogues_parameters(entry):
    assert compare.reference_path(entry.id, "quick").exists(), "make references"
    stored = json.loads(compare.reference_path(entry.id, "quick").read_text())
    assert stored["id"] == entry.id
    assert set(stored["verdicts"]) == {claim.id for claim in entry.claims}
    expected = {key: value for key, value in entry.parameters("quick").items() if key != "profile"}
    assert stored["parameters"] == expected


def test_stored_numbers_belong_to_figures():
    assert [path for profile in catalogue.PROFILES for path in compare.orphans(profile)] == []


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_links_of_the_ledger_land_on_the_section_of_the_deciding_cell(entry):
    order = [cell["id"] for cell in cells(entry)]
    found = sources.headings(entry.notebook)
    for row in results.result(entry).rows:
        assert row["cell"] in sources.cells(entry.notebook), f"no cell decides {row['id']}"
        heading = sources.section(entry.notebook, row["cell"])
        assert heading is not None, f"no heading before the cell of {row['id']}"
        assert row["link"].endswith(f"{entry.id}.ipynb#{heading.anchor}")
        same = [one for one in found if one.anchor == heading.anchor]
        assert same == [heading], f"{row['id']} links to a heading that is there twice"
        assert heading.anchor.count("(") == heading.anchor.count(")"), "Markdown would cut the link"
        start, end = order.index(heading.cell), order.index(row["cell"])
        assert start < end
        later = found[found.index(heading) + 1 :]
        between = [one for one in later if start <= order.index(one.cell) < end]
        assert [one for one in between if one.level <= heading.level] == []


@pytest.mark.parametrize("entry", ENTRIES, ids=name)
def test_headings_have_the_anchors_that_the_pages_of_the_site_have(entry):
    from nbconvert.filters import markdown2html

    for cell in cells(entry):
        if cell["cell_type"] == "markdown":
            page = markdown2html(sources.text(cell))
            ids = [html.unescape(one) for one in re.findall(r'<h[1-6] id="([^"]*)"', page)]
            own = [one.anchor for one in sources.headings(entry.notebook) if one.cell == cell["id"]]
            assert own == ids


def test_ledger_is_that_of_the_figures():
    assert ledger.main(["--check"]) == 0


def test_gallery_is_that_of_the_figures():
    assert gallery.main(["--check"]) == 0


@pytest.mark.parametrize(
    "path", sorted(paths.PAPERS.glob("*/catalogue.toml")), ids=lambda path: path.parent.name
)
def test_every_number_has_its_tolerance_in_the_catalogue(path):
    for figure in tomllib.loads(path.read_text())["figures"].values():
        for claim in figure["claims"]:
            assert claim["kind"] != "number" or "rtol" in claim or "atol" in claim
