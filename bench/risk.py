"""What attackers reach: our two ends beside riskcal and dp-accounting, and who is wrong.

    python bench/risk.py

riskcal turns loss distributions of dp-accounting into error rates that no attacker falls below. Each claim is
judged by the rates that our explicit attacker reaches ("lower"): a claimed rate above them is wrong. Where the two
directions differ, riskcal reports the convex curve below both, so that it may lie below ours in the middle. Seconds are
processor time. riskcal is no dependency of the workbook; what is missing is named in the first lines. Beside it:

    pip install --no-deps --target build/peers riskcal
    PYTHONPATH=build/peers python bench/risk.py
"""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable
from importlib import import_module, metadata, util

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as peer_losses

from repro.accounting import (
    GaussianMechanism,
    ModelSplitting,
    PoissonGaussian,
    RandomParticipation,
    calibrate_sigma,
    compose,
)

FPR = np.array([1e-3, 1e-2, 0.1, 0.5])
INTERVAL = 1e-4

#: Name -> our mechanism, rounds, and dp-accounting's losses of one round, None where it has none.
CASES = {
    "Gaussian, sigma 50": (
        GaussianMechanism(50.0),
        1000,
        lambda: peer_losses.from_gaussian_mechanism(50.0, value_discretization_interval=INTERVAL),
    ),
    "Poisson, sigma 1, rate 0.01": (
        PoissonGaussian(1.0, rate=0.01),
        1000,
        lambda: peer_losses.from_gaussian_mechanism(
            1.0, sampling_prob=0.01, value_discretization_interval=INTERVAL
        ),
    ),
    "Poisson, sigma 2, rate 0.2": (
        PoissonGaussian(2.0, rate=0.2),
        100,
        lambda: peer_losses.from_gaussian_mechanism(
            2.0, sampling_prob=0.2, value_discretization_interval=INTERVAL
        ),
    ),
    "random participation, sigma 2, p 0.02, q 0.05": (
        RandomParticipation(2.0, p=0.02, q=0.05, samples_per_client=400),
        1000,
        None,
    ),
    "model splitting, sigma 2, d 8, rate 0.1": (
        ModelSplitting(2.0, submodels=8, rate=0.1),
        100,
        None,
    ),
}


def seconds(method: Callable[[], object]) -> tuple[object, float]:
    """The answer and its processor time."""
    start = time.process_time()
    return method(), time.process_time() - start


def show(label: str, values: np.ndarray, spent: float, verdict: str = "") -> None:
    """One row: error rates at each false-positive rate."""
    numbers = " ".join(f"{value:10.6f}" for value in np.ravel(values))
    print(f"  {label:34s} {numbers} {spent:7.2f} s  {verdict}")


def verdict(claimed: np.ndarray, reached: np.ndarray, least: np.ndarray) -> str:
    """Whether an attacker falls below a claimed rate; else by how much at most it is below our own claim."""
    if np.any(claimed > reached):
        return f"an attacker reaches {np.max(claimed - reached):.1e} less"
    return f"at most {np.max(np.maximum(least - claimed, 0)):.1e} below ours"


def curves() -> None:
    """False-negative rates, advantages and Bayes risks."""
    riskcal = import_module("riskcal.analysis") if util.find_spec("riskcal") else None
    for name, (mechanism, rounds, peer) in CASES.items():
        print(f"\n{name}, {rounds} rounds: false-negative rates at {FPR.tolist()}")
        run = compose(mechanism, rounds)
        reached, spent = seconds(lambda run=run: run.tradeoff(FPR, method="lower"))
        show("ours, reached", reached, spent)
        least, spent = seconds(lambda run=run: run.tradeoff(FPR))
        show("ours, no attacker below", least, spent)
        advantage = [float(run.advantage(method=method)) for method in ("lower", "upper")]
        print(f"  our advantage {advantage[0]:.7f} to {advantage[1]:.7f}")
        sources = {"our losses": lambda run=run: run.pld()}
        if peer:
            sources["dp-accounting's losses"] = lambda peer=peer, n=rounds: peer().self_compose(n)
        for source, make in sources.items():
            found, spent = seconds(lambda make=make: float(make().get_delta_for_epsilon(0.0)))
            wrong = "wrong" if found < advantage[0] else f"{found - advantage[1]:+.1e} over ours"
            print(f"  dp-accounting's advantage, {source}: {found:.7f} {spent:.2f} s  {wrong}")
            if riskcal:
                found, spent = seconds(lambda make=make: riskcal.get_beta_from_pld(make(), FPR))
                show(f"riskcal, {source}", found, spent, verdict(found, reached, least))


def calibrations() -> None:
    """Noise of the subsampled Gaussian for targets of risk, which riskcal meets up to a tolerance of 0.001."""
    rate, rounds = 0.01, 1000

    def ours(**target: float) -> float:
        return calibrate_sigma(
            lambda sigma: compose(PoissonGaussian(sigma, rate=rate), rounds), rtol=1e-4, **target
        )

    print(f"\nnoise of the subsampled Gaussian, rate {rate}, {rounds} rounds")
    targets = {
        "advantage 0.1": {"advantage": 0.1},
        "TPR 0.05 at FPR 0.01": {"fpr": 0.01, "tpr": 0.05},
    }
    for name, target in targets.items():
        sigma, spent = seconds(lambda target=target: ours(**target))
        print(f"  {name:24s} ours     {sigma:.5f} {spent:7.2f} s")
        if not util.find_spec("riskcal"):
            continue
        peer = import_module("riskcal.calibration.dpsgd")
        if "advantage" in target:
            search, given = peer.find_noise_multiplier_for_advantage, {"advantage": 0.1}
        else:
            search, given = peer.find_noise_multiplier_for_err_rates, {"alpha": 0.01, "beta": 0.95}
        sigma, spent = seconds(
            lambda search=search, given=given: search(**given, sample_rate=rate, num_steps=rounds)
        )
        run = compose(PoissonGaussian(sigma, rate=rate), rounds)
        reached = (
            run.advantage(method="lower")
            if "advantage" in target
            else run.tpr_at_fpr(0.01, method="lower")
        )
        print(
            f"  {name:24s} riskcal  {sigma:.5f} {spent:7.2f} s  an attacker reaches {reached:.6f}"
        )


def main() -> None:
    """Print the tables."""
    warnings.filterwarnings("ignore")
    peers = {"dp-accounting": "dp_accounting", "riskcal": "riskcal"}
    found = [f"{name} {metadata.version(name)}" for name, it in peers.items() if util.find_spec(it)]
    print(f"CPU; Python {platform.python_version()}, {', '.join(found)}")
    if not util.find_spec("riskcal"):
        print("riskcal is left out: pip install --no-deps --target build/peers riskcal")
    curves()
    calibrations()


if __name__ == "__main__":
    main()
