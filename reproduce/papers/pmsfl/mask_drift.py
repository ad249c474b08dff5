"""What sampling alone does to masks: averages of bits wander until they stick (pmsfl, (5))."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from repro._validate import integer


def frozen_by_drift(participants: int, rounds: int) -> NDArray[np.float64]:
    """Expected share of coordinates at exactly 0 or 1 after 0, 1, ..., `rounds` rounds.

    Nothing is learned: a coordinate starts at 1/2, K participants sample a bit each, the server
    averages, (5). K theta is then a Markov chain, i -> Binomial(K, i / K), the one of genetic
    drift; 0 and K absorb it. No gradient can bring a coordinate back, since the sigmoid is flat
    there.

    Args:
        participants: K >= 1.
        rounds: >= 0.

    Returns:
        Shape (rounds + 1,), rising from 0 towards 1.

    Raises:
        ValueError: a count out of range.
    """
    participants, rounds = integer("participants", participants, 1), integer("rounds", rounds, 0)
    states = np.arange(participants + 1)
    step = binom.pmf(states, participants, states[:, None] / participants)
    state, frozen = binom.pmf(states, participants, 0.5), [0.0]
    for _ in range(rounds):
        frozen.append(float(state[0] + state[-1]))
        state = state @ step
    return np.array(frozen)
