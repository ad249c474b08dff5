"""DDP-SA's guarantee (ddpsa, section V) in one round and in many, and what it sends (section VI-C).

Setting. Client i holds N_i records. Each round it scales every record's gradient down to l1 norm at
most Delta (`clip`), adds them up, adds Laplace noise of scale Delta / epsilon to every coordinate, and
divides by N_i. Unless said otherwise, neighbours differ in one record that is added or removed, N_i and
Delta are public constants, and the observer sees each client's noisy vector (the local guarantee).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import elementwise
from scipy.special import gammaln

from repro import _validate
from repro._validate import choice, in_unit, integer, nonnegative, one, positive, probability_open
from repro.accounting._gaussian import compress, log_diff, log_sum
from repro.accounting.calibration import calibrate_sigma
from repro.accounting.composition import compose
from repro.accounting.laplace import SummedLaplace

__all__ = [
    "MECHANISMS",
    "RELATIONS",
    "adaptive_budget",
    "advanced_epsilon",
    "aggregate_epsilon",
    "clip_l1",
    "element_bytes",
    "equal_scale",
    "laplace_scale",
    "link_bytes",
    "matching_scale",
    "median_norm",
    "noise_deviation",
    "optimal_delta",
    "parameter_server_shares",
    "per_round_epsilon",
    "quantisation_error",
    "reconstruction_probability",
    "representable",
    "total_epsilon",
    "uploaded",
]

RELATIONS = ("add or remove", "replace", "client")
Values = float | np.ndarray
"""A float for single arguments, else an array of the broadcast shape."""

MECHANISMS = ("No-Private", "LDP", "MPC", "DDP-SA")
_SHARED = ("MPC", "DDP-SA")
METHODS = ("basic", "advanced", "optimal", "exact")

_MOST_DECIMALS, _LARGEST_MODULUS = 300, 2**256
_LARGEST_EPSILON = 600.0  # of one round, in a sum over rounds


def clip_l1(gradients: np.ndarray, clip: float) -> np.ndarray:
    """Each record's gradient divided by max(1, |g|_1 / clip), shape (..., d) (Algorithm 2)."""
    norms = np.abs(gradients).sum(axis=-1, keepdims=True)
    return gradients / np.maximum(1.0, norms / float(positive("clip", clip)))


def median_norm(gradients: np.ndarray) -> float:
    """Median of the l1 norms of the gradients, shape (records, d): the paper's choice of Delta.

    It depends on the data: as a public constant it is a valid clip, computed from the same data that is
    to be protected it is not (see the derivations).

    Raises:
        ValueError: no records, or the median is 0 or not finite, which is no clip.
    """
    gradients = np.asarray(gradients, float)
    if gradients.ndim != 2 or not gradients.size:
        raise ValueError(f"gradients must have shape (records, d), got {gradients.shape}")
    return float(positive("the median of the norms", np.median(np.abs(gradients).sum(axis=1))))


def laplace_scale(epsilon: ArrayLike, *, clip: ArrayLike) -> Values:
    """Delta / epsilon, the scale of each coordinate's noise (Algorithm 2); arrays broadcast."""
    return _plain(positive("clip", clip) / positive("epsilon", epsilon))


def per_round_epsilon(
    scale: ArrayLike, *, clip: ArrayLike, relation: str = "add or remove", records: int = 1
) -> Values:
    """Pure epsilon of one client's noisy vector in one round: sensitivity over scale.

    Tight: the loss of an output far out in the direction of the change is exactly this.

    Args:
        scale: scale of the noise on the sum of clipped gradients, > 0.
        clip: Delta, > 0.
        relation: what neighbours differ in. "add or remove" one record: Delta. "replace" one record:
            2 Delta (two gradients may be opposite). "client": the client's whole data set of `records`
            records, which is what local differential privacy means: 2 Delta `records`.
        records: N_i, used for "client" only.

    Returns:
        epsilon, float or array of the broadcast shape.

    Raises:
        ValueError: an argument out of range.

    Source: ddpsa (arXiv 2604.07125v1), Definitions 2 and 4, Theorem 1.
    """
    choice("relation", relation, RELATIONS)
    factor = {"add or remove": 1, "replace": 2, "client": 2 * integer("records", records, 1)}
    with np.errstate(over="ignore"):
        epsilon = factor[relation] * positive("clip", clip) / positive("scale", scale)
    if np.any(np.isinf(epsilon)):
        raise ValueError(
            f"scale must be large enough for an epsilon that is a double, got {scale!r}"
        )
    return _plain(epsilon)


def advanced_epsilon(epsilon: ArrayLike, rounds: ArrayLike, *, slack: ArrayLike) -> Values:
    """Equation (11): epsilon sqrt(2 T ln(1/slack)) + T epsilon (e^epsilon - 1).

    Holds with delta_total = T delta + slack (Dwork, Rothblum and Vadhan 2010). Arrays broadcast.

    Raises:
        ValueError: an argument out of range; epsilon is at most 600, so that its exponential is a double.
    """
    epsilon, rounds = nonnegative("epsilon", epsilon), positive("rounds", rounds)
    if np.any(epsilon > _LARGEST_EPSILON):
        raise ValueError(f"epsilon must be in [0, {_LARGEST_EPSILON:g}], got {np.max(epsilon)!r}")
    slack = probability_open("slack", slack)
    spread = epsilon * np.sqrt(2 * rounds * np.log(1 / slack))
    return _plain(spread + rounds * epsilon * np.expm1(epsilon))


def optimal_delta(total: ArrayLike, epsilon: ArrayLike, rounds: int) -> Values:
    """Smallest delta for which every T-fold adaptive composition of epsilon-DP steps is (total, delta)-DP.

    Args:
        total: total epsilon >= 0, scalar or array.
        epsilon: of each round, > 0, broadcast with `total`.
        rounds: T >= 1.

    Source: Kairouz, Oh and Viswanath 2017, Theorem 3.3, with delta = 0.
    """
    return _plain(np.exp(_log_optimal(nonnegative("total", total), epsilon, rounds)))


def _log_optimal(total: ArrayLike, epsilon: ArrayLike, rounds: int) -> np.ndarray:
    """log sum_l C(T, l) [e^((T-l) eps) - e^(total + l eps)]_+ / (1 + e^eps)^T."""
    rounds = integer("rounds", rounds, 1)
    total, epsilon = np.broadcast_arrays(total, positive("epsilon", epsilon))
    total, epsilon = total[..., None], epsilon[..., None]
    k = np.arange(rounds + 1)
    ways = gammaln(rounds + 1) - gammaln(k + 1) - gammaln(rounds - k + 1)
    terms = ways + log_diff((rounds - k) * epsilon, total + k * epsilon)
    return log_sum(terms, axis=-1) - rounds * np.logaddexp(0.0, epsilon[..., 0])


def total_epsilon(
    epsilon: ArrayLike, rounds: int, *, delta: ArrayLike | None = None, method: str = "exact"
) -> Values:
    """Total epsilon after T rounds of the Laplace mechanism with `epsilon` a round.

    Args:
        epsilon: of each round, > 0, scalar or array.
        rounds: T >= 1.
        delta: of the whole run, in (0, 1), broadcast with `epsilon`; unused by "basic".
        method: "basic" T epsilon, with delta = 0 (Theorem 2, part 1); "advanced" equation (11) with all of
            delta as slack (part 2); "optimal" the best for anything of which only epsilon is known;
            "exact" for Laplace noise itself, rounded upwards.

    Returns:
        total epsilon, float or array.

    Raises:
        ValueError: an argument out of range, or delta missing where it is needed.
    """
    choice("method", method, METHODS)
    epsilon, rounds = positive("epsilon", epsilon), integer("rounds", rounds, 1)
    if method == "basic":
        return _plain(rounds * epsilon)
    delta = probability_open("delta", delta)
    if method == "advanced":
        return advanced_epsilon(epsilon, rounds, slack=delta)
    epsilon, delta = np.broadcast_arrays(epsilon, delta)
    total = _optimal_epsilon if method == "optimal" else _exact_epsilon
    values = [
        total(float(e), float(d), rounds) for e, d in zip(epsilon.flat, delta.flat, strict=True)
    ]
    return _plain(np.reshape(values, epsilon.shape))


def _optimal_epsilon(epsilon: float, delta: float, rounds: int) -> float:
    def excess(total):
        return compress(_log_optimal(total, epsilon, rounds) - np.log(delta))

    if excess(np.array(0.0)) <= 0:
        return 0.0
    found = elementwise.find_root(excess, (0.0, rounds * epsilon))
    return float(found.bracket[1])


@lru_cache(maxsize=256, typed=True)
def _exact_epsilon(epsilon: float, delta: float, rounds: int) -> float:
    return compose(_noise(1.0, 1, epsilon), rounds).epsilon(delta)


def aggregate_epsilon(epsilon: float, *, clients: int, rounds: int, delta: float) -> float:
    """Total epsilon for one who sees the sum of the clients' vectors in every round, exactly.

    Every one of n clients adds Laplace noise of scale Delta / epsilon to each coordinate, and the
    observer knows none of it; one client's record is added or removed. With n = 1 it is the local
    guarantee, `total_epsilon(…, method="exact")`. See `SummedLaplace` for
    what "exactly" covers.

    Args:
        epsilon: of a client's vector in one round, > 0.
        clients: n >= 1.
        rounds: T >= 1.
        delta: of the whole run, in (0, 1).

    Raises:
        ValueError: an argument out of range.
    """
    probability = one(probability_open, "delta", delta)
    scale = 1 / one(positive, "epsilon", epsilon)
    return _epsilon(
        scale, integer("rounds", rounds, 1), probability, integer("clients", clients, 1)
    )


def equal_scale(epsilon: float, *, clients: int, rounds: int, delta: float) -> float:
    """Scale of distributed noise that gives the aggregate the guarantee of n clients' own noise.

    Distributed noise is one Laplace variable, to which every client adds a share. Its scale, in
    units of Delta, is chosen so that after T rounds the aggregate's total epsilon is at most that
    of `aggregate_epsilon`, and within 1 % of it. 1 / epsilon would give the same pure epsilon in each
    round, sqrt(n) / epsilon the variance of the n clients' noise. After many rounds neither is
    enough: what counts then is the Fisher information about a shift, which is 1 / scale^2 for
    Laplace noise, twice that of Gaussian noise of its variance, and the sum of n clients' noise is
    nearly Gaussian. The scale tends to sqrt(2 n) / epsilon.

    Args:
        epsilon, clients, rounds, delta: as in `aggregate_epsilon`.

    Raises:
        ValueError: an argument out of range.
    """
    total = aggregate_epsilon(epsilon, clients=clients, rounds=rounds, delta=delta)
    if total == 0:
        raise ValueError(
            f"delta must be so small that the aggregate's epsilon is positive, got {delta!r}: any scale would do"
        )
    scale, low, high = math.sqrt(2 * clients) / epsilon, 0.0, math.inf
    while not 0.99 * total <= (spent := _epsilon(scale, rounds, delta)) <= total:
        low, high = (scale, high) if spent > total else (low, scale)
        if high <= low * (1 + 1e-9):
            return high  # epsilon jumps
        # Epsilon falls like a power of the scale, and this step contracts; at a large delta it may overshoot.
        scale *= (spent / (0.995 * total)) ** 0.7
        if not low < scale < high:
            scale = math.sqrt(low * high) if low and high < math.inf else max(2 * low, high / 2)
    return scale


@lru_cache(maxsize=256, typed=True)
def _epsilon(scale: float, rounds: int, delta: float, clients: int = 1) -> float:
    return compose(_noise(scale, clients, 1.0), rounds).epsilon(delta)


@lru_cache(maxsize=16, typed=True)
def _noise(scale: float, clients: int, sensitivity: float) -> SummedLaplace:
    """The mechanism, which keeps its loss distribution for runs of other lengths."""
    return SummedLaplace(scale, clients=clients, sensitivity=sensitivity)


def adaptive_budget(total: float, rounds: int, *, decay: float) -> np.ndarray:
    """Equation (12): budgets that fall by the factor `decay` in (0, 1) each round, shape (T,)."""
    powers = float(probability_open("decay", decay)) ** np.arange(integer("rounds", rounds, 1))
    return float(positive("total", total)) * powers / powers.sum()


def noise_deviation(scale: ArrayLike, *, clients: ArrayLike, records: ArrayLike) -> Values:
    """Standard deviation, per coordinate, of the noise in the averaged gradient of all records.

    Every client's noisy sum has variance 2 scale^2; the sums of n clients are divided by the number of
    all records N (equation (5) weighs client i by N_i / N, and it divides by N_i). With N fixed and
    split among more clients the noise grows like sqrt(n).

    Args:
        scale: of each client's noise, > 0.
        clients: n, >= 1.
        records: N, the records of all clients together, >= 1.
    """
    scale, records = positive("scale", scale), positive("records", records)
    return _plain(np.sqrt(2 * positive("clients", clients)) * scale / records)


def matching_scale(
    clients: int, *, epsilon: float, delta: float, sensitivity: float = 1.0
) -> float:
    """Smallest scale of each client's noise for which the sum over n clients is (epsilon, delta)-DP.

    Compare sqrt(n) times it with the scale of one central noise term: what local noise costs at equal
    guarantee.
    """
    return calibrate_sigma(
        lambda scale: SummedLaplace(scale, clients=clients, sensitivity=sensitivity),
        epsilon=epsilon,
        delta=delta,
    )


def quantisation_error(decimals: int, *, clients: int = 1, average: bool = False) -> float:
    """Largest error of a decoded sum (or average) of n encoded numbers: n / (2 SF), SF = 10^decimals.

    The paper states 1 / (2 SF) for one number, and that decoding keeps it: so it is for the average.
    """
    half = 0.5 * 10.0 ** -integer("decimals", decimals, 0, _MOST_DECIMALS)
    return half * (1 if _validate.flag("average", average) else integer("clients", clients, 1))


def representable(modulus: int, *, decimals: int, clients: int = 1) -> float:
    """Largest |x| that n clients may each encode without wrap-around of the sum.

    Sums lie between -(p - 1)/2 and (p - 1)/2 after centring, in units of 10^-decimals.
    """
    clients = integer("clients", clients, 1)
    units = (integer("modulus", modulus, 2, _LARGEST_MODULUS) - 1) // 2 // clients
    return units / 10.0 ** integer("decimals", decimals, 0, _MOST_DECIMALS)


def reconstruction_probability(compromised: ArrayLike, servers: int) -> Values:
    """Lemma 1: probability q^m that all m servers are compromised, each independently with q."""
    return _plain(in_unit("compromised", compromised) ** integer("servers", servers, 1))


def uploaded(mechanism: str, *, dimension: int, servers: int) -> int:
    """Numbers that a client uploads each round: d, or one share of each for every server (Figure 4)."""
    choice("mechanism", mechanism, MECHANISMS)
    dimension, servers = integer("dimension", dimension, 1), integer("servers", servers, 2)
    return dimension * (servers if mechanism in _SHARED else 1)


def link_bytes(
    mechanism: str, *, dimension: int, servers: int, clients: int = 1, width: int = 4
) -> dict[str, int]:
    """Bytes over each kind of link in one round, without headers (Table III).

    Args:
        mechanism: one of `MECHANISMS`.
        dimension: d >= 1.
        servers: m >= 2 intermediate servers.
        clients: n >= 1. The table says "per client" and counts the servers' traffic in full, which is
            right for n = 1 only: the servers send m d numbers whatever n.
        width: bytes per number; the table has 4.

    Returns:
        link -> bytes, summed over all clients and servers.
    """
    shared = choice("mechanism", mechanism, MECHANISMS) in _SHARED
    numbers = integer("dimension", dimension, 1) * integer("width", width, 1)
    clients, servers = integer("clients", clients, 1), integer("servers", servers, 2)
    result = {"PS to clients": numbers * clients}
    if not shared:
        return result | {"clients to PS": numbers * clients}
    return result | {
        "clients to servers": numbers * servers * clients,
        "servers to PS": numbers * servers,
    }


def parameter_server_shares(sent: dict[str, int]) -> dict[str, float]:
    """Share of each link in what passes the parameter server, in percent (as Table III counts)."""
    passing = {link: count for link, count in sent.items() if "PS" in link}
    total = sum(passing.values())
    return {link: 100 * count / total for link, count in passing.items()}


def element_bytes(limit: float, *, decimals: int, clients: int = 1) -> int:
    """Whole bytes that a share needs so that n encoded numbers in [-limit, limit] add up unwrapped.

    Args:
        limit: largest |x| of any client, > 0.
        decimals: decimal places kept, 0 to 300.
        clients: n >= 1.
    """
    scale = 10 ** integer("decimals", decimals, 0, _MOST_DECIMALS)
    limit = Fraction(one(positive, "limit", limit))
    largest = integer("clients", clients, 1) * round(limit * scale)
    return -(-(2 * largest + 1).bit_length() // 8)


def _plain(value: Values) -> Values:
    """A float for a single value, the array otherwise."""
    return float(value) if np.ndim(value) == 0 else value
