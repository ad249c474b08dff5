"""PM-SFL: the bound of Theorem 1 for a whole convolution, whose mask bits each touch many outputs.

A convolution with stride 1 is one linear map of all pixels of all channels, and a mask on its filters
masks that map. With circular padding the Fourier transform splits it into one small matrix a frequency,
so that its singular values are exact at any size. With zero padding it is the same map on all inputs
that vanish on the border, a subspace of k = channels x border dimensions less. By Courant and Fischer its
least singular value is then at most the (k+1)-th least of the circular one, and its largest at
least the (k+1)-th largest.
"""

from __future__ import annotations

import numpy as np

from repro._validate import in_unit, integer
from repro.accounting.pmsfl.printed import finite_numbers

__all__ = ["circular_singular_values", "convolution_terms"]


def circular_singular_values(filters: np.ndarray, *, side: int) -> np.ndarray:
    """All singular values of a convolution with stride 1 and circular padding, ascending.

    Args:
        filters: shape (out, in, k, k) with k <= side.
        side: height and width of the image in pixels, >= 1.

    Returns:
        shape (side^2 min(out, in),).

    Raises:
        ValueError: filters of another shape, not finite or larger than the image.
    """
    filters, side = finite_numbers("filters", filters), integer("side", side, 1)
    if filters.ndim != 4 or not filters.size or max(filters.shape[2:]) > side:
        raise ValueError(
            f"filters must have shape (out, in, k, k) with k <= {side}, got {filters.shape}"
        )
    symbols = np.moveaxis(np.fft.rfft2(filters, s=(side, side)), (0, 1), (2, 3))
    values = np.linalg.svd(symbols, compute_uv=False)
    twice = np.full(side // 2 + 1, 2)  # a real filter's frequencies come in conjugate pairs
    twice[0] = 1
    if side % 2 == 0:
        twice[-1] = 1
    return np.sort(np.repeat(values, twice, axis=1).ravel())


def convolution_terms(
    filters: np.ndarray, mask: np.ndarray, guess: np.ndarray, *, side: int
) -> tuple[float, float]:
    """The term of (29) of one guess: least over largest singular value of the masked convolutions.

    Args:
        filters: w, shape (channels, channels, k, k), k odd: as many numbers out as in.
        mask: M, zeros and ones of the shape of `filters`. guess: M^, likewise.
        side: of the image, >= k.

    Returns:
        the term with circular padding, exact; an upper limit of it with zero padding, by interlacing.

    Raises:
        ValueError: filters that are not square, masks with other values, shapes that do not fit.
    """
    filters, mask, guess = (
        finite_numbers("filters", filters),
        in_unit("mask", mask),
        in_unit("guess", guess),
    )
    if filters.ndim != 4 or filters.shape[0] != filters.shape[1] or filters.shape[2] % 2 == 0:
        raise ValueError(
            f"filters must have shape (channels, channels, k, k) with k odd, got {filters.shape}"
        )
    for name, value in (("mask", mask), ("guess", guess)):
        if value.shape != filters.shape or np.any((value != 0) & (value != 1)):
            raise ValueError(
                f"{name} must be zeros and ones of shape {filters.shape}, got shape {value.shape}"
            )
    change = circular_singular_values(filters * (guess - mask), side=side)
    kept = circular_singular_values(filters * guess, side=side)
    inner = side - 2 * (filters.shape[2] // 2)
    lost = filters.shape[0] * (side**2 - inner**2)
    return tuple(float(change[k] / kept[-1 - k]) if kept[-1 - k] > 0 else 0.0 for k in (0, lost))
