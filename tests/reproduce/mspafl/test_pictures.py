"""The pictures of Figures 3 to 6: the paper's panels, what the adversaries learn, and the axes."""

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from repro.report import style
from reproduce.papers.mspafl import pictures
from reproduce.papers.words import number

X, AT = np.geomspace(1, 100, 9), np.array([1, 10, 100])
PRINTED = {part: {"p = 0.1": X * 0.1, "p = 1": X} for part in ("(a)", "(b)")}


def bracket(low, high):
    return {"lower": AT * low, "upper": AT * high}


VIEWS = {
    part: {label: {"server": bracket(0.2, 0.3), "average": bracket(0.01, 0.02)} for label in row}
    for part, row in PRINTED.items()
}


@pytest.fixture(autouse=True)
def close():
    style.use()
    yield
    plt.close("all")


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.5, "0.5"), (1000, "1,000"), (1e-4, "10⁻⁴"), (2.5e-6, "2.5·10⁻⁶"), (0.001, "0.001")],
)
def test_numbers_as_an_axis_says_them(value, words):
    assert number(value) == words


def test_labels_keep_their_order_and_their_distance():
    found = pictures.spread([0.5, 0.1, 0.51], 0.1)
    assert np.all(np.diff(np.sort(found)) >= 0.1 - 1e-6)
    assert np.argsort(found).tolist() == [1, 0, 2]
    assert pictures.spread([0.1, 0.9], 0.1).tolist() == [0.1, 0.9]


def test_whole_runs_show_the_formula_first_and_each_truth_below():
    words = {
        "titles": {"(a)": "(a) first", "(b)": "(b) second"},
        "pair": "its own delta",
        "target": "the target",
        "target y": "true epsilon",
    }
    figure = pictures.totals(X, PRINTED, AT, VIEWS, VIEWS, words)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[:2] == ["(a) first", "(b) second"]
    assert [title[:3] for title in titles[2:]] == ["(c)", "(d)", "(e)", "(f)"]
    paper = figure.axes[0]
    assert [line.get_ydata().tolist() for line in paper.lines] == [
        values.tolist() for values in PRINTED["(a)"].values()
    ]
    assert {text.get_text() for text in paper.texts} == {"p = 0.1: 10", "p = 1: 100"}
    heights = [tuple(line.get_ydata()) for line in figure.axes[2].lines]
    for view, end in (("server", "lower"), ("server", "upper"), ("average", "upper")):
        assert tuple(VIEWS["(a)"]["p = 1"][view][end]) in heights
    assert (1, 1) in heights and (1, 1) not in [tuple(x.get_ydata()) for x in figure.axes[4].lines]


def test_one_round_has_a_row_for_each_setting():
    local = np.linspace(0, 1, 5)
    one = {"lower": 0.1, "upper": 0.2}
    names = ("server", "server, ended", "average", "average, ended")
    views = dict.fromkeys(names, one)
    figure = pictures.one_round(
        local,
        {part: {"p = 1": local} for part in ("(a)", "(b)")},
        {"(a)": "(a)", "(b)": "(b)"},
        {"p = 1, q = 1": (0.1, views), "p = 0.1, q = 1": (0.4, views)},
    )
    dots = figure.axes[-1]
    assert [label.get_text() for label in dots.get_yticklabels()] == [
        "p = 1, q = 1",
        "p = 0.1, q = 1",
    ]
    assert [text.get_text() for text in dots.texts][:4] == ["2×", "2×", "0.5×", "0.5×"]


def test_a_bracket_in_words():
    assert pictures._between(bracket(0.2, 0.3)) == "20–30"
    assert pictures._between(bracket(0.2, 0.2001)) == "20"
