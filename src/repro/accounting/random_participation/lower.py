"""Lower bound for one iteration of two-level sampling: an explicit pair of data sets.

The differing record has gradient v of norm C; the client's d other records all share one gradient
u of norm C at an angle to v with cosine c; every other client contributes nothing. In the plane of
u and v the three hypotheses are mixtures of

    N at (0, 0),   M0 at (i C, 0),   M1 at (i C + c C, sqrt(1 - c^2) C),   weights Binomial(i; d, q).

c = 1 is the configuration that Theorem 4.1 takes to be the worst; there a single threshold remains.
For the other angles the adversary reports a cell [y - h/2, y + h/2] of the axis u and then the best
half-line along v. Every event whatever gives a lower bound, so cells lose something (of second order
in h) and never gain: no quadrature is behind a value that is returned. A cheaper quadrature, the
trapezoidal rule, only chooses the angle and the range of cells that are worth looking at.

What is left is rounding, which is charged against the bound:

* Counts without a place in the sums. Dropping them from P - alpha Q changes the event's value by at
  most w1 times their weight, which is subtracted.
* Relative errors of masses. SciPy's binomial weights are good to 2e-13 (measured against 40 digits up
  to d = 2e5), its normal tails to 6e-14; cell masses are differences of two tails of ratio at least
  1 + h/2, which costs a factor 2/h < 100 next to the centre, where the tails themselves are good to
  1e-15. `_ROUNDING` is ten times their sum. It lowers what counts for the adversary and raises what
  counts against.
* Errors of the logarithm of a tail at t, below `_UNITS` (1 + t^2) units of rounding: the arguments
  are rounded once, and the slope of the logarithm times t is at most 1 + t^2.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.optimize import elementwise
from scipy.special import log_ndtr, ndtr

from repro.accounting._binomial import window
from repro.accounting._gaussian import compress, log_diff, log_shift_divergence, log_sum
from repro.accounting._weights import weights
from repro.accounting.random_participation.comb import Comb, comb

__all__ = ["COSINES", "WIDEST", "log_aligned", "log_oblique", "log_oblique_best", "pair_masses"]

#: Angles that the lower bound tries (towards the record for "remove", away from it for "add").
COSINES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

_SCAN_STEP = 1 / 3  # of the grid that chooses the angle, in standard deviations
_SCAN_LIGHTEST = -45.0  # logarithm of the smallest binomial weight in that choice
_CELL = 1 / 48  # width of the cells behind a bound, in standard deviations
_LIGHTEST = -80.0  # logarithm of the smallest binomial weight behind a bound
_PAIR_CELL = 1 / 14  # the same for loss distributions, which are cells on both axes
_MOST_CELLS = 15_000_000  # on both axes
_EMPTY = 1e-40  # mass of a row of cells, or of a column, that is left out
_GRID_REACH = 9.0  # margin of the grids around the outermost counts, in standard deviations
_BLOCK = 1_000_000  # numbers in memory at a time
WIDEST = 1e5  # noise multiplier beyond which other records hide nothing that grids could show
_FAINT = 30.0  # logarithm by which a cell may fall below the best one and still be looked at
_ROUNDING = 4e-12  # relative error of masses, see the module docstring
_UNITS = 8 * np.finfo(float).eps
_LEAST_LOG = -700.0  # sums of masses below exp(-700) may have lost terms to underflow


def _log_normal(z):
    return -0.5 * z**2 - 0.5 * np.log(2 * np.pi)


def _density(s, distance):
    return np.exp(_log_normal(distance / s[:, None]))


def log_aligned(
    epsilon: np.ndarray,
    s: np.ndarray,
    p: np.ndarray,
    q: np.ndarray,
    d: int,
    direction: str,
    *,
    charged: bool = True,
) -> np.ndarray:
    """Divergence of the collinear pair, equation (30) of the paper; all arrays of shape (n,).

    For "remove" the other records point along the differing one (the paper's case), for "add"
    against it. As a function of exp(z / s^2) the integrand is a power series whose coefficients
    change sign once, so it has exactly one zero crossing z* (Descartes) and only two tails remain.
    Any threshold gives a lower bound, so an inexact z* is harmless; the sums are rounded down unless
    `charged` is false: the formula as printed is no bound and keeps its own digits.
    """
    counts, log_b, outside = window(d, q)
    factor, log_w1, log_w0 = weights(epsilon, p, q, direction)
    added = counts + 1 if direction == "remove" else counts
    col = s[:, None]

    def tails(z, rows, function):
        a, b = added[rows], log_b[rows]
        positive = log_sum(b + function((z - a) / col[rows]), axis=1)
        negative = log_w1[rows] + log_sum(b + function((z - a + 1) / col[rows]), axis=1)
        away = log_w0[rows] + function(z / col[rows])[:, 0]
        return positive, np.logaddexp(negative, away)

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
    tail = lambda x: log_ndtr(-x)  # noqa: E731
    # Where the logs exceed 1e16 (s = 1e7, epsilon = 20), doubles lie 4 apart: their difference is rounding
    # and the search has no sign to follow. Any threshold will do, so an end of the bracket does.
    z = np.where(found.success, found.x, bracket.bracket[0])
    z = np.where(good, z, 0.0)
    positive, negative = tails(z[:, None], rows, tail)
    if charged:
        with np.errstate(divide="ignore"):
            negative = np.logaddexp(negative, log_w1[rows] + np.log(outside[rows]))
        positive, negative = positive - _slack(positive), negative + _slack(negative)
    result[rows] = np.where(good, factor[rows] + log_diff(positive, negative), -np.inf)
    return result


def _slack(log_value):
    """Rounding of the log of a sum of weights times normal tails.

    Terms whose t^2 / 2 exceeds -log of the sum by more than 40 are less than exp(-40) of it together,
    so 2 (40 + |value|) bounds the t^2 that count.
    """
    return _ROUNDING + _UNITS * (1 + 2 * (40 + np.abs(log_value)))


def _sides(log_m1, log_m0, log_n, log_w1, log_w0, direction):
    """What is added at one end and subtracted at the other end of v, at each point along u."""
    if direction == "remove":
        return log_m1, np.logaddexp(log_w1 + log_m0, log_w0 + log_n)
    return log_diff(log_m0, log_w0 + log_n), log_w1 + log_m1


def _scan(epsilon, s, p, q, d: int, direction: str):
    """Estimates of the divergence by the trapezoidal rule, at every angle, and where along u they lie.

    No bound: where the divergence changes within less than a step, the rule may err to either side.

    Returns:
        log of the divergence, and the first and last y that matter, in units of the clip, each of
        shape (angles, n). The angles are those of `COSINES`, away from the record for "add".
    """
    result, first, last = (np.full((len(COSINES), epsilon.size), -np.inf) for _ in range(3))
    for part, at, grid, spread in _blocks(
        epsilon, s, p, q, d, direction, _SCAN_STEP, _SCAN_LIGHTEST
    ):
        density = partial(_density, spread)
        with np.errstate(divide="ignore"):
            log_m0 = np.log(grid.mixture(density, 0.0))[at]
        log_n = _log_normal(grid.y / spread[:, None])[at]
        factor, log_w1, log_w0 = weights(epsilon[part], p[part], q[part], direction)
        for k, cosine in enumerate(_towards(direction)):
            with np.errstate(divide="ignore"):
                log_m1 = np.log(grid.mixture(density, cosine))[at]
            a, b = _sides(log_m1, log_m0, log_n, log_w1[:, None], log_w0[:, None], direction)
            with np.errstate(invalid="ignore"):
                ratio = np.where(np.isfinite(a), b - a, np.inf)
            mu = np.sqrt(1 - cosine**2) / s[part]
            inner = a + log_shift_divergence(mu[:, None], ratio)
            result[k, part] = factor + np.log(grid.step / s[part]) + log_sum(inner, axis=1)
            matters = inner > np.max(inner, axis=1, keepdims=True) - _FAINT
            ends = (
                np.argmax(matters, axis=1),
                matters.shape[1] - 1 - np.argmax(matters[:, ::-1], axis=1),
            )
            first[k, part], last[k, part] = (grid.y[at, end] for end in ends)
    return result, first, last


def _towards(direction: str) -> list[float]:
    """The cosines with the sign that hurts: towards the record for "remove", away from it for "add"."""
    sign = 1.0 if direction == "remove" else -1.0
    return [sign * cosine for cosine in COSINES]


def log_oblique(
    epsilon: np.ndarray,
    s: np.ndarray,
    p: np.ndarray,
    q: np.ndarray,
    d: int,
    cosine: float,
    direction: str,
    ends: np.ndarray | None = None,
) -> np.ndarray:
    """Lower bound on the divergence of the pair at an angle, |cosine| <= 0.9; arrays of shape (n,).

    Args:
        epsilon, s, p, q: epsilon >= 0, noise multiplier and rates, s, p, q > 0.
        d: number of other records, >= 1. cosine: of the angle. direction: "add" or "remove".
        ends: first and last y of the cells to look at, in units of the clip, two arrays of shape (n,);
            all cells without them. The integrand is nowhere negative, so leaving out cells is safe.

    Returns:
        log of the bound, shape (n,), -inf where rounding leaves nothing.
    """
    result = np.full(epsilon.shape, -np.inf)
    mu = np.sqrt(1 - cosine**2) / s
    for part, at, grid, spread in _blocks(epsilon, s, p, q, d, direction, _CELL, _LIGHTEST):
        points = slice(None)
        if ends is not None:
            margin = 2 * _SCAN_STEP * spread[at]
            near = (grid.y[at] >= (ends[0][part] - margin)[:, None]) & (
                grid.y[at] <= (ends[1][part] + margin)[:, None]
            )
            some = np.flatnonzero(np.any(near, axis=0))
            if some.size == 0:
                continue
            points = slice(some[0], some[-1] + 1)
        log_m1, log_m0 = (
            _log_mixture_cells(grid, spread, shift, points) for shift in (cosine, 0.0)
        )
        log_n = _log_cells(grid.y[:, points], grid.step, spread)
        factor, log_w1, log_w0 = weights(epsilon[part], p[part], q[part], direction)
        a, b = _sides(
            log_m1[at] - (_ROUNDING if direction == "remove" else 0.0),
            log_m0[at] - (_ROUNDING if direction == "add" else 0.0),
            log_n[at],
            log_w1[:, None],
            log_w0[:, None],
            direction,
        )
        total = log_sum(_half_lines(a, b + 2 * _ROUNDING, mu[part, None]), axis=1) - _ROUNDING
        with np.errstate(divide="ignore"):
            left_out = np.logaddexp(np.log(grid.dropped[at]), _LEAST_LOG) + log_w1
        result[part] = factor + log_diff(total, left_out)
    return result


def _half_lines(a, b, mu):
    """log of what half-lines of v beyond t = log(b / a) / mu + mu / 2 gain, a Phi(mu - t) - b Phi(-t).

    Any t gives a lower bound, so its own rounding is harmless.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        t = np.where(np.isfinite(a), (b - a) / mu + mu / 2, np.inf)
        t = np.clip(t, -40.0, 1e6)
        error = _UNITS * (2 + (np.abs(t) + mu) ** 2 + np.abs(a) + np.abs(b))
        gain = log_diff(a + log_ndtr(mu - t) - error, b + log_ndtr(-t) + error)
    return np.where(np.isfinite(a), gain, -np.inf)


def _log_mixture_cells(grid: Comb, s: np.ndarray, shift: float, points: slice) -> np.ndarray:
    """log of the masses of a mixture over counts in the grid's cells, shape (n, points)."""

    def masses(distance):
        low, high = ((distance + side * grid.step) / s[:, None] for side in (-0.5, 0.5))
        return normal_masses(low, high)

    with np.errstate(divide="ignore"):
        return np.log(grid.mixture(masses, shift, points))


def normal_masses(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Standard normal masses between two ends, each from the tail that it lies in."""
    first, second = ndtr(-np.abs(low)), ndtr(-np.abs(high))
    return np.where((low < 0) & (high > 0), 1 - first - second, np.abs(first - second))


def _log_cells(y: np.ndarray, width: float, s: np.ndarray) -> np.ndarray:
    """Upper bound on the log of the mass around 0 of cells about y, however far out, shape (n, points).

    With t the distance of the middle, the mass is exp(-t^2 / 2) times the integral of
    exp(-t x - x^2 / 2) over |x| < h / 2, which is at most that of exp(-t x), 2 sinh(t h / 2) / t.
    """
    t, h = np.abs(y) / s[:, None], width / s[:, None]
    half = t * h / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = np.where(half > 1e-4, half + np.log(-np.expm1(-2 * half) / (2 * half)), half**2 / 6)
    return _log_normal(t) + np.log(h) + grown + _UNITS * (1 + t**2)


def log_oblique_best(
    epsilon: np.ndarray, s: np.ndarray, p: np.ndarray, q: np.ndarray, d: int, direction: str
) -> np.ndarray:
    """Lower bound of the best angle; all arrays of shape (n,). The angle itself is only an estimate."""
    estimates, first, last = _scan(epsilon, s, p, q, d, direction)
    best = np.argmax(estimates, axis=0)
    result = np.full(epsilon.shape, -np.inf)
    for k in np.unique(best):
        rows = np.flatnonzero(best == k)
        ends = first[k, rows], last[k, rows]
        pair = epsilon[rows], s[rows], p[rows], q[rows], d, _towards(direction)[k], direction
        result[rows] = log_oblique(*pair, ends)
    return result


def _blocks(epsilon, s, p, q, d: int, direction: str, step: float, lightest: float):
    """Rows that share one grid and fit into memory: rows, their places in the grid, grid, its s."""
    pairs, inverse = np.unique(np.stack([s, q]), axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    usable = np.isfinite(weights(epsilon, p, q, direction).log_factor) & (s <= WIDEST)
    for group in _groups(pairs[0], d, step):
        if pairs[0, group.start] > WIDEST:
            break
        rows = np.flatnonzero((inverse >= group.start) & (inverse < group.stop) & usable)
        if rows.size == 0:
            continue
        grid = comb(
            d, pairs[1, group], pairs[0, group], step=step, reach=_GRID_REACH, lightest=lightest
        )
        size = max(1, _BLOCK // grid.y.shape[1])
        for part in (rows[k : k + size] for k in range(0, rows.size, size)):
            yield part, inverse[part] - group.start, grid, pairs[0, group]


def _groups(s: np.ndarray, d: int, cell: float) -> list[slice]:
    """Runs of the sorted noise multipliers that share one grid: alike in size, and few enough."""
    octave = np.floor(np.log2(s) + 1e-9)  # as in `comb`
    cuts = [0, *(np.flatnonzero(np.diff(octave)) + 1), s.size]
    groups = []
    for start, stop in zip(cuts, cuts[1:], strict=False):
        span = min(d, 28 * np.sqrt(d) + 80) + 2 * (_GRID_REACH * s[stop - 1] + 2)
        step = max(1, int(_BLOCK // (span * np.ceil(1 / (cell * s[start])))))
        groups += [slice(k, min(k + step, stop)) for k in range(start, stop, step)]
    return groups


def pair_masses(
    s: float, p: float, q: float, d: int, cosine: float
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, with and without the record, of the cells of a grid on the (u, v) plane.

    Reporting only the cell is post-processing, so whatever these two discrete distributions leak,
    composed or not, the explicit pair leaks at least.

    What is not post-processing: counts lighter than exp(-45) are left out, and the part of M0 and M1
    below the grid, less than Phi(-9), is told to lie in its first cell; both together are below 1e-17
    of each distribution, rows and columns that are next to empty included, within what a composition charges to delta.

    Args:
        s: noise multiplier, > 0. p, q: participation and sampling rate, in (0, 1].
        d: number of other records, >= 1. cosine: between the record's gradient and the others', in [-1, 1].

    Returns:
        two arrays of the same shape, each adding up to 1.
    """
    sine = np.sqrt(max(0.0, 1 - cosine**2))
    spread = np.array([s])
    made = partial(comb, d, np.array([q]), spread, reach=_GRID_REACH, lightest=_SCAN_LIGHTEST)
    cell, grid = _PAIR_CELL, made(step=_PAIR_CELL)
    size = grid.y.size * (sine / s + 2 * _GRID_REACH) / cell
    if size > _MOST_CELLS:  # wider ones tell less
        cell *= np.sqrt(size / _MOST_CELLS)
        grid = made(step=cell)

    def edges(low: float, high: float) -> np.ndarray:
        return np.arange(low - _GRID_REACH * s, high + _GRID_REACH * s, s * cell)

    def gaussian_cells(edge: np.ndarray) -> np.ndarray:
        edge = np.concatenate([[-np.inf], edge / s, [np.inf]])
        return normal_masses(edge[:-1], edge[1:])

    # Silence may lie far below every likely sum: then its surroundings get cells of their own.
    half = grid.step / 2
    edge = np.append(grid.y[0] - half, grid.y[0, -1] + half)
    near = edges(0.0, 0.0)
    near = near[near < edge[0]]
    stay = gaussian_cells(np.concatenate([near, edge]))

    def mixture_cells(shift: float) -> np.ndarray:
        # Sums of positive masses: differences of sums would invent mass between the counts.
        inner = np.exp(_log_mixture_cells(grid, spread, shift, slice(None))[0])
        outer = [
            grid.mixture(
                lambda y, sign=sign: ndtr(sign * (y + sign * -half)[None] / s), shift, end
            )[0]
            for sign, end in ((1, slice(0, 1)), (-1, slice(grid.y.shape[1] - 1, None)))
        ]
        return np.concatenate([0 * near, outer[0], inner, outer[1]])

    m0, m1 = mixture_cells(0.0), mixture_cells(cosine)
    across = edges(0.0, sine)
    zero, moved = gaussian_cells(across), gaussian_cells(across - sine)
    # Next to no noise leaves most cells all but empty.
    some = np.maximum.reduce([stay, m0, m1]) > _EMPTY
    wide = np.maximum(zero, moved) > _EMPTY
    stay, m0, m1, zero, moved = stay[some], m0[some], m1[some], zero[wide], moved[wide]
    # Positive terms only: where rates are next to 1, a difference would leave nothing of silence.
    unused = np.outer((1 - p) * stay + p * (1 - q) * m0, zero)
    return unused + p * q * np.outer(m1, moved), np.outer((1 - p) * stay + p * m0, zero)
