"""Searches for what ddpsa's guarantees leave out: data-dependent scales, vectors, shares.

Exact computations on small or explicit cases, written independently of the closed forms they test.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike
from scipy.signal import fftconvolve
from scipy.stats import binom

from repro._validate import choice, integer, nonnegative, positive
from repro.accounting._pld import losses, one_sided
from repro.accounting.laplace import SummedLaplace

__all__ = [
    "client_shares",
    "curious_view",
    "distinguishing",
    "exposures",
    "mutual_information",
    "rounded_delta",
    "server_sums",
    "split_ratio",
    "two_scales_delta",
    "view_loss",
]


def two_scales_delta(
    epsilon: ArrayLike, *, shift: float, scale: float, other: float
) -> float | np.ndarray:
    """Hockey-stick divergence of Laplace(shift, scale) from Laplace(0, other), any two scales.

    What an observer gains when not only the value but the noise itself depends on the data. With equal
    scales it is the Laplace mechanism; with scale > other it stays positive for every epsilon.

    Args:
        epsilon: >= 0, scalar or array.
        shift: difference of the two centres, any sign.
        scale, other: scales of the first law and of the second, > 0.

    Returns:
        delta, float or array, exact: the log ratio is linear between the two centres and beyond, so each
        event is a union of at most three intervals.
    """
    epsilon = nonnegative("epsilon", epsilon)
    scale, other = float(positive("scale", scale)), float(positive("other", other))
    low, high = min(0.0, shift), max(0.0, shift)

    def gap(x):  # log ratio of the densities minus epsilon
        return np.log(other / scale) - np.abs(x - shift) / scale + np.abs(x) / other - epsilon

    edges = [np.broadcast_to(end, epsilon.shape) for end in (-np.inf, low, high, np.inf)]
    for start, stop in ((low - 1, low), (low, high), (high, high + 1)):
        slope = (gap(stop) - gap(start)) / (stop - start) if stop > start else 0.0 * epsilon
        with np.errstate(divide="ignore", invalid="ignore"):
            root = start - gap(start) / slope
        edges.append(np.where(np.isfinite(root), root, low))
    edge = np.sort(np.stack(edges, axis=-1), axis=-1)
    first = np.diff(_laplace_cdf((edge - shift) / scale), axis=-1)
    second = np.diff(_laplace_cdf(edge / other), axis=-1)
    value = np.maximum(first - np.exp(epsilon)[..., None] * second, 0.0).sum(-1)
    return float(value) if value.ndim == 0 else value


def _laplace_cdf(x: np.ndarray) -> np.ndarray:
    tail = np.exp(-np.abs(x)) / 2
    return np.where(x < 0, tail, 1 - tail)


def rounded_delta(epsilon: float, *, shift: float, grid: float, clients: int) -> float:
    """Divergence of a sum of Laplace values of scale 1, each rounded to a grid before it is added.

    One value moves by `shift`; the others have their centres on the grid.

    Args:
        epsilon: any real number.
        shift: how far the centre of one value moves, >= 0.
        grid: distance of the points that the values are rounded to, > 0.
        clients: n >= 1 values.

    Returns:
        delta, the largest over eleven places of the moving centre between two grid points and over both
        directions. Values beyond 40 scales are left out (less than 1e-17 of each).
    """
    grid, reach = float(positive("grid", grid)), int(40 / grid) + 2
    edges = (np.arange(-reach, reach + 2) - 0.5) * grid

    def law(centre):
        return np.diff(_laplace_cdf(edges - centre))

    largest = 0.0
    for centre in np.linspace(-grid / 2, grid / 2, 11):
        pair = [law(centre), law(centre + float(nonnegative("shift", shift)))]
        for _ in range(1, integer("clients", clients, 1)):
            pair = [fftconvolve(one, law(0.0)) for one in pair]
        for first, second in (pair, pair[::-1]):
            largest = max(largest, float(np.maximum(first - np.exp(epsilon) * second, 0).sum()))
    return largest


def split_ratio(epsilon: ArrayLike, *, pure: float, clients: int, pieces: int) -> float:
    """How much more a move split over three coordinates can leak than one along a single coordinate.

    The splits (v1, v2, v3) of the l1 length `pure`, v1 >= v2 >= v3 >= 0, are covered by cells of width
    pure / pieces. In each cell the divergence is bounded at the cell's upper corner (a longer move in
    any coordinate leaks more, as the noise is log-concave), by convolving discretised losses rounded
    upwards.

    Args:
        epsilon: where to compare, array in [0, pure).
        pure: l1 length of the move over the scale of each client's noise, > 0.
        clients: n >= 1.
        pieces: cells along each coordinate, >= 3.

    Returns:
        largest ratio, over cells and epsilon, of that bound to the exact divergence of a single coordinate
        moved by `pure`: an upper bound on what a split can gain. It is above 1, since a cell contains the
        single coordinate, and falls towards its limit as `pieces` grows.
    """
    epsilon = np.atleast_1d(nonnegative("epsilon", epsilon))
    pure, pieces = float(positive("pure", pure)), integer("pieces", pieces, 3)
    step = pure / pieces
    interval = step / 4
    masses = [np.ones(1)] + [
        _dense(SummedLaplace(1.0, clients=clients, sensitivity=step * k), interval)
        for k in range(1, pieces + 1)
    ]
    single = SummedLaplace(1.0, clients=clients, sensitivity=pure).delta(epsilon)
    worst = 0.0
    for third in range(pieces // 3 + 1):
        for second in range(third, (pieces - third) // 2 + 1):
            first = pieces - second - third
            mass = np.convolve(np.convolve(masses[first], masses[second + 1]), masses[third + 1])
            loss = interval * (np.arange(mass.size) - mass.size // 2)
            above = np.maximum(-np.expm1(epsilon[:, None] - loss), 0.0) @ mass
            worst = max(worst, float(np.max(above / single)))
    return worst


def _dense(mechanism: SummedLaplace, interval: float) -> np.ndarray:
    """Masses of the discretised loss, from the negative of the largest loss to the largest."""
    _, first, mass, _ = losses(one_sided(mechanism.pld(interval=interval), "remove")[0])
    reach = max(-first, first + mass.size - 1)
    result = np.zeros(2 * reach + 1)
    result[first + reach :][: mass.size] = mass
    return result


def client_shares(secret: int, *, modulus: int, servers: int, reading: str) -> np.ndarray:
    """All outcomes, equally likely, of Algorithm 1 for one secret.

    Args:
        secret: in [0, modulus).
        modulus: p >= 2, small.
        servers: m >= 2.
        reading: of the line "s_m = S - (sum) mod p": "reduced" takes the whole right side modulo p,
            "literal" only the sum, as operator precedence has it.

    Returns:
        integers, shape (modulus^(servers - 1), servers): one row for each draw of the first m - 1 shares.
    """
    integer("modulus", modulus, 2)
    integer("secret", secret, 0, modulus - 1)
    choice("reading", reading, ("reduced", "literal"))
    draws = itertools.product(range(modulus), repeat=integer("servers", servers, 2) - 1)
    drawn = np.array(list(draws))
    last = secret - drawn.sum(1) % modulus
    if reading == "reduced":
        last %= modulus
    return np.column_stack([drawn, last])


def server_sums(
    secrets: tuple[int, ...], *, modulus: int, servers: int, reduced: bool
) -> np.ndarray:
    """All outcomes, equally likely, of what the servers send on when these clients share.

    Args:
        secrets: one per client, each in [0, modulus).
        modulus, servers: as for `client_shares`.
        reduced: whether servers reduce their sums modulo p; Algorithm 2 does not say so.

    Returns:
        integers, shape (outcomes, servers).
    """
    sums = np.zeros((1, servers), int)
    for secret in secrets:
        own = client_shares(secret, modulus=modulus, servers=servers, reading="reduced")
        sums = (sums[:, None] + own).reshape(-1, servers)
    return sums % modulus if reduced else sums


def curious_view(
    secrets: tuple[int, int], *, modulus: int, servers: int, seen: tuple[int, ...]
) -> np.ndarray:
    """All outcomes, equally likely, of what a parameter server sees that colludes with some servers.

    It receives every server's sum of the two clients' shares, reduced modulo p, and from the servers in
    `seen` both clients' shares.

    Args:
        secrets: of the two clients, each in [0, modulus).
        modulus, servers: as for `client_shares`.
        seen: the colluding servers.

    Returns:
        integers, shape (modulus^(2 servers - 2), servers + 2 len(seen)).
    """
    mine, theirs = (
        client_shares(secret, modulus=modulus, servers=servers, reading="reduced")
        for secret in secrets
    )
    mine, theirs = np.repeat(mine, len(theirs), axis=0), np.tile(theirs, (len(mine), 1))
    picked = list(seen)
    return np.hstack([(mine + theirs) % modulus, mine[:, picked], theirs[:, picked]])


def exposures(servers: int) -> tuple[np.ndarray, np.ndarray]:
    """Every set of controlled servers with every set of observed links, one link a server.

    Returns:
        two booleans, shape (2^m, 2^m, m) and (2^m, 2^m): which shares of a client the adversary holds,
        and whether it controls all servers or observes all links.
    """
    subsets = np.array(
        list(itertools.product((False, True), repeat=integer("servers", servers, 2)))
    )
    held = subsets[:, None] | subsets[None]
    return held, subsets.all(1)[:, None] | subsets.all(1)[None]


def distinguishing(threshold: ArrayLike, *, epsilon: float, rounds: int) -> np.ndarray:
    """How well one counts the rounds whose output is nearer to the record's gradient than to 0.

    In each round the output is a Laplace variable around Delta (with the record) or 0 (without it). It
    is above Delta / 2 with probability p = 1 - e^(-epsilon / 2) / 2 or 1 - p. The test says "with" where
    the count is at least the threshold.

    Args:
        threshold: counts, array.
        epsilon: Delta over the scale of the noise, > 0.
        rounds: T >= 1, independent given the models.

    Returns:
        chances of a right answer with and without the record, shape (2, …).
    """
    p = 1 - np.exp(-float(positive("epsilon", epsilon)) / 2) / 2
    counted = np.asarray(threshold) - 1
    return np.array([binom.sf(counted, rounds, p), binom.cdf(counted, rounds, 1 - p)])


def mutual_information(views: list[np.ndarray]) -> float:
    """Bits that a view tells about a uniform secret, by counting.

    Args:
        views: one array per secret, shape (outcomes, numbers): its equally likely outcomes.

    Returns:
        I(secret; view) >= 0.
    """
    rows = np.concatenate(views)
    label = np.repeat(np.arange(len(views)), [len(view) for view in views])
    _, outcome = np.unique(rows, axis=0, return_inverse=True)
    joint = np.zeros((len(views), outcome.max() + 1))
    np.add.at(joint, (label, outcome.ravel()), 1.0)
    joint /= joint.sum(1, keepdims=True) * len(views)
    product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    some = joint > 0
    return max(0.0, float(np.sum(joint[some] * np.log2(joint[some] / product[some]))))


def view_loss(
    laws: np.ndarray, other: np.ndarray, *, servers: int, seen: tuple[int, ...], total: bool
) -> float:
    """Largest log ratio of the probabilities of what is seen when two clients share noisy elements.

    Every probability is summed exactly over both clients' noise and all their shares.

    Args:
        laws: law of the first client's noisy element on two neighbouring data sets, shape (2, modulus).
        other: law of the second client's, shape (modulus,).
        servers: m >= 2.
        seen: servers whose shares of both clients the observer sees.
        total: whether it sees the sum of the two elements, too.
    """
    modulus = len(other)
    shares = np.array(
        [
            client_shares(s, modulus=modulus, servers=servers, reading="reduced")
            for s in range(modulus)
        ]
    )
    mine, theirs = shares[:, :, None, None], shares[None, None]
    code = (mine + theirs).sum(-1) % modulus * int(total)
    for j in seen:
        code = (code * modulus + mine[..., j]) * modulus + theirs[..., j]
    weights = np.broadcast_to(other[:, None], code.shape)
    chances = [
        np.bincount(code.ravel(), (law[:, None, None, None] * weights).ravel()) for law in laws
    ]
    some = chances[1] > 0
    return float(np.max(np.log(chances[0][some] / chances[1][some])))
