r"""Secure aggregation by hand, on one machine or several.

    python -m repro.secagg authority keys --servers 3 --clients 6
    python -m repro.secagg parameters --folder keys --listen 0.0.0.0:7000 --servers 3 --clients 6
    python -m repro.secagg server 0 --folder keys --listen 0.0.0.0:7001 \
        --parameters HOST:7000 --clients 6             (and servers 1 and 2 likewise)
    python -m repro.secagg doctor server-0 --folder keys --parameters HOST:7000 --clients 6
    python -m repro.secagg check --folder keys --parameters HOST:7000 \
        --servers HOST:7001 HOST:7002 HOST:7003 --clients 6

A machine needs authority.pem and the files NAME.pem of the parties that run on it. Rounds are then
driven from Python: `repro.secagg.Session` for all clients in one place, `Client` and `Operator` for
clients in places of their own.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from functools import partial

import numpy as np

from repro.secagg.certificates import client_links, issue
from repro.secagg.client import RoundError
from repro.secagg.doctor import examine
from repro.secagg.encoding import FixedPoint
from repro.secagg.parameter_server import ParameterServer
from repro.secagg.ring import Ring
from repro.secagg.server import IntermediateServer
from repro.secagg.session import Session

_PATIENCE = 5.0
"""Seconds for a server to answer the doctor."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 if it went well, 1 with one line on stderr if not."""
    given = _parser().parse_args(arguments)
    try:
        return given.run(given) or 0
    except (ValueError, RoundError, OSError) as problem:
        print(f"{given.command}: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def authority(given: argparse.Namespace) -> None:
    """Make the certificates."""
    counts = {"servers": given.servers, "clients": given.clients, "links": given.links}
    issue(given.folder, **counts, days=given.days)
    servers = f"server-0.pem to server-{given.servers - 1}.pem, " if given.servers else ""
    print(
        f"{given.folder}: authority.pem, parameters.pem, operator.pem, {servers}"
        f"{_ends(client_links(given.clients, given.links))}, good for {given.days:g} days"
    )


def parameters(given: argparse.Namespace) -> None:
    """Serve as the parameter server."""
    _serve(ParameterServer, given, servers=given.servers)


def server(given: argparse.Namespace) -> None:
    """Serve as an intermediate server."""
    _serve(partial(IntermediateServer, given.number), given, parameters=given.parameters)


def check(given: argparse.Namespace) -> None:
    """One round over random vectors, through running servers, acting for all clients."""
    values = np.random.default_rng().uniform(-1.0, 1.0, (given.clients, given.size))
    encoding = FixedPoint(ring=given.modulus)
    begin = time.perf_counter()
    with Session(
        given.folder,
        servers=given.servers,
        parameters=given.parameters,
        clients=given.clients,
        encoding=encoding,
        time_limit=given.time_limit,
    ) as session:
        done = session.round(values)
    error = float(np.abs(done.total - values.sum(axis=0)).max())
    if error > given.clients / encoding.scale:
        raise RoundError(f"the sum is wrong by {error:g}")
    print(
        f"round {done.number}: the sum of {given.clients} vectors of {given.size} numbers is right "
        f"({time.perf_counter() - begin:.2f} s)"
    )


def doctor(given: argparse.Namespace) -> int:
    """Examine this machine for one party, a line for each finding; 1 if something failed."""
    settings = {"clients": given.clients, "links": given.links, "modulus": given.modulus.modulus}
    findings = []
    for finding in examine(
        given.name,
        given.folder,
        settings={**settings, "time_limit": given.time_limit},
        listen=given.listen,
        parameters=given.parameters,
        servers=given.servers or (),
        time_limit=min(given.time_limit, _PATIENCE),
    ):
        print(finding, flush=True)
        findings.append(finding)
    return 0 if all(finding.good for finding in findings) else 1


def _ends(names: Collection[str]) -> str:
    first, *_, last = [*names, *names]
    return f"{first}.pem to {last}.pem"


def _serve(
    role: Callable[..., ParameterServer | IntermediateServer],
    given: argparse.Namespace,
    **others: object,
) -> None:
    listener = _listen(given.listen)
    same = {"clients": given.clients, "links": given.links, "ring": given.modulus}
    same["time_limit"] = given.time_limit
    node = role(given.folder, listener, **same, **others)
    host, port = listener.getsockname()[:2]
    print(f"{node.name} listens on {f'[{host}]' if ':' in host else host}:{port}", flush=True)
    if given.until_stdin_ends:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    node.run()


def _end_with_stdin() -> None:
    """End this process when whoever holds the other end of its standard input is gone."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)


def _listen(text: str) -> socket.socket:
    if text.startswith("fd:"):
        return socket.socket(fileno=int(text[3:]))
    host, port = _address(text)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)


def _address(text: str) -> tuple[str, int]:
    """HOST:PORT, with an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _listening(text: str) -> str:
    if not (text.startswith("fd:") and text[3:].isdecimal()):
        _address(text)
    return text


def _ring(text: str) -> Ring:
    """A modulus: digits, 2^k or 2^k-1."""
    power, minus, one = text.partition("-")
    base, hat, exponent = power.partition("^")
    try:
        value = int(base) ** int(exponent) if hat else int(base)
        return Ring(value - int(one) if minus else value)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"{text!r} is no modulus: {problem}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m repro.secagg",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(run, text: str) -> argparse.ArgumentParser:
        one = commands.add_parser(run.__name__, help=text, description=text)
        one.set_defaults(run=run)
        one.add_argument("--clients", type=int, required=True, metavar="N", help="n, all of them")
        return one

    def linked(one: argparse.ArgumentParser) -> None:
        one.add_argument(
            "--links",
            type=int,
            metavar="K",
            help="K parties act for all clients (see `HostedClients`); the same everywhere "
            "(default: every client has connections of its own)",
        )

    def node(
        one: argparse.ArgumentParser, listens: bool, holds: str = "the party's own certificate"
    ) -> None:
        one.add_argument("--folder", required=True, help=f"with authority.pem and {holds}")
        one.add_argument(
            "--modulus",
            type=_ring,
            default=Ring(),
            help="of the ring, such as 2^61-1; the same everywhere (default: 2^64)",
        )
        one.add_argument(
            "--time-limit",
            type=float,
            default=30.0,
            metavar="SECONDS",
            help="for each step of a round; the same everywhere (default: 30)",
        )
        if listens:
            linked(one)
            one.add_argument(
                "--listen",
                type=_listening,
                required=True,
                metavar="HOST:PORT",
                help="where to accept connections; port 0: any free one; fd:N: a listening socket "
                "that was inherited",
            )
            one.add_argument(
                "--until-stdin-ends",
                action="store_true",
                help="stop when standard input ends (so that no server outlives who started it)",
            )

    one = command(authority, "make an authority and the certificates of all parties")
    one.add_argument("folder", help="to write to; the authority's key is not kept")
    one.add_argument("--servers", type=int, required=True, metavar="M", help="m >= 2, or 0")
    linked(one)
    one.add_argument("--days", type=float, default=7.0, help="how long they are good (default: 7)")

    one = command(parameters, "start the parameter server")
    one.add_argument(
        "--servers",
        type=int,
        required=True,
        metavar="M",
        help="m >= 2; 0: no secret sharing, this server sees every client's vector",
    )
    node(one, listens=True)

    one = command(server, "start an intermediate server")
    one.add_argument("number", type=int, help="which, counted from 0")
    where = {"type": _address, "required": True, "metavar": "HOST:PORT"}
    one.add_argument("--parameters", help="the parameter server", **where)
    node(one, listens=True)

    one = command(doctor, "examine certificates, clock, port, versions and servers for one party")
    one.add_argument("name", help="the party, such as server-0 or client-3")
    one.add_argument("--listen", type=_address, metavar="HOST:PORT", help="where it will listen")
    asked = {"type": _address, "metavar": "HOST:PORT"}
    one.add_argument("--parameters", help="ask the parameter server", **asked)
    one.add_argument("--servers", nargs="*", help="ask the intermediate servers, in order", **asked)
    linked(one)
    node(one, listens=False)

    one = command(check, "run one round over random vectors through servers that were started")
    one.add_argument("--parameters", help="the parameter server", **where)
    one.add_argument("--servers", nargs="*", help="the intermediate servers, in order", **where)
    one.add_argument("--size", type=int, default=1000, help="numbers in a vector (default: 1000)")
    node(one, listens=False, holds="the certificates of the operator and of all clients")
    return parser


if __name__ == "__main__":
    sys.exit(main())
