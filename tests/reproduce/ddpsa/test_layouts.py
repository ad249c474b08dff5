"""How the pictures of ddpsa write numbers."""

import math

import pytest

from reproduce.papers.ddpsa.layouts import power, spread


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.0427, 2, "0.043"),
        (1e-12, 2, "10⁻¹²"),
        (4.44e-12, 2, "4.4·10⁻¹²"),
        (1295.2, 2, "1,295"),
        (0, 2, "0"),
        (math.inf, 2, "-"),
    ],
)
def test_numbers(value, digits, text):
    assert power(value, digits) == text


def test_intervals_share_the_power_of_ten():
    assert spread(0.043, 0.0048, 0.081) == "0.043 [0.0048, 0.081]"
    assert spread(4.4e-12, 2.67e-12, 1.2e-11) == "4.4 [2.7, 12.0]·10⁻¹²"
    assert spread(0.0, 0.0, 0.1) == "0 [0, 0.10]"
