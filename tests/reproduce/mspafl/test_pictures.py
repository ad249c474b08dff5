"""The panels that set printed totals beside what each adversary learns."""

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from repro.report import style
from reproduce.papers.mspafl.pictures import adversary_grid, budget

X, AT = np.geomspace(1, 100, 9), np.array([1, 10, 100])
PRINTED = {"p = 0.1": X * 0.1, "p = 1": X}
VIEWS = {
    label: {
        "server": {"lower": AT * 0.2, "upper": AT * 0.3},
        "server, ended": {"lower": AT * 0.05, "upper": AT * 0.06},
        "average": {"lower": AT * 0.01, "upper": AT * 0.02},
    }
    for label in PRINTED
}
NAMES = {"server": "sees uploads", "server, ended": "nothing kept"}


@pytest.fixture
def drawn():
    style.use()
    rows = [("(a)", X, PRINTED, AT, VIEWS), ("(b)", X, PRINTED, AT, VIEWS)]
    figure, extra = adversary_grid(
        rows, xlabel="rounds T", ylabel="epsilon", floor=1e-3, names=NAMES, budgets=2
    )
    yield figure, extra
    plt.close(figure)


def test_one_panel_for_the_paper_and_one_a_setting(drawn):
    figure, extra = drawn
    titles = [axis.get_title() for axis in figure.axes if axis not in extra]
    assert titles == ["(a)", "p = 0.1", "p = 1", "(b)", "p = 0.1", "p = 1"]
    assert len(extra) == 2


def test_the_curves_are_the_numbers(drawn):
    figure, _ = drawn
    paper, setting = figure.axes[0], figure.axes[1]
    assert [line.get_ydata().tolist() for line in paper.lines] == [
        PRINTED[k].tolist() for k in PRINTED
    ]
    heights = [tuple(line.get_ydata()) for line in setting.lines]
    assert tuple(PRINTED["p = 0.1"]) in heights
    for view, end in (("server", "lower"), ("server", "upper"), ("server, ended", "upper")):
        assert tuple(VIEWS["p = 0.1"][view][end]) in heights
    assert tuple(VIEWS["p = 0.1"]["average"]["upper"]) not in heights  # it has no name
    assert setting.get_ylim()[0] == 1e-3


def test_the_legend_names_what_is_drawn(drawn):
    figure, _ = drawn
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["the paper's formula", "sees uploads", "nothing kept"]


def test_the_budget_shows_curves_and_target(drawn):
    _, extra = drawn
    budget(extra[0], X, {"p = 0.1": X * 1e-5}, 1e-4, title="delta", xlabel="rounds T")
    assert extra[0].lines[0].get_ydata().tolist() == (X * 1e-5).tolist()
    assert set(extra[0].lines[1].get_ydata()) == {1e-4}
    assert extra[0].get_yscale() == "log"


def test_rows_may_have_different_numbers_of_curves():
    """Four p beside three q: the surplus panels are hidden, and no two printed curves look alike."""
    four = {f"p = {k}": X * k for k in (1, 2, 3, 4)}
    views = {label: {"server": VIEWS["p = 1"]["server"]} for label in four}
    rows = [("(a)", X, four, AT, views), ("(b)", X, PRINTED, AT, VIEWS)]
    figure, _ = adversary_grid(rows, xlabel="T", ylabel="epsilon", names=NAMES)
    shown = [axis.get_title() for axis in figure.axes if axis.get_visible()]
    assert shown == ["(a)", *four, "(b)", *PRINTED]
    assert len({line.get_color() for line in figure.axes[0].lines}) == 4
    plt.close(figure)
