"""What a party sends twice ends the round whenever it is read; and everything about DONE.

The servers run in this process, so that a test decides when they read: a second copy is read only
when all that the others send has been acted on, which is the latest moment there is.
"""

import socket
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from repro.secagg import Z64, RoundError, Session, issue
from repro.secagg.certificates import PARAMETERS, client_name, server_names
from repro.secagg.channel import connect
from repro.secagg.frames import Kind
from repro.secagg.parameter_server import ParameterServer
from repro.secagg.server import IntermediateServer
from tampering import again, hush, relabelled, tamper, until_refused

CLIENTS, LIMIT = 3, 30.0
VALUES = np.array([[1.5, -2.25, 1e-10], [-0.1, 0.7, 1e6], [3.0, 0.0, -1e6]])
FIRST, LAST = 0, CLIENTS - 1


class Group:
    """A session, and its servers as threads; `attacked` is the one that the tests pick on."""

    def __init__(self, folder, servers):
        names = server_names(servers)
        issue(folder, servers=servers, clients=CLIENTS)
        listeners = {n: socket.create_server(("127.0.0.1", 0)) for n in (PARAMETERS, *names)}
        at = {name: listener.getsockname()[:2] for name, listener in listeners.items()}
        common = {"clients": CLIENTS, "ring": Z64, "time_limit": LIMIT}
        self.nodes = {
            PARAMETERS: ParameterServer(folder, listeners[PARAMETERS], servers=servers, **common)
        }
        for j, name in enumerate(names):
            self.nodes[name] = IntermediateServer(
                j, folder, listeners[name], parameters=at[PARAMETERS], **common
            )
        for node in self.nodes.values():
            threading.Thread(target=node.run, daemon=True).start()
        self.attacked = self.nodes[names[-1] if names else PARAMETERS]
        self.sharing = bool(names)
        self.session = Session(
            folder,
            servers=[at[name] for name in names],
            parameters=at[PARAMETERS],
            clients=CLIENTS,
            time_limit=LIMIT,
        )

    def link(self, client):
        """The client's connection with the attacked server."""
        return self.session.clients[client].channels[self.attacked.name]

    def good_round(self):
        done = self.session.round(VALUES)
        np.testing.assert_allclose(done.total, VALUES.sum(axis=0), rtol=0, atol=2e-10)

    def fails(self, sharing, plain):
        """A round fails with this error, with servers or without; the next is right again."""
        message = sharing if self.sharing else plain
        with pytest.raises(RoundError, match=message):
            self.session.round(VALUES)
        self.good_round()


@pytest.fixture(scope="module", params=[2, 0], ids=["shares", "plain"])
def running(request, tmp_path_factory):
    group = Group(tmp_path_factory.mktemp("keys") / "made", request.param)
    yield group
    group.session.close()


@pytest.fixture
def group(running):
    running.good_round()  # all connections are open
    return running


@contextmanager
def read_last(group, client):
    """What `client` sends after its share is read when all of the others' has been acted on."""
    node, name, everything = group.attacked, client_name(client), 2 * (CLIENTS - 1)
    channel, acted = node.peers[name], threading.Event()
    receive, following, due, count = channel.receive, node.next, channel._due, 0

    def late(deadline=None):
        if channel._due > due:
            acted.wait(LIMIT)
        return receive(deadline)

    def counting(deadline=None):
        nonlocal count
        if count == everything:
            acted.set()
        whose, frame = following(deadline)
        count += frame is not None and whose.startswith("client-") and whose != name
        return whose, frame

    channel.receive, node.next = late, counting
    try:
        yield
    finally:
        del node.next
        acted.set()


def test_late_reading_alone_does_no_harm(group):
    for client in (FIRST, LAST):
        with read_last(group, client):
            group.good_round()


@pytest.mark.parametrize("client", [FIRST, LAST])
@pytest.mark.parametrize(
    ("twice", "sharing", "plain"),
    [
        (
            lambda link, frame: frame + frame,
            "server-1: client-{} replayed or left out a frame",
            "client-{} replayed or left out a frame",
        ),
        (
            lambda link, frame: frame + again(link, frame),
            "server-1: client-{} sent a second share for round",
            "client-{} sent VECTOR for round .* where DONE of round",
        ),
    ],
    ids=["bytes", "in order"],
)
def test_a_duplicate_ends_the_round_however_late_it_is_read(group, client, twice, sharing, plain):
    for _ in range(5):
        link = group.link(client)
        tamper(link, lambda frame: twice(link, frame))  # noqa: B023 - used before the next turn
        with read_last(group, client):
            group.fails(sharing.format(client), plain.format(client))


@pytest.mark.parametrize("client", [FIRST, LAST])
def test_a_duplicate_over_another_connection_ends_the_round(group, client):
    """Nobody waits for it to be refused; to be let in is enough."""
    party = group.session.clients[client]
    server = group.attacked.name
    opened = []

    def twice(frame):
        group.link(client).write(frame, memoryview(b""))
        opened.append(connect(party._addresses[server], party._context, party.name, server, LIMIT))
        return b""

    tamper(group.link(client), twice)
    expected = f"client-{client} opened another connection"
    group.fails(f"server-1: {expected}", expected)
    opened[0].close()


def test_a_share_after_done_ends_the_round_while_it_is_open(group):
    link = group.link(FIRST)
    shares = []
    tamper(link, lambda frame: shares.append(frame) or frame)

    def and_a_share(frame):
        link.write(frame + again(link, shares[0]), memoryview(b""))
        until_refused(link)

    tamper(link, and_a_share, Kind.DONE)
    group.fails("client-0 sent a second share", "client-0 sent VECTOR .* where nothing was due")


def test_a_second_done_ends_the_round_while_it_is_open(group):
    link = group.link(FIRST)

    def twice(frame):
        link.write(frame + again(link, frame), memoryview(b""))
        until_refused(link)

    tamper(link, twice, Kind.DONE)
    group.fails("client-0 sent a second DONE", "client-0 sent DONE .* where nothing was due")


@pytest.mark.parametrize("kind", [Kind.VECTOR, Kind.DONE])
def test_what_comes_when_the_round_is_over_changes_nothing(group, kind):
    """After the last DONE, a second share or DONE costs the connection, and nothing else."""
    link = group.link(LAST)
    frames = []
    tamper(link, lambda frame: frames.append(frame) or frame)

    def one_more(frame):
        return frame + again(link, frame if kind == Kind.DONE else frames[0])

    tamper(link, one_more, Kind.DONE)
    with read_last(group, LAST):
        group.good_round()
    until_refused(link)
    group.good_round()


@pytest.mark.parametrize(
    ("kind", "change", "sharing", "plain"),
    [
        (
            Kind.VECTOR,
            lambda frame: relabelled(frame, b"", kind=Kind.DONE),
            r"client-1 sent a DONE for round \d+ without a share",
            r"client-1 sent DONE for round \d+, where VECTOR of round",
        ),
        (
            Kind.DONE,
            lambda frame: relabelled(frame, round=999),
            r"client-1 sent a DONE for round 999 in round \d+",
            r"client-1 sent DONE for round 999, where DONE of round",
        ),
        (
            Kind.DONE,
            lambda frame: relabelled(frame, bytes(33)),
            "client-1 sent an oversized frame: 33 bytes, where 32 are allowed",
            "client-1 sent an oversized frame: 33 bytes, where 0 are allowed",
        ),
        (
            Kind.DONE,
            lambda frame: relabelled(frame, b"12345"),
            "client-1 sent a DONE of 5 bytes without a digest",
            "client-1 sent an oversized frame: 5 bytes, where 0 are allowed",
        ),
    ],
    ids=["without a share", "of another round", "with a payload", "with a part of a digest"],
)
def test_a_done_that_is_out_of_order(group, kind, change, sharing, plain):
    tamper(group.link(1), change, kind)
    group.fails(sharing, plain)


@pytest.mark.parametrize("client", [FIRST, LAST])
def test_a_client_that_goes_between_its_share_and_its_done(group, client):
    """Nobody counts it, wherever its share had arrived."""
    link = group.link(client)
    tamper(link, lambda frame: link.close() or b"", Kind.DONE)
    expected = f"client-{client} ended the connection"
    group.fails(f"server-1: {expected}", expected)


def test_a_client_that_goes_after_its_done(group):
    link = group.link(FIRST)

    def gone(frame):
        link.write(frame, memoryview(b""))
        link.close()

    tamper(link, gone, Kind.DONE)
    group.good_round()
    group.good_round()


def test_a_client_that_comes_again_after_its_done(group):
    """While the round is open: what is it about to send?"""
    party, server, opened = group.session.clients[FIRST], group.attacked.name, []

    def come_again(frame):
        group.link(FIRST).write(frame, memoryview(b""))
        opened.append(connect(party._addresses[server], party._context, party.name, server, LIMIT))
        return b""

    tamper(group.link(FIRST), come_again, Kind.DONE)
    group.fails("client-0 opened another connection", "client-0 opened another connection")
    opened[0].close()


@contextmanager
def time_up(node, due):
    """The time limit passes when the node has acted on `due` frames of clients; nobody waits."""
    following, count = node.next, 0

    def counting(deadline=None):
        nonlocal count
        if count == due:
            deadline, count = 0.0, count + 1  # once
        whose, frame = following(deadline)
        count += frame is not None and whose.startswith("client-")
        return whose, frame

    node.next = counting
    try:
        yield
    finally:
        del node.next


def test_a_silence_says_what_lacks(group):
    """A share, or only the DONE: named for each client that is late."""
    hush(group.link(0))
    tamper(group.link(1), lambda frame: hush(group.link(1)) or b"", Kind.DONE)
    with time_up(group.attacked, due=3):  # a share of client 1, and both of client 2
        group.fails(
            "server-1: no share of client-0, no DONE of client-1 came within 30 s",
            "client-0 sent no VECTOR, client-1 sent no DONE within 60 s",
        )


def test_half_of_a_frame_and_then_nothing(group):
    link = group.link(1)
    group.attacked.peers["client-1"].time_limit = 0.2  # from the first byte to the last

    def half(frame):
        link.write(frame[:40], memoryview(b""))
        hush(link)

    tamper(link, half)
    slow = "client-1 was too slow: it did not send in time"
    group.fails(f"server-1: {slow}", slow)
