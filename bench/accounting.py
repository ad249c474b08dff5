"""Epsilon and seconds of our accountants beside their peers, and who is wrong.

    python bench/accounting.py [--repeat 3]

Every method is given the same mechanism and the same delta; the best of the repetitions counts, in
processor time and without anything remembered from the one before. Our lower and upper value bracket the
truth, so each answer can be judged: "wrong" means a claimed epsilon below our lower value, else the
excess over it is shown. What a peer cannot represent is given to it in the form that its users would
choose, and the table says in which.

Opacus is not a dependency of the workbook: `pip install opacus` beside it to have it in the table.
"""

from __future__ import annotations

import argparse
import logging
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata, util

from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from repro.accounting import ModelSplitting, compose
from repro.accounting._blocks import block_law
from repro.accounting.partitioning import ORDERS, convert_epsilon

Epsilon = Callable[[], float]


def timed(method: Epsilon, repeat: int) -> tuple[float, float]:
    """Epsilon, and processor seconds of the fastest run."""
    best = float("inf")
    for _ in range(repeat):
        block_law.cache_clear()
        start = time.process_time()
        epsilon = method()
        best = min(best, time.process_time() - start)
    return epsilon, best


def table(methods: dict[str, Epsilon], repeat: int, lower: str, upper: str) -> None:
    """One row per method; ``lower`` and ``upper`` name the two that bracket the truth."""
    found = {name: timed(method, repeat) for name, method in methods.items()}
    low, high = found[lower][0], found[upper][0]
    for name, (epsilon, seconds) in found.items():
        if name in (lower, upper):
            verdict = f"bracket, {high / low - 1:.2%} wide"
        elif epsilon < low:
            verdict = f"wrong: {1 - epsilon / low:.1%} below the truth"
        else:
            verdict = f"{epsilon / high - 1:+.1%}"
        print(f"  {name:58s} {epsilon:9.4f} {seconds:8.3f} s   {verdict}")


# ---- model splitting -----------------------------------------------------------------------------


def poisson(accountant, sigma: float, rate: float, rounds: int, delta: float) -> float:
    """One of dp-accounting's accountants on the Poisson-subsampled Gaussian."""
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(sigma)), rounds)
    return accountant.get_epsilon(delta)


def opacus(kind: str, sigma: float, rate: float, rounds: int, delta: float) -> float:
    """One of Opacus' accountants on the same."""
    from opacus.accountants import create_accountant

    accountant = create_accountant(kind)
    accountant.history = [(sigma, rate, rounds)]
    return accountant.get_epsilon(delta)


def splitting_methods(
    sigma: float, d: int, rate: float, rounds: int, delta: float
) -> Iterator[tuple[str, Epsilon]]:
    def ours(method: str) -> Epsilon:
        return lambda: compose(ModelSplitting(sigma, submodels=d, rate=rate), rounds).epsilon(
            delta, method=method
        )

    def exact_moments() -> float:
        mechanism = ModelSplitting(sigma, submodels=d, rate=rate)
        return float(
            convert_epsilon(rounds * mechanism.rdp(ORDERS, direction="remove"), ORDERS, delta)
        )

    plain = (sigma, rate, rounds, delta)
    yield "ours, lower", ours("lower")
    yield "ours, upper", ours("upper")
    yield "the paper: Renyi, (3)", ours("paper")
    yield "Renyi, exact moments (2), forward", exact_moments
    yield "dp-accounting RDP, no splitting", lambda: poisson(RdpAccountant(), *plain)
    yield "dp-accounting PLD, no splitting", lambda: poisson(PLDAccountant(), *plain)
    if util.find_spec("opacus"):
        yield "Opacus PRV, no splitting", lambda: opacus("prv", *plain)
    # Two shortcuts: each submodel as a release of its own, and the mere product of the rates.
    own = (sigma, rate / d, rounds * d, delta)
    yield "dp-accounting PLD, d draws of rate / d a round", lambda: poisson(PLDAccountant(), *own)
    once = (sigma, rate / d, rounds, delta)
    yield "dp-accounting PLD, one draw of rate / d a round", lambda: poisson(PLDAccountant(), *once)


def splitting(repeat: int) -> None:
    """Figure 1 of the partitioning paper: T = 1200, rate 0.1, delta = 1e-5."""
    rate, rounds, delta = 0.1, 1200, 1e-5
    for sigma, d in ((1.0, 8), (2.0, 2), (2.0, 8), (5.0, 4)):
        print(
            f"\nmodel splitting, sigma = {sigma}, d = {d}, rate {rate}, T = {rounds}, delta {delta}"
        )
        methods = dict(splitting_methods(sigma, d, rate, rounds, delta))
        table(methods, repeat, "ours, lower", "ours, upper")


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeat", type=int, default=3)
    given = options.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    names = ("dp-accounting", "opacus")
    peers = [
        f"{name} {metadata.version(name)}"
        if util.find_spec(name.replace("-", "_"))
        else f"{name} is not installed: left out"
        for name in names
    ]
    print(f"CPU; Python {platform.python_version()}, {', '.join(peers)}")
    splitting(given.repeat)


if __name__ == "__main__":
    main()
