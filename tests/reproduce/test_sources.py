"""Headings of a notebook, and links that land on the section of a cell."""

import pytest

import workbooks
from reproduce import sources

CELLS = (
    ("a", "md", "# Title\n\ntext\n\n```\n# no heading\n```\n#neither"),
    ("b", "code", "x = 1"),
    ("c", "md", "intro\n\n## Theorem 4.1: *false* for $d > 1$ ##\n\n### Proof of `f`"),
    ("d", "code", "y = 1"),
    ("e", "md", 'no heading, but "text"'),
    ("f", "code", "z = 1"),
)


@pytest.fixture
def notebook(tmp_path):
    path = tmp_path / "book.ipynb"
    workbooks.write_notebook(path, CELLS)
    return path


def test_headings_in_order_without_marks(notebook):
    found = [(one.level, one.text, one.cell) for one in sources.headings(notebook)]
    assert found == [
        (1, "Title", "a"),
        (2, "Theorem 4.1: false for $d > 1$", "c"),
        (3, "Proof of f", "c"),
    ]


@pytest.mark.parametrize(
    ("cell", "link"),
    [("b", "#Title"), ("d", "#Proof-of-f"), ("f", "#Proof-of-f"), ("unknown", "")],
)
def test_a_link_lands_on_the_last_heading_before_the_cell(notebook, cell, link):
    assert sources.link(notebook, cell) == link


@pytest.mark.parametrize(
    ("text", "anchor"),
    [
        ("Theorem 4.1: false", "Theorem-4.1:-false"),
        ("(3) is better, $k/T$", "%283%29-is-better,-$k/T$"),
        ('"As $T\\to\\infty$"', "%22As-$T%5Cto%5Cinfty$%22"),
        ("Rényi", "R%C3%A9nyi"),
    ],
)
def test_anchors(text, anchor):
    assert sources.Heading(2, text, "c").anchor == anchor


def test_a_notebook_without_headings_is_linked_as_a_whole(tmp_path):
    workbooks.write_notebook(tmp_path / "book.ipynb", [("b", "code", "x = 1")])
    assert sources.link(tmp_path / "book.ipynb", "b") == ""
