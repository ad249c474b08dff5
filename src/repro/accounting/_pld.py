"""What this package reads from dp-accounting's loss distributions beyond their public interface.

dp-accounting composes distributions of losses and answers for one epsilon at a time, in a Python loop
over the losses. Whole arrays of epsilons need the masses, which it keeps private. This is the only file
that reads them; a change of dp-accounting's fields is mended here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = ["Losses", "losses", "one_sided"]


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
