"""Fixed-point encoding: real numbers as elements of a ring, so that sums of them never wrap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import integer, nonnegative
from repro.secagg.ring import Z32, Z64, Elements, Ring
from repro.secagg.stream import CHUNK

_EASY = 2**51
_MAGIC = 1.5 * 2.0**52
"""Added to a number below 2^51, it leaves that number, rounded half to even, in the low bits."""

_MAGIC_BITS = np.float64(_MAGIC).view(np.int64)


@dataclass(frozen=True)
class FixedPoint:
    """x becomes round(x * scale), half to even, an element of `ring`.

    Formal guarantee: what `encode(…, clients=n)` returns without an error may be added up over n
    clients in the ring, and `decode` of the sum is the sum of the rounded values: nothing wraps,
    whatever the other clients hold. The price is that a client may use 1/n of the ring's range.

    Error of one encoded value: |q(x) - x| <= 1 / (2 scale) + 2^-53 |x|; of a decoded sum of n:
    n / (2 scale) + 2^-53 sum_i |x_i|, plus twice 2^-53 of its size from writing it as a float.
    (The terms with 2^-53 are what float64 can hold. ddpsa, section III-C, gives 1 / (2 scale) for
    a sum, too; that is the bound for the average.)

    Args:
        decimals: decimal places kept, in [0, 18]: scale = 10^decimals. Default: 10, as in ddpsa.
        bits: binary places kept, in [0, 62], in place of decimals: scale = 2^bits.
        ring: see `Ring`.

    Raises:
        ValueError: a number of places out of range, or both given.

    Source: ddpsa, section III-C and Algorithm 2 (SF, d_n).
    """

    decimals: int | None = None
    bits: int | None = None
    ring: Ring = Z64

    def __post_init__(self) -> None:
        if self.decimals is not None and self.bits is not None:
            raise ValueError(
                f"decimals or bits must be given, not both: {self.decimals!r}, {self.bits!r}"
            )
        if self.bits is not None:
            integer("bits", self.bits, 0, 62)
        elif self.decimals is None:
            object.__setattr__(self, "decimals", 10)
        else:
            integer("decimals", self.decimals, 0, 18)

    @property
    def scale(self) -> float:
        """SF, the number of units in 1 (a float that holds it exactly)."""
        return float(10**self.decimals if self.bits is None else 2**self.bits)

    def units(self, clients: int) -> int:
        """The largest |round(x * scale)| that each of `clients` may use, an integer >= 1.

        Raises:
            ValueError: `clients` is no integer >= 1, or the ring is too small for so many.
        """
        integer("clients", clients, 1, self.ring.half)
        return self.ring.half // clients

    def limit(self, clients: int) -> float:
        """The largest |x| that each of `clients` may encode, up to rounding in its last place."""
        units = self.units(clients)
        largest = units / self.scale
        while self._one(largest) > units:
            largest = math.nextafter(largest, 0.0)
        return largest

    def sensitivity(self, l1: float, dimension: int) -> int:
        """The l1 sensitivity of encoded vectors, in units, from that of the real ones.

        Rounding moves two neighbouring vectors apart by up to one unit in every coordinate, and
        x * scale, computed in floating point, by another one as long as |x| * scale <= 2^52 (at 10
        decimals, |x| <= 450,000): it is ceil(l1 * scale) + 2 dimension. Noise for `encode` has to
        be calibrated to this.

        Args:
            l1: largest l1 distance of the vectors of neighbouring data sets, >= 0.
            dimension: coordinates of the vector, >= 1.

        Raises:
            ValueError: an argument out of range.
        """
        l1 = float(nonnegative("l1", l1))
        integer("dimension", dimension, 1)
        numerator, denominator = l1.as_integer_ratio()
        return -(-numerator * int(self.scale) // denominator) + 2 * dimension

    def encode(
        self,
        values: ArrayLike,
        *,
        clients: int,
        noise: NDArray[np.int64] | None = None,
        out: Elements | None = None,
    ) -> Elements:
        """Encode `values`, of which `clients` may then be added up.

        Args:
            values: real numbers of any shape, such as (clients, parameters); taken as float64.
            clients: number of encoded values that will be added up in one place, >= 1.
            noise: whole numbers added to the rounded values, in units, of the same shape: int64,
                such as `discrete_laplace` draws.
            out: a contiguous array of the ring's dtype and the shape of `values` (its content is
                lost when there is an error); a new one is made when left out.

        Returns:
            Elements of the ring, of the shape of `values`.

        Raises:
            ValueError: a value (with its noise) is nan, infinite or beyond `limit(clients)`; the
                message names the value, its place and the allowed range.
        """
        units = self.units(clients)
        array = real_array("values", values)
        if noise is not None:
            noise = _whole(noise, array.shape).reshape(-1)
        dtype = self.ring.dtype
        out = np.empty(array.shape, dtype) if out is None else _place(out, array.shape, dtype)
        flat, result = array.reshape(-1), out.reshape(-1)
        buffer = np.empty(min(CHUNK, max(1, flat.size)))
        narrow = None if dtype == np.uint64 else np.empty(buffer.size, np.int64)
        for start in range(0, flat.size, CHUNK):
            piece = flat[start : start + CHUNK]
            target = result[start : start + CHUNK]
            rounded = target.view(np.int64) if narrow is None else narrow[: piece.size]
            if not self._round(piece, buffer[: piece.size], rounded, units):
                self._refuse(array, clients)
            if noise is not None:
                added = noise[start : start + CHUNK]
                if not _fits(rounded, added, units):
                    self._refuse(array, clients, noise)
                rounded += added
            if narrow is None:
                self.ring.embed(rounded)
            else:
                target[...] = self.ring.embed(rounded)
        return out

    def decode(self, elements: Elements) -> NDArray[np.float64]:
        """The real numbers that `elements` (single ones, or sums) stand for, as float64.

        Elements above half of the modulus are negative numbers.

        Raises:
            ValueError: `elements` is no array of elements of the ring.
        """
        return self.ring.centre(elements) / self.scale

    def _round(self, values: NDArray, reals: NDArray, wholes: NDArray, units: int) -> bool:
        """Write round(values * scale) to `wholes`; False if one is out of range."""
        with np.errstate(over="ignore"):  # what overflows is out of range
            np.multiply(values, self.scale, out=reals)
        low, high = np.minimum.reduce(reals), np.maximum.reduce(reals)  # nan if any is
        if -_EASY < low and high < _EASY <= units:  # the same as below, in half the time
            np.add(reals, _MAGIC, out=reals)
            np.subtract(reals.view(np.int64), _MAGIC_BITS, out=wholes)
            return True
        largest = _float_below(units)
        if not (-largest <= np.rint(low) and np.rint(high) <= largest):
            return False
        np.rint(reals, out=reals)
        np.copyto(wholes, reals, casting="unsafe")
        return True

    def _refuse(
        self, values: NDArray, clients: int, noise: NDArray[np.int64] | None = None
    ) -> NoReturn:
        """Name the first value that does not fit."""
        units, limit = self.units(clients), self.limit(clients)
        for place, value in np.ndenumerate(values):
            added = 0 if noise is None else int(noise[np.ravel_multi_index(place, values.shape)])
            whole = self._one(float(value))
            if max(abs(whole), abs(whole + added)) <= units:
                continue
            what = repr(float(value)) + (f" with noise {added / self.scale!r}" if added else "")
            at = f" at {place if len(place) > 1 else place[0]}" if place else ""
            among = "" if clients == 1 else f", so that {clients} of them can be added up"
            raise ValueError(
                f"values must be finite and in [-{limit!r}, {limit!r}] "
                f"({self} in {self.ring}{among}), got {what}{at}"
            )
        raise AssertionError("no value is out of range")

    def _one(self, value: float) -> int:
        """round(value * scale) of one number as the arrays compute it; 2^64 if it has none."""
        product = value * self.scale
        return round(product) if math.isfinite(product) else 2**64

    def __str__(self) -> str:
        return f"{self.decimals} decimals" if self.bits is None else f"{self.bits} bits"


def narrowest(units: int, clients: int) -> Ring:
    """Of the rings modulo 2^32 and 2^64, the smaller one that holds sums exactly.

    Args:
        units: the largest |value| of a client with its noise, in units, >= 1.
        clients: how many are added up, >= 1.

    Raises:
        ValueError: an argument out of range, or neither ring is large enough.
    """
    needed = integer("units", units, 1) * integer("clients", clients, 1)
    for ring in (Z32, Z64):
        if needed <= ring.half:
            return ring
    raise ValueError(f"units times clients must be at most {Z64.half}, got {needed}")


def _float_below(whole: int) -> float:
    """The largest float64 that is not above `whole`."""
    near = float(whole)
    return near if near <= whole else math.nextafter(near, 0.0)


def real_array(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """`values` as contiguous float64, of the same shape.

    Raises:
        ValueError: they are no real numbers, or rows of different lengths; `name` is said.
    """
    try:
        array = np.asarray(values)
    except ValueError as problem:
        raise ValueError(f"{name} must be an array of real numbers: {problem}") from None
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got an array of {array.dtype}")
    return np.ascontiguousarray(array, np.float64).reshape(array.shape)


def _whole(noise: object, shape: tuple[int, ...]) -> NDArray[np.int64]:
    if not isinstance(noise, np.ndarray) or noise.dtype != np.int64 or noise.shape != shape:
        seen = f"{getattr(noise, 'dtype', type(noise).__name__)} of shape {np.shape(noise)}"
        raise ValueError(f"noise must be an int64 array of shape {shape}, got {seen}")
    return np.ascontiguousarray(noise)


def _place(out: Elements, shape: tuple[int, ...], dtype: np.dtype) -> Elements:
    if out.dtype != dtype or out.shape != shape or not out.flags.c_contiguous:
        raise ValueError(
            f"out must be a contiguous {dtype} array of shape {shape}, "
            f"got {out.dtype} of shape {out.shape}"
        )
    return out


def _fits(rounded: NDArray[np.int64], added: NDArray[np.int64], units: int) -> bool:
    """Whether |rounded + added| <= units where |rounded| <= units, computed without overflow."""
    above = rounded > units - np.maximum(added, 0)
    below = rounded < -units - np.minimum(added, 0)
    return not (above.any() or below.any())
