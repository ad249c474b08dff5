"""Conditions, undecided claims, checks and stories: what a notebook may say, and what becomes of it."""

import json

import pytest

import workbooks
from reproduce import catalogue, claims, paths
from reproduce.catalogue import CatalogueError
from reproduce.claims import Claim, ClaimError
from reproduce.notebook import Workbook, WorkbookError
from reproduce.papers.statistics import Answer

CONDITIONS = """
[[figures.fig1.conditions]]
id = "learns"
statement = "the best curve is above chance"
[[figures.fig1.conditions]]
id = "flat"
statement = "the last quarter is flat"
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The toy workbook, whose claim on an order needs two conditions."""
    workbooks.build(tmp_path, monkeypatch)
    text = workbooks.TOML.replace(
        'where = "Figure 1"', 'where = "Figure 1"\nneeds = ["learns", "flat"]'
    )
    workbooks.catalogue_file().write_text(
        text.replace("[figures.derivations]", CONDITIONS + "\n[figures.derivations]")
    )
    return tmp_path


def book(**changes):
    return Workbook("toy/fig1", {"profile": "quick", "sigma": 2.0, "rounds": 3, **changes})


def finished(some):
    """The rows of the json after the notebook's last cells."""
    some.save(None, {"y": 1}, caption="c")
    some.table()
    record = json.loads((paths.FIGURES / "toy/fig1.json").read_text())
    return {row["id"]: row for row in record["claims"]}, record


@pytest.mark.parametrize(
    ("learns", "flat", "verdict"),
    [
        (True, True, "reproduced"),
        (False, True, "not tested"),
        (True, False, "not tested"),
        (False, False, "not tested"),
    ],
)
def test_a_claim_is_tested_only_where_its_conditions_hold(toy, learns, flat, verdict):
    some = book()
    some.number("double", 4.0)
    some.statement("order", True, "rises")  # conditions may be looked at before or after
    some.condition("learns", learns, "81 % against 10 %")
    some.condition("flat", flat, "moved by 3 points")
    rows, record = finished(some)
    assert rows["order"]["verdict"] == verdict
    assert rows["double"]["verdict"] == "reproduced"  # needs none
    if verdict == "not tested":
        assert rows["order"]["ours"] == "rises"
        assert ("81 % against 10 %" in rows["order"]["reason"]) == (not learns)
        assert ("the last quarter is flat" in rows["order"]["reason"]) == (not flat)
    assert [one["holds"] for one in record["conditions"]] == [learns, flat]


def test_every_condition_must_be_looked_at(toy):
    some = book()
    some.number("double", 4.0)
    some.statement("order", True, "rises")
    some.condition("learns", True, "81 %")
    some.save(None, {"y": 1}, caption="c")
    with pytest.raises(WorkbookError, match="no cell looks at the conditions flat"):
        some.table()


def test_with_changed_parameters_a_condition_nobody_looks_at_is_not_met(toy):
    some = book(sigma=3.0)
    some.save(None, {"y": 1}, caption="c")
    assert set(some.table()["verdict"]) <= {"not applicable", "not yet"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("heard", True, "e"), "no condition 'heard'; it has: learns, flat"),
        (("learns", 1, "e"), "needs True or False"),
        (("learns", True, " "), "its evidence"),
    ],
)
def test_a_condition_is_known_true_or_false_and_has_evidence(toy, call, message):
    with pytest.raises(WorkbookError, match=message):
        book().condition(*call)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"learns", "flat"]', '"learns", "fast"]', "unknown needs 'fast'"),
        ('id = "flat"', 'id = "learns"', "'learns' is there twice"),
        ('statement = "the last quarter is flat"', 'statement = " "', "texts that are not empty"),
        ('statement = "the last quarter is flat"', "limit = 1", "keys must be id and statement"),
        ("rtol = 0.01", 'rtol = 0.01\nevidence = "other"', "unknown evidence 'other'"),
        ("rtol = 0.01", 'rtol = 0.01\nby = "hearsay"', "none of formula, run, measurement"),
        ("rtol = 0.01", 'rtol = 0.01\nown = true\nquote = "4"', "false with a `quote`"),
        ("rtol = 1e-6", "rtol = 1e-6\nmargin = -0.1", "margin must be a number >= 0"),
    ],
)
def test_a_wrong_condition_or_claim_is_one_clear_error(toy, old, new, message):
    path = workbooks.catalogue_file()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(CatalogueError, match=message):
        catalogue.figure("toy/fig1")


@pytest.mark.parametrize(
    ("answer", "verdict", "reason"),
    [
        (Answer(True, "a - b 1.0 [0.5, 1.5] points", ""), "reproduced", ""),
        (Answer(False, "a - b", "against it: a - b"), "differs", "against it: a - b; reduced"),
        (Answer(None, "a - b", "3 seeds"), "undecided", "3 seeds; reduced"),
    ],
)
def test_an_answer_becomes_a_verdict(toy, answer, verdict, reason):
    some = book()
    assert some.order("order", answer, "reduced") == verdict
    some.number("double", 4.0)
    for name in ("learns", "flat"):
        some.condition(name, True, "e")
    rows, _ = finished(some)
    assert (rows["order"]["verdict"], rows["order"]["reason"]) == (verdict, reason)


NUMBER = Claim("n", "toy/fig1", "number", "Table 1", "accuracy", paper=50.0, atol=2.0)


@pytest.mark.parametrize(
    ("ours", "interval", "verdict"),
    [
        (50.5, (49.0, 52.0), "reproduced"),
        (50.5, (49.0, 52.1), "undecided"),
        (47.0, (46.0, 48.0), "undecided"),
        (47.0, (46.0, 47.9), "differs"),
        (60.0, (40.0, 80.0), "undecided"),
        (53.0, (52.1, 54.0), "differs"),
    ],
)
def test_an_interval_may_hold_both_answers(ours, interval, verdict):
    found = claims.decide_number(NUMBER, ours, "too few rounds", interval=interval)
    assert found.verdict == verdict and found.ours.startswith(f"{ours:.1f} [")
    with pytest.raises(ClaimError, match="interval must hold our one number"):
        claims.decide_number(NUMBER, 90.0, "x", interval=interval)


def test_a_check_decides_a_derivation_and_nothing_holds_by_default(toy):
    some = Workbook("toy/derivations", {"profile": "quick"})
    assert some.check("lemma", True, "counted") == "holds"
    assert some.check("lemma", None, "ran out of digits") == "gap"
    assert some.check("lemma", False, "1 + 1 = 3", correct="1 + 1 = 3") == "false"
    with pytest.raises(ClaimError, match="needs correct"):
        some.check("lemma", False, "1 + 1 = 3")
    with pytest.raises(ClaimError, match="True, False or None"):
        some.check("lemma", "holds", "counted")


def test_three_sentences_are_kept_with_the_numbers(toy):
    some = book()
    with pytest.raises(WorkbookError, match=r"book\.save"):
        some.story("a", "b", "c")
    some.save(None, {"y": 1}, caption="c")
    with pytest.raises(WorkbookError, match="a sentence for why"):
        some.story("a", "b", " ")
    told = some.story("It rises.", "It rises by 2.", "By definition.")
    assert "*Found:* It rises by 2." in told._repr_markdown_()
    record = json.loads((paths.FIGURES / "toy/fig1.json").read_text())
    assert record["story"] == {
        "claimed": "It rises.", "found": "It rises by 2.", "why": "By definition.",
    }  # fmt: skip
