"""The picture of an audit: of a page's width, plain ticks, and ROC curves only where they are certain."""

from __future__ import annotations

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from repro.accounting import GaussianMechanism
from reproduce.papers.audit_cases import Case, Outcome
from reproduce.papers.audit_pictures import audit_picture
from reproduce.papers.auditing import Roc, counted

TRAININGS = 4000


def outcome(name, *, leak, family=GaussianMechanism):
    """What half of the trainings say whose scores are Gaussian, `leak` apart."""
    rng = np.random.default_rng(3)
    none = rng.normal(size=TRAININGS)
    found = counted(none, rng.normal(size=TRAININGS) + leak)
    return Outcome(Case(name, {}, 1.0, family), Roc.of([found]), None, 0.5)


@pytest.fixture
def picture():
    found = {
        name: outcome(name, leak=leak, family=family)
        for name, leak, family in (
            ("bounded", 1.0, GaussianMechanism),
            ("told apart", 30.0, None),
            ("no bound", 3.0, None),
        )
    }
    figure = audit_picture(found)
    figure.canvas.draw()
    yield figure
    plt.close(figure)


def test_the_picture_has_a_page_s_width_and_plain_ticks(picture):
    assert picture.get_size_inches()[0] == 7.0
    right = picture.axes[1]
    for labels in (right.get_xticklabels(), right.get_yticklabels()):
        assert {"0.1", "1", "10", "100"} <= {label.get_text() for label in labels}


def test_a_curve_begins_at_twenty_false_alarms_and_stays_near_its_bound(picture):
    measured, bound, apart, free, _ = picture.axes[1].get_lines()
    for line in (measured, apart, free):
        fpr, tpr = line.get_data()
        assert min(fpr) >= 100 * 20 / TRAININGS
        assert (np.diff(fpr) >= 0).all() and (np.diff(tpr) >= 0).all()
        assert fpr[-1] == tpr[-1] == 100
    assert min(apart.get_ydata()) == 100  # whoever tells all apart has no false alarms to wait for
    fpr, tpr = measured.get_data()
    allowed = np.interp(fpr, *bound.get_data())
    chance = 3 / np.sqrt(fpr / 100 * TRAININGS)  # of counts of false alarms, three deviations
    assert (abs(tpr / allowed - 1) <= chance).all() and chance.max() < 0.7
