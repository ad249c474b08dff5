"""Hosted clients with servers that are processes: started by hand, killed in mid-round, started again."""

import socket
import subprocess
import sys

import numpy as np
import pytest

from repro.secagg import Z32, FixedPoint, HostedClients, Operator, RoundError
from repro.secagg.__main__ import main
from repro.secagg.certificates import PARAMETERS, server_names

CLIENTS, SIZE, LIMIT = 400, 1000, 30.0
ENCODING = FixedPoint(bits=14, ring=Z32)
VALUES = np.random.default_rng(0).uniform(-1.0, 1.0, (CLIENTS, SIZE))


class Processes:
    """The commands of a user; every server listens on a socket that outlives it."""

    def __init__(self, folder):
        assert main(["authority", folder, "--servers=3", f"--clients={CLIENTS}", "--links=1"]) == 0
        self.folder, self.running = folder, {}
        self.listeners = {
            name: socket.create_server(("127.0.0.1", 0)) for name in (PARAMETERS, *server_names(3))
        }
        self.places = {name: one.getsockname() for name, one in self.listeners.items()}
        for name in self.listeners:
            self.start(name)

    def start(self, name):
        role = ["parameters", "--servers", "3"]
        if name != PARAMETERS:
            host, port = self.places[PARAMETERS]
            role = ["server", name[-1], "--parameters", f"{host}:{port}"]
        handle = self.listeners[name].fileno()
        common = ["--folder", self.folder, "--clients", str(CLIENTS), "--links", "1"]
        common += ["--modulus", "2^32", "--time-limit", str(LIMIT), "--listen", f"fd:{handle}"]
        self.running[name] = subprocess.Popen(
            [sys.executable, "-m", "repro.secagg", *role, *common, "--until-stdin-ends"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[handle],
        )
        assert b"listens on" in self.running[name].stdout.readline()

    def kill(self, name):
        process = self.running.pop(name)
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def close(self):
        for name in list(self.running):
            self.kill(name)
        for listener in self.listeners.values():
            listener.close()


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    running = Processes(str(tmp_path_factory.mktemp("keys") / "made"))
    yield running
    running.close()


class Parties:
    """One party that acts for all clients, and the operator."""

    def __init__(self, processes):
        servers = [processes.places[name] for name in server_names(3)]
        same = {"parameters": processes.places[PARAMETERS], "time_limit": LIMIT}
        self.operator = Operator(processes.folder, **same)
        self.clients = HostedClients(
            0, processes.folder, clients=CLIENTS, links=1, servers=servers, **same
        )

    def round(self, after_a_batch=lambda sent: None):
        for party in (self.operator, self.clients):
            party.connect()
        self.operator.start(SIZE, Z32, np.ones(3))
        number, model = self.clients.model(LIMIT)
        assert model.tolist() == [1, 1, 1]
        encoded = ENCODING.encode(VALUES, clients=CLIENTS)
        self.clients.submit(number, np.array_split(encoded, 8), Z32, after_a_batch)
        return self.operator.result()[1]

    def good_round(self):
        """The exact sum; a first round after a fault may fail while servers connect again."""
        try:
            total = self.round()
        except RoundError:
            total = self.round()
        exact = np.rint(VALUES * ENCODING.scale).astype(np.int64).sum(axis=0)
        assert (Z32.centre(total) == exact).all()

    def close(self):
        self.operator.close()
        self.clients.close()


@pytest.mark.parametrize("victim", ["server-0", "server-2", PARAMETERS])
def test_a_server_that_is_killed_in_mid_round(processes, victim):
    """No sum, one error; once the server is there again, the next round is exact."""
    parties = Parties(processes)
    parties.good_round()

    def kill(sent):
        if victim in processes.running:
            assert 0 < sent < CLIENTS
            processes.kill(victim)

    with pytest.raises(RoundError) as caught:
        parties.round(kill)
    assert "\n" not in str(caught.value)
    processes.start(victim)
    parties.good_round()
    parties.close()
