"""Second routes for the accountants: enumeration, quadrature, Monte Carlo and a search for leaks.

Nothing here knows a closed form. A data set is a list of gradients, a release is the mixture of
Gaussians that two-level sampling makes of it, and divergences are integrated or sampled as defined.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import mpmath as mp
import numpy as np

from repro._validate import choice, integer

__all__ = [
    "Leak",
    "Mixture",
    "client_pair",
    "grid_divergence",
    "line_divergence",
    "sampled_divergence",
    "search_leaks",
    "sign_changes",
]


class Mixture(NamedTuple):
    """Gaussians of one common covariance: weights of shape (m,), means of shape (m, k)."""

    weights: np.ndarray
    means: np.ndarray


class Leak(NamedTuple):
    """A data set found by :func:`search_leaks` and what it leaks."""

    delta: float
    others: np.ndarray
    record: np.ndarray


def client_pair(others, record, p: float, q: float) -> tuple[Mixture, Mixture]:
    """Releases of one client with and without the record, every subset enumerated.

    Args:
      others: gradients of the other records, shape (d, k), d <= 12.
      record: gradient of the differing record, shape (k,).
      p, q: participation and sampling rate.
    """
    record = np.asarray(record, dtype=float)
    others = np.asarray(others, dtype=float).reshape(-1, record.size)
    d = integer("number of other records", len(others), 0, 12)
    subsets = np.array(list(product((0, 1), repeat=d))).reshape(2**d, d)
    chance = q ** subsets.sum(1) * (1 - q) ** (d - subsets.sum(1))
    sums = subsets @ others
    silent = np.zeros((1, record.size))
    without = Mixture(np.append(1 - p, p * chance), np.vstack([silent, sums]))
    with_record = Mixture(
        np.concatenate([[1 - p], p * (1 - q) * chance, p * q * chance]),
        np.vstack([silent, sums, sums + record]),
    )
    return with_record, without


def line_divergence(first: Mixture, second: Mixture, sigma: float, alpha: float, digits: int = 30) -> float:
    """Int [first - alpha second]_+ of two mixtures on a line, by high-precision quadrature.

    The integrand is cut at its sign changes, found on a fine grid and polished by bisection.
    """
    with mp.workdps(digits):
        def density(mixture: Mixture, z):
            return mp.fsum(
                mp.mpf(float(w)) * mp.npdf(z, mp.mpf(float(m)), mp.mpf(sigma))
                for w, m in zip(mixture.weights, mixture.means[:, 0], strict=True)
            )

        def gap(z):
            return density(first, z) - mp.mpf(alpha) * density(second, z)

        means = np.concatenate([first.means[:, 0], second.means[:, 0]])
        grid = np.linspace(means.min() - 14 * sigma, means.max() + 14 * sigma, 400)
        signs = [mp.sign(gap(z)) for z in grid]
        cuts = [grid[0]]
        for a, b, left, right in zip(grid, grid[1:], signs, signs[1:], strict=False):
            if left != right:
                cuts.append(mp.findroot(gap, (a, b), solver="anderson", tol=1e-40, verify=False))
        cuts.append(grid[-1])
        total = mp.mpf(0)
        for a, b in zip(cuts, cuts[1:], strict=False):
            if gap((a + b) / 2) > 0:
                total += mp.quad(gap, mp.linspace(a, b, 8))
        return float(total)


def grid_divergence(first: Mixture, second: Mixture, sigma: float, alpha: float, points: int = 161) -> float:
    """Int [first - alpha second]_+ of two mixtures in one or two dimensions, midpoint rule.

    Accurate to about (range / (points sigma))^2; meant for comparing data sets, not for bounds.
    """
    means = np.vstack([first.means, second.means])
    axes = [
        np.linspace(low - 7 * sigma, high + 7 * sigma, points)
        for low, high in zip(means.min(0), means.max(0), strict=True)
    ]

    def on_grid(mixture: Mixture) -> np.ndarray:
        factors = [
            np.exp(-0.5 * ((axis[:, None] - mixture.means[:, k]) / sigma) ** 2)
            for k, axis in enumerate(axes)
        ]
        if len(factors) == 1:
            return factors[0] @ mixture.weights
        return np.einsum("am,bm,m->ab", *factors, mixture.weights, optimize=True)

    cell = np.prod([(axis[1] - axis[0]) / (sigma * np.sqrt(2 * np.pi)) for axis in axes])
    return float(np.sum(np.maximum(on_grid(first) - alpha * on_grid(second), 0.0)) * cell)


def sampled_divergence(
    first: Mixture, second: Mixture, sigma: float, alpha: float, *, samples: int, seed: int
) -> tuple[float, float]:
    """E_first[1 - alpha second / first]_+ by Monte Carlo in any dimension: estimate, standard error."""
    rng = np.random.default_rng(seed)
    which = rng.choice(first.weights.size, size=samples, p=first.weights / first.weights.sum())
    z = first.means[which] + sigma * rng.standard_normal((samples, first.means.shape[1]))

    def log_density(mixture: Mixture) -> np.ndarray:
        squared = ((z[:, None, :] - mixture.means) ** 2).sum(-1)
        with np.errstate(divide="ignore"):
            terms = np.log(mixture.weights) - squared / (2 * sigma**2)
        top = terms.max(1)
        return top + np.log(np.exp(terms - top[:, None]).sum(1))

    value = np.maximum(0.0, -np.expm1(np.log(alpha) + log_density(second) - log_density(first)))
    return float(value.mean()), float(value.std(ddof=1) / np.sqrt(samples))


def search_leaks(
    *, d: int, p: float, q: float, sigma: float, epsilon: float, direction: str, trials: int, seed: int
) -> Leak:
    """The data set of one client that leaks most, among random and special planar configurations.

    Tries no, zero, equal, orthogonal and opposite other records and random ones (any direction, norm
    up to the clip 1), then improves the best by random steps.

    Returns:
      the leak found; a lower bound on the truth up to the grid's accuracy.
    """
    choice("direction", direction, ("remove", "add"))
    rng = np.random.default_rng(seed)
    record, alpha = np.array([1.0, 0.0]), np.exp(epsilon)

    def delta(others: np.ndarray) -> float:
        with_record, without = client_pair(others, record, p, q)
        pair = (with_record, without) if direction == "remove" else (without, with_record)
        return grid_divergence(*pair, sigma, alpha)

    def polar(angle, norm):
        return np.stack([norm * np.cos(angle), norm * np.sin(angle)], axis=-1)

    special = [polar(np.full(d, a), np.ones(d)) for a in np.linspace(0, np.pi, 9)]
    special += [np.zeros((d, 2)), polar(np.pi * np.arange(d), np.ones(d))]
    spread = [polar(rng.uniform(0, 2 * np.pi, d), rng.uniform(0, 1, d) ** 0.3) for _ in range(trials)]
    tried = [(delta(o), k, o) for k, o in enumerate(special + spread)]
    best, _, others = max(tried, key=lambda row: row[0])
    for step in np.geomspace(0.3, 0.02, trials):
        moved = others + step * rng.standard_normal(others.shape)
        moved /= np.maximum(1.0, np.linalg.norm(moved, axis=1, keepdims=True))
        if (value := delta(moved)) > best:
            best, others = value, moved
    return Leak(best, others, record)


def sign_changes(coefficients) -> int:
    """Sign changes in a sequence, zeros left out (Descartes' bound on positive roots)."""
    signs = np.sign(np.asarray(coefficients, dtype=float))
    signs = signs[signs != 0]
    return int(np.sum(signs[1:] != signs[:-1]))
