r"""Federated training with secure sums, every party in a process of its own.

    python examples/secure_sum_processes.py [--clients 4] [--servers 3] [--rounds 20]

starts everything on this machine: the parameter server, the other servers, the clients and the
operator. Each role can also be started by hand, on machines of their own:

    python -m repro.secagg authority keys --servers 3 --clients 4             (once; hand the files out)
    python -m repro.secagg parameters --folder keys --listen 0.0.0.0:7000 --servers 3 --clients 4
    python -m repro.secagg server 0 --folder keys --listen 0.0.0.0:7001 --parameters HOST:7000 --clients 4
    python examples/secure_sum_processes.py client 0 --folder keys --parameters HOST:7000 \
        --servers HOST:7001 HOST:7002 HOST:7003 --clients 4 --rounds 20       (and 1 to 3)
    python examples/secure_sum_processes.py operator --folder keys --parameters HOST:7000 \
        --clients 4 --rounds 20

The clients fit a line together. A client sends the sum of its records' clipped gradients as shares, so
that no server sees it, and the operator sees the sum over all clients alone. Every client adds its part
of the noise before it shares: a binomial number minus its mean, in units of the encoding. The sum of the
parts is close to Gaussian noise of standard deviation SIGMA; the bounds in `repro.accounting` are for
exactly Gaussian noise, so that they describe this example up to that difference. A client that shares
what it knows takes its part of the noise out of the sum; add more where clients may work together.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.secagg import Client, FixedPoint, Operator, RoundError, issue, share

RECORDS, CLIP, SIGMA, RATE = 200, 1.0, 2.0, 0.8
TRUTH = np.array([0.7, -0.3])  # slope and value at 0
ENCODING = FixedPoint(decimals=6)


def clipped_gradients(model: NDArray, x: NDArray, y: NDArray) -> NDArray:
    """The sum of the records' gradients of (prediction - y)^2 / 2, each of norm at most CLIP."""
    rows = np.stack([x, np.ones_like(x)], axis=1)
    gradients = rows * (rows @ model - y)[:, None]
    norms = np.linalg.norm(gradients, axis=1)
    return (gradients / np.maximum(1.0, norms / CLIP)[:, None]).sum(axis=0)


def noise_part(clients: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A client's part of the noise, in units of the encoding: clients together have SIGMA."""
    trials = 2 * round(2 * (SIGMA * ENCODING.scale) ** 2 / clients)
    return rng.binomial(trials, 0.5, TRUTH.size) - trials // 2


def client(given: argparse.Namespace) -> None:
    """One client: holds its records, and answers every round with the shares of its sum."""
    rng = np.random.default_rng([given.number, 0])  # a data set to repeat; the noise is fresh
    x = rng.uniform(-1.0, 1.0, RECORDS)
    y = TRUTH @ [x, np.ones_like(x)] + 0.1 * rng.standard_normal(RECORDS)
    secret = np.random.default_rng()
    with Client(
        given.number, given.folder, servers=given.servers, parameters=given.parameters
    ) as party:
        _connected(party)
        for _ in range(given.rounds):
            number, model = party.model(wait=60.0)
            values = clipped_gradients(model, x, y)[None]
            noise = noise_part(given.clients, secret)[None]
            encoded = ENCODING.encode(values, clients=given.clients, noise=noise)
            (parts,) = share(encoded, servers=len(given.servers), ring=ENCODING.ring).each()
            party.submit(number, parts)


def operator(given: argparse.Namespace) -> None:
    """The owner of the model: starts the rounds, and steps along the sums."""
    model = np.zeros(2)
    with Operator(given.folder, parameters=given.parameters) as party:
        _connected(party)
        for _ in range(given.rounds):
            party.start(model.size, ENCODING.ring, model)
            number, total = party.result()
            model = model - RATE * ENCODING.decode(total) / (given.clients * RECORDS)
        print(f"round {number}: slope {model[0]:.3f}, value at 0 {model[1]:.3f}")


def everything(given: argparse.Namespace) -> None:
    """All parties as processes on this machine; they end with this one."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="secure-sum-"))
        issue(folder, servers=given.servers, clients=given.clients)
        same = ["--folder", folder, "--clients", given.clients]
        listen = ["--listen", "127.0.0.1:0", "--until-stdin-ends"]
        serve = ["-m", "repro.secagg"]
        centre = _address(
            _process(stack, [*serve, "parameters", "--servers", given.servers, *same, *listen])
        )
        servers = [
            _process(stack, [*serve, "server", i, "--parameters", centre, *same, *listen])
            for i in range(given.servers)
        ]
        places = [_address(server) for server in servers]
        mine = [Path(__file__).resolve()]
        told = ["--parameters", centre, "--rounds", given.rounds, *same]
        clients = [
            _process(stack, [*mine, "client", i, "--servers", *places, *told])
            for i in range(given.clients)
        ]
        owner = _process(stack, [*mine, "operator", *told])
        print(owner.stdout.read(), end="")
        failed = [p.args for p in (owner, *clients) if p.wait(timeout=60)]
        if failed:
            raise RoundError(f"a process ended with an error: {failed[0]}")


def _process(stack: ExitStack, arguments: list[object]) -> subprocess.Popen[str]:
    """A Python process that is stopped when the stack is closed."""
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdin=subprocess.PIPE,  # servers end with it
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _address(server: subprocess.Popen[str]) -> str:
    """HOST:PORT of a server that has been started: it says where it listens."""
    return server.stdout.readline().split()[-1]


def _connected(party: Client | Operator, patience: float = 30.0) -> None:
    """Connect, also where the servers come up a little later."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return party.connect()
        except RoundError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> int:
    """Run one role, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.set_defaults(run=everything)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    roles = parser.add_subparsers(metavar="ROLE")
    for role in (client, operator):
        one = roles.add_parser(role.__name__, help=role.__doc__)
        one.set_defaults(run=role)
        one.add_argument("--folder", required=True)
        one.add_argument("--parameters", type=_place, required=True, metavar="HOST:PORT")
        one.add_argument("--clients", type=int, required=True)
        one.add_argument("--rounds", type=int, required=True)
        if role is client:
            one.add_argument("number", type=int)
            one.add_argument(
                "--servers", type=_place, nargs="+", required=True, metavar="HOST:PORT"
            )
    given = parser.parse_args()
    try:
        given.run(given)
    except (ValueError, RoundError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
