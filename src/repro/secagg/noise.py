"""Discrete Laplace noise, sampled exactly: whole numbers from whole numbers, no floating point.

Laplace noise computed in floating point is not Laplace noise: which doubles can come out depends on
the value it is added to, and an observer who looks at the last bits can tell neighbouring data sets
apart, whatever epsilon says (Mironov 2012). Here the values are rounded to whole units first (a
function of one client's data), and then receive a whole number n with probability exactly
proportional to exp(-|n| / scale). Uniform numbers are the only approximation: they come from a key
stream (see `KeyStream`).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer, positive
from repro.secagg.ring import Z64
from repro.secagg.stream import KeyStream, new_keys

_BATCH = 2**16
"""Samples drawn together: the arrays in work stay in the processor's cache."""

_FINEST, _WIDEST = 2**-4, 2**56

_MOST = 2**40
"""Numbers that are drawn at once, at most: more fit into no machine."""


def discrete_laplace(
    scale: int | float | Fraction,
    size: int | tuple[int, ...],
    *,
    key: bytes | None = None,
) -> NDArray[np.int64]:
    """Independent whole numbers n with probability tanh(1 / (2 scale)) exp(-|n| / scale).

    Formal guarantee: a vector of whole numbers whose l1 distance between neighbouring data sets is
    at most D, plus this noise in every coordinate with scale >= D / epsilon, is epsilon-DP.
    `FixedPoint.sensitivity` gives D for an encoded vector, including what rounding adds.

    Args:
        scale: in units, in [1/16, 2^56]; a float is taken as the fraction that it is.
        size: how many, or the shape.
        key: 16 bytes that determine the draws, for tests; from the operating system's randomness
            when left out. A known key protects nobody.

    Returns:
        int64 of the given shape.

    Raises:
        ValueError: an argument out of range.

    Source: Canonne, Kamath and Steinke 2020, "The Discrete Gaussian for Differential Privacy",
    Algorithms 1 and 2, on arrays.
    """
    positive("scale", scale)
    ratio = Fraction(scale)
    if not _FINEST <= ratio <= _WIDEST or ratio.denominator > _WIDEST:
        raise ValueError(f"scale must be in [1/16, 2^56], got {scale!r}")
    shape = size if isinstance(size, tuple) else (size,)
    for extent in shape:
        integer("size", extent, 0, _MOST)
    if math.prod(shape) > _MOST:
        raise ValueError(f"size must be at most 2^40 numbers, got {size!r}")
    out = np.empty(shape, np.int64)
    flat = out.reshape(-1)
    coins = _Coins(new_keys(1)[0].tobytes() if key is None else key)
    for start in range(0, flat.size, _BATCH):
        _fill(flat[start : start + _BATCH], ratio.numerator, ratio.denominator, coins)
    return out


def noise_tail(scale: float, draws: int, *, failure: float = 2.0**-40) -> int:
    """A t such that one of `draws` numbers of `discrete_laplace` is beyond -t, …, t only rarely.

    What a ring must have room for: the values' units plus t for every client (`narrowest`).

    Args:
        scale: in units, > 0.
        draws: of all clients and coordinates together, >= 1.
        failure: the probability that is allowed, in (0, 1).

    Raises:
        ValueError: an argument out of range.

    Source: P(|n| > t) <= 2 exp(-t / scale), and the union bound.
    """
    scale, failure = float(positive("scale", scale)), float(positive("failure", failure))
    if failure >= 1:
        raise ValueError(f"failure must be in (0, 1), got {failure!r}")
    return math.ceil(scale * math.log(2 * integer("draws", draws, 1) / failure))


def _fill(out: NDArray[np.int64], t: int, s: int, coins: _Coins) -> None:
    """Algorithm 2 with scale t / s: trials for all samples at once, again for those refused."""
    while out.size:
        below = coins.uniform(out.size, t)
        below = below[coins.exp(below.size, below, t)]
        whole = coins.geometric(below.size)
        if whole.size and int(whole.max()) >= 2**63 // t - 1:  # less than once in e^125 draws
            raise OverflowError(f"a draw of scale {t}/{s} does not fit into 64 bits")
        size = (below + whole * np.uint64(t)) // np.uint64(s)
        negative = coins.fair(size.size)
        kept = ~(negative & (size == 0))  # or zero would come up twice
        found = np.where(negative, -size.view(np.int64), size.view(np.int64))[kept]
        out[: found.size] = found
        out = out[found.size :]


class _Coins:
    """Coins and dice whose probabilities are exact fractions, thrown many at a time."""

    def __init__(self, key: bytes) -> None:
        self._stream = KeyStream(key, Z64)

    def fair(self, size: int) -> NDArray[np.bool_]:
        """Each side with probability 1/2."""
        words = self._stream.take(-(-size // 64))
        return np.unpackbits(words.view(np.uint8), count=size).view(np.bool_)

    def uniform(self, size: int, sides: int) -> NDArray[np.uint64]:
        """Uniform on 0, …, sides - 1."""
        if sides == 1:
            return np.zeros(size, np.uint64)
        return self._below(size, sides) // np.uint64(2**64 // sides)

    def bernoulli(
        self, size: int, above: int | NDArray[np.uint64], below: int
    ) -> NDArray[np.bool_]:
        """True with probability above / below < 1, for each entry of `above`."""
        if below == 1:
            return np.zeros(size, np.bool_)
        return self._below(size, below) < np.uint64(2**64 // below) * np.asarray(above, np.uint64)

    def exp(self, size: int, above: NDArray[np.uint64] | None, below: int) -> NDArray[np.bool_]:
        """True with probability exp(-above / below), or 1/e where `above` is None.

        Algorithm 1: K counts the throws until the first that fails, where throw k succeeds with
        probability above / (below k); K is odd with the wanted probability.
        """
        odd = np.ones(size, np.bool_)
        going = np.arange(size)
        throw = 1
        while going.size:
            if throw > 1:
                going = going[self.bernoulli(going.size, 1, throw)]
            if above is not None:
                going = going[self.bernoulli(going.size, above[going], below)]
            throw += 1
            odd[going] = throw % 2 == 1
        return odd

    def geometric(self, size: int) -> NDArray[np.uint64]:
        """k with probability (1 - 1/e) e^-k: how many coins of 1/e succeed in a row."""
        count = np.zeros(size, np.uint64)
        going = np.arange(size)
        while going.size:
            going = going[self.exp(going.size, None, 1)]
            count[going] += np.uint64(1)
        return count

    def _below(self, size: int, sides: int) -> NDArray[np.uint64]:
        """Words below the largest multiple of `sides` that 64 bits hold: the others are skipped."""
        words = self._stream.take(size)
        largest = 2**64 // sides * sides
        while largest < 2**64 and (bad := np.flatnonzero(words >= np.uint64(largest))).size:
            words[bad] = self._stream.take(bad.size)
        return words
