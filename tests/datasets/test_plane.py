"""The synthetic regression task of ddpsa."""

import numpy as np
import pytest

from repro.datasets.plane import plane
from repro.federated.ddpsa.algorithm import mechanism

PARAMETERS = {"records": 500, "runs": 3, "rounds": 30}
PAIR = [mechanism(name, clients=2, clip=1.0, epsilon=0.1) for name in ("LDP", "DDP-SA")]


def test_the_plane_is_split_and_labelled_as_the_paper_says():
    parts = plane([0, 1], 10_000)
    assert [part.targets.shape for part in parts] == [(2, 6000), (2, 2000), (2, 2000)]
    for part in parts:
        np.testing.assert_allclose(part.inputs[..., 0] + part.inputs[..., 1] + 1, part.targets)
        assert (part.inputs[..., 2] == 1).all()
        assert 0 <= part.inputs[..., :2].min() and part.inputs[..., :2].max() < 1
        # a variance of 1/6: what the paper's losses and R2 imply together
        assert part.targets.var(axis=1) == pytest.approx(np.full(2, 1 / 6), rel=0.1)


def test_records_depend_on_the_seed_alone():
    both, one = plane([7, 8], 100), plane([8], 100)
    for a, b in zip(both, one, strict=True):
        np.testing.assert_array_equal(a.inputs[1], b.inputs[0])
        assert not np.isclose(a.inputs[0, :, 0], a.inputs[1, :, 0]).any()


@pytest.mark.parametrize("call", [{"seeds": []}, {"seeds": [-1]}, {"records": 0}, {"records": 12}])
def test_data_out_of_range_are_refused(call):
    with pytest.raises(ValueError, match="seed|records"):
        plane(**{"seeds": [0], "records": 100} | call)
