"""Connections: both names proven, every kind of bad frame refused, all bytes counted."""

import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.secagg import issue
from repro.secagg.certificates import context, peer_name
from repro.secagg.channel import Channel, ChannelError, Ended
from repro.secagg.frames import (
    HEADER_BYTES,
    NOBODY,
    FrameError,
    Header,
    Kind,
    Order,
    Traffic,
    checksum,
)

PATIENCE = 20.0


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two authorities that know nothing of each other."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        issue(folder / name, servers=2, clients=2)
    return folder


def pair(keys, own="client-0", peer="server-1", *, called=None, limit=PATIENCE, theirs="ours"):
    """The two ends of a connection: the opening one (`own`) and the accepting one (`peer`)."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        left = socket.create_connection(listener.getsockname())
        right, _ = listener.accept()
    opening = left, context(keys / "ours", own, accepting=False), own, called or peer
    accepting = right, context(keys / theirs, peer, accepting=True), peer, None
    return Channel(*opening, limit), Channel(*accepting, limit, lambda: 2**20)


def shake(*channels):
    """Both handshakes at once; what they raise."""
    problems = {}

    def run(index, channel):
        try:
            channel.handshake()
        except ChannelError as problem:
            problems[index] = str(problem)
            channel.close()

    threads = [threading.Thread(target=run, args=one) for one in enumerate(channels)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


@pytest.fixture
def channels(keys):
    both = pair(keys)
    assert shake(*both) == {}
    yield both
    for channel in both:
        channel.close()


def test_frames_arrive_as_sent_and_every_byte_is_counted(channels):
    client, server = channels
    vector = np.arange(100_000, dtype=np.uint64)
    before = client.sent.wire, server.received.wire
    sender = threading.Thread(
        target=lambda: (client.send(Kind.KEY, 7, b"k" * 16), client.send(Kind.VECTOR, 8, vector))
    )
    sender.start()
    first, second = (server.receive(time.monotonic() + PATIENCE) for _ in range(2))
    sender.join()
    assert (first.kind, first.round, first.payload) == (Kind.KEY, 7, b"k" * 16)
    assert second.round == 8 and (np.frombuffer(second.payload, "<u8") == vector).all()
    assert client.sent.payload == server.received.payload == 800_016
    wire = client.sent.wire - before[0]
    assert wire == server.received.wire - before[1]
    records = 2 + sum(-(-size // 2**14) for size in (2**18, 2**18, 2**18, 800_000 - 3 * 2**18))
    assert wire == 800_016 + 2 * HEADER_BYTES + 22 * records  # 22 bytes a TLS record
    assert Traffic(3, 5) + Traffic(1, 2) - Traffic(2, 2) == Traffic(2, 5)


def test_both_sides_know_whom_they_talk_to(channels):
    client, server = channels
    assert (client.peer, server.peer) == ("server-1", "client-0")
    assert client.ends == server.ends == (0, 1)
    assert client._tls.version() == "TLSv1.3" and peer_name(client._tls) == "server-1"


@pytest.mark.parametrize("where", range(HEADER_BYTES + 16))
def test_a_frame_altered_in_any_byte_is_refused(channels, where):
    client, server = channels
    written = bytearray(frame(client, b"k" * 16))
    written[where] ^= 1
    client.write(bytes(written), memoryview(b""))
    with pytest.raises(ChannelError, match="altered frame|no frame of this protocol"):
        server.receive(time.monotonic() + PATIENCE)


def frame(channel, payload, **changes):
    """A frame as bytes, with other header fields than it should have."""
    header = Header.of(Kind.KEY, 1, channel.ends, channel.place, memoryview(payload))
    return header._replace(**changes).pack() + payload


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"length": 2**20 + 1}, r"oversized frame: 1048577 bytes, where 1048576 are allowed"),
        ({"length": 2**63}, "oversized frame"),
        ({"kind": Kind.OPENED}, "oversized frame: 16 bytes, where 0 are allowed"),
        ({"place": 1}, "replayed or left out a frame: number 1 .* where number 0 was due"),
        ({"client": 1}, "names client 1 and server 1"),
        ({"server": 0}, "names client 0 and server 0"),
        ({"client": NOBODY}, "names client 4294967295"),
        ({"kind": 99}, "unknown kind 99"),
        ({"digest": bytes(16)}, "altered frame: the payload's checksum differs"),
    ],
)
def test_a_frame_that_lies_is_refused(channels, changes, message):
    client, server = channels
    client.write(frame(client, b"k" * 16, **changes), memoryview(b""))
    with pytest.raises(ChannelError, match=message):
        server.receive(time.monotonic() + PATIENCE)


def test_a_frame_sent_twice_is_refused(channels):
    client, server = channels
    client.write(frame(client, b"k" * 16) * 2, memoryview(b""))
    assert server.receive(time.monotonic() + PATIENCE).payload == b"k" * 16
    with pytest.raises(ChannelError, match="replayed .* number 0 .* where number 1 was due"):
        server.receive(time.monotonic() + PATIENCE)


@pytest.mark.parametrize("cut", [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 15])
def test_a_frame_cut_short_is_told_from_an_end_between_frames(channels, cut):
    client, server = channels
    client.write(frame(client, b"k" * 16)[:cut], memoryview(b""))
    client.close()
    with pytest.raises(ChannelError, match="truncated frame") as caught:
        server.receive(time.monotonic() + PATIENCE)
    assert not isinstance(caught.value, Ended)


def test_an_end_between_frames(channels):
    client, server = channels
    assert server.quiet()
    client.close()
    with pytest.raises(Ended, match="client-0 ended the connection"):
        server.receive(time.monotonic() + PATIENCE)
    assert not server.quiet() and not client.quiet()


def test_a_thread_that_is_stopped_just_before_it_waits_sees_the_end(channels, monkeypatch):
    """By then the descriptor's number may be another connection's, which would be waited for without an end."""
    client, server = channels

    class Silent:
        """Another connection, on which nothing comes."""

        def register(self, sock, event):
            if sock.fileno() < 0:
                raise ValueError("closed")

        def poll(self, milliseconds):
            assert milliseconds <= 1000
            server.close()
            return []

    monkeypatch.setattr("repro.secagg.channel.select.poll", Silent)
    with pytest.raises(ChannelError, match="was closed"):
        server.receive()


def test_a_peer_that_stops_in_a_frame_runs_into_the_limit(channels):
    client, server = channels
    server.time_limit = 0.3
    client.write(frame(client, b"k" * 16)[:70], memoryview(b""))
    with pytest.raises(ChannelError, match="client-0 was too slow: it did not send in time"):
        server.receive()  # no limit before the frame begins
    with pytest.raises(ChannelError, match="too slow"):
        server.receive(time.monotonic() + 0.05)  # nothing begins


def test_a_peer_that_does_not_read_runs_into_the_limit(channels):
    client, _ = channels
    client.time_limit = 0.3
    with pytest.raises(ChannelError, match="server-1 was too slow: it did not take in time"):
        client.send(Kind.VECTOR, 1, bytes(2**24))


# Who is who ---------------------------------------------------------------------------------------


def test_a_certificate_of_another_authority_is_refused_by_either_side(keys):
    problems = shake(*pair(keys, theirs="theirs"))
    assert "server-1 did not prove its name: CERTIFICATE_VERIFY_FAILED" in problems[0]
    left, right = pair(keys)
    stranger = context(keys / "theirs", "client-0", accepting=False)
    stranger.load_verify_locations(keys / "ours" / "authority.pem")
    left = Channel(left._sock, stranger, "client-0", "server-1", PATIENCE)
    problems = shake(left, right)
    assert "the caller did not prove its name: CERTIFICATE_VERIFY_FAILED" in problems[1]
    if not problems.get(0):  # TLS 1.3 tells the caller with the first frame it waits for
        with pytest.raises(ChannelError, match="UNKNOWN_CA"):
            left.receive(time.monotonic() + PATIENCE)


def test_a_server_cannot_pass_for_another(keys):
    problems = shake(*pair(keys, peer="server-0", called="server-1"))
    assert "server-1 did not prove its name: CERTIFICATE_VERIFY_FAILED" in problems[0]


@pytest.mark.parametrize("name", ["client-1", "operator"])
def test_a_client_cannot_pass_for_a_server_with_its_certificate(keys, name):
    """Even if its name were the one that was called: it is good for opening connections only."""
    problems = shake(*pair(keys, peer=name, called=name))
    assert "did not prove its name: CERTIFICATE_VERIFY_FAILED" in problems[0]


def test_the_parameter_server_cannot_pass_for_a_client(keys):
    problems = shake(*pair(keys, own="parameters"))
    assert "the caller did not prove its name: CERTIFICATE_VERIFY_FAILED" in problems[1]


def test_a_caller_without_tls_is_refused(keys):
    left, right = pair(keys)
    left._sock.send(b"GET / HTTP/1.1\r\n\r\n" * 3)
    with pytest.raises(ChannelError, match="the caller did not prove its name"):
        right.handshake()


def test_certificates_are_private_and_never_overwritten(keys, tmp_path):
    for path in (keys / "ours").iterdir():
        assert path.stat().st_mode & 0o077 == 0
    assert {path.name for path in (keys / "ours").iterdir()} == {
        "authority.pem",
        "parameters.pem",
        "operator.pem",
        "server-0.pem",
        "server-1.pem",
        "client-0.pem",
        "client-1.pem",
    }
    assert b"PRIVATE KEY" not in (keys / "ours" / "authority.pem").read_bytes()
    with pytest.raises(FileExistsError):
        issue(keys / "ours", servers=2, clients=2)
    with pytest.raises(ValueError, match="folder must hold client-7.pem"):
        context(keys / "ours", "client-7", accepting=False)
    (tmp_path / "client-0.pem").write_text("nothing")
    (tmp_path / "authority.pem").write_text("nothing")
    with pytest.raises(ValueError, match="must hold certificates"):
        context(tmp_path, "client-0", accepting=False)
    for bad in ({"servers": 1}, {"clients": 0}, {"days": 0}, {"days": 1e9}):
        (name,) = bad
        with pytest.raises(ValueError, match=name):
            issue(tmp_path / name, **{"servers": 2, "clients": 2, **bad})


@pytest.mark.parametrize("there", ["authority.pem", "client-1.pem"])
def test_a_folder_with_any_of_the_files_is_left_as_it_was(tmp_path, there):
    """The first files were once written before the one that was there stopped it: a mixed folder."""
    (tmp_path / there).write_text("older")
    with pytest.raises(FileExistsError, match=f"folder must hold none of the files, got .*{there}"):
        issue(tmp_path, servers=2, clients=2)
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "older"


def test_a_folder_that_everybody_may_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError, match="folder must not be writable by everybody"):
        issue(tmp_path, servers=2, clients=2)
    assert not list(tmp_path.iterdir())


# Headers ------------------------------------------------------------------------------------------

numbers32, numbers64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


@given(
    st.builds(
        Header,
        kind=st.sampled_from(list(Kind)),
        round=numbers64,
        client=numbers32,
        server=numbers32,
        place=numbers64,
        length=numbers64,
        digest=st.binary(min_size=16, max_size=16),
    )
)
def test_headers_survive_the_round_trip(header):
    written = header.pack()
    assert len(written) == HEADER_BYTES and Header.unpack(written) == header


@given(st.binary(max_size=40), st.integers(0, 39), st.integers(1, 255))
def test_checksums_see_every_change(payload, where, change):
    if payload:
        altered = bytearray(payload)
        altered[where % len(payload)] ^= change
        assert checksum(altered) != checksum(payload)


def test_orders_name_what_is_wrong_with_them():
    modulus = 2**61 - 1
    assert Order.unpack(Order(5, modulus).pack() + b"model", modulus) == Order(5, modulus)
    assert Order.unpack(Order(5, 2**64).pack(), 2**64).modulus == 2**64
    for payload, message in [
        (b"short", "an order of 5 bytes"),
        (Order(0, modulus).pack(), "an order for 0 elements"),
        (Order(2**40, modulus).pack(), "an order for 1099511627776 elements"),
        (Order(5, 2**64).pack(), "an order modulo 18446744073709551616, where 2305843009213693951"),
    ]:
        with pytest.raises(FrameError, match=message):
            Order.unpack(payload, modulus)
