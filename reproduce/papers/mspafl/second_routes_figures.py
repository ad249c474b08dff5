"""Second routes for Figures 3 to 6 of MS-PAFL: what is drawn, computed anew at a few points of every curve.

Nothing here calls the accountant. The printed formulas are transcribed from the paper a second time, in another form
where there is one; what an adversary learns is summed or integrated from the law of what it sees. The functions
`confirmed_…` return the curves that they are given, and end the notebook with an `ArithmeticError` that names the
curve where one disagrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reproduce.papers.mspafl.second_routes import known_number_delta
from reproduce.papers.mspafl.second_routes_runs import (
    ended_run_delta,
    kept_run_delta,
    kept_run_leak,
    shift_delta,
)
from reproduce.papers.second_routes import agree

__all__ = [
    "confirmed_local",
    "confirmed_round",
    "confirmed_runs",
    "confirmed_shares",
    "confirmed_totals",
    "confirmed_views",
]

_FORMULA = 1e-9
"""Relative difference of a formula that is transcribed twice: rounding."""

_INTEGRAL = 1e-3
"""The same of a delta that is integrated on a coarse grid here."""

_NEARER = 0.985
"""At this share of an upper end more than its delta must leak. The accountant rounds upwards, by 1.3 % at most here."""

_LOOSE = 0.9
"""The same where the accountant rounds losses upwards on a coarse grid, and the other way round for lower ends."""

_ROUNDS = 50
"""The longest run that is followed round after round by one who sees averages."""


def confirmed_round(
    panels: Mapping[str, Any],
    printed: Mapping[str, Mapping[str, NDArray]],
    deltas: Mapping[str, Mapping[str, float]],
    local: NDArray,
) -> Mapping[str, Mapping[str, NDArray]]:
    """`printed` of Figure 3, if it is Corollary 1: (20a) at the local epsilons, with the `deltas` of (20b).

    Raises:
        ArithmeticError: a curve is another one.
    """
    for part, label, s in _each(panels):
        grown = np.expm1(_shaped(printed[part][label], local))
        agree(f"{part} {label}, (20a)", grown, _growth(s, local), rtol=_FORMULA)
        agree(f"{part} {label}, (20b)", deltas[part][label], _round_delta(s), rtol=_FORMULA)
    return printed


def confirmed_views(
    panels: Mapping[str, Any], views: Mapping[str, Mapping[str, Any]], local: NDArray
) -> Mapping[str, Mapping[str, Any]]:
    """`views` of Figure 3, if delta at their upper ends is that of (20b), at the first and the last local epsilon.

    What is lost by one who sees the average, or the upload itself, is integrated for each number of clients that are
    there. The formula that is compared with it must be (20a) at these points, too.

    Raises:
        ArithmeticError: another delta, or another formula.
    """
    cases = {
        "average": (False, False), "average, ended": (False, True),
        "server": (True, False), "server, ended": (True, True),
    }  # fmt: skip
    for part, label, s in _each(panels):
        agree(f"{part} {label}", np.expm1(s.round_epsilon(local)), _growth(s, local), rtol=_FORMULA)
        for view, (server, ended) in cases.items():
            ends = views[part][label][view]
            _in_order(f"{part} {label}, {view}", ends)
            epsilon = _shaped(ends["upper"], local)
            for place in (0, -1):
                found = known_number_delta(
                    epsilon[place], 2 / _ratio(local[place], s), p=s.p, q=s.q if ended else 1.0,
                    clients=1 if server else s.clients, points=1001,
                )  # fmt: skip
                agree(f"{part} {label}, {view}: δ", found, _round_delta(s), rtol=_INTEGRAL)
    return views


def confirmed_shares(
    panels: Mapping[str, Any], records: int, steps: int, batches: Sequence[int]
) -> Mapping[str, Any]:
    """`panels` of Figure 6, if q is (11): Q b of the records without replacement, or missed in no draw with it.

    Raises:
        ArithmeticError: another q.
    """
    without, again = panels.values()
    for batch, first, second in zip(batches, without.values(), again.values(), strict=True):
        missed = (1 - 1 / records) ** (steps * batch)
        agree(f"q, b = {batch}, WOR", first.q, steps * batch / records, rtol=_FORMULA)
        agree(f"q, b = {batch}, WR", second.q, 1 - missed, rtol=_FORMULA)
    return panels


def confirmed_totals(
    panels: Mapping[str, Any],
    printed: Mapping[str, Mapping[str, NDArray]],
    deltas: Mapping[str, Mapping[str, NDArray]],
    rounds: NDArray,
) -> Mapping[str, Mapping[str, NDArray]]:
    """`printed` of Figures 4 and 6, if it is Theorem 4 on Corollary 1, with its `deltas`.

    Raises:
        ArithmeticError: a curve is another one.
    """
    for part, label, s in _each(panels):
        total = _shaped(printed[part][label], rounds)
        agree(f"{part} {label}, (23a)", total, _total(s, rounds), rtol=_FORMULA)
        sums = _shaped(deltas[part][label], rounds)
        agree(f"{part} {label}, δ", sums, rounds * _round_delta(s) + s.slack, rtol=_FORMULA)
    return printed


def confirmed_runs(
    panels: Mapping[str, Any],
    found: Mapping[str, Mapping[str, Any]],
    rounds: NDArray,
    target: float | None = None,
) -> Mapping[str, Mapping[str, Any]]:
    """`found` of Figures 4 and 6, if the upper ends for whole runs leak the delta that they stand for.

    One T of each curve is computed anew, round after round (`kept_run_delta`). The lower end must be below. The
    formula that is compared with them must be (23a).

    Args:
        panels: of the figure.
        found: part -> label -> "average", "server" -> ends, shape (n,).
        rounds: T, shape (n,).
        target: the delta; None for that of Theorem 4.

    Raises:
        ArithmeticError: another delta, or another formula.
    """
    place = _place(rounds, _ROUNDS)
    for part, label, s in _each(panels):
        agree(f"{part} {label}", s.total_epsilon(rounds), _total(s, rounds), rtol=_FORMULA)
        rates = {"ratio": _ratio(s.local_epsilon, s), "p": s.p, "q": s.q}
        for view, clients in (("average", s.clients), ("server", 1)):
            ends = found[part][label][view]
            where = f"{part} {label}, {view}"
            _in_order(where, ends)
            if place is None:
                continue
            t = int(rounds[place])
            delta = t * _round_delta(s) + s.slack if target is None else target
            epsilon = float(_shaped(ends["upper"], rounds)[place])
            _reached(f"{where}, T = {t}", epsilon, min(delta, 1.0), t, **rates, clients=clients)
            if f"{view}, ended" in found[part][label]:
                _ended(where, found[part][label][f"{view}, ended"], delta, rounds, rates, clients)
            if view == "server" and delta < 1:
                _leaked(f"{where}, T = {t}", float(ends["lower"][place]), delta, t, rates)
    return found


def confirmed_local(
    parameters: Mapping[str, Any], found: Mapping[str, Any], x: NDArray, rounds: NDArray
) -> Mapping[str, Any]:
    """`found` of Figure 5, if it is Theorem 3 with the constant of (C.8), squared, and the true loss at one T.

    The upper ends for WR and WOR must leak the target delta at one T, the value of DP-FedAvg at every T.

    Raises:
        ArithmeticError: a curve is another one.
    """
    delta, p, n = parameters["local_delta"], parameters["p"], parameters["records"]
    draws = parameters["steps"] * parameters["batch"]
    shares = {"WR": 1 - (1 - 1 / n) ** draws, "WOR": draws / n}
    squared = np.log(1 / delta) / np.log(1.25 / delta) / (4 * parameters["clip"] ** 2)
    target, place = parameters["target_delta"], _place(rounds, _ROUNDS)
    for epsilon in parameters["local_epsilons"]:
        printed, truth = (found[name][f"{epsilon:g}"] for name in ("printed", "truth"))
        ratio = epsilon / np.sqrt(2 * np.log(1.25 / delta))
        for name, q in shares.items():
            where = f"local ε = {epsilon:g}, {name}"
            own = squared * (q * epsilon) ** 2 * p * x / (1 - q)
            agree(f"{where}, (22)", _shaped(printed[name], x) ** 2, own, rtol=_FORMULA)
            _in_order(where, truth[name])
            if place is not None:
                low, high = (
                    float(_shaped(truth[name][end], rounds)[place]) for end in ("lower", "upper")
                )
                t, rates = int(rounds[place]), {"ratio": ratio, "p": p, "q": q}
                _reached(f"{where}, T = {t}", high, target, t, **rates, clients=1)
                _leaked(f"{where}, T = {t}", low, target, t, rates)
                _ended(
                    where, {"upper": found["ended"][f"{epsilon:g}"][name]}, target, rounds, rates, 1
                )
        where = f"local ε = {epsilon:g}, DP-FedAvg"
        own = squared * epsilon**2 * x
        agree(where, _shaped(printed["DP-FedAvg"], x) ** 2, own, rtol=_FORMULA)
        for end in truth["DP-FedAvg"].values():
            lost = shift_delta(_shaped(end, rounds), ratio * np.sqrt(rounds))
            agree(f"{where}: δ", lost, target, rtol=_INTEGRAL)
    return found


def _reached(where: str, epsilon: float, delta: float, rounds: int, **run: Any) -> None:
    """Refuse an upper end at which more than delta leaks, or 1.5 % below which no more leaks."""
    found, nearer = (kept_run_delta(e, rounds, **run) for e in (epsilon, _NEARER * epsilon))
    if not found <= delta * (1 + _INTEGRAL) or (epsilon > 0 and not nearer > delta):
        raise ArithmeticError(
            f"{where}: δ = {found:.4g} at ε = {epsilon:.6g} and {nearer:.4g} at {_NEARER:g} of it by a second route, "
            f"in place of {delta:.4g}"
        )


def _ended(
    where: str,
    ends: Mapping[str, NDArray],
    delta: float,
    rounds: NDArray,
    rates: dict,
    clients: int,
) -> None:
    """Refuse ends for clients that keep nothing, at the last T: on the wrong side, or 10 % too far off."""
    t = int(rounds[-1])
    for end, values in ends.items():
        epsilon, upper = float(_shaped(values, rounds)[-1]), end == "upper"
        known = {"clients": clients, "number": upper or clients == 1}
        near, far = (
            ended_run_delta(e, t, **rates, **known)
            for e in (epsilon, epsilon * (_LOOSE if upper else 1 / _LOOSE))
        )
        low, high = (near, far) if upper else (far, near)
        if not low <= delta * (1 + _INTEGRAL) or (
            epsilon > 0 and not high >= delta * (1 - _INTEGRAL)
        ):
            raise ArithmeticError(
                f"{where}, nothing kept, {end} end {epsilon:.6g} at T = {t}: δ = {near:.4g} there by a second route, "
                f"and {far:.4g} further on, in place of {delta:.4g}"
            )


def _leaked(where: str, epsilon: float, delta: float, rounds: int, rates: dict) -> None:
    """Refuse a lower end against a server above which neither kind of client leaks delta."""
    ended = {"clients": 1, "number": True}
    kept = kept_run_leak(epsilon, rounds, **rates)
    found = max(kept, ended_run_delta(epsilon, rounds, **rates, **ended))
    if epsilon > 0 and not found >= delta * (1 - _INTEGRAL):
        raise ArithmeticError(
            f"{where}: δ = {found:.4g} at the lower end {epsilon:.6g} by a second route, below {delta:.4g}"
        )


def _in_order(where: str, ends: Mapping[str, NDArray]) -> None:
    """Refuse a bracket whose ends cross, if it has two."""
    if np.any(ends.get("lower", 0.0) > ends["upper"]):
        raise ArithmeticError(f"{where}: the lower end is above the upper one")


def _place(rounds: NDArray, most: int) -> int | None:
    """The place of the largest T up to `most`; not 1, at which nothing has been kept yet."""
    places = np.flatnonzero((rounds > 1) & (rounds <= most))
    return int(places[-1]) if places.size else None


# Transcribed from the paper ---------------------------------------------------------------------------


def _each(panels: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    return [(part, label, s) for part, row in panels.items() for label, s in row.items()]


def _shaped(values: ArrayLike, axis: NDArray) -> NDArray:
    """The values of a curve, which must have as many as its axis."""
    values = np.asarray(values, dtype=float)
    if values.shape != np.shape(axis):
        raise ArithmeticError(f"a curve of {values.shape} values on an axis of {np.shape(axis)}")
    return values


def _failure(s: Any) -> float:
    """Lemma 2: the check-ins are far from their mean with a chance of at most 2 exp(-2 beta^2 N)."""
    return 2 / np.exp(s.beta**2 * s.clients) ** 2


def _growth(s: Any, local: ArrayLike) -> NDArray:
    """(20a) without its logarithm: exp(eps_c) - 1 = p (exp(2 q eps_l) - 1) / (1 - delta')."""
    return s.p * (np.exp(2 * s.q * np.asarray(local, dtype=float)) - 1) / (1 - _failure(s))


def _round_delta(s: Any) -> float:
    """(20b): delta' + p q delta_l / (1 - delta')."""
    return _failure(s) + s.p * s.q * s.local_delta / (1 - _failure(s))


def _total(s: Any, rounds: NDArray) -> NDArray:
    """(23a): sqrt(2 T ln(1 / delta~)) eps_c + T eps_c (exp(eps_c) - 1)."""
    growth = _growth(s, s.local_epsilon)
    single = np.log(1 + growth)
    return single * (np.sqrt(-2 * rounds * np.log(s.slack)) + rounds * growth)


def _ratio(local: ArrayLike, s: Any) -> NDArray:
    """Lemma 1, (6): the distance 2 C of two uploads over sigma is eps_l / sqrt(2 ln(1.25 / delta_l))."""
    return np.asarray(local, dtype=float) / np.sqrt(-2 * np.log(s.local_delta / 1.25))
