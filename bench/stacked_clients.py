"""Simulations of MS-PAFL and DDP-SA with very many clients: seconds a round, and peak memory.

    python bench/stacked_clients.py [--clients 100000] [--rounds 5]

One process for each algorithm, on one thread; what runs is what the figures run (`train`).
MS-PAFL: 325 records of Adult for each client (clients share records, for Adult has fewer), Q = 5
batches of b = 5, noise and clip, every client takes part in every round. DDP-SA: three records for
each client, distributed Laplace noise, shares over three servers in this process.

The aim is a peak below 2 GiB at 10^5 clients; docs/several-machines.md says what was measured.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import resource
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import numpy as np

from repro.datasets.adult import load_adult
from repro.datasets.plane import plane
from repro.federated.ddpsa import algorithm as ddpsa
from repro.federated.mspafl import algorithm as mspafl
from repro.models.logistic import signed

AIM = 2048
"""MiB."""


def run_mspafl(clients: int, rounds: int) -> np.ndarray:
    """The mean of the clients' models after the last round."""
    table = load_adult()
    vectors = signed(table.features, table.labels)
    holdings = np.random.default_rng(0).integers(0, len(vectors), (1, clients, 325))
    variant = mspafl.Variant(1.0, vectors.shape[1] // 2, 0.1, 1.0, 8.687)
    local = mspafl.LocalTraining(5, 5)
    done = mspafl.train(vectors, holdings, [variant], local, rounds, [0], lambda _: None, rounds)
    return done.mean(axis=(0, 1, 2))


def run_ddpsa(clients: int, rounds: int) -> np.ndarray:
    """The model after the last round."""
    given = {"clients": clients, "clip": 1.0, "epsilon": 1.0, "distributed": True}
    data = plane([0], 5 * clients)[0]
    path = ddpsa.train(data, [ddpsa.mechanism("DDP-SA", **given)], rounds, [0], np.zeros((1, 3)))
    return path[-1, 0, 0]


ALGORITHMS: dict[str, Callable[[int, int], np.ndarray]] = {
    "MS-PAFL": run_mspafl,
    "DDP-SA": run_ddpsa,
}


def _child(tell: Connection, name: str, clients: int, rounds: int) -> None:
    begin, busy = time.perf_counter(), time.process_time()
    model = ALGORITHMS[name](clients, rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tell.send((time.perf_counter() - begin, time.process_time() - busy, peak, model))


def measure(name: str, clients: int, rounds: int) -> tuple[float, float, float, np.ndarray]:
    """Wall-clock seconds, processor seconds, peak MiB and the model, in a fresh process."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_child, args=(theirs, name, clients, rounds)
    )
    process.start()
    theirs.close()
    found = ours.recv()
    process.join()
    return found


def main() -> None:
    """One line for each algorithm."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--clients", type=int, default=100_000)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {given.clients:,} clients")
    for name in ALGORITHMS:
        one = measure(name, given.clients, 1)
        many = measure(name, given.clients, 1 + given.rounds)
        wall, busy = ((many[k] - one[k]) / given.rounds for k in range(2))
        verdict = "reached" if many[2] < AIM else "MISSED"
        print(
            f"  {name:10}{wall:8.2f} s a round ({busy:.2f} s of the processor), the first with its set-up "
            f"{one[0]:.1f} s, at most {many[2]:.0f} MiB (aim, {AIM} MiB: {verdict})"
        )
        if not np.isfinite(many[3]).all():
            raise SystemExit(f"{name}: the model is not finite: {many[3]}")


if __name__ == "__main__":
    main()
