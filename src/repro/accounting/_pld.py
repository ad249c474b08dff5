"""What this package reads from dp-accounting's loss distributions beyond their public interface.

dp-accounting composes distributions of losses and answers for one epsilon at a time, in a Python loop
over the losses. Whole arrays of epsilons need the masses, which it keeps private. This is the only file
that reads them; a change of dp-accounting's fields is mended here. `self_compositions` does what its
`self_compose` does for many numbers of rounds, and shares between them what does not depend on the number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy import fft

from repro._validate import integer

__all__ = ["Losses", "losses", "one_sided", "self_compositions"]

_TRUNCATED = 1e-15
"""Mass of the tails that a composition leaves out and charges as certain loss, as dp-accounting does."""


class Losses(NamedTuple):
    """Discretised losses of one direction.

    Attributes:
        interval: spacing of the losses.
        first: the lowest loss in units of the interval.
        mass: probability of the losses first, first + 1, ... times the interval, shape (n,).
        infinite: probability of an infinite loss.
    """

    interval: float
    first: int
    mass: np.ndarray
    infinite: float


def one_sided(
    distribution: PrivacyLossDistribution, direction: str = "both"
) -> list[pld_pmf.PLDPmf]:
    """The losses of one direction, or of both, "remove" first.

    Args:
        distribution: dp-accounting's object.
        direction: "add", "remove" or "both".
    """
    sides = {"remove": distribution._pmf_remove, "add": distribution._pmf_add}
    return [side for name, side in sides.items() if direction in (name, "both")]


def losses(pmf: pld_pmf.PLDPmf) -> Losses:
    """The masses of one direction on consecutive losses."""
    dense = pmf.to_dense_pmf()
    return Losses(
        dense._discretization,
        dense._lower_loss,
        np.asarray(dense._probs),
        dense._infinity_mass,
    )


def self_compositions(pmf: pld_pmf.PLDPmf, counts: Iterable[int]) -> Iterator[pld_pmf.PLDPmf]:
    """`pmf.self_compose(count)` for each count, up to the rounding of Fourier transforms.

    Chernoff's bound says which losses to keep. Its moment generating functions, most of the work of
    dp-accounting's composition, are the same for every count and computed once.

    Args:
        pmf: losses of one direction.
        counts: numbers of rounds, >= 1.
    """
    interval, first, mass, infinite = losses(pmf)
    orders = np.concatenate([np.arange(-20, 0), np.arange(1, 21)]) / mass.size
    places = np.arange(mass.size)
    log_moments = np.log([np.exp(order * places) @ mass for order in orders])
    for count in counts:
        if integer("count", count, 1) == 1:
            yield pmf
            continue
        ends = (count * log_moments + math.log(2 / _TRUNCATED)) / orders
        low = max(0, math.floor(ends[orders < 0].max()))
        high = min((mass.size - 1) * count, math.ceil(ends[orders > 0].min()))
        width = high - low + 1
        size = fft.next_fast_len(max(width, mass.size), real=True)
        around = fft.irfft(fft.rfft(mass, size) ** count, size)  # sums modulo the size
        kept = np.take(around, np.arange(low, high + 1), mode="wrap")
        lost = _TRUNCATED - math.expm1(count * math.log1p(-infinite))
        yield pld_pmf.DensePLDPmf(
            interval, first * count + low, kept, lost, pmf._pessimistic_estimate
        )
