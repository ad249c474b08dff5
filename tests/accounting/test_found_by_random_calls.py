"""What `make faults` found in its random calls: overflows, warnings, memory without limit, errors that name nothing."""

import numpy as np
import pytest

from repro.accounting.ddpsa import printed as ddpsa
from repro.accounting.mspafl import printed as mspafl
from repro.accounting.partitioning import printed as partitioning
from repro.accounting.pmsfl import printed as pmsfl
from repro.accounting.pmsfl import releases
from repro.attacks.one_run import guess_p_value
from repro.secagg import discrete_laplace

HUGE = 2**2000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ddpsa.element_bytes(0.3, decimals=10**4), "decimals must be"),
        (lambda: ddpsa.element_bytes(0.3, decimals=HUGE), "decimals must be"),
        (lambda: ddpsa.representable(2**61 - 1, decimals=10**4), "decimals must be"),
        (lambda: ddpsa.representable(HUGE, decimals=3), "modulus must be"),
        (lambda: ddpsa.quantisation_error(HUGE), "decimals must be"),
        (lambda: mspafl.log_moment(2, 1.0, 0.1, q=0.1, clip=1e-300), "clip must be"),
        (lambda: mspafl.composed_log_moment(2, 1.0, 0.1, 9, p=0.1, q=0.0, clip=1e-300), "clip must"),
        (lambda: partitioning.reverse_bound(2, HUGE, 3, 0.1), "d must be"),
        (lambda: pmsfl.smashed_gain_log10(0.0, dimension=3, floor=0.1), "epsilon must be"),
        (lambda: guess_p_value(1, 2, 3, 1.0, {}), "delta must be"),
        (lambda: discrete_laplace(1, HUGE), "size must be"),
        (lambda: discrete_laplace(1, (2**30, 2**30)), "size must be"),
    ],
)  # fmt: skip
def test_what_no_double_holds_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()


@pytest.mark.parametrize(
    "given",
    [
        {"smashed": 1e9, "releases": 2, "interval": 1e-3},
        {"smashed": 1000.0, "releases": 1, "interval": 1e-6},
        {"smashed": 1.0, "releases": 1, "interval": 1e-300},
        {"smashed": 100.0, "releases": 10**9, "interval": 5e-3},
    ],
)
def test_a_grid_that_takes_gigabytes_is_refused(given):
    with pytest.raises(ValueError, match="interval must be at least"):
        releases.run_epsilon(0.1, update=1.0, rounds=1, **given)


def test_bytes_of_the_largest_numbers():
    """A limit of 10^300 with 300 decimals: 10^600 and its negative, 1994 bits and one for the sign."""
    assert ddpsa.element_bytes(1e300, decimals=300) == -(-1995 // 8)
    assert ddpsa.element_bytes(1.0, decimals=10) == 5
    assert np.isclose(ddpsa.representable(2**64, decimals=10), 2**63 / 1e10)
