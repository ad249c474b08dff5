"""Elements per second of encoding and sharing one client's vector: ours beside its peers.

    python bench/secagg.py [--sizes 100000 1000000 10000000] [--seconds 2]

Measured in one process on one thread, method after method in turn so that a busy machine troubles
all alike; the best of the repetitions counts, in processor time. All arrays exist beforehand. An
element is a number of the client's vector, whatever m is; m = 3.

There are two limits. One is a copy of the vector: sharing with keys reads and writes as much. The
other is a copy into m vectors, the arrays that the paper's Algorithm 1 makes and that the keys
stand for.

Flower does the same work for m = 3 as quantising and adding two masks modulo 2^32, with its own
helpers. It is not a dependency of the workbook (it pins other versions of common packages): make an
environment of its own with `pip install flwr numpy cryptography` and run this file there.

Before anything is timed, the sum of the shares is compared with the values. The last table is the
noise: a draw that is safe in floating point beside one that is not.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import time
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # where nothing is installed

from repro.secagg import Z64, ZP61, FixedPoint, Ring, Shares, discrete_laplace, reconstruct, share

SERVERS = 3
AIM_COPY, AIM_FLOWER = 0.10, 4.0

Step = Callable[[], object]


def copies(values: np.ndarray) -> dict[str, Step]:
    """The limits."""
    target, full = np.empty_like(values), np.empty((SERVERS, *values.shape))
    return {
        "copy of the vector": lambda: np.copyto(target, values),
        "copy into m vectors": lambda: np.copyto(full, values),
    }


def ours(values: np.ndarray, ring: Ring, name: str) -> dict[str, Step]:
    """Encoding, sharing, and both."""
    encoding = FixedPoint(ring=ring)
    encoded = encoding.encode(values, clients=100)

    def encode() -> np.ndarray:
        return encoding.encode(values, clients=100, out=encoded)

    def both() -> Shares:
        return share(encode(), servers=SERVERS, ring=ring, overwrite=True)

    total = encoding.decode(reconstruct(both().expanded(), ring))
    if np.abs(total - values).max() > 1e-10:
        raise SystemExit(f"{name}: the shares do not add up to the values")
    return {
        f"{name}: encode": encode,
        f"{name}: share": lambda: share(encoded, servers=SERVERS, ring=ring, overwrite=True),
        f"{name}: encode and share": both,
    }


def flower(values: np.ndarray) -> dict[str, Step]:
    """Flower's helpers as its client calls them, with a mask for each of our two keys.

    SecAgg+ adds one mask for each neighbour and one of the client's own; its server generates as
    many again as it has to take out, at least one for each client.
    """
    home = "flwr.common.secure_aggregation"
    quantize = importlib.import_module(f"{home}.quantization").quantize
    generate = importlib.import_module(f"{home}.secaggplus_utils").pseudo_rand_gen
    arithmetic = importlib.import_module(f"{home}.ndarrays_arithmetic")

    def masked() -> list[np.ndarray]:
        mask = generate(b"a" * 32, 2**32, [values.shape])
        return arithmetic.parameters_addition(quantized, mask)

    def step() -> object:
        numbers = quantize([values], 8.0, 2**22)
        for seed in (b"a" * 32, b"b" * 31 + b"c"):
            mask = generate(seed, 2**32, [values.shape])
            numbers = arithmetic.parameters_addition(numbers, mask)
        return arithmetic.parameters_mod(numbers, 2**32)

    quantized = quantize([values], 8.0, 2**22)
    return {"Flower: quantise and mask": step, "Flower: one mask more": masked}


def measure(steps: dict[str, Step], size: int, seconds: float) -> dict[str, float]:
    """Elements per second of each step."""
    best = dict.fromkeys(steps, float("inf"))
    repeats = {name: 1 for name in steps}
    end, rounds = time.perf_counter() + seconds * len(steps), 0
    while rounds < 3 or time.perf_counter() < end:
        rounds += 1
        for name, step in steps.items():
            begin = time.thread_time()
            for _ in range(repeats[name]):
                step()
            spent = time.thread_time() - begin
            best[name] = min(best[name], spent / repeats[name])
            repeats[name] = max(1, int(0.01 / max(best[name], 1e-9)))
    return {name: size / spent for name, spent in best.items()}


def table(size: int, seconds: float, peer: bool) -> None:
    """One vector of `size` elements."""
    values = np.random.default_rng(0).normal(size=(1, size))
    steps = copies(values) | ours(values, Z64, "ours, 2^64") | ours(values, ZP61, "ours, 2^61-1")
    steps |= flower(values) if peer else {}
    rates = measure(steps, size, seconds)
    vector, arrays = rates["copy of the vector"], rates["copy into m vectors"]
    other = rates.get("Flower: quantise and mask")
    print(f"\nd = {size:,}, m = {SERVERS}")
    head = f"  {'':34}{'elements/s':>15}{'of copy, vector':>17}{'of copy, m':>12}"
    print(head + (f"{'of Flower':>12}" if other else ""))
    for name, rate in rates.items():
        line = f"  {name:34}{rate:15,.0f}{rate / vector:17.3f}{rate / arrays:12.3f}"
        print(line + (f"{rate / other:11.1f}x" if other else ""))
    mine = rates["ours, 2^64: encode and share"]
    aims = {
        f"{AIM_COPY:.0%} of a copy of the vector": mine / vector >= AIM_COPY,
        f"{AIM_COPY:.0%} of a copy into m vectors": mine / arrays >= AIM_COPY,
    }
    if other:
        aims[f"{AIM_FLOWER:g} times Flower"] = mine / other >= AIM_FLOWER
    for aim, reached in aims.items():
        print(f"  aim, {aim}: {'reached' if reached else 'MISSED'}")


def noise(size: int, seconds: float) -> None:
    """What exact noise costs."""
    generator = np.random.default_rng(0)
    steps: dict[str, Step] = {
        "numpy, Laplace (not safe)": lambda: generator.laplace(scale=1e8, size=size),
        "discrete Laplace, scale 10^8 units": lambda: discrete_laplace(10**8, size),
        "discrete Laplace, scale 2.5 units": lambda: discrete_laplace(2.5, size),
    }
    rates = measure(steps, size, seconds)
    plain = rates["numpy, Laplace (not safe)"]
    print(f"\nnoise, {size:,} draws\n  {'':34}{'draws/s':>15}{'costs':>12}")
    for name, rate in rates.items():
        print(f"  {name:34}{rate:15,.0f}{plain / rate:11.1f}x")


def main() -> None:
    """Print one table per size, and the noise."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--sizes", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    options.add_argument("--seconds", type=float, default=2.0, help="per method and size")
    given = options.parse_args()
    peer = util.find_spec("flwr") is not None
    versions = [f"Python {platform.python_version()}"]
    versions += [f"{one} {metadata.version(one)}" for one in ("numpy", "cryptography")]
    versions += [f"flwr {metadata.version('flwr')}" if peer else "flwr is not installed: left out"]
    print(", ".join(versions))
    for size in given.sizes:
        table(size, given.seconds, peer)
    noise(10**6, given.seconds)


if __name__ == "__main__":
    main()
