"""A sum belongs to one order: its operator, its model and its size.

The parameter server runs in this process and adds up plain vectors, so that a test decides when
each party acts. Every client sends the model that it was given: the sum tells whose model it was.
"""

import socket
import threading
import time

import numpy as np
import pytest

from repro.secagg import Z64, ZP61, Client, Operator, RoundError, issue
from repro.secagg.certificates import PARAMETERS, context
from repro.secagg.channel import Channel
from repro.secagg.frames import Kind
from repro.secagg.parameter_server import ParameterServer

LIMIT = 30.0
OLD, NEW = np.array([111.0, 1.0]), np.array([222.0, 2.0])


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "made"
    issue(folder, servers=0, clients=2)
    return folder


class Group:
    """A parameter server and two clients; operators come and go."""

    def __init__(self, keys):
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()[:2]
        self.keys = keys
        self.node = ParameterServer(
            keys, listener, servers=0, clients=2, ring=Z64, time_limit=LIMIT
        )
        self.assembling = threading.Event()
        assemble = self.node._assemble
        self.node._assemble = lambda: self.assembling.set() or assemble()
        threading.Thread(target=self.node.run, daemon=True).start()
        self.clients = [
            Client(i, keys, servers=[], parameters=self.address, time_limit=LIMIT) for i in range(2)
        ]

    def operator(self):
        return Operator(self.keys, parameters=self.address, time_limit=LIMIT)

    def submit(self, client):
        """The next round of a client, which sends the model that it was given."""
        number, model = client.model(LIMIT)
        client.submit(number, [model.astype(np.uint64)])

    def whole_round(self, operator, model):
        """One round that works at the first attempt; its sum."""
        for party in (*self.clients, operator):
            party.connect()
        operator.start(2, Z64, model)
        for client in self.clients:
            self.submit(client)
        return operator.result()[1].tolist()

    def close(self):
        for client in self.clients:
            client.close()


@pytest.fixture
def group(keys):
    running = Group(keys)
    yield running
    running.close()


def restart(group, first, how):
    """The operator comes again; its first connection has ended, or is only forgotten."""
    if how == "closed":
        first.close()
    second = group.operator()
    second.connect()
    return second


@pytest.mark.parametrize("how", ["closed", "half-open"])
def test_a_sum_never_goes_to_an_operator_that_did_not_order_it(group, how):
    """The first operator leaves while a client is missing; that client comes when it is gone."""
    early, late = group.clients
    early.connect()
    first = group.operator()
    first.connect()
    first.start(2, Z64, OLD)
    assert group.assembling.wait(LIMIT)
    with restart(group, first, how) as second:
        late.connect()
        with pytest.raises(RoundError, match="operator (ended the|opened another) connection"):
            group.submit(early)
        assert group.whole_round(second, NEW) == [444, 4]
        assert group.whole_round(second, OLD) == [222, 2]
    first.close()


@pytest.mark.parametrize("how", ["closed", "half-open"])
@pytest.mark.parametrize("submitted", [0, 1])
def test_an_operator_that_is_restarted_in_mid_order_ends_its_round(group, how, submitted):
    """All clients are told, and the first order of the new operator works."""
    for client in group.clients:
        client.connect()
    first = group.operator()
    first.connect()
    first.start(2, Z64, OLD)
    given = [client.model(LIMIT) for client in group.clients]  # so the order has been taken
    for client, (number, model) in list(zip(group.clients, given, strict=True))[:submitted]:
        client.submit(number, [model.astype(np.uint64)])
    with restart(group, first, how) as second:
        for client in group.clients:
            with pytest.raises(RoundError, match="operator"):
                client.model(LIMIT)
        assert group.whole_round(second, NEW) == [444, 4]
    first.close()


def test_a_client_that_connects_when_the_next_round_has_begun_takes_part_in_it(group):
    """A client calls `connect` before each round; the operator does not wait for that."""
    with group.operator() as operator:
        assert group.whole_round(operator, OLD) == [222, 2]
        operator.start(2, Z64, NEW)
        for client in group.clients:
            link = client.channels[PARAMETERS]
            while link.quiet():
                time.sleep(0.005)
            client.connect()
            client.connect()  # what has come is kept
            assert client.channels[PARAMETERS] is link
            group.submit(client)
        assert operator.result()[1].tolist() == [444, 4]


def test_a_client_connects_anew_when_the_round_that_has_begun_has_failed(group):
    with group.operator() as operator:
        assert group.whole_round(operator, OLD) == [222, 2]
        operator.start(2, Z64, NEW)
        early, late = group.clients
        early.model(LIMIT)
        early.close()
        with pytest.raises(RoundError, match="client-0 ended the connection"):
            operator.result()
        link = late.channels[PARAMETERS]  # the model waits there, and the failure behind it
        assert group.whole_round(operator, NEW) == [444, 4]
        assert late.channels[PARAMETERS] is not link


def test_an_order_that_is_cut_short_is_refused(group):
    for client in group.clients:
        client.connect()
    with group.operator() as operator:
        operator.connect()
        operator.channels[PARAMETERS].send(Kind.START, 0, b"short")
        operator.channels[PARAMETERS].send(Kind.DONE)
        with pytest.raises(RoundError, match="operator sent an order of 5 bytes"):
            operator._answer(Kind.SUM, None)
        operator.close()
        assert group.whole_round(operator, NEW) == [444, 4]


# A parameter server played by the test -----------------------------------------------------------------


class Played:
    """What the parameter server's place receives and sends, as the test says."""

    def __init__(self, keys):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.keys, self.channel = keys, None

    def welcome(self):
        sock, _ = self.listener.accept()
        tls = context(self.keys, PARAMETERS, accepting=True)
        self.channel = Channel(sock, tls, PARAMETERS, None, LIMIT, lambda: 2**20)
        self.channel.handshake()
        self.channel.send(Kind.WELCOME)

    def order(self):
        """The digest of the next order."""
        start = self.channel.receive()
        assert (start.kind, self.channel.receive().kind) == (Kind.START, Kind.DONE)
        return start.digest


@pytest.fixture
def played(keys):
    place = Played(keys)
    waiting = threading.Thread(target=place.welcome, daemon=True)
    waiting.start()
    operator = Operator(keys, parameters=place.listener.getsockname()[:2], time_limit=LIMIT)
    operator.connect()
    waiting.join(LIMIT)
    yield place, operator
    operator.close()
    place.channel.close()
    place.listener.close()


def words(*numbers):
    return np.array(numbers, "<u8").tobytes()


def test_the_sum_of_the_order_is_taken(played):
    place, operator = played
    operator.start(2, Z64, NEW)
    place.channel.send(Kind.SUM, 1, place.order() + words(3, 4))
    number, total = operator.result()
    assert (number, total.tolist()) == (1, [3, 4])
    place.channel.send(Kind.SUM, 2, bytes(16) + words(3, 4))
    with pytest.raises(RoundError, match="parameters sent a sum while no order was open"):
        operator.result()


@pytest.mark.parametrize(
    ("again", "why"),
    [
        (lambda operator: operator.start(2, Z64, NEW), "the same size and model once more"),
        (lambda operator: operator.start(2, Z64, OLD), "another model"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_sum_of_another_order_is_refused(played, again, why):
    place, operator = played
    operator.start(2, Z64, NEW)
    stale = place.order()
    again(operator)
    assert place.order() != stale, why
    place.channel.send(Kind.SUM, 1, stale + words(3, 4))
    with pytest.raises(RoundError, match="parameters sent the sum of another order"):
        operator.result()
    assert not operator.channels


@pytest.mark.parametrize("numbers", [[], [3], [3, 4, 5]])
def test_a_sum_of_another_size_is_refused(played, numbers):
    place, operator = played
    operator.start(2, Z64, NEW)
    place.channel.send(Kind.SUM, 1, place.order() + words(*numbers))
    with pytest.raises(RoundError, match=r"a sum of \d+ bytes, where 32 were due|oversized frame"):
        operator.result()


def test_a_sum_outside_the_ring_is_refused(played):
    place, operator = played
    operator.start(1, ZP61, NEW)
    place.channel.send(Kind.SUM, 1, place.order() + words(2**61))
    with pytest.raises(RoundError, match="parameters sent no elements: sum must be in"):
        operator.result()


def test_an_operator_outlives_a_parameter_server_that_begins_at_round_1_again(group):
    """Its order tells which rounds it has seen."""
    operator = group.operator()
    operator._last = 500
    assert group.whole_round(operator, OLD) == (2 * OLD).tolist()
    assert operator._last == group.clients[0]._last == 501
    operator.close()


def test_a_client_outlives_a_parameter_server_that_begins_at_round_1_again(group):
    """It refuses an old number and tells its own: one round fails, the next one works."""
    operator = group.operator()
    group.clients[1]._last = 500
    with pytest.raises(RoundError, match="sent round 1, which does not follow 500"):
        group.whole_round(operator, OLD)
    with pytest.raises(RoundError, match="client-1: parameters sent round 1, which"):
        operator.result()
    assert group.whole_round(operator, NEW) == (2 * NEW).tolist()
    assert group.clients[0]._last == 501
    operator.close()
