"""What the noise of training runs guarantees, the footer, the story, and the picture of accuracies."""

import json

import matplotlib

matplotlib.use("Agg")

import numpy as np

from repro.accounting import RandomParticipation
from reproduce.papers.random_participation import training_verdicts
from reproduce.papers.random_participation.compare import (
    fulfils,
    guarantees,
    promise,
    reduction,
    story,
)
from reproduce.papers.random_participation.training_pictures import SHORT, accuracy_picture

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


ENDS = {
    "non_private": 0.8, "clipped": 0.5, "clipped_slow": 0.2, "scheme_paper": 0.49, "scheme": 0.48,
    "wcs": 0.15, "ols": 0.1,
}  # fmt: skip


def curves(seeds=3):
    """Curves that rise to `ENDS` and differ a little from seed to seed."""
    noise = np.random.default_rng(0).normal(scale=0.002, size=(seeds, 1))
    return {name: end * np.linspace(0.2, 1, 9) ** 0.1 + noise for name, end in ENDS.items()}


def test_the_picture_shows_every_curve_and_every_difference():
    runs = curves()
    gaps = training_verdicts.gaps(runs, True)
    fig = accuracy_picture(range(9), runs, gaps, trivial=0.05, margin=0.02)
    left, right = fig.axes
    words = ", ".join(text.get_text() for text in left.texts)
    assert all(SHORT[name] in words for name in runs) and "most frequent class" in words
    rows = [label.get_text() for label in right.get_yticklabels()]
    assert len(rows) == sum(map(len, gaps.values())) and "scheme* − WCS" in rows
    assert "3 seeds" in left.get_title()


def test_the_story_parts_the_cost_of_clipping_noise_and_learning_rate():
    parameters = {"clip": 1.0, "learning_rate": 0.002, "learning_rate_baselines": 0.0001}
    gaps = training_verdicts.gaps(curves(), True)
    _, found, why = story(parameters, gaps, 8000, "Claimed.")
    assert "scheme − WCS 3" in found and "3 seeds" in found
    ends = {name: rise.mean(axis=0)[-2:].mean() for name, rise in curves().items()}
    clipping = 100 * (ends["non_private"] - ends["clipped"])
    rate = 100 * (ends["clipped"] - ends["clipped_slow"])
    assert (
        f"costs {clipping:.1f} points" in why
        and f"costs {rate:.1f} points without any noise" in why
    )
    bare = {name: runs for name, runs in curves().items() if name != "clipped_slow"}
    unknown = story(parameters, training_verdicts.gaps(bare, True), 8000, "Claimed.")[2]
    assert "share of their loss is not known" in unknown and "(WCS)" not in unknown
    same = story(parameters | {"learning_rate_baselines": 0.002}, gaps, 8000, "Claimed.")[2]
    assert "smaller learning rate" not in same


def test_what_is_returned_can_be_stored():
    json.dumps(guarantees(PAPER, {"paper": {"sigma": 0.646}}), allow_nan=False)


def test_promise_names_one_delta_or_both_ends():
    assert promise({"lower": 1.04e-6, "upper": 1.0e-6}) == "10⁻⁶"
    assert promise({"lower": 1.2e-6, "upper": 2.0e-6}) == "1.2 to 2·10⁻⁶"


def test_fulfils_trusts_each_end_for_what_it_shows():
    assert fulfils({"lower": 1e-7, "upper": 1e-6}, 1e-6) == "keeps δ"
    assert fulfils({"lower": 2e-6, "upper": 3e-6}, 1e-6) == "misses δ"
    assert fulfils({"lower": 5e-7, "upper": 3e-6}, 1e-6) == "δ undecided"
