"""What the pictures before a formula draw is what the formula says, and their letters can be read."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text

import lessons
from reproduce.teaching import pictures
from reproduce.teaching.lesson1 import one_other
from reproduce.teaching.lesson5 import _mask_divergence

DRAWN = {
    "lesson 1": lambda: pictures.told_how_many(epsilon=0.5, sigma=0.4, p=0.9, q=0.5),
    "lesson 5": pictures.score_and_leak,
}


@pytest.mark.parametrize("at", [(0.5, 0.4, 0.9, 0.5), (0.2, 0.8, 0.6, 0.3), (1.0, 0.5, 0.5, 0.7)])
def test_areas_are_the_formula_and_what_eve_reaches(at):
    epsilon, sigma, p, q = at
    place = np.linspace(-10, 12, 40_001)
    parts = pictures.speaks_for_ada(place, *at)
    told = sum(np.trapezoid(np.maximum(part, 0), place) for part in parts)
    assert told == pytest.approx(lessons.answers("lesson1")["1.11"](*at), rel=1e-6)
    together = np.trapezoid(np.maximum(sum(parts), 0), place)
    game = one_other(p, q, sigma, 0)
    assert together <= game.delta(epsilon) * (1 + 1e-3) < told


def test_bits_leak_what_the_exercise_sums_and_less_than_noise():
    first = np.linspace(-6, 6, 25)
    second = first[::-1] + 0.3
    found = pictures.bit_divergence(2.0, first, second)
    summed = [_mask_divergence(2.0, *pair) for pair in zip(first, second, strict=True)]
    assert found == pytest.approx(summed, rel=1e-9)
    assert np.all(found <= 2 * (first - second) ** 2 / 8)


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_a_picture_has_labels_and_letters_of_seven_points(draw):
    fig = draw()
    assert fig.get_size_inches()[0] <= 7
    assert all(ax.get_xlabel() for ax in fig.axes) and fig.axes[0].get_ylabel()
    assert all(text.get_fontsize() >= 7 for text in fig.findobj(Text) if text.get_text())
    plt.close(fig)
