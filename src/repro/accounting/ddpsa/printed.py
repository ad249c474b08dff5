"""DDP-SA's guarantee (ddpsa, section V): one round, many rounds, and what an outsider really learns.

Setting. Client i holds N_i records. Each round it scales every record's gradient down to l1 norm at
most Delta (`clip`), adds them up, adds Laplace noise of scale Delta / epsilon to every coordinate, and
divides by N_i. Unless said otherwise, neighbours differ in one record that is added or removed, N_i and
Delta are public constants, and the observer sees each client's noisy vector (the local guarantee).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import elementwise
from scipy.special import gammaln

from repro._validate import choice, in_unit, integer, nonnegative, positive, probability_open
from repro.accounting._gaussian import compress, log_diff, log_sum
from repro.accounting.calibration import calibrate_sigma
from repro.accounting.composition import compose
from repro.accounting.laplace import SummedLaplace

__all__ = [
    "RELATIONS",
    "adaptive_budget",
    "advanced_epsilon",
    "clip_l1",
    "laplace_scale",
    "matching_scale",
    "median_norm",
    "noise_deviation",
    "optimal_delta",
    "per_round_epsilon",
    "quantisation_error",
    "reconstruction_probability",
    "representable",
    "total_epsilon",
    "uniform_budget",
]

RELATIONS = ("add or remove", "replace", "client")
METHODS = ("basic", "advanced", "optimal", "exact")


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


def laplace_scale(epsilon, *, clip):
    """Delta / epsilon, the scale of each coordinate's noise (Algorithm 2); arrays broadcast."""
    return _plain(positive("clip", clip) / positive("epsilon", epsilon))


def per_round_epsilon(scale, *, clip, relation: str = "add or remove", records: int = 1):
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

    Source: ddpsa, Definitions 2 and 4, Theorem 1.
    """
    choice("relation", relation, RELATIONS)
    factor = {"add or remove": 1, "replace": 2, "client": 2 * integer("records", records, 1)}
    return _plain(factor[relation] * positive("clip", clip) / positive("scale", scale))


def advanced_epsilon(epsilon, rounds, *, slack):
    """Equation (11): epsilon sqrt(2 T ln(1/slack)) + T epsilon (e^epsilon - 1).

    Holds with delta_total = T delta + slack (Dwork, Rothblum and Vadhan 2010). Arrays broadcast.
    """
    epsilon, rounds = nonnegative("epsilon", epsilon), positive("rounds", rounds)
    slack = probability_open("slack", slack)
    spread = epsilon * np.sqrt(2 * rounds * np.log(1 / slack))
    return _plain(spread + rounds * epsilon * np.expm1(epsilon))


def optimal_delta(total, epsilon, rounds: int):
    """Smallest delta for which every T-fold adaptive composition of epsilon-DP steps is (total, delta)-DP.

    Args:
      total: total epsilon >= 0, scalar or array.
      epsilon: of each round, > 0, broadcast with `total`.
      rounds: T >= 1.

    Source: Kairouz, Oh and Viswanath 2017, Theorem 3.3, with delta = 0.
    """
    return _plain(np.exp(_log_optimal(nonnegative("total", total), epsilon, rounds)))


def _log_optimal(total: np.ndarray, epsilon, rounds: int) -> np.ndarray:
    """log sum_l C(T, l) [e^((T-l) eps) - e^(total + l eps)]_+ / (1 + e^eps)^T."""
    rounds = integer("rounds", rounds, 1)
    total, epsilon = np.broadcast_arrays(total, positive("epsilon", epsilon))
    total, epsilon = total[..., None], epsilon[..., None]
    k = np.arange(rounds + 1)
    ways = gammaln(rounds + 1) - gammaln(k + 1) - gammaln(rounds - k + 1)
    terms = ways + log_diff((rounds - k) * epsilon, total + k * epsilon)
    return log_sum(terms, axis=-1) - rounds * np.logaddexp(0.0, epsilon[..., 0])


def total_epsilon(epsilon, rounds: int, *, delta=None, method: str = "exact"):
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
    one = _optimal_epsilon if method == "optimal" else _exact_epsilon
    values = [
        one(float(e), float(d), rounds) for e, d in zip(epsilon.flat, delta.flat, strict=True)
    ]
    return _plain(np.reshape(values, epsilon.shape))


def _optimal_epsilon(epsilon: float, delta: float, rounds: int) -> float:
    def excess(total):
        return compress(_log_optimal(total, epsilon, rounds) - np.log(delta))

    if excess(np.array(0.0)) <= 0:
        return 0.0
    found = elementwise.find_root(excess, (0.0, rounds * epsilon))
    return float(found.bracket[1])


def _exact_epsilon(epsilon: float, delta: float, rounds: int) -> float:
    return compose(SummedLaplace(1.0, sensitivity=epsilon), rounds).epsilon(delta)


def uniform_budget(total: float, rounds: int) -> np.ndarray:
    """The same epsilon each round that adds up to `total`, shape (T,) (section V-B, strategy 1)."""
    return np.full(integer("rounds", rounds, 1), float(positive("total", total)) / rounds)


def adaptive_budget(total: float, rounds: int, *, decay: float) -> np.ndarray:
    """Equation (12): budgets that fall by the factor `decay` in (0, 1) each round, shape (T,)."""
    powers = float(probability_open("decay", decay)) ** np.arange(integer("rounds", rounds, 1))
    return float(positive("total", total)) * powers / powers.sum()


def noise_deviation(scale, *, clients, records):
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

    The paper states 1 / (2 SF) for one number, and says that decoding keeps it; that is so for the
    average. Exact arithmetic is assumed.
    """
    half = 0.5 * 10.0 ** -integer("decimals", decimals, 0)
    return half if average else half * integer("clients", clients, 1)


def representable(modulus: int, *, decimals: int, clients: int = 1) -> float:
    """Largest |x| that n clients may each encode without wrap-around of the sum.

    Sums lie between -(p - 1)/2 and (p - 1)/2 after centring, in units of 10^-decimals.
    """
    units = (integer("modulus", modulus, 2) - 1) // 2 // integer("clients", clients, 1)
    return units / 10.0 ** integer("decimals", decimals, 0)


def reconstruction_probability(compromised, servers: int):
    """Lemma 1: probability q^m that all m servers are compromised, each independently with q."""
    return _plain(in_unit("compromised", compromised) ** integer("servers", servers, 1))


def _plain(value) -> float | np.ndarray:
    """A float for a single value, the array otherwise."""
    return float(value) if np.ndim(value) == 0 else value
