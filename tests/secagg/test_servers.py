"""The parameter server against servers that misbehave, and the commands that start them by hand."""

import os
import queue
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

from repro.secagg import (
    Z64,
    ZP61,
    Client,
    FixedPoint,
    Operator,
    RoundError,
    Session,
    issue,
    share,
)
from repro.secagg.__main__ import main
from repro.secagg.certificates import PARAMETERS, client_name, context, server_name
from repro.secagg.channel import ChannelError, connect
from repro.secagg.frames import Kind, Order
from repro.secagg.parameter_server import ParameterServer
from repro.secagg.server import IntermediateServer

PATIENCE = 20.0
LOOPBACK = "127.0.0.1:0"


class Commands:
    """`python -m repro.secagg …` processes; `start` waits for the address it listens on."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    def start(self, *arguments, listen=LOOPBACK):
        listen = ["--listen", listen, "--folder", self.folder, "--time-limit", PATIENCE]
        command = [sys.executable, "-m", "repro.secagg", *arguments, *listen, "--until-stdin-ends"]
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = process.stdout.readline()
        host, _, port = line.strip().partition(" listens on ")[2].rpartition(":")
        self.processes.append(process)
        return host, int(port)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "made"
    assert main(["authority", str(folder), "--servers", "2", "--clients", "2"]) == 0
    return folder


@pytest.fixture(scope="module")
def commands(keys):
    running = Commands(keys)
    yield running
    running.stop()


# The parameter server alone, with servers and clients played by the test -----------------------------


@pytest.fixture(scope="module")
def parameters(commands):
    return commands.start("parameters", "--servers", 2, "--clients", 2)


class Stage:
    """Everybody but the parameter server."""

    def __init__(self, keys, address):
        self.keys, self.address = keys, address
        self.operator = Operator(keys, parameters=address, time_limit=PATIENCE)
        self.servers = [self.open(server_name(j)) for j in range(2)]
        self.clients = [self.open(client_name(i)) for i in range(2)]
        self.operator.connect()

    def open(self, name):
        tls = context(self.keys, name, accepting=False)
        return connect(self.address, tls, name, PARAMETERS, PATIENCE)

    def begin(self):
        """Up to the point where the sums are due; gives the round's number."""
        self.operator.start(3, Z64, np.zeros(1))
        for server in self.servers:
            order = server.receive(time.monotonic() + PATIENCE)
            assert (order.kind, Order.unpack(order.payload, Z64.modulus).size) == (Kind.OPEN, 3)
            server.send(Kind.OPENED, order.round)
        for client in self.clients:
            assert client.receive(time.monotonic() + PATIENCE).kind == Kind.MODEL
        return order.round

    def close(self):
        for link in (*self.servers, *self.clients, self.operator):
            link.close()


@pytest.fixture
def stage(keys, parameters):
    everybody = Stage(keys, parameters)
    yield everybody
    everybody.close()


def partial(numbers, whose=0b11000000):
    """A server's sum: three elements, and one bit for each of two clients."""
    return np.array(numbers, "<u8").tobytes() + bytes([whose])


def give(server, number, *partial):
    """A server's sum as it should be sent."""
    for one in partial:
        server.send(Kind.PARTIAL, number, one)
    server.send(Kind.DONE, number)


def test_two_sums_over_all_clients_are_added(stage):
    number = stage.begin()
    give(stage.servers[0], number, partial([1, 2, 2**64 - 1]))
    give(stage.servers[1], number, partial([10, 20, 3]))
    assert stage.operator.result()[1].tolist() == [11, 22, 2]


@pytest.mark.parametrize(
    ("whose", "lacking"), [(0b10000000, "client-1"), (0b01000000, "client-0"), (0, "client-0")]
)
def test_sums_over_different_clients_are_not_added(stage, whose, lacking):
    """One server lacks a client that the other has: no sum, and everybody is told."""
    number = stage.begin()
    give(stage.servers[0], number, partial([1, 2, 3]))
    give(stage.servers[1], number, partial([1, 2, 3], whose))
    with pytest.raises(RoundError, match=f"server-1 summed without {lacking}"):
        stage.operator.result()
    for link in (*stage.servers, *stage.clients):
        told = link.receive(time.monotonic() + PATIENCE)
        assert told.kind == Kind.FAIL and f"server-1 summed without {lacking}" in told.text


def test_sums_over_the_same_incomplete_set_are_not_added_either(stage):
    number = stage.begin()
    for server in stage.servers:
        give(server, number, partial([1, 2, 3], 0b10000000))
    with pytest.raises(RoundError, match="server-. summed without client-1"):
        stage.operator.result()


@pytest.mark.parametrize(
    ("send", "message"),
    [
        (lambda s, n: s.send(Kind.PARTIAL, n + 1, partial([0] * 3)), r"PARTIAL for round \d+, whe"),
        (lambda s, n: s.send(Kind.PARTIAL, n - 1, partial([0] * 3)), r"PARTIAL for round \d+, whe"),
        (lambda s, n: give(s, n, partial([0] * 4)), "a sum of 33 bytes for 3 elem"),
        (lambda s, n: give(s, n, b"12345"), "a sum of 5 bytes for 3 elements"),
        (lambda s, n: s.send(Kind.PARTIAL, n, bytes(2000)), "sent an oversized frame: 2000 bytes"),
        (lambda s, n: s.send(Kind.SUM, n, partial([0] * 3)), "server-0 sent SUM"),
        (lambda s, n: s.send(Kind.FAIL, n, b"no room"), "server-0: no room"),
        (lambda s, n: s.close(), "server-0 ended the connection"),
        (lambda s, n: give(s, n), r"DONE for round \d+, where PARTIAL of"),
        (lambda s, n: s.send(Kind.DONE, n, b"12345"), "oversized frame: 5 bytes, where 0 are"),
        (
            lambda s, n: s.send(Kind.PARTIAL, n, partial([0] * 3)) or s.close(),
            "server-0 ended the connection",
        ),
        (
            lambda s, n: s.send(Kind.PARTIAL, n, partial([0] * 3)) or s.send(Kind.DONE, n + 1),
            r"DONE for round \d+, where DONE of",
        ),
    ],
)
def test_what_a_server_may_not_do_ends_the_round(stage, send, message):
    number = stage.begin()
    send(stage.servers[0], number)
    if message.startswith("a sum of"):  # looked at when both sums are there
        give(stage.servers[1], number, partial([0] * 3))
    with pytest.raises(RoundError, match=message):
        stage.operator.result()


def test_an_absurd_round_number_does_not_use_up_the_numbers(stage, keys, parameters):
    """Honest servers would refuse every round of a parameter server that starts again at 1."""
    number = stage.begin()
    stage.servers[0].send(Kind.FAIL, 2**63 - 1, b"no room")
    with pytest.raises(RoundError, match="server-0: no room"):
        stage.operator.result()
    stage.close()
    later = Stage(keys, parameters)
    assert number < (next_one := later.begin()) <= number + 2**32 + 1
    for server in later.servers:
        give(server, next_one, partial([1, 2, 3]))
    assert later.operator.result()[1].tolist() == [2, 4, 6]  # no round is open when it leaves
    later.close()


def refuse(stage, last):
    """Both servers answer an order: the first one that it has seen round `last` already."""
    for server, kind in zip(stage.servers, (Kind.FAIL, Kind.OPENED), strict=True):
        order = server.receive(time.monotonic() + PATIENCE)
        assert order.kind == Kind.OPEN
        server.send(kind, last if kind == Kind.FAIL else order.round)
    return order.round


def test_a_server_that_refuses_every_number_ends_the_round(stage):
    stage.operator.start(3, Z64, np.zeros(1))
    number = refuse(stage, 2**40)
    assert refuse(stage, 2**41) == number + 2**32 + 1
    with pytest.raises(RoundError, match="a server refused two numbers for this round"):
        stage.operator.result()


@pytest.mark.parametrize("which", [0, 1])
def test_a_sum_sent_twice_ends_the_round(stage, which):
    """Also when it is the last: without its DONE, the round is not over."""
    number, sums = stage.begin(), partial([1, 2, 3])
    other, twice = stage.servers[1 - which], stage.servers[which]
    give(other, number, sums)
    with suppress(ChannelError):  # when the parameter server was faster than our DONE
        give(twice, number, sums, sums)
    with pytest.raises(RoundError, match=f"server-{which} sent PARTIAL .* where DONE of round"):
        stage.operator.result()


@pytest.mark.parametrize("shown", ["sent START for round 0, where DONE of", "ended the connection"])
def test_an_order_counts_with_its_done(stage, shown):
    """Sent twice, or by an operator that goes before its DONE: no round is opened."""
    order = Order(3, Z64.modulus).pack()
    link = stage.operator.channels[PARAMETERS]
    link.send(Kind.START, 0, order)
    if shown.startswith("sent"):
        link.send(Kind.START, 0, order)
        with pytest.raises(RoundError, match=shown):
            stage.operator.result()
    else:
        link.close()
    for party in (*stage.servers, *stage.clients):
        told = party.receive(time.monotonic() + PATIENCE)
        assert told.kind == Kind.FAIL and f"operator {shown}" in told.text


def test_another_ring_and_absurd_sizes_are_refused(stage):
    stage.operator.start(3, ZP61, np.zeros(1))
    with pytest.raises(RoundError, match=r"an order modulo 2305843009213693951, where 184467440"):
        stage.operator.result()
    stage.operator.connect()
    stage.operator.start(2**40, Z64, np.zeros(1))
    with pytest.raises(RoundError, match="an order for 1099511627776 elements"):
        stage.operator.result()


def test_a_party_of_another_group_is_not_let_in(keys, parameters, tmp_path):
    """A good certificate is not enough: the name must be one of this group."""
    issue(tmp_path, servers=3, clients=2)
    for name in ("client-0", "server-2"):
        tls = context(tmp_path, name, accepting=False)
        with pytest.raises(ChannelError, match=f"did not accept|prove its name.*{name}|{name}"):
            connect(parameters, tls, name, PARAMETERS, PATIENCE)


# By hand ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def group(commands):
    """A parameter server and two servers modulo 2^61 - 1, as started on a command line."""
    common = ["--clients", 2, "--modulus", "2^61-1"]
    address = commands.start("parameters", "--servers", 2, *common)
    place = "{}:{}".format(*address)
    servers = [commands.start("server", j, "--parameters", place, *common) for j in range(2)]
    return address, servers


def test_check_runs_a_round_through_servers_started_by_hand(keys, group, capsys):
    address, servers = group
    place = ["--folder", str(keys), "--parameters", "{}:{}".format(*address)]
    place += ["--servers", *("{}:{}".format(*one) for one in servers), "--clients", "2"]
    assert main(["check", *place, "--modulus", "2^61-1", "--size", "50"]) == 0
    assert "the sum of 2 vectors of 50 numbers is right" in capsys.readouterr().out
    assert main(["check", *place]) == 1  # the default modulus is not theirs
    error = capsys.readouterr().err
    assert "an order modulo 18446744073709551616" in error and error.count("\n") == 1


def test_clients_in_places_of_their_own(keys, group):
    """Two clients and the operator, each on its own, for three rounds; one of them fails."""
    address, servers = group
    encoding = FixedPoint(ring=ZP61)
    places = {"servers": servers, "parameters": address, "time_limit": PATIENCE}
    problems = []

    def work(i):
        with Client(i, keys, **places) as client:
            client.connect()
            for turn in range(3):
                try:
                    number, model = client.model(PATIENCE)
                except RoundError as problem:
                    problems.append(str(problem))
                    client.connect()
                    number, model = client.model(PATIENCE)
                encoded = encoding.encode((model + i)[None], clients=2)
                parts = share(encoded, servers=2, ring=ZP61).each()[0]
                if turn == i == 1:
                    parts[0] = np.zeros(1, np.uint64)
                client.submit(number, parts)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    model, failures = np.array([0.25, -3.0]), 0
    with Operator(keys, parameters=address, time_limit=PATIENCE) as operator:
        for _ in range(3):
            operator.connect()
            operator.start(2, ZP61, model)
            try:
                _, total = operator.result()
            except RoundError as problem:
                assert "server-0: client-1 sent a share of 8 bytes in place of 16" in str(problem)
                failures += 1
                continue
            np.testing.assert_allclose(encoding.decode(total), 2 * model + 1, atol=1e-9)
            model = model + 1  # only after a good round
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == 1 and model[0] == 2.25
    assert all("client-1 sent a share of 8 bytes" in problem for problem in problems)


def test_servers_outlive_the_parameter_server(keys, commands):
    """A new parameter server begins at round 1, and asks again, in the same round, where old servers refuse it."""
    common = ["--clients", 2]
    held = socket.socket()  # keeps the port while no parameter server listens there
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    address = held.getsockname()
    place = "{}:{}".format(*address)
    assert commands.start("parameters", "--servers", 2, *common, listen=place) == address
    servers = [commands.start("server", j, "--parameters", place, *common) for j in range(2)]
    values = np.ones((2, 2))
    arguments = {"servers": servers, "parameters": address, "clients": 2, "time_limit": PATIENCE}
    with Session(keys, **arguments) as session:
        for _ in range(3):
            assert session.round(values).total.tolist() == [2.0, 2.0]
    old = commands.processes[-3]
    old.kill()
    old.wait()
    assert commands.start("parameters", "--servers", 2, *common, listen=place) == address
    with Session(keys, **arguments) as session:
        done = session.round(values)
        assert done.number == 4 and done.total.tolist() == [2.0, 2.0]
    held.close()


def test_a_server_that_is_started_first_says_that_it_tries_again_and_when_it_is_connected(keys):
    """It tries every quarter of a second; nothing here depends on how often."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))  # and nobody listens
    common = {"clients": 2, "ring": Z64, "time_limit": PATIENCE}
    listener = socket.create_server(("127.0.0.1", 0))
    lines = queue.Queue()

    class Heard(IntermediateServer):
        def log(self, text):
            lines.put(text)

    Heard(0, keys, listener, parameters=held.getsockname(), **common)
    assert re.search("does not answer: .*; trying again until it does", lines.get(timeout=PATIENCE))
    held.listen()
    parameters = ParameterServer(keys, held, servers=2, **common)
    threading.Thread(target=parameters.run, daemon=True).start()
    assert lines.get(timeout=PATIENCE) == "connected with parameters"


def test_check_says_which_certificates_it_needs(capsys):
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "authority.pem and the certificates of the operator and of all clients" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["server", "0", "--listen", "nowhere"], "'nowhere' is not HOST:PORT"),
        (["parameters", "--modulus", "x"], "'x' is no modulus"),
        (["parameters", "--modulus", "2^65"], "modulus must be an integer in"),
        (["nonsense"], "invalid choice"),
        ([], "COMMAND"),
    ],
)
def test_bad_commands_are_explained(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2 and message in capsys.readouterr().err


def test_errors_are_one_line(keys, capsys):
    assert main(["authority", str(keys), "--servers", "2", "--clients", "2"]) == 1
    missing = ["--folder", str(keys / "none"), "--listen", LOOPBACK, "--clients", "2"]
    assert main(["parameters", "--servers", "2", *missing]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("authority: ") and "authority.pem" in lines[0]
    assert lines[1].startswith("parameters: folder must hold parameters.pem")


def test_help_names_every_command():
    done = subprocess.run(
        [sys.executable, "-m", "repro.secagg", "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0
    for command in ("authority", "parameters", "server", "check"):
        assert re.search(rf"^    {command}\s", done.stdout, re.MULTILINE)
