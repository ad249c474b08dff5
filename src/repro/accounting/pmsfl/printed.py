"""PM-SFL: what the paper's bounds and theorems say, as printed, whatever their verdict.

Functions take and return arrays that broadcast. Letters of the paper: `dimension` is d or d_b, the
parameters under a mask; `floor` is c, the margin that keeps every mask probability in [c, 1 - c];
`clients` is K, `steps` is R, `clip` is Gamma, `batch` is |Q_k|. Epsilons and deltas have no unit.

Which of these are bounds, and what is true where they are not, is in `releases`.

**Theorem 1 for a whole convolution, whose mask bits each touch many outputs.** A convolution with
stride 1 is one linear map of all pixels of all channels, and a mask on its filters masks that map.
With circular padding the Fourier transform splits it into one small matrix a frequency, so that its
singular values are exact at any size. With zero padding it is the same map on all inputs that
vanish on the border, a subspace of k = channels x border dimensions less. By Courant and Fischer
its least singular value is then at most the (k+1)-th least of the circular one, and its largest at
least the (k+1)-th largest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from repro._validate import (
    broadcastable,
    choice,
    in_unit,
    integer,
    nonnegative,
    positive,
    probability_open,
)

SPECTRA = ("eigenvalues", "singular values")
FORMS = ("printed", "meant")
SLOPES = ("paper", "straight-through")


def margin(floor: ArrayLike) -> np.ndarray:
    """The margin c as a float array.

    Raises:
        ValueError: a value outside (0, 1/2).
    """
    array = positive("floor", floor)
    if np.any(array >= 0.5):
        raise ValueError(f"floor must be in (0, 0.5), got {floor!r}")
    return array


def finite_numbers(name: str, value: ArrayLike) -> np.ndarray:
    """Finite numbers as a float array.

    Raises:
        ValueError: something else.
    """
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be finite numbers, got {value!r}") from None
    if not np.all(np.isfinite(array)):
        raise ValueError(
            f"{name} must be finite, got {float(array[~np.isfinite(array)].flat[0])!r}"
        )
    return array


def _dimension(value: ArrayLike) -> np.ndarray:
    """The number of parameters as a float array."""
    array = positive("dimension", value)
    if np.any(array < 1):
        raise ValueError(f"dimension must be >= 1, got {value!r}")
    return array


def score_slope(scores: ArrayLike, *, rule: str = "paper") -> np.ndarray:
    """d mask / d score, what multiplies the gradient with respect to the masked weights times w.

    "paper" is sigma(s) sigma'(s) of (4) and (17), the slope of sigma(s)^2 / 2; "straight-through" is
    sigma'(s), the derivative when the sampled mask stands for its probability.

    Args:
        scores: s, any finite numbers.
        rule: "paper" or "straight-through".

    Raises:
        ValueError: scores that are not finite, an unknown rule.
    """
    choice("rule", rule, SLOPES)
    scores = finite_numbers("scores", scores)
    keep, drop = (np.exp(-np.logaddexp(0.0, x)) for x in (-scores, scores))
    return keep * drop * (keep if rule == "paper" else 1.0)


def estimator_error_bound(dimension: ArrayLike, *, clients: ArrayLike) -> np.ndarray:
    """Equation (6): d / (4 K), a bound on the expected squared error of the averaged binary masks.

    Args:
        dimension: d >= 1.
        clients: K >= 1.

    Raises:
        ValueError: an argument out of range.
    """
    clients = positive("clients", clients)
    if np.any(clients < 1):
        raise ValueError(f"clients must be >= 1, got {clients!r}")
    broadcastable(dimension=dimension, clients=clients)
    return _dimension(dimension) / (4 * clients)


def reconstruction_bound(
    weights: np.ndarray, mask: np.ndarray, guesses: np.ndarray, *, spectrum: str = "eigenvalues"
) -> np.ndarray:
    """The terms of (9) or (29), one for each guess: lambda_min(w o (M^ - M)) / lambda_max(w o M^).

    Weighted with the probabilities of the guesses and summed this is the bound on the reconstruction
    error over |x|; the guess that equals the mask contributes nothing.

    Args:
        weights: w, shape (m, n); square for eigenvalues.
        mask: M, zeros and ones of the shape of `weights`.
        guesses: M^, zeros and ones, shape (..., m, n).
        spectrum: "eigenvalues" as in (9), by modulus; "singular values" as in appendix C, where the
            least one is the least stretch of any direction: 0 if m < n.

    Returns:
        shape (...); infinity where the guess removes every weight but the mask does not.

    Raises:
        ValueError: shapes that do not fit, masks with other values, eigenvalues of a matrix that is not
            square.
    """
    choice("spectrum", spectrum, SPECTRA)
    weights = finite_numbers("weights", weights)
    if weights.ndim != 2 or not weights.size:
        raise ValueError(f"weights must be a finite matrix, got shape {weights.shape}")
    rows, columns = weights.shape
    if spectrum == "eigenvalues" and rows != columns:
        raise ValueError(f"weights must be square to have eigenvalues, got {weights.shape}")
    mask, guesses = in_unit("mask", mask), in_unit("guesses", guesses)
    for name, value in (("mask", mask), ("guesses", guesses)):
        if value.shape[-2:] != weights.shape or np.any((value != 0) & (value != 1)):
            raise ValueError(
                f"{name} must be zeros and ones of shape (..., {rows}, {columns}), "
                f"got shape {value.shape}"
            )
    broadcastable(mask=mask, guesses=guesses)
    change = weights * (guesses - mask)
    stretch = np.linalg.svd(change, compute_uv=False)
    flat = stretch.min(-1) <= max(rows, columns) * np.finfo(float).eps * stretch.max(-1)
    if spectrum == "eigenvalues":
        least = np.abs(np.linalg.eigvals(change)).min(-1)
        most = np.abs(np.linalg.eigvals(weights * guesses)).max(-1)
    else:
        least = stretch.min(-1)
        most = np.linalg.svd(weights * guesses, compute_uv=False).max(-1)
    least = np.where(flat | (rows < columns), 0.0, least)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(least == 0, 0.0, least / most)


def smashed_epsilon(epsilon: ArrayLike, *, dimension: ArrayLike, floor: ArrayLike) -> np.ndarray:
    """Theorem 2: ln((1 - c^d) e^epsilon + c^d), the epsilon of noisy smashed data behind a mask.

    Args:
        epsilon: of the Laplace noise alone, >= 0.
        dimension: d >= 1.
        floor: c in (0, 1/2).

    Raises:
        ValueError: an argument out of range.
    """
    epsilon, power = _powers(epsilon, dimension, floor)
    return epsilon + np.log1p(np.exp(power) * np.expm1(-epsilon))


def smashed_gain_log10(epsilon: ArrayLike, *, dimension: ArrayLike, floor: ArrayLike) -> np.ndarray:
    """log10 of what Theorem 2 takes off epsilon, which no double can hold for a real network.

    To first order in c^d, which is c^d (1 - e^-epsilon). Arguments as above, but epsilon > 0: of nothing, nothing
    can be taken off.
    """
    epsilon, power = _powers(positive("epsilon", epsilon), dimension, floor)
    return (power + np.log(-np.expm1(-epsilon))) / np.log(10)


def _powers(
    epsilon: ArrayLike, dimension: ArrayLike, floor: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """epsilon and d ln c, checked."""
    broadcastable(epsilon=epsilon, dimension=dimension, floor=floor)
    power = _dimension(dimension) * np.log(margin(floor))
    return nonnegative("epsilon", epsilon), power


def step_sigma(
    epsilon: ArrayLike, delta: ArrayLike, *, steps: ArrayLike, clip: ArrayLike, batch: ArrayLike
) -> np.ndarray:
    """Theorem 3, first strategy, (63): Gamma sqrt(2 R ln(1/delta)) / (epsilon |Q|).

    Standard deviation of the noise on every score in every local step.

    Args:
        epsilon: > 0, of all R steps together.
        delta: in (0, 1).
        steps: R > 0.
        clip: Gamma > 0, in units of the scores.
        batch: |Q_k| > 0.

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(epsilon=epsilon, delta=delta, steps=steps, clip=clip, batch=batch)
    log_term = -np.log(probability_open("delta", delta))
    spread = positive("clip", clip) * np.sqrt(2 * positive("steps", steps) * log_term)
    return spread / (positive("epsilon", epsilon) * positive("batch", batch))


def mask_sigma(epsilon: ArrayLike, delta: ArrayLike, *, floor: ArrayLike) -> np.ndarray:
    """Theorem 3, second strategy, (70): (1 - 2c) sqrt(2 ln(1.25/delta)) / epsilon.

    Standard deviation of the noise on every mask probability, before they are clipped to [c, 1 - c].

    Args:
        epsilon: > 0.
        delta: in (0, 1).
        floor: c in (0, 1/2).

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(epsilon=epsilon, delta=delta, floor=floor)
    log_term = np.log(1.25 / probability_open("delta", delta))
    return (1 - 2 * margin(floor)) * np.sqrt(2 * log_term) / positive("epsilon", epsilon)


def sampling_term(
    alpha: ArrayLike, *, dimension: ArrayLike, floor: ArrayLike, form: str = "printed"
) -> np.ndarray:
    """The amplified epsilon after Theorem 3 at one order: d/(alpha - 1) log(first + second term).

    Args:
        alpha: > 1.
        dimension: d >= 1.
        floor: c in (0, 1/2).
        form: "printed" adds (1-c)^alpha c^(1-alpha) to itself; "meant" adds it to
            c^alpha (1-c)^(1-alpha), which makes it the Renyi divergence of Bernoulli(1-c) from
            Bernoulli(c), d times.

    Raises:
        ValueError: an argument out of range.
    """
    choice("form", form, FORMS)
    broadcastable(alpha=alpha, dimension=dimension, floor=floor)
    alpha, c = positive("alpha", alpha), margin(floor)
    if np.any(alpha <= 1):
        raise ValueError(f"alpha must be above 1, got {alpha!r}")
    odds = np.log1p(-c) - np.log(c)
    with np.errstate(over="ignore"):  # the second term over the first, in logs
        second = np.zeros_like(odds) if form == "printed" else (1 - 2 * alpha) * odds
    both = odds + (np.log1p(-c) + np.log1p(np.exp(second))) / (alpha - 1)
    return _dimension(dimension) * both


def sampled_epsilon(
    epsilon: ArrayLike, *, dimension: ArrayLike, floor: ArrayLike, form: str = "printed"
) -> np.ndarray:
    """min(epsilon, infimum of `sampling_term` over alpha > 1), the amplified epsilon after Theorem 3.

    The printed term falls with alpha, to the limit d ln((1-c)/c); the meant one rises with alpha, from
    the limit d (1-2c) ln((1-c)/c) at alpha = 1. Arguments as there; epsilon >= 0.
    """
    choice("form", form, FORMS)
    broadcastable(epsilon=epsilon, dimension=dimension, floor=floor)
    c = margin(floor)
    odds = np.log1p(-c) - np.log(c)
    limit = _dimension(dimension) * odds * (1 if form == "printed" else 1 - 2 * c)
    return np.minimum(nonnegative("epsilon", epsilon), limit)


# Theorem 1 for a convolution ----------------------------------------------------------------------


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
        mask: M, zeros and ones of the shape of `filters`.
        guess: M^, likewise.
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
