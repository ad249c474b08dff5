"""Numbers as text: digits, units, and intervals to the decimal place of their number."""

import pytest

from reproduce.quantities import percent, text, with_interval


@pytest.mark.parametrize(
    ("value", "ends", "unit", "digits", "said"),
    [
        (10.3712, (7.4236, 13.3188), "%", 3, "10.4 [7.4, 13.3] %"),
        (1.1287, (0.8984, 1.359), "%", 3, "1.13 [0.90, 1.36] %"),
        (73.0, (71.34, 74.6), "%", 3, "73.0 [71.3, 74.6] %"),
        (65.1, (63.3, 66.8), "points", 2, "65 [63, 67] points"),
        (2182.4, (2110.0, 2262.2), "", 3, "2,182 [2,110, 2,262]"),
        (-0.62, (-2.13, 0.94), "points", 2, "-0.62 [-2.13, 0.94] points"),
        (4.41e-12, (2.7e-12, 6.2e-12), "", 2, "4.4e-12 [2.7e-12, 6.2e-12]"),
        (0.0, (-0.5, 0.5), "points", 2, "0 [-0.5, 0.5] points"),
    ],
)
def test_an_interval_has_the_decimal_place_of_its_number(value, ends, unit, digits, said):
    assert with_interval(value, ends, unit, digits) == said


@pytest.mark.parametrize(
    ("value", "unit", "digits", "said"),
    [
        (1295.2, "ms", 2, "1,300 ms"),
        ([51.0, 39.0], "%", 10, "51, 39 %"),
        (8.7e-13, "", 2, "8.7e-13"),
        (1.54e10, "", 3, "1.54e+10"),
        (23264, "", 10, "23264"),
    ],
)
def test_numbers_have_no_exponent_that_a_reader_does_not_need(value, unit, digits, said):
    assert text(value, unit, digits) == said


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.188, "18.8 %"),
        (0.0111, "1.11 %"),
        (0.99951, "more than 99.9 %"),
        (1.0, "100 %"),
        (0.0, "0 %"),
    ],
)
def test_a_share_below_one_is_never_all(share, said):
    assert percent(share) == said
