"""What the doctor finds: each fault is one line that names it, and nothing else fails."""

import datetime
import socket
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from repro.secagg import Z64, Client, Session, doctor, frames, issue, node
from repro.secagg.__main__ import main
from repro.secagg.certificates import PARAMETERS
from repro.secagg.doctor import examine
from secure_sums import LIMIT, Servers

SETTINGS = {"clients": 2, "links": None, "modulus": 2**64, "time_limit": LIMIT}


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    return Servers(tmp_path_factory.mktemp("keys") / "made", clients=2, ring=Z64)


def failures(name, folder, **given):
    """The lines of what failed."""
    found = list(examine(name, folder, **{"settings": SETTINGS, **given}))
    assert all("\n" not in str(finding) for finding in found)
    return [str(finding) for finding in found if not finding.good]


def copied(servers, folder, *names):
    """The files of some parties in a folder of their own."""
    for name in (*names, "authority"):
        (folder / f"{name}.pem").write_bytes((servers.folder / f"{name}.pem").read_bytes())
        (folder / f"{name}.pem").chmod(0o600)
    return folder


@pytest.mark.parametrize("name", ["client-1", "server-0", "operator"])
def test_nothing_fails_where_all_is_well(servers, name):
    asked = dict(servers.places) if name == "client-1" else {}
    asked["parameters"] = servers.places["parameters"]
    found = list(examine(name, servers.folder, settings=SETTINGS, listen=("127.0.0.1", 0), **asked))
    assert [str(one) for one in found if not one.good] == []
    text = "\n".join(map(str, found))
    assert f"the certificate in {name}.pem names {name}" in text
    assert "the clock of parameters differs from this one by 0 s" in text
    assert text.count("proves its name") == (4 if name == "client-1" else 1)


def test_a_question_disturbs_no_round(servers):
    """The doctor asks as a client that is connected and in the middle of a round."""
    with Session(servers.folder, clients=2, time_limit=LIMIT, **servers.places) as session:
        submit = Client.submit

        def examined(self, number, shares):
            assert failures(self.name, servers.folder, **servers.places) == []
            submit(self, number, shares)

        for client in session.clients:
            client.submit = examined.__get__(client)
        assert session.round(np.ones((2, 3))).total.tolist() == [2, 2, 2]


# Certificates -------------------------------------------------------------------------------------


def later(days, monkeypatch):
    """The clock of this machine is wrong by so many days."""
    now = time.time
    monkeypatch.setattr(doctor.time, "time", lambda: now() + 86400 * days)


def test_an_expired_certificate(servers, monkeypatch):
    later(8, monkeypatch)
    own, root = failures("client-0", servers.folder)
    day = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=7)
    assert f"FAILED: the certificate of client-0 has expired on {day:%Y-%m}" in own
    assert "FAILED: the certificate of the authority has expired on" in root


def test_a_certificate_that_is_expired_is_not_shown(tmp_path):
    issue(tmp_path / "keys", servers=2, clients=1, days=1e-9)
    listener = socket.create_server(("127.0.0.1", 0))
    found = failures("client-0", tmp_path / "keys", parameters=listener.getsockname()[:2])
    assert "has expired on" in found[0]
    assert found[-1] == "FAILED: parameters not asked: that needs a certificate that is good"
    listener.close()


def test_a_certificate_from_the_future(servers, monkeypatch):
    later(-1, monkeypatch)
    assert all(
        "begins on" in line and "here" in line for line in failures("client-0", servers.folder)
    )


def test_a_certificate_in_another_partys_name(servers, tmp_path):
    folder = copied(servers, tmp_path, "client-0")
    (folder / "client-0.pem").rename(folder / "client-1.pem")
    assert failures("client-1", folder) == [
        "FAILED: the certificate in client-1.pem names client-0"
    ]


def test_a_certificate_of_another_authority(servers, tmp_path):
    issue(tmp_path / "other", servers=2, clients=1)
    folder = copied(servers, tmp_path, "client-0")
    (folder / "authority.pem").write_bytes((tmp_path / "other/authority.pem").read_bytes())
    (line,) = failures("client-0", folder)
    assert line.startswith("FAILED: the certificate of client-0 is not signed by")


def test_a_key_that_belongs_to_another_certificate(servers, tmp_path):
    folder = copied(servers, tmp_path, "client-0", "client-1")
    begin = b"-----BEGIN CERTIFICATE"
    key = (folder / "client-1.pem").read_bytes().partition(begin)[0]
    certificate = (folder / "client-0.pem").read_bytes().partition(begin)[2]
    (folder / "client-0.pem").write_bytes(key + begin + certificate)
    expected = "FAILED: certificate and private key of client-0 do not belong together"
    assert failures("client-0", folder) == [expected]


@pytest.mark.parametrize("how", ["missing", "empty", "key only"])
def test_no_certificate(servers, tmp_path, how):
    folder = copied(servers, tmp_path, "client-0")
    file = folder / "client-0.pem"
    if how == "missing":
        file.unlink()
    else:
        key = file.read_bytes().partition(b"-----BEGIN CERTIFICATE")[0]
        file.write_bytes(b"" if how == "empty" else key)
    (line,) = failures("client-0", folder)
    assert line.startswith(f"FAILED: no certificate of client-0 and its authority in {folder}: ")


def test_a_key_that_others_can_read(servers, tmp_path):
    folder = copied(servers, tmp_path, "client-0")
    (folder / "client-0.pem").chmod(0o640)
    (line,) = failures("client-0", folder)
    assert line.startswith("FAILED: the private key can be read by others:")


# This machine and the servers ---------------------------------------------------------------------


def test_a_port_that_is_taken(servers):
    host, port = servers.places["parameters"]
    expected = f"FAILED: cannot listen on {host}:{port}: Address already in use"
    assert failures("parameters", servers.folder, listen=(host, port)) == [expected]


def test_a_closed_port(servers):
    with socket.socket() as held:  # bound, so that nobody else listens there meanwhile
        held.bind(("127.0.0.1", 0))
        host, port = held.getsockname()
        expected = f"FAILED: parameters at {host}:{port}: does not answer: Connection refused"
        assert failures("client-0", servers.folder, parameters=(host, port)) == [expected]


def test_a_server_that_says_nothing(servers):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = listener.getsockname()
        (line,) = failures("client-0", servers.folder, parameters=place, time_limit=0.2)
    assert "was too slow" in line


def test_a_server_with_another_name(servers):
    """The addresses of two servers are exchanged."""
    swapped = [servers.places["servers"][j] for j in (1, 0, 2)]
    found = failures("client-0", servers.folder, servers=swapped)
    assert [line.split(" at ")[0] for line in found] == ["FAILED: server-0", "FAILED: server-1"]
    assert all("did not prove its name" in line for line in found)


def test_a_party_that_a_server_does_not_expect(servers):
    (line,) = failures("server-0", servers.folder, servers=servers.places["servers"][:2])[:1]
    assert "server-0 does not expect 'server-0'" in line


@pytest.mark.parametrize("seconds", [3600.0, -31.0])
def test_a_clock_that_is_wrong(servers, monkeypatch, seconds):
    """That of the server: the certificates are valid by both clocks, which stand still."""
    now = time.time()
    for module, shown in ((doctor, now), (node, now + seconds)):
        clock = SimpleNamespace(
            monotonic=time.monotonic, sleep=time.sleep, time=lambda shown=shown: shown
        )
        monkeypatch.setattr(module, "time", clock)
    (line,) = failures("client-0", servers.folder, parameters=servers.places["parameters"])
    expected = (
        f"the clock of parameters differs from this one by {seconds:.0f} s, at most 30 s allowed"
    )
    assert line == f"FAILED: {expected}"


def test_another_version_of_the_protocol(servers, monkeypatch):
    pack = frames.Header.pack
    version = frames.VERSION + 1

    def other(header):
        monkeypatch.setattr(frames, "VERSION", version)
        written = pack(header)
        monkeypatch.setattr(frames, "VERSION", version - 1)
        return written

    monkeypatch.setattr(frames.Header, "pack", other)
    (line,) = failures("client-0", servers.folder, parameters=servers.places["parameters"])
    expected = f"sent a frame of version {version} of the protocol, where {version - 1} is spoken"
    assert line.endswith(expected)


def test_packages_that_are_too_old(servers, monkeypatch):
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "3.4.8")
    monkeypatch.setattr(doctor.ssl, "HAS_TLSv1_3", False)
    tls, cryptography = failures("client-0", servers.folder)
    assert tls.endswith("TLS 1.3 is needed")
    assert cryptography == "FAILED: cryptography 3.4.8, at least 44 is needed"


@pytest.mark.parametrize(("key", "other"), [("clients", 3), ("links", 1), ("modulus", 2**32)])
def test_settings_that_differ(servers, key, other):
    changed = {**SETTINGS, key: other}
    asked = {"settings": changed, "parameters": servers.places["parameters"]}
    (line,) = failures("client-0", servers.folder, **asked)
    assert line == f"FAILED: {key} of parameters is {SETTINGS[key]}, here {other}"


def test_the_command(servers, capsys):
    host, port = servers.places[PARAMETERS]
    common = ["doctor", "client-1", "--folder", str(servers.folder), "--time-limit", str(LIMIT)]
    assert main([*common, "--clients", "2", "--parameters", f"{host}:{port}"]) == 0
    assert "FAILED" not in capsys.readouterr().out
    assert main([*common, "--clients", "5", "--parameters", f"{host}:{port}"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert [line for line in out if not line.startswith("ok: ")] == [
        "FAILED: clients of parameters is 2, here 5"
    ]


def test_many_questions_at_once(servers):
    """All are answered, and no connection is left open."""
    found = []

    def ask():
        found.extend(failures("client-0", servers.folder, **servers.places))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [] and "client-0" not in servers.nodes[PARAMETERS].peers
