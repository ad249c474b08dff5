"""One secure sum over very many simulated clients: m = 3 servers as processes, real TLS links.

    python bench/secure_sums.py [--clients 10000] [--size 100000] [--links 1] [--bits 14]
                                [--modulus 32|64] [--stages]

The simulated clients are one process with one connection to each server (`HostedClients`). Every
client has its own vector, its own encoding and its own two keys; two servers get keys and expand
them, the third gets the last share in full. The sum is compared, number by number, with one that
is computed without ring, keys and servers. Handshakes are measured apart, since 10^5 real clients
would make 3 * 10^5 of them.

Printed: wall-clock and processor seconds of each process, peak memory of each server, bytes, cost
per client and coordinate, and the load of the machine before the run: compare runs only at equal
load. `--stages` first measures what bounds each stage on one core.

The ring: a sum of n values of at most u units needs a modulus of at least 2 n u + 1. For n = 10^5
and values in [-1, 1] with 14 binary places (u = 2^14) that is 3.3 * 10^9 < 2^32. What 2^32 leaves,
u up to 21,474, is room for each client's noise (`noise_tail`).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil

SOURCE = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SOURCE))  # where nothing is installed

from repro.secagg import FixedPoint, HostedClients, Operator, Ring, issue  # noqa: E402
from repro.secagg.certificates import PARAMETERS, server_names  # noqa: E402
from repro.secagg.ring import Elements  # noqa: E402
from repro.secagg.shares import add_expanded  # noqa: E402
from repro.secagg.stream import KEY_BYTES  # noqa: E402

SERVERS, LIMIT = 3, 3600.0
ROWS, FACTORS = 64, (1.0, -0.5, 0.25, -0.125, 0.75)  # different vectors: all pairs of the two
MIB = 2**20


class Vectors:
    """Client i holds row i mod 64 times factor (i div 64) mod 5; values in [-1, 1]."""

    def __init__(self, clients: int, size: int, encoding: FixedPoint) -> None:
        self.rows = np.random.default_rng(0).uniform(-1.0, 1.0, (ROWS, size))
        self.clients, self.encoding = clients, encoding

    def batches(self, whose: range, together: int) -> Iterator[Elements]:
        """Encoded vectors, `together` clients at a time."""
        size = self.rows.shape[1]
        values = np.empty((together, size))
        encoded = np.empty((together, size), self.encoding.ring.dtype)
        for begin in range(whose.start, whose.stop, together):
            count = min(together, whose.stop - begin)
            for k, client in enumerate(range(begin, begin + count)):
                factor = FACTORS[client // ROWS % len(FACTORS)]
                np.multiply(self.rows[client % ROWS], factor, out=values[k])
            out = encoded[:count]
            yield self.encoding.encode(values[:count], clients=self.clients, out=out)

    def total(self) -> np.ndarray:
        """The sum in units, as whole numbers: each different vector times its number of clients."""
        total = np.zeros(self.rows.shape[1], np.int64)
        period = ROWS * len(FACTORS)
        for place in range(min(period, self.clients)):
            count = (self.clients - place - 1) // period + 1
            vector = self.rows[place % ROWS] * FACTORS[place // ROWS]
            total += count * np.rint(vector * self.encoding.scale).astype(np.int64)
        return total


class Processes:
    """The servers as a user would start them."""

    def __init__(self, stack: ExitStack, folder: str, given: argparse.Namespace, ring: Ring):
        self.running: dict[str, psutil.Process] = {}
        same = ["--folder", folder, "--clients", given.clients, "--links", given.links]
        same += ["--modulus", ring.modulus, "--time-limit", LIMIT, "--listen", "127.0.0.1:0"]
        self.addresses = {}
        for name in (PARAMETERS, *server_names(SERVERS)):
            role = ["parameters", "--servers", SERVERS]
            if name != PARAMETERS:
                host, port = self.addresses[PARAMETERS]
                role = ["server", name.rpartition("-")[2], "--parameters", f"{host}:{port}"]
            process = subprocess.Popen(
                [sys.executable, "-m", "repro.secagg", *map(str, [*role, *same])]
                + ["--until-stdin-ends"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            place = process.stdout.readline().decode().rpartition(" ")[2]
            host, _, port = place.strip().rpartition(":")
            self.addresses[name] = host, int(port)
            self.running[name] = psutil.Process(process.pid)

    def seconds(self) -> dict[str, float]:
        """Processor seconds so far; "clients" is this process."""
        everybody = {"clients": psutil.Process(), **self.running}
        return {name: sum(one.cpu_times()[:2]) for name, one in everybody.items()}

    def peaks(self) -> dict[str, float]:
        """Peak resident memory in MiB."""
        found = {}
        for name, pid in {
            "clients": os.getpid(),
            **{n: p.pid for n, p in self.running.items()},
        }.items():
            status = Path(f"/proc/{pid}/status").read_text()
            found[name] = int(status.partition("VmHWM:")[2].split()[0]) / 1024
        return found


class Progress:
    """A line every ten seconds, or one that is written over on a terminal."""

    def __init__(self, clients: int) -> None:
        self.clients, self.begin, self.told = clients, time.monotonic(), 0.0

    def __call__(self, sent: int) -> None:
        """Tell how many clients' shares have been sent, if it is time."""
        now = time.monotonic()
        terminal = sys.stderr.isatty()
        if sent < self.clients and now - self.told < (0.5 if terminal else 10.0):
            return
        self.told = now
        spent = now - self.begin
        left = spent * (self.clients - sent) / sent
        line = f"{sent:,} of {self.clients:,} clients, {spent:.0f} s, about {left:.0f} s left"
        print(f"\r{line}  " if terminal else line, end="" if terminal else "\n", file=sys.stderr)


def handshakes(parties: list[HostedClients], repeats: int) -> float:
    """Seconds of one connection, both sides on this machine."""
    begin = time.perf_counter()
    for _ in range(repeats):
        for party in parties:
            party.close()
            party.connect()
    return (time.perf_counter() - begin) / repeats / len(parties) / (SERVERS + 1)


def sum_of(given: argparse.Namespace) -> bool:
    """The whole measurement; whether the sum is exact."""
    ring = Ring(2**given.modulus)
    encoding = FixedPoint(bits=given.bits, ring=ring)
    vectors = Vectors(given.clients, given.size, encoding)
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{encoding} in {ring}: each client may use {encoding.units(given.clients):,} units")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="secure-sums-"))
        issue(folder, servers=SERVERS, clients=given.clients, links=given.links)
        servers = Processes(stack, folder, given, ring)
        places = {
            "servers": [servers.addresses[name] for name in server_names(SERVERS)],
            "parameters": servers.addresses[PARAMETERS],
        }
        same = {"clients": given.clients, "links": given.links, "time_limit": LIMIT, **places}
        parties = [HostedClients(k, folder, **same) for k in range(given.links)]
        operator = Operator(folder, parameters=places["parameters"], time_limit=LIMIT)
        for one in (operator, *parties):
            stack.callback(one.close)
            one.connect()
        each = handshakes(parties, 20)
        before = servers.seconds()
        begin = time.perf_counter()
        operator.start(given.size, ring, np.zeros(0))
        done = 0
        progress = Progress(given.clients)
        for party in parties:
            number, _ = party.model()
            together = party.together(given.size, ring)
            batches = vectors.batches(party.clients, together)
            party.submit(number, batches, ring, lambda sent, done=done: progress(done + sent))
            done += len(party.clients)
        total = operator.result()[1]
        wall = time.perf_counter() - begin
        spent = {name: now - before[name] for name, now in servers.seconds().items()}
        peaks = servers.peaks()
        sent = {
            name: sum(party.channels[name].sent.wire for party in parties)
            for name in server_names(SERVERS)
        }
    exact = bool((ring.centre(total) == vectors.total()).all())
    numbers = given.clients * given.size
    print(f"n = {given.clients:,}, d = {given.size:,}, m = {SERVERS}, {given.links} link(s)")
    print(f"the sum is {'exact' if exact else 'WRONG'} in all {given.size:,} coordinates")
    print(f"wall clock {wall:.1f} s; processor {sum(spent.values()):.1f} s, of these")
    for name, seconds in spent.items():
        bytes_in = f"{sent[name] / 1e9:10.3f} GB received" if name in sent else ""
        print(f"  {name:12}{seconds:9.1f} s{peaks[name]:10.0f} MiB at most{bytes_in}")
    print(f"a client and coordinate: {1e9 * wall / numbers:.2f} ns of wall clock, "
          f"{1e9 * sum(spent.values()) / numbers:.2f} ns of processors; "
          f"{sum(sent.values()) / numbers:.2f} bytes")  # fmt: skip
    print(f"a handshake takes {1000 * each:.1f} ms: {given.clients:,} clients of their own, one after "
          f"the other, {given.clients * SERVERS * each:.0f} s")  # fmt: skip
    return exact


def stages(size: int, ring: Ring, bits: int) -> None:
    """Nanoseconds of one core for a coordinate of a client, stage by stage; the best of many."""
    encoding = FixedPoint(bits=bits, ring=ring)
    values = np.random.default_rng(0).uniform(-1.0, 1.0, size)
    encoded = encoding.encode(values, clients=1000)
    total, key, payload = np.zeros(size, ring.dtype), bytes(KEY_BYTES), encoded.tobytes()
    steps: dict[str, Callable[[], object]] = {
        "encode": lambda: encoding.encode(values, clients=1000, out=encoded),
        "expand a key and add it (AES-128-CTR)": lambda: add_expanded(total, key, ring),
        "add a vector": lambda: ring.add(total, encoded, out=total),
        "SHA-256 of a vector": lambda: hashlib.sha256(payload).digest(),
        "copy a vector": lambda: bytearray(payload),
    }
    for name, step in steps.items():
        best = float("inf")
        for _ in range(30):
            begin = time.thread_time()
            for _ in range(10):
                step()
            best = min(best, (time.thread_time() - begin) / 10)
        print(f"  {name:40}{1e9 * best / size:8.3f} ns, {payload.__len__() / best / 1e9:6.1f} GB/s")


def main() -> int:
    """Measure; 0 if the sum was exact."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--clients", type=int, default=10_000)
    options.add_argument("--size", type=int, default=100_000)
    options.add_argument("--links", type=int, default=1, help="processes' worth of connections")
    options.add_argument("--bits", type=int, default=14, help="binary places of a value")
    options.add_argument(
        "--modulus", type=int, default=32, choices=[32, 64], help="2 to this power"
    )
    options.add_argument("--stages", action="store_true", help="measure each stage alone, first")
    given = options.parse_args()
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    if given.stages:
        stages(given.size, Ring(2**given.modulus), given.bits)
    return 0 if sum_of(given) else 1


if __name__ == "__main__":
    sys.exit(main())
