"""Bytes of every method with mixed depths: computed from the layers, and packed for real."""

import pytest
import torch

from federations import data, make
from repro.federated.pmsfl.split_method import Traffic
from reproduce.papers.pmsfl.runs import METHODS

# make()'s network: channels 2, 4, 8, 16; the stem, two convolutions of each block, the shortcuts
BLOCKS = (
    9 * 2 + 2 * 9 * 4,
    9 * (2 * 4 + 4 * 4) + 2 * 4,
    9 * (4 * 8 + 8 * 8) + 4 * 8,
    9 * (8 * 16 + 16 * 16) + 8 * 16,
)
SMASHED = (2 * 8 * 8, 4 * 4 * 4, 8 * 2 * 2, 16 * 1 * 1)  # numbers of one record after each block
EXITS = tuple(3 * (channels + 1) for channels in (2, 4, 8, 16))
CLIENTS, RECORDS = 8, 2 * 4  # iterations times batch

SIZES = [sum(BLOCKS[:depth]) for depth in (1, 2, 3, 4) * 2]


def bits(count):
    return -(-count // 8)


def by_hand(name):
    """Model bytes up and down, and those of the indicator, of the second of two rounds."""
    if name in ("standalone", "local_only"):
        return 0, 0, 0
    if name == "pmsfl":  # half of each client's masks are personal after the first round
        shared = [size - size // 2 for size in SIZES]
        return sum(map(bits, shared)), 4 * sum(shared), sum(map(bits, SIZES))
    numbers = sum(SIZES)
    if name == "lg_fedavg":
        numbers -= CLIENTS * BLOCKS[0]
    if name == "depthfl":
        numbers += 2 * sum(sum(EXITS[:depth]) for depth in (1, 2, 3, 4))
    return 4 * numbers, 4 * numbers, 0


@pytest.mark.parametrize("name", METHODS)
def test_bytes_of_mixed_depths_are_those_of_what_is_packed(name, monkeypatch):
    own = {"agreement": 0, "ratio": 0.5} if name == "pmsfl" else None
    method = make(name, data(clients=CLIENTS), mixed=True, own=own, participation=1.0, rounds=2)
    method.round(0)
    wire, original = {"up": 0, "down": 0}, Traffic.count

    def packed(self, way, kind, sent):
        payload = sent if isinstance(sent, bytes) else sent.detach().numpy().tobytes()
        wire["up" if way is self.up else "down"] += len(payload)
        original(self, way, kind, sent)

    monkeypatch.setattr(Traffic, "count", packed)
    method.round(1)
    up, down = method.traffic.up, method.traffic.down
    assert wire == {"up": sum(up.values()), "down": sum(down.values())}
    model_up, model_down, indicator = by_hand(name)
    assert (up["model"], down["model"], up.get("indicator", 0)) == (model_up, model_down, indicator)
    smashed = 0 if name == "local_only" else 2 * RECORDS * 4 * sum(SMASHED)
    labels = 0 if name == "local_only" else CLIENTS * RECORDS
    assert down.get("smashed", 0) == smashed
    assert up.get("smashed", 0) == smashed + labels


def test_a_payload_is_counted_by_its_bytes():
    traffic = Traffic()
    traffic.count(traffic.up, "model", b"abc")
    traffic.count(traffic.up, "model", torch.zeros(5))
    traffic.count(traffic.down, "smashed", torch.zeros(5, dtype=torch.uint8))
    assert traffic.up == {"model": 23} and traffic.down == {"smashed": 5}
