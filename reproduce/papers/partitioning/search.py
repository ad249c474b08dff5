"""Adversaries for the partitioning paper: gradients of any norm, sign, overlap and history.

A strategy fixes what the differing record contributes; its likelihood ratio L = dP/dQ against noise
alone is put on a grid under Q = N(0, I), and all divergences of both directions are read off at
once. Clips are in units of the noise.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from repro._validate import integer
from reproduce.papers.partitioning.second_routes import replica_moment, subset_centres
from reproduce.papers.second_routes import Mixture

__all__ = [
    "Measures",
    "Overlap",
    "adaptive_excess",
    "best_binary_delta",
    "grid_measures",
    "gradient_excess",
    "overlap_search",
    "shuffled_pair",
]

_ORDERS = np.array([1.5, 2.0, 3.0])
_EPSILONS = np.array([0.1, 0.5, 1.0])
_TAIL = 6.0  # standard deviations kept beyond the outermost peak: what lies outside is below 1e-8


class Measures(NamedTuple):
    """Divergences of one pair: Renyi of orders 1.5, 2, 3, hockey-stick at epsilon 0.1, 0.5, 1."""

    forward: np.ndarray
    reverse: np.ndarray
    remove: np.ndarray
    add: np.ndarray


class Overlap(NamedTuple):
    """The worst gradients found for submodels that overlap."""

    renyi_2: float
    gradients: np.ndarray


def _grid(dim: int, reach: float, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, dim) and masses of N(0, I), wide enough for L^3 and L^(-2) with shifts up to reach.

    Symmetric, so that mirrored strategies get the same value to the last digits.
    """
    half = np.arange(1, np.ceil((_TAIL + 3 * reach) / step) + 1) * step
    axis = np.concatenate([-half[::-1], [0.0], half])
    weight = np.exp(-(axis**2) / 2) * step / np.sqrt(2 * np.pi)
    z = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    mass = np.stack(np.meshgrid(*[weight] * dim, indexing="ij"), axis=-1).reshape(-1, dim).prod(1)
    return z, mass


def _measures(ratio: np.ndarray, mass: np.ndarray) -> Measures:
    root, square, raised = np.sqrt(ratio), ratio**2, np.exp(_EPSILONS)
    ahead = np.array([mass @ power for power in (ratio * root, square, square * ratio)])
    back = np.array([mass @ (1 / power) for power in (root, ratio, square)])
    return Measures(
        np.log(ahead) / (_ORDERS - 1),
        np.log(back) / (_ORDERS - 1),
        np.array([mass @ np.maximum(ratio - s, 0) for s in raised]),
        np.array([mass @ np.maximum(1 - s * ratio, 0) for s in raised]),
    )


def _ratio(mixture: Mixture, z: np.ndarray) -> np.ndarray:
    return np.exp(z @ mixture.means.T - (mixture.means**2).sum(1) / 2) @ mixture.weights


def grid_measures(mixture: Mixture, *, step: float = 0.25) -> Measures:
    """Both directions of both divergences between a mixture of unit Gaussians and N(0, I), 1 to 3 dimensions.

    Renyi orders are exact to many digits, hockey-sticks to about step^2 / 100.
    """
    dim = integer("dimension", mixture.means.shape[1], 1, 3)
    z, mass = _grid(dim, float(np.abs(mixture.means).max()), step)
    return _measures(_ratio(mixture, z), mass)


def _largest(found: list[Measures], reference: Measures) -> Measures:
    """Entry by entry the largest of `found` over the reference; 1 where both are zero."""
    excess = []
    for values, full in zip(zip(*found, strict=True), reference, strict=True):
        top = np.max(values, axis=0)
        level = np.where(top > 0, np.inf, 1.0)
        excess.append(np.divide(top, full, out=level, where=full > 0))
    return Measures(*excess)


def gradient_excess(
    submodels: int, clip: float, unsplit_clip: float, rate: float, trials: int, seed: int
) -> tuple[Measures, Measures]:
    """Search the gradients of one record under model splitting, against full and equal ones.

    Every submodel's gradient gets its own norm, and with it its own gradient of the unsplit part (any
    sign and size up to its clip). Corners (norms 0 or full, signs +-) are tried before random ones.

    Args:
        submodels: 2 when there is an unsplit part, else 2 or 3.
        clip, unsplit_clip: bounds on both parts over sigma.
        rate: probability that the record takes part.
        trials: number of random gradients; seed: of their draws.

    Returns:
        for each divergence the largest value found, over that of full norms and equal unsplit gradients; and that.
    """
    dims = integer("submodels plus unsplit part", submodels + (unsplit_clip > 0), 2, 3)
    rng = np.random.default_rng(seed)
    z, mass = _grid(dims, max(clip, unsplit_clip), 0.3 if dims == 3 else 0.1)
    weights = np.append(np.full(submodels, rate / submodels), 1 - rate)
    weights = weights[: submodels + (rate < 1)]

    def measured(norms: np.ndarray, shared: np.ndarray) -> Measures:
        means = np.zeros((weights.size, dims))
        means[np.arange(submodels), np.arange(submodels)] = clip * norms
        if unsplit_clip > 0:
            means[:submodels, -1] = unsplit_clip * shared
        return _measures(_ratio(Mixture(weights, means), z), mass)

    ones = np.ones(submodels)
    corners = [
        (np.array(norms), np.array(signs))
        for norms in product((0.0, 1.0), repeat=submodels)
        for signs in (ones, -ones, np.where(np.arange(submodels) == 0, -1.0, 1.0))
    ]
    spread = [
        (rng.uniform(0, 1, submodels) ** 0.3, rng.uniform(-1, 1, submodels)) for _ in range(trials)
    ]
    full = measured(ones, ones)
    return _largest([measured(*pair) for pair in corners + spread], full), full


def adaptive_excess(
    iterations: int, participations: int, clip: float, trials: int, seed: int
) -> Measures:
    """Search strategies that answer what was released, under balanced subsampling.

    In iteration t the contribution is clip * tanh(b_t + w_t . (earlier outputs) + v_t . (own earlier
    participations)), so that norm and direction may follow the history and even a state that the
    client keeps. Random strategies are followed by random steps from the best.

    Args:
        iterations, participations: T in 2..3 and k in 1..T.
        clip: over sigma; trials: strategies and steps each; seed: of their draws.

    Returns:
        for each divergence the largest value found, over that of the constant full contribution.
    """
    total = integer("iterations", iterations, 2, 3)
    masks = subset_centres(total, integer("participations", participations, 1, total))
    rng = np.random.default_rng(seed)
    z, mass = _grid(total, clip, 0.25 if total == 3 else 0.1)
    side = (round(len(z) ** (1 / total)),) * total
    # Output t on its own axis: what the strategy has heard by then is constant along later axes.
    outputs = [
        np.unique(z).reshape([-1 if s == t else 1 for s in range(total)]) for t in range(total)
    ]

    def measured(strategy: np.ndarray) -> Measures:
        ratio = 0.0
        for mask in masks:
            log_ratio = np.zeros(side)
            for t in np.flatnonzero(mask):
                bias, seen, own = strategy[t, 0], strategy[t, 1 : t + 1], strategy[t, total:]
                told = bias + mask[:t] @ own[:t]
                c = clip * np.tanh(sum((w * x for w, x in zip(seen, outputs, strict=False)), told))
                log_ratio = log_ratio + c * outputs[t] - c**2 / 2
            ratio = ratio + np.exp(log_ratio) / len(masks)
        return _measures(ratio.ravel(), mass)

    size = (total, 2 * total)
    constant = np.zeros(size)
    constant[:, 0] = 20.0  # tanh(20) is one in double precision
    reference = measured(constant)
    found, best, score = [], constant, 0.0
    for trial in range(2 * trials):
        if trial < trials:
            strategy = rng.standard_normal(size) * rng.choice([0.5, 2.0, 6.0])
        else:
            strategy = best + rng.standard_normal(size) * rng.choice([0.2, 1.0])
        found.append(measured(strategy))
        value = float(np.mean(_largest(found[-1:], reference)))
        if value > score:
            best, score = strategy, value
    return _largest(found, reference)


def overlap_search(
    masks: ArrayLike, weights: ArrayLike, clip: float, trials: int, seed: int
) -> Overlap:
    """Worst gradients for a random submodel drawn from overlapping ones: Renyi divergence of order 2.

    Submodel J gets a gradient with one non-negative entry for each of its blocks and norm `clip`;
    inner products across blocks only grow that way. With all others fixed the divergence is convex in
    one gradient, so moving it to the end of its derivative never lowers it.

    Args:
        masks: which blocks each submodel holds, 0-1, shape (n, blocks); weights: shape (n,).
        clip: over sigma; trials: random starts; seed: of their draws.

    Returns:
        the largest divergence found and its gradients, shape (n, blocks).
    """
    masks, weights = np.asarray(masks, dtype=float), np.asarray(weights, dtype=float)
    rng = np.random.default_rng(seed)
    best = Overlap(-np.inf, masks)
    for _ in range(trials):
        start = masks * rng.uniform(0, 1, masks.shape) ** rng.choice([1.0, 8.0])
        gradients = clip * _normed(start)
        for _ in range(30):
            for j in range(len(masks)):
                pull = (weights * np.exp(gradients @ gradients[j])) @ gradients
                pull -= weights[j] * np.exp(gradients[j] @ gradients[j]) * gradients[j]
                if np.any(masks[j] * pull > 0):
                    gradients[j] = clip * _normed(masks[j] * pull)
        value = replica_moment(weights, gradients @ gradients.T, 2)
        if value > best.renyi_2:
            best = Overlap(value, gradients)
    return best


def _normed(rows: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.divide(rows, size, out=np.zeros_like(rows), where=size > 0)


def best_binary_delta(alpha: float, rdp: float, epsilon: np.ndarray) -> np.ndarray:
    """Largest delta(epsilon) among pairs on two points whose Renyi divergence is at most `rdp`.

    Two points suffice for the best conversion (Asodeh et al. 2020); the grid makes it a lower bound.
    """
    log_q = -np.geomspace(1e-6, 200.0, 4001)
    q = np.exp(log_q)
    low, high = q.copy(), np.ones_like(q)
    for _ in range(60):
        p = (low + high) / 2
        with np.errstate(divide="ignore"):
            moment = np.logaddexp(
                alpha * np.log(p) + (1 - alpha) * log_q,
                alpha * np.log1p(-p) + (1 - alpha) * np.log1p(-q),
            )
        fits = moment <= (alpha - 1) * rdp
        low, high = np.where(fits, p, low), np.where(fits, high, p)
    return np.max(low - np.exp(np.asarray(epsilon, dtype=float))[..., None] * q, axis=-1)


def shuffled_pair(clip: float, other: float) -> tuple[Mixture, Mixture]:
    """Two records shuffled into two iterations, one each: the release with the record and with a blank.

    The record's gradient is `clip`, the other record's `other`; the data sets differ by replacing
    the record by one without gradient.
    """
    both = np.array([[clip, other], [other, clip]])
    blank = np.array([[0.0, other], [other, 0.0]])
    halves = np.array([0.5, 0.5])
    return Mixture(halves, both), Mixture(halves, blank)
