"""What stands behind pmsfl's Table 1 and figures 4 and 6: bytes, drift, comparisons, lists of runs."""

import numpy as np
import pytest
import torch

from repro.federated.pmsfl import masks
from repro.models.split import resnet18
from reproduce import catalogue
from reproduce.papers.pmsfl import tables as pmsfl_tables
from reproduce.papers.pmsfl.costs import round_bytes
from reproduce.papers.pmsfl.mask_drift import frozen_by_drift
from reproduce.papers.pmsfl.runs import METHODS, keys_of, pmsfl_run


def test_drift_is_what_sampling_and_averaging_do():
    participants, size = 5, 20_000
    theta, seen = torch.full((size,), 0.5), [0.0]
    for t in range(12):
        generator = torch.Generator().manual_seed(t)
        theta = masks.sample(theta.expand(participants, size), generator).mean(dim=0)
        seen.append(float(masks.frozen(theta).float().mean()))
    assert np.allclose(seen, frozen_by_drift(participants, 12), atol=0.015)
    assert not masks.frozen(masks.kept_inside(theta, 0.01)).any()


def test_limits_of_drift():
    assert frozen_by_drift(1, 3).tolist() == [0.0, 1.0, 1.0, 1.0]
    curve = frozen_by_drift(10, 400)
    assert curve[0] == 0 and np.all(np.diff(curve) >= -1e-12) and curve[-1] == pytest.approx(1)
    assert curve[1] == pytest.approx(2 * 0.5**10)
    # the largest eigenvalue of the chain inside is 1 - 1 / K
    assert (1 - curve[81]) / (1 - curve[80]) == pytest.approx(0.9, rel=1e-6)
    with pytest.raises(ValueError, match="participants"):
        frozen_by_drift(0, 3)


CONFIG = dict(
    data="digits_dirichlet", clients=6, heterogeneous=False, width=2, layers=1, heads=2, rounds=1,
    participation=0.5, iterations=3, batch=4, rate=0.01, mask_rate=0.3, floor=0.05,
    gradient="straight_through", evaluate_every=1, reference=4, chunk=4, checkpoint=0, device="cpu",
    agreement=0, ratio=0.5,
)  # fmt: skip


def test_computed_bytes_are_the_counted_ones():
    network = resnet18(classes=10, channels=1, width=2, layers=1)
    for method, ratio in (("splitfed", 0.0), ("splitfed_pm", 0.0), ("pmsfl", 0.5), ("pmsfl", 0.0)):
        full = {**CONFIG, "method": method, "ratio": ratio}
        counted = pmsfl_run({key: full[key] for key in keys_of(method)}, 0)
        known = round_bytes(network, (1, 8, 8), 2, 3 * 4, ratio)
        up = {kind: series[-1] / 3 for kind, series in counted["up"].items()}
        assert up["smashed"] == known["smashed"] + known["labels"]
        assert counted["down"]["smashed"][-1] / 3 == known["smashed"]
        assert counted["down"]["model"][-1] / 3 == known["weights"]
        assert up["model"] == known["bits" if method == "pmsfl" else "weights"]
        # a mask is personal with any share above 0, even where the set is still empty
        assert up.get("indicator", 0) == known["indicator"]


def test_bytes_of_the_papers_network():
    known = round_bytes(resnet18(classes=100, channels=3), (3, 32, 32), 2, 2500, 0.5)
    assert known["smashed"] == 2500 * 128 * 16 * 16 * 4
    assert known["bits"] * 8 == pytest.approx(known["weights"] / 4 / 2, abs=8)
    with pytest.raises(ValueError, match="depth"):
        round_bytes(resnet18(classes=10, channels=1, width=2), (1, 8, 8), 5, 10)


@pytest.mark.parametrize("profile", ["quick", "desk", "paper"])
@pytest.mark.parametrize("figure", ["table1", "fig4", "fig6"])
def test_the_runs_of_every_profile_have_their_keys(figure, profile):
    entry = catalogue.figure(f"pmsfl/{figure}")
    module, name = entry.runs.split(":")
    assert module == pmsfl_tables.__name__
    tasks = getattr(pmsfl_tables, name)(entry.parameters(profile))
    for _, config, seed in tasks:
        assert set(config) == set(keys_of(config["method"])) and seed in range(3)
    if figure == "table1":
        assert len(tasks) == (6 * 7 + 4) * 3
        assert {config["method"] for _, config, _ in tasks} == set(METHODS)
        results = [{"accuracy": [k]} for k in range(len(tasks))]
        cells = pmsfl_tables.by_cell(entry.parameters(profile), results)
        flat = [r["accuracy"][0] for row in cells.values() for runs in row.values() for r in runs]
        assert flat == list(range(len(tasks)))


def test_quick_runs_are_shared_between_the_figures():
    def made(figure):
        entry = catalogue.figure(f"pmsfl/{figure}")
        tasks = getattr(pmsfl_tables, entry.runs.split(":")[1])(entry.parameters("quick"))
        return {str((sorted(config.items()), seed)) for _, config, seed in tasks}

    # with the control of each
    assert len(made("table1") & made("fig4")) == 5 * 3
    assert len(made("table1") & made("fig6")) == 2 * 3


def test_only_the_papers_own_data_decide_its_numbers():
    setting = pmsfl_tables.SETTINGS
    paper = catalogue.figure("pmsfl/table1").parameters("paper")
    desk = catalogue.figure("pmsfl/table1").parameters("desk")
    assert pmsfl_tables.decides(paper, setting["cifar100"])
    assert not pmsfl_tables.decides(paper, setting["mmhar"])
    assert not pmsfl_tables.decides(desk, setting["cifar100"])
