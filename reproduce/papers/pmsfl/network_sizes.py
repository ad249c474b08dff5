"""Every bound of PM-SFL at the sizes of the paper's networks: the last numbers of the derivations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from repro.accounting.ddpsa import printed as ddpsa
from repro.accounting.pmsfl import printed, releases
from reproduce.papers.pmsfl.costs import local_steps

__all__ = ["bounds_by_network", "noisy_mask_epsilons", "run_totals"]


def _noisy_mask_epsilon(claimed: float, delta: float, floor: float, count: int) -> float:
    """Exact epsilon of `count` sampled bits whose probabilities carry the noise of (70) for `claimed`."""
    sigma = printed.mask_sigma(claimed, delta, floor=floor)
    kept = float(releases.noised_probability(1.0, sigma, floor=floor))
    return float(releases.mask_epsilon(delta, first=kept, second=1 - kept, count=count))


def bounds_by_network(
    networks: Mapping[str, tuple[int, int]],
    *,
    epsilon: float,
    update: float,
    delta: float,
    floor: float,
    clients: int,
    batch: int,
    epochs: int,
) -> pd.DataFrame:
    """One column a network, one row a bound.

    Args:
        networks: name -> parameters d, and training images of a client.
        epsilon: of one release of smashed data. update: of a round's update, at `delta`.
        floor: the margin c of the probabilities, in (0, 1/2).
        clients: in a round. batch, epochs: of local training.
    """
    columns = {}
    for name, (d, images) in networks.items():
        reach = releases.adam_reach(local_steps(images, batch=batch, epochs=epochs))
        most = 1 / (1 + np.exp(-reach))
        columns[name] = {
            "parameters d": d,
            "(6): squared error at most": float(printed.estimator_error_bound(d, clients=clients)),
            f"Theorem 2: log10 of what it takes off epsilon {epsilon:g}": float(
                printed.smashed_gain_log10(epsilon, dimension=d, floor=floor)
            ),
            f"(70) at epsilon {update:g}: exact epsilon": _noisy_mask_epsilon(
                update, delta, floor, d
            ),
            "after Theorem 3: d ln((1-c)/c)": float(
                printed.sampled_epsilon(1e12, dimension=d, floor=floor)
            ),
            "any masks in [c, 1-c]: exact epsilon": float(
                releases.mask_epsilon(delta, first=1 - floor, second=floor, count=d)
            ),
            "a round of Adam from theta 1/2: exact epsilon": float(
                releases.mask_epsilon(delta, first=most, second=1 - most, count=d)
            ),
            f"largest |s - s'| for epsilon {update:g}, the theorem": float(
                np.sqrt(8) * (np.sqrt(update + np.log(1 / delta)) - np.sqrt(np.log(1 / delta)))
            ),
        }
    return pd.DataFrame(columns)


def noisy_mask_epsilons(
    claimed: Sequence[float], dimension: NDArray, *, delta: float, floor: float
) -> dict[float, list[float]]:
    """Claimed epsilon of (70) -> exact epsilon at each number of parameters."""
    return {
        one: [_noisy_mask_epsilon(one, delta, floor, int(n)) for n in dimension] for one in claimed
    }


def run_totals(
    rounds: NDArray, *, epsilon: float, ratio: float, epochs: int, delta: float
) -> dict[str, Sequence[float]]:
    """Total epsilon of a client's SplitFed-DP after each number of rounds.

    Args:
        rounds: with this client, >= 1.
        epsilon: of one release of smashed data; there are `epochs` in a round.
        ratio: noise of an update over its sensitivity.
        delta: in (0, 1).
    """
    return {
        "smashed data, pure": epsilon * epochs * rounds,
        "smashed data, exact": [
            float(ddpsa.total_epsilon(epsilon, int(epochs * n), delta=delta)) for n in rounds
        ],
        "with updates, exact": [
            float(
                releases.run_epsilon(
                    delta, smashed=epsilon, releases=int(epochs * n), update=ratio, rounds=int(n)
                )
            )
            for n in rounds
        ],
    }
