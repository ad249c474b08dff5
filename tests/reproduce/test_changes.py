"""Changed parameters: read with their types, and every verdict says what became of it."""

from __future__ import annotations

import json
import re

import matplotlib

matplotlib.use("agg")

import pytest

import workbooks
from reproduce import __main__, catalogue, changes, paths
from reproduce.claims import ClaimError
from reproduce.notebook import Workbook, WorkbookError
from reproduce.parameters import ParameterError

MODEL = {
    "profile": "quick",
    "p": 0.1,
    "rounds": 3,
    "exact": True,
    "method": "upper",
    "samples": [1, 10],
    "rates": [0.1, 0.5],
    "limit": None,
}


# The command line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("p=0.2 rounds=4", {"p": 0.2, "rounds": 4}),
        ("p=1", {"p": 1.0}),
        ("p=1e-5", {"p": 1e-5}),
        ("  p = 0.2   rounds = 4 ", {"p": 0.2, "rounds": 4}),
        ("samples=[1,10]", {"samples": [1, 10]}),
        ("samples=[1, 10, 200] p=0.5", {"samples": [1, 10, 200], "p": 0.5}),
        ("samples=(1, 2)", {"samples": [1, 2]}),
        ("rates=[1, 0.25]", {"rates": [1.0, 0.25]}),
        ("method=lower", {"method": "lower"}),
        ("method='lower end' p=0.2", {"method": "lower end", "p": 0.2}),
        ("method=lower end p=0.2", {"method": "lower end", "p": 0.2}),
        ("method=3", {"method": "3"}),
        ("exact=False", {"exact": False}),
        ("limit=None", {"limit": None}),
    ],
)
def test_values_get_the_types_of_the_notebook(text, found):
    read = changes.parse(text, MODEL)
    assert read == found
    assert repr(read) == repr(found)  # 1.0 and 1 are not the same value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sgima=2", "unknown parameter sgima (= 2); known: exact, limit, method, p, "),
        ("p=much", "parameter p must be of type float (such as 0.1), got str 'much'"),
        ("rounds=2.5", "parameter rounds must be of type int (such as 3), got float 2.5"),
        ("rounds=", "parameter rounds must be of type int (such as 3), got str ''"),
        ("exact=1", "parameter exact must be of type bool (such as True), got int 1"),
        ("samples=3", "parameter samples must be a list, got int 3"),
        ("samples=[1, x]", "parameter samples must be a list, got str '[1, x]'"),
        ("rates=[1, '2']", "parameter rates has an item that must be of type float"),
        ("p=0.2 p=0.3", "parameter p is given twice"),
        ("profile=desk", "profile is chosen by PROFILE=…"),
        ("0.2", "SET must be \"name=value name=value …\", got '0.2'"),
        ("quickly p=0.2", "SET must be"),
    ],
)
def test_what_does_not_fit_is_one_line_that_names_it(text, message):
    with pytest.raises(ParameterError) as caught:
        changes.parse(text, MODEL)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_changes_are_told_in_words():
    changed = changes.departures(MODEL | {"p": 0.2, "rounds": 4}, MODEL)
    assert changed == {"p": 0.2, "rounds": 4}
    assert changes.told(changed, MODEL) == "p = 0.2 in place of 0.1, rounds = 4 in place of 3"
    assert changes.blamed(["p"]) == "p was changed"
    assert changes.blamed(["p", "q"]) == "p and q were changed"
    assert changes.blamed(["p", "q", "sigma"]) == "p, q and sigma were changed"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    return workbooks.build(tmp_path, monkeypatch)


def free(text: str) -> None:
    """Give the toy's figure, or its claim `order`, a line with free parameters."""
    place = workbooks.catalogue_file()
    old = 'statement = "the line | rises"\n' if text.startswith("claim ") else "data = []\n"
    content = place.read_text()
    assert old in content
    place.write_text(content.replace(old, f"{old}{text.removeprefix('claim ')}\n"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["toy/fig1", "--set", "sigm=1"], "toy/fig1: SET: unknown parameter sigm (= 1); known: "),
        (
            ["toy/fig1", "--set", "rounds=1.5"],
            "toy/fig1: SET: parameter rounds must be of type int",
        ),
        (["toy", "--set", "sigma=1"], "SET changes the parameters of one figure"),
        (["--set", "sigma=1"], "SET changes the parameters of one figure"),
    ],
)
def test_a_wrong_call_runs_nothing(toy, capsys, arguments, message):
    assert __main__.main(["run", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(message) and found.err.count("\n") == 1
    assert not paths.BUILD.exists()


# Verdicts -----------------------------------------------------------------------------------


def book(**values) -> Workbook:
    return Workbook("toy/fig1", {"profile": "quick", "sigma": 2.0, "rounds": 3} | values)


def rows(some: Workbook) -> dict:
    some.save(None, {"y": 1}, caption="c")
    return {
        row["claim"]: (row["verdict"], row["reason"]) for row in some.table().to_dict("records")
    }


def test_a_claim_that_a_change_touches_is_not_applicable(toy):
    some = book(sigma=1.0)
    assert some.applies("double") is some.applies("order") is False
    assert some.number("double", float("nan")) == "not applicable"
    assert rows(some) == {
        "double": ("not applicable", "sigma was changed"),
        "order": ("not applicable", "sigma was changed"),
    }
    found = json.loads((paths.BUILD / "figures/toy/fig1.changed.json").read_text())
    assert found["complete"] is True


def test_several_changes_are_named_in_order(toy):
    assert rows(book(rounds=4, sigma=1.0))["order"][1] == "sigma and rounds were changed"


def test_free_parameters_of_a_figure_or_a_claim_leave_it_meaningful(toy):
    free('free = ["rounds"]')
    free('claim free = ["sigma"]')
    assert book(rounds=4).applies("double", "order")
    assert book(sigma=1.0).applies("order")
    assert not book(sigma=1.0).applies("double")
    assert not book(sigma=1.0).applies("order", "double")
    some = book(sigma=1.0, rounds=4)
    some.statement("order", False, "falls")
    assert rows(some) == {
        "double": ("not applicable", "sigma was changed"),
        "order": ("differs", "with sigma = 1.0 in place of 2.0, rounds = 4 in place of 3"),
    }


def test_reasons_of_the_notebook_stay(toy):
    free('free = ["sigma", "rounds"]')
    some = book(sigma=1.0)
    some.number("double", 2.0, note="twice too small")
    some.statement("order", True, "rises")
    assert rows(some) == {"double": ("differs", "twice too small"), "order": ("reproduced", "")}


@pytest.mark.parametrize("ours", [[4.0, 4.0], float("inf"), "4"])
def test_values_that_cannot_be_compared_raise_only_with_unchanged_parameters(toy, ours):
    free('free = ["sigma"]')
    with pytest.raises(ClaimError):
        book().number("double", ours)
    some = book(sigma=1.0)
    assert some.number("double", ours) == "not applicable"
    assert "with sigma = 1.0 in place of 2.0" in rows(some)["double"][1]


def test_a_claim_that_no_cell_decides_raises_only_with_unchanged_parameters(toy):
    free('free = ["sigma"]')
    some = book(sigma=1.0)
    some.number("double", 4.0)
    assert rows(some)["order"] == (
        "not yet",
        "no cell decides it with sigma = 1.0 in place of 2.0",
    )
    strict = book()
    strict.number("double", 4.0)
    with pytest.raises(WorkbookError, match="no cell decides order"):
        rows(strict)


def test_unchanged_runs_are_as_strict_as_ever(toy):
    free('free = ["sigma", "rounds"]')
    some = book()
    assert some.applies("double", "order")
    with pytest.raises(ClaimError, match="no reason is given"):
        some.number("double", 5.0)
    with pytest.raises(ClaimError, match="no reason is given"):
        some.statement("order", False, "falls")
    desk = book(profile="desk", rounds=30)
    with pytest.raises(ClaimError, match="no reason is given"):
        desk.statement("order", False, "falls")


def test_a_derivation_needs_no_correction_with_changed_parameters(toy):
    place = workbooks.catalogue_file()
    old, new = 'title = "one step"', 'title = "one step"\nfree = ["terms"]'
    place.write_text(place.read_text().replace(old, new))
    workbooks.edit_notebook(
        paths.NOTEBOOKS / "toy/derivations.ipynb",
        'profile = "quick"',
        'profile = "quick"\nterms = 2',
    )
    some = Workbook("toy/derivations", {"profile": "quick", "terms": 3})
    assert some.derivation("lemma", "false", "counted") == "false"
    assert rows(some)["lemma"] == ("false", "with terms = 3 in place of 2")
    with pytest.raises(ClaimError, match="needs correct"):
        Workbook("toy/derivations", {"profile": "quick", "terms": 2}).derivation(
            "lemma", "false", "counted"
        )


# The catalogue ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ['free = ["points"]', 'claim free = ["points"]'])
def test_a_free_name_must_be_a_parameter(toy, text):
    free(text)
    message = r"claim toy/fig1/\w+: free: unknown parameter points; known: profile, sigma, rounds"
    with pytest.raises(catalogue.CatalogueError, match=message):
        book()


@pytest.mark.parametrize("text", ["free = [1]", 'claim free = "sigma"', "claim free = [1]"])
def test_free_must_be_a_list_of_names(toy, text):
    free(text)
    with pytest.raises(catalogue.CatalogueError, match=re.escape("must be a list of names")):
        catalogue.figure("toy/fig1")
