"""Claims are well-formed, and verdicts follow from them by rule."""

from __future__ import annotations

import numpy as np
import pytest

from reproduce import claims
from reproduce.claims import Claim, ClaimError

BASE = {"id": "noise", "kind": "number", "where": "Section 6", "statement": "sigma", "paper": 7.65}


def number(**changes) -> Claim:
    table = BASE | {"rtol": 0.01} | changes
    return Claim.from_table(
        "toy/fig1", {key: value for key, value in table.items() if value is not None}
    )


ORDER = Claim("order", "toy/fig1", "order", "Figure 1", "a <= b")
LEMMA = Claim("lemma", "toy/derivations", "derivation", "Lemma 1", "1 + 1 = 2")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "guess"}, "kind 'guess' is none of number, order, derivation"),
        ({"paper": None}, "needs `paper`"),
        ({"rtol": None}, "needs a tolerance"),
        ({"rtol": -0.1}, "rtol must be one number >= 0"),
        ({"paper": float("nan")}, "paper must be finite"),
        ({"paper": "7.65"}, "paper must be a number, got '7.65'"),
        ({"statement": " "}, "must not be empty"),
        ({"tolerance": 1}, "unknown key tolerance"),
        ({"where": None}, "missing key where"),
        ({"kind": "order"}, "paper, rtol belong to kind 'number' only"),
        ({"runs": True}, "`runs` must be true or false, and false unless of kind 'order'"),
        ({"runs": "yes"}, "`runs` must be true or false"),
    ],
)
def test_ill_formed_claims_are_refused_by_name(change, message):
    with pytest.raises(ClaimError, match=message) as caught:
        number(**change)
    assert "toy/fig1/noise" in str(caught.value)


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [(7.65, "reproduced"), (7.65 * 1.01, "reproduced"), (7.65 * 0.99, "reproduced")]
    + [(7.65 * 1.0100001, "differs"), (7.65 * 0.9899999, "differs"), (-7.65, "differs")],
)
def test_the_boundary_of_a_relative_tolerance(ours, verdict):
    assert claims.decide_number(number(), ours, "why").verdict == verdict


@pytest.mark.parametrize(
    ("ours", "verdict"), [(0.3, "reproduced"), (0.30001, "differs"), (0.1, "reproduced")]
)
def test_the_boundary_of_an_absolute_tolerance(ours, verdict):
    claim = number(paper=0.2, rtol=None, atol=0.1)
    assert claims.decide_number(claim, ours, "why").verdict == verdict


def test_tolerances_add_up():
    claim = number(paper=10.0, rtol=0.1, atol=0.5)
    assert claim.allows(11.5, 10.0)
    assert not claim.allows(11.51, 10.0)
    assert claim.tolerance_text() == "10 % + 0.5"


def test_every_number_of_a_list_must_agree():
    claim = number(paper=[1.0, 2.0])
    assert claims.decide_number(claim, np.array([1.0, 2.0]), "").verdict == "reproduced"
    assert claims.decide_number(claim, [1.0, 2.1], "why").verdict == "differs"
    with pytest.raises(ClaimError, match="gives 2 numbers, ours are 1"):
        claims.decide_number(claim, 1.0, "")


@pytest.mark.parametrize("bad", [float("nan"), "7.65", None, True, [], [[7.65]]])
def test_ours_must_be_a_number(bad):
    with pytest.raises(ClaimError, match="ours"):
        claims.decide_number(number(), bad, "why")


def test_differs_needs_a_reason():
    with pytest.raises(
        ClaimError, match=r"differs \(paper 7.65, ours 8, tolerance 1 %\) and no reason"
    ):
        claims.decide_number(number(), 8.0, "  ")
    with pytest.raises(ClaimError, match="no reason"):
        claims.decide_order(ORDER, False, "b < a at 3", "")


def test_numbers_are_printed_as_finely_as_the_tolerance_can_tell():
    text = {
        rtol: claims.decide_number(number(rtol=rtol), 7.654321, "why").ours
        for rtol in (0.2, 0.01, 1e-4)
    }
    assert text == {0.2: "7.7", 0.01: "7.65", 1e-4: "7.6543"}
    assert claims.decide_number(number(unit="ms"), 7.654321, "").ours == "7.65 ms"


def test_measured_numbers_can_be_described_instead():
    """The verdict and the value follow from the numbers; what is printed is the same every run."""
    first, second = (
        claims.decide_number(number(), ours, "faster", shown="below a tenth") for ours in (0.1, 0.2)
    )
    assert first.ours == second.ours == "below a tenth"
    assert (first.verdict, first.value, second.value) == ("differs", 0.1, 0.2)
    assert claims.decide_number(number(), 7.65, shown=" ", reason="").ours == "7.65"


def test_order_takes_a_truth_value_only():
    assert claims.decide_order(ORDER, np.bool_(True), "gap 0", "").verdict == "reproduced"
    assert claims.decide_order(ORDER, False, "gap -1", "b is smaller").verdict == "differs"
    for bad in (1, "True", 0.0):
        with pytest.raises(ClaimError, match="True, False or None"):
            claims.decide_order(ORDER, bad, "gap", "")
    with pytest.raises(ClaimError, match="ours must be a text"):
        claims.decide_order(ORDER, True, "", "")


@pytest.mark.parametrize("verdict", ["holds", "loose", "vacuous", "gap"])
def test_verdicts_on_derivations(verdict):
    assert claims.decide_derivation(LEMMA, verdict, "factor 2", "").verdict == verdict


@pytest.mark.parametrize("verdict", ["reproduced", "wrong", "Holds", "", "not attainable"])
def test_other_words_are_no_verdict(verdict):
    with pytest.raises(ClaimError, match="is none of holds, loose, vacuous, misprint, gap, false"):
        claims.decide_derivation(LEMMA, verdict, "evidence", "")


@pytest.mark.parametrize("verdict", ["misprint", "false"])
def test_errors_need_the_correct_form(verdict):
    with pytest.raises(ClaimError, match="needs correct="):
        claims.decide_derivation(LEMMA, verdict, "counterexample x = 1", "")
    assert claims.decide_derivation(LEMMA, verdict, "x = 1", "1 + 1 = 2").reason == "1 + 1 = 2"


def test_evidence_is_needed():
    with pytest.raises(ClaimError, match="evidence"):
        claims.decide_derivation(LEMMA, "holds", " ", "")


def test_kinds_are_not_mixed_up():
    with pytest.raises(ClaimError, match="is of kind 'order', not 'number'"):
        claims.decide_number(ORDER, 1.0, "")
    with pytest.raises(ClaimError, match="is of kind 'number', not 'derivation'"):
        claims.decide_derivation(number(), "holds", "x", "")


def test_open_claims_say_why():
    assert (
        claims.decide_open(number(), claims.UNATTAINABLE, "never published").verdict
        == "not attainable"
    )
    with pytest.raises(ClaimError, match="reason"):
        claims.decide_open(number(), claims.PENDING, "")
    with pytest.raises(ClaimError, match="derivation"):
        claims.decide_open(LEMMA, claims.UNATTAINABLE, "why")
