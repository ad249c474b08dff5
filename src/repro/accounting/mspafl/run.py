"""MS-PAFL: whole runs, when clients carry an un-noised private half from round to round.

The private half depends on every record that was ever drawn. So a record that was drawn once can
decide what is uploaded in all later rounds, drawn again or not: from then on data sampling hides
nothing. What can be relied on is that an upload moves by at most 2 C.

Formal statements, for T rounds and a record of one client replaced, `ratio` = 2 C / sigma.

Upper. Fix all check-ins and all draws of records. Up to the first draw of the record both data sets
send the same; from then on the uploads are adaptively chosen Gaussian mechanisms, the average over k
clients one of ratio / sqrt(k). With W the sum of 1 / k over the rounds of the client from the first
draw on (a random variable that the data do not influence)

    delta(epsilon) <= E_W [ D(ratio sqrt(W), exp(epsilon)) ].

With N = 1 (a server that sees uploads) W is the number of these rounds. Whether the client took part
is revealed here, so that towards one who sees averages only the bound is loose where p is small.

Lower. An explicit pair: without the record the client always sends -C, as everybody else does; with
it, it sends C from the upload on in which the record was first drawn. (Its private half starts,
say, at -L, the record moves it to +L, and the sign decides which of its other records still have a
gradient; `reproduce.papers.mspafl.second_routes` simulates it.) Against a server,
`server_delta_lower` adds up the uploads, later ones with more weight. Against the average,
`average_epsilon_lower` waits until the record was drawn, with probability h, and from then on
composes the rounds of `AveragedUploads` with q = 1:
delta(epsilon) >= h delta_after(epsilon + ln(1 / h)).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import binom

from repro._validate import in_unit, integer, nonnegative, positive, probability_open
from repro.accounting._binomial import window
from repro.accounting._gaussian import log_shift_divergence
from repro.accounting.composition import compose
from repro.accounting.gaussian import GaussianMechanism
from repro.accounting.mspafl.round import AveragedUploads, gaussian_cells

__all__ = [
    "average_epsilon_lower",
    "exposure",
    "run_delta",
    "run_epsilon",
    "server_delta_lower",
    "server_laws",
]

_SPILL = 1e-13  # probability beyond the end of the law of W, charged as failure
_PER_TYPICAL = 384  # grid points per typical 1 / k
_MOST_CELLS = 2**24  # of the law of W, for memory and time: seconds and half a GiB
_MOST_CLIENTS = 10**8  # their numbers are summed over, a few times the square root of them
_TAILS = np.geomspace(1e-9, 0.5, 250)
_LARGEST = 400.0  # epsilon
_CELL, _REACH, _FAR = 1 / 14, 8.0, 40.0
"""Of cells, in standard deviations: width, margin, largest mean."""


def run_epsilon(
    delta: ArrayLike,
    rounds: ArrayLike,
    profile: Callable[[np.ndarray, int], np.ndarray],
    *,
    lower: bool = False,
) -> np.ndarray:
    """Epsilon at which a run's delta comes down to the target, by refining a grid.

    Args:
        delta: target in (0, 1), scalar or one for each of `rounds`.
        rounds: numbers T of rounds, whole, >= 1, scalar or shape (n,).
        profile: (epsilons of shape (m,), T) -> delta of shape (m,).
        lower: return the last epsilon found at which delta still exceeds the target, a lower bound if
            `profile` is one, instead of the first at which it does not.

    Returns:
        epsilon >= 0, shape (n,); 0 where already epsilon = 0 suffices.

    Raises:
        ValueError: an argument out of range.
        ArithmeticError: epsilon would be 400 or more.
    """
    rounds, delta = np.broadcast_arrays(np.atleast_1d(rounds), probability_open("delta", delta))
    found = np.zeros(rounds.shape)
    for place, (count, target) in enumerate(zip(rounds, delta, strict=True)):
        low = high = 0.0
        grid = np.concatenate([[0.0], np.geomspace(1e-4, _LARGEST, 90)])
        while (above := profile(grid, integer("rounds", count, 1)) > target).any():
            last = np.flatnonzero(above)[-1]
            if last == grid.size - 1:
                raise ArithmeticError(f"delta = {target} is exceeded at epsilon = {grid[-1]}")
            low, high = grid[last], grid[last + 1]
            if high - low <= 1e-5 * high:
                break
            grid = np.linspace(low, high, 90)
        found[place] = low if lower else high
    return found


@lru_cache(maxsize=256)
def exposure(rounds: int, p: float, q: float, clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Law of W, the sum of 1 / k over the client's rounds from the first draw on, rounded upwards.

    Each 1 / k goes up to a grid, laws of sums are products of Fourier transforms, on a range beyond
    which (Chernoff) less than 1e-13 lies. With F that of a round after the first draw (the client
    there or not), G that of the round of the first draw and h = p q, the law of W is that of

        sum_j h (1 - h)^(j - 1) G F^(T - j)  =  h G (F^T - (1 - h)^T) / (F - (1 - h)),

    but for the chance (1 - h)^T of W = 0. What comes out is gathered in groups at their upper ends.

    Returns:
        values, ascending, and their probabilities, shape (m,).

    Raises:
        ValueError: a rate is not in (0, 1], a number below 1 or too large for memory.
    """
    integer("rounds", rounds, 1)
    integer("clients", clients, 1, _MOST_CLIENTS)
    for name, rate in (("p", p), ("q", q)):
        if not in_unit(name, rate) > 0:
            raise ValueError(f"{name} must be in (0, 1], got {rate!r}")
    counts, log_chance, _ = window(clients, np.array([p]))
    k = counts[0][counts[0] > 0]
    present = np.exp(log_chance[0][counts[0] > 0]) * k / clients
    typical = np.sum(present / k) / np.sum(present)
    step = 1.0 if clients == 1 else typical / _PER_TYPICAL
    jumps = np.ceil(1 / k / step - 1e-9).astype(int)
    tilt = np.geomspace(1e-3, min(60.0 / typical, 600.0), 200)  # 1 / k is at most 1
    log_mgf = np.log1p(np.sum(present * np.expm1(tilt[:, None] * jumps * step), axis=1))
    end = np.min((rounds * log_mgf - np.log(_SPILL)) / tilt) / step
    size = 1 << int(np.ceil(np.log2(min(end, rounds * jumps.max()) + 2)))
    if size > _MOST_CELLS:
        raise ValueError(
            f"rounds must be fewer for p = {p!r} and clients = {clients}, got {rounds!r}: they would take {size} "
            f"cells, and at most {_MOST_CELLS} are allowed"
        )
    drawn = np.bincount(jumps % size, weights=present, minlength=size)
    later, first = drawn + 0.0, drawn / present.sum()
    later[0] += 1 - present.sum()
    later, first = np.fft.rfft(later), np.fft.rfft(first)
    miss = 1 - p * q
    apart = later - miss
    near = np.abs(apart) < 1e-9
    series = (later**rounds - miss**rounds) / np.where(near, 1.0, apart)
    series = np.where(near, rounds * later ** (rounds - 1), series)
    law = np.maximum(np.fft.irfft(p * q * first * series, size), 0.0)
    law[0] += miss**rounds
    total = np.cumsum(law)
    ends = np.searchsorted(total, np.concatenate([_TAILS, 1 - _TAILS]))
    ends = np.unique(np.concatenate([[0], ends[ends < size], [size - 1]]))
    return step * (1 + 1e-8) * ends, np.diff(total[ends], prepend=0.0)


def run_delta(
    epsilon: ArrayLike, rounds: int, *, ratio: float, p: float, q: float = 1.0, clients: int = 1
) -> np.ndarray:
    """delta of a whole run, an upper bound for every pair of neighbours (module, "Upper").

    Args:
        epsilon: >= 0, shape (m,). rounds: T >= 1.
        ratio: 2 C / sigma, >= 0. p: check-in probability in [0, 1].
        q: probability that an upload uses the record, in [0, 1]; it delays the first draw, no more.
        clients: N for one who sees the averaged models, 1 for a server that sees every upload.

    Returns:
        delta in [0, 1], shape (m,).

    Raises:
        ValueError: an argument out of range.
    """
    epsilon = np.atleast_1d(nonnegative("epsilon", epsilon))
    rounds, clients = integer("rounds", rounds, 1), integer("clients", clients, 1)
    ratio, p, q = float(nonnegative("ratio", ratio)), float(in_unit("p", p)), float(in_unit("q", q))
    if p * q == 0 or ratio == 0:
        return np.zeros(epsilon.shape)
    values, chance = exposure(rounds, p, q, clients)
    each = np.exp(log_shift_divergence(ratio * np.sqrt(values), epsilon[:, None]))
    return np.minimum(each @ chance + _SPILL, 1.0)


def server_delta_lower(
    epsilon: ArrayLike, rounds: int, *, ratio: float, p: float, q: float
) -> np.ndarray:
    """delta that a server which sees uploads is certain to reach (module, "Lower").

    After K uploads, added up with weights a_k = 1 - (1 - q)^k, the sum in units of its deviation has
    mean m_j if the record was first drawn for upload j. K and j are taken in groups, each at its
    unfavourable end; every threshold gives a bound, a few are tried.

    Args:
        epsilon: >= 0, shape (m,). rounds: T >= 1.
        ratio: 2 C / sigma, >= 0. p: check-in probability in [0, 1].
        q: probability that an upload uses the record, in [0, 1].

    Returns:
        delta in [0, 1], shape (m,).

    Raises:
        ValueError: an argument out of range.
    """
    epsilon = np.atleast_1d(nonnegative("epsilon", epsilon))
    rounds, p, q = integer("rounds", rounds, 1), float(in_unit("p", p)), float(in_unit("q", q))
    ratio = float(nonnegative("ratio", ratio))
    if p == 0 or q == 0 or ratio == 0:
        return np.zeros(epsilon.shape)
    ends, chance = _uploads(rounds, p)
    return chance @ [_after_uploads(epsilon, int(uploads), ratio, q) for uploads in ends]


def server_laws(rounds: int, ratio: float, p: float, q: float) -> tuple[np.ndarray, np.ndarray]:
    """Cells of what a server of `server_delta_lower` looks at, with the record and without, flat.

    The number K of uploads in groups, and the weighted sum in units of its deviation on a grid. Rounds without
    any upload are one cell. Other arguments as there, with ratio, p and q > 0.

    Raises:
        ValueError: an argument out of range, or an array.
    """
    rounds = integer("rounds", rounds, 1)
    given = {"ratio": positive("ratio", ratio), "p": in_unit("p", p), "q": in_unit("q", q)}
    for name, value in given.items():
        if value.ndim or not value > 0:
            raise ValueError(f"{name} must be one number above 0, got {value!r}")
    ratio, p, q = map(float, given.values())
    ends, chance = _uploads(rounds, p)
    laws = [(np.array([1 - chance.sum()]),) * 2]
    for uploads, share in zip(ends, chance, strict=True):
        drawn, mean = _first_draws(int(uploads), ratio, q)
        mean = np.minimum(mean, _FAR)  # less of a shift is a lower bound, too
        edges = np.hstack([-np.inf, np.arange(-_REACH, mean[0] + _REACH, _CELL), np.inf])
        rest, moved = (gaussian_cells(edges, m, 1.0) for m in (0.0, mean[:, None]))
        with_record = np.diff(drawn, prepend=0.0) @ moved + (1 - drawn[-1]) * rest
        laws.append((share * with_record, share * rest))
    return tuple(np.maximum(np.concatenate(side), 0.0) for side in zip(*laws, strict=True))


def _uploads(rounds: int, p: float) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of uploads, the lower ends of groups, and the probabilities of the groups; without 0."""
    ends = np.unique(np.maximum(binom.ppf(np.linspace(0, 1, 17)[:-1], rounds, p), 1).astype(int))
    return ends, np.diff(np.append(binom.cdf(ends - 1, rounds, p), 1.0))


def _first_draws(uploads: int, ratio: float, q: float) -> tuple[np.ndarray, np.ndarray]:
    """Groups of the upload of the first draw: probability of a draw by then, and mean of the weighted sum."""
    drawn = 1 - (1 - q) ** np.arange(1, uploads + 1.0)  # by upload k: the weights a_k
    mean = ratio * np.cumsum(drawn[::-1])[::-1] / np.linalg.norm(drawn)  # m_j, decreasing
    last = np.unique(np.round(np.geomspace(1, uploads, 60)).astype(int)) - 1  # ends of groups of j
    return drawn[last], mean[last]


def _after_uploads(epsilon: np.ndarray, uploads: int, ratio: float, q: float) -> np.ndarray:
    """The lower bound after exactly so many uploads, shape of epsilon."""
    drawn, mean = _first_draws(uploads, ratio, q)
    chance = np.diff(drawn, prepend=0.0)
    typical = mean[np.searchsorted(drawn, [0.0, 0.3, 0.6, 0.9]).clip(max=mean.size - 1)]
    with np.errstate(over="ignore"):  # beyond every double lies no mass
        threshold = epsilon[:, None] / typical + typical / 2
    false_alarm = ndtr(-threshold)
    seen = ndtr(mean - threshold[..., None]) @ chance + (1 - drawn[-1]) * false_alarm
    with np.errstate(over="ignore", invalid="ignore"):
        gain = np.where(false_alarm > 0, np.exp(epsilon)[:, None] * false_alarm, 0.0)
        return np.maximum(np.max(seen - gain, axis=1), 0.0)


def average_epsilon_lower(
    delta: float, rounds: ArrayLike, *, ratio: float, p: float, q: float, clients: int
) -> np.ndarray:
    """Epsilon that one who sees only the averaged models exceeds (module, "Lower").

    The waiting time is chosen by a normal approximation; every choice gives a lower bound.

    Args:
        delta: target in (0, 1). rounds: numbers T of rounds, >= 1, scalar or shape (n,).
        ratio: 2 C / sigma, > 0. p: in (0, 1]. q: in [0, 1]. clients: N >= 1.

    Returns:
        epsilon >= 0, shape (n,); 0 where no waiting time pays.

    Raises:
        ValueError: an argument out of range.
    """
    delta, ratio = float(probability_open("delta", delta)), float(positive("ratio", ratio))
    ratio = min(ratio, _FAR * np.sqrt(integer("clients", clients, 1)))  # less of a shift, as above
    carried = AveragedUploads(2 / ratio, p=positive("p", p), clients=clients)
    hazard = carried.p * float(in_unit("q", q))
    waits = np.unique(np.ceil(np.array([0.5, 1, 1.5, 2, 3, 4, 6, 8]) / hazard)) if hazard else []
    chosen: list[tuple[int, int, float]] = []  # place of T, rounds after the wait, chance of a draw
    for place, count in enumerate(np.atleast_1d(rounds)):
        count = integer("rounds", count, 1)
        some = np.array([wait for wait in waits if wait < count])
        drawn = 1 - (1 - hazard) ** some
        some, drawn = some[drawn > delta], drawn[drawn > delta]
        if some.size:
            shift = ratio * np.sqrt(carried.p * (count - some) / clients)
            guess = GaussianMechanism(1 / shift).epsilon(delta / drawn) + np.log(drawn)
            pick = int(np.argmax(guess))
            chosen.append((place, int(count - some[pick]), float(drawn[pick])))
    found = np.zeros(np.atleast_1d(rounds).shape)
    if chosen:
        places, left, chance = (np.array(column) for column in zip(*chosen, strict=True))
        found[places] = np.maximum(
            compose(carried, left).epsilon(delta / chance, method="lower") + np.log(chance), 0
        )
    return found
