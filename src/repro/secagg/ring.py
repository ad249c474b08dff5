"""The rings in which shares live: whole numbers modulo 2^64, or modulo a prime such as 2^61 - 1.

Elements are uint64 arrays of any shape with values in [0, modulus). Modulo 2^64 the machine's own
wrap-around does the work; for smaller moduli one comparison per operation does (the smaller of x
and x - modulus, both taken modulo 2^64, is x reduced).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer

Elements = NDArray[np.uint64]


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
    def wraps(self) -> bool:
        """Whether uint64 arithmetic alone is arithmetic of this ring."""
        return self.modulus == 2**64

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
            return rows.sum(axis=0, dtype=np.uint64)
        total = np.zeros(rows.shape[1:], np.uint64)
        for row in rows:  # over parties, each a whole array
            self.add(total, row, out=total)
        return total

    def embed(self, integers: NDArray[np.int64]) -> Elements:
        """Turn signed whole numbers in [-half, half] (not checked) into elements, in place."""
        elements = integers.view(np.uint64)
        if not self.wraps:
            np.minimum(elements, elements + np.uint64(self.modulus), out=elements)
        return elements

    def centre(self, elements: Elements) -> NDArray[np.int64]:
        """Elements as signed whole numbers: x for x <= half, x - modulus above."""
        elements = self.elements("elements", elements)
        if self.wraps:
            return elements.view(np.int64).copy()
        shifted = elements - np.uint64(self.modulus)
        return np.where(elements <= np.uint64(self.half), elements, shifted).view(np.int64)

    def elements(self, name: str, array: object) -> Elements:
        """`array` itself if it holds elements of this ring.

        Raises:
            ValueError: it is no uint64 array, or holds a number outside [0, modulus).
        """
        if not isinstance(array, np.ndarray) or array.dtype != np.uint64:
            kind = getattr(array, "dtype", type(array).__name__)
            raise ValueError(f"{name} must be a uint64 array of elements of {self}, got {kind}")
        if not self.wraps and array.size and int(array.max()) >= self.modulus:
            raise ValueError(
                f"{name} must be in [0, {self.modulus}) for elements of {self}, "
                f"got {int(array.max())}"
            )
        return array


Z64 = Ring(2**64)
"""The default: arithmetic is the machine's, every 64 random bits are an element."""

ZP61 = Ring(2**61 - 1)
"""A large prime p, as in ddpsa, Algorithm 1."""
