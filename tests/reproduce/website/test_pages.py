"""How notebooks, README and ledger become pages, and the examples on the pages about Python."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
import warnings

import nbformat
import pytest
from docutils import nodes
from sphinx.errors import ExtensionError

import repro
from reproduce import paths
from reproduce.teaching import editions
from reproduce.website import books, building, extension, gathering, pages, papers

API = sorted((gathering.WRITTEN / "api").glob("*.md"))


@pytest.mark.parametrize("path", API, ids=lambda path: path.stem)
def test_examples_give_what_the_page_shows(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = doctest.testfile(str(path), module_relative=False)
    assert found.failed == 0
    assert found.attempted > 0 or path.stem == "index"


def test_every_room_with_public_names_is_on_a_page():
    shown = "".join(path.read_text(encoding="utf-8") for path in API)
    for room in pkgutil.iter_modules(repro.__path__, "repro."):
        if room.ispkg and hasattr(importlib.import_module(room.name), "__all__"):
            assert f"automodule:: {room.name}\n" in shown


# Formulas and docstrings --------------------------------------------------------------------------


def test_a_formula_becomes_mathml_and_an_unknown_command_is_refused():
    assert "<mfrac>" in extension.mathml(r"\frac12", display=False)
    assert "(3)" in extension.mathml(r"x = 1 \tag{3}", display=True)
    with pytest.raises(ExtensionError, match=r"\\unheard.*is not understood"):
        extension.mathml(r"\unheard{x}", display=False)


def docstring(text: str) -> str:
    lines = text.split("\n")
    extension.plain(None, "", "", None, None, lines)
    return "\n".join(lines)


def test_signs_of_markup_in_a_docstring_are_shown_as_written():
    assert docstring("|x| <= 2 * y_i and `a*b|c|`, w_ *z") == (
        r"\|x\| <= 2 \* y_i and `a*b|c|`, w\_ \*z"
    )
    assert docstring("Two things:\n\n* one\n* two") == "Two things:\n\n* one\n* two"


def test_an_indented_block_is_literal_and_arguments_are_not():
    assert docstring("A box:\n\n    x |> y\n\nEnd |") == "A box:\n\n::\n\n    x |> y\n\nEnd \\|"
    assert docstring("Do.\n\nArgs:\n    x: a|b") == "Do.\n\nArgs:\n    x: a\\|b"


def test_the_anchor_of_a_heading_is_that_of_the_notebook():
    title = nodes.title("", "", nodes.Text("Is "), nodes.math("", "k/T"), nodes.Text(" needed?"))
    assert extension.anchor(title) == "Is-$k/T$-needed?"


# Notebooks ----------------------------------------------------------------------------------------


def written(folder, *cells):
    path = folder / "fig1.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path)
    return path


def markdown(source, *tags):
    return nbformat.v4.new_markdown_cell(source, metadata={"tags": list(tags)})


def code(source, *tags):
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)})


def test_code_of_a_paper_is_folded_and_a_second_title_is_lowered(tmp_path):
    text = "# One\n\nText\n\n## Part\n\n```\n# code\n```\n\n# Two"
    book = books.page(written(tmp_path, markdown(text), code("1 + 1")), "remark")
    first, second = book["cells"]
    assert first["source"] == ("# One\n\nremark\n\nText\n\n### Part\n\n```\n# code\n```\n\n## Two")
    assert "hide-input" in second["metadata"]["tags"]


def test_an_answer_is_folded_below_a_blank_and_notes_for_teachers_are_folded(tmp_path, monkeypatch):
    monkeypatch.setattr(editions, "FOLDER", tmp_path)
    path = written(
        tmp_path, markdown("# Lesson", "front"), markdown("### Plan\n\nText", "teacher"),
        code("guess = 7", "answer"), code("print(reveal(guess, '41'))"), code('sliders.show("lesson1")'),
    )  # fmt: skip
    _, notes, blank, answer, found, _, moved = books.page(path, "remark")["cells"]
    assert found["metadata"]["tags"] == ["hide-output"]
    assert 'href="../../sliders/lesson1.html"' in moved["source"]
    assert notes["source"].startswith("<details><summary>Plan</summary>\n\nText")
    assert "7" not in blank["source"] and "hide-cell" not in blank["metadata"]["tags"]
    assert "".join(answer["source"]) == "guess = 7" and "hide-cell" in answer["metadata"]["tags"]


def test_a_papers_notebooks_come_figures_first_then_derivations_then_the_audit(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path)
    (tmp_path / "toy").mkdir()
    for name in ("derivations-b", "audit", "fig10", "derivations", "fig2", "table1"):
        (tmp_path / f"toy/{name}.ipynb").touch()
    assert [path.stem for path in books.of_paper("toy")] == [
        "fig2", "fig10", "table1", "derivations", "derivations-b", "audit",
    ]  # fmt: skip


# Pages --------------------------------------------------------------------------------------------


def test_every_page_of_the_project_is_gathered():
    found = gathering.contents({"lesson1": "sliders/lesson1.html"})
    names = [path.relative_to(paths.ROOT).as_posix() for path in books.notebooks()]
    assert set(names) | {"index.md", "lessons.md", "reading.md", "citing.md"} <= set(found)
    assert b"<table>" not in found["README.md"]
    assert b"sliders/lesson1.html" in found["lessons.md"]
    lesson = json.loads(found["notebooks/walkthroughs/lesson1.ipynb"])
    assert "../../sliders/lesson1.html" in lesson["cells"][0]["source"]


def test_a_text_that_a_page_links_to_is_a_page_of_its_own():
    found = gathering.contents({})
    assert [name for name in gathering.linked(found) if name.endswith(".md")] == []
    assert "apps/flower/README.md" in found


def test_a_readme_without_its_marks_is_refused():
    with pytest.raises(ValueError, match="findings and gallery"):
        pages.parts("# Title\n\nText\n")


def test_lessons_are_read_in_their_order_each_before_its_paper():
    linked = re.findall(r"\| \[.*?\]\((\S+?)\) \|", pages.reading(papers.known()))
    lessons = [name for name in linked if "/walkthroughs/" in name]
    assert lessons == sorted(lessons) and len(lessons) == 6
    reports = [name for name in linked if name.endswith("REPORT.md")]
    for lesson, report in zip(lessons[1:], reports, strict=True):
        assert linked.index(lesson) + 1 == linked.index(report)


def test_reading_takes_five_minutes_for_each_thousand_words():
    assert [pages.minutes("word " * count) for count in (1, 1000, 1001)] == [5, 5, 10]


def test_what_sphinx_kept_is_dropped_with_other_code_and_after_a_failure(tmp_path, monkeypatch):
    for name in ("SITE", "PAGES", "DOCTREES", "EXTRA"):
        monkeypatch.setattr(building, name, tmp_path / name)
    monkeypatch.setattr(building, "_sliders", dict)
    monkeypatch.setattr(gathering, "gather", lambda folder, sliders: [])
    codes = iter((0, 1))
    monkeypatch.setattr(
        building.subprocess, "run", lambda *_, **__: type("Done", (), {"returncode": next(codes)})
    )
    building.build(1)
    (building.DOCTREES / "kept").touch()
    with pytest.raises(building.SiteError, match="warnings"):
        building.build(1)
    assert not building.DOCTREES.exists()
    building._forget("some code")
    (building.DOCTREES / "kept").touch()
    building._forget("some code")
    assert (building.DOCTREES / "kept").exists()
    building._forget("other code")
    assert not (building.DOCTREES / "kept").exists()
