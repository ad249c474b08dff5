"""The rings in which shares live: whole numbers modulo 2^64, 2^32, or a prime such as 2^61 - 1.

Elements are arrays of any shape with values in [0, modulus): uint32 modulo 2^32, else uint64. Modulo
2^32 and 2^64 the machine's own wrap-around does the work. For other moduli one comparison per
operation does (the smaller of x and x - modulus, both taken modulo 2^64, is x reduced).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer

Elements = NDArray[np.uint64] | NDArray[np.uint32]


@dataclass(frozen=True)
class Ring:
    """The whole numbers modulo `modulus`.

    Args:
        modulus: 2^64, or any integer in [2, 2^63] (prime or not: sharing only adds).

    Raises:
        ValueError: another modulus.
    """

    modulus: int = 2**64

    def __post_init__(self) -> None:
        if self.modulus != 2**64:
            integer("modulus", self.modulus, 2, 2**63)

    def __str__(self) -> str:
        power = self.modulus.bit_length()
        for name, value in ((f"2^{power - 1}", 2 ** (power - 1)), (f"2^{power}-1", 2**power - 1)):
            if power > 8 and self.modulus == value:
                return f"Z_({name})"
        return f"Z_{self.modulus}"

    @property
    def half(self) -> int:
        """The largest h such that -h, …, h are all different elements."""
        return (self.modulus - 1) // 2

    @property
    def dtype(self) -> np.dtype:
        """How elements are held: 4 bytes each modulo 2^32, else 8."""
        return np.dtype(np.uint32 if self.modulus == 2**32 else np.uint64)

    @property
    def written(self) -> np.dtype:
        """How elements are sent: `dtype`, little-endian on every machine."""
        return self.dtype.newbyteorder("<")

    @property
    def wraps(self) -> bool:
        """Whether arithmetic of `dtype` alone is arithmetic of this ring."""
        return self.modulus in (2**32, 2**64)

    def add(self, a: Elements, b: Elements, out: Elements | None = None) -> Elements:
        """a + b, element by element; `out` may be one of them."""
        total = np.add(a, b, out=out)
        if not self.wraps:
            np.minimum(total, total - np.uint64(self.modulus), out=total)
        return total

    def subtract(self, a: Elements, b: Elements, out: Elements | None = None) -> Elements:
        """a - b, element by element; `out` may be one of them."""
        difference = np.subtract(a, b, out=out)
        if not self.wraps:
            np.minimum(difference, difference + np.uint64(self.modulus), out=difference)
        return difference

    def sum(self, rows: Elements) -> Elements:
        """The sum over the first axis, shape (rows, …) -> (…)."""
        rows = self.elements("rows", rows)
        if self.wraps:
            return rows.sum(axis=0, dtype=self.dtype)
        total = np.zeros(rows.shape[1:], np.uint64)
        for row in rows:  # over parties, each a whole array
            self.add(total, row, out=total)
        return total

    def embed(self, integers: NDArray[np.int64]) -> Elements:
        """Turn signed whole numbers in [-half, half] (not checked) into elements.

        Elements of 8 bytes take the place of `integers`, those of 4 bytes are a new array.
        """
        if self.dtype != np.uint64:
            return integers.astype(self.dtype)  # the low bits, which is modulo 2^32
        elements = integers.view(np.uint64)
        if not self.wraps:
            np.minimum(elements, elements + np.uint64(self.modulus), out=elements)
        return elements

    def centre(self, elements: Elements) -> NDArray[np.int64]:
        """Elements as signed whole numbers: x for x <= half, x - modulus above."""
        elements = self.elements("elements", elements)
        if self.wraps:
            signed = np.dtype(f"i{self.dtype.itemsize}")
            return elements.view(signed).astype(np.int64)
        shifted = elements - np.uint64(self.modulus)
        return np.where(elements <= np.uint64(self.half), elements, shifted).view(np.int64)

    def elements(self, name: str, array: object) -> Elements:
        """`array` itself if it holds elements of this ring.

        Raises:
            ValueError: it is no array of `dtype`, or holds a number outside [0, modulus).
        """
        if not isinstance(array, np.ndarray) or array.dtype != self.dtype:
            kind = getattr(array, "dtype", type(array).__name__)
            raise ValueError(
                f"{name} must be a {self.dtype} array of elements of {self}, got {kind}"
            )
        if not self.wraps and array.size and int(array.max()) >= self.modulus:
            raise ValueError(
                f"{name} must be in [0, {self.modulus}) for elements of {self}, "
                f"got {int(array.max())}"
            )
        return array


Z64 = Ring(2**64)
"""The default: arithmetic is the machine's, every 64 random bits are an element."""

Z32 = Ring(2**32)
"""Half the bytes: 32 bits hold 10^5 clients' values of 14 binary places in [-1, 1]."""

ZP61 = Ring(2**61 - 1)
"""A large prime p, as in ddpsa, Algorithm 1."""
