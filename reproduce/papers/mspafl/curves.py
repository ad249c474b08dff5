"""MS-PAFL: the paper's curves and, for the same mechanism, what each adversary can and cannot learn.

Views are named as in the pictures: "server" sees every upload and who sent it, "average" the averaged
public model only. "carried" keeps the private half from round to round, as Algorithm 1 does; "ended"
is the same mechanism if nothing were kept, the case in which data sampling amplifies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from repro.accounting._losses import threshold
from repro.accounting._pld import one_sided
from repro.accounting.mspafl.printed import (
    noise_ratio,
    per_round_delta,
    per_round_epsilon,
    total_delta,
    total_epsilon,
)
from repro.accounting.mspafl.round import AveragedUploads
from repro.accounting.mspafl.run import (
    average_epsilon_lower,
    run_delta,
    run_epsilon,
    server_delta_lower,
)

__all__ = ["Setting", "ended_run", "round_views", "run_views", "server_run"]


@dataclass(frozen=True)
class Setting:
    """One curve of a figure, in the paper's letters: p, q, N, beta, epsilon_l, delta_l, delta~.

    Checked where the values are used.
    """

    p: float
    q: float
    clients: int
    beta: float
    local_epsilon: float
    local_delta: float
    slack: float

    @property
    def _shared(self) -> dict:
        return {"p": self.p, "q": self.q, "clients": self.clients, "beta": self.beta}

    def round_epsilon(self, local_epsilon: ArrayLike | None = None) -> np.ndarray:
        """(20a), at this setting's epsilon_l or at others."""
        local = self.local_epsilon if local_epsilon is None else local_epsilon
        return per_round_epsilon(local, **self._shared)

    def round_delta(self) -> np.ndarray:
        """(20b)."""
        return per_round_delta(self.local_delta, **self._shared)

    def total_epsilon(self, rounds: ArrayLike) -> np.ndarray:
        """(23a) on (20a)."""
        return total_epsilon(self.round_epsilon(), rounds, slack=self.slack)

    def total_delta(self, rounds: ArrayLike) -> np.ndarray:
        """T delta_c' + delta~ on (20b)."""
        return total_delta(self.round_delta(), rounds, slack=self.slack)


def round_views(setting: Setting, local_epsilon: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    """One late round, everything before it fixed, at the delta that the paper gives it, (20b).

    Args:
        setting: its epsilon_l is not used.
        local_epsilon: in (0, 1], shape (n,); the noise follows from it by Lemma 1.

    Returns:
        view -> "lower", "upper" -> epsilon of shape (n,): "server" and "average" (the record has been
        used before and is remembered), "server, ended" and "average, ended" (nothing is).
    """
    sigma = 2 / noise_ratio(local_epsilon, setting.local_delta)
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
    mechanism: AveragedUploads, rounds: np.ndarray, delta: float, method: str = "upper"
) -> np.ndarray:
    """Epsilon of whole runs of clients that carry nothing over; one loss distribution, many T.

    Args:
        mechanism: one round, scalar fields. rounds: T >= 1, shape (n,). delta: in (0, 1).
        method: "upper" or "lower".
    """
    single = mechanism.pld(method=method, interval=mechanism.loss_step(method))
    runs = [single.self_compose(int(count)) for count in rounds]
    both = [one_sided(run) for run in runs]
    target = np.array([delta])
    return np.array([max(float(threshold(pmf, target)[0]) for pmf in pair) for pair in both])


def server_run(
    rounds: np.ndarray,
    delta: ArrayLike,
    *,
    ratio: float,
    p: float,
    q: float,
    ended: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Bracket of epsilon against a server that sees every upload, private halves carried over.

    Args:
        rounds: T >= 1, shape (n,). delta: in (0, 1), scalar or shape (n,).
        ratio: 2 C / sigma. p, q: check-in and sampling probability.
        ended: a lower bound for clients that carry nothing over, which these clients may also be.

    Returns:
        "lower" and "upper", shape (n,).
    """
    low = run_epsilon(
        delta, rounds, lambda e, t: server_delta_lower(e, t, ratio=ratio, p=p, q=q), lower=True
    )
    high = run_epsilon(delta, rounds, lambda e, t: run_delta(e, t, ratio=ratio, p=p, q=q))
    return {"lower": low if ended is None else np.maximum(low, ended), "upper": high}


def run_views(
    setting: Setting, rounds: np.ndarray, delta: float
) -> dict[str, dict[str, np.ndarray]]:
    """Whole runs at one target delta; the views of `round_views`.

    In round 1 nothing has been carried over yet, so that both cases agree at T = 1.

    Args:
        setting: of the figure. rounds: T >= 1, shape (n,), ascending. delta: in (0, 1).

    Returns:
        view -> "lower", "upper" -> epsilon of shape (n,).
    """
    ratio = float(noise_ratio(setting.local_epsilon, setting.local_delta))
    p, q, clients = setting.p, setting.q, setting.clients
    views: dict[str, dict[str, np.ndarray]] = {}
    for name, seen in (("server", 1), ("average", clients)):
        mechanism = AveragedUploads(2 / ratio, p=p, q=q, clients=seen)
        views[f"{name}, ended"] = {
            m: ended_run(mechanism, rounds, delta, m) for m in ("lower", "upper")
        }
    views["server"] = server_run(
        rounds, delta, ratio=ratio, p=p, q=q, ended=views["server, ended"]["lower"]
    )
    waited = average_epsilon_lower(delta, rounds, ratio=ratio, p=p, q=q, clients=clients)
    views["average"] = {
        "lower": np.maximum(waited, views["average, ended"]["lower"]),
        "upper": run_epsilon(
            delta, rounds, lambda e, t: run_delta(e, t, ratio=ratio, p=p, q=q, clients=clients)
        ),
    }
    for name in ("server", "average"):
        first = views[f"{name}, ended"]["upper"]
        views[name]["upper"] = np.where(rounds == 1, first, views[name]["upper"])
    return views
