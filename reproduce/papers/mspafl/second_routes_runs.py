"""Second routes for whole runs of MS-PAFL: what leaks, followed round by round, listed or transformed.

Nothing here calls the accountant, and nothing is rounded to one side: the numbers are no bounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from scipy.stats import binom

from reproduce.papers.second_routes import composed_delta

__all__ = ["ended_run_delta", "kept_run_delta", "kept_run_leak", "shift_delta"]

_CELLS = 48
"""Of the grid for 1 / k, to its mean."""


def shift_delta(epsilon: ArrayLike, shift: ArrayLike) -> NDArray:
    """delta of two normal laws of deviation 1 at a distance of `shift` > 0, which both broadcast."""
    e, m = np.asarray(epsilon, dtype=float), np.asarray(shift, dtype=float)
    return ndtr(m / 2 - e / m) - np.exp(e) * ndtr(-m / 2 - e / m)


def kept_run_delta(
    epsilon: float, rounds: int, *, ratio: float, p: float, q: float, clients: int
) -> float:
    """What a run leaks at most about a record when private halves are kept, round after round.

    The law of the sum of 1 / k over the client's rounds from the first draw on is followed over the rounds on a grid
    to which each 1 / k is shared out so that its mean stays.

    Args:
        epsilon: >= 0. rounds: T >= 1, hundreds at most: each is a convolution.
        ratio: shift of an upload over its noise, > 0. p, q: in (0, 1].
        clients: N for one who sees the averages, 1 for a server that sees the uploads.
    """
    k = np.arange(1, clients + 1)
    here = p * binom.pmf(k - 1, clients - 1, p)  # the client, and k - 1 others
    kept = here > 1e-12 * here.max()
    step = 1.0 if clients == 1 else float(here @ (1 / k) / here.sum()) / _CELLS
    below, part = np.divmod(1 / k[kept] / step, 1.0)
    jump = np.zeros(int(below.max()) + 2)
    np.add.at(jump, below.astype(int), here[kept] * (1 - part))
    np.add.at(jump, below.astype(int) + 1, here[kept] * part)
    law = np.zeros(1)  # of the sum where the record has been drawn
    for t in range(rounds):
        grown = np.convolve(law, jump)
        grown[: law.size] += (1 - p) * law
        grown[: jump.size] += (1 - p * q) ** t * q * jump
        law = grown[: 1 + np.flatnonzero(grown > 1e-16)[-1]]
    at = np.flatnonzero(law[1:]) + 1
    return float(law[at] @ shift_delta(epsilon, ratio * np.sqrt(step * at)))


def kept_run_leak(epsilon: float, rounds: int, *, ratio: float, p: float, q: float) -> float:
    """What a server is sure to learn in a run when private halves are kept, for every number of uploads.

    The client sends -C up to the first draw of the record and C from then on. The server adds the uploads up, with
    the chance that the record has been drawn as weight, and takes the best of 60 thresholds.

    Args:
        epsilon: >= 0. rounds: T >= 1, hundreds at most. ratio: shift of an upload over its noise, > 0.
        p, q: in (0, 1].
    """
    total, at = 0.0, np.linspace(0.0, 8.0, 60)
    for uploads in range(1, rounds + 1):
        j = np.arange(1, uploads + 1)
        weight = 1 - (1 - q) ** j
        mean = ratio * np.cumsum(weight[::-1])[::-1] / np.sqrt(weight @ weight)
        seen = ndtr(mean - at[:, None]) @ (q * (1 - q) ** (j - 1)) + (1 - q) ** uploads * ndtr(-at)
        gain = np.max(seen - np.exp(epsilon) * ndtr(-at))
        total += binom.pmf(uploads, rounds, p) * max(gain, 0.0)
    return float(total)


def ended_run_delta(
    epsilon: float, rounds: int, *, ratio: float, p: float, q: float, clients: int, number: bool
) -> float:
    """What a run leaks when nothing is kept: the law of the sum of the losses of its rounds, by a Fourier transform.

    All uploads lie at one point but that of the client when it uses the record.

    Args:
        epsilon: >= 0. rounds: T >= 1. ratio: shift of an upload over its noise, > 0. p, q: in (0, 1].
        clients: N for one who sees the averages, 1 for a server that sees the uploads.
        number: whether one who sees an average knows of how many uploads.
    """
    k = np.arange(1, clients + 1)[:, None]
    there = binom.pmf(k, clients, p)
    k, there = (x[there[:, 0] > 1e-12 * there.max()] for x in (k, there))
    scale, shift = (np.sqrt(k), ratio / np.sqrt(k)) if number else (np.ones(k.shape), ratio / k)
    wide = scale / np.sqrt(k)  # deviation of what is seen, in the units of the grid
    z = np.linspace(-9 * wide.max(), 9 * wide.max() + shift.max(), 600 if number else 3000)
    rest, moved = (
        there * np.exp(-(((z - m) / wide) ** 2) / 2) / wide * (z[1] - z[0]) / np.sqrt(2 * np.pi)
        for m in (0.0, shift)
    )
    drawn = q * k / clients
    without, with_record = rest, (1 - drawn) * rest + drawn * moved
    if not number:
        without, with_record = without.sum(axis=0), with_record.sum(axis=0)
    some = (without > 1e-250) & (with_record > 1e-250)
    first, second = (np.append(x[some], (1 - p) ** clients) for x in (with_record, without))
    first, second = first[second > 0], second[second > 0]
    return float(composed_delta(epsilon, first, second, rounds))
