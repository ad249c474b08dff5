"""One party acts for many clients, over one connection for each server."""

import queue
import re
import threading

import numpy as np
import pytest

from repro.secagg import Z32, Z64, ZP61, FixedPoint, RoundError
from repro.secagg.certificates import carried, client_links
from repro.secagg.frames import TOGETHER, Kind
from repro.secagg.hosted import HostedClients
from repro.secagg.shares import add_expanded
from secure_sums import LIMIT, Servers
from tampering import again, relabelled, tamper, until_refused

CLIENTS, LINKS, SIZE = 101, 2, 70
MODEL = np.array([1.0, 2.0])
VALUES = np.random.default_rng(0).uniform(-1.0, 1.0, (CLIENTS, SIZE))


class Group:
    """Servers, and two parties that act for 50 and 51 clients."""

    def __init__(self, folder, ring):
        self.encoding = FixedPoint(bits=20, ring=ring)
        self.servers = Servers(folder, clients=CLIENTS, links=LINKS, ring=ring)
        same = {"clients": CLIENTS, "links": LINKS, "time_limit": LIMIT, **self.servers.places}
        self.reasons = queue.Queue()
        for node in self.servers.nodes.values():
            node.log = lambda text, name=node.name: self.reasons.put(f"{name}: {text}")
        self.parties = [HostedClients(k, folder, **same) for k in range(LINKS)]

    def batches(self, clients, together=20):
        encoded = self.encoding.encode(VALUES[clients.start : clients.stop], clients=CLIENTS)
        return np.array_split(encoded, range(together, len(clients), together))

    def round(self, give=None):
        def all_of_them(party, number):
            party.submit(number, self.batches(party.clients), self.servers.ring)

        return self.servers.round(self.parties, give or all_of_them, SIZE, MODEL)

    def good_round(self):
        total = self.round()
        exact = np.rint(VALUES * self.encoding.scale).astype(np.int64).sum(axis=0)
        assert self.encoding.ring.centre(total).tolist() == exact.tolist()

    def fails(self, message, give=None):
        """The round fails, for this reason that a server logs; the next is right again.

        A party with more to send may see first that its connection has ended, so the operator is
        told of one or the other.
        """
        while not self.reasons.empty():
            self.reasons.get()
        with pytest.raises(RoundError):
            self.round(give)
        seen = []
        while not re.search(message, "\n".join(seen)):
            try:
                seen.append(self.reasons.get(timeout=LIMIT))
            except queue.Empty:
                pytest.fail(f"no server gave the reason {message}: {seen}")
        self.good_round()


@pytest.fixture(scope="module", params=[Z32, Z64, ZP61], ids=str)
def running(request, tmp_path_factory):
    group = Group(tmp_path_factory.mktemp("keys") / "made", request.param)
    yield group
    for party in (*group.parties, group.servers.operator):
        party.close()


@pytest.fixture
def group(running):
    running.good_round()  # all connections are open
    return running


def test_links_cover_all_clients_once():
    assert list(client_links(7, 3).values()) == [range(2), range(2, 4), range(4, 7)]
    assert list(client_links(2)) == ["client-0", "client-1"]
    for name, whose in {**client_links(1000, 7), **client_links(3)}.items():
        assert carried(name) == whose
    assert [len(carried(name)) for name in ("operator", "parameters", "server-3")] == [0, 0, 0]
    for bad in (0, 8, 1.5, True):
        with pytest.raises(ValueError, match="links must be an integer"):
            client_links(7, bad)


def test_sums_of_hosted_clients_are_exact(group):
    total, seen = group.round(), []
    for party in group.parties:
        at = party.clients

        def reports(number, party=party, at=at):
            party.submit(number, group.batches(at), group.servers.ring, seen.append)

        party.report = reports
    assert (group.round(lambda party, number: party.report(number)) == total).all()
    assert seen == [20, 40, 50, 20, 40, 51]


def test_what_servers_add_is_what_the_keys_expand_to(group):
    """Both sides: the sum of a server over its clients, from the keys as the party sent them."""
    ring, sent = group.servers.ring, {j: [] for j in range(3)}
    for party in group.parties:
        for j in range(3):

            def keep(header, body, write=party.channels[f"server-{j}"].write, j=j):
                sent[j].append(bytes(body))
                write(header, body)

            party.channels[f"server-{j}"].write = keep
    sums = {}
    centre = group.servers.nodes["parameters"]
    checked = centre._checked

    def note(name, payload):
        sums[name] = checked(name, payload)
        return sums[name]

    centre._checked = note
    group.round()
    centre._checked = checked
    for j in range(2):
        total = np.zeros(SIZE, ring.dtype)
        for payload in sent[j]:
            if len(payload) != 32:  # its DONE
                for begin in range(0, len(payload), 16):
                    add_expanded(total, payload[begin : begin + 16], ring)
        assert (total == sums[f"server-{j}"]).all()
    keys = {
        p[i : i + 16]
        for j in range(2)
        for p in sent[j]
        if len(p) != 32
        for i in range(0, len(p), 16)
    }
    assert len(keys) == 2 * CLIENTS  # none was used twice


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (Kind.KEY, lambda f, link: f[:70] + bytes([f[70] ^ 1]) + f[71:], "sent an altered frame"),
        (Kind.KEY, lambda f, link: f + again(link, f), "sent a second share for round"),
        (Kind.KEY, lambda f, link: f + f, "replayed or left out a frame"),
        (
            Kind.KEY,
            lambda f, link: b"",
            "sent a DONE for round .* without a share|left out a frame",
        ),
        (Kind.KEY, lambda f, link: relabelled(f, client=50), "names client 50 and server 0"),
        (Kind.KEY, lambda f, link: relabelled(f, client=2**32 - 1), "share of 320 bytes"),
        (
            Kind.KEY,
            lambda f, link: relabelled(f, client=31),
            "share of 320 bytes in place of 16 for",
        ),
        (
            Kind.KEY,
            lambda f, link: relabelled(f, f[60:-1]),
            "share of 319 bytes in place of 16 for",
        ),
        (Kind.KEY, lambda f, link: relabelled(f, b""), "share of 0 bytes in place of 16 for"),
        (Kind.KEY, lambda f, link: relabelled(f, round=1), "a share for round 1 in round"),
        (Kind.KEY, lambda f, link: relabelled(f, bytes(TOGETHER + 1)), "an oversized frame"),
        (Kind.DONE, lambda f, link: f + again(link, f), "server-0"),
        (Kind.KEY, lambda f, link: link.close() or b"", "clients-0-49 (sent|ended)"),
        (Kind.DONE, lambda f, link: link.close() or b"", "clients-0-49 ended the connection"),
    ],
)
def test_faults_end_the_round(group, kind, change, message):
    """As for clients with connections of their own; the next round is right."""
    link = group.parties[0].channels["server-0"]
    tamper(link, lambda frame: change(frame, link), kind)
    if kind == Kind.DONE and "ended" not in message:
        try:  # the second DONE ends a round that is still open, and else the connection
            group.round()
        except RoundError as problem:
            assert "sent a second DONE" in str(problem) or "which is over" in str(problem)
        until_refused(link)
        group.good_round()
    else:
        group.fails(message)


def test_shares_beyond_the_own_clients_after_those_of_the_other_party(group):
    """They are no second shares of that party's clients."""
    server, added = group.servers.nodes["server-0"], threading.Event()
    add = server._add

    def noting(name, frame):
        add(name, frame)
        if name == "clients-50-100":
            added.set()

    def late(frame):
        assert added.wait(LIMIT)
        return relabelled(frame, client=31)

    def other_way_round(party, number):
        if party is group.parties[1]:
            for one in reversed(group.parties):
                one.submit(number, group.batches(one.clients), group.servers.ring)

    server._add = noting
    tamper(group.parties[0].channels["server-0"], late, Kind.KEY)
    try:
        group.fails("clients-0-49 sent a share of 320 bytes in place of 16 for", other_way_round)
    finally:
        server._add = add


def test_a_share_in_place_of_several_vectors(group):
    link = group.parties[1].channels["server-2"]
    tamper(link, lambda frame: relabelled(frame, frame[60:-1]), Kind.VECTOR)
    group.fails(
        "server-2: round .* clients-50-100 sent a share of .* in place of .* for each of its clients"
    )


@pytest.mark.parametrize("count", [49, 51])
def test_batches_that_are_not_the_clients(group, count):
    """The party is told, and no sum is made of the part that was sent."""

    def wrong(party, number):
        if party is group.parties[0]:
            with pytest.raises(ValueError, match="batches must hold .* in all"):
                party.submit(number, group.batches(range(count)), group.servers.ring)

    group.fails("clients-0-49 ended the connection", wrong)


def test_memory_holds_a_few_batches(tmp_path):
    party = HostedClients.__new__(HostedClients)
    assert party.together(100_000, Z32) == 20 and party.together(2**22, Z64) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"number": 2}, r"number must be in \[0, 1\]"),
        ({"servers": []}, "servers must be at least two"),
        ({"links": 0}, "links must be an integer"),
        ({"clients": 0}, "clients must be an integer"),
    ],
)
def test_what_makes_no_party(running, changes, message):
    given = {"number": 0, "clients": CLIENTS, "links": LINKS, **running.servers.places, **changes}
    with pytest.raises(ValueError, match=message):
        HostedClients(given.pop("number"), running.servers.folder, **given)
