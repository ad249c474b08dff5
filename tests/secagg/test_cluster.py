"""Rounds over real processes: exact sums, every fault injected, nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

import tampering
from repro.secagg import (
    Z32,
    ZP61,
    Client,
    Cluster,
    FixedPoint,
    RoundError,
    discrete_laplace,
    issue,
)
from repro.secagg.certificates import PARAMETERS, context
from repro.secagg.channel import ChannelError, connect
from repro.secagg.frames import HEADER_BYTES, MODEL_DIGEST_BYTES, Header, Kind
from tampering import again, relabelled, until_refused

LIMIT = 30.0
"""Seconds; no test waits for them to pass."""

VALUES = np.array([[1.5, -2.25, 1e-10], [-0.1, 0.7, 1e6], [3.0, 0.0, -1e6]])
TOTAL = VALUES.sum(axis=0)


@pytest.fixture(scope="module")
def cluster():
    with Cluster(clients=3, servers=3, time_limit=LIMIT) as running:
        yield running


@pytest.fixture
def fresh(cluster):
    """The cluster after a good round, so that all connections are open; a good round afterwards.

    Whatever a test does, the next round works and gives the right sum.
    """
    before = good_round(cluster)
    yield cluster
    assert good_round(cluster).number > before.number


def good_round(cluster):
    done = cluster.round(VALUES)
    np.testing.assert_allclose(done.total, TOTAL, rtol=0, atol=2e-10)
    return done


def until_good(cluster):
    """Rounds until one works."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return good_round(cluster)
        except RoundError:
            assert time.monotonic() < deadline


def channel(cluster, client, server):
    return cluster.session.clients[client].channels[f"server-{server}"]


def tamper(cluster, client, server, change, kind=None):
    """Let `change` decide what the client's next frame to the server looks like on the wire."""
    return tampering.tamper(channel(cluster, client, server), change, kind)


# Rounds that work ---------------------------------------------------------------------------------


def test_sums_are_those_of_the_encoded_values(cluster):
    rng = np.random.default_rng(0)
    for size in (1, 1000, 70_001):
        values = rng.normal(size=(3, size))
        done = cluster.round(values, model=values[0])
        exact = cluster.encoding.ring.sum(cluster.encoding.encode(values, clients=3))
        assert (done.elements == exact).all()
        assert (done.total == cluster.encoding.decode(exact)).all()


def test_bytes_are_counted_as_they_are_sent(cluster):
    values, model = np.ones((3, 1000)), np.zeros(7)
    done = cluster.round(values, model=model)
    uploads, sums, broadcast = (done.traffic[link] for link in ("uploads", "sums", "broadcast"))
    assert uploads.payload == 3 * (8 * 1000 + 16 + 16)
    assert sums.payload == 3 * (8 * 1000 + 1)  # and a bit for each client
    assert broadcast.payload == 3 * 8 * 7
    # one TLS record of 22 bytes and one header a frame; a DONE follows each share (with the digest of
    # the model) and each sum, and servers also say that they are open
    assert uploads.wire == uploads.payload + 2 * 9 * (HEADER_BYTES + 22) + 9 * MODEL_DIGEST_BYTES
    assert sums.wire == sums.payload + 3 * 3 * (HEADER_BYTES + 22)
    assert broadcast.wire == broadcast.payload + 3 * (HEADER_BYTES + 22)
    in_full = cluster.round(values, in_full=True)
    assert in_full.traffic["uploads"].payload == 3 * 3 * 8 * 1000
    assert (in_full.total == done.total).all()


def test_the_narrow_ring_sends_half_the_bytes():
    encoding = FixedPoint(bits=14, ring=Z32)
    values = np.random.default_rng(0).uniform(-1, 1, (3, 500))
    with Cluster(clients=3, servers=2, encoding=encoding) as cluster:
        exact = np.rint(values * encoding.scale).sum(axis=0) / encoding.scale
        for in_full, payload in ((False, 3 * (4 * 500 + 16)), (True, 2 * 3 * 4 * 500)):
            done = cluster.round(values, in_full=in_full)
            assert (done.total == exact).all() and done.traffic["uploads"].payload == payload
            assert done.traffic["sums"].payload == 2 * (4 * 500 + 1)


def test_stages_are_timed(cluster):
    seconds = cluster.round(VALUES).seconds
    assert list(seconds) == ["encoding", "sharing", "opening", "transmission", "aggregation"]
    assert all(value > 0 for value in seconds.values())


def test_noise_is_in_the_sum(cluster):
    noise = discrete_laplace(10**8, VALUES.shape, key=bytes(16))
    done = cluster.round(VALUES, noise=noise)
    np.testing.assert_allclose(done.total, TOTAL + noise.sum(axis=0) * 1e-10, atol=2e-10)


def test_what_cannot_be_encoded_starts_no_round(fresh):
    for bad in (np.nan, np.inf, 1e9, -4e8):
        values = VALUES.copy()
        values[2, 1] = bad
        with pytest.raises(ValueError, match=r"values must be finite and in .* at \(2, 1\)"):
            fresh.round(values)
    for shape in ((2, 3), (3,), (3, 0)):
        with pytest.raises(ValueError, match=r"values must have shape \(3, parameters >= 1\)"):
            fresh.round(np.zeros(shape))


def test_what_is_no_array_of_numbers_is_named(fresh):
    for bad in ("x", [[1.0], [2.0, 3.0], [4.0]], None, np.ones((3, 3), bool)):
        with pytest.raises(ValueError, match="values must be (an array of )?real numbers"):
            fresh.round(bad)
        with pytest.raises(ValueError, match="model must be (an array of )?real numbers"):
            fresh.round(VALUES, model=bad)


def test_one_client_one_number_five_servers():
    with Cluster(clients=1, servers=5) as cluster:
        for value in (1.5, cluster.encoding.limit(1), -cluster.encoding.limit(1)):
            for in_full in (True, False):
                assert cluster.round([[value]], in_full=in_full).total.tolist() == [value]


# Frames that are wrong ----------------------------------------------------------------------------


def expect(cluster, message):
    """The round fails with this error."""
    with pytest.raises(RoundError, match=message) as caught:
        cluster.round(VALUES)
    assert "\n" not in str(caught.value)


def test_an_altered_share(fresh):
    for where, part in ((12, "header"), (HEADER_BYTES + 3, "payload")):
        tamper(fresh, 1, 0, lambda f, w=where: f[:w] + bytes([f[w] ^ 255]) + f[w + 1 :])
        expect(fresh, f"server-0: client-1 sent an altered frame: the {part}'s checksum")
        good_round(fresh)


def test_a_truncated_share(fresh):
    def cut(frame):
        link.write(frame[:-1], memoryview(b""))
        link.close()

    link = tamper(fresh, 1, 2, cut)
    expect(fresh, "server-2: client-1 sent a truncated frame")


def test_an_oversized_share(fresh):
    tamper(fresh, 0, 1, lambda frame: relabelled(frame, length=2**30))
    expect(fresh, "server-1: client-0 sent an oversized frame: 1073741824 bytes")


def test_a_share_of_another_length(fresh):
    tamper(fresh, 0, 2, lambda frame: relabelled(frame, bytes(16)))
    expect(fresh, "server-2: client-0 sent a share of 16 bytes in place of 24")


@pytest.mark.parametrize("off", [-1, 1, 1000])
def test_a_share_for_another_round(fresh, off):
    number = good_round(fresh).number + 1
    tamper(fresh, 2, 0, lambda frame: relabelled(frame, round=number + off))
    expect(fresh, f"server-0: client-2 sent a share for round {number + off} in round {number}")


def test_a_duplicate(fresh):
    """A second share, in a frame of its own that is in order."""

    def twice(frame):
        link.write(frame + again(link, frame), memoryview(b""))

    link = tamper(fresh, 0, 1, twice)
    expect(fresh, "server-1: client-0 sent a second share for round")


def test_a_replay_within_the_round(fresh):
    """The same bytes once more."""
    tamper(fresh, 0, 1, lambda frame: frame + frame)
    expect(fresh, "server-1: client-0 replayed or left out a frame")


def test_a_replay_from_an_earlier_round(fresh):
    recorded = []

    def record(frame):
        recorded.append(frame)
        return frame

    tamper(fresh, 0, 1, record)
    good_round(fresh)
    tamper(fresh, 0, 1, lambda frame: recorded[0])
    expect(fresh, "server-1: client-0 replayed or left out a frame")
    good_round(fresh)
    place = channel(fresh, 0, 1).place  # over a new connection, numbered as if it were new
    tamper(fresh, 0, 1, lambda frame: relabelled(recorded[0], place=place))
    expect(fresh, "server-1: client-0 sent a share for round")


@pytest.mark.parametrize(("field", "value"), [("client", 1), ("server", 2)])
def test_a_share_in_another_s_name(fresh, field, value):
    tamper(fresh, 0, 1, lambda frame: relabelled(frame, **{field: value}))
    expect(fresh, "server-1: client-0 sent a frame that names client")


def test_a_frame_that_is_no_share(fresh):
    tamper(fresh, 0, 1, lambda frame: relabelled(frame, kind=Kind.PARTIAL))
    expect(fresh, "server-1: client-0 sent PARTIAL, which is no share")


def second_connection(cluster, client, server):
    """Another connection of the client, with its own certificate."""
    party = cluster.session.clients[client]
    address = party._addresses[f"server-{server}"]
    return connect(address, party._context, party.name, f"server-{server}", LIMIT)


def test_a_client_that_connects_twice_before_it_sends(fresh):
    """Which of the two is to be believed? Neither."""
    opened = []

    def again(frame):
        opened.append(second_connection(fresh, 1, 0))
        until_refused(link)
        return b""

    link = tamper(fresh, 1, 0, again)
    expect(fresh, "server-0: client-1 opened another connection")
    opened[0].close()


def test_a_duplicate_over_a_second_connection(fresh):
    """It ends the round, also when the first share had been added."""
    opened = []

    def twice(frame):
        link.write(frame, memoryview(b""))
        opened.append(second_connection(fresh, 1, 0))
        header = Header.unpack(frame[:HEADER_BYTES])
        with suppress(ChannelError):  # when the server was faster
            opened[0].send(header.kind, header.round, frame[HEADER_BYTES:])
        until_refused(opened[0])
        return b""

    link = tamper(fresh, 1, 0, twice)
    expect(fresh, "server-0: client-1 opened another connection")
    opened[0].close()


def test_a_key_and_a_vector_for_the_same_round(fresh):
    """A second share is one too many, whatever its form."""

    def both(frame):
        vector = relabelled(frame, bytes(24), kind=Kind.VECTOR)
        link.write(frame + again(link, vector), memoryview(b""))

    link = tamper(fresh, 0, 1, both)
    expect(fresh, "server-1: client-0 sent a second share for round")


def test_a_frame_between_rounds_does_no_harm(fresh):
    """The server ends the connection; the next round opens another one and is right."""
    link = channel(fresh, 0, 1)
    link.send(Kind.KEY, 1, bytes(16))
    until_refused(link)
    good_round(fresh)


# Parties that are slow, gone or strangers -----------------------------------------------------------


def test_a_share_that_reached_some_servers_only_because_the_client_died(fresh):
    def die(frame):
        for link in fresh.session.clients[1].channels.values():
            link.close()
        return b""

    tamper(fresh, 1, 1, die)
    expect(fresh, "server-[012]: client-1 ended the connection")


def test_a_certificate_of_a_stranger(fresh, tmp_path):
    """Whoever has no certificate of this cluster's authority is refused, and told so."""
    issue(tmp_path, servers=3, clients=3)
    stranger = context(tmp_path, "client-1", accepting=False)
    stranger.load_verify_locations(fresh.folder / "authority.pem")
    client = fresh.session.clients[1]
    known, client._context = client._context, stranger
    client.close()
    expect(fresh, "server-0 at .* did not accept client-1: .*UNKNOWN_CA")
    client._context = known


def test_a_server_that_is_a_stranger_to_the_client(fresh, tmp_path):
    issue(tmp_path, servers=3, clients=3)
    client = fresh.session.clients[1]
    known, client._context = client._context, context(tmp_path, "client-1", accepting=False)
    client.close()
    expect(fresh, "server-0 did not prove its name: CERTIFICATE_VERIFY_FAILED")
    client._context = known


def test_a_client_in_the_place_of_another(fresh):
    """Client 2's certificate under client 1's name: its frames name the wrong client."""
    client = fresh.session.clients[1]
    known = client._context
    client._context = context(fresh.folder, "client-2", accepting=False)
    client.close()
    expect(fresh, "did not accept client-1: server-0 sent a frame that names client 2 and server 0")
    client._context = known


def test_interrupting_a_round_leaves_the_cluster_usable(fresh, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fresh.session.clients[1], "submit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fresh.round(VALUES)
    until_good(fresh)  # the servers may still be noticing


# Processes ----------------------------------------------------------------------------------------


def gone(pids):
    """Whether all processes end within a while."""
    deadline = time.monotonic() + 120
    while any(map(alive, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Impatient(Cluster):
    """Its parameter server alone waits 3 s for each step; the others have time to do it."""

    def _launch(self, name, role, listener):
        if name == PARAMETERS:
            role[role.index("--time-limit") + 1] = 3.0
        super()._launch(name, role, listener)


def test_stopped_and_killed_servers_in_mid_round_and_the_other_ring():
    """A stopped server ends the round; it goes on later. A killed one ends the cluster's life."""
    encoding = FixedPoint(ring=ZP61)
    with Impatient(clients=3, servers=2, encoding=encoding, time_limit=LIMIT) as cluster:
        pids = [process.pid for process in cluster.processes.values()]
        until_good(cluster)
        server = cluster.processes["server-1"]

        tamper(cluster, 2, 1, lambda frame: server.send_signal(signal.SIGSTOP) or frame)
        expect(cluster, "server-1 sent no PARTIAL within 6 s")
        server.send_signal(signal.SIGCONT)
        until_good(cluster)

        def kill(frame):
            server.kill()
            server.wait()
            return frame

        tamper(cluster, 0, 1, kill)
        expect(cluster, "server-1 .*SIGKILL.*: this cluster cannot go on, start a new one")
        expect(cluster, "server-1 has ended .signal SIGKILL.: this cluster cannot go on")
    assert gone(pids) and not cluster.folder.exists()
    cluster.close()  # once more does no harm


CRASH = """
import os, signal, sys
from repro.secagg import Cluster
signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts us may ignore it
with Cluster(clients=1, servers=2) as cluster:
    print(*[process.pid for process in cluster.processes.values()], cluster.folder, flush=True)
    if sys.argv[1] == "error":
        raise SystemError("on purpose")
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""


@pytest.mark.parametrize("how", ["error", "SIGINT", "SIGKILL"])
def test_no_process_survives_whoever_started_it(how, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CRASH, how],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode != 0
    *pids, folder = done.stdout.split()
    assert len(pids) == 3 and gone([int(pid) for pid in pids])
    assert how == "SIGKILL" or not Path(folder).exists()


def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    for arguments, message in [
        ({"clients": 0}, "clients must be an integer >= 1"),
        ({"clients": 2, "servers": 1}, "servers must be an integer >= 2"),
        ({"clients": 2, "time_limit": 0}, "time_limit must be positive"),
    ]:
        with pytest.raises(ValueError, match=message):
            Cluster(**arguments)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RoundError, match="parameters did not start .* exit status 1"):
        Cluster(clients=1)
    assert not list(tmp_path.iterdir())


def test_a_client_needs_its_certificate(tmp_path):
    address = ("127.0.0.1", 1)
    with pytest.raises(ValueError, match="folder must hold client-0.pem"):
        Client(0, tmp_path, servers=[address] * 2, parameters=address)
