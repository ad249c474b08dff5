"""What the noise of training runs guarantees, the footer, and the picture of accuracy curves."""

import json

import matplotlib

matplotlib.use("Agg")

import numpy as np

from repro.accounting import RandomParticipation
from reproduce.papers.random_participation.compare import fulfils, guarantees, promise, reduction
from reproduce.papers.random_participation.pictures import accuracy_picture

PAPER = {
    "guarantee_clients": 697, "guarantee_records": 1000, "guarantee_p": 0.1, "guarantee_q": 0.001,
    "clients": 697, "records": 1000, "p": 0.1, "q": 0.001, "clip": 1.0, "epsilon": 0.015,
    "data": "emnist",
}  # fmt: skip
RESULT = {"parameters": 156_526, "mean_batch": 69.7, "data": {"subset": ""}}


def test_guarantees_bracket_delta_and_skip_curves_without_noise():
    curves = {"none": {"sigma": 0.0}, "paper": {"sigma": 0.646}, "more": {"sigma": 0.809}}
    found = guarantees(PAPER, curves)
    assert list(found) == ["paper", "more"]
    for values in found.values():
        mechanism = RandomParticipation(values["sigma"], p=0.1, q=0.001, samples_per_client=1000)
        assert 0 < values["lower"] <= values["upper"] == float(mechanism.delta(0.015))
    assert (
        found["paper"]["lower"] > 1e-6 >= found["more"]["upper"]
    )  # the paper's noise is too small


def test_the_footer_says_what_was_reduced():
    assert reduction(PAPER, RESULT) == ""
    digits = reduction({**PAPER, "data": "digits", "clients": 12}, {**RESULT, "parameters": 2410})
    assert "8x8 digits" in digits and "2,410" in digits and "12 clients" in digits
    assert "697 clients x 1,000 records, p = 0.1, q = 0.001" in digits
    subset = reduction({**PAPER, "p": 0.5}, {**RESULT, "data": {"subset": "70,000 of them"}})
    assert subset.startswith("70,000 of them; trained in a federation of") and "p = 0.5" in subset


def test_the_picture_shows_every_curve():
    runs = {name: np.random.default_rng(k).random((3, 5)) for k, name in enumerate("abc")}
    labels = {name: name.upper() for name in runs}
    for against, axes in (("", 1), ("a", 2)):
        fig = accuracy_picture(range(5), runs, labels, trivial=0.1, against=against)
        texts = [t.get_text() for t in fig.legends[0].get_texts()]
        assert texts == ["A", "B", "C", "most frequent class"] and len(fig.axes) == axes
        assert "3 seeds" in fig.legends[0].get_title().get_text()
        np.testing.assert_allclose(fig.axes[0].lines[1].get_ydata(), runs["b"].mean(0))
    below = [line.get_ydata() for line in fig.axes[1].lines]
    np.testing.assert_allclose(below[0], 100 * (runs["b"] - runs["a"]).mean(0))
    assert len(below) == 3  # b, c and the zero line


def test_what_is_returned_can_be_stored():
    json.dumps(guarantees(PAPER, {"paper": {"sigma": 0.646}}), allow_nan=False)


def test_promise_names_one_delta_or_both_ends():
    assert promise({"lower": 1.04e-6, "upper": 1.0e-6}) == "1.0e-06"
    assert promise({"lower": 1.0e-6, "upper": 2.0e-6}) == "1.0e-06 to 2.0e-06"


def test_fulfils_trusts_each_end_for_what_it_shows():
    assert fulfils({"lower": 1e-7, "upper": 1e-6}, 1e-6) == "keeps δ"
    assert fulfils({"lower": 2e-6, "upper": 3e-6}, 1e-6) == "misses δ"
    assert fulfils({"lower": 5e-7, "upper": 3e-6}, 1e-6) == "δ undecided"
