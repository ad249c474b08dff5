"""The pictures of the derivations: seven inches wide, readable type, and drawn from what they are given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from reproduce.papers.random_participation import derivation_pictures as pictures


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def drawn():
    degrees = np.linspace(0, 180, 5)
    spots = np.array([[0.0, 0.0], [1.0, 0.0]])
    chances = np.array([0.5, 0.5]), np.array([1.0, 0.0])
    rates = np.geomspace(1e-4, 1e-2, 4)
    records, ends = np.array([1, 10, 100]), np.array([1e-5, 1e-4, 1e-3])
    return {
        "crowd": pictures.crowd({"a": spots, "b": spots}, {"a": chances, "b": chances}),
        "angles": pictures.angles(degrees, {"a": np.sin(degrees) ** 2}, {"a": (0.1, 1.0)}),
        "crossing": pictures.crossing(*pictures.integrand(2, 0.9, 0.5, 0.5, 0.2)),
        "right_region": pictures.right_region(
            np.linspace(0.1, 2, 4), {"d": (rates, 10 * rates)}, ((0.0, 2.0), 0.1)
        ),
        "limits": pictures.limits(
            records, {"lower": ends, "upper": 2 * ends, "paper": ends[::-1]}, {"WCS": 2e-3}, 1e-9
        ),
    }


@pytest.mark.parametrize("name", ["crowd", "angles", "crossing", "right_region", "limits"])
def test_size_and_type(name):
    figure = drawn()[name]
    figure.canvas.draw()
    assert figure.get_size_inches()[0] == 7.0
    texts = [t for t in figure.findobj(plt.Text) if t.get_text().strip() and t.get_visible()]
    assert min(text.get_fontsize() for text in texts) >= 7
    assert all(axis.get_xlabel() for axis in figure.axes)


def test_outcomes_that_only_one_data_set_has_are_named():
    texts = [text.get_text() for text in drawn()["crowd"].axes[0].texts]
    assert texts == ["P 0.5, Q 1", "P 0.5, Q 0\n(only with x′)"]


def test_the_repaired_integrand_turns_positive_first():
    _, pieces, silence, printed, repaired = pictures.integrand(3, 0.9, 0.5, 0.5, 0.2)
    assert len(pieces) == 4 and silence.min() >= 0
    assert repaired < printed
