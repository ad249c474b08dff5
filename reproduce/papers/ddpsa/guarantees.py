"""What the aggregate of a round and of a run discloses, with every client's own noise or with shares.

The rows of Figure 9's table, beyond the paper.
"""

from __future__ import annotations

from repro.accounting.ddpsa.printed import aggregate_epsilon, noise_deviation
from repro.accounting.ddpsa.shares import LaplaceShares
from repro.accounting.laplace import SummedLaplace

_GRAIN = 10
"""Units of Delta / 10 for noise in shares, which lies on a grid."""


def aggregate_guarantees(
    epsilon: float, clients: int, *, rounds: int, delta: float, scale: float | None = None
) -> dict[str, float]:
    """Total epsilon at `delta`, and the deviation of the noise in the average gradient.

    Args:
        epsilon: of a client's vector in one round, > 0.
        clients: n >= 1; what is left when a client colludes needs n >= 2.
        rounds: T >= 1.
        delta: in (0, 1).
        scale: of distributed noise, in units of Delta, with the total guarantee of the clients' own
            noise; its deviation is left out where it is None.

    Returns:
        By name: epsilon for who sees one round's aggregate, or all of them; deviations in units of
        Delta / N. Names that end in a space belong to noise in shares.
    """
    run = {"rounds": rounds, "delta": delta}
    values = {"one round, own noise": SummedLaplace(1 / epsilon, clients=clients).epsilon(delta)}
    if clients > 1:
        values["one client colludes"] = SummedLaplace(1 / epsilon, clients=clients - 1).epsilon(
            delta
        )
    values["one round, shares"] = _shares(epsilon, clients, clients).epsilon(delta)
    if clients > 1:
        values["one client colludes "] = _shares(epsilon, clients - 1, clients).epsilon(delta)
    name = f"{rounds:,} rounds"
    values[f"{name}, own noise"] = aggregate_epsilon(epsilon, clients=clients, **run)
    values[f"{name}, shares"] = aggregate_epsilon(epsilon, clients=1, **run)
    own = noise_deviation(1 / epsilon, clients=clients, records=1)
    values["noise of the average, own (x N / Δ)"] = own
    values["in shares, equal round"] = noise_deviation(1 / epsilon, clients=1, records=1)
    if scale is not None:
        values["in shares, equal total"] = noise_deviation(scale, clients=1, records=1)
    return values


def _shares(epsilon: float, honest: int, planned: int) -> LaplaceShares:
    return LaplaceShares(_GRAIN / epsilon, honest=honest, planned=planned, sensitivity=_GRAIN)
