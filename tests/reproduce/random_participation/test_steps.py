import numpy as np
import pytest

from reproduce.papers.random_participation.steps import direction_steps


def test_the_other_direction_is_bounded_on_one_side():
    found = direction_steps(0.1, np.array([1.0, 0.4]), 0.5, p=0.3, q=0.5, sigma=0.8)
    assert 0 < found["add"] < found["silence at v"] < found["remove"]
    found = direction_steps(0.1, np.array([-1.0, -0.4]), 0.5, p=0.3, q=0.5, sigma=0.8)
    assert 0 < found["add"] < found["silence at v"] < found["orthogonal"]


def test_silence_at_v_counts_for_nothing_where_everybody_takes_part():
    found = direction_steps(0.1, np.array([0.7]), 1.0, p=1.0, q=0.5, sigma=0.8)
    assert found["silence at v"] == pytest.approx(found["remove"], rel=1e-12)
    assert found["orthogonal"] > found["remove"]
