"""Both editions of every lesson: complete, in step, without solutions for learners, and they run."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys

import nbformat
import pytest

import lessons
from reproduce import paths, references
from reproduce.machine import python_path
from reproduce.teaching import editions
from reproduce.teaching.__main__ import MOST_SECONDS

PATHS = editions.lessons()
NAMES = [path.stem for path in PATHS]
MACHINE = re.compile(r"/(?:home|root|work|tmp|Users|usr|opt|mnt|var)/|site-packages|0x[0-9a-f]{8,}")


@pytest.fixture(params=PATHS, ids=NAMES)
def path(request):
    return request.param


@pytest.fixture
def book(path):
    return lessons.book(path)


def tagged(book, tag):
    return [cell for cell in book.cells if tag in editions.tags(cell)]


def texts(book):
    """What the outputs say, pictures left out: cell id -> text."""
    return {
        cell["id"]: "".join(
            output.get("text", "") or output.get("data", {}).get("text/plain", "")
            for output in cell.get("outputs", [])
            if "image/png" not in output.get("data", {})
        )
        for cell in book.cells
        if cell["cell_type"] == "code"
    }


# The teachers' edition ------------------------------------------------------------------------------


def test_there_are_lessons():
    assert len(PATHS) >= 2


def test_the_front_says_what_a_reader_needs(book):
    first = book.cells[0]["source"]
    assert "front" in editions.tags(book.cells[0])
    assert re.search(r"\| 45 min \| 45 min \|", first)
    assert "**Questions**" in first and "**Objectives.**" in first
    (seconds,) = re.findall(r"computing: (\d+) s", first)
    assert 0 < int(seconds) < MOST_SECONDS


def test_every_part_is_there(book):
    for tag in ("setup", "glossary", "take-home", "slide", "way-on"):
        assert len(tagged(book, tag)) == 1, tag
    assert {tag for cell in book.cells for tag in editions.tags(cell)} >= set(editions.SECTIONS)
    plan = tagged(book, "teacher")[0]["source"]
    assert "90 minutes" in plan and "**Typical mistakes.**" in plan
    (page,) = tagged(book, "take-home")
    assert 100 < len(page["source"].split()) < 350


def test_a_section_is_of_one_kind_and_has_a_heading(book):
    for cell in book.cells:
        kinds = editions.tags(cell) & set(editions.SECTIONS)
        heading = re.match(r"## \d+\. (\w+)", cell["source"])
        assert bool(kinds) == bool(heading), cell["id"]
        if heading:
            assert len(kinds) == 1
            assert heading[1].lower() == kinds.pop().split("-")[0]


def test_every_exercise_has_question_hint_answer_and_solution(path, book):
    lesson = importlib.import_module(f"reproduce.teaching.{path.stem}").LESSON
    assert len(lesson.exercises) >= 8
    order = [cell["id"] for cell in book.cells]
    cells = {cell["id"]: cell for cell in book.cells}
    for number, exercise in lesson.exercises.items():
        name = f"e{number.replace('.', '-')}"
        start = order.index(name)
        assert order[start : start + 3] == [name, f"{name}-answer", f"{name}-solution"]
        assert f"**Exercise {number}: " in cells[name]["source"]
        assert "<details><summary>Hint</summary>" in cells[name]["source"]
        assert f'LESSON.check("{number}", ' in cells[f"{name}-answer"]["source"]
        assert (
            f"<details><summary>Solution {number}</summary>" in cells[f"{name}-solution"]["source"]
        )
        assert exercise.title.split(":")[-1].strip() in cells[name]["source"]
    assert len(tagged(book, "question")) == len(lesson.exercises)


def test_committed_outputs_are_whole_and_right(book):
    code = [cell for cell in book.cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert book["metadata"] == references.METADATA
    for cell in code:
        for output in cell["outputs"]:
            assert output["output_type"] != "error" and output.get("name") != "stderr"
    found = texts(book)
    assert not [name for name, text in found.items() if MACHINE.search(text)]
    checked = [name for name in found if re.fullmatch(r"e\d+-\d+-answer", name)]
    assert all("properties hold" in found[name] for name in checked)
    assert editions.picture(tagged(book, "slide")[0]).startswith(b"\x89PNG")


def test_links_lead_somewhere(book):
    for cell in book.cells:
        if cell["cell_type"] == "markdown":
            for link in re.findall(r"\]\(([^)#]+\.ipynb)\)", cell["source"]):
                assert (editions.FOLDER / link).is_file(), link


# The learners' edition ------------------------------------------------------------------------------


def test_learners_get_no_solution(book):
    made = editions.learners(book)
    assert not tagged(made, "solution") and not tagged(made, "teacher")
    kept = "\n".join(cell["source"] for cell in made.cells)
    for cell in tagged(book, "answer"):
        own = editions.blanked(cell["source"]).splitlines()
        for line in set(cell["source"].splitlines()) - set(own):
            if len(line.split("#")[0].strip()) > 12:
                assert line.strip() not in kept, f"{cell['id']}: {line}"
    assert all(not cell.get("outputs") for cell in made.cells)


def test_editions_are_in_step(book):
    """Learners have the cells of teachers in the same order, the same text outside of answers."""
    made = editions.learners(book)
    theirs = {cell["id"]: cell["source"] for cell in book.cells}
    shared = [
        cell["id"] for cell in book.cells if not editions.tags(cell) & {"teacher", "solution"}
    ]
    assert [cell["id"] for cell in made.cells] == shared
    for cell in made.cells:
        same = cell["source"] == theirs[cell["id"]]
        assert same != ("answer" in editions.tags(cell))
    nbformat.validate(made)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 3", "x = None  # your guess"),
        (
            'def f(a):\n    """What."""\n    return a\n\n\ncheck(f)',
            'def f(a):\n    """What."""\n    ...  # your answer\n\n\ncheck(f)',
        ),
        ("def f(a):\n    b = a\n    return b", "def f(a):\n    ...  # your answer"),
        ("x = [\n    1,\n]\ny = 2", "x = None  # your guess\ny = None  # your guess"),
    ],
)
def test_answers_are_emptied(source, expected):
    assert editions.blanked(source) == expected


def test_an_answer_cell_without_answer_is_refused():
    with pytest.raises(editions.EditionError, match="defines no function and no name"):
        editions.blanked("print(1)")


def test_pages_and_slides_are_written(tmp_path):
    written = editions.write(tmp_path)
    assert [path.name for path in written] == [path.name for path in PATHS]
    for name in NAMES:
        assert (
            (tmp_path / f"{name}.take-home.md").read_text(encoding="utf-8").startswith("## Lesson")
        )
        assert (tmp_path / f"{name}.slide.png").read_bytes().startswith(b"\x89PNG")
    assert editions.write(tmp_path) == written


def test_links_of_learners_lead_somewhere():
    for path in editions.write():
        cells = [cell for cell in lessons.book(path).cells if cell["cell_type"] == "markdown"]
        links = re.findall(r"\]\(([^)#]+\.ipynb)\)", "\n".join(cell["source"] for cell in cells))
        assert len(links) >= 3
        for link in links:
            assert (path.parent / link).is_file(), link


@pytest.mark.slow
def test_both_editions_run(tmp_path):
    """As `make teach` runs them; the teachers' outputs are the committed ones."""
    done = subprocess.run(
        [sys.executable, "-m", "reproduce.teaching"],
        cwd=paths.ROOT,
        env={**os.environ, "PYTHONPATH": python_path(), "REPRO_BUILD": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for path in PATHS:
        executed = tmp_path / "teach/executed"
        assert texts(lessons.book(executed / "teachers" / path.name)) == texts(lessons.book(path))
        found = texts(lessons.book(executed / "learners" / path.name))
        answers = [text for name, text in found.items() if re.fullmatch(r"e\d+-\d+-answer", name)]
        assert len(answers) >= 8
        assert all("no answer yet" in text for text in answers)
