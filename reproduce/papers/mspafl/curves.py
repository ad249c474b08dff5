"""Figures 3 to 6 of MS-PAFL: the printed curves, and what each adversary learns from the mechanism.

The views have the names of the pictures. "server" sees every upload and its sender, "average" sees
the averaged public model only. Both are for clients that keep their private half from round to
round, as Algorithm 1 does. "server, ended" and "average, ended" are for clients that keep nothing,
the case in which data sampling amplifies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import in_unit, positive
from repro.accounting import GaussianMechanism
from repro.accounting._losses import threshold
from repro.accounting._pld import one_sided, self_compositions
from repro.accounting.mspafl import printed
from repro.accounting.mspafl.round import AveragedUploads
from repro.accounting.mspafl.run import (
    average_epsilon_lower,
    run_delta,
    run_epsilon,
    server_delta_lower,
)

Bracket = dict[str, NDArray]
"""Ends "lower" and "upper" of a certified interval, arrays of one shape."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Setting:
    """One curve of a figure. The fields `p`, `q`, `beta` and the epsilon may be arrays that broadcast.

    Attributes:
        p: check-in probability, in (0, 1].
        q: share of a client's records that a round uses, in (0, 1].
        clients: N >= 1.
        beta: of Hoeffding's inequality, Lemma 2.
        local_epsilon: of one upload (epsilon_l), in [0, 1].
        local_delta: of one upload (delta_l), in (0, 1).
        slack: delta~ of Theorem 4, in (0, 1].

    Raises:
        ValueError: p or q is out of range. The printed formulas check the rest where they use it.
    """

    p: Any
    q: Any
    clients: int
    beta: Any
    local_epsilon: Any
    local_delta: float
    slack: float

    def __post_init__(self) -> None:
        for name in ("p", "q"):
            positive(name, in_unit(name, getattr(self, name)))

    @property
    def _shared(self) -> dict[str, Any]:
        return {"p": self.p, "q": self.q, "clients": self.clients, "beta": self.beta}

    @property
    def ratio(self) -> float:
        """2 C / sigma at the noise of Lemma 1."""
        return float(printed.noise_ratio(self.local_epsilon, self.local_delta))

    def uploads(self, clients: int, q: float = 1.0) -> AveragedUploads:
        """One round: the average of `clients` uploads, each of which uses the record with rate q."""
        return AveragedUploads(2 / self.ratio, p=self.p, q=q, clients=clients)

    def round_epsilon(self, local_epsilon: ArrayLike | None = None) -> NDArray:
        """Corollary 1, (20a), at this setting's epsilon_l or at others."""
        local = self.local_epsilon if local_epsilon is None else local_epsilon
        return printed.per_round_epsilon(local, **self._shared)

    def first_order_epsilon(self) -> NDArray:
        """The end of (21), which the paper calls a bound on `round_epsilon`."""
        return printed.first_order_epsilon(self.local_epsilon, **self._shared)

    def round_delta(self) -> NDArray:
        """Corollary 1, (20b)."""
        return printed.per_round_delta(self.local_delta, **self._shared)

    def total_epsilon(self, rounds: ArrayLike) -> NDArray:
        """Theorem 4, (23a), on (20a)."""
        return printed.total_epsilon(self.round_epsilon(), rounds, slack=self.slack)

    def total_delta(self, rounds: ArrayLike) -> NDArray:
        """T delta_c' + delta~ of Theorem 4, on (20b)."""
        return printed.total_delta(self.round_delta(), rounds, slack=self.slack)


Panels = dict[str, dict[str, Setting]]
"""Part of a figure -> label of a curve -> its setting."""


def panels_by_rate(fixed: Setting, p: Sequence[float], q: Sequence[float]) -> Panels:
    """Figures 3 and 4: several p at the q of `fixed` in (a), several q at its p in (b)."""
    return {
        "(a)": {f"p = {value:g}": replace(fixed, p=value) for value in p},
        "(b)": {f"q = {value:g}": replace(fixed, q=value) for value in q},
    }


def panels_by_batch(base: Setting, records: int, steps: int, batches: Sequence[int]) -> Panels:
    """Figure 6: several batch sizes, without replacement in (a) and with replacement in (b)."""

    def setting(batch: int, again: bool) -> Setting:
        return replace(
            base, q=float(printed.sampling_ratio(records, steps * batch, replacement=again))
        )

    return {
        part: {f"b = {batch}": setting(batch, again) for batch in batches}
        for part, again in (("(a)", False), ("(b)", True))
    }


def each(panels: Panels, value: Callable[[Setting], Value]) -> dict[str, dict[str, Value]]:
    """`value` of every setting, by part and label."""
    return {
        part: {label: value(setting) for label, setting in row.items()}
        for part, row in panels.items()
    }


def many_rounds(most: int) -> NDArray:
    """About 40 numbers of rounds from 1 to `most`, evenly spread on a logarithmic axis."""
    return np.unique(np.round(np.geomspace(1, most, 40)))


def round_views(setting: Setting, local_epsilon: NDArray) -> dict[str, Bracket]:
    """One late round, everything before it fixed, at the delta that the paper gives it, (20b).

    Args:
        setting: its epsilon_l is not used.
        local_epsilon: in (0, 1], shape (n,); the noise follows from it by Lemma 1.

    Returns:
        View -> "lower", "upper" -> epsilon of shape (n,).
    """
    sigma = 2 / printed.noise_ratio(local_epsilon, setting.local_delta)
    delta = float(setting.round_delta())
    views = {}
    for name, clients in (("server", 1), ("average", setting.clients)):
        for suffix, q in (("", 1.0), (", ended", setting.q)):
            mechanism = AveragedUploads(sigma, p=setting.p, q=q, clients=clients)
            high = mechanism.epsilon(delta)
            exact = clients == 1
            low = high if exact else mechanism.epsilon(delta, method="lower")
            views[name + suffix] = {"lower": low, "upper": high}
    return views


def ended_run(
    mechanism: AveragedUploads, rounds: NDArray, delta: float, method: str = "upper"
) -> NDArray:
    """Epsilon of whole runs of clients that keep nothing.

    Args:
        mechanism: one round, scalar fields.
        rounds: T >= 1, shape (n,).
        delta: in (0, 1).
        method: "upper" or "lower".
    """
    single = mechanism.pld(method=method, interval=mechanism.loss_step(method))
    # upper ends are alike in both directions, since a record is replaced
    sides = one_sided(single, "remove" if method == "upper" else "both")
    target = np.array([delta])
    found = [
        [threshold(composed, target)[0] for composed in self_compositions(side, map(int, rounds))]
        for side in sides
    ]
    return np.max(found, axis=0)


def server_run(
    setting: Setting, rounds: NDArray, delta: ArrayLike, *, ended: NDArray | None = None
) -> Bracket:
    """Bracket of epsilon against a server that sees every upload; private halves are kept.

    Args:
        setting: its clients, beta and delta~ are not used.
        rounds: T >= 1, shape (n,).
        delta: in (0, 1), scalar or shape (n,).
        ended: a lower bound for clients that keep nothing, which these clients may also be.

    Returns:
        "lower" and "upper", shape (n,).
    """
    rates = {"ratio": setting.ratio, "p": setting.p, "q": setting.q}
    low = run_epsilon(delta, rounds, lambda e, t: server_delta_lower(e, t, **rates), lower=True)
    high = run_epsilon(delta, rounds, lambda e, t: run_delta(e, t, **rates))
    return {"lower": low if ended is None else np.maximum(low, ended), "upper": high}


def average_upper(setting: Setting, rounds: ArrayLike, delta: ArrayLike) -> NDArray:
    """Epsilon of a run against one who sees averages only, an upper bound; private halves are kept."""
    rates = {"ratio": setting.ratio, "p": setting.p, "q": setting.q, "clients": setting.clients}
    return run_epsilon(delta, rounds, lambda e, t: run_delta(e, t, **rates))


def average_lower(setting: Setting, rounds: ArrayLike, delta: float) -> NDArray:
    """Epsilon that one who sees averages only exceeds; private halves are kept."""
    rates = {"ratio": setting.ratio, "p": setting.p, "q": setting.q, "clients": setting.clients}
    return average_epsilon_lower(delta, rounds, **rates)


def run_views(setting: Setting, rounds: NDArray, delta: float) -> dict[str, Bracket]:
    """Whole runs at one target delta, seen as in `round_views`.

    In round 1 nothing has been kept yet, so that both cases agree at T = 1.

    Args:
        setting: of the figure.
        rounds: T >= 1, shape (n,).
        delta: in (0, 1).

    Returns:
        View -> "lower", "upper" -> epsilon of shape (n,).
    """
    views: dict[str, Bracket] = {}
    for name, clients in (("server", 1), ("average", setting.clients)):
        mechanism = setting.uploads(clients, setting.q)
        views[f"{name}, ended"] = {
            method: ended_run(mechanism, rounds, delta, method) for method in ("lower", "upper")
        }
    views["server"] = server_run(setting, rounds, delta, ended=views["server, ended"]["lower"])
    views["average"] = {
        "lower": np.maximum(
            average_lower(setting, rounds, delta), views["average, ended"]["lower"]
        ),
        "upper": average_upper(setting, rounds, delta),
    }
    for name in ("server", "average"):
        first = views[f"{name}, ended"]["upper"]
        views[name]["upper"] = np.where(rounds == 1, first, views[name]["upper"])
    return views


def at_printed_delta(setting: Setting, rounds: NDArray) -> dict[str, Bracket]:
    """What each adversary learns in T rounds at the delta of Theorem 4, in place of a target.

    Returns:
        "average" -> "upper", and "server" -> "lower", "upper" -> epsilon of shape (n,). Where
        that delta is 1 or more, epsilon is 0.
    """
    delta = setting.total_delta(rounds)
    some = delta < 1
    found = {
        "average": {"upper": np.zeros(len(rounds))},
        "server": {"lower": np.zeros(len(rounds)), "upper": np.zeros(len(rounds))},
    }
    if some.any():
        found["average"]["upper"][some] = average_upper(setting, rounds[some], delta[some])
        for end, values in server_run(setting, rounds[some], delta[some]).items():
            found["server"][end][some] = values
    # in round 1 nothing has been kept yet
    for place in np.flatnonzero(some & (rounds == 1)):
        for name, clients in (("server", 1), ("average", setting.clients)):
            first = setting.uploads(clients, setting.q).epsilon(float(delta[place]))
            for end in found[name]:
                found[name][end][place] = first
    return found


def over_printed(
    panels: Panels, views: Mapping[str, Mapping[str, Mapping[str, Bracket]]], rounds: NDArray
) -> dict[str, dict[str, dict[str, Bracket]]]:
    """`views` of whole runs, part -> label -> view -> end, divided by (23a) at `rounds`."""
    return {
        part: {
            label: {
                view: {
                    end: e / panels[part][label].total_epsilon(rounds) for end, e in ends.items()
                }
                for view, ends in found.items()
            }
            for label, found in row.items()
        }
        for part, row in views.items()
    }


def small_batch(fixed: Setting) -> Setting:
    """A setting of Figure 6 beside those of Figures 3 and 4: one record a step, and few check-ins."""
    return replace(fixed, p=0.1, q=5 / 325)


def last_round(
    settings: Mapping[str, Setting], views: Mapping[str, Mapping[str, Bracket]], local: float
) -> dict[str, tuple[float, dict[str, dict[str, float]]]]:
    """The formula of one round and each view at their last local epsilon, by setting in words."""
    return {
        f"p = {s.p:g}, q = {s.q:.2g}": (
            float(s.round_epsilon(local)),
            {
                view: {end: float(values[-1]) for end, values in ends.items()}
                for view, ends in views[label].items()
            },
        )
        for label, s in settings.items()
    }


def local_totals(
    parameters: Mapping[str, Any], x: NDArray, rounds: NDArray
) -> dict[str, dict[str, Any]]:
    """Figure 5: a client's own loss after T rounds, with replacement, without, and with DP-FedAvg.

    DP-FedAvg neither samples nor splits; every client takes part in every round.

    Args:
        parameters: of the figure's notebook.
        x: numbers of rounds for the printed curves.
        rounds: numbers of rounds for the other curves, shape (n,).

    Returns:
        By local epsilon (as text) and method: "printed", of the shape of x, and "stated", the same
        at `rounds`; "truth", a bracket towards the server at the target delta; "ended", an upper
        bound if nothing were kept; "delta", which the stated epsilon has at least. Further "q" by
        method, and "constant", the c0 of (C.8).
    """
    delta_l, clip, p = parameters["local_delta"], parameters["clip"], parameters["p"]
    target = parameters["target_delta"]
    constant = printed.local_constant(delta_l, clip=clip)
    draws = parameters["steps"] * parameters["batch"]
    q = {
        method: float(printed.sampling_ratio(parameters["records"], draws, replacement=again))
        for method, again in (("WR", True), ("WOR", False))
    }
    found: dict[str, dict[str, Any]] = {
        "printed": {}, "stated": {}, "truth": {}, "ended": {}, "delta": {},
        "q": q, "constant": constant,
    }  # fmt: skip
    for epsilon in parameters["local_epsilons"]:
        curves: dict[str, dict[str, Any]] = {key: {} for key in list(found)[:5]}
        for method, share in q.items():
            setting = Setting(p, share, 1, 1.0, epsilon, delta_l, 1.0)  # beta, delta~: not used
            theorem_3 = {"p": p, "q": share, "constant": constant}
            curves["printed"][method] = printed.total_local_epsilon(epsilon, x, **theorem_3)
            mechanism = AveragedUploads(2 * clip / setting.ratio, p=p, q=share, clip=clip)
            ended = ended_run(mechanism, rounds, target)
            low = ended_run(mechanism, rounds, target, "lower")
            truth = server_run(setting, rounds, target, ended=low)
            truth["upper"] = np.where(rounds == 1, ended, truth["upper"])
            own = printed.total_local_epsilon(epsilon, rounds, **theorem_3)
            curves["stated"][method] = own
            curves["ended"][method], curves["truth"][method] = ended, truth
            curves["delta"][method] = np.concatenate(
                [
                    server_delta_lower(own[[j]], int(t), ratio=setting.ratio, p=p, q=share)
                    for j, t in enumerate(rounds)
                ]
            )
        plain = GaussianMechanism(1 / (setting.ratio * np.sqrt(rounds)))
        exact = plain.epsilon(target)
        curves["printed"]["DP-FedAvg"] = constant * epsilon * np.sqrt(x)
        curves["stated"]["DP-FedAvg"] = constant * epsilon * np.sqrt(rounds)
        curves["truth"]["DP-FedAvg"] = {"lower": exact, "upper": exact}
        curves["delta"]["DP-FedAvg"] = plain.delta(curves["stated"]["DP-FedAvg"])
        for key, values in curves.items():
            found[key][f"{epsilon:g}"] = values
    return found
