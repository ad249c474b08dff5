"""What of a notebook one claim depends on."""

import pytest

from reproduce import slices

CELLS = {
    "a": "import numpy as np\nimport pandas as pd\nfrom m import Workbook, draw, fit\n"
    'book = Workbook("toy/fig1", globals())\nrng = np.random.default_rng(0)',
    "b": "x = rng.normal(size=3)\ny = rng.normal(size=3)\nrows = []\n"
    "for k in range(3):\n    rows.append(k * x)\nrows",
    "c": 'fig = draw(rows)\nfig.set_title("t")\nbook.save(fig, {"rows": rows}, caption="c")',
    "d": 'book.number("one", sum(rows))\nbook.number("two", y)\nprint(x)',
    "e": 'book.condition("learns", y.sum() > 0, "enough")',
    "f": "z = fit(x)\nz.scale = 2\nfor name in table:\n    book.statement(name, z, 'ours')",
}


LOOP, TOLD = "for k in (1, 2):\n    b = k\n", "book.number('k', a)"
"""A loop whose names a later one may bind again, and what needs `a`."""


def code(claim, cell="", needs=(), cells=CELLS):
    found = slices.statements(cells)
    wanted = slices.deciding(found, claim, cell, needs)
    return slices.sources(found, slices.backwards(found, wanted))


def test_a_slice_has_what_the_claim_needs_and_no_picture():
    got = code("one", "d")
    assert list(got) == ["a", "b", "d"]
    assert got["d"] == "book.number('one', sum(rows))"
    assert "pd" not in got["a"] and "draw" not in got["a"] and "Workbook" in got["a"]
    assert "rows.append" in got["b"] and "y =" not in got["b"]


def test_a_draw_changes_the_generator():
    assert "x = rng.normal" in code("two", "d")["b"]  # drawn before y, from the same generator


def test_conditions_come_with_the_claims_that_need_them():
    assert "e" not in code("one", "d")
    got = code("one", "d", needs=["learns"])
    assert "condition" in got["e"] and "y =" in got["b"]


def test_a_computed_id_takes_all_verdicts_of_its_cell():
    got = code("three", "f")
    assert "book.statement(name" in got["f"] and "z.scale = 2" in got["f"]
    assert not code("three")


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("a = 1\na = 2\nb = a\nbook.number('k', b)", ["a = 2", "b = a"]),
        ("a = [1]\na += [2]\nbook.number('k', a)", ["a = [1]", "a += [2]"]),
        ("a = {}\nb = 3\na[b] = 1\nbook.number('k', a)", ["a = {}", "b = 3", "a[b] = 1"]),
        ("a = [2, 1]\na.sort()\nlen(a)\nbook.number('k', a)", ["a = [2, 1]", "a.sort()", "len(a)"]),
        ("a = f()\nchange(a)\nbook.number('k', a)", ["a = f()", "change(a)"]),
        ("a = 1\nprint(a)\nbook.number('k', a)", ["a = 1"]),
        ("k = 1\na = [k for k in range(3)]\nbook.number('k', a)", ["a = [k for k in range(3)]"]),
        ("n = 1\na = lambda k: k + n\nbook.number('k', a)", ["n = 1", "a = lambda k: k + n"]),
        (f"import numpy as np\n{LOOP}c = np.append(b, 1)\na = np.sort([])\n{TOLD}", []),
        ("if c:\n    a = 1\nbook.number('k', a)", ["if c:", "    a = 1"]),
        ("a = 1\nif c:\n    a = 2\nbook.number('k', a)", ["a = 1", "if c:", "    a = 2"]),
        ("def f(x):\n    return x + n\nn = 1\nbook.number('k', f(2))", ["n = 1"]),
        (f"{LOOP}a = []\nfor k in (3, 4):\n    b = 2 * k\n    a.append(b)\n{TOLD}", []),
        (f"{LOOP}a = []\nfor k in (3, 4):\n    a.append(b)\n{TOLD}", [*LOOP.splitlines()]),
        (f"{LOOP}a = []\nfor j in (3, k):\n    a.append(j)\n{TOLD}", [*LOOP.splitlines()]),
        (f"{LOOP}a = []\nif c:\n    b = 3\na.append(b)\n{TOLD}", [*LOOP.splitlines()]),
        (f"{LOOP}a = []\nwhile c:\n    a += b\n    b = 1\n{TOLD}", [*LOOP.splitlines()]),
        (f"{LOOP}a = []\nwhile c:\n    b = 1\n    a += b\n{TOLD}", []),
    ],
)
def test_what_a_statement_changes(source, kept):
    got = code("k", "a", cells={"a": source})["a"].splitlines()
    assert [line for line in kept if line in got] == kept
    assert kept or "for k in (1, 2):" not in got  # another loop over the same names
    if "print" in source or "a = 1\na = 2" in source:
        assert got[:-1] == kept


def test_an_earlier_draw_is_none_of_the_statements_of_a_claim():
    found = slices.without_draws(slices.statements(CELLS))
    kept = slices.backwards(found, slices.deciding(found, "two", "d", ()))
    assert list(slices.sources(found, kept)["b"].splitlines()) == ["y = rng.normal(size=3)"]


def test_a_cell_that_is_no_python_is_refused():
    with pytest.raises(SyntaxError):
        slices.statements({"a": "%matplotlib inline"})
