"""Inequalities of proofs about Theorem 4.1, one by one, integrated in the plane for a given data set."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from reproduce.papers.random_participation.quadrature import shared_out_delta, weights
from reproduce.papers.second_routes import Mixture, client_pair, grid_divergence

__all__ = ["direction_steps", "proof_steps"]


def proof_steps(
    epsilon: float,
    direction: str,
    others: NDArray[np.float64],
    record: NDArray[np.float64],
    shares: NDArray[np.float64],
    *,
    p: float,
    q: float,
    sigma: float,
    points: int = 161,
) -> dict[str, float]:
    """What the proof compares: the divergence, shared out (step 3), equal gradients (4), best shares (5).

    Args:
        epsilon: >= 0. direction: "remove" or "add".
        others: gradients of the other records, shape (d, 2), norms at most 1.
        record: gradient of the differing record, shape (2,), norm at most 1.
        shares: of silence, one for each subset of the others, shape (2^d,), >= 0, adding up to 1.
        p, q: rates in (0, 1]. sigma: noise on the sum, > 0.
        points: of the grid on each axis.

    Returns:
        four numbers, by the name of their step; each is at most the next but the last, which is the least
        of all "equal gradients" over the shares.
    """
    d = len(others)
    factor, w1, w0 = weights(epsilon, p, q, direction)
    subsets = np.array(list(product((0, 1), repeat=d))).reshape(2**d, d)
    sizes = subsets.sum(1)
    chances = q**sizes * (1 - q) ** (d - sizes)
    pair = client_pair(others, record, p, q)
    true = grid_divergence(*(pair if direction == "remove" else pair[::-1]), sigma, np.exp(epsilon))

    def terms(gradients: NDArray[np.float64], x: NDArray[np.float64]) -> float:
        """factor times the sum over S of Int [pi M+ - w1 pi M- - t N_0]_+ at these gradients."""
        total = 0.0
        for mean, chance, share in zip(subsets @ gradients, chances, shares, strict=True):
            ahead, behind = (mean + x, mean) if direction == "remove" else (mean, mean + x)
            second = Mixture(np.array([w1 * chance, w0 * share]), np.array([behind, 0 * mean]))
            first = Mixture(np.array([chance]), ahead[None])
            total += grid_divergence(first, second, sigma, 1.0, points)
        return factor * total

    if factor == 0:
        return {"divergence": true, "shared out": 0.0, "equal gradients": 0.0, "best shares": 0.0}
    along = np.array([1.0, 0.0])
    opposed = along if direction == "remove" else -along
    return {
        "divergence": true,
        "shared out": terms(others, record),
        "equal gradients": terms(np.tile(opposed, (d, 1)), along),
        "best shares": shared_out_delta(epsilon, direction, d=d, p=p, q=q, sigma=sigma),
    }


def direction_steps(
    epsilon: float, along: NDArray[np.float64], angle: float, *, p: float, q: float, sigma: float
) -> dict[str, float]:
    """What is compared where "add" is bounded by "remove": other gradients on a line, v at an angle to it.

    Args:
        epsilon: >= 0.
        along: positions of the other gradients on the line, shape (d,), in [-1, 1].
        angle: between the line and v, of norm 1, in radians.
        p, q: rates in (0, 1]. sigma: noise on the sum, > 0.

    Returns:
        "add" with the record -v; "silence at v", its bound (step 1); "remove" with the record v (step 2); and
        "orthogonal", "remove" with a record across the line (step 3).
    """
    alpha, others = np.exp(epsilon), np.stack([along, np.zeros_like(along)], axis=1)
    record = np.array([np.cos(angle), np.sin(angle)])
    pair = client_pair(others, record, p, q)
    moved = [Mixture(law.weights, np.vstack([record, law.means[1:]])) for law in pair]
    return {
        "add": grid_divergence(*client_pair(others, -record, p, q)[::-1], sigma, alpha),
        "silence at v": grid_divergence(*moved, sigma, alpha),
        "remove": grid_divergence(*pair, sigma, alpha),
        "orthogonal": grid_divergence(
            *client_pair(others, np.array([0.0, 1.0]), p, q), sigma, alpha
        ),
    }
