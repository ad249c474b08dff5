"""What two runs are compared by: numbers left behind, and margins of comparisons."""

import ast

import numpy as np
import pandas as pd
import pytest

from reproduce.mutation.watched import Watch, attach, numbers, watching


def run(source, **names):
    watch = Watch()
    namespace = dict(names)
    attach(namespace, watch)
    for place, node in enumerate(ast.parse(source).body):
        watch.now = place
        exec(watching(node), namespace)
        watch.keep(place, ["y"], namespace)
    return watch, namespace


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("y = 1 < 2 < x", True),
        ("y = 1 < x < 2", False),
        ("y = list(np.arange(3) >= 1)", [False, True, True]),
        ("y = all(k != 5 for k in range(3))", True),
        ("y = 'a' == 'a'", True),
        ("y = 2 in (1, 2)", True),
        ("y = np.allclose([1.0], [1.0 + 1e-9], rtol=1e-6)", True),
    ],
)
def test_comparisons_are_those_of_python(source, value):
    assert run(source, x=3, np=np)[1]["y"] == value


@pytest.mark.parametrize(
    ("source", "moved", "same", "safer"),
    [
        ("y = x < 2.0", 1.0, True, False),
        ("y = x < 2.0", 1.0 + 1e-13, True, False),
        ("y = x < 2.0", 0.5, False, True),
        ("y = x < 2.0", 1.5, False, False),
        ("y = x > 2.0", 0.5, False, True),  # false before, and further from being true
        ("y = x > 2.0", 1.5, False, False),
        ("y = x == 1.0", 1.1, False, False),
        ("y = np.allclose(x, 1.5, atol=1)", 1.2, False, True),
        ("y = x", 1.0, True, False),  # no comparison: the numbers themselves
        ("y = x", 1.1, False, False),
    ],
)
def test_margins_tell_a_safer_test_from_a_worse_one(source, moved, same, safer):
    before, after = run(source, x=1.0, np=np)[0], run(source, x=moved, np=np)[0]
    assert before.same(after, [0]) is same
    assert before.safer(after, [0]) is safer


def test_each_claim_of_a_statement_has_a_number_of_its_own():
    """The statement that decides two claims moves one of them: nothing has happened to the other."""
    before, after = Watch(), Watch()
    for watch, moved in ((before, 2.0), (after, 2.05)):
        watch.number("a", 1.0, 1.01, 0.0, 0.1)
        watch.number("b", moved, 2.01, 0.0, 0.1)
    assert before.same(after, [0], "a") and not before.same(after, [0], "b")
    assert not before.safer(after, [0], "b") and after.safer(before, [0], "b")
    assert not before.same(Watch(), [0], "a") and not before.safer(Watch(), [0], "a")
    settled = Watch()
    settled.take(before, [], "a")
    assert before.same(settled, [0], "a") and not before.same(settled, [0], "b")


def test_numbers_of_all_kinds_of_values():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    assert numbers({"k": [1, np.float64(2.5), "text", None], "f": (True,)}).tolist() == [1, 2.5, 1]
    assert numbers(frame).tolist() == [1.0, 2.0]
    assert numbers(np.arange(6).reshape(2, 3)).tolist() == [0, 1, 2, 3, 4, 5]
    assert numbers(len).size == 0
    assert numbers(np.ones(50_000))[-1] == 30_000
