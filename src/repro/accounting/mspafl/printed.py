"""MS-PAFL: what the paper's lemma, theorems and corollary say, as printed, whatever their verdict.

Every function takes and returns arrays that broadcast. Letters of the paper: `local_epsilon`,
`local_delta` are those of one upload (Lemma 1); `p` is the probability that a client checks in, `q`
the share of its records that a round uses; `clients` is N, `rounds` is T, `beta` the free parameter of
Hoeffding's inequality, from which delta' = 2 exp(-2 beta^2 N). Epsilons and deltas have no unit; `clip`
and standard deviations are in the unit of the model's coordinates.

Which of these are bounds, and what is true where they are not, is in the modules `round` and
`run`; the notebook of derivations decides it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from repro._validate import (
    broadcastable,
    flag,
    in_unit,
    nonnegative,
    positive,
    probability_open,
)

__all__ = [
    "composed_log_moment",
    "first_order_epsilon",
    "hoeffding_delta",
    "local_constant",
    "local_sigma",
    "log_moment",
    "noise_ratio",
    "per_round_delta",
    "per_round_epsilon",
    "sampling_ratio",
    "subsampled",
    "total_delta",
    "total_epsilon",
    "total_local_epsilon",
]

_LARGEST_EPSILON = 600.0  # of one round, in a sum over rounds


def _whole(name: str, value: object, low: int = 1) -> np.ndarray:
    """Whole numbers of at least `low`, as a float array.

    Raises:
        ValueError: a value that is no whole number, or too small.
    """
    array = nonnegative(name, value)
    if np.any((array < low) | (array != np.floor(array))):
        raise ValueError(f"{name} must be whole numbers >= {low}, got {value!r}")
    return array


def local_sigma(
    local_epsilon: ArrayLike, local_delta: ArrayLike, *, clip: ArrayLike = 1.0
) -> np.ndarray:
    """Standard deviation of the noise on one upload: Lemma 1, (6), at the sensitivity 2 C of (C.3).

    Args:
        local_epsilon: > 0. local_delta: in (0, 1).
        clip: largest norm C of the public half, > 0.

    Returns:
        sigma > 0 in the unit of the clip, by sigma^2 = 2 (2 C)^2 ln(1.25 / delta) / epsilon^2.

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(local_epsilon=local_epsilon, local_delta=local_delta, clip=clip)
    ratio = noise_ratio(positive("local_epsilon", local_epsilon), local_delta)
    return 2 * positive("clip", clip) / ratio


def noise_ratio(local_epsilon: ArrayLike, local_delta: ArrayLike) -> np.ndarray:
    """Sensitivity of an upload over its noise, 2 C / sigma, at the noise of Lemma 1.

    The clip cancels: epsilon / sqrt(2 ln(1.25 / delta)). Zero at epsilon = 0 (infinite noise).

    Args:
        local_epsilon: >= 0. local_delta: in (0, 1).

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(local_epsilon=local_epsilon, local_delta=local_delta)
    log_term = np.log(1.25 / probability_open("local_delta", local_delta))
    return nonnegative("local_epsilon", local_epsilon) / np.sqrt(2 * log_term)


def sampling_ratio(records: ArrayLike, draws: ArrayLike, *, replacement: bool) -> np.ndarray:
    """Share q of its records that a client uses in a round: (11).

    Args:
        records: number |D_i| of a client's records, >= 1.
        draws: number Q b of records drawn in a round, >= 0; at most `records` without replacement.
        replacement: whether a record can be drawn again within the round (WR) or not (WOR).

    Returns:
        q in [0, 1]: the probability that a given record is drawn at least once.

    Raises:
        ValueError: no whole numbers, or more draws than records without replacement.
    """
    records, draws = _whole("records", records), _whole("draws", draws, 0)
    broadcastable(records=records, draws=draws)
    if flag("replacement", replacement):
        with np.errstate(divide="ignore", invalid="ignore"):
            log_missed = np.where(draws > 0, draws * np.log1p(-1 / records), 0.0)
        return -np.expm1(log_missed)
    if np.any(draws > records):
        worst = np.max(np.where(draws > records, draws, 0))
        raise ValueError(
            f"draws (Q b) must be at most the {np.min(records):g} records of a client when sampling "
            f"without replacement, got {worst:g}"
        )
    return draws / records


def subsampled(
    local_epsilon: ArrayLike, local_delta: ArrayLike, *, q: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """(2 q epsilon, q delta) after drawing a share q of the records: Theorem 1.

    Args:
        local_epsilon: of the mechanism that runs on the drawn records, in [0, 1] (the theorem's
            condition). local_delta: in [0, 1]. q: in [0, 1].

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(local_epsilon=local_epsilon, local_delta=local_delta, q=q)
    q = in_unit("q", q)
    return 2 * q * in_unit("local_epsilon", local_epsilon), q * in_unit("local_delta", local_delta)


def hoeffding_delta(clients: ArrayLike, beta: ArrayLike) -> np.ndarray:
    """delta' = 2 exp(-2 beta^2 N) of Lemma 2, (A.2).

    Args:
        clients: N >= 1. beta: > sqrt(ln(2) / (2 N)); below that delta' is no probability.

    Raises:
        ValueError: an argument out of range, or delta' >= 1.
    """
    clients, beta = _whole("clients", clients), positive("beta", beta)
    broadcastable(clients=clients, beta=beta)
    value = 2 * np.exp(-2 * beta**2 * clients)
    if np.any(value >= 1):
        least = np.sqrt(np.log(2) / (2 * np.min(np.broadcast_to(clients, value.shape)[value >= 1])))
        raise ValueError(
            f"beta must exceed {least:.4g} at this number of clients, so that delta' < 1, got {beta!r}"
        )
    return value


def per_round_epsilon(
    local_epsilon: ArrayLike, *, p: ArrayLike, q: ArrayLike, clients: ArrayLike, beta: ArrayLike
) -> np.ndarray:
    """Central epsilon of one round: Theorem 2, (19a), and with equal clients Corollary 1, (20a).

    ln[1 + p / (1 - delta') (exp(2 q epsilon) - 1)]. With different clients give p and q along an axis
    and take the largest value along it.

    Args:
        local_epsilon: in [0, 1] (condition of Theorem 1, on which the proof rests).
        p: check-in probability, in [0, 1]. q: sampling ratio, in [0, 1].
        clients, beta: see `hoeffding_delta`.

    Raises:
        ValueError: an argument out of range, or delta' >= 1.
    """
    broadcastable(local_epsilon=local_epsilon, p=p, q=q, clients=clients, beta=beta)
    sampled, _ = subsampled(local_epsilon, 0.0, q=q)
    return np.log1p(in_unit("p", p) / (1 - hoeffding_delta(clients, beta)) * np.expm1(sampled))


def per_round_delta(
    local_delta: ArrayLike, *, p: ArrayLike, q: ArrayLike, clients: ArrayLike, beta: ArrayLike
) -> np.ndarray:
    """Central delta of one round: Theorem 2, (19b), and Corollary 1, (20b).

    delta' + p q delta / (1 - delta'). Arguments and errors as for `per_round_epsilon`.
    """
    broadcastable(local_delta=local_delta, p=p, q=q, clients=clients, beta=beta)
    spill = hoeffding_delta(clients, beta)
    _, sampled = subsampled(0.0, local_delta, q=q)
    return spill + in_unit("p", p) * sampled / (1 - spill)


def first_order_epsilon(
    local_epsilon: ArrayLike, *, p: ArrayLike, q: ArrayLike, clients: ArrayLike, beta: ArrayLike
) -> np.ndarray:
    """The end of (21), 2 q epsilon p / (1 - delta'), there called an upper bound on (20a).

    Arguments and errors as for `per_round_epsilon`.
    """
    broadcastable(local_epsilon=local_epsilon, p=p, q=q, clients=clients, beta=beta)
    sampled, _ = subsampled(local_epsilon, 0.0, q=q)
    return sampled * in_unit("p", p) / (1 - hoeffding_delta(clients, beta))


def local_constant(local_delta: ArrayLike, *, clip: ArrayLike = 1.0) -> np.ndarray:
    """The constant c0 of Theorem 3 as (C.8) has it: sqrt(ln(1/delta) / ln(1.25/delta)) / (2 C).

    Args:
        local_delta: in (0, 1). clip: C > 0.

    Raises:
        ValueError: an argument out of range.
    """
    delta = probability_open("local_delta", local_delta)
    broadcastable(local_delta=delta, clip=clip)
    return np.sqrt(np.log(1 / delta) / np.log(1.25 / delta)) / (2 * positive("clip", clip))


def total_local_epsilon(
    local_epsilon: ArrayLike, rounds: ArrayLike, *, p: ArrayLike, q: ArrayLike, constant: ArrayLike
) -> np.ndarray:
    """A client's epsilon after T rounds: Theorem 3, (22), c0 q epsilon sqrt(p T / (1 - q)).

    Args:
        local_epsilon: >= 0. rounds: T >= 0. p: in [0, 1]. q: in [0, 1), at 1 the formula divides by 0.
        constant: c0 > 0, which the theorem leaves open (`local_constant` is that of its proof).

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(local_epsilon=local_epsilon, rounds=rounds, p=p, q=q, constant=constant)
    q = in_unit("q", q)
    if np.any(q == 1):
        raise ValueError(f"q must be below 1 for Theorem 3, got {q!r}")
    factor = positive("constant", constant) * q * nonnegative("local_epsilon", local_epsilon)
    return factor * np.sqrt(in_unit("p", p) * _whole("rounds", rounds, 0) / (1 - q))


def log_moment(
    order: ArrayLike,
    local_epsilon: ArrayLike,
    local_delta: ArrayLike,
    *,
    q: ArrayLike,
    clip: ArrayLike = 1.0,
) -> np.ndarray:
    """Log moment of order lambda of one round's privacy loss: (C.2) with s = 2 C of (C.3).

    Args:
        order: lambda > 0. local_epsilon: >= 0. local_delta: in (0, 1). q: in [0, 1). clip: C > 0.

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(order=order, local_epsilon=local_epsilon, local_delta=local_delta, q=q, clip=clip)
    q, order = in_unit("q", q), positive("order", order)
    if np.any(q == 1):
        raise ValueError(f"q must be below 1 for (C.2), got {q!r}")
    squared = (2 * positive("clip", clip)) ** 2
    spread = noise_ratio(local_epsilon, local_delta) ** 2  # epsilon^2 / (2 ln(1.25 / delta))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        moment = q**2 / (1 - q) * order * (order + 1) * spread / (2 * squared)
    if not np.all(np.isfinite(moment)):
        raise ValueError(
            f"clip must be large enough for a log moment that is a double, got {clip!r}"
        )
    return moment


def composed_log_moment(
    order: ArrayLike,
    local_epsilon: ArrayLike,
    local_delta: ArrayLike,
    rounds: ArrayLike,
    *,
    p: ArrayLike,
    q: ArrayLike,
    clip: ArrayLike = 1.0,
) -> np.ndarray:
    """Log moment after T rounds: (C.4), p T times (C.2). Arguments and errors as there."""
    broadcastable(order=order, local_epsilon=local_epsilon, rounds=rounds, p=p, q=q, clip=clip)
    single = log_moment(order, local_epsilon, local_delta, q=q, clip=clip)
    return in_unit("p", p) * _whole("rounds", rounds, 0) * single


def total_epsilon(round_epsilon: ArrayLike, rounds: ArrayLike, *, slack: ArrayLike) -> np.ndarray:
    """Central epsilon after T rounds: Theorem 4, (23a), strong composition.

    Args:
        round_epsilon: epsilon_c' of the worst round, in [0, 600]; its exponential must be a double.
        rounds: T >= 0. slack: delta~ in (0, 1].

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(round_epsilon=round_epsilon, rounds=rounds, slack=slack)
    epsilon, rounds = nonnegative("round_epsilon", round_epsilon), _whole("rounds", rounds, 0)
    if np.any(epsilon > _LARGEST_EPSILON):
        raise ValueError(
            f"round_epsilon must be in [0, {_LARGEST_EPSILON:g}], got {round_epsilon!r}"
        )
    first = np.sqrt(2 * rounds * np.log(1 / _slack(slack))) * epsilon
    return first + rounds * epsilon * np.expm1(epsilon)


def total_delta(round_delta: ArrayLike, rounds: ArrayLike, *, slack: ArrayLike) -> np.ndarray:
    """Central delta after T rounds: Theorem 4, T delta_c' + delta~ (above 1 it says nothing).

    Args:
        round_delta: delta_c' of the worst round, in [0, 1]. rounds: T >= 0. slack: delta~ in (0, 1].

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(round_delta=round_delta, rounds=rounds, slack=slack)
    return _whole("rounds", rounds, 0) * in_unit("round_delta", round_delta) + _slack(slack)


def _slack(slack) -> np.ndarray:
    value = in_unit("slack", slack)
    if np.any(value == 0):
        raise ValueError(f"slack must be in (0, 1], got {slack!r}")
    return value
