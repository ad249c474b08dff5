"""The derivations notebook of MS-PAFL: verdict boxes, the table at the top, its pictures and second routes."""

import matplotlib

matplotlib.use("agg")

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

from repro.accounting.gaussian import GaussianMechanism
from repro.accounting.mspafl.run import exposure, run_delta
from reproduce import catalogue, sources
from reproduce.notebook import Workbook
from reproduce.papers.mspafl import derivation_pictures as pictures
from reproduce.papers.mspafl import sections
from reproduce.papers.mspafl.second_routes import CarriedUploads, exposures, upload_delay


@pytest.fixture
def book():
    own = catalogue.figure("mspafl/derivations").parameters("quick")
    return Workbook("mspafl/derivations", own | {"profile": "quick"})


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (1.0, "holds"),
        ([1.0, 1.009], "holds"),
        ([1.0, 1.02], "loose"),
        ([0.98, 3.0], "false"),
        (np.array([[2.0], [0.99]]), "false"),
        ([1.0, np.nan], "false"),
    ],
)
def test_a_bound_is_judged_in_both_directions(ratio, verdict):
    assert sections.bounded(ratio) == verdict


def test_a_box_shows_each_verdict_with_its_evidence_and_its_correction(book):
    book.check("eq-15", True, "norm of w_hat")
    book.check("eq-17", False, "weights 3/4 and 1/4", "equal p")
    book.derivation("thm-2-beta", "loose", "2.9 times", "without the condition")
    shown = sections.box(book, "eq-15", "eq-17", "thm-2-beta", "eq-a1")
    markdown = shown._repr_markdown_()
    assert "**eq-15: holds.** norm of w\\_hat." in markdown
    assert "**eq-17: false.** weights 3/4 and 1/4. *True instead:* equal p." in markdown
    assert "**thm-2-beta: loose.** 2.9 times. *Note:* without the condition." in markdown
    assert "**eq-a1: not decided.**" in markdown
    assert repr(shown).splitlines()[1:3] == [
        "eq-17: false. weights 3/4 and 1/4.",
        "  True instead: equal p.",
    ]


def test_the_table_at_the_top_links_every_claim_to_a_heading(book):
    notebook = json.loads(book.entry.notebook.read_text())
    text = "\n".join(sources.text(cell) for cell in notebook["cells"])
    table = sections.opening(book)._repr_markdown_().splitlines()[2:]
    assert len(table) == len(book.entry.claims)
    for claim, row in zip(book.entry.claims, table, strict=True):
        assert row.startswith(f"| [{claim.id}](#")
        heading = row.split("](#")[1].split(") |")[0].replace("-", " ")
        assert any(line.lstrip("# ").replace("-", " ") == heading for line in text.splitlines())


def test_the_headings_of_the_notebook_are_unique(book):
    names = [name for _, name in dict(sections._sections(book.entry)).items()]
    changes = [a for a, b in zip(names, ["", *names], strict=False) if a != b]
    assert len(set(changes)) == len(changes)


@pytest.mark.parametrize(("rounds", "clients"), [(1, 1), (2, 3), (3, 2), (4, 1)])
def test_the_enumerated_law_of_exposure_is_that_of_the_bound(rounds, clients):
    p, q = 0.4, 0.3
    values, chance = exposures(rounds, clients, p, q)
    assert chance.sum() == pytest.approx(1)
    used = (1 - (1 - p * q) ** rounds) if clients >= 1 else 0
    assert chance[values > 0].sum() == pytest.approx(used)
    grid, weights = exposure(rounds, p, q, clients)
    assert values @ chance == pytest.approx(grid @ weights, rel=5e-3)
    leak = GaussianMechanism(1 / np.sqrt(np.maximum(values, 1e-12))).delta(0.5) @ chance
    stated = run_delta(np.array([0.5]), rounds, ratio=1.0, p=p, q=q, clients=clients)[0]
    assert leak <= stated * (1 + 1e-9) <= leak * 1.02


def test_too_many_courses_are_refused():
    with pytest.raises(ValueError, match="number of courses"):
        exposures(20, 3, 0.5, 0.5)


def test_the_delay_of_an_upload_follows_the_indices():
    assert upload_delay(lambda t: t - 1, lambda t: t) == 1
    assert upload_delay(lambda t: t - 1, lambda t: t + 1) == 2
    assert upload_delay(lambda t: t, lambda t: t) == 0


def test_the_pictures_are_seven_inches_wide_and_legible():
    present = np.ones((3, 4), dtype=bool)
    clipped = np.array([[-1.0, 1, 1, 1], [-1, -1, 1, 1], [1, 1, 1, 1]])
    data = CarriedUploads(present, present, clipped, clipped)
    other = data._replace(clipped=-np.ones((3, 4)))
    rounds = np.array([1, 10, 100])
    rising = np.array([0.1, 0.5, 2.0])
    drawn = [
        pictures.memory(data, other, np.zeros((3, 4), dtype=bool), 0.5, 0.1),
        pictures.broken_pairs(rising, {"a": rising, "b": rising}, {"a": (1, 0.1), "b": (1, 0.2)}),
        pictures.silent_uploads(1, 2, 8.0, 1.1),
        pictures.constants(rounds, {"a": rising, "b": np.array([1.0, 1.0, np.nan])}),
        pictures.whole_run(rounds, {"lower": rising, "upper": 2 * rising}, {"a": rising}),
    ]
    for figure in drawn:
        figure.canvas.draw()
        assert figure.get_figwidth() == 7.0
        texts = [t for axis in figure.axes for t in (*axis.texts, axis.title, axis.xaxis.label)]
        legends = [t for axis in figure.axes if axis.get_legend() for t in axis.get_legend().texts]
        assert min(t.get_fontsize() for t in (*texts, *legends)) >= 7
