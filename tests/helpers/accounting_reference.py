"""Second routes for the accounting tests, written from the definition and without the package.

Everything here works with sigma = the noise of the sum, clip = 1 and the hypotheses themselves:
enumerated subsets, quadrature on a grid or with mpmath, never a closed form of the package.
"""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np

STEP = 0.05  # of the quadrature grid, in units of sigma
REACH = 7.0  # beyond the outermost mean, in units of sigma


def hypotheses(record, others, p, q):
    """Means (n, k) and the weights of each with and without the differing record.

    Args:
      record: gradient of the differing record, shape (k,).
      others: gradients of the client's other records, shape (d, k).
      p, q: participation and sampling rate.
    """
    means, with_record, without = [np.zeros_like(record)], [1 - p], [1 - p]
    for drawn in itertools.product((0, 1), repeat=len(others)):
        drawn = np.array(drawn)
        chance = p * q ** drawn.sum() * (1 - q) ** (len(others) - drawn.sum())
        total = drawn @ others if len(others) else np.zeros_like(record)
        means += [total, total + record]
        with_record += [chance * (1 - q), chance * q]
        without += [chance, 0.0]
    return np.array(means), np.array(with_record), np.array(without)


def density_cells(means, weights, sigma, step=STEP):
    """Probabilities of the grid cells (midpoint rule) of Gaussian mixtures, weights (n, m)."""
    tables = []
    for axis in range(means.shape[1]):
        column = means[:, axis] / sigma
        grid = np.arange(column.min() - REACH, column.max() + REACH, step)
        tables.append(np.exp(-0.5 * (grid[:, None] - column) ** 2) * step / np.sqrt(2 * np.pi))
    letters = "abc"[: means.shape[1]]
    formula = ",".join(f"{letter}h" for letter in letters) + f",hm->{letters}m"
    return np.einsum(formula, *tables, weights, optimize=True)


def divergences(record, others, *, p, q, sigma, epsilon, step=STEP):
    """Hockey-stick divergences (remove, add) of one explicit pair of data sets, by quadrature."""
    means, with_record, without = hypotheses(record, others, p, q)
    alpha = np.exp(epsilon)
    signed = np.stack([with_record - alpha * without, without - alpha * with_record], axis=1)
    cells = density_cells(means, signed, sigma, step)
    return np.maximum(cells, 0).sum(axis=tuple(range(cells.ndim - 1)))


def normal(z, mean, sigma):
    """Normal density in mpmath's precision."""
    return mp.exp(-(((z - mean) / sigma) ** 2) / 2) / (sigma * mp.sqrt(2 * mp.pi))


def positive_part(function, low, high, pieces=200):
    """Integral of max(function, 0), split at its sign changes; mpmath's precision."""
    nodes = [low + (high - low) * mp.mpf(k) / pieces for k in range(pieces + 1)]
    values = [function(z) for z in nodes]
    edges = [low]
    for a, b, fa, fb in zip(nodes, nodes[1:], values, values[1:], strict=False):
        if (fa > 0) != (fb > 0):
            edges.append(mp.findroot(function, (a, b), solver="anderson", tol=mp.mpf(10) ** -40))
    edges.append(high)
    total = mp.mpf(0)
    for a, b in zip(edges, edges[1:], strict=False):
        if function((a + b) / 2) > 0:
            cuts = max(1, int((b - a) / 2))
            total += mp.quad(function, [a + (b - a) * k / cuts for k in range(cuts + 1)])
    return total


def weights(direction, epsilon, p, q):
    """Factor, w1, w0: P - alpha Q = factor (M1 - w1 M0 - w0 N), or with the roles exchanged."""
    alpha, p, q = mp.exp(mp.mpf(epsilon)), mp.mpf(p), mp.mpf(q)
    factor = p * q if direction == "remove" else p * (1 - alpha * (1 - q))
    own = p * (alpha - 1 + q) if direction == "remove" else alpha * p * q
    return factor, own / factor, (alpha - 1) * (1 - p) / factor


def subsampled_delta(direction, epsilon, *, p, q, sigma):
    """Poisson-subsampled Gaussian of rate q seen with disclosed participation p, by quadrature."""
    sigma, q = mp.mpf(sigma), mp.mpf(q)
    alpha, p = mp.exp(mp.mpf(epsilon)), mp.mpf(p)

    def with_record(z):
        return (1 - q) * normal(z, 0, sigma) + q * normal(z, 1, sigma)

    def integrand(z):
        one, other = with_record(z), normal(z, 0, sigma)
        return one - alpha * other if direction == "remove" else other - alpha * one

    return p * positive_part(integrand, -40 * sigma, 1 + 60 * sigma)


def repaired_theorem(direction, epsilon, *, p, q, sigma, d):
    """p q Int [sum_i b_i [N(i + 1) - w1 N(i)]_+ - w0 N(0)]_+, or its mirror, by quadrature."""
    factor, w1, w0 = weights(direction, epsilon, p, q)
    sigma, q = mp.mpf(sigma), mp.mpf(q)
    b = [mp.binomial(d, i) * q**i * (1 - q) ** (d - i) for i in range(d + 1)]
    shift = 1 if direction == "remove" else 0
    own = [i + shift - mp.mpf("0.5") + sigma**2 * mp.log(w1) for i in range(d + 1)]

    def integrand(z):
        # Each inner positive part is decided by its own threshold: exact, and smooth in between.
        inner = mp.mpf(0)
        for i in range(d + 1):
            if z > own[i]:
                inner += b[i] * (normal(z, i + shift, sigma) - w1 * normal(z, i + shift - 1, sigma))
        return inner - w0 * normal(z, 0, sigma)

    ends = [own[0], *own[1:], own[-1] + 2, d + 1 + 40 * sigma]
    parts = [positive_part(integrand, a, z, 40) for a, z in zip(ends, ends[1:], strict=False)]
    return factor * mp.fsum(parts)


def printed_theorem(epsilon, *, p, q, sigma, d):
    """Theorem 4.1 in the paper's own letters: equation (28), one positive part, by quadrature."""
    p, q, sigma = mp.mpf(p), mp.mpf(q), mp.mpf(sigma)
    alpha_prime = 1 + (mp.exp(mp.mpf(epsilon)) - 1) / (p * q)  # eps = log(1 + pq(exp(eps') - 1))
    beta = mp.exp(mp.mpf(epsilon)) / alpha_prime
    c1 = (1 - beta) * (1 - p) / (1 - p * q)
    c2 = beta + (1 - beta) * p * (1 - q) / (1 - p * q)

    def integrand(z):
        total = -alpha_prime * c1 * normal(z, 0, sigma)
        for i in range(d + 1):
            b = mp.binomial(d, i) * q**i * (1 - q) ** (d - i)
            total += b * normal(z, i + 1, sigma) - alpha_prime * c2 * b * normal(z, i, sigma)
        return total

    return p * q * positive_part(integrand, -20 * sigma, d + 1 + 40 * sigma)
