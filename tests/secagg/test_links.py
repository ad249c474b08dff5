"""Links that die without an end, peers that do not read, floods of callers: service goes on."""

import errno
import socket
import threading
import time
import tracemalloc

import numpy as np
import psutil
import pytest

from repro.secagg import Z64, Client, Cluster, Operator, RoundError, Session, issue, node
from repro.secagg.certificates import PARAMETERS, context, server_names
from repro.secagg.channel import Channel, ChannelError, connect, remaining
from repro.secagg.frames import Frame, Header, Kind
from repro.secagg.parameter_server import ParameterServer
from repro.secagg.server import IntermediateServer

LIMIT, SHORT_LIMIT = 30.0, 2.0
VALUES = np.array([[1.5, -2.25], [-0.5, 0.75]])
TOTAL = VALUES.sum(axis=0).tolist()


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Certificates of a group with two servers, and of a group with none."""
    folder = tmp_path_factory.mktemp("keys")
    for name, servers in (("shares", 2), ("plain", 0)):
        issue(folder / name, servers=servers, clients=2)
    return folder


def until_right(session):
    """Rounds until one works: a group that has lost a link needs a few."""
    end = time.monotonic() + 60
    while True:
        try:
            done = session.round(VALUES)
        except RoundError as problem:
            assert time.monotonic() < end, f"service did not go on: {problem}"
        else:
            assert done.total.tolist() == TOTAL
            return


# Links that die without an end ------------------------------------------------------------------------


class Proxy:
    """Hands bytes on until it is told to swallow; then its connections stay open, and are silent."""

    def __init__(self, target):
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()[:2]
        self._swallows = threading.Event()
        self.calls = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow(self):
        """From now on nothing comes through the connections of today, not even their end."""
        self._swallows.set()
        self._swallows = threading.Event()

    def _accept(self):
        while True:
            near, _ = self._listener.accept()
            self.calls += 1
            far = socket.create_connection(self._target)
            for pair in ((near, far), (far, near)):
                threading.Thread(
                    target=self._pump, args=(*pair, self._swallows), daemon=True
                ).start()

    def _pump(self, source, target, swallows):
        while data := source.recv(2**16):
            if not swallows.is_set():
                target.sendall(data)
        if not swallows.is_set():
            target.close()


class Group:
    """Two servers in this process; the link of server 1 with the parameter server is a proxy's."""

    def __init__(self, folder, limit):
        names = server_names(2)
        listeners = {n: socket.create_server(("127.0.0.1", 0)) for n in (PARAMETERS, *names)}
        at = {name: listener.getsockname()[:2] for name, listener in listeners.items()}
        self.proxy = Proxy(at[PARAMETERS])
        common = {"clients": 2, "ring": Z64, "time_limit": limit}
        nodes = [ParameterServer(folder, listeners[PARAMETERS], servers=2, **common)]
        for j, place in enumerate((at[PARAMETERS], self.proxy.address)):
            nodes.append(
                IntermediateServer(j, folder, listeners[names[j]], parameters=place, **common)
            )
        for one in nodes:
            threading.Thread(target=one.run, daemon=True).start()
        self.session = Session(
            folder,
            servers=[at[name] for name in names],
            parameters=at[PARAMETERS],
            clients=2,
            time_limit=limit,
        )


def test_a_half_open_link_of_a_server_is_replaced(keys):
    """The server asks whether the silent parameter server is there, and opens another link."""
    group = Group(keys / "shares", SHORT_LIMIT)
    with group.session as session:
        until_right(session)
        group.proxy.swallow()  # a round over the old link gets no further than its opening
        until_right(session)
    assert group.proxy.calls >= 2


def pair(folder, limits):
    """The two ends of a connection between client 0 and server 1, after the handshake."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        left = socket.create_connection(listener.getsockname())
        right, _ = listener.accept()
    ends = (
        Channel(left, context(folder, "client-0", accepting=False), "client-0", "server-1", limits),
        Channel(right, context(folder, "server-1", accepting=True), "server-1", None, limits),
    )
    threads = [threading.Thread(target=end.handshake) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def test_a_silent_peer_is_asked_and_answers(keys):
    """A peer that reads answers without the knowledge of who uses its end of the connection."""
    asking, asked = pair(keys / "shares", LIMIT)
    asking.probe_after = 0.01
    probed, frames = threading.Event(), []
    send = asked.send
    asked.send = lambda kind, *rest: send(kind, *rest) or probed.set()
    reader = threading.Thread(target=lambda: frames.append(asked.receive()), daemon=True)
    waiter = threading.Thread(target=lambda: frames.append(asking.receive()), daemon=True)
    for thread in (reader, waiter):
        thread.start()
    assert probed.wait(LIMIT)
    asked.send(Kind.KEY, 1, b"a")
    waiter.join(LIMIT)
    asking.send(Kind.KEY, 2, b"b")
    reader.join(LIMIT)
    assert [(frame.round, frame.payload) for frame in frames] == [(1, b"a"), (2, b"b")]
    for end in (asking, asked):
        end.close()


def test_a_peer_that_does_not_answer_is_taken_for_dead(keys):
    asking, asked = pair(keys / "shares", 0.2)
    asking.probe_after = 0.01
    with pytest.raises(ChannelError, match="server-1 is silent: it did not answer within 0.2 s"):
        asking.receive()
    with pytest.raises(ChannelError, match="server-1 was too slow: it did not send in time"):
        asking.receive(time.monotonic() + 0.05)  # a deadline of the caller's says so itself
    for end in (asking, asked):
        end.close()


def test_the_system_watches_over_every_connection(keys):
    """Unanswered bytes and silence end a connection, also where no frame is due."""
    for limit, idle in ((LIMIT, 30), (0.2, 1), (1e9, 32767)):
        for end in pair(keys / "shares", limit):
            assert end._sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            expected = {
                "TCP_KEEPIDLE": idle,
                "TCP_KEEPINTVL": max(1, idle // 3),
                "TCP_KEEPCNT": 3,
                "TCP_USER_TIMEOUT": 2000 * idle,
            }
            for name, value in expected.items():
                if option := getattr(socket, name, None):
                    assert end._sock.getsockopt(socket.IPPROTO_TCP, option) == value, name
            end.close()


# One parameter server, in this process ----------------------------------------------------------------


class Plain:
    """A parameter server that adds up the vectors of two clients."""

    def __init__(self, folder, limit, listener=None, address=None):
        listener = listener or socket.create_server(("127.0.0.1", 0), backlog=512)
        self.folder, self.address = folder, address or listener.getsockname()[:2]
        settings = {"servers": 0, "clients": 2, "ring": Z64, "time_limit": limit}
        self.server = ParameterServer(folder, listener, **settings)
        threading.Thread(target=self.server.run, daemon=True).start()

    def session(self):
        return Session(
            self.folder, servers=[], parameters=self.address, clients=2, time_limit=LIMIT
        )

    def call(self):
        """A caller without a certificate that says nothing."""
        caller = socket.create_connection(self.address)
        caller.settimeout(LIMIT)
        return caller


def test_a_client_that_does_not_read_its_model_ends_the_round(keys):
    """The parameter server gives up on the write, names the client, and serves the next order."""
    plain = Plain(keys / "plain", LIMIT)
    places = {"parameters": plain.address, "time_limit": LIMIT}
    clients = [Client(i, keys / "plain", servers=[], **places) for i in range(2)]
    with Operator(keys / "plain", **places) as operator, clients[0], clients[1]:
        for party in (operator, *clients):
            party.connect()
        clients[0].channels[PARAMETERS]._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.server.peers["client-0"].time_limit = 0.3
        operator.start(2, Z64, np.zeros(2**22))
        with pytest.raises(RoundError, match="client-0 was too slow: it did not take in time"):
            operator.result()
    with plain.session() as session:
        until_right(session)


# Floods -----------------------------------------------------------------------------------------------


def test_a_flood_of_idle_callers_is_cut_and_rounds_go_on(keys):
    """The oldest handshakes make room at once: nobody waits for their time limit."""
    before = threading.active_count()
    plain = Plain(keys / "plain", 600.0)
    callers = [plain.call() for _ in range(400)]
    for caller in callers[:300]:
        assert caller.recv(1) == b""
    end = time.monotonic() + LIMIT  # a thread lives on for a moment after its caller is gone
    while threading.active_count() - before >= 100:
        assert time.monotonic() < end, "threads of callers that are gone live on"
        time.sleep(0.02)
    with plain.session() as session:
        until_right(session)
    for caller in callers:
        caller.close()


def test_a_handshake_has_a_time_limit(keys):
    plain = Plain(keys / "plain", 0.3)
    with plain.call() as caller:
        assert caller.recv(1) == b""


def test_no_thread_for_a_caller_costs_that_caller_only(keys, monkeypatch):
    plain, start, failures = Plain(keys / "plain", LIMIT), threading.Thread.start, []

    def scarce(thread):
        target = getattr(thread, "_target", None)
        if getattr(target, "__module__", "").startswith("repro.secagg") and len(failures) < 3:
            failures.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", scarce)
        for _ in range(3):
            with plain.call() as caller:
                assert caller.recv(1) == b""
        with plain.session() as session:
            until_right(session)
    assert len(failures) == 3


def test_no_descriptor_for_a_caller_costs_idle_callers_only(keys):
    """The parameter server may open ten more files; a hundred idle callers hold what there is."""
    with Cluster(clients=2, servers=0, time_limit=LIMIT) as cluster:
        until_right(cluster.session)
        server = psutil.Process(cluster.processes[PARAMETERS].pid)
        most = server.num_fds() + 10
        server.rlimit(psutil.RLIMIT_NOFILE, (most, most))
        address = cluster.session.operator._addresses[PARAMETERS]
        callers = [socket.create_connection(address) for _ in range(100)]
        cluster.session.close()
        until_right(cluster.session)
        for caller in callers:
            caller.close()


def test_a_listener_out_of_descriptors_is_asked_again(keys):
    """Also when no handshake is under way that could make room."""
    real = socket.create_server(("127.0.0.1", 0))
    failures = [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED]

    class Scarce:
        def accept(self):
            if failures:
                raise OSError(failures.pop(), "no descriptor")
            return real.accept()

    with Plain(keys / "plain", LIMIT, Scarce(), real.getsockname()[:2]).session() as session:
        until_right(session)
    assert not failures


def test_a_server_that_runs_twice_does_not_wear_out_the_parameter_server(keys, monkeypatch):
    """Each copy ends the other's link: so a server waits before it opens the next one."""
    listener, enough = socket.create_server(("127.0.0.1", 0)), threading.Event()
    callers, earliest = [], []  # threads; when each next attempt may begin

    def counting(*arguments):
        callers.append(threading.get_ident())
        if len(callers) == 4:
            enough.set()
        return connect(*arguments)

    def noting(deadline):
        if threading.get_ident() in callers:
            earliest.append(deadline)
        return remaining(deadline)

    def welcome_and_end():
        tls = context(keys / "shares", PARAMETERS, accepting=True)
        while not enough.is_set():
            channel = Channel(listener.accept()[0], tls, PARAMETERS, None, LIMIT)
            channel.handshake()
            channel.send(Kind.WELCOME)
            channel.close()

    monkeypatch.setattr(node, "connect", counting)
    monkeypatch.setattr(node, "remaining", noting)
    threading.Thread(target=welcome_and_end, daemon=True).start()
    IntermediateServer(
        0,
        keys / "shares",
        socket.create_server(("127.0.0.1", 0)),
        parameters=listener.getsockname()[:2],
        clients=2,
        ring=Z64,
        time_limit=LIMIT,
    )
    assert enough.wait(LIMIT)
    # measured from the begin of each attempt, so that it does not matter how long one takes
    assert len(earliest) >= 3 and np.diff(earliest).min() >= node._RETRY
    listener.close()


# Memory and numbers -----------------------------------------------------------------------------------


def test_a_header_alone_takes_no_memory(keys):
    """It promises 1 GiB, of which 1 MiB comes."""
    sending, receiving = pair(keys / "shares", 1.0)
    sending.time_limit = LIMIT
    receiving.allowance = lambda: 2**30
    header = Header.of(Kind.VECTOR, 1, sending.ends, 0, memoryview(b""))._replace(length=2**30)
    part = memoryview(bytes(2**20))
    tracemalloc.start()
    try:
        sender = threading.Thread(target=sending.write, args=(header.pack(), part), daemon=True)
        sender.start()
        with pytest.raises(ChannelError, match="client-0 was too slow"):
            receiving.receive()
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    sender.join(LIMIT)
    for end in (sending, receiving):
        end.close()


class NoCallers:
    """A listener that nobody calls."""

    def accept(self):
        threading.Event().wait()


class Tireless:
    """A channel that always has another frame."""

    peer, frames, stops = "client-0", 0, False

    def send(self, *_):
        pass

    def receive(self):
        if self.stops:
            raise ChannelError("stopped")
        self.frames += 1
        return Frame(Kind.KEY, 1, bytearray(16), 0, bytes(16))


def test_a_party_that_sends_on_and_on_is_not_read_ahead(keys):
    """At most two frames wait to be acted on, and one is in the reader's hands."""
    server = node.Node("server-0", keys / "shares", NoCallers(), ["client-0"], LIMIT, {})
    tireless = Tireless()
    threading.Thread(target=server._serve, args=(tireless,), daemon=True).start()
    assert server.next() == ("client-0", None)
    for taken in range(1, 100):
        server.next()
        assert tireless.frames <= taken + 3
    tireless.stops = True
