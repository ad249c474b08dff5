"""What an observer of ddpsa's aggregate alone learns over all rounds, and the noise that equals it."""

from __future__ import annotations

from functools import lru_cache

from repro._validate import positive
from repro.accounting.composition import compose
from repro.accounting.laplace import SummedLaplace

__all__ = ["aggregate_epsilon", "equal_scale"]


def aggregate_epsilon(epsilon: float, *, clients: int, rounds: int, delta: float) -> float:
    """Total epsilon for one who sees the sum of the clients' vectors in every round, exactly.

    Every one of n clients adds Laplace noise of scale Delta / epsilon to each coordinate, and the
    observer knows none of it; one client's record is added or removed. With n = 1 it is the local
    guarantee, `repro.accounting.ddpsa.printed.total_epsilon(…, method="exact")`. See `SummedLaplace` for
    what "exactly" covers.

    Args:
      epsilon: of a client's vector in one round, > 0.
      clients: n >= 1.
      rounds: T >= 1.
      delta: of the whole run, in (0, 1).

    Raises:
      ValueError: an argument out of range.
    """
    return _epsilon(1 / float(positive("epsilon", epsilon)), rounds, delta, clients)


def equal_scale(epsilon: float, *, clients: int, rounds: int, delta: float) -> float:
    """Scale of distributed noise that gives the aggregate the guarantee of n clients' own noise.

    Distributed noise is one Laplace variable, to which every client adds a share. Its scale, in
    units of Delta, is chosen so that after T rounds the aggregate's total epsilon is at most that
    of `aggregate_epsilon`, and within 1 % of it. 1 / epsilon would give the same pure epsilon in each
    round, sqrt(n) / epsilon the variance of the n clients' noise. After many rounds neither is
    enough: what counts then is the Fisher information about a shift, which is 1 / scale^2 for
    Laplace noise, twice that of Gaussian noise of its variance, and the sum of n clients' noise is
    nearly Gaussian. The scale tends to sqrt(2 n) / epsilon.

    Args:
      epsilon, clients, rounds, delta: as in `aggregate_epsilon`.

    Raises:
      ValueError: an argument out of range.
    """
    total = aggregate_epsilon(epsilon, clients=clients, rounds=rounds, delta=delta)
    scale = 1 / epsilon
    while not 0.99 * total <= (found := _epsilon(scale, rounds, delta)) <= total:
        # epsilon falls like a power of the scale between -1 and -2: this step contracts
        scale *= (found / (0.995 * total)) ** 0.7
    return scale


@lru_cache(maxsize=256)
def _epsilon(scale: float, rounds: int, delta: float, clients: int = 1) -> float:
    return compose(_noise(scale, clients), rounds).epsilon(delta)


@lru_cache(maxsize=16)
def _noise(scale: float, clients: int) -> SummedLaplace:
    """The mechanism, which keeps its loss distribution for runs of other lengths."""
    return SummedLaplace(scale, clients=clients)
