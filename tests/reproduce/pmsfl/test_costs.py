"""Sizes of the paper's networks against built ones, bytes of a round against counted ones."""

from __future__ import annotations

import pytest
import torch

from repro.models.split import resnet18
from reproduce.papers.pmsfl.costs import (
    local_steps,
    participant_bytes,
    resnet_bottom,
    smashed_numbers,
    transformer_bottom,
)
from reproduce.papers.pmsfl.runs import keys_of, pmsfl_run

CONFIG = dict(
    data="digits_dirichlet", clients=6, heterogeneous=False, width=2, layers=1, heads=2, rounds=1,
    participation=0.5, iterations=3, batch=4, rate=0.01, mask_rate=0.3, floor=0.05,
    gradient="straight_through", evaluate_every=1, reference=4, chunk=4, checkpoint=0, device="cpu",
    agreement=0, ratio=0.5,
)  # fmt: skip


def basic_block(inward: int, out: int) -> torch.nn.Module:
    nn = torch.nn
    layers = [nn.Conv2d(inward, out, 3, bias=False), nn.BatchNorm2d(out)]
    layers += [nn.Conv2d(out, out, 3, bias=False), nn.BatchNorm2d(out)]
    if inward != out:
        layers += [nn.Conv2d(inward, out, 1, bias=False), nn.BatchNorm2d(out)]
    return nn.Sequential(*layers)


@pytest.mark.parametrize("width", [4, 64])
@pytest.mark.parametrize("blocks", [0, 2, 4])
def test_sizes_are_those_of_built_networks(width, blocks):
    nn = torch.nn
    net = [nn.Conv2d(3, width, 3, bias=False), nn.BatchNorm2d(width)]
    before = width
    for block in range(blocks):
        out = width * 2**block
        net += [basic_block(before, out), basic_block(out, out)]
        before = out
    built = sum(p.numel() for p in nn.Sequential(*net).parameters())
    assert resnet_bottom(blocks, width=width) == built
    norms = sum(p.numel() for m in nn.Sequential(*net).modules()
                if isinstance(m, nn.BatchNorm2d) for p in m.parameters())  # fmt: skip
    assert resnet_bottom(blocks, width=width, norm=False) == built - norms


def test_other_sizes():
    layer = torch.nn.TransformerEncoderLayer(768, 2, 1536)
    assert transformer_bottom(2) == 2 * sum(p.numel() for p in layer.parameters())
    assert resnet_bottom(kernel=7) - resnet_bottom() == 40 * 3 * 64
    assert smashed_numbers() == 128 * 16 * 16
    assert smashed_numbers(1) == 64 * 32 * 32
    assert local_steps(500) == 80 and local_steps(32) == 5 and local_steps(1, epochs=1) == 1


def test_computed_bytes_are_the_counted_ones():
    network = resnet18(classes=10, channels=1, width=2, layers=1)
    for method, ratio in (("splitfed", 0.0), ("splitfed_pm", 0.0), ("pmsfl", 0.5), ("pmsfl", 0.0)):
        full = {**CONFIG, "method": method, "ratio": ratio}
        counted = pmsfl_run({key: full[key] for key in keys_of(method)}, 0)
        known = participant_bytes(network, (1, 8, 8), 2, 3 * 4, ratio)
        up = {kind: series[-1] / 3 for kind, series in counted["up"].items()}
        assert up["smashed"] == known["smashed"] + known["labels"]
        assert counted["down"]["smashed"][-1] / 3 == known["smashed"]
        assert counted["down"]["model"][-1] / 3 == known["weights"]
        assert up["model"] == known["bits" if method == "pmsfl" else "weights"]
        # a mask is personal with any share above 0, even where the set is still empty
        assert up.get("indicator", 0) == known["indicator"]


def test_bytes_of_the_papers_network():
    known = participant_bytes(resnet18(classes=100, channels=3), (3, 32, 32), 2, 2500, 0.5)
    assert known["smashed"] == 2500 * 128 * 16 * 16 * 4
    assert known["bits"] * 8 == pytest.approx(known["weights"] / 4 / 2, abs=8)
    with pytest.raises(ValueError, match="depth"):
        participant_bytes(resnet18(classes=10, channels=1, width=2), (1, 8, 8), 5, 10)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: resnet_bottom(5), "blocks"),
        (lambda: resnet_bottom(2, width=0), "width"),
        (lambda: transformer_bottom(-1), "blocks"),
        (lambda: smashed_numbers(0), "blocks"),
        (lambda: local_steps(0), "records"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()
