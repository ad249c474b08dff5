"""Secure sums with faults: what `faults.py` runs as its part "sums"."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np

from repro.secagg import Cluster, FixedPoint, RoundError, reconstruct, share

CLIENTS, SERVERS, SIZE = 4, 3, 50


def run(seed: int, seconds: float) -> list[str]:
    """Half of the seconds in this process, half over sockets; the faults found."""
    rng = random.Random(seed)
    return in_process(rng, seconds / 2) + over_sockets(rng, seconds / 2)


def in_process(rng: random.Random, seconds: float) -> list[str]:
    """One flipped bit in a quarter of the rounds: the right sum without it, another sum or an error with it."""
    found, number, faulty = [], 0, 0
    encoding, end = FixedPoint(decimals=6), time.monotonic() + seconds
    while time.monotonic() < end:
        number += 1
        numbers = np.random.default_rng(rng.getrandbits(32)).normal(size=(CLIENTS, SIZE))
        whole = encoding.encode(numbers, clients=CLIENTS)
        sums = share(whole, servers=SERVERS).expanded().sum(axis=1)
        expected = encoding.decode(whole.sum(axis=0))
        fault = rng.random() < 0.25
        if fault:
            faulty += 1
            place = rng.randrange(SERVERS), rng.randrange(SIZE)
            sums[place] ^= np.uint64(1 << rng.randrange(63))
        try:
            got = encoding.decode(reconstruct(sums))
        except ValueError:
            continue
        if fault == bool((got == expected).all()):
            found.append(f"sums: round {number}, fault {fault}: {got[:3]} for {expected[:3]}")
        if not fault and np.abs(got - numbers.sum(axis=0)).max() > CLIENTS * 1e-6:
            found.append(f"sums: round {number} is off by more than the rounding")
    print(f"sums: {number} rounds in this process, {faulty} with a fault", flush=True)
    return found


def over_sockets(rng: random.Random, seconds: float) -> list[str]:
    """Rounds of a cluster, of which a server is killed at a random moment: a right sum, or an error."""
    found, rounds, ended, end = [], 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with Cluster(clients=CLIENTS, servers=SERVERS) as cluster:
            for kill in (False, False, True):
                numbers = np.random.default_rng(rng.getrandbits(32)).normal(size=(CLIENTS, SIZE))
                if kill:
                    victim = rng.choice(_processes())
                    os.kill(victim, signal.SIGKILL)
                rounds += 1
                try:
                    total = cluster.round(numbers).total
                except RoundError:
                    ended += 1
                    if not kill:
                        found.append(f"sums: round {rounds} over sockets ended without a fault")
                    continue
                if np.abs(total - numbers.sum(axis=0)).max() > CLIENTS * 1e-6:
                    found.append(f"sums: round {rounds} over sockets gave a wrong sum")
    print(f"sums: {rounds} rounds over sockets, {ended} ended by a killed process", flush=True)
    return found


def _processes() -> list[int]:
    """The processes of the cluster: the children of this one that are servers."""
    import psutil

    return [child.pid for child in psutil.Process().children(recursive=True)]
