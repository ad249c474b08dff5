"""Searches and enumerations for PM-SFL: masks, the attacker who guesses them, drift of the averages.

Small exact computations, written independently of the closed forms that they test.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom, norm

from repro._validate import broadcastable, in_unit, integer, positive
from repro.accounting._gaussian import log_sum
from repro.accounting.pmsfl import printed
from repro.accounting.pmsfl.printed import finite_numbers, margin


def all_masks(cells: int) -> np.ndarray:
    """Every vector of `cells` (at most 16) zeros and ones, shape (2^cells, cells)."""
    return np.array(list(itertools.product((0.0, 1.0), repeat=integer("cells", cells, 1, 16))))


def mask_chances(masks: np.ndarray, keep: ArrayLike) -> np.ndarray:
    """Probability of each mask when coordinates are kept independently, product over the last axis."""
    keep = in_unit("keep", keep)
    return np.prod(np.where(masks > 0, keep, 1 - keep), axis=-1)


def masked_loss(
    first: np.ndarray, second: np.ndarray, keep: ArrayLike, *, epsilon: float
) -> np.ndarray:
    """Largest log ratio of the densities of a masked sum with Laplace noise, on two inputs, exact.

    The output is sum_j M_j z_j + noise of scale 1 / epsilon. Between two possible sums both densities
    are a e^(eps u) + b e^(-eps u), whose ratio is monotone, so the largest is at a possible sum or far
    out.

    Args:
        first, second: z_j = w_j x_j for the two inputs, shape (..., d), d <= 8.
        keep: probabilities that the M_j are 1, broadcast with them.
        epsilon: > 0.

    Returns:
        shape (...), one direction: `first` against `second`.

    Raises:
        ValueError: an argument out of range, or shapes that do not broadcast.
    """
    epsilon = float(positive("epsilon", epsilon))
    first, second = finite_numbers("first", first), finite_numbers("second", second)
    keep = in_unit("keep", keep)
    shape = broadcastable(first=first, second=second, keep=keep)
    masks = all_masks(integer("dimension", shape[-1] if shape else 0, 1, 8))
    with np.errstate(divide="ignore"):
        chance = np.log(mask_chances(masks, np.broadcast_to(keep, shape)[..., None, :]))
    sums = [np.broadcast_to(z, shape) @ masks.T for z in (first, second)]
    at = np.concatenate(sums, axis=-1)
    logs = []
    for s in sums:
        inside = chance[..., None, :] - epsilon * np.abs(at[..., None] - s[..., None, :])
        far = [log_sum(chance + sign * epsilon * s, -1) for sign in (1, -1)]
        logs.append(np.concatenate([log_sum(inside, -1), np.stack(far, -1)], axis=-1))
    return np.max(logs[0] - logs[1], axis=-1)


def shared_masked_loss(
    first: np.ndarray, second: np.ndarray, keep: ArrayLike, *, epsilon: float
) -> np.ndarray:
    """`masked_loss` of several outputs under the same bits, exact.

    The outputs are sum_j M_j z_j, z_j in R^k, each with noise of scale 1 / epsilon. In each coordinate the ratio of
    the densities is monotone between possible sums, so the largest is at a corner of their grid or far out.

    Args:
        first, second: z_j for the two inputs, shape (n, d, k), d <= 6; (2^(d + 1) + 2)^k <= 10^5.
        keep: probabilities that the M_j are 1, shape (n, d).
        epsilon: > 0.

    Returns:
        shape (n,), one direction: `first` against `second`.
    """
    epsilon = float(positive("epsilon", epsilon))
    count, bits, outputs = first.shape
    masks = all_masks(integer("bits", bits, 1, 6))
    integer("corners", (2 * len(masks) + 2) ** outputs, 1, 10**5)
    chance = mask_chances(masks, in_unit("keep", keep)[:, None])
    largest = np.empty(count)
    for i in range(count):
        sums = [masks @ one[i] for one in (first, second)]
        both = np.vstack(sums)
        axes = np.vstack([both, both.max(0) + 1, both.min(0) - 1]).T
        at = np.stack([axis.ravel() for axis in np.meshgrid(*axes)], axis=1)
        density = [np.exp(-epsilon * np.abs(at[:, None] - one).sum(-1)) @ chance[i] for one in sums]
        largest[i] = np.log(density[0] / density[1]).max()
    return largest


def plain_pairs(rng: np.random.Generator, count: int, *, p: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of inputs whose absolute terms, and those of their difference, sum to at most 1.

    Three bits under two outputs. In the first pair one bit carries the whole difference.

    Returns:
        pairs, shape (2, count, 3, 2), and keep probabilities in [0, p], shape (count, 3), half of them p.
    """
    pairs = rng.standard_cauchy((2, count, 3, 2)) * (rng.uniform(size=(2, count, 3, 2)) < 0.7)
    pairs[1] += (rng.uniform(size=(count, 1, 1)) < 0.5) * pairs[0]
    pairs[:, 0] = 0.0
    pairs[0, 0, 0, 0] = 1.0
    size = np.abs(np.stack([*pairs, pairs[0] - pairs[1]])).sum((-2, -1)).max(0)
    free = rng.uniform(size=(count, 3)) < 0.5
    free[0] = False
    chances = np.where(free, rng.uniform(0, p, (count, 3)), p)
    return pairs / np.maximum(size, 1e-12)[:, None, None], chances


def noised_mask_deltas(
    epsilons: ArrayLike, sigma: float, *, floor: float, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """delta of n mask bits drawn from noisy, then clipped probabilities, and delta of the noisy probabilities.

    The probabilities are all 1 on one data set and all 0 on the other. Every mask is listed; a bit's law is
    integrated on a grid, which is accurate to about 1e-8.

    Args:
        epsilons: >= 0, shape (k,). sigma: > 0, the same noise on every probability.
        floor: c in (0, 1/2). count: n at most 16.

    Returns:
        two arrays of shape (k,).
    """
    noise = positive("sigma", sigma) * np.linspace(-12, 12, 200_001)
    density = norm.pdf(noise, scale=sigma)
    kept = np.trapezoid(np.clip(1 + noise, floor, 1 - floor) * density, noise)
    masks = all_masks(count)
    near, far = (mask_chances(masks, np.full(count, one)) for one in (kept, 1 - kept))
    grown, apart = np.exp(epsilons)[:, None], np.sqrt(count) / sigma
    bits = np.maximum(near - grown * far, 0).sum(axis=1)
    cut = np.asarray(epsilons) / apart
    return bits, norm.cdf(apart / 2 - cut) - grown[:, 0] * norm.cdf(-apart / 2 - cut)


def search_masked_loss(
    rng: np.random.Generator, *, dimension: int, floor: float, epsilon: float, tries: int
) -> float:
    """Largest `masked_loss` over random pairs of inputs that keep the sensitivity of every mask at 1.

    Both inputs and their difference have positive parts and negative parts that sum to at most 1 (that
    is what distance at most 1 from each other and from zero under every mask means). Pairs are drawn
    at many sparsities, half of the keep probabilities at the ends of [c, 1 - c], and the best tenth is
    perturbed and tried again, 20 times.

    Args:
        rng: source of the draws.
        dimension: d <= 6.
        floor: c in (0, 1/2).
        epsilon: > 0.
        tries: pairs in each turn, >= 10.
    """
    d, tries = integer("dimension", dimension, 1, 6), integer("tries", tries, 10)
    c = float(margin(floor))
    sparse = rng.uniform(size=(2, tries, d)) < rng.uniform(0.2, 1.2, (2, tries, 1))
    pair = np.where(sparse, rng.standard_cauchy((2, tries, d)), 0.0)
    pair[1] += (rng.uniform(size=(tries, 1)) < 0.5) * pair[0]
    keep = np.where(
        rng.uniform(size=(tries, d)) < 0.5,
        rng.choice([c, 1 - c], (tries, d)),
        rng.uniform(c, 1 - c, (tries, d)),
    )
    best = 0.0
    for _ in range(20):
        parts = np.stack([pair[0], pair[1], pair[0] - pair[1]])
        size = np.maximum(np.maximum(parts, 0).sum(-1), np.maximum(-parts, 0).sum(-1)).max(0)
        pair = pair / np.maximum(size, 1e-12)[:, None]
        loss = masked_loss(pair[0], pair[1], keep, epsilon=epsilon)
        best = max(best, float(loss.max()))
        top = np.argsort(loss)[-max(1, tries // 10) :]
        chosen = rng.choice(top, tries)
        spread = 10.0 ** rng.uniform(-4, -0.5, (tries, 1))
        pair = pair[:, chosen] + spread * rng.normal(size=pair.shape) * (pair[:, chosen] != 0)
        keep = np.clip(keep[chosen] + spread * rng.normal(size=keep.shape), c, 1 - c)
    return best


def inversion_errors(
    weights: np.ndarray, mask: np.ndarray, guesses: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """|x - x^| of the attacker of Theorem 1, who inverts w o M^ (by the pseudo-inverse), per guess.

    Args:
        weights: (m, n).
        mask: (m, n).
        guesses: (..., m, n).
        x: (n,).
    """
    _fits("mask", mask, weights.shape)
    _fits("x", x, weights.shape[1:])
    smashed = (weights * mask) @ x
    return np.linalg.norm(x - np.linalg.pinv(weights * guesses) @ smashed, axis=-1)


def guess_bounds(
    weights: np.ndarray, mask: np.ndarray, keep: np.ndarray, x: np.ndarray, spectrum: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Chance, bound of Theorem 1 and error over |x| of every guess of a mask that can be drawn and inverted.

    Args:
        weights, mask, keep: shape (m, n), m n at most 16.
        x: (n,).
        spectrum: "eigenvalues", as printed, or "singular values".

    Returns:
        three arrays of one shape, one entry a guess.
    """
    guesses = all_masks(weights.size).reshape(-1, *weights.shape)
    chance = mask_chances(guesses.reshape(len(guesses), -1), keep.ravel())
    terms = printed.reconstruction_bound(weights, mask, guesses, spectrum=spectrum)
    errors = inversion_errors(weights, mask, guesses, x) / np.linalg.norm(x)
    some = (chance > 0) & np.isfinite(terms)
    return chance[some], terms[some], errors[some]


def averaging_errors(
    weights: np.ndarray,
    keep: np.ndarray,
    x: np.ndarray,
    views: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """|x - x^| / |x| of one who averages smashed data of one input and solves for w o p.

    Args:
        weights: (m, n), m >= n.
        keep: p, (m, n).
        x: (n,).
        views: ascending numbers of smashed vectors to average, each >= 1, shape (k,).
        rng: draws the masks.

    Returns:
        shape (k,).
    """
    _fits("keep", in_unit("keep", keep), weights.shape)
    _fits("x", x, weights.shape[1:])
    views = np.asarray(views)
    if views.ndim != 1 or views.dtype.kind not in "iu" or np.any(np.diff(views, prepend=0) < 1):
        raise ValueError(f"views must be ascending integers >= 1, got {views!r}")
    total, done, errors = np.zeros(len(weights)), 0, []
    for count in views:
        drawn = rng.uniform(size=(count - done, *weights.shape)) < keep
        total += np.einsum("kij,ij,j->i", drawn, weights, x)
        done = count
        found = np.linalg.lstsq(weights * keep, total / count)[0]
        errors.append(np.linalg.norm(x - found) / np.linalg.norm(x))
    return np.array(errors)


def row_matches(weights: np.ndarray, inputs: np.ndarray, smashed: np.ndarray) -> np.ndarray:
    """How many row masks turn each candidate input into each smashed number.

    Every mask of a row is tried. An input for which some row has none is impossible.

    Args:
        weights: (m, n), n <= 16.
        inputs: (k, n).
        smashed: (m,).

    Returns:
        counts, shape (k, m); equality up to 1e-9 of the largest product.
    """
    _fits("smashed", smashed, weights.shape[:1])
    _fits("inputs", inputs, (len(inputs), weights.shape[1]))
    masks = all_masks(weights.shape[1])
    products = np.einsum("qn,mn,kn->kmq", masks, weights, inputs)
    slack = 1e-9 * max(np.abs(products).max(), 1e-300)
    return np.sum(np.abs(products - smashed[:, None]) <= slack, axis=-1)


def _fits(name: str, value: np.ndarray, shape: tuple[int, ...]) -> None:
    if np.shape(value) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {np.shape(value)}")


def score_gradient(
    scores: np.ndarray,
    *,
    masks: np.ndarray,
    weight: np.ndarray,
    matrix: np.ndarray,
    target: np.ndarray,
) -> np.ndarray:
    """Straight-through gradient of the expected loss |A (w o M) - b|^2 / 2 with respect to the scores.

    Args:
        scores: s, shape (d,).
        masks: all masks, shape (2^d, d).
        weight: w, shape (d,).
        matrix, target: A of shape (m, d) and b of shape (m,).

    Returns:
        shape (d,): the mean over M of the slope in w o M, times w o sigma'(s).
    """
    chance = mask_chances(masks, 1 / (1 + np.exp(-scores)))
    pull = chance @ ((masks * weight @ matrix.T - target) @ matrix)
    return pull * weight * printed.score_slope(scores, rule="straight-through")


def descend(
    gradient: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    steps: int,
    *,
    rate: float,
    adam: bool = False,
) -> np.ndarray:
    """Where so many steps of gradient descent end.

    Args:
        gradient: of a place, of its shape.
        start: the first place, any shape.
        steps: >= 0.
        rate: step size, > 0.
        adam: divide a mean of past gradients by the root of one of their squares (Kingma and Ba, beta 0.9 and 0.999).
    """
    place, rate = np.array(start, dtype=float), float(positive("rate", rate))
    first, second = np.zeros_like(place), np.zeros_like(place)
    for t in range(1, integer("steps", steps, 0) + 1):
        step = gradient(place)
        if adam:
            first, second = 0.9 * first + 0.1 * step, 0.999 * second + 0.001 * step**2
            step = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        place = place - rate * step
    return place


def frozen_by_drift(participants: int, rounds: int, *, start: float = 0.5) -> np.ndarray:
    """Expected share of coordinates at exactly 0 or 1 after 0, 1, ..., `rounds` rounds.

    Nothing is learned: K participants sample a bit of each coordinate, the server averages, (5).
    K theta is then a Markov chain, i -> Binomial(K, i / K), that of genetic drift in biology; 0
    and K absorb it. There sigma^-1 is infinite and the slope of the sigmoid is 0, so no gradient
    can bring a coordinate back.

    Args:
        participants: K, 1 to 2000.
        rounds: >= 0.
        start: theta_0, in [0, 1].

    Returns:
        Shape (rounds + 1,), rising from 0 (or 1 where `start` is 0 or 1) towards 1.

    Raises:
        ValueError: an argument out of range.
    """
    participants, rounds = (
        integer("participants", participants, 1, 2000),
        integer("rounds", rounds, 0),
    )
    start = in_unit("start", start)
    if start.ndim:
        raise ValueError(f"start must be a single number, got {start!r}")
    states = np.arange(participants + 1)
    step = binom.pmf(states, participants, states[:, None] / participants)
    law = binom.pmf(states, participants, float(start))
    frozen = [float(start in (0, 1))]
    for _ in range(rounds):
        frozen.append(float(law[0] + law[-1]))
        law = law @ step
    return np.array(frozen)
