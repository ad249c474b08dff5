"""Second routes for MS-PAFL: check-ins enumerated, releases integrated, Algorithm 1 attacked.

Nothing here knows a bound. A data set is what the clients upload; a round is the mixture of Gaussians
that the enumerated check-ins make of it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import binom, norm

from repro._validate import in_unit, integer, nonnegative, positive
from repro.federated.mspafl.client import RecordDraws, clip_rows
from repro.models.logistic import gradient

__all__ = [
    "CarriedUploads",
    "Normals",
    "averaged_round",
    "carried_uploads",
    "check_ins",
    "exposures",
    "known_number_delta",
    "normals_divergence",
    "search_rounds",
    "shrunk_average",
    "switching_client",
    "upload_delay",
    "upload_run_delta",
]


class Normals(NamedTuple):
    """A mixture of spherical Gaussians: weights and deviations (m,), means (m, k)."""

    weights: np.ndarray
    means: np.ndarray
    deviations: np.ndarray


def check_ins(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every set of participants and its probability.

    Args:
        p: check-in probabilities, shape (N,), N <= 12.

    Returns:
        sets, bool of shape (2^N, N), and probabilities, shape (2^N,).
    """
    p = in_unit("p", p)
    count = integer("number of clients", p.size, 1, 12)
    sets = np.array(list(product((False, True), repeat=count)))
    return sets, np.prod(np.where(sets, p, 1 - p), axis=1)


def averaged_round(
    uploads: np.ndarray, p: np.ndarray, sigma: float, rates: np.ndarray | None = None
) -> Normals:
    """The average of the uploads of those who checked in; rounds with nobody are left out.

    Args:
        uploads: means of the uploads, shape (N, k); with a second possibility for client 0 in row 0 of
            `rates`, shape (N + 1, k), the last row being that of a round which uses the record.
        p: check-in probabilities, shape (N,). sigma: noise on an upload, > 0.
        rates: probability that client 0 uses the record, or None for uploads that are fixed.
    """
    sets, chance = check_ins(p)
    sets, chance = sets[1:], chance[1:]
    size = sets.sum(1)
    fixed = np.asarray(uploads, dtype=float)[: sets.shape[1]]
    means = sets @ fixed / size[:, None]
    if rates is None:
        return Normals(chance, means, sigma / np.sqrt(size))
    moved = means + np.outer(sets[:, 0] / size, np.asarray(uploads)[-1] - fixed[0])
    return Normals(
        np.concatenate([(1 - rates) * chance, rates * chance]),
        np.vstack([means, moved]),
        np.tile(sigma / np.sqrt(size), 2),
    )


def exposures(rounds: int, clients: int, p: float, q: float) -> tuple[np.ndarray, np.ndarray]:
    """The law of W, the sum of 1 / k over a client's rounds from the first draw of its record on.

    Every course of the run is listed: in each round whether the client is there, whether it draws the
    record, and how many others are there.

    Args:
        rounds: T >= 1. clients: N >= 1; (2 N + 1)^T courses are listed, 10^6 at most.
        p: check-in probability. q: probability that an upload uses the record.

    Returns:
        values of W and their probabilities, each of shape (number of courses,).
    """
    others = np.arange(integer("number of clients", clients, 1))
    integer("number of courses", (2 * clients + 1) ** integer("rounds", rounds, 1), 1, 10**6)
    chance = p * binom.pmf(others, clients - 1, p)
    here = [(c * w, 1 / (1 + n), drawn) for n, c in zip(others, chance, strict=True)
            for drawn, w in ((True, q), (False, 1 - q))]  # fmt: skip
    values, weights = [], []
    for course in product([(1 - p, 0.0, False), *here], repeat=rounds):
        drawn = [row[2] for row in course]
        start = drawn.index(True) if any(drawn) else rounds
        values.append(sum(row[1] for row in course[start:]))
        weights.append(np.prod([row[0] for row in course]))
    return np.array(values), np.array(weights)


def upload_delay(
    starts_from: Callable[[int], int], forms: Callable[[int], int], rounds: int = 8
) -> int:
    """After how many rounds the uploads of round 0 are used, when indices are taken as they stand.

    Args:
        starts_from: index of the average that round t starts from.
        forms: index of the average that the uploads of round t form.
        rounds: how many rounds to follow.
    """
    formed_in = {forms(t): t for t in range(rounds)}
    return next(t for t in range(rounds) if formed_in.get(starts_from(t)) == 0)


def shrunk_average(
    starts_from: Callable[[int], int], forms: Callable[[int], int], rounds: int
) -> float:
    """The distance from the optimum that the last uploads of a federation have, if each round halves it.

    There is no noise and everybody takes part. An average that no round has formed yet is at distance 1.

    Args:
        starts_from: index of the average that round t starts from.
        forms: index of the average that the uploads of round t form.
        rounds: >= 1.
    """
    averages: dict[int, float] = {}
    for t in range(integer("rounds", rounds, 1)):
        averages[forms(t)] = averages.get(starts_from(t), 1.0) / 2
    return averages[forms(rounds - 1)]


def normals_divergence(first: Normals, second: Normals, alpha: float, points: int = 2001) -> float:
    """Int [first - alpha second]_+ on a grid, in one or two dimensions, midpoint rule.

    Accurate to the square of the step over the smallest deviation; for comparing data sets.
    """
    means, widest = (
        np.vstack([first.means, second.means]),
        8 * max(first.deviations.max(), second.deviations.max()),
    )
    axes = [
        np.linspace(low - widest, high + widest, points)
        for low, high in zip(means.min(0), means.max(0), strict=True)
    ]

    def density(mixture: Normals) -> np.ndarray:
        factors = [
            np.exp(-0.5 * ((axis[:, None] - mixture.means[:, k]) / mixture.deviations) ** 2)
            / (np.sqrt(2 * np.pi) * mixture.deviations)
            for k, axis in enumerate(axes)
        ]
        if len(factors) == 1:
            return factors[0] @ mixture.weights
        return np.einsum("am,bm,m->ab", *factors, mixture.weights, optimize=True)

    cell = np.prod([axis[1] - axis[0] for axis in axes])
    return float(np.maximum(density(first) - alpha * density(second), 0.0).sum() * cell)


def search_rounds(
    *, clients: int, p: float, q: float, sigma: float, epsilon: float, trials: int, seed: int
) -> float:
    """The largest delta of one round among special and random data sets, both directions, clip 1.

    A data set is: where every client's upload lies, where client 0's does when it uses the record, and
    where it does when the record has been replaced; points of the unit disc.
    """
    rng = np.random.default_rng(seed)
    e = np.array([1.0, 0.0])
    corners = [-e, 0 * e, e, np.array([0.0, 1.0])]
    special = [
        np.vstack([np.tile(rest, (clients, 1)), used, other])
        for rest in corners for used in corners for other in corners
    ]  # fmt: skip
    angle = rng.uniform(0, 2 * np.pi, (trials, clients + 2))
    radius = rng.uniform(0, 1, angle.shape) ** 0.2
    spread = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)

    def delta(points: np.ndarray, grid: int) -> float:
        one, two = (
            averaged_round(np.vstack([points[:clients], moved]), np.full(clients, p), sigma, q)
            for moved in points[clients:]
        )
        alpha = np.exp(epsilon)
        return max(
            normals_divergence(one, two, alpha, grid), normals_divergence(two, one, alpha, grid)
        )

    tried = [(delta(points, 81), k, points) for k, points in enumerate([*special, *spread])]
    return delta(max(tried)[2], 401)


def switching_client(records: int) -> tuple[np.ndarray, np.ndarray]:
    """A client's data whose private half remembers one record: vectors v = y x, and its replacement.

    One private and one public coordinate. Half of the common records, (a, -1), push the public one
    down while the private one is far below zero, the others, (-a, 1), up while it is far above. Record
    0 carries the private coordinate from -L to L and, once, the public one up; its replacement is the
    zero vector. Made for learning rate 40, batches of 5 and the start -L = -10,000. Records of norm at
    most 1 do as well: divide all vectors by 2,700, multiply the start by 2,700 and the learning rate by
    its square.

    Args:
        records: number of the client's records, odd, >= 3.

    Returns:
        the data set with the record, shape (records, 2), and its neighbour.
    """
    half = (integer("number of records", records, 3) - 1) // 2
    common = np.vstack([np.tile([0.01, -1.0], (half, 1)), np.tile([-0.01, 1.0], (half, 1))])
    return np.vstack([[2500.0, 1000.0], common]), np.vstack([[0.0, 0.0], common])


class CarriedUploads(NamedTuple):
    """Runs of one client: each of shape (runs, rounds); `clipped` and `sent` are 0 where it is absent."""

    present: np.ndarray
    drawn: np.ndarray
    clipped: np.ndarray
    sent: np.ndarray


def carried_uploads(
    vectors: np.ndarray,
    *,
    start: float,
    rounds: int,
    runs: int,
    p: float,
    steps: int,
    batch: int,
    learning_rate: float,
    sigma: float,
    replacement: bool = False,
    keep: bool = True,
    seed: int = 0,
) -> CarriedUploads:
    """Algorithm 1 for the only client of a server, clip 1, one private and one public coordinate.

    The parts are those of `repro.federated.mspafl.algorithm`; here the private half may start anywhere, as the
    algorithm allows, and the uploads are kept.

    Args:
        vectors: v = y x of the records, shape (n, 2), the differing record first.
        start: initial value of the private coordinate.
        rounds, runs: T and the number of independent runs, >= 1.
        p: check-in probability. steps, batch: Q and b, >= 1.
        learning_rate: > 0. sigma: noise on an upload, >= 0.
        replacement: draw records with replacement.
        keep: carry the private half over; False starts every round from `start`.
        seed: of all draws; data sets compared under one seed see the same coins and noise.
    """
    nonnegative("sigma", sigma)
    positive("learning_rate", learning_rate)
    in_unit("p", p)
    coins, records, noise = np.random.default_rng(seed).spawn(3)
    draws = RecordDraws(runs, len(vectors), steps * batch, replacement=replacement)
    private, public = np.full(runs, float(start)), np.zeros(runs)
    found = CarriedUploads(*(np.zeros((runs, rounds), dtype=t) for t in (bool, bool, float, float)))
    for t in range(rounds):
        present = coins.random(runs) < p
        places = draws.draw(records.random((runs, draws.draws)))
        models = np.stack([private, public], axis=-1)[:, None, :]
        for r in range(steps):
            models = models - learning_rate * gradient(
                models, vectors[places[:, r * batch : (r + 1) * batch]], 0.0
            )
        clipped = clip_rows(models[:, :, 1:], 1.0)[:, 0, 0]
        sent = clipped + sigma * noise.standard_normal(runs)
        if keep:
            private = np.where(present, models[:, 0, 0], private)
        public = np.where(present, sent, public)
        found.present[:, t], found.drawn[:, t] = present, present & np.any(places == 0, axis=1)
        found.clipped[:, t], found.sent[:, t] = present * clipped, present * sent
    return found


def known_number_delta(
    epsilon: float, sigma: float, *, p: float, q: float, clients: int, points: int = 4001
) -> float:
    """What a replaced record of one client leaks to one who sees the average of k uploads and k.

    The other uploads are fixed, the clip is 1. The difference of the two densities, mixed over who checked in,
    is summed on a grid, which is accurate to about 1e-5 of the result.

    Args:
        epsilon: >= 0. sigma: noise on an upload, > 0. p, q: in [0, 1]. clients: N >= 1.
        points: of the grid, for each number of participants.
    """
    sizes = np.arange(1, integer("clients", clients, 1) + 1)
    chance = binom.pmf(sizes, clients, p)
    moved = q * sizes / clients  # the client is one of the k, and draws the record
    shift = 2 / (positive("sigma", sigma) * np.sqrt(sizes))
    at = np.linspace(-9.0, 9.0 + shift.max(), points)
    fixed = np.exp(-(at**2) / 2)[:, None]
    gone = np.exp(-((at[:, None] - shift) ** 2) / 2)
    gap = moved * gone + (1 - moved - np.exp(epsilon)) * fixed
    over = np.maximum(gap, 0).sum(axis=0) * (at[1] - at[0]) / np.sqrt(2 * np.pi)
    return float(chance @ over)


def upload_run_delta(epsilon: float, rounds: int, *, ratio: float, p: float, q: float) -> float:
    """What a whole run leaks about a record to a server that sees every upload, with the private half kept.

    From the round of the first draw on each upload of the client is shifted: the sum over that round, and over how
    often the client comes afterwards, of the divergence of two normal laws.

    Args:
        epsilon: >= 0. rounds: T >= 1. ratio: shift of an upload over its noise, > 0. p, q: in (0, 1].
    """
    first = np.arange(1, integer("rounds", rounds, 1) + 1)
    drawn = positive("p", p) * positive("q", q)
    chance = drawn * (1 - drawn) ** (first - 1)
    more = np.arange(rounds)
    often = chance @ binom.pmf(more, rounds - first[:, None], p)
    shift = ratio * np.sqrt(more + 1)
    apart = norm.cdf(shift / 2 - epsilon / shift)
    return float(often @ (apart - np.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift)))
