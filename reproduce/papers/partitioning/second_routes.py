"""Second routes for the partitioning paper: grids, replicas, enumerations and certified series.

Noise has standard deviation one, so that centres and clips are in units of sigma, and Q = N(0, I)
unless a second mixture is given. Nothing here knows a closed form of the paper: divergences are
integrated, summed or bounded from their definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import comb, factorial, prod
from typing import NamedTuple

import mpmath as mp
import numpy as np
from numpy.typing import ArrayLike

from repro._validate import integer, positive
from repro.accounting._gaussian import log_sum
from reproduce.papers.second_routes import Mixture

__all__ = [
    "Coupling",
    "Rays",
    "Tracks",
    "balanced_moment",
    "centred_floor",
    "coupling",
    "occupancy_rdp",
    "participation",
    "rays",
    "renyi",
    "replica_moment",
    "subset_centres",
    "tracks",
    "uniform",
]

_POINTS = 4_000_000  # grid points or replica tuples held at a time


def subset_centres(d: int, k: int) -> np.ndarray:
    """All 0-1 vectors of length d with k ones, shape (C(d, k), d): the paper's S_{d,k}."""
    d = integer("d", d, 1, 20)
    k = integer("k", k, 0, d)
    chosen = list(combinations(range(d), k))
    rows = np.zeros((len(chosen), d))
    for row, places in zip(rows, chosen, strict=True):
        row[list(places)] = 1.0
    return rows


def uniform(means: ArrayLike) -> Mixture:
    """The mixture with equal weights on the rows of `means`."""
    means = np.atleast_2d(np.asarray(means, dtype=float))
    return Mixture(np.full(len(means), 1 / len(means)), means)


def renyi(first: Mixture, second: Mixture, alpha: float, step: float = 0.25) -> float:
    """D_alpha(first || second) of two mixtures of unit Gaussians in up to four dimensions.

    Trapezoidal rule on a box around every alpha m_i + (1 - alpha) m_j. The integrand is analytic, so
    the error falls exponentially in 1 / step; it is far below 1e-9 for centres up to 3 and steps up
    to 0.25.

    Args:
        alpha: order, above 1.
        step: spacing of the grid in standard deviations.

    Raises:
        ValueError: the box holds more than four million points, or an argument is out of range.
    """
    alpha, step = float(positive("alpha - 1", alpha - 1)) + 1, float(positive("step", step))
    peaks = (alpha * first.means[:, None] + (1 - alpha) * second.means).reshape(
        -1, first.means.shape[1]
    )
    lows, highs = peaks.min(0) - 9.0, peaks.max(0) + 9.0
    axes = [np.arange(a, b + step, step) for a, b in zip(lows, highs, strict=True)]
    integer("number of grid points", prod(map(len, axes)), 1, _POINTS)
    z = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    integrand = alpha * _log_density(first, z) + (1 - alpha) * _log_density(second, z)
    volume = len(axes) * (np.log(step) - np.log(2 * np.pi) / 2)
    return float((log_sum(integrand, axis=0) + volume) / (alpha - 1))


def _log_density(mixture: Mixture, z: np.ndarray) -> np.ndarray:
    """log of the density at the rows of z, without the factor of the standard normal."""
    exponents = z @ mixture.means.T - (mixture.means**2).sum(1) / 2 + np.log(mixture.weights)
    return log_sum(exponents, axis=1) - (z**2).sum(1) / 2


def replica_moment(weights: ArrayLike, gram: ArrayLike, alpha: int) -> float:
    """log E_Q (dP/dQ)^alpha for P = sum_i w_i N(m_i, I), by summing over all tuples of alpha centres.

    A product of alpha likelihood ratios has mean exp(sum_{i<j} <m_i, m_j>) under Q.

    Args:
        weights: shape (n,); gram: inner products of the centres, shape (n, n).
        alpha: whole order >= 1 with n^alpha at most four million.
    """
    weights, gram = np.asarray(weights, dtype=float), np.asarray(gram, dtype=float)
    alpha = integer("alpha", alpha, 1)
    integer("number of tuples", weights.size**alpha, 1, _POINTS)
    value, met = np.zeros(1), np.zeros((1, weights.size))
    for _ in range(alpha):
        value = (value[:, None] + met + np.log(weights)).ravel()
        met = (met[:, None, :] + gram).reshape(-1, weights.size)
    return float(log_sum(value, axis=0))


def balanced_moment(iterations: int, participations: int, alpha: int, a: float) -> float:
    """log E_Q (dP/dQ)^alpha for the uniform mixture over S_{T,k} with shift `a`, iteration by iteration.

    Keeps for each of alpha independent draws how many of its k participations are used up.

    Args:
        iterations, participations: T and k; (k + 1)^alpha states are held.
        alpha: whole order >= 1; a: clip over sigma.
    """
    total = integer("iterations", iterations, 1)
    k = integer("participations", participations, 0, total)
    alpha = integer("alpha", alpha, 1)
    integer("number of states", (k + 1) ** alpha, 1, _POINTS)
    used = np.zeros((k + 1,) * alpha)
    used[(0,) * alpha] = 1.0
    for _ in range(total):
        following = np.zeros_like(used)
        for draws in product((0, 1), repeat=alpha):
            met = sum(draws)
            source = tuple(slice(0, k + 1 - b) for b in draws)
            target = tuple(slice(b, k + 1) for b in draws)
            following[target] += used[source] * np.exp(a**2 * met * (met - 1) / 2)
        used = following
    return float(np.log(used[(k,) * alpha]) - alpha * np.log(comb(total, k)))


def occupancy_rdp(d: int, alpha: int, a: float) -> float:
    """The k = 1 formula of the concurrent works: a sum over how alpha draws share out over d blocks.

    exp(-alpha a^2 / 2) / d^alpha sum over (n_1, ..., n_d) of multinomial(alpha; n) exp(a^2 sum n_i^2 / 2)
    (Liew and Takahashi 2022), with equal terms collected by integer partitions (Feldman and Shenfeld
    2025), as (alpha - 1) times a Renyi divergence.
    """
    d, alpha = integer("d", d, 1), integer("alpha", alpha, 2)
    terms = []
    for parts in _integer_partitions(alpha, alpha):
        if len(parts) > d:
            continue
        repeats = prod(factorial(parts.count(part)) for part in set(parts))
        places = factorial(d) // (factorial(d - len(parts)) * repeats)
        ways = places * (factorial(alpha) // prod(map(factorial, parts)))
        terms.append(float(mp.log(ways)) + a**2 * sum(n * n for n in parts) / 2)
    return float((log_sum(np.array(terms), axis=0) - alpha * (a**2 / 2 + np.log(d))) / (alpha - 1))


def _integer_partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    if total == 0:
        yield ()
    for part in range(min(total, largest), 0, -1):
        for rest in _integer_partitions(total - part, part):
            yield (part, *rest)


def centred_floor(alpha: float, a: float, d: int, degree: int = 5) -> float:
    """A certified lower bound on D_alpha(Q'' || P'') of Lemma 3.18 with k = 1, in interval arithmetic.

    With L = dP''/dQ'' the divergence is log(E L^(1 - alpha)) / (alpha - 1). The Taylor polynomial of
    x^(1 - alpha) at 1 of odd degree lies below the function for all x > 0 (its next derivative is
    positive), and the moments of L are finite sums of exponentials.

    Args:
        alpha: order, above 1; a: clip over sigma; d: number of blocks, >= 2.
        degree: odd degree of the polynomial.

    Returns:
        the lower end of the interval, -inf where the polynomial's mean is not positive.
    """
    d, degree = integer("d", d, 2), integer("degree", degree, 1)
    if degree % 2 == 0:
        raise ValueError(f"degree must be odd, got {degree!r}")
    square = mp.iv.mpf(repr(float(a))) ** 2
    power = mp.iv.mpf(1) - mp.iv.mpf(repr(float(alpha)))
    # E S^l, S the mean of d lognormals: l!/d^l [t^l] (sum_n t^n/n! exp(n(n-1)a^2/2))^d.
    single = [mp.iv.exp(square * n * (n - 1) / 2) / factorial(n) for n in range(degree + 1)]
    series = [mp.iv.mpf(1)] + [mp.iv.mpf(0)] * degree
    for bit in bin(d)[2:]:
        series = _multiplied(series, series)
        if bit == "1":
            series = _multiplied(series, single)
    # L is S over exp(<z, mean> - |mean|^2/2), independent of L, with |mean|^2 = a^2/d.
    raw = [
        series[n] * factorial(n) / mp.iv.mpf(d) ** n * mp.iv.exp(-square * n * (n - 1) / (2 * d))
        for n in range(degree + 1)
    ]
    total, coefficient = mp.iv.mpf(0), mp.iv.mpf(1)
    for j in range(degree + 1):
        about_one = sum(comb(j, n) * (-1) ** (j - n) * raw[n] for n in range(j + 1))
        total += coefficient * about_one
        coefficient *= (power - j) / (j + 1)
    if total.a <= 0:
        return -np.inf
    return float((mp.iv.log(total) / -power).a)


def _multiplied(first: list, second: list) -> list:
    """Product of two power series, cut to their common length."""
    return [sum(first[i] * second[n - i] for i in range(n + 1)) for n in range(len(first))]


class Rays(NamedTuple):
    """Comparison of P'' and P''' along rays: mass difference and sign changes, one entry a direction."""

    surplus: np.ndarray
    crossings: np.ndarray


def rays(centres: ArrayLike, directions: ArrayLike) -> Rays:
    """Compare a centred mixture of unit Gaussians with the wider Gaussian that agrees with it at 0.

    Args:
        centres: of equal norm and mean zero, spanning their space, shape (n, m).
        directions: unit vectors, shape (r, m).

    Returns:
        surplus: (mass of the mixture - mass of the Gaussian) on each ray, with the surface element, over
            the mass of the Gaussian; crossings: sign changes of the difference along the ray.
    """
    centres = np.asarray(centres, dtype=float)
    dim = centres.shape[1]
    norm = (centres**2).sum(1).max()
    variance = np.exp(norm / dim)
    along = np.asarray(directions, dtype=float) @ centres.T
    found = tracks(centres, directions, np.sqrt(norm) + 12 * np.sqrt(variance))
    mass = np.trapezoid(found.mixture, found.radius, axis=1)
    surplus = mass / np.trapezoid(found.gaussian, found.radius) - 1
    # log of the ratio: from here on sqrt(norm) r, more than the average, is less than the square.
    bend = (1 - 1 / variance) / 2
    r = np.linspace(0.0, 1.01 * np.sqrt(norm) / bend, 2001)[1:]
    gap = _log_average(along, r) - bend * r**2
    signs = np.sign(np.where(np.abs(gap) > 1e-12, gap, 0.0))
    changes = [np.count_nonzero(np.diff(row[row != 0])) for row in signs]
    return Rays(surplus, np.array(changes))


class Tracks(NamedTuple):
    """Densities times the surface element along rays, without the common factor (2 pi)^(-m/2)."""

    radius: np.ndarray
    mixture: np.ndarray
    gaussian: np.ndarray


def tracks(centres: ArrayLike, directions: ArrayLike, reach: float) -> Tracks:
    """The centred mixture and the wider Gaussian that agrees with it at 0, along rays from 0.

    Args:
        centres: of equal norm and mean zero, spanning their space, shape (n, m).
        directions: unit vectors, shape (r, m).
        reach: largest distance from 0, in standard deviations of the noise.

    Returns:
        distances, shape (s,); mass of the mixture per length, (r, s); that of the Gaussian, (s,).
    """
    centres = np.asarray(centres, dtype=float)
    dim, norm = centres.shape[1], (centres**2).sum(1).max()
    variance = np.exp(norm / dim)
    r = np.linspace(0.0, float(positive("reach", reach)), 2001)
    average = _log_average(np.asarray(directions, dtype=float) @ centres.T, r)
    surface = r ** (dim - 1)
    wide = np.exp(-(r**2) / (2 * variance)) / variance ** (dim / 2) * surface
    return Tracks(r, np.exp(average - norm / 2 - r**2 / 2) * surface, wide)


def _log_average(along: np.ndarray, r: np.ndarray) -> np.ndarray:
    """log of the mean of exp(r <direction, centre>) over the centres, shape (directions, r)."""
    return log_sum(r[:, None] * along[:, None, :], axis=2) - np.log(along.shape[1])


def participation(iterations: int, rate: float, a: float) -> Mixture:
    """What Poisson sampling adds to a run: a Gaussian for each set of iterations, shape (2^T, T).

    Args:
        iterations: T, at most 10; rate: in (0, 1) of each, independently; a: clip over sigma.
    """
    total = integer("iterations", iterations, 1, 10)
    masks = np.array(list(product((0.0, 1.0), repeat=total)))
    taken = masks.sum(1)
    return Mixture(rate**taken * (1 - rate) ** (total - taken), a * masks)


class Coupling(NamedTuple):
    """The steps of appendix A.2 on all tuples: largest deviations, zero where the step is right."""

    same_law: float
    constant_given_histogram: float
    mean_given_histogram: float


def coupling(centres: ArrayLike, alpha: int) -> Coupling:
    """Check the coupling of appendix A.2 on every tuple of centres, uniform measure.

    X is the sum of all pairwise inner products in a tuple of alpha centres, Y = alpha/2 times those of
    the first with the others.

    Returns:
        how far the law of Y is from that of alpha - 1 independent copies, how much X varies within a
        histogram of the tuple, and how far E(Y | histogram) is from X.
    """
    gram = np.asarray(centres, dtype=float) @ np.asarray(centres, dtype=float).T
    n, alpha = len(gram), integer("alpha", alpha, 2)
    integer("number of tuples", n ** (2 * alpha - 2), 1, _POINTS)
    tuples = np.array(list(product(range(n), repeat=alpha)))
    pairs = list(combinations(range(alpha), 2))
    x = sum(gram[tuples[:, i], tuples[:, j]] for i, j in pairs)
    y = alpha / 2 * sum(gram[tuples[:, 0], tuples[:, j]] for j in range(1, alpha))
    copies = np.zeros(1)
    for _ in range(alpha - 1):
        copies = (copies[:, None] + alpha / 2 * gram.ravel()).ravel()
    quantiles = np.sort(np.repeat(y, copies.size // y.size)) - np.sort(copies)
    _, group = np.unique(np.sort(tuples, axis=1), axis=0, return_inverse=True)
    count = np.bincount(group)
    mean_x, mean_y = np.bincount(group, x) / count, np.bincount(group, y) / count
    return Coupling(
        float(np.max(np.abs(quantiles))),
        float(np.max(np.abs(x - mean_x[group]))),
        float(np.max(np.abs(mean_y - mean_x))),
    )
