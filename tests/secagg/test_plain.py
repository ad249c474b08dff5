"""Rounds without sharing, to compare with: the clients' vectors go to the parameter server itself."""

import numpy as np
import pytest

import tampering
from repro.secagg import ZP61, Cluster, FixedPoint, RoundError, issue
from repro.secagg.__main__ import main
from repro.secagg.certificates import server_names
from repro.secagg.frames import HEADER_BYTES, Kind
from tampering import relabelled

VALUES = np.array([[1.5, -2.25, 1e-10], [-0.1, 0.7, 1e6], [3.0, 0.0, -1e6]])


@pytest.fixture(scope="module")
def cluster():
    with Cluster(clients=3, servers=0) as running:
        yield running


def good_round(cluster):
    done = cluster.round(VALUES)
    np.testing.assert_allclose(done.total, VALUES.sum(axis=0), rtol=0, atol=2e-10)
    return done


def link_of(cluster, client):
    return cluster.session.clients[client].channels["parameters"]


def tamper(cluster, client, change, kind=None):
    """Let `change` make what the client sends to the parameter server next."""
    return tampering.tamper(link_of(cluster, client), change, kind)


def test_one_process_gives_the_sum_that_shares_give(cluster):
    assert list(cluster.processes) == ["parameters"]
    values = np.random.default_rng(0).normal(size=(3, 70_001))
    with Cluster(clients=3, servers=2) as sharing:
        expected = sharing.round(values)
    for in_full in (False, True):
        done = cluster.round(values, model=values[0], in_full=in_full)
        assert (done.elements == expected.elements).all()
        assert (done.total == expected.total).all()


def test_bytes_are_those_of_one_vector_a_client(cluster):
    good_round(cluster)
    traffic = cluster.round(np.ones((3, 1000)), model=np.zeros(7)).traffic
    assert traffic["uploads"].payload == 3 * 8 * 1000
    assert traffic["uploads"].wire == 3 * (8 * 1000 + 2 * (HEADER_BYTES + 22))  # and DONE
    assert traffic["broadcast"].payload == 3 * 8 * 7
    assert (traffic["sums"].payload, traffic["sums"].wire) == (0, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: relabelled(f, f[HEADER_BYTES:-8]), "client-1 sent a sum of 16 bytes for 3"),
        (lambda f: relabelled(f, f[HEADER_BYTES:] + b"x"), "client-1 sent a sum of 25 bytes for 3"),
        (lambda f: relabelled(f, bytes(4000)), "client-1 sent an oversized frame: 4000 bytes"),
        (lambda f: relabelled(f, f[HEADER_BYTES:], kind=Kind.PARTIAL), "client-1 sent PARTIAL"),
        (
            lambda f: relabelled(f, f[HEADER_BYTES:], round=999),
            "client-1 sent VECTOR for round 999",
        ),
        (lambda f: relabelled(f, f[HEADER_BYTES:], client=2), "a frame that names client 2"),
        (lambda f: f[:-1] + bytes([f[-1] ^ 255]), "an altered frame: the payload's checksum"),
        (lambda f: f + f, "client-1 replayed or left out a frame"),
        (lambda f: b"", "client-1 replayed or left out a frame"),
    ],
)
def test_what_a_client_may_not_do_ends_the_round(cluster, change, message):
    good_round(cluster)
    tamper(cluster, 1, change)
    with pytest.raises(RoundError, match=message):
        cluster.round(VALUES)
    good_round(cluster)


def test_a_client_may_go_when_its_vector_and_its_done_are_there(cluster):
    good_round(cluster)

    def gone(frame):
        link.write(frame, memoryview(b""))
        link.close()

    link = tamper(cluster, 0, gone, Kind.DONE)
    before = good_round(cluster).traffic["broadcast"]
    assert good_round(cluster).traffic["broadcast"] == before
    link = tamper(cluster, 0, gone)
    with pytest.raises(RoundError, match="client-0 ended the connection"):
        cluster.round(VALUES)
    good_round(cluster)


def test_a_client_that_dies_ends_the_round(cluster):
    good_round(cluster)
    link = tamper(cluster, 2, lambda frame: link.close() or b"")
    with pytest.raises(RoundError, match="client-2 ended the connection"):
        cluster.round(VALUES)
    good_round(cluster)


def test_an_element_outside_the_ring_is_no_element():
    with Cluster(clients=3, servers=0, encoding=FixedPoint(decimals=6, ring=ZP61)) as cluster:
        cluster.round(VALUES)
        tamper(cluster, 0, lambda f: relabelled(f, np.full(3, 2**61 - 1, "<u8").tobytes()))
        with pytest.raises(RoundError, match="client-0 sent no elements"):
            cluster.round(VALUES)
        np.testing.assert_allclose(cluster.round(VALUES).total, VALUES.sum(axis=0), atol=2e-6)


def test_a_client_checks_how_many_shares_it_is_given(cluster):
    good_round(cluster)
    vector = np.zeros(3, np.uint64)
    for shares in ([], [vector, vector]):
        with pytest.raises(ValueError, match="shares must hold one for each of parameters, got"):
            cluster.session.clients[0].submit(1, shares)
    good_round(cluster)


@pytest.mark.parametrize("bad", [1, -1, True, False, 2.0, "3"])
def test_one_server_would_see_what_none_may(bad):
    with pytest.raises(ValueError, match="servers must be an integer >= 2, or 0 for no sharing"):
        server_names(bad)


def test_certificates_without_servers(tmp_path, capsys):
    assert main(["authority", str(tmp_path / "keys"), "--servers", "0", "--clients", "1"]) == 0
    assert "server-" not in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "keys").iterdir()}
    assert names == {"authority.pem", "parameters.pem", "operator.pem", "client-0.pem"}
    with pytest.raises(ValueError, match="servers must be an integer >= 2"):
        issue(tmp_path / "one", servers=1, clients=1)
