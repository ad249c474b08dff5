"""What is read off ddpsa's runs: losses, R2 and rounds until convergence."""

import numpy as np
import pytest

from repro.datasets.plane import plane
from repro.federated.ddpsa.algorithm import mechanism
from reproduce.papers.ddpsa import measures

PARAMETERS = {"records": 500, "runs": 3, "rounds": 30}
PAIR = [mechanism(name, clients=2, clip=1.0, epsilon=0.1) for name in ("LDP", "DDP-SA")]


def test_losses_are_mean_squared_errors_down_to_rounding():
    part = plane([0, 1], 1000)[2]
    exact = np.ones(3)
    path = exact + np.array([1.0, 1e-5, 1e-12])[:, None, None, None] * np.array([0.3, -0.2, 0.1])
    path = np.broadcast_to(path, (3, 2, 1, 3))
    found = measures.losses(path, part)
    direct = np.square(part.inputs @ (path[0, 0, 0] - exact)).mean(axis=1)
    for size, row in zip((1.0, 1e-10, 1e-24), found, strict=True):
        np.testing.assert_allclose(row[:, 0], size * direct, rtol=1e-2)
    assert measures.r_squared(found, part)[0, :, 0] == pytest.approx(
        1 - direct / part.targets.var(axis=1)
    )


def test_the_mean_has_r_squared_zero():
    part = plane([0], 1000)[0]
    trivial = measures.trivial_loss(part, part)
    assert trivial == pytest.approx(part.targets.var(axis=1))
    assert measures.r_squared(trivial[:, None], part) == pytest.approx(np.zeros((1, 1)))


def test_criteria_on_a_curve_that_can_be_read_by_eye():
    curve = np.array([8.0, 4.0, 2.0, 1.0, 1.0, 1.5, 1.0, 0.9, 1.0, 1.0])[:, None]
    assert measures.below(curve, 1.0) == [3]
    assert measures.below(curve, 8.0) == [0]
    assert np.isnan(measures.below(curve, 0.5))
    assert measures.flat(curve, 0.01) == [4]
    assert measures.flat(curve, 2.0) == [2]
    assert np.isnan(measures.flat(curve[:4], 0.5))
    assert measures.patient(curve, 1) == [4]
    assert measures.patient(curve, 3) == [6]
    assert np.isnan(measures.patient(curve, 4))  # the gain of round 7 comes in time
    assert measures.settled(curve, 1.2) == [6]
    assert measures.settled(curve, 100.0) == [0]
    falling = np.array([3.0, 2.0, 1.0])[:, None]
    assert np.isnan(measures.patient(falling, 1))


@pytest.mark.parametrize(
    ("rule", "value"),
    [(measures.below, 0.0), (measures.flat, -1.0), (measures.patient, 0), (measures.settled, 0.0)],
)
def test_criteria_out_of_range_are_refused(rule, value):
    with pytest.raises(ValueError, match="must be"):
        rule(np.ones((3, 1)), value)
