"""Second routes for the accountants: enumeration, quadrature, Monte Carlo and a search for leaks.

Nothing here knows a closed form. A data set is a list of gradients, a release is the mixture of
Gaussians that two-level sampling makes of it, and divergences are integrated or sampled as defined.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import mpmath as mp
import numpy as np
from numpy.typing import ArrayLike

from repro._validate import choice, integer

__all__ = [
    "Leak",
    "Mixture",
    "agree",
    "average_pair",
    "client_pair",
    "composed_delta",
    "crossing_signs",
    "grid_divergence",
    "line_divergence",
    "sampled_divergence",
    "search_leaks",
    "shared_out_integral",
    "sign_changes",
]


class Mixture(NamedTuple):
    """Gaussians of one common covariance: weights of shape (m,), means of shape (m, k)."""

    weights: np.ndarray
    means: np.ndarray


class Leak(NamedTuple):
    """A data set found by `search_leaks` and what it leaks."""

    delta: float
    others: np.ndarray
    record: np.ndarray


def agree(what: str, ours: ArrayLike, other: ArrayLike, *, rtol: float) -> None:
    """Refuse numbers that a second route does not give.

    Args:
        what: names the numbers in the message.
        ours, other: of shapes that broadcast. rtol: largest relative difference, of `other`.

    Raises:
        ArithmeticError: they differ by more, or are no numbers.
    """
    if not np.allclose(ours, other, rtol=rtol, atol=0.0):
        first, second = np.broadcast_arrays(np.asarray(ours, float), np.asarray(other, float))
        with np.errstate(divide="ignore", invalid="ignore"):
            worst = np.argmax(np.nan_to_num(np.abs(first / second - 1), nan=np.inf))
        raise ArithmeticError(
            f"{what}: {first.flat[worst]:.8g}, and {second.flat[worst]:.8g} by a second route"
        )


def client_pair(
    others: np.ndarray, record: np.ndarray, p: float, q: float
) -> tuple[Mixture, Mixture]:
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


def line_divergence(
    first: Mixture, second: Mixture, sigma: float, alpha: float, digits: int = 30
) -> float:
    """Int [first - alpha second]_+ of two mixtures on a line, by high-precision quadrature.

    The integrand is cut at its sign changes, found on a fine grid and polished by bisection.
    """
    with mp.workdps(digits):
        # Subsets with the same sum are one Gaussian; weights are exact as they are, so are their sums.
        together: dict[float, mp.mpf] = {}
        for factor, mixture in ((mp.mpf(1), first), (-mp.mpf(alpha), second)):
            for w, m in zip(mixture.weights, mixture.means[:, 0], strict=True):
                together[float(m)] = together.get(float(m), mp.mpf(0)) + factor * mp.mpf(float(w))
        scale = 1 / mp.mpf(sigma)
        terms = [(w * scale / mp.sqrt(2 * mp.pi), mp.mpf(m) * scale) for m, w in together.items()]

        def gap(z):
            z = z * scale
            return mp.fsum(w * mp.exp(-((z - m) ** 2) / 2) for w, m in terms)

        means = np.array(list(together))
        grid = np.linspace(means.min() - 20 * sigma, means.max() + 20 * sigma, 600)
        signs = _signs(grid, gap, np.array([float(w) for w in together.values()]), means, sigma)
        cuts = [grid[0]]
        for a, b, left, right in zip(grid, grid[1:], signs, signs[1:], strict=False):
            if left != right:
                cuts.append(mp.findroot(gap, (a, b), solver="anderson", tol=1e-40, verify=False))
        cuts.append(grid[-1])
        total = mp.mpf(0)
        for a, b in zip(cuts, cuts[1:], strict=False):
            if gap((a + b) / 2) > 0:
                total += mp.quad(gap, mp.linspace(a, b, 12), method="gauss-legendre")
        return float(total)


def _signs(grid, gap, weights, means, sigma) -> np.ndarray:
    """Signs of the gap on the grid: in doubles where its terms do not nearly cancel, else in full digits."""
    terms = weights * np.exp(-(((grid[:, None] - means) / sigma) ** 2) / 2)
    value = terms.sum(axis=1)
    unsure = np.abs(value) <= 1e-9 * np.abs(terms).sum(axis=1)
    signs = np.sign(value)
    signs[unsure] = [int(mp.sign(gap(z))) for z in grid[unsure]]
    return signs


def grid_divergence(
    first: Mixture, second: Mixture, sigma: float, alpha: float, points: int = 161
) -> float:
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


def composed_delta(
    epsilon: ArrayLike, first: np.ndarray, second: np.ndarray, rounds: int, points: int = 2**15
) -> np.ndarray:
    """delta at each epsilon of a number of independent rounds, each with masses `first` or `second` on the same cells.

    The law of the sum of the losses log(first / second) is a power of one Fourier transform; each loss is shared out
    to two places of a grid so that its mean stays.

    Args:
        epsilon: real, any shape. first, second: masses > 0 that sum up to 1, shape (n,). rounds: >= 1.
        points: of the grid, which spans 28 standard deviations of the sum.

    Returns:
        delta, shape of `epsilon`.
    """
    loss = np.log(first / second)
    mean = first @ loss
    reach = 14 * np.sqrt(rounds * (first @ (loss - mean) ** 2)) + np.ptp(loss)
    step = 2 * reach / points
    below, part = np.divmod(loss / step, 1.0)
    law = np.zeros(points)
    np.add.at(law, below.astype(int) % points, first * (1 - part))
    np.add.at(law, (below.astype(int) + 1) % points, first * part)
    law = np.fft.irfft(np.fft.rfft(law) ** rounds, points)
    place = int((rounds * mean - reach) / step) + np.arange(points)
    with np.errstate(over="ignore"):
        gain = np.maximum(-np.expm1(np.asarray(epsilon)[..., None] - place * step), 0.0)
    return gain @ np.maximum(law[place % points], 0.0)


def search_leaks(
    *,
    d: int,
    p: float,
    q: float,
    sigma: float,
    epsilon: float,
    direction: str,
    trials: int,
    seed: int,
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

    def delta(others: np.ndarray, points: int = 161) -> float:
        with_record, without = client_pair(others, record, p, q)
        pair = (with_record, without) if direction == "remove" else (without, with_record)
        return grid_divergence(*pair, sigma, alpha, points)

    def polar(angle, norm):
        return np.stack([norm * np.cos(angle), norm * np.sin(angle)], axis=-1)

    special = [polar(np.full(d, a), np.ones(d)) for a in np.linspace(0, np.pi, 9)]
    special += [np.zeros((d, 2)), polar(np.pi * np.arange(d), np.ones(d))]
    spread = [
        polar(rng.uniform(0, 2 * np.pi, d), rng.uniform(0, 1, d) ** 0.3) for _ in range(trials)
    ]
    tried = [(delta(o), k, o) for k, o in enumerate(special + spread)]
    best, _, others = max(tried, key=lambda row: row[0])
    for step in np.geomspace(0.3, 0.02, trials):
        moved = others + step * rng.standard_normal(others.shape)
        moved /= np.maximum(1.0, np.linalg.norm(moved, axis=1, keepdims=True))
        if (value := delta(moved)) > best:
            best, others = value, moved
    return Leak(delta(others, 801), others, record)


def sign_changes(coefficients: np.ndarray) -> int:
    """Sign changes in a sequence, zeros left out (Descartes' bound on positive roots)."""
    signs = np.sign(np.asarray(coefficients, dtype=float))
    signs = signs[signs != 0]
    return int(np.sum(signs[1:] != signs[:-1]))


def crossing_signs(d: int, q: float, weight: float) -> np.ndarray:
    """Signs of the coefficients of the integrand of equation (28) as a polynomial in exp(z C / sigma^2).

    Args:
        d, q: number of other records and sampling rate.
        weight: alpha' c2bar >= 1.

    Returns:
        d + 2 signs: that of t^k is b_{k-1} - weight b_k; that of the constant is negative.
    """
    with mp.workdps(50):
        b = [mp.binomial(d, k) * mp.mpf(q) ** k * (1 - mp.mpf(q)) ** (d - k) for k in range(d + 1)]
        inner = [mp.sign(b[k - 1] - mp.mpf(weight) * b[k]) for k in range(1, d + 1)]
    return np.array([-1, *(int(s) for s in inner), 1])


def average_pair(
    others: np.ndarray, record: np.ndarray, p: float, q: float
) -> tuple[Mixture, Mixture]:
    """As `client_pair`, for a client that sends the average of its sampled gradients."""
    d = len(others)
    sizes = np.array([sum(chosen) for chosen in product((0, 1), repeat=d)])
    counts = np.concatenate([[1], sizes, sizes + 1]), np.concatenate([[1], sizes])
    pair = client_pair(others, record, p, q)
    with_record, without = (
        Mixture(m.weights, m.means / np.maximum(c, 1)[:, None])
        for m, c in zip(pair, counts, strict=True)
    )
    return with_record, without


def shared_out_integral(
    epsilon: float, direction: str, *, d: int, p: float, q: float, sigma: float, digits: int = 25
) -> float:
    """The integral of the repaired Theorem 4.1, by high-precision quadrature of its definition."""
    choice("direction", direction, ("remove", "add"))
    with mp.workdps(digits):
        alpha, p_, q_ = mp.e ** mp.mpf(epsilon), mp.mpf(p), mp.mpf(q)
        b = [mp.binomial(d, i) * q_**i * (1 - q_) ** (d - i) for i in range(d + 1)]
        kappa = q_ if direction == "remove" else 1 - alpha * (1 - q_)
        if kappa <= 0:
            return 0.0
        first = 1 if direction == "remove" else 0
        w1 = 1 + (alpha - 1) / q_ if direction == "remove" else alpha * q_ / kappa
        w0 = (alpha - 1) * (1 - p_) / (p_ * kappa)
        kinks = [first + i - mp.mpf(1) / 2 + sigma**2 * mp.log(w1) for i in range(d + 1)]

        def kept(z):
            return mp.fsum(
                b[i] * max(mp.npdf(z, i + first, sigma) - w1 * mp.npdf(z, i + first - 1, sigma), 0)
                for i in range(d + 1)
            ) - w0 * mp.npdf(z, 0, sigma)

        # The bracket turns positive once: every later count only adds, silence only fades.
        low, high = kinks[0], kinks[-1] + d + 12 * sigma
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if kept(middle) > 0 else (middle, high)
        end = max(high, d + 1) + 12 * sigma
        cuts = [high, *(k for k in kinks if k > high), end]
        pieces = [
            x for a, c in zip(cuts, cuts[1:], strict=False) for x in mp.linspace(a, c, 6)[:-1]
        ]
        return float(p_ * kappa * mp.quad(kept, [*pieces, end], method="gauss-legendre"))
