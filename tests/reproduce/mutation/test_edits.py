"""Each kind of mutant is made of code, and what is no fault is left alone."""

import ast

import pytest

from reproduce.mutation import edits


def found(source, cell=True):
    (tree,) = ast.parse(source).body
    return [one.text for one in edits.edits(tree, cell=cell)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("y = 2.0 * x", ["constant 2.0 * x -> 2.1 * x", "constant 2.0 * x -> 1.9 * x"]),
        ("y = 1e-12 / x", ["constant 1e-12 / x -> 1.05e-12 / x", "constant 1e-12 / x -> 9.5e-13 / x"]),
        ("y = x % 5", ["constant x % 5 -> x % 6", "constant x % 5 -> x % 4"]),
        ("y = 0 + x", ["sign 0 + x -> 0 - x", "constant 0 + x -> 0.05 + x", "constant 0 + x -> -0.05 + x"]),
        ("y = a - b", ["sign a - b -> a + b"]),
        ("y += a", ["sign y += a -> y -= a"]),
        ("y = f(-x)", ["sign f(-x) -> f(+x)"]),
        ("y = a < b", ["comparison a < b -> a > b"]),
        ("y = a == b", ["comparison a == b -> a != b"]),
        ("y = x[1]", ["index x[1] -> x[2]"]),
        ("y = x[a, -1]", ["index x[a, -1] -> x[a, -2]"]),
        ("y = f(direction='add')", ["direction direction='add' -> direction='remove'"]),
    ],
)  # fmt: skip
def test_kinds(source, expected):
    assert found(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "y = f(x, 3)",  # a point at which the cell tests
        "for k in range(20):\n    f(k)",
        "y = a in b",
        "y = 'a' + b",
        "y = [1] + b",
        "y = f'{2 * x}'",
        "y = rng.normal(size=3) * 2",
        "y = rng.uniform(size=3) < x",
        "y = np.allclose(a, b, rtol=2 * x)",
        "book.check('one', ok, f'{2 * x}', 'x - 1')",
        "y = 1 + 1e-9",
        "y = np.sum(x, axis=1)",
        "from x import y",
    ],
)
def test_no_faults_of_a_cell(source):
    assert found(source) == []


@pytest.mark.parametrize("source", ["y = a < 3e-9", "y = a < 1.01 * b", "y = a <= b * (1 + 1e-9)"])
def test_the_yardstick_of_a_test_is_turned_round_but_not_moved(source):
    (one,) = found(source)
    assert one.startswith("comparison")


def test_in_a_function_every_number_is_moved():
    source = (
        'def f(x: int = 3, *, way="add"):\n    if x < 0.5:\n        raise ValueError(2)\n'
        "    return g(x, 2.0)[0] - 1"
    )
    kinds = [one.split()[0] for one in found(source, cell=False)]
    assert sorted(kinds) == sorted(["constant"] * 8 + ["direction", "comparison", "index", "sign"])


def test_ids_are_unique_and_the_two_directions_of_a_move_belong_together():
    (tree,) = ast.parse("y = 2 * x + 2 * x").body
    made = edits.edits(tree, cell=True)
    assert len({one.text for one in made}) == len(made) == 5
    moves = [one.move for one in made if one.kind == "constant"]
    assert sorted(moves.count(one) for one in set(moves)) == [2, 2]


def test_the_edited_tree_has_one_change_and_the_first_none():
    (tree,) = ast.parse("y = a - b * x[0]").body
    texts = {ast.unparse(edits.edited(tree, one)) for one in edits.edits(tree, cell=True)}
    assert texts == {"y = a + b * x[0]", "y = a - b * x[1]"}
    assert ast.unparse(tree) == "y = a - b * x[0]"
