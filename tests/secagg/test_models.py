"""A parameter server that sends clients different models gets no sum over them."""

import hashlib

import numpy as np
import pytest

from repro.secagg import Z64, Client, FixedPoint, RoundError, share
from repro.secagg.frames import Kind, model_digest
from repro.secagg.parameter_server import ParameterServer
from secure_sums import LIMIT, Servers

CLIENTS, SIZE = 4, 3
MODEL, SPECIAL = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0000000000000004])
VALUES = np.arange(12.0).reshape(CLIENTS, SIZE)
ENCODING = FixedPoint()


class TwoFaced(ParameterServer):
    """Sends the clients in `chosen` another model than the rest."""

    chosen: tuple[str, ...] = ()

    def send(self, name, kind, number, payload=b""):
        if kind == Kind.MODEL and name in self.chosen:
            payload = SPECIAL.astype("<f8").tobytes()
        super().send(name, kind, number, payload)


class Group:
    """Servers of which the parameter server lies, and honest clients."""

    def __init__(self, folder):
        self.servers = Servers(folder, clients=CLIENTS, ring=Z64, centre=TwoFaced)
        self.centre = self.servers.nodes["parameters"]
        self.clients = [
            Client(i, folder, time_limit=LIMIT, **self.servers.places) for i in range(CLIENTS)
        ]

    def round(self):
        encoded = ENCODING.encode(VALUES, clients=CLIENTS)
        parts = dict(zip(self.clients, share(encoded, servers=3).each(), strict=True))

        def give(client, number):
            client.submit(number, parts[client])

        return ENCODING.decode(self.servers.round(self.clients, give, SIZE, MODEL))


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    running = Group(tmp_path_factory.mktemp("keys") / "made")
    yield running
    for party in (*running.clients, running.servers.operator):
        party.close()


@pytest.fixture(autouse=True)
def honest_again(group):
    yield
    group.centre.chosen = ()
    assert (group.round() == VALUES.sum(axis=0)).all()


@pytest.mark.parametrize(
    "chosen", [["client-0"], ["client-2"], ["client-3"], ["client-1", "client-2", "client-3"]]
)
def test_a_client_cannot_be_singled_out(group, chosen):
    group.centre.chosen = chosen
    with pytest.raises(RoundError, match="client-. and client-. were sent different models"):
        group.round()


@pytest.mark.parametrize("honest", [0, 1, 2])
def test_one_honest_server_is_enough(group, honest, monkeypatch):
    """The others do not compare: the parameter server has their sums, and lacks the honest one's."""
    sent = []
    for j in range(3):
        node = group.servers.nodes[f"server-{j}"]
        if j != honest:
            count = type(node)._count
            monkeypatch.setattr(
                node, "_count", lambda name, digest, c=count, n=node: c(n, name, bytes(32))
            )
        send = type(node).send

        def note(name, kind, number, payload=b"", j=j, node=node, send=send):
            if kind == Kind.PARTIAL:
                sent.append(j)
            send(node, name, kind, number, payload)

        monkeypatch.setattr(node, "send", note)
    group.centre.chosen = ["client-1"]
    with pytest.raises(RoundError, match=f"server-{honest}: .* were sent different models"):
        group.round()
    assert honest not in sent


def test_all_clients_can_compare_digests_themselves(group):
    group.round()
    assert len({client.digest for client in group.clients}) == 1
    group.centre.chosen = ["client-2"]
    with pytest.raises(RoundError):
        group.round()
    digests = [client.digest for client in group.clients]
    assert [one == digests[0] for one in digests] == [True, True, False, True]


def test_the_digest_covers_round_and_model():
    model = MODEL.tobytes()
    whole = hashlib.sha256(b"repro.secagg model" + (7).to_bytes(8, "big") + model).digest()
    assert model_digest(7, model) == whole
    others = {model_digest(8, model), model_digest(7, SPECIAL.tobytes()), model_digest(7, b"")}
    assert whole not in others and len(others) == 3
