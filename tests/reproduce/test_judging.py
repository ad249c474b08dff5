"""How a test becomes a verdict: every one of them can fail, and nothing holds by default."""

import numpy as np
import pytest

from reproduce.papers.judging import bounded, decided, loose, misprint


@pytest.mark.parametrize(
    ("refuted", "confirmed", "answer"),
    [(True, False, False), (True, True, False), (False, True, True), (False, False, None)],
)
def test_a_counterexample_counts_before_everything_else(refuted, confirmed, answer):
    assert decided(refuted=refuted, confirmed=confirmed) is answer


@pytest.mark.parametrize(
    ("printed", "corrected", "verdict"),
    [(True, True, "holds"), (False, True, "misprint"), (False, False, "gap")],
)
def test_a_misprint_needs_a_correction_that_is_right(printed, corrected, verdict):
    assert misprint(printed=printed, corrected=corrected) == verdict


@pytest.mark.parametrize(
    ("valid", "factor", "verdict"),
    [(True, 1.3, "loose"), (True, 1.05, "holds"), (True, 0.99, "false"), (False, 1.3, "false")],
)
def test_a_bound_below_the_exact_value_is_false(valid, factor, verdict):
    assert loose(valid=valid, factor=factor, least=1.1) == verdict


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (1.0, "holds"),
        ([1.0, 1.009], "holds"),
        ([1.0, 1.02], "loose"),
        ([0.98, 3.0], "false"),
        (np.array([[2.0], [0.99]]), "false"),
        ([1.0, np.nan], "false"),
    ],
)
def test_a_bound_is_judged_in_both_directions(ratio, verdict):
    assert bounded(ratio) == verdict
