r"""What a federation of one's own costs, and what popular shortcuts would say about it.

python -m repro.accounting                                the noise for the federation of the README
python -m repro.accounting --clients 500 --records 100 --participation 0.05 --local-rate 0.2 \
        --rounds 1000 --epsilon 2 --delta 1e-5                the noise for a target
python -m repro.accounting … --noise 1.0                  what a given noise is worth
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from repro._validate import nonnegative, one, positive, probability_open
from repro.accounting._composed import Composed
from repro.accounting._renyi import convert_delta, convert_epsilon
from repro.accounting.calibration import calibrate_sigma
from repro.accounting.composition import compose
from repro.accounting.federation import Federation
from repro.accounting.gaussian import PoissonGaussian
from repro.accounting.mechanism import Mechanism

_ORDERS = np.concatenate([1 + np.arange(1, 100) / 10, np.arange(12, 64)])
"""Orders of a Renyi accountant: those of Opacus."""

_SEEN = {
    "sums": "noisy sums",
    "participants": "noisy sums and who took part",
    "uploads": "noisy upload of every client",
}
_FPR = 0.1
_RTOL = 1e-3  # of the noise
_COLUMNS = {
    "account": 21,
    "noise": 6,
    "epsilon stated": 14,
    "true epsilon": 13,
    "advantage": 14,
    f"TPR at FPR {_FPR}": 14,
    "verdict": 1,
}
"""Headings and least widths."""


@dataclass(frozen=True)
class RenyiAccount:
    """What an accountant of Renyi divergences says of `rounds` rounds.

    Attributes:
        mechanism: one round.
        rounds: T >= 1.
    """

    mechanism: Mechanism
    rounds: int

    def delta(self, epsilon: float, *, method: str = "upper") -> float:
        """Delta at an epsilon, converted from the sum of the divergences."""
        curve = self.rounds * self.mechanism.rdp(_ORDERS, method=method)
        return float(convert_delta(curve, _ORDERS, epsilon))

    def epsilon(self, delta: float, *, method: str = "upper") -> float:
        """Epsilon at a delta, converted from the sum of the divergences."""
        curve = self.rounds * self.mechanism.rdp(_ORDERS, method=method)
        return float(convert_epsilon(curve, _ORDERS, delta))


def shortcuts(federation: Federation) -> dict[str, Callable[[float], Composed | RenyiAccount]]:
    """Other ways to account for a federation, by name: functions of sigma, some of them wrong."""
    p, q, rounds = federation.participation, federation.local_rate, federation.rounds

    def sampled(rate: float, sigma: float) -> Mechanism:
        return PoissonGaussian(sigma, rate=rate, sensitivity=federation.clip)

    whole = 1.0 if federation.adjacency == "client" else q
    found: dict[str, Callable] = {
        "one rate p q": lambda s: compose(sampled(p * q, s), rounds),
        "one rate p q, RDP": lambda s: RenyiAccount(sampled(p * q, s), rounds),
        "participation ignored": lambda s: compose(sampled(whole, s), rounds),
        "right mechanism, RDP": lambda s: RenyiAccount(federation.mechanism(s), rounds),
    }
    if federation.submodels > 1:
        rate = federation.mechanism(1.0).rate
        found["no splitting"] = lambda s: compose(sampled(rate, s), rounds)
    return found


def rows(
    federation: Federation,
    *,
    delta: float,
    epsilon: float | None,
    noise: float | None,
    progress: Callable[[float], object] | None = None,
) -> Iterator[tuple[str, ...]]:
    """The lines of the table, the right account first; each as soon as it is computed.

    Args:
        federation: what is accounted for.
        delta: in (0, 1).
        epsilon: the target, >= 0, if no noise is given.
        noise: standard deviation of the noise, > 0, if it is given.
        progress: called with each sigma that the searches try.

    Raises:
        ValueError: an argument out of range, or no noise meets the target.
    """
    delta = one(probability_open, "delta", delta)
    if noise is None:
        epsilon = one(nonnegative, "epsilon", epsilon)
    else:
        noise = one(positive, "noise", noise)
    return _rows(federation, delta, epsilon, noise, progress)


def _rows(
    federation: Federation,
    delta: float,
    epsilon: float | None,
    noise: float | None,
    progress: Callable[[float], object] | None,
) -> Iterator[tuple[str, ...]]:
    """The lines of `rows`, whose arguments are in range."""
    search = {"epsilon": epsilon, "delta": delta, "rtol": _RTOL, "progress": progress}
    sigma = federation.noise(**search) if noise is None else noise
    run = federation.run(sigma)
    ends = [run.epsilon(delta, method=method) for method in ("lower", "upper")]
    risks = [[ask(method=m) for m in ("lower", "upper")] for ask in _asked(run)]
    stated = _up(ends[1] if noise is not None else epsilon)
    yield "this package", _up(sigma, 4), stated, *(_range(*x) for x in (ends, *risks)), ""
    for name, account in shortcuts(federation).items():
        if noise is not None:
            claim = account(sigma).epsilon(delta)
            verdict = _verdict(claim, *ends)
            yield name, _up(sigma, 4), _up(claim), _range(*ends), "", "", verdict
            continue
        asked = calibrate_sigma(account, bounds=federation.noise_range, guess=sigma, **search)
        if asked >= sigma * (1 - 2 * _RTOL):
            verdict = f"safe: {asked / sigma:.3g} times the noise"
            yield name, _up(asked, 4), _up(epsilon), "", "", "", verdict
            continue
        truth = federation.run(asked)
        least = truth.epsilon(delta, method="lower")
        risks = (f"at least {_down(ask(method='lower'))}" for ask in _asked(truth))
        verdict = _verdict(epsilon, least, np.inf)
        yield name, _up(asked, 4), _up(epsilon), f"at least {_down(least)}", *risks, verdict


def _asked(run: Composed) -> tuple[Callable, Callable]:
    """The two questions on the attacker's success."""
    return run.advantage, lambda method: run.tpr_at_fpr(_FPR, method=method)


def _verdict(stated: float, least: float, most: float) -> str:
    if least > stated == 0:
        return f"DANGEROUS: epsilon is at least {_down(least)}, and not 0"
    if least > stated:
        return f"DANGEROUS: epsilon is at least {_down(least / stated)} times what it states"
    return "safe" if stated >= most else "not proven"


def _up(value: float, digits: int = 3) -> str:
    """Significant digits, rounded up."""
    unit = 10.0 ** (np.floor(np.log10(value)) - digits + 1) if value > 0 else 1.0
    return f"{np.ceil(round(value / unit, 6)) * unit:.{digits}g}"


def _down(value: float) -> str:
    """Three significant digits, rounded down."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 2) if value > 0 else 1.0
    return f"{np.floor(round(value / unit, 6)) * unit:.3g}"


def _range(least: float, most: float) -> str:
    return f"{_down(least)} to {_up(most)}"


def _shown(sigma: float) -> None:
    """Progress on a terminal, in one line that the next row of the table overwrites."""
    print(f"\rtrying sigma = {sigma:<12.6g}\r", end="", file=sys.stderr, flush=True)


def _line(cells: tuple[str, ...]) -> str:
    widths = (max(len(name), width) for name, width in _COLUMNS.items())
    return "| " + " | ".join(x.ljust(w) for x, w in zip(cells, widths, strict=True)) + " |"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _heading(federation: Federation) -> str:
    round_of = type(federation.mechanism(1.0)).__name__
    return (
        f"{_counted(federation.clients, 'client')} with {_counted(federation.records_per_client, 'record')} each, "
        f"participation {federation.participation:g}, local rate {federation.local_rate:g}, "
        f"{_counted(federation.rounds, 'round')}, "
        f"clip {federation.clip:g}.\nNeighbours differ in one {federation.adjacency}; the observer sees the "
        f"{_SEEN[federation.observer]}. Mechanism of a round: {round_of}."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m repro.accounting",
        description="The noise that a federation needs, or what a given noise is worth, with the success of an "
        "attacker, beside what popular shortcuts say.",
    )
    parser.add_argument("--clients", type=int, default=500, help="number of clients (500)")
    parser.add_argument("--records", type=int, default=100, help="records of a client (100)")
    parser.add_argument("--participation", type=float, default=0.05, help="of a client (0.05)")
    parser.add_argument(
        "--local-rate", type=float, default=0.2, help="of a record, given that (0.2)"
    )
    parser.add_argument("--rounds", type=int, default=1000, help="(1000)")
    parser.add_argument("--adjacency", default="record", help="record (default) or client")
    parser.add_argument(
        "--observer", default="sums", help="sums (default), participants or uploads"
    )
    parser.add_argument("--sampling", default="poisson", help="poisson (default)")
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm (1)")
    parser.add_argument("--submodels", type=int, default=1, help="one drawn by each client (1)")
    parser.add_argument("--delta", type=float, default=1e-5, help="(1e-5)")
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument("--epsilon", type=float, default=2.0, help="target (2)")
    goal.add_argument("--noise", type=float, help="standard deviation, in place of a target")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 0 if it went well, 2 with one line on stderr if not."""
    given = vars(_parser().parse_args(arguments))
    goal = {name: given.pop(name) for name in ("delta", "epsilon", "noise")}
    given["records_per_client"] = given.pop("records")
    try:
        federation = Federation(**given)
        lines = rows(federation, **goal, progress=_shown if sys.stderr.isatty() else None)
        print(_heading(federation), f"Delta is {goal['delta']:g}.\n", sep="\n")
        print(_line(tuple(_COLUMNS)), "|" + "---|" * len(_COLUMNS), sep="\n", flush=True)
        for line in lines:
            print(_line(line), flush=True)
    except ValueError as problem:
        print(f"repro.accounting: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
