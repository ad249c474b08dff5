"""The wrong proofs of the six lessons, each with one step that is false, and how a computer tests each step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import comb

import numpy as np
from scipy.stats import binom, norm

from repro.accounting import (
    BalancedIterationSubsampling,
    GaussianMechanism,
    PoissonGaussian,
    compose,
)
from repro.accounting.laplace import SummedLaplace
from reproduce.papers.second_routes import Mixture, client_pair, grid_divergence
from reproduce.teaching.proofs import Proof

_POINTS = 4001  # of grids on a line
_ITERATIONS = 10  # of lesson 2
_ROUNDING = 1e-6  # of grids and sums, relative; a step that is false is false by far more


def _at_most(left: float, right: float) -> bool:
    return left <= right + _ROUNDING * abs(right) + 1e-12


def _equal(left: float, right: float) -> bool:
    return _at_most(left, right) and _at_most(right, left)


# Lesson 0: "a bad output has a chance of at most delta" --------------------------------------------


def _bad(sigma: float, epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """A grid of outputs, the masses of both worlds on it, and the factor of the promise."""
    z = np.linspace(-9 * sigma, 1 + 9 * sigma, 20 * _POINTS)
    cell = z[1] - z[0]
    return z, norm.pdf(z, 1, sigma) * cell, norm.pdf(z, 0, sigma) * cell, float(np.exp(epsilon))


def _half_line(sigma: float, epsilon: float) -> bool:
    z, with_ada, without, factor = _bad(sigma, epsilon)
    start = 0.5 + epsilon * sigma**2
    clear = np.abs(z - start) > 1e-6
    return bool(np.all((with_ada > factor * without)[clear] == (z > start)[clear]))


def _excess_is_delta(sigma: float, epsilon: float) -> bool:
    _, with_ada, without, factor = _bad(sigma, epsilon)
    excess = np.maximum(with_ada - factor * without, 0).sum()
    return abs(excess - GaussianMechanism(sigma).delta(epsilon)) < 1e-4


def _bad_chances(sigma: float, epsilon: float) -> tuple[float, float]:
    start = 0.5 + epsilon * sigma**2
    return float(norm.sf(start, 1, sigma)), float(np.exp(epsilon) * norm.sf(start, 0, sigma))


BAD_OUTPUTS = Proof(
    {"sigma": (0.3, 3.0), "epsilon": (0.0, 3.0)},
    (
        _half_line,
        _excess_is_delta,
        lambda sigma, epsilon: _at_most(*_bad_chances(sigma, epsilon)[::-1]),
        lambda sigma, epsilon: _at_most(
            _bad_chances(sigma, epsilon)[0], GaussianMechanism(sigma).delta(epsilon)
        ),
    ),
)
"""Normal noise; an output is bad where the density with Ada is above exp(epsilon) times the one without."""


# Lesson 1: "equal gradients are the worst case" ----------------------------------------------------


def _parts(p: float, q: float) -> list[tuple[float, float]]:
    """For Bob's record unused and used: the chance of it, and that of Ada's record given it."""
    table = {(bob, ada): 0.0 for bob in (0, 1) for ada in (0, 1)}
    for client, bob, ada in product((0, 1), repeat=3):
        chance = (p if client else 1 - p) * (q if bob else 1 - q) * (q if ada else 1 - q)
        table[bob * client, ada * client] += chance
    return [(sum(table[bob, a] for a in (0, 1)), table[bob, 1]) for bob in (0, 1)]


def _given(bob: int, p: float, q: float, turned: Sequence[float]) -> tuple[Mixture, Mixture]:
    """Both worlds given whether Bob's record is used, his gradient being `turned` and Ada's (1, 0)."""
    chance, used = _parts(p, q)[bob]
    start = bob * np.array(turned)
    inside = Mixture(
        np.array([1 - used / chance, used / chance]), np.array([start, start + [1.0, 0.0]])
    )
    return inside, Mixture(np.ones(1), start[None])


def _sum_of_parts(epsilon: float, sigma: float, p: float, q: float) -> float:
    """The deltas given Bob's record, weighted; both gradients equal, on a line."""
    total = 0.0
    for bob, (chance, _) in enumerate(_parts(p, q)):
        inside, outside = _given(bob, p, q, (1.0, 0.0))
        line = [Mixture(one.weights, one.means[:, :1]) for one in (inside, outside)]
        total += chance * grid_divergence(*line, sigma, np.exp(epsilon), _POINTS)
    return total


def _is_mixture(epsilon: float, sigma: float, p: float, q: float) -> bool:
    """The weights of all sums, found with and without a look at Bob's record first."""
    whole, _ = client_pair(np.array([[0.0, 1.0]]), np.array([1.0, 0.0]), p, q)
    direct = dict.fromkeys(product((0.0, 1.0), repeat=2), 0.0)
    split = dict(direct)
    for weight, mean in zip(*whole, strict=True):
        direct[tuple(mean)] += weight
    for bob, (chance, _) in enumerate(_parts(p, q)):
        for weight, mean in zip(*_given(bob, p, q, (0.0, 1.0))[0], strict=True):
            split[tuple(mean)] += chance * weight
    return all(_equal(split[place], direct[place]) for place in direct)


def _below_parts(epsilon: float, sigma: float, p: float, q: float) -> bool:
    pairs = (
        client_pair(np.array([[1.0]]), np.array([1.0]), p, q),
        client_pair(np.array([[-1.0]]), np.array([1.0]), p, q),
        client_pair(np.array([[0.0]]), np.array([1.0]), p, q),
    )
    most = max(grid_divergence(*pair, sigma, np.exp(epsilon), _POINTS) for pair in pairs)
    return _at_most(most, _sum_of_parts(epsilon, sigma, p, q) + 1e-6)


def _any_angle(epsilon: float, sigma: float, p: float, q: float) -> bool:
    found = [
        [
            grid_divergence(*_given(bob, p, q, turned), sigma, np.exp(epsilon), 201)
            for turned in ((1.0, 0.0), (0.6, 0.8), (0.0, 1.0), (-1.0, 0.0))
        ]
        for bob in (0, 1)
    ]
    return all(max(deltas) - min(deltas) < 1e-3 for deltas in found)


def _inside_is_the_same(epsilon: float, sigma: float, p: float, q: float) -> bool:
    pair = client_pair(np.array([[1.0]]), np.array([1.0]), p, q)
    together = grid_divergence(*pair, sigma, np.exp(epsilon), _POINTS)
    return _equal(_sum_of_parts(epsilon, sigma, p, q), together)


EQUAL_GRADIENTS = Proof(
    {"epsilon": (0.0, 2.0), "sigma": (0.3, 2.0), "p": (0.05, 1.0), "q": (0.05, 0.95)},
    (_is_mixture, _below_parts, _any_angle, _inside_is_the_same),
)
"""One other record, of any direction."""


# Lesson 2: "exactly k of T is never worse than coins" ----------------------------------------------


def _shared(participations: int) -> tuple[np.ndarray, np.ndarray]:
    """Chances that two draws share 0, 1, ... iterations: exactly k of T, and coins."""
    k, counts = int(participations), np.arange(_ITERATIONS + 1)
    ways = comb(_ITERATIONS, k)
    exactly = [
        comb(k, h) * comb(_ITERATIONS - k, k - h) / ways if h <= k else 0.0 for h in counts.tolist()
    ]
    return np.array(exactly), binom.pmf(counts, _ITERATIONS, (k / _ITERATIONS) ** 2)


def _moments(participations: int, sigma: float) -> tuple[float, float]:
    """Second moments of the likelihood ratio: exactly k of T, and coins."""
    weights = np.exp(np.arange(_ITERATIONS + 1) / sigma**2)
    exactly, coins = (float(chances @ weights) for chances in _shared(participations))
    return exactly, coins


def _deltas(participations: int, sigma: float, epsilon: float) -> tuple[float, float]:
    """A lower bound for exactly k of T, and an upper one for coins."""
    k = int(participations)
    exactly = BalancedIterationSubsampling(sigma, iterations=_ITERATIONS, participations=k)
    coins = compose(PoissonGaussian(sigma, rate=k / _ITERATIONS), _ITERATIONS)
    return float(exactly.delta(epsilon, method="lower")), float(coins.delta(epsilon))


def _same_mean(participations: int, sigma: float, epsilon: float) -> bool:
    counts = np.arange(_ITERATIONS + 1)
    return _equal(*(float(chances @ counts) for chances in _shared(participations)))


def _smaller_moment(participations: int, sigma: float, epsilon: float) -> bool:
    return _at_most(*_moments(participations, sigma))


def _markov(participations: int, sigma: float, epsilon: float) -> bool:
    moments, deltas = _moments(participations, sigma), _deltas(participations, sigma, epsilon)
    return all(
        _at_most(delta, moment * np.exp(-epsilon))
        for delta, moment in zip(deltas, moments, strict=True)
    )


def _smaller_delta(participations: int, sigma: float, epsilon: float) -> bool:
    return _at_most(*_deltas(participations, sigma, epsilon))


EXACTLY_WINS = Proof(
    {"participations": (1, 9), "sigma": (0.4, 3.0), "epsilon": (0.0, 6.0)},
    (_same_mean, _smaller_moment, _markov, _smaller_delta),
)
"""Ten iterations, the same number of participations on average."""


# Lesson 3: "a round of a run is a subsampled round" ------------------------------------------------


def _draws(q: float, t: int) -> list[tuple[tuple[int, ...], float]]:
    """Every sequence of draws up to round t, with its chance."""
    return [
        (drawn, float(np.prod([q if one else 1 - q for one in drawn])))
        for drawn in product((0, 1), repeat=int(t))
    ]


def _drawn_with_q(q: float, sigma: float, t: int) -> bool:
    return _equal(sum(chance for drawn, chance in _draws(q, t) if drawn[-1]), q)


def _moves_by_one(q: float, sigma: float, t: int) -> bool:
    return max(max(drawn) for drawn, _ in _draws(q, t)) <= 1


def _upload_is_subsampled(q: float, sigma: float, t: int) -> bool:
    return _equal(sum(chance for drawn, chance in _draws(q, t) if max(drawn)), q)


def _coin_in_front(q: float, sigma: float, t: int) -> bool:
    mixed = Mixture(np.array([1 - q, q]), np.array([[0.0], [1.0]]))
    nothing = Mixture(np.ones(1), np.zeros((1, 1)))
    return all(
        abs(
            grid_divergence(mixed, nothing, sigma, np.exp(epsilon), _POINTS)
            - q * GaussianMechanism(sigma).delta(np.log1p(np.expm1(epsilon) / q))
        )
        < 1e-4
        for epsilon in (0.1, 0.5, 1.0)
    )


KEPT_STATE = Proof(
    {"q": (0.01, 1.0), "sigma": (0.5, 5.0), "t": (1, 10)},
    (_drawn_with_q, _moves_by_one, _upload_is_subsampled, _coin_in_front),
)
"""The private half of the game: once the record was drawn, every later upload shows it."""


# Lesson 4: "noise of all clients is one larger noise" ----------------------------------------------


def _laplace_at_pure(scale: float, clients: int) -> float:
    """delta of the sum of all noises at the epsilon that one wider Laplace noise would keep."""
    noise = SummedLaplace(scale, clients=int(clients))
    return float(noise.delta(1 / (scale * np.sqrt(clients)), method="lower"))


def _variance_adds(scale: float, clients: int) -> bool:
    rng = np.random.default_rng(4)
    noise = rng.laplace(0, scale, (int(clients), 40000)).sum(axis=0)
    return abs(noise.var() / (2 * clients * scale**2) - 1) < 0.1


def _one_wide_noise(scale: float, clients: int) -> bool:
    rng = np.random.default_rng(5)
    noise = rng.laplace(0, scale * np.sqrt(clients), 40000)
    return abs(noise.var() / (2 * clients * scale**2) - 1) < 0.1


def _wide_noise_keeps(scale: float, clients: int) -> bool:
    wide = scale * np.sqrt(clients)
    z = np.linspace(-20, 20, _POINTS) * wide
    ratio = (np.abs(z) - np.abs(z - 1)) / wide
    return _at_most(float(ratio.max()), 1 / wide)


SUMMED_NOISE = Proof(
    {"scale": (0.2, 5.0), "clients": (1, 50)},
    (
        _variance_adds,
        _one_wide_noise,
        _wide_noise_keeps,
        lambda scale, clients: _laplace_at_pure(scale, clients) <= 1e-12,
    ),
)
"""Nobody tells the reader a noise, and Ada moves the sum by at most 1."""


# Lesson 5: "behind a mask an image is as safe in a batch as alone" ---------------------------------


def _one_output(epsilon: float, keep: float, pixel: float, z: np.ndarray) -> np.ndarray:
    """Density of one output, up to a factor that all share."""
    hill, dropped = np.exp(-epsilon * np.abs(z - pixel)), np.exp(-epsilon * np.abs(z))
    return keep * hill + (1 - keep) * dropped


def _alone_is_safe(epsilon: float, keep: float, batch: int) -> bool:
    z = np.linspace(-10, 10, _POINTS)
    ratio = _one_output(epsilon, keep, 1.0, z) / _one_output(epsilon, keep, 0.0, z)
    most = float(np.abs(np.log(ratio)).max())
    return _at_most(most, float(np.log1p(keep * np.expm1(epsilon))))


def _joint(epsilon: float, keep: float, outputs: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """Joint density of a batch behind one mask, up to the same factor for each output; images come last."""
    sizes = [np.abs(outputs - bit * pixels).sum(axis=-1) for bit in (1, 0)]
    return keep * np.exp(-epsilon * sizes[0]) + (1 - keep) * np.exp(-epsilon * sizes[1])


def _others_do_not_see_ada(epsilon: float, keep: float, batch: int) -> bool:
    """With Ada's output summed out, at outputs 1 of the others, whichever pixel she has."""
    z = np.linspace(-40, 41, 20001) / min(epsilon, 1.0)
    outputs = np.ones((len(z), int(batch)))
    outputs[:, 0] = z
    ada = np.zeros(int(batch))
    ada[0] = 1
    with_ada, without = (
        _joint(epsilon, keep, outputs, pixels).sum() for pixels in (np.ones(int(batch)), 1 - ada)
    )
    return abs(with_ada / without - 1) < 1e-3


def _factors(epsilon: float, keep: float, batch: int) -> bool:
    """At outputs of 1 and pixels of 1."""
    ones = np.ones(int(batch))
    single = float(_one_output(epsilon, keep, 1.0, np.ones(1))[0])
    return _equal(float(_joint(epsilon, keep, ones, ones)), single ** int(batch))


def _cancels(epsilon: float, keep: float, batch: int) -> bool:
    z = np.linspace(-2, 3, 41)
    others = float(_one_output(epsilon, keep, 1.0, np.ones(1))[0]) ** (batch - 1)
    first, second = (_one_output(epsilon, keep, pixel, z) for pixel in (1.0, 0.0))
    return bool(np.allclose(first * others / (second * others), first / second))


BATCH_OF_IMAGES = Proof(
    {"epsilon": (0.2, 3.0), "keep": (0.05, 0.95), "batch": (1, 16)},
    (_alone_is_safe, _others_do_not_see_ada, _factors, _cancels),
)
"""One weight 1, pixels 1 but for Ada's, Laplace noise on each output."""
