"""From laws of likelihood ratios to dp-accounting's loss distributions, rounded to a known side.

A ratio at exp(k interval) is a loss of k intervals. Upwards, the law is spread onto these points, as
in `laws`; both directions then hold at once, in compositions too. Downwards, it is contracted
onto them: cells of several points are merged, and neighbouring cells trade mass until the mean of
each lies on a point. Plain rounding down would cost up to one interval per round; this costs second
order.
"""

from __future__ import annotations

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib

from repro.accounting.partitioning.laws import Law, log_ratio, spread

__all__ = ["ratio_losses"]

_MERGED = 8  # points of the loss grid per cell when rounding down
_NEAR = 32  # points between cells that may trade mass
_BEYOND = 1e-18  # mass under P of losses so large that they are charged as certain failure


def ratio_losses(
    law: Law, interval: float, method: str, rate: float = 1.0
) -> pld_lib.PrivacyLossDistribution:
    """Loss distribution of (1 - rate) Q + rate P against Q.

    Args:
      law: of dP/dQ under Q, rounded in the same direction.
      interval: spacing of the losses, > 0.
      method: "upper" or "lower".
      rate: chance that P takes the place of Q, in (0, 1].

    Returns:
      dp-accounting's object with both directions; "remove" has the mixture first.
    """
    loss, mass = log_ratio(law, rate), law.mass
    never, certain = law.zero, rate * law.infinite
    if rate < 1 and law.zero:
        # Where P has no mass the mixture still has some.
        loss, mass = np.append(np.log1p(-rate), loss), np.append(law.zero, mass)
        never = 0.0
    if method == "upper":
        beyond = np.cumsum((mass * np.exp(loss))[::-1])[::-1] < _BEYOND
        certain += float(np.sum(mass[beyond] * np.exp(loss[beyond])))
        never += float(np.sum(mass[beyond]))
        loss, mass = loss[~beyond], mass[~beyond]
    remove, add = (_upwards if method == "upper" else _downwards)(loss, mass, interval)
    return pld_lib.PrivacyLossDistribution.create_from_rounded_probability(
        remove, certain, interval, method == "upper", add, never, symmetric=False
    )


def _cells(loss, mass, width):
    """Occupied cells [k width, (k + 1) width) of the loss: k, mass under Q and under P."""
    cell, member = np.unique(np.floor(loss / width).astype(int), return_inverse=True)
    return cell, np.bincount(member, mass), np.bincount(member, mass * np.exp(loss))


def _named(index: np.ndarray, mass: np.ndarray) -> dict[int, float]:
    """Masses by point, for dp-accounting."""
    point, member = np.unique(index, return_inverse=True)
    total = np.bincount(member, mass)
    return {int(k): float(m) for k, m in zip(point, total, strict=True) if m > 0}


def _upwards(loss, mass, interval: float):
    cell, mass, moment = _cells(loss, mass, interval)
    ends = np.concatenate(spread(np.exp(interval * cell), mass, moment, interval))
    index = np.append(cell, cell + 1)
    return _named(index, ends * np.exp(interval * index)), _named(-index, ends)


def _downwards(loss, mass, interval: float):
    _, mass, moment = _cells(loss, mass, _MERGED * interval)
    mean = moment / mass
    if mass.size % 2:
        mass, mean = np.append(mass, 0.0), np.append(mean, mean[-1])
    loss = np.log(mean) / interval
    low, high = slice(0, None, 2), slice(1, None, 2)
    up, down = np.ceil(loss[low]).astype(int), np.floor(loss[high]).astype(int)
    start, end = np.exp(interval * up), np.exp(interval * down)
    with np.errstate(divide="ignore", invalid="ignore"):
        # What the lower cell needs of the upper one if it gives nothing, as a share; and conversely.
        lift = mass[low] * (start - mean[low]) / (mass[high] * (mean[high] - start))
        sink = mass[high] * (mean[high] - end) / (mass[low] * (end - mean[low]))
        trade = (up < down) & (lift <= 1) & (sink <= 1) & (lift * sink < 1)
        # Over a long way a light cell would be lost in a heavy one.
        trade &= loss[high] - loss[low] <= _NEAR
        taken = np.where(trade, lift * (1 - sink) / (1 - lift * sink), 0.0)
        given = np.where(trade, sink * (1 - lift) / (1 - lift * sink), 0.0)
    lower = mass[low] * (1 - given) + mass[high] * taken
    upper = mass[low] * given + mass[high] * (1 - taken)
    index = np.concatenate([up[trade], down[trade]])
    held = np.concatenate([lower[trade], upper[trade]])
    # Pairs that cannot trade are rounded plainly, each direction to its own side.
    rest = np.repeat(~trade, 2)
    rounded, left = loss[rest], mass[rest]
    remove = _named(
        np.append(index, np.floor(rounded).astype(int)),
        np.append(held * np.exp(interval * index), left * mean[rest]),
    )
    add = _named(np.append(-index, np.floor(-rounded).astype(int)), np.append(held, left))
    return remove, add
