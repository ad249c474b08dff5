"""The servers of ddpsa: sums of shares against whole numbers, steps against PyTorch."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.federated.ddpsa import algorithm as ddpsa
from repro.federated.ddpsa.algorithm import (
    Memory,
    shared_sum,
)
from repro.secagg import ZP61, FixedPoint


@given(st.integers(1, 6), st.integers(2, 5), st.integers(0, 2**32), st.booleans())
@settings(max_examples=40, deadline=None)
def test_shared_sum_is_the_sum_of_rounded_values(clients, servers, seed, prime):
    values = np.random.default_rng(seed).normal(0, 3, (clients, 7))
    encoding = FixedPoint(decimals=6, ring=ZP61) if prime else FixedPoint(decimals=6)
    found = shared_sum(values, servers=servers, encoding=encoding)
    exact = [sum(round(float(x) * 1e6) for x in column) / 1e6 for column in values.T]
    np.testing.assert_array_equal(found, exact)


def test_steps_are_those_of_pytorch():
    rng = np.random.default_rng(0)
    models, memory = rng.normal(size=(2, 2, 3)), Memory(np.zeros((2, 2, 3)), np.zeros((2, 2, 3)))
    weights = [torch.tensor(models[:, k]).requires_grad_() for k in (0, 1)]
    makers = (torch.optim.SGD([weights[0]], lr=0.1), torch.optim.Adam([weights[1]], lr=0.03))
    for _ in range(50):
        g = rng.normal(0, 10.0 ** rng.integers(-9, 3), models.shape)
        models, memory = ddpsa.step(models, g, memory, [0.1, 0.03], [False, True])
        for k, optimiser in enumerate(makers):
            weights[k].grad = torch.tensor(g[:, k])
            optimiser.step()
            np.testing.assert_allclose(models[:, k], weights[k].detach(), rtol=1e-10, atol=1e-10)
    assert memory.rounds == 50
