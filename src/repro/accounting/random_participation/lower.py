"""Lower bound for one iteration of two-level sampling: an explicit pair of data sets.

The differing record has gradient v of norm C; the client's d other records all share one gradient
u of norm C at an angle to v with cosine c; every other client contributes nothing. In the plane of
u and v the three hypotheses are mixtures of

    N at (0, 0),   M0 at (i C, 0),   M1 at (i C + c C, sqrt(1 - c^2) C),   weights Binomial(i; d, q),

so the divergence is one integral along u of a two-Gaussian divergence in closed form. c = 1 is
the configuration that Theorem 4.1 takes to be the worst; there a single threshold remains.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import elementwise
from scipy.special import log_ndtr, ndtr

from repro.accounting._binomial import window
from repro.accounting._gaussian import compress, log_diff, log_shift_divergence, log_sum
from repro.accounting._weights import weights
from repro.accounting.random_participation.comb import comb

__all__ = ["COSINES", "log_aligned", "log_oblique", "pair_masses"]

#: Angles that the lower bound tries (towards the record for "remove", away from it for "add").
COSINES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

_STEP = 1 / 6  # of the grid, in standard deviations: the trapezoidal rule is exponentially accurate
_REACH = 9.0
_CELLS = 4_000_000
_CELL = 1 / 14  # of the discretised outcomes, in standard deviations: costs loss to second order


def _log_normal(z):
    return -0.5 * z**2 - 0.5 * np.log(2 * np.pi)


def log_aligned(epsilon, s, p, q, d: int, direction: str) -> np.ndarray:
    """Divergence of the collinear pair, equation (30) of the paper; all arrays of shape (n,).

    For "remove" the other records point along the differing one (the paper's case), for "add"
    against it. As a function of exp(z / s^2) the integrand is a power series whose coefficients
    change sign once, so it has exactly one zero crossing z* (Descartes) and only two tails remain.
    """
    counts, log_b, _ = window(d, q)
    factor, log_w1, log_w0 = weights(epsilon, p, q, direction)
    added = counts + 1 if direction == "remove" else counts
    col = s[:, None]

    def tails(z, rows, function):
        a, b = added[rows], log_b[rows]
        positive = log_sum(b + function((z - a) / col[rows]), axis=1)
        negative = log_w1[rows] + log_sum(b + function((z - a + 1) / col[rows]), axis=1)
        return positive, np.logaddexp(negative, log_w0[rows] + function(z / col[rows])[:, 0])

    def balance(z, row):
        positive, negative = tails(z[:, None], row.astype(int), _log_normal)
        return compress(positive - negative)

    usable = np.isfinite(factor) & np.isfinite(log_w1)
    result = np.full(epsilon.shape, -np.inf)
    rows = np.flatnonzero(usable)
    if rows.size == 0:
        return result
    low = added[rows, 0] - 0.5 + s[rows] ** 2 * log_w1[rows] - 1e-9
    last = added[rows, -1]
    last_b = log_b[rows, -1]
    # Where the window's last weight underflows, start from the heaviest one and search upwards.
    guess = np.maximum(last - 0.5 + s[rows] ** 2 * (log_w1[rows] + 1), low + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        alone = last / 2 + s[rows] ** 2 * (1 + log_w0[rows] - last_b) / np.maximum(last, 1)
    high = np.where(np.isfinite(alone), np.maximum(guess, alone), guess)
    bracket = elementwise.bracket_root(balance, low, high, args=(rows.astype(float),))
    good = bracket.success
    found = elementwise.find_root(balance, bracket.bracket, args=(rows.astype(float),))
    z = np.where(good, found.x, np.inf)
    tail = lambda x: log_ndtr(-x)  # noqa: E731
    positive, negative = tails(np.where(good, z, 0.0)[:, None], rows, tail)
    result[rows] = np.where(good, factor[rows] + log_diff(positive, negative), -np.inf)
    return result


def _profiles(s, q, d: int, cosine: float):
    """Log densities of M1, M0 and N on a common grid along u, one row per pair (s, q).

    Returns:
      log of the step in units of s, shape (n,), and the three arrays, shape (n, points).
    """
    grid = comb(d, q, s, step=_STEP, reach=_REACH)

    def density(distance):
        return np.exp(_log_normal(distance / s[:, None]))

    with np.errstate(divide="ignore"):
        log_m1, log_m0 = (np.log(grid.mixture(density, shift)) for shift in (cosine, 0.0))
    return -np.log(grid.per_clip * s), log_m1, log_m0, _log_normal(grid.y / s[:, None])


def log_oblique(epsilon, s, p, q, d: int, cosine: float, direction: str) -> np.ndarray:
    """Divergence of the pair at an angle, |cosine| <= 0.9; all arrays of shape (n,).

    The integrand is non-negative, so that restricting it to the grid's range can only lower it.
    """
    pairs, inverse = np.unique(np.stack([s, q]), axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    factor, log_w1, log_w0 = weights(epsilon, p, q, direction)
    result = np.full(epsilon.shape, -np.inf)
    mu = np.sqrt(1 - cosine**2) / s
    for group in _groups(pairs[0], d):
        log_dy, log_m1, log_m0, log_n = _profiles(pairs[0, group], pairs[1, group], d, cosine)
        rows = np.flatnonzero(
            (inverse >= group.start) & (inverse < group.stop) & np.isfinite(factor)
        )
        step = max(1, _CELLS // log_n.shape[1])
        for part in (rows[k : k + step] for k in range(0, rows.size, step)):
            at = inverse[part] - group.start
            a, b = _sides(
                log_m1[at], log_m0[at], log_n[at], log_w1[part, None], log_w0[part, None], direction
            )
            with np.errstate(invalid="ignore"):
                ratio = np.where(np.isfinite(a), b - a, np.inf)
            inner = a + log_shift_divergence(mu[part, None], ratio)
            result[part] = factor[part] + log_dy[at] + log_sum(inner, axis=1)
    return result


def _sides(log_m1, log_m0, log_n, log_w1, log_w0, direction):
    """What is added at one end and subtracted at the other end of v, at each point along u."""
    if direction == "remove":
        return log_m1, np.logaddexp(log_w1 + log_m0, log_w0 + log_n)
    return log_diff(log_m0, log_w0 + log_n), log_w1 + log_m1


def _groups(s: np.ndarray, d: int) -> list[slice]:
    """Runs of the sorted noise multipliers that share one grid: alike in size, and few enough."""
    octave = np.floor(np.log2(s))
    cuts = [0, *(np.flatnonzero(np.diff(octave)) + 1), s.size]
    groups = []
    for start, stop in zip(cuts, cuts[1:], strict=False):
        span = min(d, 28 * np.sqrt(d) + 80) + 2 * (_REACH * s[stop - 1] + 2)
        step = max(1, int(_CELLS // (span * np.ceil(1 / (_STEP * s[start])))))
        groups += [slice(k, min(k + step, stop)) for k in range(start, stop, step)]
    return groups


def pair_masses(
    s: float, p: float, q: float, d: int, cosine: float
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, with and without the record, of the cells of a grid on the (u, v) plane.

    Reporting only the cell is post-processing, so whatever these two discrete distributions leak,
    composed or not, the explicit pair leaks at least.

    Args:
      s, p, q, d: noise multiplier, rates and number of other records.
      cosine: between the record's gradient and the others', in [-1, 1].

    Returns:
      two arrays of the same shape, each adding up to 1.
    """
    sine = np.sqrt(max(0.0, 1 - cosine**2))
    grid = comb(d, np.array([q]), np.array([s]), step=_CELL, reach=_REACH)

    def cells(below: np.ndarray, above: np.ndarray) -> np.ndarray:
        """Masses between the edges, each from the tail it lies in, so that no rounding invents any."""
        left = np.diff(np.concatenate([[0.0], below, [1.0]]))
        right = -np.diff(np.concatenate([[1.0], above, [0.0]]))
        return np.maximum(np.where(np.append(below, 1.0) < 0.5, left, right), 0.0)

    def gaussian_cells(y: np.ndarray) -> np.ndarray:
        return cells(ndtr(y / s), ndtr(-y / s))

    def edges(low: float, high: float) -> np.ndarray:
        return np.arange(low - _REACH * s, high + _REACH * s, s * _CELL)

    # Silence may lie far below every likely sum: then its surroundings get cells of their own.
    near = edges(0.0, 0.0)
    near = near[near < grid.y[0, 0]]
    stay = gaussian_cells(np.concatenate([near, grid.y[0]]))

    def mixture_cells(shift: float) -> np.ndarray:
        below, above = (
            np.minimum(grid.mixture(lambda y, sign=sign: ndtr(sign * y[None] / s), shift)[0], 1.0)
            for sign in (1, -1)
        )
        return cells(np.concatenate([0 * near, below]), np.concatenate([0 * near + 1, above]))

    m0, m1 = mixture_cells(0.0), mixture_cells(cosine)
    across = edges(0.0, sine)
    zero, moved = gaussian_cells(across), gaussian_cells(across - sine)
    without = np.outer((1 - p) * stay + p * m0, zero)
    return without + p * q * (np.outer(m1, moved) - np.outer(m0, zero)), without
